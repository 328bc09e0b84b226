// Exact inference by variable elimination. A message is a clique's table after the variable of its
// bucket has been summed (or maximised) out. The backward pass turns tables of log scores into
// marginals.
#pragma once

#include "base/thread_pool.hpp"
#include "graph/elimination.hpp"

namespace trellis::graph {

class Exact {
 public:
  // `tables` is an array of graph.tables log scores, the tables of all factors. It must outlive this
  // object.
  Exact(const Graph& graph, const EliminationPlan& plan, const double* tables, int threads)
      : graph_(graph),
        plan_(plan),
        tables_(tables),
        threads_(plan.table.back() < kMinThreadedEntries ? 1 : threads) {
    // The tables may need gigabytes, which the system provides only as they are filled. This takes time,
    // so it is done in blocks with polls between them.
    const auto entries = static_cast<std::size_t>(plan.table.back());
    phi_.reserve(entries);
    while (phi_.size() < entries) {
      poll_interrupt();
      phi_.resize(std::min(entries, phi_.size() + kFillBlock));
    }
    message_.assign(1, 0);
    for (Index b = 0; b < plan.buckets(); ++b) message_.push_back(message_.back() + rows(b));
    sent_.resize(static_cast<std::size_t>(message_.back()));
  }

  // Computes log Z (with kMax: the best score) of each connected component. It is stored at the variable
  // that is eliminated last; all other entries are 0.
  template <bool kMax>
  void collect(double* log_z) {
    std::fill(log_z, log_z + graph_.variables(), 0.0);
    fill_trees();
    for_each_tree([&](Index begin, Index end) {
      for (Index k = begin; k < end; ++k) {
        poll_interrupt();
        const Index b = plan_.tree[k];
        eliminate<kMax>(b);
        if (plan_.parent[b] >= 0) {
          add(plan_.parent[b], b);
        } else {
          log_z[plan_.order[b]] = sent_[message_[b]];
        }
      }
    });
  }

  // Writes p(y_v), indexed by first_label, and p(y_f), indexed by entries. Call it after collect<false>,
  // if log Z is finite.
  void distribute(double* variable, double* factor) {
    for_each_tree([&](Index begin, Index end) {
      std::vector<double> above;
      for (Index k = end; k-- > begin;) {
        poll_interrupt();
        const Index b = plan_.tree[k];
        above.assign(static_cast<std::size_t>(rows(b)), 0.0);
        from_parent(b, above.data());
        to_probabilities(b, above.data());
        const Index v = plan_.order[b], labels = graph_.cardinality[v];
        double* marginal = variable + graph_.first_label[v];
        std::fill(marginal, marginal + labels, 0.0);
        const double* p = phi(b);
        for (Index r = 0; r < rows(b); ++r) {
          for (Index y = 0; y < labels; ++y) marginal[y] += p[r * labels + y];
        }
      }
    });
    if (factor == nullptr) return;
    parallel_for(blocks(), threads_, [&] {
      return [&](Index block) {
        const Index end = std::min(graph_.factors(), (block + 1) * kBlock);
        for (Index f = block * kBlock; f < end; ++f) marginal(f, factor + graph_.entries[f]);
      };
    });
  }

  // Writes the best labels; among equal scores, the first label. Call it after collect<true>.
  void best(std::int64_t* labels) const {
    PollEvery poll(kFactorCost);
    for (Index b = plan_.buckets(); b-- > 0;) {
      poll.step();
      labels[plan_.order[b]] = first_best(row(b, labels), graph_.cardinality[plan_.order[b]]);
    }
  }

  // Draws one labelling, from one uniform number per variable. Call it after collect<false>.
  void sample(const double* uniforms, std::int64_t* labels) const {
    PollEvery poll(kFactorCost);
    for (Index b = plan_.buckets(); b-- > 0;) {
      poll.step();
      const Index v = plan_.order[b];
      labels[v] = draw(row(b, labels), graph_.cardinality[v], uniforms[v]);
    }
  }

 private:
  static constexpr Index kBlock = 512;                             // factors per task
  static constexpr std::size_t kFillBlock = std::size_t{1} << 20;  // entries between two polls
  static constexpr Index kFactorCost = 64;                         // for PollEvery
  static constexpr Index kMinThreadedEntries = 1 << 14;  // entries; smaller graphs use one thread

  double* phi(Index b) { return phi_.data() + plan_.table[b]; }
  const double* phi(Index b) const { return phi_.data() + plan_.table[b]; }
  Index rows(Index b) const {
    return (plan_.table[b + 1] - plan_.table[b]) / graph_.cardinality[plan_.order[b]];
  }
  Index blocks() const { return (graph_.factors() + kBlock - 1) / kBlock; }

  template <class Work>
  void for_each_tree(const Work& work) const {
    const Index trees = static_cast<Index>(plan_.tree_begin.size()) - 1;
    parallel_for(trees, threads_,
                 [&] { return [&](Index t) { work(plan_.tree_begin[t], plan_.tree_begin[t + 1]); }; });
  }

  // Writes the axes of a clique to `out` and returns their number. find(variable) returns the stride of
  // a variable in another table.
  template <class Find>
  int axes(Index b, Axis* out, const Find& find) const {
    for (Index k = plan_.begin[b]; k < plan_.begin[b + 1]; ++k) {
      const Index v = plan_.clique[k];
      out[k - plan_.begin[b]] = {graph_.cardinality[v], find(v)};
    }
    return plan_.size(b);
  }

  // Writes the axes of bucket b, with their strides in the message of bucket `from`. The axes of that
  // message are the clique of `from` without its own variable.
  int message_axes(Index b, Index from, Axis* out) const {
    return axes(b, out, [&](Index v) {
      Index step = 1;
      for (Index k = plan_.begin[from + 1] - 1; k-- > plan_.begin[from];) {
        if (plan_.clique[k] == v) return step;
        step *= graph_.cardinality[plan_.clique[k]];
      }
      return Index{0};
    });
  }

  int factor_axes(Index b, Index f, Axis* out) const {
    return axes(b, out, [&](Index v) {
      for (Index s = graph_.begin[f]; s < graph_.begin[f + 1]; ++s) {
        if (graph_.scope[s] == v) return graph_.stride[s];
      }
      return Index{0};
    });
  }

  // Sets the tables of all cliques to 0, then adds each factor's table to the table of its bucket.
  void fill_trees() {
    for (std::size_t k = 0; k < phi_.size(); k += kFillBlock) {
      poll_interrupt();
      std::fill_n(phi_.begin() + static_cast<Index>(k), std::min(kFillBlock, phi_.size() - k), 0.0);
    }
    Axis axis[kMaxOrder];
    PollEvery poll(kFactorCost);
    for (Index f = 0; f < graph_.factors(); ++f) {
      poll.step();
      const Index b = plan_.factor_bucket[f];
      double* out = phi(b);
      const double* table = tables_ + graph_.table[f];
      walk(axis, factor_axes(b, f, axis), [&](Index i, Index j) { out[i] += table[j]; });
    }
  }

  // Computes the message of a bucket: sums (or maximises) over its variable.
  template <bool kMax>
  void eliminate(Index b) {
    const Index labels = graph_.cardinality[plan_.order[b]];
    PollEvery poll(kFactorCost + 8 * labels);
    for (Index r = 0; r < rows(b); ++r) {
      poll.step();
      const double* x = phi(b) + r * labels;
      sent_[message_[b] + r] = kMax ? *std::max_element(x, x + labels) : log_sum_exp(x, labels);
    }
  }

  // Adds the message of bucket `from` to the table of bucket `to`.
  void add(Index to, Index from) {
    Axis axis[kMaxOrder];
    double* out = phi(to);
    const double* sent = sent_.data() + message_[from];
    walk(axis, message_axes(to, from, axis), [&](Index i, Index j) { out[i] += sent[j]; });
  }

  // Computes p of the clique without its own variable, from the parent's probabilities.
  void from_parent(Index b, double* above) const {
    const Index up = plan_.parent[b];
    if (up < 0) {
      above[0] = 1.0;
      return;
    }
    Axis axis[kMaxOrder];
    const double* p = phi(up);
    walk(axis, message_axes(up, b, axis), [&](Index i, Index j) { above[j] += p[i]; });
  }

  // Computes p(clique) = p(rest) p(variable | rest). The rounding error of a message is relative to the
  // size of the scores, and it would grow from clique to clique. So each conditional is divided by its
  // actual sum.
  void to_probabilities(Index b, const double* above) {
    const Index labels = graph_.cardinality[plan_.order[b]];
    PollEvery poll(kFactorCost + 8 * labels);
    for (Index r = 0; r < rows(b); ++r) {
      poll.step();
      double* x = phi(b) + r * labels;
      const double sent = sent_[message_[b] + r];
      double sum = 0.0;
      for (Index y = 0; y < labels; ++y) {
        x[y] = sent == kForbidden ? 0.0 : std::exp(x[y] - sent);
        sum += x[y];
      }
      const double scale = sum > 0.0 ? above[r] / sum : 0.0;
      for (Index y = 0; y < labels; ++y) x[y] *= scale;
    }
  }

  void marginal(Index f, double* out) const {
    std::fill(out, out + graph_.size(f), 0.0);
    Axis axis[kMaxOrder];
    const Index b = plan_.factor_bucket[f];
    const double* p = phi(b);
    walk(axis, factor_axes(b, f, axis), [&](Index i, Index j) { out[j] += p[i]; });
  }

  // Returns the scores of the bucket's variable, (cardinality), given the labels of the rest of its
  // clique.
  const double* row(Index b, const std::int64_t* labels) const {
    Index r = 0;
    for (Index k = plan_.begin[b]; k + 1 < plan_.begin[b + 1]; ++k) {
      r = r * graph_.cardinality[plan_.clique[k]] + labels[plan_.clique[k]];
    }
    return phi(b) + r * graph_.cardinality[plan_.order[b]];
  }

  const Graph& graph_;
  const EliminationPlan& plan_;
  const double* tables_;
  const int threads_;
  std::vector<double> phi_;   // indexed by plan.table: scores; after distribute(), probabilities
  std::vector<double> sent_;  // indexed by message_: the messages
  Indices message_;           // (buckets + 1): where each bucket's message begins
};

}  // namespace trellis::graph
