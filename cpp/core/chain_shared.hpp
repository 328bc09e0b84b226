// A batch of sequences, and the padded copies of the scores that they share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "aligned.hpp"
#include "chain_types.hpp"

namespace trellis {

// Sequence i has its scores at unary[i], and its results at rows [starts[i], starts[i] + lengths[i]).
template <class T>
struct Batch {
  std::int64_t count;
  int labels;
  const T* const* unary;
  const std::int64_t* starts;
  const std::int64_t* lengths;
  const double* transition;     // (labels, labels) shared, or null
  const T* const* transitions;  // each sequence's (length - 1, labels, labels), or null
  const double* start;          // (labels) or null
  const double* end;

  Sequence<T> sequence(std::int64_t i) const {
    return {unary[i], transitions == nullptr ? nullptr : transitions[i], lengths[i]};
  }
};

// Owns the padded copies that Shared points to.
class SharedScores {
 public:
  template <class T>
  explicit SharedScores(const Batch<T>& batch) {
    const int labels = batch.labels, stride = padded(labels);
    const std::int64_t square = static_cast<std::int64_t>(labels) * stride;
    memory_ = aligned_doubles(4 * square + 4 * stride);
    view_ = {};
    view_.labels = labels;
    view_.stride = stride;
    for (int kind = 0; kind < 4; ++kind) {
      double* edge = memory_.get() + kind * stride;
      std::fill(edge, edge + stride, 0.0);
      for (int i = 0; i < labels; ++i) {
        if ((kind & 1) != 0 && batch.start != nullptr) edge[i] += batch.start[i];
        if ((kind & 2) != 0 && batch.end != nullptr) edge[i] += batch.end[i];
      }
      view_.edge[kind] = edge;
    }
    if (batch.transition != nullptr) {
      add_transition(batch.transition, memory_.get() + 4 * stride, square);
    }
  }

  const Shared& view() const { return view_; }

 private:
  void add_transition(const double* transition, double* memory, std::int64_t square) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const int labels = view_.labels, stride = view_.stride;
    double low = kInfinity, high = -kInfinity;
    view_.dense = true;
    for (int i = 0; i < labels * labels; ++i) {
      if (transition[i] == -kInfinity) {
        view_.dense = false;
        continue;
      }
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
    view_.scalable = !(high - low > kWidestScores);
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
