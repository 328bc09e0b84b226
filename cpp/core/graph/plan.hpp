// An order of elimination by min-fill, and the tree of cliques that follows from it.
//
// To eliminate a variable joins all its neighbours. Each time the variable goes for which this adds the
// fewest edges; variables with at most one neighbour add none, so that a tree is done in linear time.
#pragma once

#include <queue>
#include <string>
#include <tuple>

#include "graph/types.hpp"

namespace trellis::graph {

class TooWide : public std::runtime_error {
 public:
  TooWide(Index width, double entries)
      : std::runtime_error("width " + std::to_string(width)), width(width), entries(entries) {}
  Index width;
  double entries;
};

// Bucket b eliminates order[b]. Its clique is that variable, last, and its neighbours at that time.
struct Plan {
  Indices order;
  Indices position;  // (variables): the bucket of each
  Indices begin;     // (buckets + 1) into clique
  Indices clique;
  Indices parent;  // the bucket that receives the message, or -1
  Indices table;   // (buckets + 1): where the clique's table begins
  Indices factor_bucket;
  Indices tree_begin, tree;  // buckets by connected component, each in order of elimination
  Index width = 0;

  Index buckets() const { return static_cast<Index>(order.size()); }
  int size(Index b) const { return static_cast<int>(begin[b + 1] - begin[b]); }
};

class Eliminator {
 public:
  Eliminator(const Graph& graph, double most_entries)
      : graph_(graph), most_(most_entries), neighbours_(graph.cardinality.size()) {
    for (Index f = 0; f < graph.factors(); ++f) {
      for (Index s = graph.begin[f]; s < graph.begin[f + 1]; ++s) {
        for (Index t = graph.begin[f]; t < graph.begin[f + 1]; ++t) {
          if (s != t) neighbours_[graph.scope[s]].push_back(graph.scope[t]);
        }
      }
    }
    for (Indices& own : neighbours_) {
      std::sort(own.begin(), own.end());
      own.erase(std::unique(own.begin(), own.end()), own.end());
    }
  }

  Plan run() {
    const Index n = graph_.variables();
    plan_.position.assign(static_cast<std::size_t>(n), -1);
    plan_.begin.assign(1, 0);
    plan_.table.assign(1, 0);
    strip_leaves();
    fill_.assign(static_cast<std::size_t>(n), 0);
    for (Index v = 0; v < n; ++v) {
      if (alive(v)) push(v, count_fill(v));
    }
    while (!heap_.empty()) {
      const auto [fill, degree, v] = heap_.top();
      heap_.pop();
      if (!alive(v) || fill != fill_[v] || degree != degree_of(v)) continue;  // out of date
      eliminate(v);
    }
    connect();
    return std::move(plan_);
  }

 private:
  static constexpr Index kMostCounted = 200;  // neighbours; beyond, the fill is taken for the largest

  bool alive(Index v) const { return plan_.position[v] < 0; }
  Index degree_of(Index v) const { return static_cast<Index>(neighbours_[v].size()); }
  bool joined(Index a, Index b) const {
    return std::binary_search(neighbours_[a].begin(), neighbours_[a].end(), b);
  }

  void push(Index v, Index fill) {
    fill_[v] = fill;
    heap_.emplace(fill, degree_of(v), v);
  }

  Index count_fill(Index v) const {
    const Indices& own = neighbours_[v];
    const Index degree = degree_of(v);
    if (degree > kMostCounted) return degree * (degree - 1) / 2;
    Index missing = 0;
    for (std::size_t i = 0; i < own.size(); ++i) {
      for (std::size_t j = i + 1; j < own.size(); ++j) missing += !joined(own[i], own[j]);
    }
    return missing;
  }

  void record(Index v) {
    const Indices& own = neighbours_[v];
    double entries = static_cast<double>(graph_.cardinality[v]);
    for (const Index u : own) entries *= static_cast<double>(graph_.cardinality[u]);
    plan_.width = std::max(plan_.width, degree_of(v));
    const double total = static_cast<double>(plan_.table.back()) + entries;
    if (degree_of(v) >= kMostOrder || total > most_) throw TooWide(plan_.width, total);
    plan_.position[v] = plan_.buckets();
    plan_.order.push_back(v);
    plan_.clique.insert(plan_.clique.end(), own.begin(), own.end());
    plan_.clique.push_back(v);
    plan_.begin.push_back(static_cast<Index>(plan_.clique.size()));
    plan_.table.push_back(plan_.table.back() + static_cast<Index>(entries));
  }

  void remove_from(Index u, Index v) {
    Indices& own = neighbours_[u];
    own.erase(std::lower_bound(own.begin(), own.end(), v));
  }

  // The neighbours that are left are known by their number and their exclusive or: no list is changed,
  // which would take quadratic time around a hub.
  void strip_leaves() {
    const std::size_t n = neighbours_.size();
    Indices left(n, 0), mixed(n, 0);
    std::queue<Index> leaves;
    for (std::size_t v = 0; v < n; ++v) {
      left[v] = static_cast<Index>(neighbours_[v].size());
      for (const Index u : neighbours_[v]) mixed[v] ^= u;
      if (left[v] <= 1) leaves.push(static_cast<Index>(v));
    }
    while (!leaves.empty()) {
      const Index v = leaves.front(), u = mixed[v];
      leaves.pop();
      if (!alive(v)) continue;
      neighbours_[v] = left[v] == 1 ? Indices{u} : Indices{};
      record(v);
      if (left[v] == 0) continue;
      mixed[u] ^= v;
      if (--left[u] == 1) leaves.push(u);
    }
    for (Indices& own : neighbours_) std::erase_if(own, [&](Index u) { return !alive(u); });
  }

  void eliminate(Index v) {
    record(v);
    const Indices own = neighbours_[v];
    for (const Index u : own) remove_from(u, v);
    for (std::size_t i = 0; i < own.size(); ++i) {
      for (std::size_t j = i + 1; j < own.size(); ++j) {
        if (!joined(own[i], own[j])) join(own[i], own[j]);
      }
    }
    for (const Index u : own) push(u, count_fill(u));
  }

  // For whoever has both as neighbours, one edge less is missing.
  void join(Index a, Index b) {
    const Indices& fewer =
        neighbours_[a].size() < neighbours_[b].size() ? neighbours_[a] : neighbours_[b];
    const Index other = &fewer == &neighbours_[a] ? b : a;
    for (const Index u : fewer) {
      if (degree_of(u) <= kMostCounted && joined(u, other)) push(u, fill_[u] - 1);
    }
    for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
      Indices& own = neighbours_[from];
      own.insert(std::lower_bound(own.begin(), own.end(), to), to);
    }
  }

  // Parents, trees, and the bucket of each factor: all by which variable is eliminated first.
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
  const double most_;
  std::vector<Indices> neighbours_;  // of those still there, sorted
  Indices fill_;
  std::priority_queue<std::tuple<Index, Index, Index>, std::vector<std::tuple<Index, Index, Index>>,
                      std::greater<>>
      heap_;
  Plan plan_;
};

}  // namespace trellis::graph
