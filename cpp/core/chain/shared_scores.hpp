// A batch of sequences, and padded copies of the scores that they share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/aligned.hpp"
#include "chain/types.hpp"

namespace trellis {

// A batch as the caller stores it. Sequence i has its results in rows [starts[i], starts[i] +
// lengths[i]).
template <class T>
struct Batch {
  std::int64_t count;  // sequences
  int labels;
  const T* const* unary;        // (count): the (length, labels) scores of each sequence
  const std::int64_t* starts;   // (count)
  const std::int64_t* lengths;  // (count)
  const double* transition;     // (labels, labels) shared by all positions, or null
  const T* const* transitions;  // (count): the (length - 1, labels, labels) scores of each, or null
  const double* start;          // (labels) or null
  const double* end;            // (labels) or null

  Sequence<T> sequence(std::int64_t i) const {
    return {.unary = unary[i],
            .transition = transitions == nullptr ? nullptr : transitions[i],
            .length = lengths[i]};
  }
};

// Owns the padded copies that SharedView points to.
class SharedScores {
 public:
  // exp(transition) is computed only if `weights` is true: best paths do not need it.
  template <class T>
  SharedScores(const Batch<T>& batch, bool weights) {
    const int labels = batch.labels, stride = padded(labels);
    const std::int64_t square = static_cast<std::int64_t>(labels) * stride;
    const int matrices = batch.transition == nullptr ? 0 : weights ? 4 : 2;
    memory_ = aligned_doubles(matrices * square + 4 * stride);
    view_ = {};
    view_.labels = labels;
    view_.stride = stride;
    view_.in_range = true;
    for (int kind = 0; kind < 4; ++kind) add_edge(batch, kind);
    if (batch.transition != nullptr) {
      double* log = memory_.get() + 4 * stride;
      add_scores(batch.transition, log, log + square, square);
      if (weights) add_weights(log + 2 * square, log + 3 * square, square);
    }
  }

  const SharedView& view() const { return view_; }

 private:
  // Fills edge[kind]. Bit 0 of `kind` means the first position, bit 1 the last one.
  template <class T>
  void add_edge(const Batch<T>& batch, int kind) {
    double* edge = memory_.get() + kind * view_.stride;
    std::fill(edge, edge + view_.stride, 0.0);
    for (int i = 0; i < view_.labels; ++i) {
      if ((kind & 1) != 0 && batch.start != nullptr) edge[i] += batch.start[i];
      if ((kind & 2) != 0 && batch.end != nullptr) edge[i] += batch.end[i];
    }
    for (int i = 0; i < view_.labels; ++i) check_range(edge[i]);
    view_.edge[kind] = edge;
  }

  // Copies the transitions, (labels, labels), to a padded matrix of `square` numbers and to its
  // transpose.
  void add_scores(const double* transition, double* log, double* log_by_to, std::int64_t square) {
    const int labels = view_.labels, stride = view_.stride;
    std::fill(log, log + square, -kInfinity);
    std::fill(log_by_to, log_by_to + square, -kInfinity);
    for (int a = 0; a < labels; ++a) {
      for (int b = 0; b < labels; ++b) {
        const double score = transition[a * labels + b];
        log[a * stride + b] = log_by_to[b * stride + a] = score;
        check_range(score);
      }
    }
    view_.log = log;
    view_.log_by_to = log_by_to;
  }

  // Computes exp(transition - shift), and whether scaled probabilities can represent them.
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
    view_.scalable = view_.in_range && !(high - low > kWidestScores);
    for (std::int64_t i = 0; i < square; ++i) {
      weight[i] = std::exp(view_.log[i] - view_.shift);
      weight_by_to[i] = std::exp(view_.log_by_to[i] - view_.shift);
    }
    view_.weight = weight;
    view_.weight_by_to = weight_by_to;
  }

  // Records a finite score beyond kLargestScore. All sequences of the batch then go to log space, where
  // they are validated and get an error status.
  void check_range(double score) {
    const bool finite = score > -kInfinity;  // the caller has excluded NaN and +inf
    if (finite && !(std::abs(score) <= kLargestScore)) view_.in_range = false;
  }

  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  AlignedDoubles memory_;  // 4 edges, then up to 4 matrices
  SharedView view_;
};

}  // namespace trellis
