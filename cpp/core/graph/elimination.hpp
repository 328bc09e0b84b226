// An elimination order by min-fill, and the resulting tree of cliques.
//
// Eliminating a variable connects all its neighbours. The next variable is the one for which this adds
// the fewest edges. Variables with at most one neighbour add none, so trees take linear time.
#pragma once

#include <queue>
#include <string>
#include <tuple>

#include "graph/factor_graph.hpp"

namespace trellis::graph {

// Thrown if exact inference would need tables that are too large.
class TooWide : public std::runtime_error {
 public:
  TooWide(Index width, double entries)
      : std::runtime_error("width " + std::to_string(width)), width(width), entries(entries) {}
  Index width;
  double entries;
};

// Bucket b eliminates variable order[b]. Its clique has the variable's neighbours at that time and,
// last, the variable itself.
struct EliminationPlan {
  Indices order;             // (buckets)
  Indices position;          // (variables): the bucket of each variable
  Indices begin;             // (buckets + 1): where each clique begins
  Indices clique;            // the variables of all cliques
  Indices parent;            // (buckets): the bucket that receives the message, or -1
  Indices table;             // (buckets + 1): where each clique's table begins
  Indices factor_bucket;     // (factors)
  Indices tree_begin, tree;  // buckets by connected component, each in elimination order
  Index width = 0;           // the largest number of neighbours

  Index buckets() const { return static_cast<Index>(order.size()); }
  int size(Index b) const { return static_cast<int>(begin[b + 1] - begin[b]); }
};

class Eliminator {
 public:
  // Throws TooWide if the tables would have more than `most_entries` entries.
  Eliminator(const Graph& graph, double most_entries)
      : graph_(graph), max_entries_(most_entries), neighbours_(graph.cardinality.size()) {
    for (Index f = 0; f < graph.factors(); ++f) {
      for (Index s = graph.begin[f]; s < graph.begin[f + 1]; ++s) {
        for (Index t = graph.begin[f]; t < graph.begin[f + 1]; ++t) {
          if (s != t) neighbours_[graph.scope[s]].push_back(graph.scope[t]);
        }
      }
    }
    for (Indices& list : neighbours_) {
      std::sort(list.begin(), list.end());
      list.erase(std::unique(list.begin(), list.end()), list.end());
    }
  }

  EliminationPlan run() {
    const Index n = graph_.variables();
    plan_.position.assign(static_cast<std::size_t>(n), -1);
    plan_.begin.assign(1, 0);
    plan_.table.assign(1, 0);
    strip_leaves();
    fill_.assign(static_cast<std::size_t>(n), 0);
    for (Index v = 0; v < n; ++v) {
      poll_interrupt();
      if (is_remaining(v)) push(v, count_fill(v));
    }
    while (!heap_.empty()) {
      const auto [fill, degree, v] = heap_.top();
      heap_.pop();
      if (!is_remaining(v) || fill != fill_[v] || degree != degree_of(v)) continue;  // an outdated entry
      poll_interrupt();
      eliminate(v);
    }
    connect();
    return std::move(plan_);
  }

 private:
  // For a variable with more neighbours than this, the fill is not counted but set to its maximum,
  // because counting takes quadratic time.
  static constexpr Index kMaxCounted = 200;

  bool is_remaining(Index v) const { return plan_.position[v] < 0; }
  Index degree_of(Index v) const { return static_cast<Index>(neighbours_[v].size()); }
  bool are_joined(Index a, Index b) const {
    return std::binary_search(neighbours_[a].begin(), neighbours_[a].end(), b);
  }

  void push(Index v, Index fill) {
    fill_[v] = fill;
    heap_.emplace(fill, degree_of(v), v);
  }

  // Returns the number of edges that eliminating v would add.
  Index count_fill(Index v) const {
    const Indices& neighbours = neighbours_[v];
    const Index degree = degree_of(v);
    if (degree > kMaxCounted) return degree * (degree - 1) / 2;
    Index missing_edges = 0;
    for (std::size_t i = 0; i < neighbours.size(); ++i) {
      for (std::size_t j = i + 1; j < neighbours.size(); ++j)
        missing_edges += !are_joined(neighbours[i], neighbours[j]);
    }
    return missing_edges;
  }

  // Adds a bucket for v to the plan.
  void record(Index v) {
    const Indices& neighbours = neighbours_[v];
    double entries = static_cast<double>(graph_.cardinality[v]);
    for (const Index u : neighbours) entries *= static_cast<double>(graph_.cardinality[u]);
    plan_.width = std::max(plan_.width, degree_of(v));
    const double total = static_cast<double>(plan_.table.back()) + entries;
    if (degree_of(v) >= kMaxOrder || total > max_entries_) throw TooWide(plan_.width, total);
    plan_.position[v] = plan_.buckets();
    plan_.order.push_back(v);
    plan_.clique.insert(plan_.clique.end(), neighbours.begin(), neighbours.end());
    plan_.clique.push_back(v);
    plan_.begin.push_back(static_cast<Index>(plan_.clique.size()));
    plan_.table.push_back(plan_.table.back() + static_cast<Index>(entries));
  }

  void remove_from(Index u, Index v) {
    Indices& neighbours = neighbours_[u];
    neighbours.erase(std::lower_bound(neighbours.begin(), neighbours.end(), v));
  }

  // Eliminates leaves until none is left. The remaining neighbours of a variable are represented by
  // their number and their exclusive or, which is the neighbour itself when one is left. Editing lists
  // would take quadratic time around a variable with many neighbours.
  void strip_leaves() {
    const std::size_t n = neighbours_.size();
    Indices degrees_left(n, 0), combined(n, 0);
    std::queue<Index> leaves;
    for (std::size_t v = 0; v < n; ++v) {
      degrees_left[v] = static_cast<Index>(neighbours_[v].size());
      for (const Index u : neighbours_[v]) combined[v] ^= u;
      if (degrees_left[v] <= 1) leaves.push(static_cast<Index>(v));
    }
    while (!leaves.empty()) {
      const Index v = leaves.front(), u = combined[v];
      leaves.pop();
      if (!is_remaining(v)) continue;
      poll_interrupt();
      neighbours_[v] = degrees_left[v] == 1 ? Indices{u} : Indices{};
      record(v);
      if (degrees_left[v] == 0) continue;
      combined[u] ^= v;
      if (--degrees_left[u] == 1) leaves.push(u);
    }
    for (Indices& neighbours : neighbours_)
      std::erase_if(neighbours, [&](Index u) { return !is_remaining(u); });
  }

  // Eliminates v and connects its neighbours.
  void eliminate(Index v) {
    record(v);
    const Indices neighbours = neighbours_[v];
    for (const Index u : neighbours) remove_from(u, v);
    for (std::size_t i = 0; i < neighbours.size(); ++i) {
      for (std::size_t j = i + 1; j < neighbours.size(); ++j) {
        if (!are_joined(neighbours[i], neighbours[j])) add_edge(neighbours[i], neighbours[j]);
      }
    }
    for (const Index u : neighbours) push(u, count_fill(u));
  }

  // Adds the edge a - b. Every common neighbour of a and b then has one missing edge less.
  void add_edge(Index a, Index b) {
    const Indices& shorter_list =
        neighbours_[a].size() < neighbours_[b].size() ? neighbours_[a] : neighbours_[b];
    const Index other = &shorter_list == &neighbours_[a] ? b : a;
    for (const Index u : shorter_list) {
      if (degree_of(u) <= kMaxCounted && are_joined(u, other)) push(u, fill_[u] - 1);
    }
    for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
      Indices& neighbours = neighbours_[from];
      neighbours.insert(std::lower_bound(neighbours.begin(), neighbours.end(), to), to);
    }
  }

  // Computes parents, trees and the bucket of each factor from the order of elimination.
  void connect() {
    const Index n = plan_.buckets();
    Indices tree_of(static_cast<std::size_t>(n), -1);
    plan_.parent.assign(static_cast<std::size_t>(n), -1);
    Index trees = 0;
    for (Index b = n; b-- > 0;) {
      Index first = n;
      for (Index k = plan_.begin[b]; k + 1 < plan_.begin[b + 1]; ++k) {
        first = std::min(first, plan_.position[plan_.clique[k]]);
      }
      if (first < n) plan_.parent[b] = first;
      tree_of[b] = first < n ? tree_of[first] : trees++;
    }
    plan_.tree_begin.assign(static_cast<std::size_t>(trees) + 1, 0);
    for (const Index t : tree_of) ++plan_.tree_begin[t + 1];
    for (Index t = 0; t < trees; ++t) plan_.tree_begin[t + 1] += plan_.tree_begin[t];
    plan_.tree.resize(static_cast<std::size_t>(n));
    Indices next(plan_.tree_begin.begin(), plan_.tree_begin.end() - 1);
    for (Index b = 0; b < n; ++b) plan_.tree[next[tree_of[b]]++] = b;
    for (Index f = 0; f < graph_.factors(); ++f) {
      Index first = n;
      for (Index s = graph_.begin[f]; s < graph_.begin[f + 1]; ++s) {
        first = std::min(first, plan_.position[graph_.scope[s]]);
      }
      plan_.factor_bucket.push_back(first);
    }
  }

  const Graph& graph_;
  const double max_entries_;         // the limit of the entries of all tables together
  std::vector<Indices> neighbours_;  // (variables): sorted neighbours, without eliminated variables
  Indices fill_;                     // (variables)
  std::priority_queue<std::tuple<Index, Index, Index>, std::vector<std::tuple<Index, Index, Index>>,
                      std::greater<>>
      heap_;  // (fill, degree, variable), the smallest first; entries may be outdated
  EliminationPlan plan_;
};

}  // namespace trellis::graph
