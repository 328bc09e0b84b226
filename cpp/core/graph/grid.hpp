// Belief propagation on a grid. Each sweep passes messages down and up all columns, then right and left
// along all rows; each line is an exact chain given the messages that cross it. Parallel lines do not
// depend on each other, so threads can process them in any order and the result has the same bits.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "base/aligned.hpp"
#include "base/thread_pool.hpp"
#include "graph/grid_types.hpp"

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
  std::int64_t max_sweeps;
  int threads;
  double horizontal_weight = 1.0, vertical_weight = 1.0;  // a weight below 1 means tree-reweighted
};

struct GridReport {
  std::int64_t sweeps;
  double residual;  // the largest change in the last sweep
  bool converged;
};

class Grid {
 public:
  // The tables are copied; `unary` must outlive this object.
  Grid(const GridScores& scores, const GridKernels& kernels, const GridOptions& options)
      : s_(scores), kernels_(kernels), options_(options), odds_(can_use_odds(scores, options)) {
    const int planes = odds_ ? 1 : scores.labels;
    columns_.set_up(scores.height, scores.width, planes);
    rows_.set_up(scores.width, scores.height, planes);
    const std::int64_t labels = scores.labels;
    for_each_pixel([&](std::int64_t r, std::int64_t c) {
      for (std::int64_t l = 0; l < planes; ++l) {
        const double* scores_here = s_.unary + (r * s_.width + c) * labels;
        columns_.unary[columns_.at(r, l, c)] = rows_.unary[rows_.at(c, l, r)] =
            odds_ ? scores_here[1] - scores_here[0] : scores_here[l];
      }
    });
    const std::int64_t cells = labels * labels;
    columns_.weight = options.vertical_weight;
    rows_.weight = options.horizontal_weight;
    columns_.copy_tables(s_.vertical, s_.vertical_shared, cells, s_.width * cells, cells);
    rows_.copy_tables(s_.horizontal, s_.horizontal_shared, cells, cells, (s_.width - 1) * cells);
  }

  GridReport run() {
    GridReport report{0, std::numeric_limits<double>::max(), false};
    while (!report.converged && report.sweeps < options_.max_sweeps) {
      report.residual = sweep(columns_, rows_);
      report.residual = std::max(report.residual, sweep(rows_, columns_));
      ++report.sweeps;
      report.converged = report.residual <= options_.tolerance;
    }
    return report;
  }

  // Writes beliefs, (height, width, labels), as probabilities. Returns false if a pixel has no possible
  // label.
  bool beliefs(double* out) const {
    std::atomic<bool> possible{true};
    for_each_pixel([&](std::int64_t r, std::int64_t c) {
      double* p = out + (r * s_.width + c) * s_.labels;
      const auto message_sum = [&](std::int64_t l) {
        const std::int64_t i = columns_.at(r, l, c), j = rows_.at(c, l, r);
        return columns_.weight * (columns_.message[i] + columns_.message[columns_.plane() + i]) +
               rows_.weight * (rows_.message[j] + rows_.message[rows_.plane() + j]);
      };
      if (odds_) {
        const double x = message_sum(0) + columns_.unary[columns_.at(r, 0, c)];
        const double e = std::exp(-std::fabs(x));
        p[x > 0.0] = 1.0 / (1.0 + e);
        p[x <= 0.0] = e / (1.0 + e);
        return;
      }
      double top = -std::numeric_limits<double>::infinity(), sum = 0.0;
      for (std::int64_t l = 0; l < s_.labels; ++l) {
        p[l] = message_sum(l) + columns_.unary[columns_.at(r, l, c)];
        top = std::max(top, p[l]);
      }
      if (!(top > -std::numeric_limits<double>::infinity())) possible = false;
      for (std::int64_t l = 0; l < s_.labels; ++l) sum += p[l] = std::exp(p[l] - top);
      for (std::int64_t l = 0; l < s_.labels; ++l) p[l] /= sum;
    });
    return possible;
  }

  // Writes the messages, (4, height, width, labels): from above, below, the left and the right.
  void messages(double* out) const {
    const std::int64_t plane = s_.height * s_.width * s_.labels;
    for_each_pixel([&](std::int64_t r, std::int64_t c) {
      double* pixel = out + (r * s_.width + c) * s_.labels;
      for (std::int64_t l = 0; l < s_.labels; ++l) {
        // For log odds d, the message whose largest entry is 0 is (min(0, -d), min(0, d)).
        const auto value = [&](const Lines& lines, std::int64_t at) {
          const double m = lines.message[at];
          return odds_ ? std::min(0.0, l == 0 ? -m : m) : m;
        };
        const std::int64_t i = columns_.at(r, odds_ ? 0 : l, c), j = rows_.at(c, odds_ ? 0 : l, r);
        pixel[l] = value(columns_, i);
        pixel[l + plane] = value(columns_, columns_.plane() + i);
        pixel[l + 2 * plane] = value(rows_, j);
        pixel[l + 3 * plane] = value(rows_, rows_.plane() + j);
      }
    });
  }

 private:
  static constexpr std::int64_t kLanes = 4 * kGridBlock;       // lines per task
  static constexpr std::int64_t kMinThreadedPixels = 1 << 15;  // pixels; smaller grids use one thread

  // All lines of one direction. Lanes are the positions in the other direction.
  struct Lines {
    std::int64_t positions, real_lanes, lanes;  // real_lanes: lanes that are not padding
    int labels;
    double weight;
    bool shared;
    AlignedDoubles unary, field;  // (positions, labels, lanes)
    AlignedDoubles message;       // (2, positions, labels, lanes): forward, backward
    AlignedDoubles table, psi;    // see GridLines

    std::int64_t plane() const { return positions * labels * lanes; }
    std::int64_t at(std::int64_t i, std::int64_t l, std::int64_t lane) const {
      return (i * labels + l) * lanes + lane;
    }

    void set_up(std::int64_t positions_, std::int64_t real_lanes_, int labels_) {
      positions = positions_;
      real_lanes = real_lanes_;
      labels = labels_;
      lanes = (real_lanes + kGridBlock - 1) / kGridBlock * kGridBlock;
      unary = zeros(plane());
      field = zeros(plane());
      // Transposing reads full blocks, also past the last message.
      message = zeros(2 * plane() + kGridBlock);
    }

    static AlignedDoubles zeros(std::int64_t count) {
      AlignedDoubles out = aligned_doubles(std::max<std::int64_t>(1, count));
      std::fill(out.get(), out.get() + count, 0.0);
      return out;
    }

    // Copies the tables of the edges along the lines, and computes psi. by_position and by_lane are the
    // strides of `scores` from one position, and from one lane, to the next.
    void copy_tables(const double* scores, bool shared_, std::int64_t cells, std::int64_t by_position,
                     std::int64_t by_lane) {
      shared = shared_;
      const std::int64_t edges = shared ? 1 : positions - 1, per_edge = shared ? 1 : lanes;
      table = zeros(edges * cells * per_edge);
      psi = zeros(edges * cells * per_edge);
      std::fill(psi.get(), psi.get() + edges * cells * per_edge, 1.0);  // the padding is filled too
      for (std::int64_t i = 0; i < edges; ++i) {
        poll_interrupt();
        for (std::int64_t j = 0; j < (shared ? 1 : real_lanes); ++j) {
          const double* scores_here = scores + i * by_position + j * by_lane;
          const double top = *std::max_element(scores_here, scores_here + cells);
          const bool possible = top > -std::numeric_limits<double>::infinity();
          for (std::int64_t k = 0; k < cells; ++k) {
            table[(i * cells + k) * per_edge + j] = scores_here[k] / weight;
            psi[(i * cells + k) * per_edge + j] =
                possible ? std::exp((scores_here[k] - top) / weight) : 0.0;
          }
        }
      }
    }
  };

  // Returns whether two labels can be represented by their log odds: all scores must be finite, and psi
  // must not underflow.
  static bool can_use_odds(const GridScores& s, const GridOptions& options) {
    if (s.labels != 2 || options.max_product) return false;
    const double weight = std::min(options.horizontal_weight, options.vertical_weight);
    const auto is_narrow = [&](const double* tables, std::int64_t count) {
      for (const double* table = tables; table < tables + 4 * count; table += 4) {
        const auto [low, high] = std::minmax_element(table, table + 4);
        if (!(*high - *low <= kGridSpan * weight)) return false;
      }
      return true;
    };
    if (!is_narrow(s.horizontal, s.horizontal_shared ? 1 : s.height * (s.width - 1)) ||
        !is_narrow(s.vertical, s.vertical_shared ? 1 : (s.height - 1) * s.width)) {
      return false;
    }
    return std::all_of(s.unary, s.unary + 2 * s.height * s.width,
                       [](double u) { return std::isfinite(u); });
  }

  // Calls work(row, column) for all pixels. A task is kGridBlock rows: in the arrays of the columns,
  // these rows of one column share a cache line.
  template <class Work>
  void for_each_pixel(const Work& work) const {
    parallel_for((s_.height + kGridBlock - 1) / kGridBlock, threads(), [&] {
      return [&](std::int64_t tile) {
        const std::int64_t end = std::min(s_.height, (tile + 1) * kGridBlock);
        for (std::int64_t c = 0; c < s_.width; ++c) {
          for (std::int64_t r = tile * kGridBlock; r < end; ++r) work(r, c);
        }
      };
    });
  }

  int threads() const { return s_.height * s_.width < kMinThreadedPixels ? 1 : options_.threads; }

  // Runs one sweep along `along`, given the messages of the lines `across`; returns the largest change.
  double sweep(Lines& along, const Lines& across) const {
    const GridLines view{.positions = along.positions,
                         .lanes = along.lanes,
                         .labels = along.labels,
                         .unary = along.unary.get(),
                         .across = across.message.get(),
                         .crossing = across.lanes,
                         .crossed = along.real_lanes,
                         .field = along.field.get(),
                         .forward = along.message.get(),
                         .backward = along.message.get() + along.plane(),
                         .table = along.table.get(),
                         .psi = along.psi.get(),
                         .shared = along.shared,
                         .damping = options_.damping,
                         .weight = along.weight,
                         .crossing_weight = across.weight,
                         .odds = odds_};
    const auto kernel = options_.max_product ? kernels_.max_product : kernels_.sum_product;
    const std::int64_t tasks = (along.lanes + kLanes - 1) / kLanes;
    std::vector<double> change(static_cast<std::size_t>(tasks));
    parallel_for(tasks, threads(), [&] {
      return [&, scratch = aligned_doubles(2 * kGridBlock * along.labels)](std::int64_t task) {
        const std::int64_t begin = task * kLanes, end = std::min(along.lanes, begin + kLanes);
        change[task] = kernel(view, begin, end, scratch.get());
      };
    });
    return *std::max_element(change.begin(), change.end());
  }

  const GridScores s_;
  const GridKernels& kernels_;
  const GridOptions options_;
  const bool odds_;  // two labels, represented by their log odds
  Lines columns_, rows_;
};

}  // namespace trellis
