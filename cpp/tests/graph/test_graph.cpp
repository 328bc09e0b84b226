// Compares elimination, and belief propagation on trees, with enumeration of all labellings. Compares
// grids, with every instruction set that the CPU supports, with belief propagation on general graphs.
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "dispatch.hpp"
#include "graph/belief.hpp"
#include "graph/exact.hpp"
#include "graph/grid.hpp"
#include "graph/local_updates.hpp"
#include "tests/check.hpp"

using namespace trellis;
using namespace trellis::graph;

namespace {

struct Case {
  Graph graph;
  std::vector<double> tables;
};

// Creates a graph with one factor per variable, and one for each set of variables.
Case make_case(std::mt19937_64& random, Indices cards, const std::vector<Indices>& sets,
               double forbidden) {
  std::normal_distribution<double> normal;
  std::bernoulli_distribution is_forbidden(forbidden);
  Indices begin{0}, scope, table;
  std::vector<double> tables;
  const auto add = [&](const Indices& variables, bool may_forbid) {
    Index size = 1;
    for (const Index v : variables) size *= cards[v];
    table.push_back(static_cast<Index>(tables.size()));
    for (Index i = 0; i < size; ++i)
      tables.push_back(may_forbid && is_forbidden(random) ? kForbidden : normal(random));
    scope.insert(scope.end(), variables.begin(), variables.end());
    begin.push_back(static_cast<Index>(scope.size()));
  };
  for (Index v = 0; v < static_cast<Index>(cards.size()); ++v) add({v}, false);
  for (const Indices& variables : sets) add(variables, true);
  return {Graph(std::move(cards), std::move(begin), std::move(scope), std::move(table)), tables};
}

struct Truth {
  double log_z = kForbidden, best = kForbidden;
  std::vector<double> variable;
};

Truth enumerate(const Case& c) {
  const LocalUpdates local(c.graph, c.tables.data());
  const Index n = c.graph.variables();
  Truth truth;
  truth.variable.assign(static_cast<std::size_t>(c.graph.first_label.back()), 0.0);
  std::vector<std::int64_t> y(static_cast<std::size_t>(n), 0);
  std::vector<double> scores;
  for (int pass = 0; pass < 2; ++pass) {
    std::fill(y.begin(), y.end(), 0);
    for (Index v = 0; v >= 0;) {
      const double score = local.score(y.data());
      if (pass == 0) {
        scores.push_back(score);
        truth.best = std::max(truth.best, score);
      } else {
        for (Index u = 0; u < n; ++u) {
          truth.variable[c.graph.first_label[u] + y[u]] += std::exp(score - truth.log_z);
        }
      }
      for (v = n - 1; v >= 0 && ++y[v] == c.graph.cardinality[v]; --v) y[v] = 0;
    }
    if (pass == 0) truth.log_z = log_sum_exp(scores.data(), static_cast<Index>(scores.size()));
  }
  return truth;
}

void check_exact(const Case& c, double tolerance) {
  const Truth truth = enumerate(c);
  const EliminationPlan plan = Eliminator(c.graph, 1e7).run();
  const Index n = c.graph.variables();
  std::vector<double> log_z(static_cast<std::size_t>(n)), p(truth.variable.size(), NAN);
  std::vector<double> pairs(static_cast<std::size_t>(c.graph.entries.back()), NAN);
  for (const int threads : {1, 3}) {
    Exact exact(c.graph, plan, c.tables.data(), threads);
    exact.collect<false>(log_z.data());
    double total = 0.0;
    for (const double z : log_z) total += z;
    CHECK_CLOSE(total, truth.log_z, tolerance);
    std::vector<std::int64_t> y(static_cast<std::size_t>(n));
    const std::vector<double> uniforms(static_cast<std::size_t>(n), 0.5);
    exact.sample(uniforms.data(), y.data());
    CHECK(LocalUpdates(c.graph, c.tables.data()).score(y.data()) > kForbidden);
    exact.distribute(p.data(), pairs.data());
    for (std::size_t i = 0; i < p.size(); ++i) CHECK_CLOSE(p[i], truth.variable[i], tolerance);
    Exact max(c.graph, plan, c.tables.data(), threads);
    max.collect<true>(log_z.data());
    max.best(y.data());
    CHECK_CLOSE(LocalUpdates(c.graph, c.tables.data()).score(y.data()), truth.best, tolerance);
  }
}

void test_elimination() {
  std::mt19937_64 random(1);
  check_exact(make_case(random, {3}, {}, 0.0), 1e-12);
  check_exact(make_case(random, {2, 3, 4}, {}, 0.0), 1e-12);
  check_exact(make_case(random, {2, 3, 2, 4}, {{0, 1}, {1, 2}, {2, 3}}, 0.0), 1e-12);
  check_exact(make_case(random, {2, 3, 2, 3, 2}, {{0, 1}, {1, 2}, {2, 3}, {3, 0}, {4, 1}, {2, 4}}, 0.1),
              1e-12);
  check_exact(make_case(random, {2, 2, 3, 2, 2, 3}, {{0, 1, 2}, {5, 3, 1}, {4, 0}, {2, 3}}, 0.1), 1e-12);
}

void test_too_wide() {
  std::mt19937_64 random(2);
  std::vector<Indices> all;
  for (Index a = 0; a < 12; ++a) {
    for (Index b = 0; b < a; ++b) all.push_back({a, b});
  }
  const Case c = make_case(random, Indices(12, 3), all, 0.0);
  bool refused = false;
  try {
    Eliminator(c.graph, 1000.0).run();
  } catch (const TooWide& error) {
    refused = error.width == 11;
  }
  CHECK(refused);
}

void test_belief_on_trees() {
  std::mt19937_64 random(3);
  const std::vector<std::vector<Indices>> trees = {{{0, 1}, {1, 2}, {3, 1}, {4, 3}},
                                                   {{0, 1, 2}, {4, 2, 3}},
                                                   {{3, 0, 2, 1}, {4, 3}},
                                                   {{4, 2, 0, 1, 3}}};
  for (const std::vector<Indices>& sets : trees) {
    for (const bool residual : {false, true}) {
      const Case c = make_case(random, {2, 3, 2, 2, 3}, sets, 0.0);
      const Truth truth = enumerate(c);
      const std::vector<double> weight(c.graph.table.size(), 1.0);
      Belief belief(c.graph, c.tables.data(), weight.data(),
                    {.max_product = false,
                     .residual = residual,
                     .damping = 0.0,
                     .tolerance = 1e-13,
                     .max_iterations = 100,
                     .threads = 2});
      CHECK(belief.run().converged);
      std::vector<double> p(truth.variable.size()), log_v(5), log_f(weight.size());
      belief.finish(p.data(), nullptr, log_v.data(), log_f.data());
      for (std::size_t i = 0; i < p.size(); ++i) CHECK_CLOSE(p[i], truth.variable[i], 1e-11);
    }
  }
}

// A grid with random scores, and the same grid as a general factor graph.
struct GridCase {
  Index height, width, labels;
  bool shared;  // all edges of a direction have the same table
  std::vector<double> unary, across, down;

  GridCase(Index height, Index width, Index labels, bool shared, double scale)
      : height(height), width(width), labels(labels), shared(shared) {
    std::mt19937_64 random(static_cast<std::uint64_t>(height * 100 + width * 10 + labels));
    std::normal_distribution<double> normal(0.0, scale);
    const Index cells = labels * labels;
    unary.resize(static_cast<std::size_t>(height * width * labels));
    across.resize(static_cast<std::size_t>(shared ? cells : height * (width - 1) * cells));
    down.resize(static_cast<std::size_t>(shared ? cells : (height - 1) * width * cells));
    for (auto* part : {&unary, &across, &down}) {
      for (double& x : *part) x = normal(random) * (part == &unary ? 1.0 : 0.3);
    }
  }

  GridScores scores() const {
    return {.height = height,
            .width = width,
            .labels = static_cast<int>(labels),
            .unary = unary.data(),
            .horizontal = across.data(),
            .vertical = down.data(),
            .horizontal_shared = shared,
            .vertical_shared = shared};
  }

  std::vector<double> tables() const {
    std::vector<double> all = unary;
    all.insert(all.end(), across.begin(), across.end());
    all.insert(all.end(), down.begin(), down.end());
    return all;
  }

  Graph graph() const {
    Indices begin{0}, scope, table;
    const auto add = [&](const Indices& variables, Index place) {
      scope.insert(scope.end(), variables.begin(), variables.end());
      begin.push_back(static_cast<Index>(scope.size()));
      table.push_back(place);
    };
    const Index cells = shared ? 0 : labels * labels;  // from the table of an edge to the next
    const auto first_across = static_cast<Index>(unary.size());
    const Index first_down = first_across + static_cast<Index>(across.size());
    for (Index v = 0; v < height * width; ++v) add({v}, v * labels);
    for (Index r = 0; r < height; ++r) {
      for (Index c = 0; c + 1 < width; ++c) {
        const Index v = r * width + c, edge = r * (width - 1) + c;
        add({v, v + 1}, first_across + edge * cells);
      }
    }
    for (Index v = 0; v < (height - 1) * width; ++v) add({v, v + width}, first_down + v * cells);
    return Graph(Indices(static_cast<std::size_t>(height * width), labels), begin, scope, table);
  }
};

// Checks that the beliefs of a grid are those of belief propagation on the graph, up to a constant.
void check_beliefs(const GridCase& c, const Grid& grid, const Belief& belief, double share) {
  const std::size_t n = c.unary.size();
  std::vector<double> p(n, NAN), m(4 * n, NAN);
  CHECK(grid.beliefs(p.data()));
  grid.messages(m.data());
  for (Index v = 0; v < c.height * c.width; ++v) {
    const auto grid_belief = [&](Index y) {
      const auto i = static_cast<std::size_t>(v * c.labels + y);
      return c.unary[i] + share * (m[i] + m[n + i] + m[2 * n + i] + m[3 * n + i]);
    };
    for (Index y = 1; y < c.labels; ++y) {
      const double odds = belief.belief(v, y) - belief.belief(v, 0);
      CHECK_CLOSE(grid_belief(y) - grid_belief(0), odds, 1e-9);
      const double ratio = p[v * c.labels + y] / p[v * c.labels];
      if (std::fabs(odds) < 30.0) CHECK_CLOSE(std::log(ratio), odds, 1e-9);
    }
  }
}

// Checks that both implementations reach the same fixed point. share < 1 means tree-reweighted.
void check_grid(const GridKernels& kernels, const GridCase& c, double share = 1.0) {
  const Graph graph = c.graph();
  const std::vector<double> tables = c.tables();
  std::vector<double> weight(graph.table.size(), share);
  std::fill(weight.begin(), weight.begin() + c.height * c.width, 1.0);
  Belief belief(graph, tables.data(), weight.data(),
                {.max_product = false,
                 .residual = false,
                 .damping = 1.0 - share,
                 .tolerance = 1e-13,
                 .max_iterations = 5000,
                 .threads = 1});
  CHECK(belief.run().converged);
  std::vector<double> one_thread(4 * c.unary.size()), messages(one_thread.size());
  for (const int threads : {1, 3}) {
    Grid grid(c.scores(), kernels,
              {.max_product = false,
               .damping = 0.0,
               .tolerance = 1e-13,
               .max_sweeps = 2000,
               .threads = threads,
               .horizontal_weight = share,
               .vertical_weight = share});
    CHECK(grid.run().converged);
    check_beliefs(c, grid, belief, share);
    grid.messages(threads == 1 ? one_thread.data() : messages.data());
  }
  CHECK(messages == one_thread);
}

void test_grids() {
  for (const Kernels* kernels : available_kernels()) {
    for (const bool shared : {true, false}) {
      check_grid(kernels->grid, {1, 1, 2, shared, 1.0});
      check_grid(kernels->grid, {1, 9, 3, shared, 1.0});
      check_grid(kernels->grid, {5, 1, 2, shared, 1.0});
      check_grid(kernels->grid, {7, 11, 2, shared, 1.0});
      check_grid(kernels->grid, {9, 4, 5, shared, 1.0});
      check_grid(kernels->grid, {7, 11, 2, shared, 1.0}, 0.5);
      check_grid(kernels->grid, {9, 4, 5, shared, 1.0}, 0.6);
      check_grid(kernels->grid, {200, 170, 2, shared, 0.5});  // enough for several threads
    }
    check_grid(kernels->grid, {1, 20, 2, true, 3000.0});
  }
}

void test_wrong_structures() {
  const std::vector<std::vector<Indices>> wrong{{{2}, {0, 2}, {0, 1}, {0}},
                                                {{2}, {0, 1}, {-1}, {0}},
                                                {{0}, {0, 1}, {0}, {0}},
                                                {{2}, {0, 1}, {0}, {-1}},
                                                {{2}, {1, 1}, {0}, {0}}};
  for (const auto& arrays : wrong) {
    bool refused = false;
    try {
      const Graph graph(arrays[0], arrays[1], arrays[2], arrays[3]);
    } catch (const std::invalid_argument&) {
      refused = true;
    }
    CHECK(refused);
  }
}

}  // namespace

int main() {
  test_elimination();
  test_too_wide();
  test_belief_on_trees();
  test_grids();
  test_wrong_structures();
  return failures();
}
