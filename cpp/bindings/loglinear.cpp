// Log-linear chain models: shapes, dtypes and the GIL; the work is in core/objective.hpp.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "arrays.hpp"
#include "bindings.hpp"
#include "objective.hpp"

namespace nb = nanobind;

namespace trellis {
namespace {

template <class T, std::size_t N = 1>
using In = nb::ndarray<const T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;
template <class T, std::size_t N = 1>
using Out = nb::ndarray<T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;

template <class T>
std::int64_t size_of(const T& array) {
  return static_cast<std::int64_t>(array.shape(0));
}

// begin must ascend from 0 to `end`.
template <class T>
void check_begin(const T& begin, std::int64_t end, const char* what) {
  require(size_of(begin) > 0 && begin.data()[0] == 0, what);
  for (std::int64_t i = 1; i < size_of(begin); ++i)
    require(begin.data()[i - 1] <= begin.data()[i], what);
  require(begin.data()[size_of(begin) - 1] == end, what);
}

// Rows of attributes, and what keeps them alive.
struct Rows {
  In<std::int64_t> begin;
  In<std::int32_t> id;
  std::optional<In<double>> value;

  Rows(In<std::int64_t> begin_, In<std::int32_t> id_, std::optional<In<double>> value_)
      : begin(begin_), id(id_), value(value_) {
    check_begin(begin, size_of(id), "rows: begin does not fit the ids");
    require(!value || size_of(*value) == size_of(id), "rows: one value an id");
  }
  Attributes view() const {
    return {size_of(begin) - 1, begin.data(), id.data(), value ? value->data() : nullptr};
  }
};

// Which weights there are.
struct Weights {
  int labels;
  In<std::int64_t> state_begin;
  In<std::uint16_t> state_label;
  In<std::int32_t> bigram;
  std::optional<In<std::int64_t>> edge_begin;
  std::optional<In<std::int32_t>> edge_bigram;

  Weights(int labels_, In<std::int64_t> state_begin_, In<std::uint16_t> state_label_,
          In<std::int32_t> bigram_, std::optional<In<std::int64_t>> edge_begin_,
          std::optional<In<std::int32_t>> edge_bigram_)
      : labels(labels_),
        state_begin(state_begin_),
        state_label(state_label_),
        bigram(bigram_),
        edge_begin(edge_begin_),
        edge_bigram(edge_bigram_) {
    require(0 < labels && labels <= kMostLabels, "weights: too few or too many labels");
    check_begin(state_begin, size_of(state_label), "weights: state_begin does not fit state_label");
    require(size_of(state_label) < (std::int64_t{1} << 32), "weights: more than 2^32 state weights");
    for (std::int64_t i = 0; i < size_of(state_label); ++i) {
      require(state_label.data()[i] < labels, "weights: a label is out of range");
    }
    check_bigrams(bigram);
    require(edge_begin.has_value() == edge_bigram.has_value(), "weights: edge_begin with edge_bigram");
    if (edge_begin) check_begin(*edge_begin, size_of(*edge_bigram), "weights: edge_begin does not fit");
    if (edge_bigram) check_bigrams(*edge_bigram);
  }

  void check_bigrams(const In<std::int32_t>& cells) const {
    for (std::int64_t i = 0; i < size_of(cells); ++i) {
      require(0 <= cells.data()[i] && cells.data()[i] < labels * labels,
              "weights: a bigram is out of range");
    }
  }
  Layout view() const {
    return {labels,
            size_of(state_begin) - 1,
            state_begin.data(),
            state_label.data(),
            size_of(bigram),
            bigram.data(),
            edge_begin ? size_of(*edge_begin) - 1 : 0,
            edge_begin ? edge_begin->data() : nullptr,
            edge_bigram ? edge_bigram->data() : nullptr};
  }
};

class Loss {
 public:
  Loss(const Weights& weights, const Rows& rows, std::optional<Rows> edges, In<std::int64_t> row_begin,
       In<std::int32_t> label, std::optional<In<bool, 2>> allowed, std::optional<In<double>> weight,
       std::optional<In<double>> cost, std::optional<In<bool, 2>> forbidden,
       std::optional<In<double>> start, std::optional<In<double>> end, bool by_step)
      : weights_(weights),
        rows_(rows),
        edges_(edges),
        row_begin_(row_begin),
        label_(label),
        allowed_(allowed),
        weight_(weight),
        cost_(cost),
        forbidden_(forbidden),
        start_(start),
        end_(end) {
    const std::int64_t labels = weights.labels, count = rows.view().rows;
    check_begin(row_begin, count, "row_begin does not fit the rows");
    for (std::int64_t i = 1; i < size_of(row_begin); ++i) {
      require(row_begin.data()[i - 1] < row_begin.data()[i], "a sequence is empty");
    }
    require(size_of(label) == count, "one label a row");
    for (std::int64_t i = 0; i < count; ++i) {
      require(-1 <= label.data()[i] && label.data()[i] < labels, "a label is out of range");
    }
    require(weights.edge_begin.has_value() == edges.has_value(), "edge rows go with edge weights");
    require(!edges || edges->view().rows == count, "one row of edge attributes a row");
    require(!allowed || (size_of(*allowed) == count && allowed->shape(1) == std::size_t(labels)),
            "allowed: shape");
    require(!weight || size_of(*weight) == size_of(row_begin) - 1, "one weight a sequence");
    require(!cost || size_of(*cost) == labels, "one cost a label");
    require(!forbidden || (size_of(*forbidden) == labels && forbidden->shape(1) == std::size_t(labels)),
            "forbidden: shape");
    require(!start || size_of(*start) == labels, "start: shape");
    require(!end || size_of(*end) == labels, "end: shape");
    const Supervision y{size_of(row_begin) - 1, row_begin.data(), label.data(),
                        data(allowed_),         data(weight_),    data(cost_),
                        data(forbidden_),       data(start_),     data(end_)};
    const nb::gil_scoped_release release;
    objective_.emplace(weights_.view(), rows_.view(), edges_ ? edges_->view() : Attributes{}, y,
                       by_step ? Normaliser::step : Normaliser::sequence);
  }

  double evaluate(In<double> w, double l2, int threads, Out<double> gradient) {
    require(size_of(w) == objective_->size() && size_of(gradient) == objective_->size(),
            "weights: size");
    require(threads > 0, "threads must be positive");
    const nb::gil_scoped_release release;
    return objective_->evaluate(w.data(), l2, threads, gradient.data());
  }

  std::int64_t infeasible() const { return objective_->infeasible(); }
  std::vector<double> log_likelihood() const { return objective_->log_likelihood(); }

 private:
  template <class A>
  static auto data(const std::optional<A>& array) -> decltype(array->data()) {
    return array ? array->data() : nullptr;
  }

  Weights weights_;
  Rows rows_;
  std::optional<Rows> edges_;
  In<std::int64_t> row_begin_;
  In<std::int32_t> label_;
  std::optional<In<bool, 2>> allowed_;
  std::optional<In<double>> weight_, cost_;
  std::optional<In<bool, 2>> forbidden_;
  std::optional<In<double>> start_, end_;
  std::optional<Objective> objective_;
};

}  // namespace
}  // namespace trellis

void bind_loglinear(nb::module_& m) {
  using namespace trellis;
  nb::class_<Rows>(m, "Rows").def(
      nb::init<In<std::int64_t>, In<std::int32_t>, std::optional<In<double>>>(), nb::arg("begin"),
      nb::arg("id"), nb::arg("value").none());
  nb::class_<Weights>(m, "Weights")
      .def(nb::init<int, In<std::int64_t>, In<std::uint16_t>, In<std::int32_t>,
                    std::optional<In<std::int64_t>>, std::optional<In<std::int32_t>>>(),
           nb::arg("labels"), nb::arg("state_begin"), nb::arg("state_label"), nb::arg("bigram"),
           nb::arg("edge_begin").none(), nb::arg("edge_bigram").none());
  nb::class_<Loss>(m, "Loss")
      .def(nb::init<const Weights&, const Rows&, std::optional<Rows>, In<std::int64_t>, In<std::int32_t>,
                    std::optional<In<bool, 2>>, std::optional<In<double>>, std::optional<In<double>>,
                    std::optional<In<bool, 2>>, std::optional<In<double>>, std::optional<In<double>>,
                    bool>(),
           nb::arg("weights"), nb::arg("rows"), nb::arg("edges").none(), nb::arg("row_begin"),
           nb::arg("label"), nb::arg("allowed").none(), nb::arg("weight").none(), nb::arg("cost").none(),
           nb::arg("forbidden").none(), nb::arg("start").none(), nb::arg("end").none(),
           nb::arg("by_step"))
      .def("evaluate", &Loss::evaluate, nb::arg("w"), nb::arg("l2"), nb::arg("threads"),
           nb::arg("gradient"))
      .def_prop_ro("infeasible", &Loss::infeasible)
      .def_prop_ro("log_likelihood", &Loss::log_likelihood);
}
