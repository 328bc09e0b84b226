// A batch of sequences, and the padded copies of the scores that they share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/aligned.hpp"
#include "chain/types.hpp"

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
  // Weights, exp(transition), are made only if asked for: best paths do without.
  template <class T>
  SharedScores(const Batch<T>& batch, bool weights) {
    const int labels = batch.labels, stride = padded(labels);
    const std::int64_t square = static_cast<std::int64_t>(labels) * stride;
    const int matrices = batch.transition == nullptr ? 0 : weights ? 4 : 2;
    memory_ = aligned_doubles(matrices * square + 4 * stride);
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
      double* log = memory_.get() + 4 * stride;
      add_scores(batch.transition, log, log + square, square);
      if (weights) add_weights(log + 2 * square, log + 3 * square, square);
    }
  }

  const Shared& view() const { return view_; }

 private:
  void add_scores(const double* transition, double* log, double* log_by_to, std::int64_t square) {
    const int labels = view_.labels, stride = view_.stride;
    std::fill(log, log + square, -kInfinity);
    std::fill(log_by_to, log_by_to + square, -kInfinity);
    for (int a = 0; a < labels; ++a) {
      for (int b = 0; b < labels; ++b) {
        log[a * stride + b] = log_by_to[b * stride + a] = transition[a * labels + b];
      }
    }
    view_.log = log;
    view_.log_by_to = log_by_to;
  }

  void add_weights(double* weight, double* weight_by_to, std::int64_t square) {
    double low = kInfinity, high = -kInfinity;
    view_.dense = true;
    for (int a = 0; a < view_.labels; ++a) {
      for (int b = 0; b < view_.labels; ++b) {
        const double score = view_.log[a * view_.stride + b];
        if (score == -kInfinity) {
          view_.dense = false;
        } else {
          low = std::min(low, score);
          high = std::max(high, score);
        }
      }
    }
    view_.shift = high == -kInfinity ? 0.0 : high;
    view_.scalable = !(high - low > kWidestScores);
    for (std::int64_t i = 0; i < square; ++i) {
      weight[i] = std::exp(view_.log[i] - view_.shift);
      weight_by_to[i] = std::exp(view_.log_by_to[i] - view_.shift);
    }
    view_.weight = weight;
    view_.weight_by_to = weight_by_to;
  }

  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  AlignedDoubles memory_;
  Shared view_;
};

}  // namespace trellis
