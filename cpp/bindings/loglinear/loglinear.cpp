// Binds training of log-linear chain models (core/loglinear/): checks arguments, and releases the GIL.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <optional>

#include "bindings/base/arrays.hpp"
#include "bindings/base/casters.hpp"
#include "bindings/base/gil.hpp"
#include "bindings/bindings.hpp"
#include "bindings/loglinear/scorer.hpp"
#include "loglinear/objective.hpp"
#include "loglinear/online.hpp"
#include "loglinear/pair_states.hpp"
#include "loglinear/seen_cells.hpp"

namespace nb = nanobind;

namespace trellis {
namespace {

// The states of a chain of second order; see core/loglinear/pair_states.hpp.
class PairStatesBinding {
 public:
  PairStatesBinding(int labels, In<std::int64_t> trigram) : states_(make(labels, copy_of(trigram))) {}

  std::int32_t count() const { return states_.count(); }
  Numpy<std::int32_t> begin() const { return to_array(std::vector(states_.begin())); }
  Numpy<std::int32_t> last() const { return to_array(std::vector(states_.last())); }
  Numpy<std::int32_t> previous() const { return to_array(std::vector(states_.previous())); }

  // Fills out, (states, states), from scores of bigrams, (labels, labels), and weights of trigrams.
  void transitions(In<double, 2> bigrams, In<double> trigrams, Out<double, 2> out) const {
    const std::int64_t labels = states_.labels();
    require(size_of(bigrams) == labels && std::int64_t(bigrams.shape(1)) == labels,
            "bigrams must be (labels, labels)");
    require(size_of(trigrams) == states_.trigrams(), "trigrams must have one entry per trigram");
    require(size_of(out) == count() && std::int64_t(out.shape(1)) == count(),
            "out must be (states, states)");
    states_.transitions(bigrams.data(), trigrams.data(), out.data());
  }

 private:
  static PairStates make(int labels, const std::vector<std::int64_t>& trigram) {
    require(0 < labels && labels <= kMaxLabels, "labels must be 1 to 32768");
    check_trigrams(labels, trigram);
    return PairStates(labels, trigram.data(), static_cast<std::int64_t>(trigram.size()));
  }

  PairStates states_;
};

// Rows, labels and constraints, validated; keeps all arrays alive.
class TrainingData {
 public:
  TrainingData(const WeightLayoutArrays& weights, const SparseRowsArrays& rows,
               std::optional<SparseRowsArrays> edges, In<std::int64_t> row_begin, In<std::int32_t> label,
               std::optional<In<bool, 2>> allowed, std::optional<In<double>> weight,
               std::optional<In<double>> cost, std::optional<In<bool, 2>> forbidden,
               std::optional<In<double>> start, std::optional<In<double>> end)
      : weights_(weights),
        rows_(rows),
        edges_(edges),
        row_begin_(share(copy_of(row_begin))),
        label_(share(copy_of(label))),
        allowed_(allowed),
        weight_(weight),
        cost_(cost),
        forbidden_(forbidden),
        start_(start),
        end_(end) {
    const std::int64_t labels = weights.labels, count = rows.view().rows;
    check_begin(*row_begin_, count, "row_begin does not fit the rows");
    for (std::size_t i = 1; i < row_begin_->size(); ++i) {
      require((*row_begin_)[i - 1] < (*row_begin_)[i], "row_begin: a sequence has no rows");
    }
    require(size_of(label) == count, "label must have one entry per row");
    for (const std::int32_t y : *label_) {
      require(-1 <= y && y < labels, "a label is out of range");
    }
    const auto square = [&](const auto& a) {
      return size_of(a) == labels && std::int64_t(a.shape(1)) == labels;
    };
    require((weights.edge_begin != nullptr) == edges.has_value(),
            "edge rows require edge weights, and vice versa");
    require(!edges || edges->view().rows == count, "edges and rows must have the same number of rows");
    require(!allowed || (size_of(*allowed) == count && std::int64_t(allowed->shape(1)) == labels),
            "allowed must be (rows, labels)");
    require(!weight || size_of(*weight) == size_of(row_begin) - 1,
            "weight must have one entry per sequence");
    require(!cost || size_of(*cost) == labels, "cost must have one entry per label");
    require(!forbidden || square(*forbidden), "forbidden must be (labels, labels)");
    require(!start || size_of(*start) == labels, "start must have one entry per label");
    require(!end || size_of(*end) == labels, "end must have one entry per label");
  }

  // Return views of the arrays, which are valid while this object exists.
  WeightLayout layout() const { return weights_.view(); }
  SparseRows rows() const { return rows_->view(); }
  // Releases the rows, which often need most of the memory.
  void release_rows() { rows_.reset(); }
  SparseRows edges() const { return edges_ ? edges_->view() : SparseRows{}; }
  std::int64_t sequences() const { return size_of(row_begin_) - 1; }
  // Returns whether the label of every row is known.
  bool complete() const { return std::find(label_->begin(), label_->end(), -1) == label_->end(); }
  TrainingLabels labels() const {
    return {.sequences = sequences(),
            .row_begin = row_begin_->data(),
            .label = label_->data(),
            .allowed = data(allowed_),
            .weight = data(weight_),
            .cost = data(cost_),
            .forbidden = data(forbidden_),
            .start = data(start_),
            .end = data(end_)};
  }

 private:
  // Returns the pointer of an optional array, or null.
  template <class A>
  static auto data(const std::optional<A>& array) -> decltype(array->data()) {
    return array ? array->data() : nullptr;
  }

  WeightLayoutArrays weights_;
  std::optional<SparseRowsArrays> rows_;
  std::optional<SparseRowsArrays> edges_;
  Shared<std::int64_t> row_begin_;  // row_begin_ and label_ are private copies: they index memory
  Shared<std::int32_t> label_;
  std::optional<In<bool, 2>> allowed_;
  std::optional<In<double>> weight_, cost_;
  std::optional<In<bool, 2>> forbidden_;
  std::optional<In<double>> start_, end_;
};

// The objective of CRFs or, with by_step, of MEMMs; see core/loglinear/objective.hpp.
class ObjectiveBinding {
 public:
  ObjectiveBinding(const TrainingData& data, bool by_step) : data_(data) {
    require(!by_step || data_.layout().trigrams == 0, "an MEMM does not take trigrams");
    {
      const ReleasedGil release;
      objective_.emplace(data_.layout(), data_.rows(), data_.edges(), data_.labels(),
                         by_step ? Normaliser::step : Normaliser::sequence);
    }
    data_.release_rows();  // the objective has its own copy, prepared for the kernels
  }

  // Fills the gradient and returns the loss; w and gradient are (weights).
  double evaluate(In<double> w, double l2, int threads, Out<double> gradient) {
    require(size_of(w) == objective_->size() && size_of(gradient) == objective_->size(),
            "w and gradient must have one entry per weight");
    require(threads > 0, "threads must be positive");
    const ReleasedGil release;
    return objective_->evaluate(w.data(), l2, threads, gradient.data());
  }

  // Returns the first sequence without an allowed labelling, or -1. Call it after evaluate().
  std::int64_t infeasible() const { return objective_->infeasible(); }
  std::vector<double> log_likelihood() const { return objective_->log_likelihood(); }

 private:
  TrainingData data_;
  std::optional<Objective> objective_;
};

// Online learning: each method is one pass over sequences in a given order; see
// core/loglinear/online.hpp.
class Online {
 public:
  explicit Online(const TrainingData& data) : data_(data) {
    require(data_.complete(), "online learning needs all labels");
    require(data_.labels().cost == nullptr, "online learning does not take label_weight");
    require(data_.edges().begin == nullptr, "online learning does not take edge attributes");
    const ReleasedGil release;
    learner_.emplace(data_.layout(), data_.rows(), data_.labels());
  }

  // Returns the loss, and the scale of v after the pass.
  std::pair<double, double> sgd(In<std::int64_t> order, double lambda, double t0, std::int64_t done,
                                Out<double> v, double scale) {
    const std::vector<std::int64_t> sequences = checked_order(order);
    check(v);
    const ReleasedGil release;
    const double loss = sgd_epoch(*learner_, order_of(sequences),
                                  {.lambda = lambda, .t0 = t0, .earlier_steps = done}, v.data(), &scale);
    return {loss, scale};
  }

  // Returns the number of wrong labels, and the steps so far.
  std::pair<std::int64_t, std::int64_t> perceptron(In<std::int64_t> order, Out<double> w,
                                                   Out<double> total, std::int64_t steps,
                                                   std::optional<Out<std::int64_t>> sequence_errors) {
    const std::vector<std::int64_t> sequences = checked_order(order);
    check(w);
    check(total);
    require(!sequence_errors || size_of(*sequence_errors) == size_of(order),
            "sequence_errors must have one entry per sequence of the order");
    const ReleasedGil release;
    const std::int64_t errors = perceptron_epoch(*learner_, order_of(sequences),
                                                 {.w = w.data(), .total = total.data(), .steps = &steps},
                                                 sequence_errors ? sequence_errors->data() : nullptr);
    return {errors, steps};
  }

  // Returns the hinge loss, and the steps so far.
  std::pair<double, std::int64_t> passive_aggressive(In<std::int64_t> order, int variant,
                                                     double aggressiveness, bool count_errors,
                                                     Out<double> w, Out<double> total,
                                                     std::int64_t steps) {
    const std::vector<std::int64_t> sequences = checked_order(order);
    check(w);
    check(total);
    const ReleasedGil release;
    const double loss = passive_aggressive_epoch(
        *learner_, order_of(sequences),
        {.variant = variant, .aggressiveness = aggressiveness, .count_errors = count_errors},
        {.w = w.data(), .total = total.data(), .steps = &steps});
    return {loss, steps};
  }

  // Returns the hinge loss; w and variance are (weights).
  double arow(In<std::int64_t> order, double gamma, Out<double> w, Out<double> variance) {
    const std::vector<std::int64_t> sequences = checked_order(order);
    check(w);
    check(variance);
    const ReleasedGil release;
    return arow_epoch(*learner_, order_of(sequences), gamma, w.data(), variance.data());
  }

 private:
  static Order order_of(const std::vector<std::int64_t>& order) {
    return {.sequence = order.data(), .count = static_cast<std::int64_t>(order.size())};
  }

  void check(const Out<double>& w) const {
    require(size_of(w) == learner_->size(), "arrays of weights must have one entry per weight");
  }

  // Returns a validated copy of an order: its entries index sequences.
  std::vector<std::int64_t> checked_order(const In<std::int64_t>& order) const {
    std::vector<std::int64_t> sequences = copy_of(order);
    for (const std::int64_t i : sequences) {
      require(0 <= i && i < data_.sequences(), "order: a sequence is out of range");
    }
    return sequences;
  }

  TrainingData data_;
  std::optional<OnlineLearner> learner_;
};

// Returns the cells (labels or bigrams) of each attribute, as (begin, cell); see
// core/loglinear/seen_cells.hpp. Everything is checked here, because the core indexes arrays by ids and
// cells.
std::pair<Numpy<std::int64_t>, Numpy<std::int32_t>> seen(
    const SparseRowsArrays& rows, std::int64_t attributes, int cells, In<std::int32_t> cell,
    std::optional<In<bool, 2>> allowed, std::optional<In<double>> weight, double min_sum) {
  const SparseRows x = rows.view();
  require(x.rows < (std::int64_t{1} << 31), "too many rows");
  require(size_of(cell) == x.rows, "cell must have one entry per row");
  require(!allowed || (size_of(*allowed) == x.rows && std::int64_t(allowed->shape(1)) == cells),
          "allowed must be (rows, cells)");
  require(!weight || size_of(*weight) == x.rows, "weight must have one entry per row");
  const std::vector<std::int32_t> row_cells = copy_of(cell);
  for (const std::int32_t c : row_cells) require(-1 <= c && c < cells, "a cell is out of range");
  for (std::int64_t i = 0; i < x.begin[x.rows]; ++i) {
    require(0 <= x.id[i] && x.id[i] < attributes, "an attribute is out of range");
  }
  std::optional<SeenCells> pairs;
  {
    const ReleasedGil release;
    pairs = seen_cells(x, attributes,
                       {.cells = cells,
                        .cell = row_cells.data(),
                        .allowed = allowed ? allowed->data() : nullptr,
                        .weight = weight ? weight->data() : nullptr},
                       min_sum);
  }
  return {to_array(std::move(pairs->begin)), to_array(std::move(pairs->cell))};
}

}  // namespace
}  // namespace trellis

void bind_loglinear(nb::module_& m) {
  using namespace trellis;
  nb::class_<SparseRowsArrays>(m, "SparseRows")
      .def(nb::init<In<std::int64_t>, In<std::int32_t>, std::optional<In<double>>>(), nb::arg("begin"),
           nb::arg("id"), nb::arg("value").none());
  nb::class_<WeightLayoutArrays>(m, "WeightLayout")
      .def(nb::init<int, In<std::int64_t>, In<std::uint16_t>, In<std::int32_t>,
                    std::optional<In<std::int64_t>>, std::optional<In<std::int32_t>>,
                    std::optional<In<std::int64_t>>>(),
           nb::arg("labels"), nb::arg("state_begin"), nb::arg("state_label"), nb::arg("bigram"),
           nb::arg("edge_begin").none(), nb::arg("edge_bigram").none(),
           nb::arg("trigram").none() = nb::none());
  nb::class_<PairStatesBinding>(m, "PairStates")
      .def(nb::init<int, In<std::int64_t>>(), nb::arg("labels"), nb::arg("trigram"))
      .def("__len__", &PairStatesBinding::count)
      .def_prop_ro("begin", &PairStatesBinding::begin, nb::rv_policy::move)
      .def_prop_ro("last", &PairStatesBinding::last, nb::rv_policy::move)
      .def_prop_ro("previous", &PairStatesBinding::previous, nb::rv_policy::move)
      .def("transitions", &PairStatesBinding::transitions, nb::arg("bigrams"), nb::arg("trigrams"),
           nb::arg("out"));
  nb::class_<TrainingData>(m, "TrainingData")
      .def(nb::init<const WeightLayoutArrays&, const SparseRowsArrays&, std::optional<SparseRowsArrays>,
                    In<std::int64_t>, In<std::int32_t>, std::optional<In<bool, 2>>,
                    std::optional<In<double>>, std::optional<In<double>>, std::optional<In<bool, 2>>,
                    std::optional<In<double>>, std::optional<In<double>>>(),
           nb::arg("weights"), nb::arg("rows"), nb::arg("edges").none(), nb::arg("row_begin"),
           nb::arg("label"), nb::arg("allowed").none(), nb::arg("weight").none(), nb::arg("cost").none(),
           nb::arg("forbidden").none(), nb::arg("start").none(), nb::arg("end").none());
  nb::class_<ObjectiveBinding>(m, "Objective")
      .def(nb::init<const TrainingData&, bool>(), nb::arg("data"), nb::arg("by_step"))
      .def("evaluate", &ObjectiveBinding::evaluate, nb::arg("w"), nb::arg("l2"), nb::arg("threads"),
           nb::arg("gradient"))
      .def_prop_ro("infeasible", &ObjectiveBinding::infeasible)
      .def_prop_ro("log_likelihood", &ObjectiveBinding::log_likelihood);
  nb::class_<Online>(m, "Online")
      .def(nb::init<const TrainingData&>(), nb::arg("data"))
      .def("sgd", &Online::sgd)
      .def("perceptron", &Online::perceptron, nb::arg("order"), nb::arg("w"), nb::arg("total"),
           nb::arg("steps"), nb::arg("sequence_errors").none() = nb::none())
      .def("passive_aggressive", &Online::passive_aggressive)
      .def("arow", &Online::arow);
  nb::class_<Scorer>(m, "Scorer")
      .def(nb::init<const WeightLayoutArrays&, In<double>>(), nb::arg("weights"), nb::arg("w"))
      .def("scores", &Scorer::scores, nb::arg("rows"), nb::arg("threads"), nb::arg("out"))
      .def("transitions", &Scorer::transitions, nb::arg("edges").none(), nb::arg("forbidden").none(),
           nb::arg("out"));
  m.def("seen", &seen, nb::arg("rows"), nb::arg("attributes"), nb::arg("cells"), nb::arg("cell"),
        nb::arg("allowed").none(), nb::arg("weight").none(), nb::arg("min_sum"));
}
