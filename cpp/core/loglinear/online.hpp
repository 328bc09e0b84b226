// Learning from one sequence at a time: stochastic gradient, perceptron, passive-aggressive, AROW.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "chain/batch.hpp"
#include "dispatch.hpp"
#include "loglinear/loglinear.hpp"
#include "loglinear/supervision.hpp"

namespace trellis {

// A change of one weight, or how often a feature occurs.
struct Change {
  std::int64_t weight;
  double value;
};

class OnlineLearner {
 public:
  OnlineLearner(const WeightLayout& layout, const SparseRows& x, const Supervision& y)
      : layout_(layout),
        x_(x),
        y_(y),
        rows_(layout, x, DenseAttributes::none(layout)),
        transition_(square()) {}

  std::int64_t size() const { return layout_.size(); }
  double weight(std::int64_t i) const { return y_.weight_of(i); }

  // One sequence's loss, weight * -log p(y | x), at scale * w; its gradient times -step is added to w.
  double descend(std::int64_t i, double scale, double step, double* w) {
    const std::int64_t begin = y_.row_begin[i], n = length(i), labels = layout_.labels;
    score(i, w);
    for (std::int64_t k = 0; k < n * labels; ++k) scores_[k] *= scale;
    transition_scores(layout_, w, nullptr, transition_.data());
    for (double& t : transition_) t *= scale;
    forbid();
    const Batch<double> batch = this->batch();
    const auto shared = std::make_shared<const SharedScores>(batch, true);
    if (!memory_ || memory_rows_ < n) {
      memory_rows_ = std::min(std::max(n, 2 * memory_rows_), ChainBatch<double>::kBlockRows);
      memory_.emplace(shared->view(), memory_rows_);
    }
    const std::int64_t stride = padded(layout_.labels);
    counts_.assign(2 * labels * stride, 0.0);
    residual_.resize(n * labels + kPadding);
    const double far = step * weight(i);
    double log_z = 0.0;
    Outcome outcome;
    const MarginalsOut<double> out{residual_.data(), nullptr, nullptr, nullptr, &log_z, &outcome, &far};
    const ChainBatch<double> chain(batch, kernels().chain<double>(), 1, shared);
    chain.marginals_here(out, *memory_, counts_.data(), counts_.data() + labels * stride);
    if (outcome.status != Status::ok) return std::numeric_limits<double>::infinity();
    const std::int32_t* y = y_.label + begin;
    double total = 0.0;
    for (std::int64_t t = 0; t < n; ++t) {
      total += scores_[t * labels + y[t]] + (t > 0 ? transition_[y[t - 1] * labels + y[t]] : 0.0);
      residual_[t * labels + y[t]] -= far;
    }
    for (double& r : residual_) r = -r;
    kernels().loglinear.add_rows(rows_.plan(), residual_.data(), begin, begin + n, nullptr, w);
    descend_bigrams(i, far, *shared, w + layout_.states());
    return weight(i) * (log_z - total);
  }

  // The best labelling under w: its score minus that of the known one, and in how many labels they
  // differ.
  struct Mistake {
    double margin;
    std::int64_t errors;
  };
  Mistake predict(std::int64_t i, const double* w) {
    score(i, w);
    transition_scores(layout_, w, nullptr, transition_.data());
    forbid();
    const std::int64_t n = length(i);
    path_.resize(n);
    double best = 0.0;
    Outcome outcome;
    const Batch<double> batch = this->batch();
    const ChainBatch<double> chain(batch, kernels().chain<double>(), 1, Purpose::paths);
    chain.viterbi(path_.data(), &best, &outcome);
    const std::int32_t* y = y_.label + y_.row_begin[i];
    Mistake mistake{best, 0};
    for (std::int64_t t = 0; t < n; ++t) {
      mistake.errors += path_[t] != y[t];
      mistake.margin -= scores_[t * layout_.labels + y[t]];
      if (t > 0) mistake.margin -= transition_[y[t - 1] * layout_.labels + y[t]];
    }
    return mistake;
  }

  // phi(x, y) - phi(x, predicted): one entry for each weight, in the order of the weights.
  const std::vector<Change>& difference(std::int64_t i) {
    changes_.clear();
    const std::int64_t begin = y_.row_begin[i];
    const std::int32_t* y = y_.label + begin;
    for (std::int64_t t = 0; t < length(i); ++t) {
      if (path_[t] != y[t]) {
        for (std::int64_t k = x_.begin[begin + t]; k < x_.begin[begin + t + 1]; ++k) {
          const double value = x_.value == nullptr ? 1.0 : x_.value[k];
          add(x_.id[k], y[t], value);
          add(x_.id[k], static_cast<std::int32_t>(path_[t]), -value);
        }
      }
      if (t > 0 && (path_[t] != y[t] || path_[t - 1] != y[t - 1])) {
        add_bigram(y[t - 1] * layout_.labels + y[t], 1.0);
        add_bigram(path_[t - 1] * layout_.labels + path_[t], -1.0);
      }
    }
    merge();
    return changes_;
  }

 private:
  std::size_t square() const { return static_cast<std::size_t>(layout_.labels) * layout_.labels; }
  std::int64_t length(std::int64_t i) const { return y_.length(i); }

  void score(std::int64_t i, const double* w) {
    scores_.resize(length(i) * layout_.labels + kPadding);
    kernels().loglinear.score_rows(rows_.plan(), nullptr, w, y_.row_begin[i], y_.row_begin[i + 1],
                                   scores_.data());
    unary_ = scores_.data();
    length_ = length(i);
  }

  void forbid() {
    for (std::size_t k = 0; y_.forbidden != nullptr && k < transition_.size(); ++k) {
      if (y_.forbidden[k]) transition_[k] = -std::numeric_limits<double>::infinity();
    }
  }

  Batch<double> batch() {
    return {1, layout_.labels, &unary_, &zero_, &length_, transition_.data(), nullptr, y_.start, y_.end};
  }

  void descend_bigrams(std::int64_t i, double weight, const SharedScores& shared, double* w) {
    const std::int64_t stride = padded(layout_.labels), labels = layout_.labels;
    const double* log_counts = counts_.data() + labels * stride;
    observed_.assign(square(), 0.0);
    const std::int32_t* y = y_.label + y_.row_begin[i];
    for (std::int64_t t = 1; t < length(i); ++t) observed_[y[t - 1] * labels + y[t]] += weight;
    for (std::int64_t k = 0; k < layout_.bigrams; ++k) {
      const std::int64_t a = layout_.bigram[k] / labels, b = layout_.bigram[k] % labels,
                         cell = a * stride + b;
      w[k] -=
          counts_[cell] * shared.view().weight[cell] + log_counts[cell] - observed_[layout_.bigram[k]];
    }
  }

  void add(std::int32_t a, std::int32_t y, double value) {
    if (a < 0 || a >= layout_.attributes) return;
    const std::uint16_t* first = layout_.state_label + layout_.state_begin[a];
    const std::uint16_t* last = layout_.state_label + layout_.state_begin[a + 1];
    const std::uint16_t* found = std::lower_bound(first, last, y);
    if (found != last && *found == y) changes_.push_back({found - layout_.state_label, value});
  }

  void add_bigram(std::int64_t cell, double value) {
    const std::int32_t* last = layout_.bigram + layout_.bigrams;
    const std::int32_t* found = std::lower_bound(layout_.bigram, last, cell);
    if (found != last && *found == cell)
      changes_.push_back({layout_.states() + (found - layout_.bigram), value});
  }

  void merge() {
    std::sort(changes_.begin(), changes_.end(),
              [](const Change& a, const Change& b) { return a.weight < b.weight; });
    std::size_t kept = 0;
    for (std::size_t k = 0; k < changes_.size(); ++k) {
      if (kept > 0 && changes_[kept - 1].weight == changes_[k].weight) {
        changes_[kept - 1].value += changes_[k].value;
      } else {
        changes_[kept++] = changes_[k];
      }
    }
    changes_.resize(kept);
  }

  WeightLayout layout_;
  SparseRows x_;
  Supervision y_;
  PlannedRows rows_;
  std::vector<double> transition_, scores_, residual_, counts_, observed_;
  std::vector<std::int64_t> path_;
  std::vector<Change> changes_;
  std::optional<typename ChainBatch<double>::Memory> memory_;
  std::int64_t memory_rows_ = 0;
  const double* unary_ = nullptr;
  std::int64_t zero_ = 0, length_ = 0;
};

// ---- the update rules, for one pass over sequences in a given order. A sequence of weight v moves the
// weights v times as far.

// w is kept as scale * v, so that shrinking it by l2 takes one multiplication. Steps eta(t) = 1 /
// (lambda (t0 + t)); returns the sum of the losses before each step.
inline double sgd_epoch(OnlineLearner& learner, const std::int64_t* order, std::int64_t count,
                        double lambda, double t0, std::int64_t done, double* v, double* scale) {
  double loss = 0.0;
  for (std::int64_t k = 0; k < count; ++k) {
    const double eta = 1.0 / (lambda * (t0 + static_cast<double>(done + k)));
    *scale *= 1.0 - eta * lambda;
    if (*scale < 1e-9 || !(*scale < 1e9)) {
      for (std::int64_t i = 0; i < learner.size(); ++i) v[i] *= *scale;
      *scale = 1.0;
    }
    loss += learner.descend(order[k], *scale, eta / *scale, v);
  }
  return loss;
}

// total accumulates (steps so far) * change, from which the average follows; returns the wrong labels,
// and those of each sequence in `each`, if that is not null.
inline std::int64_t perceptron_epoch(OnlineLearner& learner, const std::int64_t* order,
                                     std::int64_t count, double* w, double* total, std::int64_t* steps,
                                     std::int64_t* each = nullptr) {
  std::int64_t errors = 0;
  for (std::int64_t k = 0; k < count; ++k, ++*steps) {
    const auto mistake = learner.predict(order[k], w);
    errors += mistake.errors;
    if (each != nullptr) each[k] = mistake.errors;
    if (mistake.errors == 0) continue;
    const double far = learner.weight(order[k]);
    for (const Change& c : learner.difference(order[k])) {
      w[c.weight] += far * c.value;
      total[c.weight] += static_cast<double>(*steps) * far * c.value;
    }
  }
  return errors;
}

struct PassiveAggressive {
  int variant;  // 0: as far as needed; 1: at most `aggressiveness`; 2: softened by it
  double aggressiveness;
  bool count_errors;  // the margin asked for grows with the wrong labels
};

// Returns the sum of the hinge losses.
inline double passive_aggressive_epoch(OnlineLearner& learner, const std::int64_t* order,
                                       std::int64_t count, const PassiveAggressive& rule, double* w,
                                       double* total, std::int64_t* steps) {
  double loss = 0.0;
  for (std::int64_t k = 0; k < count; ++k, ++*steps) {
    const auto mistake = learner.predict(order[k], w);
    if (mistake.errors == 0) continue;
    const double hinge =
        mistake.margin + (rule.count_errors ? std::sqrt(static_cast<double>(mistake.errors)) : 1.0);
    loss += hinge;
    const std::vector<Change>& difference = learner.difference(order[k]);
    double norm = 0.0;
    for (const Change& c : difference) norm += c.value * c.value;
    if (norm == 0.0) continue;
    double tau = rule.variant == 2 ? hinge / (norm + 0.5 / rule.aggressiveness) : hinge / norm;
    if (rule.variant == 1) tau = std::min(tau, rule.aggressiveness);
    tau *= learner.weight(order[k]);
    for (const Change& c : difference) {
      w[c.weight] += tau * c.value;
      total[c.weight] += static_cast<double>(*steps) * tau * c.value;
    }
  }
  return loss;
}

// Adaptive regularisation: a variance for each weight, smaller the more it has been seen.
inline double arow_epoch(OnlineLearner& learner, const std::int64_t* order, std::int64_t count,
                         double gamma, double* w, double* variance) {
  double loss = 0.0;
  for (std::int64_t k = 0; k < count; ++k) {
    const auto mistake = learner.predict(order[k], w);
    if (mistake.errors == 0) continue;
    const double hinge = mistake.margin + static_cast<double>(mistake.errors);
    loss += hinge;
    const std::vector<Change>& difference = learner.difference(order[k]);
    double spread = gamma;
    for (const Change& c : difference) spread += c.value * c.value * variance[c.weight];
    const double alpha = learner.weight(order[k]) * hinge / spread;
    for (const Change& c : difference) {
      w[c.weight] += alpha * variance[c.weight] * c.value;
      variance[c.weight] = 1.0 / (1.0 / variance[c.weight] + c.value * c.value / gamma);
    }
  }
  return loss;
}

}  // namespace trellis
