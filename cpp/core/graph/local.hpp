// One variable at a time, given the others: iterated conditional modes, Gibbs sampling, mean field.
#pragma once

#include "base/thread_pool.hpp"
#include "graph/types.hpp"

namespace trellis::graph {

class Local {
 public:
  Local(const Graph& graph, const double* tables) : graph_(graph), tables_(tables) {
    for (const Index c : graph.cardinality) most_labels_ = std::max(most_labels_, c);
  }

  Index most_labels() const { return most_labels_; }

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

  // Scores of each label of v, with the labels of all others as they are: log p(y_v | rest) + constant.
  void conditional(Index v, const std::int64_t* labels, double* out) const {
    std::fill(out, out + graph_.cardinality[v], 0.0);
    for (Index k = graph_.first_incident[v]; k < graph_.first_incident[v + 1]; ++k) {
      const Index own = graph_.incident[k], f = graph_.factor_of[own];
      Index at = graph_.table[f];
      for (Index s = graph_.begin[f]; s < graph_.begin[f + 1]; ++s) {
        if (s != own) at += labels[graph_.scope[s]] * graph_.stride[s];
      }
      for (Index y = 0; y < graph_.cardinality[v]; ++y) out[y] += tables_[at + y * graph_.stride[own]];
    }
  }

  // Sweeps until no label changes: how many; the last one changed nothing unless it was the most.
  Index climb(Index most, std::int64_t* labels, bool* converged) const {
    std::vector<double> x(static_cast<std::size_t>(most_labels_));
    *converged = false;
    Index sweeps = 0;
    while (!*converged && sweeps < most) {
      *converged = true;
      for (Index v = 0; v < graph_.variables(); ++v) {
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

  // Gibbs sweeps of some chains, labels (chains, variables), from uniforms (chains, sweeps, variables).
  // kept (chains, sweeps, variables) gets the labels after each sweep, score (chains, sweeps) their
  // score.
  void gibbs(Index chains, Index sweeps, const double* uniforms, std::int64_t* labels,
             std::int64_t* kept, double* score_out, int threads) const {
    const Index n = graph_.variables();
    parallel_for(chains, threads, [&] {
      return [&, x = std::vector<double>(static_cast<std::size_t>(most_labels_))](Index c) mutable {
        std::int64_t* own = labels + c * n;
        for (Index t = c * sweeps; t < (c + 1) * sweeps; ++t) {
          for (Index v = 0; v < n; ++v) {
            conditional(v, own, x.data());
            const Index labels_of = graph_.cardinality[v];
            // from a labelling that is not allowed there may be no allowed label: stay
            if (*std::max_element(x.begin(), x.begin() + labels_of) == kNever) continue;
            own[v] = draw(x.data(), labels_of, uniforms[t * n + v]);
          }
          if (kept != nullptr) std::copy(own, own + n, kept + t * n);
          if (score_out != nullptr) score_out[t] = score(own);
        }
      };
    });
  }

  // Coordinate ascent on E_q[score] + H(q), q by first_label: sweeps done, the largest change of the
  // last.
  Index mean_field(Index most, double tolerance, double* q, double* change_out) const {
    std::vector<double> x(static_cast<std::size_t>(most_labels_));
    Index sweeps = 0;
    double change = 1.0;
    while (change > tolerance && sweeps < most) {
      change = 0.0;
      for (Index v = 0; v < graph_.variables(); ++v) {
        expected(v, q, x.data());
        double* own = q + graph_.first_label[v];
        const double total = log_sum_exp(x.data(), graph_.cardinality[v]);
        if (total == kNever) continue;  // every label meets a forbidden neighbour: nothing to choose by
        for (Index y = 0; y < graph_.cardinality[v]; ++y) {
          const double p = std::exp(x[y] - total);
          change = std::max(change, std::fabs(p - own[y]));
          own[y] = p;
        }
      }
      ++sweeps;
    }
    *change_out = change;
    return sweeps;
  }

  // E_q[score]; -inf if q has a forbidden labelling with positive probability.
  double expected_score(const double* q) const {
    double total = 0.0;
    for (Index f = 0; f < graph_.factors(); ++f) {
      each(f, q, -1, [&](Index i, double p, Index) {
        if (p > 0.0) total += p * tables_[graph_.table[f] + i];
      });
    }
    return total;
  }

 private:
  // visit(i, product of q over the other slots, label of `own`) for each entry of a factor.
  template <class Visit>
  void each(Index f, const double* q, Index own, const Visit& visit) const {
    Index at[kMostOrder] = {};
    const int order = graph_.order(f);
    const Index first = graph_.begin[f];
    for (Index i = 0; i < graph_.size(f); ++i) {
      double p = 1.0;
      for (int k = 0; k < order; ++k) {
        if (first + k != own) p *= q[graph_.first_label[graph_.scope[first + k]] + at[k]];
      }
      visit(i, p, own < 0 ? 0 : at[own - first]);
      for (int k = order - 1; k >= 0; --k) {
        if (++at[k] < graph_.labels(first + k)) break;
        at[k] = 0;
      }
    }
  }

  void expected(Index v, const double* q, double* out) const {
    std::fill(out, out + graph_.cardinality[v], 0.0);
    for (Index k = graph_.first_incident[v]; k < graph_.first_incident[v + 1]; ++k) {
      const Index own = graph_.incident[k], f = graph_.factor_of[own];
      each(f, q, own, [&](Index i, double p, Index y) {
        if (p > 0.0) out[y] += p * tables_[graph_.table[f] + i];
      });
    }
  }

  const Graph& graph_;
  const double* tables_;
  Index most_labels_ = 1;
};

}  // namespace trellis::graph
