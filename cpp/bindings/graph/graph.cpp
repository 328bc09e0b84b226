// Binds factor graphs (core/graph/): checks shapes and dtypes, and releases the GIL.
//
// Python allocates all results. Sizes are checked here again, so that no call can access memory outside
// an array, whatever Python passes.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <optional>

#include "bindings/base/arrays.hpp"
#include "bindings/base/gil.hpp"
#include "bindings/base/views.hpp"
#include "bindings/bindings.hpp"
#include "graph/belief.hpp"
#include "graph/exact.hpp"
#include "graph/local_updates.hpp"

namespace nb = nanobind;

namespace trellis::graph {
namespace {

using Doubles = In<double>;
using MaybeOut = std::optional<Out<double>>;

template <class A>
Index size(const A& array) {
  return static_cast<Index>(array.size());
}

double* data(MaybeOut& out) { return out ? out->data() : nullptr; }

// A factor graph without scores: `tables` is passed to each call, so that it can change in training.
class GraphBinding {
 public:
  GraphBinding(In<std::int64_t> cardinality, In<std::int64_t> begin, In<std::int64_t> scope,
               In<std::int64_t> table)
      : graph_(copy_of(cardinality), copy_of(begin), copy_of(scope), copy_of(table)) {}

  // Computes the elimination order that exact() and sample() need. Returns (fits, width, entries).
  nb::tuple plan(double most_entries) {
    try {
      const ReleasedGil release;
      plan_ = Eliminator(graph_, most_entries).run();
    } catch (const TooWide& error) {
      return nb::make_tuple(false, error.width, error.entries);
    }
    return nb::make_tuple(true, plan_->width, static_cast<double>(plan_->table.back()));
  }

  // Computes log Z and marginals. log_z has the log Z of each connected component at one of its
  // variables, and 0 at its other variables.
  void exact(Doubles tables, Out<double> log_z, MaybeOut variable, MaybeOut factor, int threads) const {
    check(tables, threads);
    require(size(log_z) == graph_.variables(), "log_z must have one entry per variable");
    check_marginals(variable, factor);
    require(variable || !factor, "factor marginals require variable marginals");
    const ReleasedGil release;
    Exact run(graph_, planned(), tables.data(), threads);
    run.collect<false>(log_z.data());
    if (variable && possible(log_z)) run.distribute(variable->data(), data(factor));
  }

  // Computes the labelling with the highest score; score has the same layout as log_z of exact().
  void best(Doubles tables, Out<double> score, Out<std::int64_t> labels, int threads) const {
    check(tables, threads);
    require(size(score) == graph_.variables() && size(labels) == graph_.variables(),
            "score and labels must have one entry per variable");
    const ReleasedGil release;
    Exact run(graph_, planned(), tables.data(), threads);
    run.collect<true>(score.data());
    // The search reads labels that it has written. Another thread could change the caller's array, so
    // the labels are private until the search ends.
    Indices best(static_cast<std::size_t>(graph_.variables()));
    run.best(best.data());
    std::copy(best.begin(), best.end(), labels.data());
  }

  // Draws n labellings. uniforms and labels are (n, variables), flat. Returns False if every labelling
  // is forbidden.
  bool sample(Doubles tables, Doubles uniforms, Out<std::int64_t> labels, int threads) const {
    check(tables, threads);
    require(size(uniforms) == size(labels) && size(labels) % std::max<Index>(1, graph_.variables()) == 0,
            "uniforms and labels must be (n, variables)");
    const ReleasedGil release;
    Exact run(graph_, planned(), tables.data(), threads);
    std::vector<double> log_z(static_cast<std::size_t>(graph_.variables()));
    run.collect<false>(log_z.data());
    for (const double z : log_z) {
      if (z == kForbidden) return false;
    }
    Indices drawn(static_cast<std::size_t>(graph_.variables()));  // private: run.sample() also reads it
    for (Index at = 0; at < size(labels); at += graph_.variables()) {
      run.sample(uniforms.data() + at, drawn.data());
      std::copy(drawn.begin(), drawn.end(), labels.data() + at);
    }
    return true;
  }

  // Runs belief propagation. Returns (iterations, residual, converged, possible).
  nb::tuple propagate(Doubles tables, Doubles weight, bool max_product, bool residual, double damping,
                      double tolerance, Index max_iterations, int threads, Out<double> variable,
                      MaybeOut factor, Out<double> log_v, Out<double> log_f,
                      Out<double> messages) const {
    check(tables, threads);
    require(size(weight) == graph_.factors(), "weight must have one entry per factor");
    for (Index f = 0; f < graph_.factors(); ++f)
      require(weight.data()[f] > 0.0, "weights must be positive");
    require(damping >= 0.0 && damping < 1.0, "damping must be in [0, 1)");
    MaybeOut v = variable;
    check_marginals(v, factor);
    require(size(log_v) == graph_.variables() && size(log_f) == graph_.factors(),
            "log_v and log_f must have one entry per variable and factor");
    require(size(messages) == graph_.message.back(), "messages has the wrong size");
    BeliefReport report{};
    {
      const ReleasedGil release;
      Belief run(graph_, tables.data(), weight.data(),
                 {.max_product = max_product,
                  .residual = residual,
                  .damping = damping,
                  .tolerance = tolerance,
                  .max_iterations = max_iterations,
                  .threads = threads});
      report = run.run();
      run.finish(variable.data(), data(factor), log_v.data(), log_f.data());
      std::copy(run.messages().begin(), run.messages().end(), messages.data());
    }
    return nb::make_tuple(report.iterations, report.residual, report.converged, report.possible);
  }

  // Returns the score of one labelling, (variables).
  double score(Doubles tables, In<std::int64_t> labels) const {
    check(tables, 1);
    const Indices assigned = checked_labels(labels, 1);
    const ReleasedGil release;
    return LocalUpdates(graph_, tables.data()).score(assigned.data());
  }

  // Computes, for each variable, the scores of its labels given the labels of all other variables; out
  // is indexed by first_label.
  void conditionals(Doubles tables, In<std::int64_t> labels, Out<double> out) const {
    check(tables, 1);
    const Indices assigned = checked_labels(labels, 1);
    require(size(out) == graph_.first_label.back(), "out must have one entry per label");
    const ReleasedGil release;
    const LocalUpdates local(graph_, tables.data());
    PollEvery poll(1 << 10);  // per variable
    for (Index v = 0; v < graph_.variables(); ++v) {
      poll.step();
      local.conditional(v, assigned.data(), out.data() + graph_.first_label[v]);
    }
  }

  // Runs iterated conditional modes. Returns (sweeps, converged).
  nb::tuple climb(Doubles tables, Out<std::int64_t> labels, Index max_sweeps) const {
    check(tables, 1);
    Indices assigned = checked_labels(labels, 1);
    bool converged = false;
    Index sweeps = 0;
    {
      const ReleasedGil release;
      sweeps = LocalUpdates(graph_, tables.data()).climb(max_sweeps, assigned.data(), &converged);
      std::copy(assigned.begin(), assigned.end(), labels.data());
    }
    return nb::make_tuple(sweeps, converged);
  }

  // Runs Gibbs sampling. labels (chains, variables) holds the initial labels; kept is (chains, sweeps,
  // variables).
  void gibbs(Doubles tables, Index chains, Index sweeps, Doubles uniforms, Out<std::int64_t> labels,
             Out<std::int64_t> kept, Out<double> score, int threads) const {
    check(tables, threads);
    require(chains > 0 && sweeps >= 0 && chains < kMaxEntries && sweeps < kMaxEntries,
            "chains and sweeps are out of range");
    Indices assigned = checked_labels(labels, chains);
    const Index n = graph_.variables();
    require(size(uniforms) == chains * sweeps * n && size(kept) == size(uniforms),
            "uniforms and kept must be (chains, sweeps, variables)");
    require(size(score) == chains * sweeps, "score must be (chains, sweeps)");
    const ReleasedGil release;
    LocalUpdates(graph_, tables.data())
        .gibbs({.chains = chains,
                .sweeps = sweeps,
                .uniforms = uniforms.data(),
                .labels = assigned.data(),
                .kept = kept.data(),
                .score = score.data()},
               threads);
    std::copy(assigned.begin(), assigned.end(), labels.data());
  }

  // Runs mean field. Returns (sweeps, change, expected score).
  nb::tuple mean_field(Doubles tables, Out<double> q, Index max_sweeps, double tolerance) const {
    check(tables, 1);
    require(size(q) == graph_.first_label.back(), "q must have one entry per label");
    Index sweeps = 0;
    double change = 0.0, expected = 0.0;
    {
      const ReleasedGil release;
      const LocalUpdates local(graph_, tables.data());
      sweeps = local.mean_field(max_sweeps, tolerance, q.data(), &change);
      expected = local.expected_score(q.data());
    }
    return nb::make_tuple(sweeps, change, expected);
  }

 private:
  // Checks the arguments, because the core does not check indices into tables.
  void check(const Doubles& tables, int threads) const {
    require(size(tables) >= graph_.tables, "tables has too few scores");
    require(threads > 0, "threads must be positive");
  }

  void check_marginals(const MaybeOut& variable, const MaybeOut& factor) const {
    require(!variable || size(*variable) == graph_.first_label.back(),
            "variable marginals have the wrong size");
    require(!factor || size(*factor) == graph_.entries.back(), "factor marginals have the wrong size");
  }

  // Returns a validated copy of labels, (rows, variables). The core uses them as indices of tables.
  template <class Array>
  Indices checked_labels(const Array& array, Index rows) const {
    Indices labels = copy_of(array);
    const auto count = static_cast<Index>(labels.size());
    require(count == rows * graph_.variables(), "labels must have one entry per variable");
    for (Index i = 0; i < count; ++i) {
      require(labels[i] >= 0 && labels[i] < graph_.cardinality[i % graph_.variables()],
              "a label is out of range");
    }
    return labels;
  }

  const EliminationPlan& planned() const {
    require(plan_.has_value(), "plan() must be called first");
    return *plan_;
  }

  static bool possible(const Out<double>& log_z) {
    return std::none_of(log_z.data(), log_z.data() + log_z.size(),
                        [](double z) { return z == kForbidden; });
  }

  Graph graph_;
  std::optional<EliminationPlan> plan_;
};

}  // namespace
}  // namespace trellis::graph

void bind_graph(nb::module_& m) {
  using trellis::graph::GraphBinding;
  nb::class_<GraphBinding>(m, "Graph")
      .def(nb::init<trellis::In<std::int64_t>, trellis::In<std::int64_t>, trellis::In<std::int64_t>,
                    trellis::In<std::int64_t>>(),
           nb::arg("cardinality"), nb::arg("begin"), nb::arg("scope"), nb::arg("table"))
      .def("plan", &GraphBinding::plan, nb::arg("most_entries"))
      .def("exact", &GraphBinding::exact, nb::arg("tables"), nb::arg("log_z"),
           nb::arg("variable").none(), nb::arg("factor").none(), nb::arg("threads"))
      .def("best", &GraphBinding::best, nb::arg("tables"), nb::arg("score"), nb::arg("labels"),
           nb::arg("threads"))
      .def("sample", &GraphBinding::sample, nb::arg("tables"), nb::arg("uniforms"), nb::arg("labels"),
           nb::arg("threads"))
      .def("propagate", &GraphBinding::propagate, nb::arg("tables"), nb::arg("weight"),
           nb::arg("max_product"), nb::arg("residual"), nb::arg("damping"), nb::arg("tolerance"),
           nb::arg("max_iterations"), nb::arg("threads"), nb::arg("variable"), nb::arg("factor").none(),
           nb::arg("log_v"), nb::arg("log_f"), nb::arg("messages"))
      .def("score", &GraphBinding::score, nb::arg("tables"), nb::arg("labels"))
      .def("conditionals", &GraphBinding::conditionals, nb::arg("tables"), nb::arg("labels"),
           nb::arg("out"))
      .def("climb", &GraphBinding::climb, nb::arg("tables"), nb::arg("labels"), nb::arg("max_sweeps"))
      .def("gibbs", &GraphBinding::gibbs, nb::arg("tables"), nb::arg("chains"), nb::arg("sweeps"),
           nb::arg("uniforms"), nb::arg("labels"), nb::arg("kept"), nb::arg("score"), nb::arg("threads"))
      .def("mean_field", &GraphBinding::mean_field, nb::arg("tables"), nb::arg("q"),
           nb::arg("max_sweeps"), nb::arg("tolerance"));
}
