// Online learning, one sequence at a time: stochastic gradient, perceptron, passive-aggressive, AROW.
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
#include "loglinear/pair_chain.hpp"
#include "loglinear/row_plan.hpp"
#include "loglinear/training_labels.hpp"

namespace trellis {

// A change of one weight, or the count of one feature.
struct Change {
  std::int64_t weight;
  double value;
};

class OnlineLearner {
 public:
  OnlineLearner(const WeightLayout& layout, const SparseRows& x, const TrainingLabels& y)
      : layout_(layout),
        x_(x),
        y_(y),
        rows_(layout, x, DenseAttributes::none(layout)),
        transition_(square()) {
    if (layout_.trigrams == 0) return;
    std::int64_t longest = 0;
    for (std::int64_t i = 0; i < y_.sequences; ++i) longest = std::max(longest, length(i));
    pair_chains_.emplace(layout_, y_, longest);
  }

  std::int64_t size() const { return layout_.size(); }
  double weight(std::int64_t i) const { return y_.weight_of(i); }

  // Returns the loss weight * -log p(y | x) of sequence i at weights scale * w. Adds -step * its
  // gradient to w.
  double descend(std::int64_t i, double scale, double step, double* w) {
    const std::int64_t begin = y_.row_begin[i], n = length(i), labels = layout_.labels;
    score(i, w);
    for (std::int64_t k = 0; k < n * labels; ++k) scores_[k] *= scale;
    transition_scores(layout_, w, nullptr, transition_.data());
    for (double& t : transition_) t *= scale;
    forbid();
    counts_.assign(2 * labels * padded(layout_.labels), 0.0);
    residual_.resize(n * labels + kPadding);
    const double step_weight = step * weight(i);
    double log_z = 0.0;
    const Outcome outcome =
        pair_chains_ ? pair_marginals(step_weight, scale, w, &log_z) : marginals(step_weight, &log_z);
    if (outcome.status != Status::ok) return std::numeric_limits<double>::infinity();
    const std::int32_t* y = y_.label + begin;
    double total = 0.0;
    for (std::int64_t t = 0; t < n; ++t) {
      total += scores_[t * labels + y[t]] + (t > 0 ? transition_[y[t - 1] * labels + y[t]] : 0.0);
      residual_[t * labels + y[t]] -= step_weight;
    }
    for (double& r : residual_) r = -r;
    in_row_blocks(begin, begin + n, [&](std::int64_t from, std::int64_t to) {
      kernels().loglinear.add_rows(rows_.plan(), residual_.data() + (from - begin) * labels, from, to,
                                   nullptr, w);
    });
    descend_bigrams(i, step_weight, w + layout_.states());
    if (pair_chains_) total += descend_trigrams(i, step_weight, w + layout_.first_trigram());
    return weight(i) * (log_z - total);
  }

  // The best labelling under w compared with the known labelling: the difference of their scores, and
  // the number of different labels.
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
    if (pair_chains_) {
      const double* trigrams = w + layout_.first_trigram();
      pair_chains_->viterbi(transition_.data(), trigrams, scores_.data(), n, path_.data(), &best);
    } else {
      const Batch<double> batch = this->batch();
      const ChainBatch<double> chain(batch, kernels().chain<double>(), 1, Purpose::paths);
      chain.viterbi(path_.data(), &best, &outcome);
    }
    const std::int32_t* y = y_.label + y_.row_begin[i];
    Mistake mistake{best, 0};
    for (std::int64_t t = 0; t < n; ++t) {
      mistake.errors += path_[t] != y[t];
      mistake.margin -= scores_[t * layout_.labels + y[t]];
      if (t > 0) mistake.margin -= transition_[y[t - 1] * layout_.labels + y[t]];
    }
    for_each_trigram(y, n, [&](std::int64_t k) { mistake.margin -= w[k]; });
    return mistake;
  }

  // Computes phi(x, y) - phi(x, predicted): one entry per weight that changes, in the order of the
  // weights.
  const std::vector<Change>& difference(std::int64_t i) {
    changes_.clear();
    const std::int64_t begin = y_.row_begin[i];
    const std::int32_t* y = y_.label + begin;
    for (std::int64_t t = 0; t < length(i); ++t) {
      if (path_[t] != y[t]) {
        for (std::int64_t k = x_.begin[begin + t]; k < x_.begin[begin + t + 1]; ++k) {
          const double value = x_.value == nullptr ? 1.0 : x_.value[k];
          const std::int32_t a = x_.id_at(k);
          add(a, y[t], value);
          add(a, static_cast<std::int32_t>(path_[t]), -value);
        }
      }
      if (t > 0 && (path_[t] != y[t] || path_[t - 1] != y[t - 1])) {
        add_bigram(y[t - 1] * layout_.labels + y[t], 1.0);
        add_bigram(path_[t - 1] * layout_.labels + path_[t], -1.0);
      }
    }
    for_each_trigram(y, length(i), [&](std::int64_t k) { changes_.push_back({k, 1.0}); });
    for_each_trigram(path_.data(), length(i), [&](std::int64_t k) { changes_.push_back({k, -1.0}); });
    merge();
    return changes_;
  }

 private:
  std::size_t square() const { return static_cast<std::size_t>(layout_.labels) * layout_.labels; }
  std::int64_t length(std::int64_t i) const { return y_.length(i); }

  void score(std::int64_t i, const double* w) {
    scores_.resize(length(i) * layout_.labels + kPadding);
    const std::int64_t begin = y_.row_begin[i];
    in_row_blocks(begin, y_.row_begin[i + 1], [&](std::int64_t from, std::int64_t to) {
      kernels().loglinear.score_rows(rows_.plan(), nullptr, w, from, to,
                                     scores_.data() + (from - begin) * layout_.labels);
    });
    unary_ = scores_.data();
    length_ = length(i);
  }

  // Sets the scores of forbidden transitions to -inf.
  void forbid() {
    for (std::size_t k = 0; y_.forbidden != nullptr && k < transition_.size(); ++k) {
      if (y_.forbidden[k]) transition_[k] = -std::numeric_limits<double>::infinity();
    }
  }

  // Returns a batch that has only the current sequence.
  Batch<double> batch() {
    return {.count = 1,
            .labels = layout_.labels,
            .unary = &unary_,
            .starts = &zero_,
            .lengths = &length_,
            .transition = transition_.data(),
            .transitions = nullptr,
            .start = y_.start,
            .end = y_.end};
  }

  // Computes weight * p(y_t) in residual_, and the expected bigrams in counts_, for the current
  // sequence.
  Outcome marginals(double weight, double* log_z) {
    const Batch<double> batch = this->batch();
    const auto shared = std::make_shared<const SharedScores>(batch, true);
    if (!memory_ || memory_rows_ < length_) {
      memory_rows_ = std::min(std::max(length_, 2 * memory_rows_), ChainBatch<double>::kBlockRows);
      memory_.emplace(shared->view(), memory_rows_);
    }
    Outcome outcome;
    const MarginalsOut<double> out{.unary = residual_.data(),
                                   .pairwise = nullptr,
                                   .pairwise_starts = nullptr,
                                   .counts = nullptr,
                                   .log_z = log_z,
                                   .outcomes = &outcome,
                                   .weights = &weight};
    const std::int64_t square = static_cast<std::int64_t>(layout_.labels) * padded(layout_.labels);
    const ChainBatch<double> chain(batch, kernels().chain<double>(), 1, shared);
    chain.marginals_here(out, *memory_, counts_.data(), counts_.data() + square);
    for (std::int64_t k = 0; k < square; ++k) counts_[k] *= shared->view().weight[k];
    return outcome;
  }

  // Computes what marginals() computes, for a chain of second order. The expected trigrams are in
  // trigram_counts_.
  Outcome pair_marginals(double weight, double scale, const double* w, double* log_z) {
    trigrams_.assign(w + layout_.first_trigram(), w + layout_.size());
    for (double& x : trigrams_) x *= scale;
    trigram_counts_.assign(trigrams_.size(), 0.0);
    pair_chains_->prepare(transition_.data(), trigrams_.data());
    pair_chains_->clear(pair_memory_);
    const std::vector<const double*> unary{unary_};
    const std::vector<std::int64_t> lengths{length_}, starts{0};
    const std::vector<double> weights{weight};
    std::vector<double> log_zs(1);
    std::vector<Outcome> outcomes(1);
    const PairChains::Sequences x{unary, lengths, starts, weights, log_zs, outcomes};
    pair_chains_->marginals(x, residual_.data(), pair_memory_);
    pair_chains_->add_counts(pair_memory_, padded(layout_.labels), counts_.data(),
                             trigram_counts_.data());
    *log_z = log_zs[0];
    return outcomes[0];
  }

  // Subtracts expected minus observed trigrams from the weights w; returns the score of the observed
  // trigrams.
  double descend_trigrams(std::int64_t i, double weight, double* w) {
    double total = 0.0;
    for_each_trigram(y_.label + y_.row_begin[i], length(i), [&](std::int64_t k) {
      total += trigrams_[k - layout_.first_trigram()];
      w[k - layout_.first_trigram()] += weight;
    });
    for (std::size_t k = 0; k < trigram_counts_.size(); ++k) w[k] -= trigram_counts_[k];
    return total;
  }

  // Calls use(weight) for the trigram weights of a labelling.
  template <class Label, class Use>
  void for_each_trigram(const Label* y, std::int64_t n, const Use& use) const {
    if (!pair_chains_) return;
    pair_chains_->states().for_each_trigram(y, n,
                                            [&](std::int64_t k) { use(layout_.first_trigram() + k); });
  }

  // Subtracts expected minus observed bigrams from the bigram weights w. counts_ is already multiplied
  // by the step size.
  void descend_bigrams(std::int64_t i, double weight, double* w) {
    const std::int64_t stride = padded(layout_.labels), labels = layout_.labels;
    const double* log_counts = counts_.data() + labels * stride;
    observed_.assign(square(), 0.0);
    const std::int32_t* y = y_.label + y_.row_begin[i];
    for (std::int64_t t = 1; t < length(i); ++t) observed_[y[t - 1] * labels + y[t]] += weight;
    for (std::int64_t k = 0; k < layout_.bigrams; ++k) {
      const std::int64_t a = layout_.bigram[k] / labels, b = layout_.bigram[k] % labels,
                         cell = a * stride + b;
      w[k] -= counts_[cell] + log_counts[cell] - observed_[layout_.bigram[k]];
    }
  }

  // Adds the change of weight (a, y), if there is such a weight.
  void add(std::int32_t a, std::int32_t y, double value) {
    if (a < 0 || a >= layout_.attributes) return;
    const std::uint16_t* first = layout_.state_label + layout_.state_begin[a];
    const std::uint16_t* last = layout_.state_label + layout_.state_begin[a + 1];
    const std::uint16_t* label = std::lower_bound(first, last, y);
    if (label != last && *label == y) changes_.push_back({label - layout_.state_label, value});
  }

  void add_bigram(std::int64_t cell, double value) {
    const std::int32_t* last = layout_.bigram + layout_.bigrams;
    const std::int32_t* bigram = std::lower_bound(layout_.bigram, last, cell);
    if (bigram != last && *bigram == cell)
      changes_.push_back({layout_.states() + (bigram - layout_.bigram), value});
  }

  // Sorts the changes and adds up those of the same weight.
  void merge() {
    std::sort(changes_.begin(), changes_.end(),
              [](const Change& a, const Change& b) { return a.weight < b.weight; });
    std::size_t merged = 0;
    for (std::size_t k = 0; k < changes_.size(); ++k) {
      if (merged > 0 && changes_[merged - 1].weight == changes_[k].weight) {
        changes_[merged - 1].value += changes_[k].value;
      } else {
        changes_[merged++] = changes_[k];
      }
    }
    changes_.resize(merged);
  }

  WeightLayout layout_;
  SparseRows x_;
  TrainingLabels y_;
  PlannedRows rows_;
  std::vector<double> transition_, observed_;  // (labels, labels)
  std::vector<double> scores_, residual_;      // (length, labels), padded
  std::vector<double> counts_;                 // (2, labels, stride): scaled and log-space counts
  std::vector<std::int64_t> path_;             // (length): the predicted labels
  std::vector<Change> changes_;
  std::optional<typename ChainBatch<double>::Memory> memory_;
  std::int64_t memory_rows_ = 0;           // the rows that fit in memory_
  std::optional<PairChains> pair_chains_;  // if there are trigrams
  PairChains::Memory pair_memory_;
  std::vector<double> trigrams_, trigram_counts_;  // (trigrams)
  const double* unary_ = nullptr;
  std::int64_t zero_ = 0, length_ = 0;  // start and length of the sequence, for batch()
};

// ---- The update rules, for one pass over sequences in a given order. The change of the
// weights is multiplied by the weight of the sequence.

// The sequences of one pass, in order.
struct Order {
  const std::int64_t* sequence;  // (count)
  std::int64_t count;
};

// Steps eta(t) = 1 / (lambda (t0 + t)), where t counts the sequences of all passes.
struct SgdRule {
  double lambda, t0;
  std::int64_t earlier_steps;  // sequences of earlier passes
};

// Runs one pass of stochastic gradient descent. The weights are stored as scale * v, so that shrinking
// them by l2 takes one multiplication. Returns the sum of the losses before each step.
inline double sgd_epoch(OnlineLearner& learner, const Order& order, const SgdRule& rule, double* v,
                        double* scale) {
  // Outside this range, v would lose precision.
  constexpr double kSmallestScale = 1e-9, kLargestScale = 1e9;
  double loss = 0.0;
  for (std::int64_t k = 0; k < order.count; ++k) {
    const double eta = 1.0 / (rule.lambda * (rule.t0 + static_cast<double>(rule.earlier_steps + k)));
    *scale *= 1.0 - eta * rule.lambda;
    if (*scale < kSmallestScale || !(*scale < kLargestScale)) {
      for (std::int64_t i = 0; i < learner.size(); ++i) v[i] *= *scale;
      *scale = 1.0;
    }
    loss += learner.descend(order.sequence[k], *scale, eta / *scale, v);
  }
  return loss;
}

// The weights w, and `total`, the sum of step number * change over all changes. The averaged weights are
// computed from w and total.
struct AveragedWeights {
  double* w;            // (weights)
  double* total;        // (weights)
  std::int64_t* steps;  // sequences seen so far

  void add(const std::vector<Change>& changes, double factor) const {
    for (const Change& c : changes) {
      w[c.weight] += factor * c.value;
      total[c.weight] += static_cast<double>(*steps) * factor * c.value;
    }
  }
};

// Runs one pass and returns the number of wrong labels. sequence_errors, (count) or null, receives the
// number of wrong labels of each sequence.
inline std::int64_t perceptron_epoch(OnlineLearner& learner, const Order& order,
                                     const AveragedWeights& weights,
                                     std::int64_t* sequence_errors = nullptr) {
  std::int64_t errors = 0;
  for (std::int64_t k = 0; k < order.count; ++k, ++*weights.steps) {
    const auto mistake = learner.predict(order.sequence[k], weights.w);
    errors += mistake.errors;
    if (sequence_errors != nullptr) sequence_errors[k] = mistake.errors;
    if (mistake.errors == 0) continue;
    weights.add(learner.difference(order.sequence[k]), learner.weight(order.sequence[k]));
  }
  return errors;
}

struct PassiveAggressive {
  // 0: the smallest step that reaches the margin; 1: the same, at most `aggressiveness`; 2: a smaller
  // step that depends on `aggressiveness`
  int variant;
  double aggressiveness;
  bool count_errors;  // the required margin is sqrt(wrong labels), not 1
};

// Runs one pass and returns the sum of the hinge losses.
inline double passive_aggressive_epoch(OnlineLearner& learner, const Order& order,
                                       const PassiveAggressive& rule, const AveragedWeights& weights) {
  double loss = 0.0;
  for (std::int64_t k = 0; k < order.count; ++k, ++*weights.steps) {
    const auto mistake = learner.predict(order.sequence[k], weights.w);
    if (mistake.errors == 0) continue;
    const double hinge =
        mistake.margin + (rule.count_errors ? std::sqrt(static_cast<double>(mistake.errors)) : 1.0);
    loss += hinge;
    const std::vector<Change>& difference = learner.difference(order.sequence[k]);
    double norm = 0.0;
    for (const Change& c : difference) norm += c.value * c.value;
    if (norm == 0.0) continue;
    double tau = rule.variant == 2 ? hinge / (norm + 0.5 / rule.aggressiveness) : hinge / norm;
    if (rule.variant == 1) tau = std::min(tau, rule.aggressiveness);
    tau *= learner.weight(order.sequence[k]);
    weights.add(difference, tau);
  }
  return loss;
}

// Runs one pass of adaptive regularisation of weights (AROW). Each weight has a variance, which becomes
// smaller each time the weight changes.
inline double arow_epoch(OnlineLearner& learner, const Order& order, double gamma, double* w,
                         double* variance) {
  double loss = 0.0;
  for (std::int64_t k = 0; k < order.count; ++k) {
    const auto mistake = learner.predict(order.sequence[k], w);
    if (mistake.errors == 0) continue;
    const double hinge = mistake.margin + static_cast<double>(mistake.errors);
    loss += hinge;
    const std::vector<Change>& difference = learner.difference(order.sequence[k]);
    double margin_variance = gamma;
    for (const Change& c : difference) margin_variance += c.value * c.value * variance[c.weight];
    const double alpha = learner.weight(order.sequence[k]) * hinge / margin_variance;
    for (const Change& c : difference) {
      w[c.weight] += alpha * variance[c.weight] * c.value;
      variance[c.weight] = 1.0 / (1.0 / variance[c.weight] + c.value * c.value / gamma);
    }
  }
  return loss;
}

}  // namespace trellis
