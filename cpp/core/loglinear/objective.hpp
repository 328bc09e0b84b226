// The negative log-likelihood of a log-linear chain model, and its gradient.
//
// Each chunk of sequences goes through all steps while it is in the cache: scores, forward-backward,
// residuals (expected minus observed counts), gradient. One thread processes the chunks of a slot in
// order; gradient_slots.hpp assigns chunks to slots and adds the gradients.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "base/thread_pool.hpp"
#include "chain/batch.hpp"
#include "dispatch.hpp"
#include "loglinear/gradient_slots.hpp"
#include "loglinear/pair_chain.hpp"
#include "loglinear/row_plan.hpp"
#include "loglinear/sparse_bigrams.hpp"
#include "loglinear/training_labels.hpp"

namespace trellis {

class Objective {
 public:
  Objective(const WeightLayout& layout, const SparseRows& x, const SparseRows& edges,
            const TrainingLabels& y, Normaliser normaliser)
      : layout_(layout),
        edges_(edges),
        y_(y),
        normaliser_(normaliser),
        dense_(layout, occurrences(layout, x).data()),
        rows_(layout, x, dense_),
        slots_(layout, y, dense_, rows_),
        log_likelihood_(y.sequences),
        outcomes_(y.sequences) {
    inspect_labels();
    count_bigrams();
    if (can_be_sparse()) bigrams_.emplace(layout_);
    if (layout_.trigrams > 0) pair_chains_.emplace(layout_, y_, longest_);
  }
  Objective(const Objective&) = delete;
  Objective& operator=(const Objective&) = delete;

  std::int64_t size() const { return layout_.size(); }
  const std::vector<double>& log_likelihood() const { return log_likelihood_; }

  // Returns the first sequence without an allowed path, or with forbidden labels; -1 if there is none.
  std::int64_t infeasible() const {
    for (std::int64_t i = 0; i < y_.sequences; ++i) {
      if (outcomes_[i].status == Status::infeasible) return i;
    }
    return -1;
  }

  // Computes -sum_i weight_i log p(y_i | x_i) + l2 / 2 |w|^2, and its gradient. Returns +inf if the sum
  // is not finite, for example because a score is NaN.
  double evaluate(const double* w, double l2, int threads, double* gradient) {
    prepare(w);
    parallel_for(slots_.count(), threads, [&] {
      return
          [&, this, worker = Worker(*this)](std::int64_t s) mutable { run_slot(w, slots_[s], worker); };
    });
    double loss = 0.0;
    for (std::int64_t i = 0; i < y_.sequences; ++i) loss -= log_likelihood_[i];
    loss += slots_.sum(w, l2, threads, gradient);
    slots_.add_bigrams(shared_->view().weight, observed_.data(), gradient + layout_.states());
    return std::isfinite(loss) ? loss : std::numeric_limits<double>::infinity();
  }

 private:
  using Slot = GradientSlots::Slot;

  // The scratch memory of one thread, for one chunk.
  struct Worker {
    explicit Worker(const Objective& o)
        : chain(o.shared_->view(), std::min(o.longest_, ChainBatch<double>::kBlockRows)) {
      const std::int64_t cells = o.slots_.chunk_rows() * o.layout_.labels;
      scores = aligned_doubles(cells + kPadding);
      residual = aligned_doubles(cells + kPadding);
      if (o.partial_) masked = aligned_doubles(cells + kPadding);
      if (o.partial_) expected = aligned_doubles(cells + kPadding);
      if (o.layout_.edge_attributes > 0) {
        const std::int64_t matrices = o.slots_.chunk_rows() * o.layout_.labels * o.layout_.labels;
        transitions = aligned_doubles(matrices);
        pairs = aligned_doubles(matrices);
        if (o.partial_) expected_pairs = aligned_doubles(matrices);
      }
    }
    typename ChainBatch<double>::Memory chain;
    AlignedDoubles scores, residual;    // (rows, labels)
    AlignedDoubles masked, expected;    // (rows, labels); only if there are unknown labels
    AlignedDoubles transitions, pairs;  // (rows, labels, labels); only if there are edge attributes
    // (rows, labels, labels); only if there are edge attributes and unknown labels
    AlignedDoubles expected_pairs;
    Scratch lanes;                    // for SparseBigrams
    std::vector<double> lane_counts;  // (bigrams, kLanes)
    PairChains::Memory pair_chains;   // only if there are trigrams
  };

  // The sequences of one call of the chain kernels; each vector has one entry per sequence.
  struct Sequences {
    // `starts` counts rows from the start of the chunk.
    std::vector<std::int64_t> index, starts, lengths, pair_starts;
    std::vector<const double*> unary, transitions;  // (length, labels), (length - 1, labels, labels)
    std::vector<double> weight, log_z;
    std::vector<Outcome> outcomes;
  };

  static std::vector<std::int64_t> occurrences(const WeightLayout& layout, const SparseRows& x) {
    std::vector<std::int64_t> count(layout.attributes, 0);
    PollEvery poll(1);
    for (std::int64_t i = 0; i < x.begin[x.rows]; ++i) {
      poll.step();
      const std::int32_t a = x.id_at(i);
      if (a >= 0 && a < layout.attributes) ++count[a];
    }
    return count;
  }

  std::int64_t length(std::int64_t i) const { return y_.length(i); }
  double weight(std::int64_t i) const { return y_.weight_of(i); }
  bool known(std::int64_t i) const { return known_[i] != 0; }
  bool has_edges() const { return layout_.edge_attributes > 0; }

  // Finds the longest sequence, and the sequences with unknown labels.
  void inspect_labels() {
    for (std::int64_t i = 0; i < y_.sequences; ++i) {
      longest_ = std::max(longest_, length(i));
      const std::int32_t* y = y_.label + y_.row_begin[i];
      known_.push_back(std::find(y, y + length(i), -1) == y + length(i));
      partial_ = partial_ || known_.back() == 0;
    }
  }

  // Counts the bigrams of sequences whose labels are known.
  void count_bigrams() {
    observed_.assign(static_cast<std::size_t>(layout_.labels) * layout_.labels, 0.0);
    // In these cases the bigrams are subtracted row by row instead.
    if (has_edges() || normaliser_ == Normaliser::step) return;
    for (std::int64_t i = 0; i < y_.sequences; ++i) {
      if (!known(i)) continue;
      for (std::int64_t r = y_.row_begin[i] + 1; r < y_.row_begin[i + 1]; ++r) {
        observed_[y_.label[r - 1] * layout_.labels + y_.label[r]] += weight(i);
      }
    }
  }

  void prepare(const double* w) {
    transition_.resize(static_cast<std::size_t>(layout_.labels) * layout_.labels);
    transition_scores(layout_, w, y_.forbidden, transition_.data());
    const Batch<double> none{.count = 0,
                             .labels = layout_.labels,
                             .unary = nullptr,
                             .starts = nullptr,
                             .lengths = nullptr,
                             .transition = has_edges() ? nullptr : transition_.data(),
                             .transitions = nullptr,
                             .start = y_.start,
                             .end = y_.end};
    shared_ = std::make_shared<SharedScores>(none, true);
    sparse_ = bigrams_ && bigrams_->prepare(w + layout_.states());
    if (pair_chains_) pair_chains_->prepare(transition_.data(), w + layout_.first_trigram());
    table_.resize(static_cast<std::size_t>(dense_.table_size()) + kPadding);
    dense_.expand(w, table_.data());
  }

  // Returns whether the sparse kernel can be used: no transition may be forbidden, position-dependent or
  // of second order, and no label unknown.
  bool can_be_sparse() const {
    return normaliser_ == Normaliser::sequence && !y_.constrained() && !partial_ && !has_edges() &&
           layout_.trigrams == 0 && longest_ <= SparseBigrams::kLongest &&
           SparseBigrams::are_few(layout_);
  }

  void run_slot(const double* w, const Slot& slot, Worker& worker) {
    slots_.clear(slot);
    worker.lane_counts.assign(sparse_ ? layout_.bigrams * kLanes : 0, 0.0);
    if (pair_chains_) pair_chains_->clear(worker.pair_chains);
    for (std::size_t c = 0; c + 1 < slot.chunk_begin.size(); ++c) {
      run_chunk(w, slot.chunk_begin[c], slot.chunk_begin[c + 1], slot, worker);
    }
    if (sparse_)
      bigrams_->add_counts(worker.lane_counts.data(), slots_.stride(), slots_.log_counts(slot));
    if (pair_chains_) {
      pair_chains_->add_counts(worker.pair_chains, slots_.stride(), slots_.log_counts(slot),
                               slots_.trigrams(slot));
    }
  }

  void run_chunk(const double* w, std::int64_t first, std::int64_t last, const Slot& slot,
                 Worker& worker) {
    const LoglinearKernels& k = kernels().loglinear;
    const std::int64_t begin = y_.row_begin[first], end = y_.row_begin[last];
    in_row_blocks(begin, end, [&](std::int64_t from, std::int64_t to) {
      k.score_rows(rows_.plan(), table_.data(), w, from, to,
                   worker.scores.get() + (from - begin) * layout_.labels);
    });
    if (has_edges()) {
      edge_scores(layout_, edges_, w + layout_.states() + layout_.bigrams, transition_.data(), begin,
                  end, worker.transitions.get());
    }
    if (normaliser_ == Normaliser::step) {
      for (std::int64_t i = first; i < last; ++i) step_residuals(i, begin, slot, worker);
    } else {
      sequence_residuals(first, last, slot, worker);
    }
    in_row_blocks(begin, end, [&](std::int64_t from, std::int64_t to) {
      k.add_rows(rows_.plan(), worker.residual.get() + (from - begin) * layout_.labels, from, to,
                 slots_.dense(slot), slots_.states(slot));
    });
    if (has_edges()) {
      add_edges(layout_, edges_, worker.pairs.get(), begin, end, slots_.edges(slot));
    }
  }

  // ---- normalised over the sequence

  void sequence_residuals(std::int64_t first, std::int64_t last, const Slot& slot, Worker& worker) {
    const std::int64_t begin = y_.row_begin[first];
    for (std::int64_t r = begin; r < y_.row_begin[last]; ++r) {
      add_costs(y_.label[r], worker.scores.get() + (r - begin) * layout_.labels);
    }
    Sequences all = gather(first, last, false, worker.scores.get(), worker);
    if (sparse_) {
      bigrams_->marginals(all.unary, all.lengths, all.starts, all.weight, worker.residual.get(),
                          worker.lanes, worker.lane_counts.data(), all.log_z.data());
    } else {
      marginals(all, 1.0, worker.residual.get(), worker.pairs.get(), slot, worker);
    }
    for (std::int64_t i = first; i < last; ++i) {
      log_likelihood_[i] = -weight(i) * all.log_z[i - first];
      outcomes_[i] = all.outcomes[i - first];
      if (known(i)) observe(i, begin, slot, worker);
    }
    if (!partial_) {
      sum_pairs(first, last, slot, worker);
      return;
    }
    Sequences partial = gather(first, last, true, worker.masked.get(), worker);
    if (!partial.index.empty()) {
      mask(partial, begin, worker);
      marginals(partial, -1.0, worker.expected.get(), worker.expected_pairs.get(), slot, worker);
      for (std::size_t n = 0; n < partial.index.size(); ++n) add_observed(partial, n, begin, worker);
    }
    sum_pairs(first, last, slot, worker);
  }

  // Returns the sequences [first, last) or, if `unknown`, only those with unknown labels; `unary` is
  // (rows, labels).
  Sequences gather(std::int64_t first, std::int64_t last, bool unknown, const double* unary,
                   Worker& worker) {
    Sequences sequences;
    const std::int64_t begin = y_.row_begin[first];
    for (std::int64_t i = first; i < last; ++i) {
      if (unknown && known(i)) continue;
      const std::int64_t row = y_.row_begin[i] - begin;
      sequences.index.push_back(i);
      sequences.starts.push_back(row);
      sequences.lengths.push_back(length(i));
      sequences.unary.push_back(unary + row * layout_.labels);
      sequences.weight.push_back(weight(i));
      if (has_edges()) {
        const std::int64_t square = static_cast<std::int64_t>(layout_.labels) * layout_.labels;
        sequences.transitions.push_back(worker.transitions.get() + (row + 1) * square);
        sequences.pair_starts.push_back(row + 1);
      }
    }
    sequences.log_z.resize(sequences.index.size());
    sequences.outcomes.resize(sequences.index.size());
    return sequences;
  }

  // Writes sign * weight * p(y_t) to `unary`. The pairwise marginals go to `pairs` if there are edge
  // attributes. Otherwise they are added to the counts of the slot or, with trigrams, of the worker.
  void marginals(Sequences& sequences, double sign, double* unary, double* pairs, const Slot& slot,
                 Worker& worker) {
    for (double& x : sequences.weight) x *= sign;
    if (pair_chains_) {
      const PairChains::Sequences x{.unary = sequences.unary,
                                    .lengths = sequences.lengths,
                                    .starts = sequences.starts,
                                    .weights = sequences.weight,
                                    .log_z = sequences.log_z,
                                    .outcomes = sequences.outcomes};
      pair_chains_->marginals(x, unary, worker.pair_chains);
    } else {
      first_order_marginals(sequences, unary, pairs, slot, worker);
    }
    for (double& x : sequences.weight) x *= sign;
  }

  void first_order_marginals(Sequences& sequences, double* unary, double* pairs, const Slot& slot,
                             Worker& worker) {
    const Batch<double> batch{.count = static_cast<std::int64_t>(sequences.index.size()),
                              .labels = layout_.labels,
                              .unary = sequences.unary.data(),
                              .starts = sequences.starts.data(),
                              .lengths = sequences.lengths.data(),
                              .transition = has_edges() ? nullptr : transition_.data(),
                              .transitions = has_edges() ? sequences.transitions.data() : nullptr,
                              .start = y_.start,
                              .end = y_.end};
    MarginalsOut<double> out{.unary = unary,
                             .pairwise = has_edges() ? pairs : nullptr,
                             .pairwise_starts = sequences.pair_starts.data(),
                             .counts = nullptr,
                             .log_z = sequences.log_z.data(),
                             .outcomes = sequences.outcomes.data(),
                             .weights = sequences.weight.data()};
    const ChainBatch<double> chain(batch, kernels().chain<double>(), 1, shared_);
    chain.marginals_here(out, worker.chain, has_edges() ? nullptr : slots_.scaled_counts(slot),
                         has_edges() ? nullptr : slots_.log_counts(slot));
  }

  // Adds the cost of the right label to the scores of all wrong labels. Training then requires a margin
  // between the right label and the wrong ones.
  void add_costs(std::int32_t right, double* scores) const {
    if (y_.cost == nullptr || right < 0) return;
    for (int y = 0; y < layout_.labels; ++y) scores[y] += y == right ? 0.0 : y_.cost[right];
  }

  // Adds the score of the known labels to the log-likelihood, and subtracts their counts from the
  // residuals.
  void observe(std::int64_t i, std::int64_t begin, const Slot& slot, Worker& worker) {
    const int labels = layout_.labels;
    const std::int32_t* y = y_.label + y_.row_begin[i];
    const std::int64_t row = y_.row_begin[i] - begin, n = length(i);
    const double* scores = worker.scores.get() + row * labels;
    double* residual = worker.residual.get() + row * labels;
    double total =
        (y_.start == nullptr ? 0.0 : y_.start[y[0]]) + (y_.end == nullptr ? 0.0 : y_.end[y[n - 1]]);
    for (std::int64_t t = 0; t < n; ++t) {
      total += scores[t * labels + y[t]];
      residual[t * labels + y[t]] -= weight(i);
      if (t == 0) continue;
      const std::int64_t cell = static_cast<std::int64_t>(y[t - 1]) * labels + y[t];
      if (has_edges()) {
        const std::int64_t square = static_cast<std::int64_t>(labels) * labels;
        total += worker.transitions[(row + t) * square + cell];
        worker.pairs[(row + t) * square + cell] -= weight(i);
      } else {
        total += transition_[cell];
      }
    }
    if (pair_chains_) {
      pair_chains_->states().for_each_trigram(y, n, [&](std::int64_t k) {
        total += pair_chains_->trigram_scores()[k];
        slots_.trigrams(slot)[k] -= weight(i);
      });
    }
    log_likelihood_[i] += weight(i) * total;
    if (total == -std::numeric_limits<double>::infinity()) outcomes_[i] = {Status::infeasible, 0};
  }

  // Copies the scores of sequences with unknown labels. Labels that are not possible get -inf.
  void mask(const Sequences& sequences, std::int64_t begin, Worker& worker) const {
    const int labels = layout_.labels;
    for (std::size_t n = 0; n < sequences.index.size(); ++n) {
      for (std::int64_t t = 0; t < sequences.lengths[n]; ++t) {
        const std::int64_t row = sequences.starts[n] + t, r = begin + row;
        for (int y = 0; y < labels; ++y) {
          const bool allowed =
              y_.label[r] >= 0 ? y == y_.label[r] : y_.allowed == nullptr || y_.allowed[r * labels + y];
          worker.masked[row * labels + y] =
              allowed ? worker.scores[row * labels + y] : -std::numeric_limits<double>::infinity();
        }
      }
    }
  }

  // For a partly labelled sequence, adds log Z given its known labels to the log-likelihood, and
  // subtracts the marginals given its known labels from the residuals: `worker.expected` holds them with
  // a negative sign.
  void add_observed(const Sequences& sequences, std::size_t n, std::int64_t begin, Worker& worker) {
    const std::int64_t i = sequences.index[n], labels = layout_.labels, square = labels * labels;
    const std::int64_t row = y_.row_begin[i] - begin;
    const bool is_feasible = sequences.outcomes[n].status == Status::ok;
    log_likelihood_[i] +=
        is_feasible ? weight(i) * sequences.log_z[n] : -std::numeric_limits<double>::infinity();
    if (!is_feasible) outcomes_[i] = sequences.outcomes[n];
    for (std::int64_t k = row * labels; k < (row + length(i)) * labels; ++k) {
      worker.residual[k] += worker.expected[k];
    }
    if (!has_edges()) return;
    for (std::int64_t k = (row + 1) * square; k < (row + length(i)) * square; ++k) {
      worker.pairs[k] += worker.expected_pairs[k];
    }
  }

  // With edge attributes, pairwise marginals are stored per position. Adds them up over the positions:
  // the weights of plain bigrams need only the sum.
  void sum_pairs(std::int64_t first, std::int64_t last, const Slot& slot, Worker& worker) const {
    if (!has_edges()) return;
    const std::int64_t labels = layout_.labels, square = labels * labels, begin = y_.row_begin[first];
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t row = y_.row_begin[i] - begin;
      std::fill(worker.pairs.get() + row * square, worker.pairs.get() + (row + 1) * square, 0.0);
      for (std::int64_t t = 1; t < length(i); ++t)
        add_matrix(worker.pairs.get() + (row + t) * square, slot);
    }
  }

  void add_matrix(const double* matrix, const Slot& slot) const {
    for (int a = 0; a < layout_.labels; ++a) {
      double* to = slots_.log_counts(slot) + static_cast<std::int64_t>(a) * slots_.stride();
      for (int b = 0; b < layout_.labels; ++b) to[b] += matrix[a * layout_.labels + b];
    }
  }

  // ---- normalised at each step: -log p(y_t | y_{t-1}, x), where both labels are known

  void step_residuals(std::int64_t i, std::int64_t begin, const Slot& slot, Worker& worker) {
    const int labels = layout_.labels;
    const std::int64_t square = static_cast<std::int64_t>(labels) * labels;
    const std::int32_t* y = y_.label + y_.row_begin[i];
    const std::vector<double> zero(labels, 0.0);
    double total = 0.0;
    outcomes_[i] = {};
    PollEvery poll(kRowCost + labels);
    for (std::int64_t t = 0; t < length(i); ++t) {
      poll.step();
      const std::int64_t row = y_.row_begin[i] - begin + t;
      double* residual = worker.residual.get() + row * labels;
      if (has_edges()) std::fill_n(worker.pairs.get() + row * square, square, 0.0);
      if (y[t] < 0 || (t > 0 && y[t - 1] < 0)) {
        std::fill(residual, residual + labels, 0.0);
        continue;
      }
      const std::int64_t from = t == 0 ? 0 : static_cast<std::int64_t>(y[t - 1]) * labels;
      const double* incoming_scores = t == 0        ? (y_.start == nullptr ? zero.data() : y_.start)
                                      : has_edges() ? worker.transitions.get() + row * square + from
                                                    : transition_.data() + from;
      double* scores = worker.scores.get() + row * labels;
      add_costs(y[t], scores);
      if (!(scores[y[t]] + incoming_scores[y[t]] > -std::numeric_limits<double>::infinity())) {
        total = -std::numeric_limits<double>::infinity();  // the transition is forbidden
        std::fill(residual, residual + labels, 0.0);
        continue;
      }
      const double log_z = kernels().loglinear.softmax(scores, incoming_scores, labels, residual);
      total += scores[y[t]] + incoming_scores[y[t]] - log_z;
      residual[y[t]] -= 1.0;
      for (int b = 0; b < labels; ++b) residual[b] *= weight(i);
      if (t == 0) continue;
      double* counts = slots_.log_counts(slot) + static_cast<std::int64_t>(y[t - 1]) * slots_.stride();
      for (int b = 0; b < labels; ++b) counts[b] += residual[b];
      if (has_edges()) std::copy(residual, residual + labels, worker.pairs.get() + row * square + from);
    }
    log_likelihood_[i] = weight(i) * total;
    if (total == -std::numeric_limits<double>::infinity()) outcomes_[i] = {Status::infeasible, 0};
  }

  WeightLayout layout_;
  SparseRows edges_;  // (rows): attributes of the transition into each row
  TrainingLabels y_;
  Normaliser normaliser_;
  DenseAttributes dense_;
  PlannedRows rows_;
  GradientSlots slots_;
  std::vector<double> log_likelihood_;  // (sequences): weight * log p(y | x)
  std::vector<Outcome> outcomes_;       // (sequences)
  std::vector<char> known_;             // (sequences): 1 if all labels are known
  bool partial_ = false;                // some labels are unknown
  std::int64_t longest_ = 0;
  std::vector<double> observed_, transition_;  // (labels, labels)
  std::vector<double> table_;                  // the weights of dense attributes, expanded
  std::shared_ptr<const SharedScores> shared_;
  std::optional<SparseBigrams> bigrams_;
  std::optional<PairChains> pair_chains_;  // if there are trigrams
  bool sparse_ = false;                    // the current weights allow the sparse kernel
};

}  // namespace trellis
