// Belief propagation on a grid: each sweep passes messages down and up all columns, then along all rows
// and back, each line as an exact chain given what crosses it. Lines that run side by side do not hear
// each other, so that threads can take any of them and the result has the same bits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "aligned.hpp"
#include "grid_types.hpp"
#include "thread_pool.hpp"

namespace trellis {

struct GridScores {
  std::int64_t height, width;
  int labels;
  const double* unary;       // (height, width, labels)
  const double* horizontal;  // (labels, labels), or (height, width - 1, labels, labels)
  const double* vertical;    // (labels, labels), or (height - 1, width, labels, labels)
  bool horizontal_shared, vertical_shared;
};

struct GridOptions {
  bool max_product;
  double damping, tolerance;
  std::int64_t most;
  int threads;
};

struct GridReport {
  std::int64_t sweeps;
  double residual;
  bool converged;
};

class Grid {
 public:
  Grid(const GridScores& scores, const GridKernels& kernels) : s_(scores), kernels_(kernels) {
    columns_.set_up(scores.height, scores.width, scores.labels);
    rows_.set_up(scores.width, scores.height, scores.labels);
    const std::int64_t labels = scores.labels;
    for (std::int64_t r = 0; r < s_.height; ++r) {
      for (std::int64_t c = 0; c < s_.width; ++c) {
        for (std::int64_t l = 0; l < labels; ++l) {
          const double u = s_.unary[(r * s_.width + c) * labels + l];
          columns_.unary[columns_.at(r, l, c)] = u;
          rows_.unary[rows_.at(c, l, r)] = u;
        }
      }
    }
    columns_.take(s_.vertical, s_.vertical_shared, s_.width * labels * labels, labels * labels);
    rows_.take(s_.horizontal, s_.horizontal_shared, labels * labels, (s_.width - 1) * labels * labels);
  }

  GridReport run(const GridOptions& options) {
    GridReport report{0, std::numeric_limits<double>::max(), false};
    while (!report.converged && report.sweeps < options.most) {
      report.residual = sweep(columns_, rows_, options);
      report.residual = std::max(report.residual, sweep(rows_, columns_, options));
      ++report.sweeps;
      report.converged = report.residual <= options.tolerance;
    }
    return report;
  }

  // (4, height, width, labels): from above, from below, from the left, from the right.
  void messages(double* out) const {
    const std::int64_t plane = s_.height * s_.width * s_.labels;
    for (std::int64_t r = 0; r < s_.height; ++r) {
      for (std::int64_t c = 0; c < s_.width; ++c) {
        for (std::int64_t l = 0; l < s_.labels; ++l, ++out) {
          out[0] = columns_.message[columns_.at(r, l, c)];
          out[plane] = columns_.message[columns_.plane() + columns_.at(r, l, c)];
          out[2 * plane] = rows_.message[rows_.at(c, l, r)];
          out[3 * plane] = rows_.message[rows_.plane() + rows_.at(c, l, r)];
        }
      }
    }
  }

 private:
  static constexpr std::int64_t kLanes = 4 * kGridBlock;  // that a thread takes at a time
  static constexpr std::int64_t kWorthThreads = 1 << 15;  // pixels; below, a sweep is too short to share

  // All lines of one direction; their lanes are the positions of the other.
  struct Lines {
    std::int64_t positions, real, lanes;
    int labels;
    AlignedDoubles unary, field, message, table;
    std::vector<double> psi;

    std::int64_t plane() const { return positions * labels * lanes; }
    std::int64_t at(std::int64_t i, std::int64_t l, std::int64_t lane) const {
      return (i * labels + l) * lanes + lane;
    }

    void set_up(std::int64_t positions_, std::int64_t real_, int labels_) {
      positions = positions_;
      real = real_;
      labels = labels_;
      lanes = (real + kGridBlock - 1) / kGridBlock * kGridBlock;
      unary = zeros(plane());
      field = zeros(plane());
      message = zeros(2 * plane() + kGridBlock);  // the transposition reads whole blocks
    }

    static AlignedDoubles zeros(std::int64_t count) {
      AlignedDoubles out = aligned_doubles(std::max<std::int64_t>(1, count));
      std::fill(out.get(), out.get() + count, 0.0);
      return out;
    }

    // Tables of the edges along the lines, by their strides from position to position and lane to lane.
    void take(const double* scores, bool shared, std::int64_t by_position, std::int64_t by_lane) {
      const std::int64_t cells = static_cast<std::int64_t>(labels) * labels;
      if (shared) {
        table = zeros(cells);
        std::copy(scores, scores + cells, table.get());
        const double top = *std::max_element(scores, scores + cells);
        for (std::int64_t k = 0; k < cells; ++k) {
          psi.push_back(top > -std::numeric_limits<double>::infinity() ? std::exp(scores[k] - top)
                                                                       : 0.0);
        }
        return;
      }
      table = zeros((positions - 1) * cells * lanes);
      for (std::int64_t i = 0; i + 1 < positions; ++i) {
        for (std::int64_t j = 0; j < real; ++j) {
          const double* own = scores + i * by_position + j * by_lane;
          for (std::int64_t k = 0; k < cells; ++k) table[(i * cells + k) * lanes + j] = own[k];
        }
      }
    }
  };

  double sweep(Lines& own, const Lines& across, const GridOptions& options) const {
    const GridLines view{own.positions,
                         own.lanes,
                         own.labels,
                         own.unary.get(),
                         across.message.get(),
                         across.lanes,
                         own.real,
                         own.field.get(),
                         own.message.get(),
                         own.message.get() + own.plane(),
                         own.table.get(),
                         own.psi.empty() ? nullptr : own.psi.data(),
                         options.damping};
    const auto kernel = options.max_product ? kernels_.max_product : kernels_.sum_product;
    const std::int64_t tasks = (own.lanes + kLanes - 1) / kLanes;
    std::vector<double> change(static_cast<std::size_t>(tasks));
    const int threads = s_.height * s_.width < kWorthThreads ? 1 : options.threads;
    parallel_for(tasks, threads, [&] {
      return [&, scratch = aligned_doubles(2 * kGridBlock * own.labels)](std::int64_t task) {
        const std::int64_t begin = task * kLanes, end = std::min(own.lanes, begin + kLanes);
        change[task] = kernel(view, begin, end, scratch.get());
      };
    });
    return *std::max_element(change.begin(), change.end());
  }

  const GridScores s_;
  const GridKernels& kernels_;
  Lines columns_, rows_;
};

}  // namespace trellis
