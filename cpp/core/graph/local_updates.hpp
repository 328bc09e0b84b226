// Updates of one variable at a time, given all other variables: iterated conditional modes, Gibbs
// sampling, mean field.
#pragma once

#include "base/thread_pool.hpp"
#include "graph/factor_graph.hpp"

namespace trellis::graph {

class LocalUpdates {
 public:
  // `tables` is an array of graph.tables log scores, the tables of all factors. It must outlive this
  // object.
  LocalUpdates(const Graph& graph, const double* tables) : graph_(graph), tables_(tables) {
    for (const Index c : graph.cardinality) most_labels_ = std::max(most_labels_, c);
  }

  Index most_labels() const { return most_labels_; }

  // Returns the score of a labelling, (variables).
  double score(const std::int64_t* labels) const {
    double total = 0.0;
    for (Index f = 0; f < graph_.factors(); ++f) {
      Index at = graph_.table[f];
      for (Index s = graph_.begin[f]; s < graph_.begin[f + 1]; ++s) {
        at += labels[graph_.scope[s]] * graph_.stride[s];
      }
      total += tables_[at];
    }
    return total;
  }

  // Computes the score of each label of v given the labels of all other variables: log p(y_v | rest) +
  // constant.
  void conditional(Index v, const std::int64_t* labels, double* out) const {
    std::fill(out, out + graph_.cardinality[v], 0.0);
    for (Index k = graph_.first_incident[v]; k < graph_.first_incident[v + 1]; ++k) {
      const Index slot = graph_.incident[k], f = graph_.factor_of[slot];
      Index at = graph_.table[f];
      for (Index s = graph_.begin[f]; s < graph_.begin[f + 1]; ++s) {
        if (s != slot) at += labels[graph_.scope[s]] * graph_.stride[s];
      }
      for (Index y = 0; y < graph_.cardinality[v]; ++y) out[y] += tables_[at + y * graph_.stride[slot]];
    }
  }

  // Runs iterated conditional modes: sweeps until no label changes, at most `max_sweeps`. Returns the
  // number of sweeps.
  Index climb(Index max_sweeps, std::int64_t* labels, bool* converged) const {
    std::vector<double> x(static_cast<std::size_t>(most_labels_));
    *converged = false;
    Index sweeps = 0;
    PollEvery poll(kVariableCost);
    while (!*converged && sweeps < max_sweeps) {
      *converged = true;
      for (Index v = 0; v < graph_.variables(); ++v) {
        poll.step();
        conditional(v, labels, x.data());
        const Index best = first_best(x.data(), graph_.cardinality[v]);
        if (x[best] > x[labels[v]]) {
          labels[v] = best;
          *converged = false;
        }
      }
      ++sweeps;
    }
    return sweeps;
  }

  // Gibbs sampling: the arrays of several chains.
  struct GibbsRun {
    Index chains, sweeps;
    const double* uniforms;  // (chains, sweeps, variables)
    std::int64_t* labels;    // (chains, variables): the initial labels; overwritten
    std::int64_t* kept;      // (chains, sweeps, variables): the labels after each sweep; or null
    double* score;           // (chains, sweeps): their scores; or null
  };
  void gibbs(const GibbsRun& run, int threads) const {
    const Index n = graph_.variables();
    parallel_for(run.chains, threads, [&] {
      return [&, x = std::vector<double>(static_cast<std::size_t>(most_labels_))](Index c) mutable {
        std::int64_t* chain = run.labels + c * n;
        PollEvery poll(kVariableCost);
        for (Index t = c * run.sweeps; t < (c + 1) * run.sweeps; ++t) {
          for (Index v = 0; v < n; ++v) {
            poll.step();
            conditional(v, chain, x.data());
            const Index labels_of = graph_.cardinality[v];
            // If the current labelling is forbidden, all labels may be forbidden. Then the current label
            // is kept.
            if (*std::max_element(x.begin(), x.begin() + labels_of) == kForbidden) continue;
            chain[v] = draw(x.data(), labels_of, run.uniforms[t * n + v]);
          }
          if (run.kept != nullptr) std::copy(chain, chain + n, run.kept + t * n);
          if (run.score != nullptr) run.score[t] = score(chain);
        }
      };
    });
  }

  // Runs mean field: coordinate ascent on E_q[score] + H(q), with q indexed by first_label. Returns the
  // number of sweeps; *change_out is the largest change in the last sweep.
  Index mean_field(Index max_sweeps, double tolerance, double* q, double* change_out) const {
    std::vector<double> x(static_cast<std::size_t>(most_labels_));
    Index sweeps = 0;
    double change = 1.0;
    PollEvery poll(kVariableCost);
    while (change > tolerance && sweeps < max_sweeps) {
      change = 0.0;
      for (Index v = 0; v < graph_.variables(); ++v) {
        poll.step();
        expected(v, q, x.data());
        double* q_v = q + graph_.first_label[v];
        const double top = *std::max_element(x.begin(), x.begin() + graph_.cardinality[v]);
        if (top == kForbidden) continue;  // every label has a forbidden neighbour: q does not change
        // The largest score is subtracted, so that scores of any size give probabilities that sum to 1.
        for (Index y = 0; y < graph_.cardinality[v]; ++y) x[y] -= top;
        const double total = log_sum_exp(x.data(), graph_.cardinality[v]);
        for (Index y = 0; y < graph_.cardinality[v]; ++y) {
          const double p = std::exp(x[y] - total);
          change = std::max(change, std::fabs(p - q_v[y]));
          q_v[y] = p;
        }
      }
      ++sweeps;
    }
    *change_out = change;
    return sweeps;
  }

  // Returns E_q[score]; -inf if q gives a forbidden labelling a positive probability.
  double expected_score(const double* q) const {
    double total = 0.0;
    for (Index f = 0; f < graph_.factors(); ++f) {
      for_each_entry(f, q, -1, [&](Index i, double p, Index) {
        if (p > 0.0) total += p * tables_[graph_.table[f] + i];
      });
    }
    return total;
  }

 private:
  // Calls visit(i, product of q over the other slots, label of `slot`) for each entry i of factor f. If
  // `slot` is -1, the product is over all slots.
  template <class Visit>
  void for_each_entry(Index f, const double* q, Index slot, const Visit& visit) const {
    Index label[kMaxOrder] = {};
    const int order = graph_.order(f);
    const Index first = graph_.begin[f];
    PollEvery poll(8 * order);
    for (Index i = 0; i < graph_.size(f); ++i) {
      poll.step();
      double p = 1.0;
      for (int k = 0; k < order; ++k) {
        if (first + k != slot) p *= q[graph_.first_label[graph_.scope[first + k]] + label[k]];
      }
      visit(i, p, slot < 0 ? 0 : label[slot - first]);
      for (int k = order - 1; k >= 0; --k) {
        if (++label[k] < graph_.labels(first + k)) break;
        label[k] = 0;
      }
    }
  }

  // out[y] = E_q[score | y_v = y] + constant.
  void expected(Index v, const double* q, double* out) const {
    std::fill(out, out + graph_.cardinality[v], 0.0);
    for (Index k = graph_.first_incident[v]; k < graph_.first_incident[v + 1]; ++k) {
      const Index slot = graph_.incident[k], f = graph_.factor_of[slot];
      for_each_entry(f, q, slot, [&](Index i, double p, Index y) {
        if (p > 0.0) out[y] += p * tables_[graph_.table[f] + i];
      });
    }
  }

  static constexpr Index kVariableCost = 1 << 8;  // for PollEvery

  const Graph& graph_;
  const double* tables_;
  Index most_labels_ = 1;
};

}  // namespace trellis::graph
