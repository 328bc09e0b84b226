// The states of a chain of second order: label pairs, and single labels.
//
// A weight of a trigram (a, b, c) makes the score of c depend on two labels. So a state is a pair (a, b)
// if some trigram begins with it. All other pairs with last label b share one state, because no trigram
// distinguishes them. So each labelling is exactly one path of states, and every labelling is possible.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace trellis {

class PairStates {
 public:
  // `trigram` has ascending numbers (first * labels + second) * labels + third.
  PairStates(int labels, const std::int64_t* trigram, std::int64_t trigrams)
      : labels_(labels), trigram_(trigram, trigram + trigrams) {
    const std::size_t square = static_cast<std::size_t>(labels) * labels;
    std::vector<std::int32_t> first(square, -1), past(square, -1);  // the trigrams of each pair
    for (std::int64_t k = 0; k < trigrams; ++k) {
      const std::int64_t pair = trigram[k] / labels;
      if (first[pair] < 0) first[pair] = static_cast<std::int32_t>(k);
      past[pair] = static_cast<std::int32_t>(k + 1);
    }
    after_.resize(square);
    for (int b = 0; b < labels; ++b) {
      begin_.push_back(count());
      add(b, -1, 0, 0);
      for (int a = 0; a < labels; ++a) {
        const std::size_t pair = static_cast<std::size_t>(a) * labels + b;
        after_[pair] = first[pair] < 0 ? begin_[b] : count();
        if (first[pair] >= 0) add(b, a, first[pair], past[pair]);
      }
    }
    begin_.push_back(count());
  }

  int labels() const { return labels_; }
  std::int32_t count() const { return static_cast<std::int32_t>(last_.size()); }
  std::int64_t trigrams() const { return static_cast<std::int64_t>(trigram_.size()); }

  // (labels + 1): the states of label b are [begin[b], begin[b + 1]); the first one stands for b alone.
  const std::vector<std::int32_t>& begin() const { return begin_; }
  // (states): the label, and the label before it, or -1.
  const std::vector<std::int32_t>& last() const { return last_; }
  const std::vector<std::int32_t>& previous() const { return previous_; }

  // Returns the state of label c after label b.
  std::int32_t after(std::int32_t b, std::int32_t c) const {
    return after_[static_cast<std::size_t>(b) * labels_ + c];
  }
  // Returns the numbers [first, last) of the trigrams that begin with the pair of a state.
  std::pair<std::int32_t, std::int32_t> trigrams_of(std::int32_t s) const {
    return {first_trigram_[s], past_trigram_[s]};
  }
  int third(std::int64_t k) const { return static_cast<int>(trigram_[k] % labels_); }
  // Returns the number of the trigram of state s and label c; -1 if it has no weight.
  std::int64_t find(std::int32_t s, std::int32_t c) const {
    const auto first = trigram_.begin() + first_trigram_[s], past = trigram_.begin() + past_trigram_[s];
    const auto k = std::lower_bound(first, past, c,
                                    [&](std::int64_t t, std::int32_t y) { return t % labels_ < y; });
    return k != past && *k % labels_ == c ? k - trigram_.begin() : -1;
  }

  // Calls use(number) for the trigrams of a labelling of n positions.
  template <class Label, class Use>
  void for_each_trigram(const Label* y, std::int64_t n, const Use& use) const {
    for (std::int64_t t = 2; t < n; ++t) {
      const std::int64_t k =
          find(after(static_cast<std::int32_t>(y[t - 2]), static_cast<std::int32_t>(y[t - 1])),
               static_cast<std::int32_t>(y[t]));
      if (k >= 0) use(k);
    }
  }

  // Computes the transition scores, (states, states), from those of bigrams, (labels, labels), and the
  // weights of the trigrams. They are -inf where one state cannot follow another.
  void transitions(const double* bigrams, const double* trigrams, double* to) const {
    const std::int64_t n = count();
    std::fill(to, to + n * n, -std::numeric_limits<double>::infinity());
    for (std::int32_t s = 0; s < n; ++s) {
      for (std::int32_t c = 0; c < labels_; ++c)
        to[s * n + after(last_[s], c)] = bigrams[static_cast<std::int64_t>(last_[s]) * labels_ + c];
      for (std::int32_t k = first_trigram_[s]; k < past_trigram_[s]; ++k)
        to[s * n + after(last_[s], third(k))] += trigrams[k];
    }
  }

  // Copies the scores of labels to states: from (rows, labels) to (rows, states).
  void expand(const double* from, std::int64_t rows, double* to) const {
    for (std::int64_t r = 0; r < rows; ++r, from += labels_) {
      for (const std::int32_t label : last_) *to++ = from[label];
    }
  }
  // Returns the start scores of the states, (states). A state of a single label has that label's score,
  // or 0 if `scores` is null. A pair has -inf, because there is no label before the first position.
  std::vector<double> start(const double* scores) const {
    std::vector<double> to(count(), -std::numeric_limits<double>::infinity());
    for (int b = 0; b < labels_; ++b) to[begin_[b]] = scores == nullptr ? 0.0 : scores[b];
    return to;
  }
  // Sums one number per state to one number per label: from (rows, states) to (rows, labels).
  void sum(const double* from, std::int64_t rows, double* to) const {
    for (std::int64_t r = 0; r < rows; ++r, from += count()) {
      for (int b = 0; b < labels_; ++b) {
        double total = 0.0;
        for (std::int32_t s = begin_[b]; s < begin_[b + 1]; ++s) total += from[s];
        *to++ = total;
      }
    }
  }
  // Adds the expected counts of pairs of states to those of bigrams, (labels, labels), and of trigrams.
  // The counts are (states, stride); `scaled` must be multiplied by `weight`.
  void add_counts(const double* scaled, const double* weight, const double* log, std::int64_t stride,
                  double* bigrams, double* trigrams) const {
    for (std::int32_t s = 0; s < count(); ++s) {
      const auto at = [&](std::int32_t c) {
        const std::int64_t cell = s * stride + after(last_[s], c);
        return scaled[cell] * weight[cell] + log[cell];
      };
      for (std::int32_t c = 0; c < labels_; ++c)
        bigrams[static_cast<std::int64_t>(last_[s]) * labels_ + c] += at(c);
      for (std::int32_t k = first_trigram_[s]; k < past_trigram_[s]; ++k) trigrams[k] += at(third(k));
    }
  }

 private:
  void add(int last, int previous, std::int32_t first, std::int32_t past) {
    last_.push_back(last);
    previous_.push_back(previous);
    first_trigram_.push_back(first);
    past_trigram_.push_back(past);
  }

  int labels_;
  std::vector<std::int64_t> trigram_;
  std::vector<std::int32_t> begin_, last_, previous_;
  std::vector<std::int32_t> after_;                         // (labels, labels)
  std::vector<std::int32_t> first_trigram_, past_trigram_;  // (states): see trigrams_of()
};

}  // namespace trellis
