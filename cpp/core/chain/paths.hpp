// One given path per sequence of a batch: its score, and the expected counts minus its counts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/poll.hpp"
#include "chain/shared_scores.hpp"
#include "chain/types.hpp"

namespace trellis {

// The results of forward-backward; pairwise and counts may be null.
template <class T>
struct MarginalsOut {
  T* unary;                             // (rows, labels)
  T* pairwise;                          // (matrices, labels, labels)
  const std::int64_t* pairwise_starts;  // (count): the first matrix of each sequence
  double* counts;                       // (labels, labels): sum of all pairwise marginals
  double* log_z;                        // (count)
  Outcome* outcomes;                    // (count)
  const double* weights = nullptr;      // (count): sequence weights; null: all 1

  double weight(std::int64_t i) const { return weights == nullptr ? 1.0 : weights[i]; }
};

template <class T>
class ChainPaths {
 public:
  ChainPaths(const Batch<T>& batch, const SharedView& shared) : batch_(batch), s_(shared) {}

  // Returns the score of label b at position t, start and end scores included.
  double unary(const Sequence<T>& x, std::int64_t t, int b) const {
    return x.unary[t * s_.labels + b] + edge_of(s_, t, x.length)[b];
  }

  // Returns the score of the step from label a at t-1 to label b at t.
  double transition(const Sequence<T>& x, std::int64_t t, int a, int b) const {
    if (s_.log != nullptr) return s_.log[a * s_.stride + b];
    return x.transition[((t - 1) * s_.labels + a) * s_.labels + b];
  }

  // Computes the score of one path per sequence; labels has one entry per row.
  void score(const std::int64_t* labels, double* scores, Outcome* outcomes) const {
    for (std::int64_t i = 0; i < batch_.count; ++i) {
      const Sequence<T> x = batch_.sequence(i);
      const std::int64_t* y = labels + batch_.starts[i];
      double total = 0.0;
      outcomes[i] = check(x, y, &total);
      if (outcomes[i].status == Status::ok) scores[i] = total;
    }
  }

  // Changes out.log_z to -log p(path), and out.unary etc. to its gradient; see
  // ChainBatch::subtract_paths.
  void subtract(const std::int64_t* labels, const MarginalsOut<T>& out) const {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    for (std::int64_t i = 0; i < batch_.count; ++i) {
      double score = 0.0;
      out.outcomes[i] = subtract_one(i, labels + batch_.starts[i], out, &score);
      out.log_z[i] = score == -kInfinity ? kInfinity : out.log_z[i] - score;
    }
  }

 private:
  // Returns the contribution of label b at position t, after label a at t - 1, to the score.
  double step(const Sequence<T>& x, std::int64_t t, std::int64_t a, std::int64_t b) const {
    const int from = static_cast<int>(a), to = static_cast<int>(b);
    return unary(x, t, to) + (t == 0 ? 0.0 : transition(x, t, from, to));
  }

  bool is_label(std::int64_t y) const { return 0 <= y && y < s_.labels; }

  Outcome subtract_one(std::int64_t i, const std::int64_t* y, const MarginalsOut<T>& out,
                       double* score) const {
    const Sequence<T> x = batch_.sequence(i);
    T* const rows = out.unary + batch_.starts[i] * s_.labels;
    const double weight = out.weight(i);
    const std::int64_t square = static_cast<std::int64_t>(s_.labels) * s_.labels;
    PollEvery poll(kRowCost);
    // Each label is read once, because another thread could change it between the check and the use.
    for (std::int64_t t = 0, a = 0, b = 0; t < x.length; ++t, a = b) {
      poll.step();
      b = read_label(y + t);
      if (!is_label(b)) return {Status::bad_label, t};
      rows[t * s_.labels + b] -= static_cast<T>(weight);
      *score += step(x, t, a, b);
      if (t == 0) continue;
      const std::int64_t pair = a * s_.labels + b;
      if (out.counts != nullptr) out.counts[pair] -= weight;
      if (out.pairwise != nullptr) {
        out.pairwise[(out.pairwise_starts[i] + t - 1) * square + pair] -= static_cast<T>(weight);
      }
    }
    return {};
  }

  // Reads a label exactly once: the compiler may repeat a plain load.
  static std::int64_t read_label(const std::int64_t* y) {
    return *static_cast<const volatile std::int64_t*>(y);
  }

  // Validates labels and all scores of the sequence, whether the path uses them or not. Adds up the
  // score of the path.
  Outcome check(const Sequence<T>& x, const std::int64_t* y, double* score) const {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const auto is_invalid = [](T score) {
      const double s = score;
      return !(s >= -kLargestScore && s <= kLargestScore) && s != -kInfinity;
    };
    if (!s_.in_range) return {Status::bad_unary, 0};
    const std::int64_t square = static_cast<std::int64_t>(s_.labels) * s_.labels;
    PollEvery poll(kRowCost + (x.transition == nullptr ? s_.labels : square));
    for (std::int64_t t = 0, a = 0, b = 0; t < x.length; ++t, a = b) {
      poll.step();
      b = read_label(y + t);
      if (!is_label(b)) return {Status::bad_label, t};
      const T* row = x.unary + t * s_.labels;
      if (std::any_of(row, row + s_.labels, is_invalid)) return {Status::bad_unary, t};
      if (t > 0 && x.transition != nullptr) {
        const T* matrix = x.transition + (t - 1) * square;
        if (std::any_of(matrix, matrix + square, is_invalid)) return {Status::bad_transition, t};
      }
      *score += step(x, t, a, b);
    }
    return {};
  }

  const Batch<T>& batch_;
  const SharedView& s_;
};

}  // namespace trellis
