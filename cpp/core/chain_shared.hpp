// A batch of sequences, and the padded copies of the scores that they share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "aligned.hpp"
#include "chain_types.hpp"

namespace trellis {

// Sequence i has rows [starts[i], starts[i] + lengths[i]) of `unary`, (rows, labels).
template <class T>
struct Batch {
  std::int64_t count;
  int labels;
  const T* unary;
  const std::int64_t* starts;
  const std::int64_t* lengths;
  const double* transition;                // (labels, labels) shared, or null
  const T* transitions;                    // (matrices, labels, labels), or null
  const std::int64_t* transition_starts;  // the first matrix of each sequence
  const double* start;                     // (labels) or null
  const double* end;

  Sequence<T> sequence(std::int64_t i) const {
    const T* own = transitions == nullptr
                       ? nullptr
                       : transitions + transition_starts[i] * labels * labels;
    return {unary + starts[i] * labels, own, lengths[i]};
  }
};

// Owns the padded copies that Shared points to.
class SharedScores {
 public:
  template <class T>
  explicit SharedScores(const Batch<T>& batch) {
    const int labels = batch.labels, stride = padded(labels);
    const std::int64_t square = static_cast<std::int64_t>(labels) * stride;
    memory_ = aligned_doubles(4 * square + 2 * stride);
    double* start = memory_.get();
    double* end = start + stride;
    copy_padded(batch.start, labels, stride, 0.0, start);
    copy_padded(batch.end, labels, stride, 0.0, end);
    view_ = {labels, stride, start, end, nullptr, nullptr, nullptr, nullptr, 0.0, false};
    if (batch.transition != nullptr) add_transition(batch.transition, end + stride, square);
  }

  const Shared& view() const { return view_; }

 private:
  static void copy_padded(const double* from, int labels, int stride, double fill, double* to) {
    for (int i = 0; i < stride; ++i) to[i] = i < labels ? (from == nullptr ? 0.0 : from[i]) : fill;
  }

  void add_transition(const double* transition, double* memory, std::int64_t square) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    constexpr double kWidest = 170.0;  // e^-170 > 1e-75 = kTinyFactor in chain_scaled.hpp
    const int labels = view_.labels, stride = view_.stride;
    double low = kInfinity, high = -kInfinity;
    for (int i = 0; i < labels * labels; ++i) {
      if (transition[i] == -kInfinity) continue;
      low = std::min(low, transition[i]);
      high = std::max(high, transition[i]);
    }
    double* log = memory;
    double* log_by_to = log + square;
    double* weight = log_by_to + square;
    double* weight_by_to = weight + square;
    std::fill(log, weight, -kInfinity);
    std::fill(weight, weight + 2 * square, 0.0);
    view_.shift = high == -kInfinity ? 0.0 : high;
    view_.scalable = !(high - low > kWidest);
    for (int a = 0; a < labels; ++a) {
      for (int b = 0; b < labels; ++b) {
        const double score = transition[a * labels + b];
        log[a * stride + b] = log_by_to[b * stride + a] = score;
        weight[a * stride + b] = weight_by_to[b * stride + a] = std::exp(score - view_.shift);
      }
    }
    view_.log = log;
    view_.log_by_to = log_by_to;
    view_.weight = weight;
    view_.weight_by_to = weight_by_to;
  }

  AlignedDoubles memory_;
  Shared view_;
};

}  // namespace trellis
