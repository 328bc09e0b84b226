// Forward-backward of second order for the objective: eight sequences at a time (chain/pairs.hpp), and
// the kernels of first order on all pairs of states where scaled probabilities are not exact.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <vector>

#include "base/aligned.hpp"
#include "chain/batch.hpp"
#include "dispatch.hpp"
#include "loglinear/pair_states.hpp"
#include "loglinear/training_labels.hpp"
#include "loglinear/weight_layout.hpp"

namespace trellis {

class PairChains {
 public:
  // Sequences of one call, in the order of the caller.
  struct Sequences {
    const std::vector<const double*>& unary;  // (length, labels) each
    const std::vector<std::int64_t>&lengths, &starts;
    const std::vector<double>& weights;
    std::vector<double>& log_z;
    std::vector<Outcome>& outcomes;
  };

  // The sums of expected counts and the scratch memory of one thread.
  struct Memory {
    std::vector<double> bigram_counts, source_counts;  // (bigrams, kLanes), (sources, kLanes)
    std::vector<double> bigrams, trigrams;  // (labels, labels), (trigrams): from the exact kernels
    Scratch scratch, scores, posteriors;
    std::vector<double> counts;  // (2, states, stride)
    std::optional<BatchMemory> exact;
  };

  PairChains(const WeightLayout& layout, const TrainingLabels& y, std::int64_t longest)
      : states_(layout.labels, layout.trigram, layout.trigrams),
        y_(y),
        block_rows_(std::min(longest, ChainBatch<double>::kBlockRows)) {
    source_begin_.push_back(0);
    bigram_begin_.push_back(0);
    for (std::int32_t r = 0; r < states_.count(); ++r) {
      const std::int32_t c = states_.last()[r], before = states_.previous()[r];
      for (std::int32_t b = before < 0 ? 0 : before; b < (before < 0 ? layout.labels : before + 1);
           ++b) {
        if (states_.after(b, c) == r) add_bigram(b, c);
      }
      bigram_begin_.push_back(static_cast<std::int32_t>(before_.size()));
    }
    bigram_value_.resize(before_.size());
    source_value_.assign(source_.size(), 1.0);
  }

  const PairStates& states() const { return states_; }
  const double* trigram_scores() const { return trigram_scores_; }

  // Takes the transition scores of labels, (labels, labels), and the weights of trigrams. Both arrays
  // must stay valid until the next call.
  void prepare(const double* bigrams, const double* trigrams) {
    bigram_scores_ = bigrams;
    trigram_scores_ = trigrams;
    shared_.reset();
    // The product of a bigram's and a trigram's factor must be within kWidestScores.
    const auto in_range = [](double x) { return std::abs(x) <= kWidestScores / 2; };
    scalable_ = std::all_of(trigrams, trigrams + states_.trigrams(), in_range);
    for (std::size_t n = 0; n < before_.size(); ++n) {
      const double score = bigrams[std::int64_t{before_[n]} * states_.labels() + after_[n]];
      scalable_ = scalable_ && (score == -std::numeric_limits<double>::infinity() || in_range(score));
      bigram_value_[n] = std::exp(score);
    }
    for (std::size_t k = 0; scalable_ && k < source_.size(); ++k) {
      if (trigram_[k] >= 0) source_value_[k] = std::exp(trigrams[trigram_[k]]);
    }
  }

  void clear(Memory& memory) const {
    memory.bigram_counts.assign(before_.size() * kLanes, 0.0);
    memory.source_counts.assign(source_.size() * kLanes, 0.0);
    memory.bigrams.assign(static_cast<std::size_t>(states_.labels()) * states_.labels(), 0.0);
    memory.trigrams.assign(states_.trigrams(), 0.0);
  }

  // Computes `out` = weight * p(y_t), (rows, labels), log_z and outcomes. Adds the expected counts of
  // bigrams and trigrams to the memory. Eight sequences of similar length are processed together.
  void marginals(const Sequences& x, double* out, Memory& memory) {
    std::vector<std::int64_t> order(x.lengths.size());
    std::iota(order.begin(), order.end(), std::int64_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t a, std::int64_t b) { return x.lengths[a] > x.lengths[b]; });
    std::vector<std::int64_t> group;
    for (const std::int64_t n : order) {
      if (!scalable_ || x.lengths[n] * states_.count() > kMostCells) {
        exact_marginals(x, n, out, memory);
        continue;
      }
      group.push_back(n);
      if (group.size() == kLanes) run_group(x, group, out, memory);
    }
    if (!group.empty()) run_group(x, group, out, memory);
  }

  // Computes the best labels of one sequence of n positions, and their score. Calls prepare() itself.
  // unary is (n, labels).
  void viterbi(const double* bigrams, const double* trigrams, const double* unary, std::int64_t n,
               std::int64_t* labels, double* score) {
    prepare(bigrams, trigrams);
    const std::shared_ptr<const SharedScores> shared = this->shared(Purpose::paths);
    path_scores_.resize(static_cast<std::size_t>(n * states_.count() + kPadding));
    states_.expand(unary, n, path_scores_.data());
    const double* const scores = path_scores_.data();
    const std::int64_t zero = 0;
    Outcome outcome;
    ChainBatch<double>(batch(&scores, &zero, &n), kernels().chain<double>(), 1, shared)
        .viterbi(labels, score, &outcome);
    for (std::int64_t t = 0; t < n; ++t) labels[t] = states_.last()[labels[t]];
  }

  // Adds the counts of bigrams to (labels, stride), and those of trigrams to (trigrams).
  void add_counts(const Memory& memory, int stride, double* bigrams, double* trigrams) const {
    const int labels = states_.labels();
    for (std::size_t n = 0; n < before_.size(); ++n)
      bigrams[before_[n] * stride + after_[n]] += sum_lanes(memory.bigram_counts, n);
    for (std::size_t k = 0; k < source_.size(); ++k) {
      if (trigram_[k] >= 0)
        trigrams[trigram_[k]] += sum_lanes(memory.source_counts, k) * source_value_[k];
    }
    for (int b = 0; b < labels; ++b) {
      for (int c = 0; c < labels; ++c) bigrams[b * stride + c] += memory.bigrams[b * labels + c];
    }
    for (std::size_t k = 0; k < memory.trigrams.size(); ++k) trigrams[k] += memory.trigrams[k];
  }

 private:
  // The limit of positions times states of a sequence. All rows of eight sequences are in memory at
  // once, 64 MiB at this limit, so larger sequences use the exact kernels. The limit was chosen by hand.
  static constexpr std::int64_t kMostCells = 1 << 20;

  // Adds the bigram (b, c) with its sources: first those whose trigram has a weight.
  void add_bigram(std::int32_t b, std::int32_t c) {
    const std::size_t first = source_.size();
    std::vector<std::int32_t> plain;
    for (std::int32_t s = states_.begin()[b]; s < states_.begin()[b + 1]; ++s) {
      const std::int64_t k = states_.find(s, c);
      if (k < 0) {
        plain.push_back(s);
      } else {
        source_.push_back(s);
        trigram_.push_back(static_cast<std::int32_t>(k));
      }
    }
    plain_begin_.push_back(static_cast<std::int32_t>(source_.size()));
    if (source_.size() > first) {
      source_.insert(source_.end(), plain.begin(), plain.end());
      trigram_.resize(source_.size(), -1);
    }
    source_begin_.push_back(static_cast<std::int32_t>(source_.size()));
    before_.push_back(static_cast<std::uint16_t>(b));
    after_.push_back(static_cast<std::uint16_t>(c));
  }

  static double sum_lanes(const std::vector<double>& counts, std::size_t n) {
    const auto lanes = counts.begin() + static_cast<std::ptrdiff_t>(n * kLanes);
    return std::accumulate(lanes, lanes + kLanes, 0.0);
  }

  // Runs up to eight sequences, longest first, and empties the group. If scaled probabilities are
  // inexact for some of them, these use the exact kernels, and the group runs again without them.
  void run_group(const Sequences& x, std::vector<std::int64_t>& group, double* out, Memory& memory) {
    PairChain c{};
    double* scratch = nullptr;
    bool complete = false;
    while (!complete && !group.empty()) {
      c = chain(x, group, out, memory);
      scratch = memory.scratch.get(pair_scratch_size(c, c.length[0]));
      kernels().loglinear.pair_forward(c, scratch);
      std::vector<std::int64_t> exact;
      for (std::size_t lane = 0; lane < group.size(); ++lane) {
        if (c.inexact[lane]) {
          exact_marginals(x, group[lane], out, memory);
        } else {
          exact.push_back(group[lane]);
        }
      }
      complete = exact.size() == group.size();
      group = std::move(exact);
    }
    if (group.empty()) return;
    kernels().loglinear.pair_backward(c, scratch);
    for (std::size_t lane = 0; lane < group.size(); ++lane) {
      x.log_z[group[lane]] = c.log_z[lane];
      x.outcomes[group[lane]] = {};
    }
    group.clear();
  }

  PairChain chain(const Sequences& x, const std::vector<std::int64_t>& group, double* out,
                  Memory& memory) const {
    PairChain c{};
    c.labels = states_.labels();
    c.states = states_.count();
    c.state_begin = states_.begin().data();
    c.bigram_begin = bigram_begin_.data();
    c.before = before_.data();
    c.bigram_value = bigram_value_.data();
    c.source_begin = source_begin_.data();
    c.plain_begin = plain_begin_.data();
    c.source = source_.data();
    c.source_value = source_value_.data();
    c.start = y_.start;
    c.end = y_.end;
    c.bigram_counts = memory.bigram_counts.data();
    c.source_counts = memory.source_counts.data();
    for (std::size_t lane = 0; lane < group.size(); ++lane) {
      const std::int64_t n = group[lane];
      c.length[lane] = x.lengths[n];
      c.unary[lane] = x.unary[n];
      c.out[lane] = out + x.starts[n] * c.labels;
      c.weight[lane] = x.weights[n];
    }
    return c;
  }

  // ---- a sequence that scaled probabilities do not represent

  // Computes the scores of all pairs of states at the first use.
  std::shared_ptr<const SharedScores> shared(Purpose purpose) {
    const std::lock_guard lock(mutex_);
    if (shared_ == nullptr) {
      const std::int64_t states = states_.count();
      matrix_.resize(static_cast<std::size_t>(states * states));
      states_.transitions(bigram_scores_, trigram_scores_, matrix_.data());
      start_ = states_.start(y_.start);
      if (y_.end != nullptr) {
        end_.resize(states);
        states_.expand(y_.end, 1, end_.data());
      }
      const Batch<double> none = batch(nullptr, nullptr, nullptr);
      shared_ = std::make_shared<SharedScores>(none, purpose == Purpose::probabilities);
    }
    return shared_;
  }

  Batch<double> batch(const double* const* unary, const std::int64_t* start,
                      const std::int64_t* length) const {
    return {.count = unary == nullptr ? 0 : 1,
            .labels = states_.count(),
            .unary = unary,
            .starts = start,
            .lengths = length,
            .transition = matrix_.data(),
            .transitions = nullptr,
            .start = start_.data(),
            .end = end_.empty() ? nullptr : end_.data()};
  }

  void exact_marginals(const Sequences& x, std::int64_t n, double* out, Memory& memory) {
    const std::shared_ptr<const SharedScores> shared = this->shared(Purpose::probabilities);
    if (!memory.exact) memory.exact.emplace(shared->view(), block_rows_);
    const std::int64_t length = x.lengths[n], states = states_.count(), stride = shared->view().stride;
    double* scores = memory.scores.get(length * states + kPadding);
    double* p = memory.posteriors.get(length * states + kPadding);
    states_.expand(x.unary[n], length, scores);
    memory.counts.assign(static_cast<std::size_t>(2 * states * stride), 0.0);
    const std::int64_t zero = 0;
    const double* const unary = scores;
    const MarginalsOut<double> marginals{.unary = p,
                                         .pairwise = nullptr,
                                         .pairwise_starts = nullptr,
                                         .counts = nullptr,
                                         .log_z = &x.log_z[n],
                                         .outcomes = &x.outcomes[n],
                                         .weights = &x.weights[n]};
    const ChainBatch<double> chain(batch(&unary, &zero, &length), kernels().chain<double>(), 1, shared);
    double* log_counts = memory.counts.data() + states * stride;
    chain.marginals_here(marginals, *memory.exact, memory.counts.data(), log_counts);
    states_.sum(p, length, out + x.starts[n] * states_.labels());
    states_.add_counts(memory.counts.data(), shared->view().weight, log_counts, stride,
                       memory.bigrams.data(), memory.trigrams.data());
  }

  PairStates states_;
  TrainingLabels y_;
  std::int64_t block_rows_;
  // As in PairChain (chain/types.hpp). The bigrams are sorted by the state that they lead to.
  std::vector<std::int32_t> bigram_begin_, source_begin_, plain_begin_, source_;
  std::vector<std::uint16_t> before_, after_;  // (bigrams)
  std::vector<std::int32_t> trigram_;          // (sources): the number of the trigram, or -1
  std::vector<double> bigram_value_, source_value_;
  bool scalable_ = false;  // all finite transition scores are within kWidestScores / 2
  const double *bigram_scores_ = nullptr, *trigram_scores_ = nullptr;
  std::mutex mutex_;
  std::shared_ptr<const SharedScores> shared_;  // of all pairs of states
  std::vector<double> matrix_, start_, end_;    // (states, states), (states), (states)
  std::vector<double> path_scores_;             // (n, states), of viterbi()
};

}  // namespace trellis
