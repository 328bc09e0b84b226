// Belief propagation: each factor f sends a message M_f to each of its variables.
//
//   belief_v(y)   = sum over the factors f of v of weight_f M_f(y)
//   M_f(y)       <- log sum (or max) over the other variables' labels of
//                   exp(theta_f / weight_f + sum of cavities)
//   cavity_u      = belief_u - M_f            for each other variable u of f
//
// theta_f is the table of log scores of f. With all weights 1 this is belief propagation; with edge
// appearance probabilities it is
// tree-reweighted (Wainwright, Jaakkola and Willsky 2005). The largest entry of a message is 0.
#pragma once

#include <queue>
#include <tuple>

#include "base/thread_pool.hpp"
#include "graph/factor_graph.hpp"

namespace trellis::graph {

struct BeliefOptions {
  bool max_product;
  bool residual;  // true: update the factor with the largest change first; false: all factors at once
  double damping, tolerance;
  Index max_iterations;  // sweeps; with residual scheduling, updates per factor
  int threads;
};

struct BeliefReport {
  Index iterations;
  double residual;  // the largest change in the last iteration
  bool converged;
  bool possible;  // every variable has a label with finite score
};

class Belief {
 public:
  // `tables` is an array of graph.tables log scores: the tables of all factors. `weight`, (factors), has
  // weight_f of the equations above. Both arrays must outlive this object.
  Belief(const Graph& graph, const double* tables, const double* weight, const BeliefOptions& options)
      : graph_(graph),
        tables_(tables),
        weight_(weight),
        options_(options),
        threads_(graph.entries.back() < kMinThreadedEntries ? 1 : options.threads),
        sum_(static_cast<std::size_t>(graph.first_label.back())),
        blocked_(static_cast<std::size_t>(graph.first_label.back())),
        message_(static_cast<std::size_t>(graph.message.back()), 0.0),
        fresh_(message_.size()) {
    for (Index f = 0; f < graph.factors(); ++f) most_entries_ = std::max(most_entries_, graph.size(f));
    for (const Index labels : graph.cardinality) most_labels_ = std::max(most_labels_, labels);
    if (!options.max_product) exponentiate();
  }

  BeliefReport run() {
    gather();
    BeliefReport report = options_.residual ? run_residual() : run_together();
    report.possible = true;
    for (Index v = 0; v < graph_.variables(); ++v) {
      bool any_label = false;
      for (Index k = graph_.first_label[v]; k < graph_.first_label[v + 1]; ++k)
        any_label |= blocked_[k] == 0;
      report.possible &= any_label;
    }
    return report;
  }

  const std::vector<double>& messages() const { return message_; }

  // Writes beliefs as probabilities, indexed by first_label and by entries, and the terms of log Z, one
  // per variable and one per factor: log Z = sum of log_v + sum of weight_f (log_f - sum of log_v over
  // its variables).
  void finish(double* variable, double* factor, double* log_v, double* log_f) const {
    std::vector<double> x;
    for (Index v = 0; v < graph_.variables(); ++v) {
      const Index first = graph_.first_label[v], labels = graph_.cardinality[v];
      for (Index y = 0; y < labels; ++y) variable[first + y] = belief(v, y);
      log_v[v] = normalise(variable + first, labels);
    }
    x.resize(static_cast<std::size_t>(most_entries_));
    PollEvery poll(kFactorCost);
    for (Index f = 0; f < graph_.factors(); ++f) {
      poll.step();
      double* out = factor == nullptr ? x.data() : factor + graph_.entries[f];
      write_joint(f, -1, out);
      log_f[f] = normalise(out, graph_.size(f));
    }
  }

  double belief(Index v, Index y) const {
    const Index k = graph_.first_label[v] + y;
    return blocked_[k] > 0 ? kForbidden : sum_[k];
  }

 private:
  static constexpr Index kBlock = 256;                   // factors per task
  static constexpr Index kFactorCost = 1 << 12;          // for PollEvery
  static constexpr Index kMinThreadedEntries = 1 << 14;  // entries; smaller graphs use one thread

  // Turns log scores into probabilities, in place, and returns their log sum.
  double normalise(double* x, Index count) const {
    const double top = *std::max_element(x, x + count);
    // The largest score is subtracted, so that scores of any size give probabilities that sum to 1.
    double sum = 0.0;
    for (Index k = 0; k < count; ++k) sum += x[k] = top == kForbidden ? 0.0 : std::exp(x[k] - top);
    if (top == kForbidden) return kForbidden;
    for (Index k = 0; k < count; ++k) x[k] /= sum;
    return top + std::log(sum);
  }

  // Sums the messages. Entries of -inf are counted, not added, because -inf cannot be subtracted again.
  void gather() {
    std::fill(sum_.begin(), sum_.end(), 0.0);
    std::fill(blocked_.begin(), blocked_.end(), 0);
    PollEvery poll(64);
    for (Index s = 0; s < graph_.slots(); ++s) {
      poll.step();
      shift(s, message_.data() + graph_.message[s], +1);
    }
  }

  // Adds (sign +1) or subtracts (sign -1) a message of slot s.
  void shift(Index s, const double* m, int sign) {
    const double weight = sign * weight_[graph_.factor_of[s]];
    const Index first = graph_.first_label[graph_.scope[s]];
    for (Index y = 0; y < graph_.labels(s); ++y) {
      if (m[y] == kForbidden) {
        blocked_[first + y] += sign;
      } else {
        sum_[first + y] += weight * m[y];
      }
    }
  }

  // Returns the belief without the message of slot s.
  double cavity(Index s, Index y) const {
    const Index k = graph_.first_label[graph_.scope[s]] + y;
    const double message = message_[graph_.message[s] + y];
    const bool blocks = message == kForbidden;
    if (blocked_[k] > (blocks ? 1 : 0)) return kForbidden;
    return blocks ? sum_[k] : sum_[k] - message;
  }

  // out = theta / weight + the cavities of all slots except `excluded_slot`; (size(f)).
  void write_joint(Index f, Index excluded_slot, double* out) const {
    const double scale = 1.0 / weight_[f];
    const double* table = tables_ + graph_.table[f];
    for (Index i = 0; i < graph_.size(f); ++i) out[i] = scale * table[i];
    PollEvery poll(graph_.size(f));
    for (Index s = graph_.begin[f]; s < graph_.begin[f + 1]; ++s) {
      poll.step();
      if (s == excluded_slot) continue;
      const Index labels = graph_.labels(s), step = graph_.stride[s], round = step * labels;
      for (Index y = 0; y < labels; ++y) {
        const double x = cavity(s, y);
        for (Index i = y * step; i < graph_.size(f); i += round) {
          for (Index k = 0; k < step; ++k) out[i + k] += x;
        }
      }
    }
  }

  // Computes the messages of a factor in fresh_, and returns their largest change.
  double update(Index f, double* scratch) {
    double change = 0.0;
    const int order = psi_.empty() ? 1 : graph_.order(f);
    for (Index s = graph_.begin[f]; s < graph_.begin[f + 1]; ++s) {
      const bool reduced = order == 2   ? reduce_pair(f, s, scratch)
                           : order >= 3 ? reduce_product(f, s, scratch)
                                        : false;
      if (!reduced) {
        write_joint(f, s, scratch);
        reduce(f, s, scratch);
      }
      double* m = fresh_.data() + graph_.message[s];
      const double* old_message = message_.data() + graph_.message[s];
      const double top = *std::max_element(m, m + graph_.labels(s));
      for (Index y = 0; y < graph_.labels(s); ++y) {
        if (top > kForbidden) m[y] -= top;
        if (options_.damping > 0.0)
          m[y] = (1.0 - options_.damping) * m[y] + options_.damping * old_message[y];
        if (m[y] != old_message[y])
          change = std::max(change, std::min(std::fabs(m[y] - old_message[y]), kFar));
      }
    }
    return change;
  }

  // Computes psi = exp(theta / weight - max), once for all messages of all iterations.
  void exponentiate() {
    psi_.resize(static_cast<std::size_t>(graph_.entries.back()));
    parallel_for((graph_.factors() + kBlock - 1) / kBlock, threads_, [&] {
      return [&](Index block) {
        const Index end = std::min(graph_.factors(), (block + 1) * kBlock);
        for (Index f = block * kBlock; f < end; ++f) {
          const double* table = tables_ + graph_.table[f];
          const double top = *std::max_element(table, table + graph_.size(f));
          double* psi = psi_.data() + graph_.entries[f];
          for (Index i = 0; i < graph_.size(f); ++i) {
            psi[i] = top > kForbidden ? std::exp((table[i] - top) / weight_[f]) : 0.0;
          }
        }
      };
    });
  }

  // Does the same as reduce() for a factor of two variables, as a vector-matrix product with L
  // exponentials instead of L². Returns false if a sum is so small that terms may have underflowed.
  bool reduce_pair(Index f, Index s, double* p) {
    const Index other = s == graph_.begin[f] ? s + 1 : s - 1;
    const Index from = graph_.labels(other), labels = graph_.labels(s);
    double top = kForbidden;
    for (Index a = 0; a < from; ++a) top = std::max(top, p[a] = cavity(other, a));
    if (top == kForbidden) return false;
    for (Index a = 0; a < from; ++a) p[a] = std::exp(p[a] - top);
    const double* psi = psi_.data() + graph_.entries[f];
    double* m = fresh_.data() + graph_.message[s];
    std::fill(m, m + labels, 0.0);
    for (Index a = 0; a < from; ++a) {
      const double* row = psi + a * graph_.stride[other];
      for (Index b = 0; b < labels; ++b) m[b] += p[a] * row[b * graph_.stride[s]];
    }
    if (!std::all_of(m, m + labels, [](double sum) { return sum >= kSmall; })) return false;
    for (Index b = 0; b < labels; ++b) m[b] = std::log(m[b]);
    return true;
  }

  // Does the same as reduce() for a factor of three or more variables: sums psi over one variable after
  // the other, with L exponentials each instead of one for every entry of the table. This was 3 times as
  // fast for tables of 2 x 2 x 2 to 3 x 3 x 3 and 8 times for 8 x 8 x 8. Returns false if a sum is so
  // small that terms may have underflowed.
  bool reduce_product(Index f, Index s, double* scratch) {
    double* p = scratch + most_entries_;
    const double* x = psi_.data() + graph_.entries[f];
    Index outer = 1;
    PollEvery poll(graph_.size(f));
    for (Index t = graph_.begin[f]; t < graph_.begin[f + 1]; ++t) {
      poll.step();
      if (t == s) {
        outer = graph_.labels(s);
        continue;
      }
      const Index labels = graph_.labels(t);
      double top = kForbidden;
      for (Index a = 0; a < labels; ++a) top = std::max(top, p[a] = cavity(t, a));
      if (top == kForbidden) return false;
      for (Index a = 0; a < labels; ++a) p[a] = std::exp(p[a] - top);
      contract(x, p, outer, labels, graph_.stride[t], scratch);
      x = scratch;
    }
    if (!std::all_of(x, x + graph_.labels(s), [](double sum) { return sum >= kSmall; })) return false;
    double* m = fresh_.data() + graph_.message[s];
    for (Index y = 0; y < graph_.labels(s); ++y) m[y] = std::log(x[y]);
    return true;
  }

  // out[o, i] = sum of p[a] x[o, a, i] over a. `out` may be x: no entry is written before it is read.
  static void contract(const double* x, const double* p, Index outer, Index count, Index inner,
                       double* out) {
    for (Index o = 0; o < outer; ++o) {
      const double* block = x + o * count * inner;
      double* sums = out + o * inner;
      for (Index i = 0; i < inner; ++i) sums[i] = p[0] * block[i];
      for (Index a = 1; a < count; ++a) {
        const double* row = block + a * inner;
        for (Index i = 0; i < inner; ++i) sums[i] += p[a] * row[i];
      }
    }
  }

  // Computes the message of slot s from x, the joint scores of factor f.
  void reduce(Index f, Index s, const double* x) {
    double* m = fresh_.data() + graph_.message[s];
    const Index labels = graph_.labels(s), step = graph_.stride[s], round = step * labels;
    for (Index y = 0; y < labels; ++y) {
      double top = kForbidden, sum = 0.0;
      for (Index i = y * step; i < graph_.size(f); i += round) {
        for (Index k = 0; k < step; ++k) top = std::max(top, x[i + k]);
      }
      m[y] = top;
      if (options_.max_product || top == kForbidden) continue;
      for (Index i = y * step; i < graph_.size(f); i += round) {
        for (Index k = 0; k < step; ++k) sum += std::exp(x[i + k] - top);
      }
      m[y] = top + std::log(sum);
    }
  }

  // Updates all factors at once, until the largest change is within the tolerance.
  BeliefReport run_together() {
    const Index blocks = (graph_.factors() + kBlock - 1) / kBlock;
    std::vector<double> change(static_cast<std::size_t>(blocks));
    BeliefReport report{.iterations = 0,
                        .residual = graph_.factors() > 0 ? kFar : 0.0,
                        .converged = graph_.factors() == 0,
                        .possible = true};
    while (!report.converged && report.iterations < options_.max_iterations) {
      parallel_for(blocks, threads_, [&] {
        return [&, scratch = std::vector<double>(scratch_size())](Index block) mutable {
          change[block] = 0.0;
          const Index end = std::min(graph_.factors(), (block + 1) * kBlock);
          PollEvery poll(kFactorCost);
          for (Index f = block * kBlock; f < end; ++f) {
            poll.step();
            change[block] = std::max(change[block], update(f, scratch.data()));
          }
        };
      });
      message_.swap(fresh_);
      gather();
      ++report.iterations;
      report.residual = *std::max_element(change.begin(), change.end());
      report.converged = report.residual <= options_.tolerance;
    }
    return report;
  }

  // Runs residual scheduling (Elidan, McGraw and Koller 2006) by factor: the factor with the largest
  // change is updated first.
  BeliefReport run_residual() {
    std::vector<double> scratch(scratch_size()), pending(graph_.table.size());
    std::priority_queue<std::pair<double, Index>> queue;  // outdated entries are skipped when popped
    PollEvery poll(kFactorCost);
    const auto schedule = [&](Index f) {
      poll.step();
      pending[f] = update(f, scratch.data());
      if (pending[f] > options_.tolerance) queue.emplace(pending[f], -f);
    };
    for (Index f = 0; f < graph_.factors(); ++f) schedule(f);
    Index updates = 0;
    const Index max_updates =
        options_.max_iterations > kMaxUpdates / std::max<Index>(1, graph_.factors())
            ? kMaxUpdates
            : options_.max_iterations * graph_.factors();
    while (!queue.empty() && updates < max_updates) {
      const auto [change, minus] = queue.top();
      const Index f = -minus;
      queue.pop();
      if (pending[f] != change) continue;
      commit(f);
      ++updates;
      schedule(f);
      for (Index s = graph_.begin[f]; s < graph_.begin[f + 1]; ++s) {
        const Index v = graph_.scope[s];
        for (Index k = graph_.first_incident[v]; k < graph_.first_incident[v + 1]; ++k) {
          const Index other = graph_.factor_of[graph_.incident[k]];
          if (other != f) schedule(other);
        }
      }
      // The beliefs are summed again from time to time, so that rounding errors do not accumulate.
      if (updates % std::max<Index>(1, graph_.factors()) == 0) gather();
    }
    const double residual = pending.empty() ? 0.0 : *std::max_element(pending.begin(), pending.end());
    const Index per = std::max<Index>(1, graph_.factors());
    return {.iterations = (updates + per - 1) / per,
            .residual = residual,
            .converged = residual <= options_.tolerance,
            .possible = true};
  }

  // Replaces the messages of factor f by those in fresh_.
  void commit(Index f) {
    for (Index s = graph_.begin[f]; s < graph_.begin[f + 1]; ++s) {
      double* message = message_.data() + graph_.message[s];
      const double* m = fresh_.data() + graph_.message[s];
      shift(s, message, -1);
      std::copy(m, m + graph_.labels(s), message);
      shift(s, message, +1);
    }
  }

  // Returns the numbers of scratch memory: the entries of the largest table, and one for each label of a
  // variable.
  std::size_t scratch_size() const { return static_cast<std::size_t>(most_entries_ + most_labels_); }

  static constexpr double kSmall = 1e-280;  // smaller sums may have lost terms to underflow
  static constexpr double kFar = 1e300;     // stands for a change from or to -inf
  // The limit of the number of updates: max_iterations times the number of factors could overflow.
  static constexpr Index kMaxUpdates = Index{1} << 50;

  const Graph& graph_;
  const double* tables_;
  const double* weight_;
  const BeliefOptions options_;
  const int threads_;
  std::vector<double> sum_;              // indexed by first_label: the weighted sum of finite messages
  std::vector<std::int32_t> blocked_;    // indexed by first_label: the number of messages that are -inf
  std::vector<double> message_, fresh_;  // indexed by graph.message: current and new messages
  std::vector<double> psi_;              // indexed by entries; empty for max-product
  Index most_entries_ = 0, most_labels_ = 0;
};

}  // namespace trellis::graph
