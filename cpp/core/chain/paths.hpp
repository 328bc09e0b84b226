// Given paths through the trellises of a batch: their scores, and what is left of expected counts when
// those of the paths are taken off.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "chain/shared.hpp"
#include "chain/types.hpp"

namespace trellis {

// Where the results of forward-backward go; pairwise and counts may be null.
template <class T>
struct MarginalsOut {
  T* unary;                             // (rows, labels)
  T* pairwise;                          // (matrices, labels, labels)
  const std::int64_t* pairwise_starts;  // the first matrix of each sequence
  double* counts;                       // (labels, labels): pairwise marginals, summed over everything
  double* log_z;                        // (count)
  Outcome* outcomes;                    // (count)
  const double* weights = nullptr;      // (count): how much each sequence counts; null: 1

  double weight(std::int64_t i) const { return weights == nullptr ? 1.0 : weights[i]; }
};

template <class T>
class ChainPaths {
 public:
  ChainPaths(const Batch<T>& batch, const Shared& shared) : batch_(batch), s_(shared) {}

  double unary(const Sequence<T>& x, std::int64_t t, int b) const {
    return x.unary[t * s_.labels + b] + edge_of(s_, t, x.length)[b];
  }

  double transition(const Sequence<T>& x, std::int64_t t, int a, int b) const {
    if (s_.log != nullptr) return s_.log[a * s_.stride + b];
    return x.transition[((t - 1) * s_.labels + a) * s_.labels + b];
  }

  // The score of one given path of each sequence.
  void score(const std::int64_t* labels, double* scores, Outcome* outcomes) const {
    for (std::int64_t i = 0; i < batch_.count; ++i) {
      const Sequence<T> x = batch_.sequence(i);
      const std::int64_t* y = labels + batch_.starts[i];
      outcomes[i] = check(x, y);
      if (outcomes[i].status != Status::ok) continue;
      double total = 0.0;
      for (std::int64_t t = 0; t < x.length; ++t) total += step(x, t, y);
      scores[i] = total;
    }
  }

  void subtract(const std::int64_t* labels, const MarginalsOut<T>& out) const {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    for (std::int64_t i = 0; i < batch_.count; ++i) {
      double score = 0.0;
      out.outcomes[i] = subtract_one(i, labels + batch_.starts[i], out, &score);
      out.log_z[i] = score == -kInfinity ? kInfinity : out.log_z[i] - score;
    }
  }

 private:
  // What position t adds to the score of labels y, all of them in range.
  double step(const Sequence<T>& x, std::int64_t t, const std::int64_t* y) const {
    const int b = static_cast<int>(y[t]);
    return unary(x, t, b) + (t == 0 ? 0.0 : transition(x, t, static_cast<int>(y[t - 1]), b));
  }

  bool is_label(std::int64_t y) const { return 0 <= y && y < s_.labels; }

  Outcome subtract_one(std::int64_t i, const std::int64_t* y, const MarginalsOut<T>& out,
                       double* score) const {
    const Sequence<T> x = batch_.sequence(i);
    T* const rows = out.unary + batch_.starts[i] * s_.labels;
    const double weight = out.weight(i);
    const std::int64_t square = static_cast<std::int64_t>(s_.labels) * s_.labels;
    for (std::int64_t t = 0; t < x.length; ++t) {
      if (!is_label(y[t])) return {Status::bad_label, t};
      rows[t * s_.labels + y[t]] -= static_cast<T>(weight);
      *score += step(x, t, y);
      if (t == 0) continue;
      const std::int64_t pair = y[t - 1] * s_.labels + y[t];
      if (out.counts != nullptr) out.counts[pair] -= weight;
      if (out.pairwise != nullptr) {
        out.pairwise[(out.pairwise_starts[i] + t - 1) * square + pair] -= static_cast<T>(weight);
      }
    }
    return {};
  }

  // Labels in range, and every score of the sequence a score, used or not.
  Outcome check(const Sequence<T>& x, const std::int64_t* y) const {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const auto bad = [](T score) { return !(score < kInfinity); };
    const std::int64_t square = static_cast<std::int64_t>(s_.labels) * s_.labels;
    for (std::int64_t t = 0; t < x.length; ++t) {
      if (!is_label(y[t])) return {Status::bad_label, t};
      const T* row = x.unary + t * s_.labels;
      if (std::any_of(row, row + s_.labels, bad)) return {Status::bad_unary, t};
      if (t == 0 || x.transition == nullptr) continue;
      const T* matrix = x.transition + (t - 1) * square;
      if (std::any_of(matrix, matrix + square, bad)) return {Status::bad_transition, t};
    }
    return {};
  }

  const Batch<T>& batch_;
  const Shared& s_;
};

}  // namespace trellis
