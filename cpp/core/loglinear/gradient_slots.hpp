// The gradients that the threads compute in training, and their sum.
//
// Sequences are divided into chunks that fit in the cache, and chunks into a fixed number of slots. This
// division depends on the data alone. Each slot has its own gradient, and the slots are added in a fixed
// order, so the sum has the same bits for any number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/aligned.hpp"
#include "base/thread_pool.hpp"
#include "chain/types.hpp"
#include "loglinear/row_plan.hpp"
#include "loglinear/training_labels.hpp"

namespace trellis {

class GradientSlots {
 public:
  struct Slot {
    std::vector<std::int64_t> chunk_begin;  // (chunks + 1): the first sequence of each chunk
    std::int64_t touched = 0;               // only state weights [0, touched) can have a gradient here
    // The gradients of states, scaled counts, log counts, edges, trigrams and the dense table, in this
    // order.
    AlignedDoubles memory;
  };

  // `dense` and `rows` must outlive this object.
  GradientSlots(const WeightLayout& layout, const TrainingLabels& y, const DenseAttributes& dense,
                const PlannedRows& rows)
      : layout_(layout),
        dense_(dense),
        stride_(padded(layout.labels)),
        square_(static_cast<std::int64_t>(layout.labels) * stride_) {
    cut(y, rows);
  }

  std::int64_t count() const { return static_cast<std::int64_t>(slots_.size()); }
  const Slot& operator[](std::int64_t s) const { return slots_[s]; }
  std::int64_t chunk_rows() const { return chunk_rows_; }  // the rows of the largest chunk
  int stride() const { return stride_; }  // the stride of the bigram counts, (labels, stride)

  double* states(const Slot& s) const { return s.memory.get(); }
  double* scaled_counts(const Slot& s) const { return s.memory.get() + layout_.states(); }
  double* log_counts(const Slot& s) const { return scaled_counts(s) + square_; }
  double* edges(const Slot& s) const { return log_counts(s) + square_; }
  double* trigrams(const Slot& s) const { return edges(s) + layout_.edges(); }
  double* dense(const Slot& s) const { return trigrams(s) + layout_.trigrams; }

  // Sets a slot's gradient to 0, except for weights that cannot have a gradient in this slot.
  void clear(const Slot& s) const {
    std::fill(states(s), states(s) + s.touched, 0.0);
    std::fill(scaled_counts(s), dense(s) + dense_.table_size(), 0.0);
  }

  // Writes the sum of the gradients of all slots, without the bigrams, plus the gradient of l2 / 2
  // |w|^2. Returns l2 / 2 |w|^2.
  double sum(const double* w, double l2, int threads, double* gradient) {
    const std::int64_t first_edge = layout_.states() + layout_.bigrams, n = layout_.size();
    const std::int64_t blocks = (n + kReduceBlock - 1) / kReduceBlock;
    std::vector<double> squares(blocks);
    dense_sum_.assign(static_cast<std::size_t>(dense_.table_size()), 0.0);
    for (const Slot& s : slots_) {
      const double* slot_table = dense(s);
      for (std::size_t k = 0; k < dense_sum_.size(); ++k) dense_sum_[k] += slot_table[k];
    }
    // A sum of fewer than four blocks runs on one thread; the limit was chosen by hand.
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
          const double* slot_gradient = states(s);
          const std::int64_t last = std::min(end, s.touched);
          for (std::int64_t i = begin; i < last; ++i) gradient[i] += slot_gradient[i];
          const double* edge_gradient = edges(s) - first_edge;  // trigrams follow the edges
          for (std::int64_t i = std::max(begin, first_edge); i < end; ++i)
            gradient[i] += edge_gradient[i];
        }
      };
    });
    dense_.for_each_weight(
        [&](std::int64_t weight, std::int64_t cell) { gradient[weight] += dense_sum_[cell]; });
    double total = 0.0;
    for (const double s : squares) total += s;
    return 0.5 * l2 * total;
  }

  // Adds the expected minus the observed bigrams. Scaled counts are multiplied by `weight`, (labels,
  // stride), unless it is null; observed is (labels, labels).
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
  // The number of rows of a chunk. Other sizes did not help (docs/notes/benchmarks.md).
  static constexpr std::int64_t kChunkRows = 1536;
  // Bytes of the position-dependent transitions of a chunk.
  static constexpr std::int64_t kMatrixBytes = 8 << 20;
  static constexpr std::int64_t kSlotBytes = 256 << 20;  // bytes of all gradients together
  static constexpr std::int64_t kReduceBlock = 1 << 14;  // weights per task of sum()
  static constexpr std::int64_t kMinSlots = 2, kMaxSlots = 16;

  // Returns the largest number of rows of a chunk.
  std::int64_t max_chunk_rows() const {
    if (layout_.edge_attributes == 0) return kChunkRows;
    const std::int64_t matrix_bytes = 8 * std::int64_t{layout_.labels} * layout_.labels;
    return std::max<std::int64_t>(1, kMatrixBytes / matrix_bytes);
  }

  // Returns the number of slots. The work of each slot must be much larger than adding up its gradient.
  // Work is estimated in multiply-adds: 0.25 per label pair of forward-backward, 14 per weight. These
  // factors were chosen by hand; no measurement is recorded.
  std::int64_t slot_count(std::int64_t rows, double row_work, std::int64_t slot_bytes) const {
    const std::int64_t labels = layout_.labels;
    const double work = row_work + 0.25 * static_cast<double>(rows * labels * labels);
    const auto worthwhile_slots =
        static_cast<std::int64_t>(work / (14.0 * static_cast<double>(layout_.size() + 1)));
    // an even number, because most CPUs have an even number of cores
    const std::int64_t even_slots = std::min(worthwhile_slots, kSlotBytes / slot_bytes) / 2 * 2;
    return std::clamp<std::int64_t>(even_slots, kMinSlots, kMaxSlots);
  }

  void cut(const TrainingLabels& y, const PlannedRows& planned) {
    const std::int64_t rows = y.row_begin[y.sequences], max_rows = max_chunk_rows();
    const std::int64_t bytes = 8 * (layout_.size() + 2 * square_ + dense_.table_size());
    const std::int64_t count = slot_count(rows, planned.work(), bytes);
    std::int64_t i = 0;
    for (std::int64_t s = 0; s < count; ++s) {
      Slot slot;
      const std::int64_t first = i;
      while (i < y.sequences && y.row_begin[i] < rows * (s + 1) / count) {
        slot.chunk_begin.push_back(i);
        const std::int64_t begin = y.row_begin[i];
        do ++i;
        while (i < y.sequences && y.row_begin[i + 1] - begin <= max_rows);
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
  std::int64_t square_;  // labels * stride
  std::int64_t chunk_rows_ = 0;
  std::vector<Slot> slots_;
  std::vector<double> dense_sum_;  // (dense_.table_size()): the sum of the slots' dense tables
};

}  // namespace trellis
