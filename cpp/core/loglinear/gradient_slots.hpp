// The gradients that the threads of a training make, and their sum.
//
// Sequences are cut into chunks that stay in the cache, and chunks belong to a fixed number of slots,
// by the data alone. A slot has a gradient of its own, and slots are added in order: the sum has the
// same bits for any number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/thread_pool.hpp"
#include "loglinear/loglinear.hpp"
#include "loglinear/supervision.hpp"

namespace trellis {

class GradientSlots {
 public:
  struct Slot {
    std::vector<std::int64_t> chunk_begin;  // sequences; the last entry is the end
    std::int64_t touched = 0;               // state weights [0, touched) may have a gradient here
    AlignedDoubles memory;                  // states, scaled and log counts, edges, dense table
  };

  // The attributes that are dense, and the rows, must stay where they are.
  GradientSlots(const WeightLayout& layout, const Supervision& y, const DenseAttributes& dense,
                const PlannedRows& rows)
      : layout_(layout),
        dense_(dense),
        stride_(padded(layout.labels)),
        square_(static_cast<std::int64_t>(layout.labels) * stride_) {
    cut(y, rows);
  }

  std::int64_t count() const { return static_cast<std::int64_t>(slots_.size()); }
  const Slot& operator[](std::int64_t s) const { return slots_[s]; }
  std::int64_t chunk_rows() const { return chunk_rows_; }  // of the largest chunk
  int stride() const { return stride_; }                   // of the counts of bigrams

  double* states(const Slot& s) const { return s.memory.get(); }
  double* scaled_counts(const Slot& s) const { return s.memory.get() + layout_.states(); }
  double* log_counts(const Slot& s) const { return scaled_counts(s) + square_; }
  double* edges(const Slot& s) const { return log_counts(s) + square_; }
  double* dense(const Slot& s) const { return edges(s) + layout_.edges(); }

  void clear(const Slot& s) const {
    std::fill(states(s), states(s) + s.touched, 0.0);
    std::fill(scaled_counts(s), dense(s) + dense_.table_size(), 0.0);
  }

  // The gradient of all slots but for the bigrams, and of l2 / 2 |w|^2, which is returned.
  double sum(const double* w, double l2, int threads, double* gradient) {
    const std::int64_t first_edge = layout_.states() + layout_.bigrams, n = layout_.size();
    const std::int64_t blocks = (n + kReduceBlock - 1) / kReduceBlock;
    std::vector<double> squares(blocks);
    dense_sum_.assign(static_cast<std::size_t>(dense_.table_size()), 0.0);
    for (const Slot& s : slots_) {
      const double* own = dense(s);
      for (std::size_t k = 0; k < dense_sum_.size(); ++k) dense_sum_[k] += own[k];
    }
    parallel_for(blocks, n < 4 * kReduceBlock ? 1 : threads, [&] {
      return [&, this](std::int64_t block) {
        const std::int64_t begin = block * kReduceBlock, end = std::min(n, begin + kReduceBlock);
        double sum = 0.0;
        for (std::int64_t i = begin; i < end; ++i) {
          gradient[i] = l2 * w[i];
          sum += w[i] * w[i];
        }
        squares[block] = sum;
        for (const Slot& s : slots_) {
          const double* own = states(s);
          const std::int64_t last = std::min(end, s.touched);
          for (std::int64_t i = begin; i < last; ++i) gradient[i] += own[i];
          const double* of_edges = edges(s) - first_edge;
          for (std::int64_t i = std::max(begin, first_edge); i < end; ++i) gradient[i] += of_edges[i];
        }
      };
    });
    dense_.each([&](std::int64_t weight, std::int64_t cell) { gradient[weight] += dense_sum_[cell]; });
    double total = 0.0;
    for (const double s : squares) total += s;
    return 0.5 * l2 * total;
  }

  // Expected bigrams, of which the scaled ones are times a weight if there is one, less the observed.
  void add_bigrams(const double* weight, const double* observed, double* gradient) const {
    for (std::int64_t i = 0; i < layout_.bigrams; ++i) {
      const int a = layout_.bigram[i] / layout_.labels, b = layout_.bigram[i] % layout_.labels;
      const std::int64_t cell = static_cast<std::int64_t>(a) * stride_ + b;
      double scaled = 0.0, log = 0.0;
      for (const Slot& slot : slots_) {
        scaled += scaled_counts(slot)[cell];
        log += log_counts(slot)[cell];
      }
      if (weight != nullptr) scaled *= weight[cell];
      gradient[i] += scaled + log - observed[layout_.bigram[i]];
    }
  }

 private:
  static constexpr std::int64_t kChunkRows = 1536;
  static constexpr std::int64_t kMatrixBytes = 8 << 20;  // of position-dependent transitions in a chunk
  static constexpr std::int64_t kSlotBytes = 256 << 20;  // of all gradients together
  static constexpr std::int64_t kReduceBlock = 1 << 14;

  void cut(const Supervision& y, const PlannedRows& planned) {
    const std::int64_t rows = y.row_begin[y.sequences], labels = layout_.labels;
    std::int64_t most_rows = kChunkRows;
    if (layout_.edge_attributes > 0) {
      most_rows = std::max<std::int64_t>(1, kMatrixBytes / (8 * labels * labels));
    }
    const double work = planned.work() + 0.25 * static_cast<double>(rows * labels * labels);
    const std::int64_t bytes = 8 * (layout_.size() + 2 * square_ + dense_.table_size());
    const auto worth =
        static_cast<std::int64_t>(work / (14.0 * static_cast<double>(layout_.size() + 1)));
    // an even number, as most machines have of cores
    const std::int64_t count =
        std::clamp<std::int64_t>(std::min(worth, kSlotBytes / bytes) / 2 * 2, 2, 16);
    std::int64_t i = 0;
    for (std::int64_t s = 0; s < count; ++s) {
      Slot slot;
      const std::int64_t first = i;
      while (i < y.sequences && y.row_begin[i] < rows * (s + 1) / count) {
        slot.chunk_begin.push_back(i);
        const std::int64_t begin = y.row_begin[i];
        do ++i;
        while (i < y.sequences && y.row_begin[i + 1] - begin <= most_rows);
        chunk_rows_ = std::max(chunk_rows_, y.row_begin[i] - begin);
      }
      slot.chunk_begin.push_back(i);
      slot.touched = planned.touched(y.row_begin[first], y.row_begin[i]);
      slot.memory = aligned_doubles(bytes / 8);
      slots_.push_back(std::move(slot));
    }
  }

  WeightLayout layout_;
  const DenseAttributes& dense_;
  int stride_;
  std::int64_t square_;
  std::int64_t chunk_rows_ = 0;
  std::vector<Slot> slots_;
  std::vector<double> dense_sum_;
};

}  // namespace trellis
