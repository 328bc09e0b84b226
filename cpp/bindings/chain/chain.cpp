// Binds core/chain/batch.hpp: checks shapes and dtypes, and releases the GIL.
//
// Python allocates all results. Sizes are checked here again, so that no call can access memory outside
// an array, whatever Python passes.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <optional>
#include <vector>

#include "bindings/base/arrays.hpp"
#include "bindings/base/gil.hpp"
#include "bindings/base/views.hpp"
#include "bindings/bindings.hpp"
#include "chain/batch.hpp"
#include "dispatch.hpp"

namespace nb = nanobind;

namespace trellis {
namespace {

using Integers = In<std::int64_t, 1>;

// The arrays of one batch, kept alive while the object exists.
template <class T>
class ChainBinding {
 public:
  // unary is one (rows, labels) array, or a list of (length, labels) arrays. transitions is a list of
  // arrays with at least length - 1 matrices each.
  ChainBinding(nb::object unary, Integers starts, Integers lengths,
               std::optional<In<double, 2>> transition, std::optional<nb::list> transitions,
               std::optional<In<double, 1>> start, std::optional<In<double, 1>> end, int threads)
      // These are copies, because the caller could change the originals after they were checked.
      : starts_(starts.data(), starts.data() + starts.shape(0)),
        lengths_(lengths.data(), lengths.data() + lengths.shape(0)),
        transition_(transition),
        start_(start),
        end_(end),
        threads_(threads) {
    require(lengths.shape(0) == starts.shape(0), "starts and lengths must have the same size");
    require(threads > 0, "threads must be positive");
    if (nb::isinstance<nb::list>(unary)) {
      take_list(nb::borrow<nb::list>(unary));
    } else {
      take_array(nb::cast<In<T, 2>>(unary));
    }
    require(0 < labels_ && labels_ <= kMaxLabels, "unary must have 1 to 32768 labels");
    require(transition.has_value() != transitions.has_value(),
            "exactly one of transition and transitions must be set");
    if (transition_) check_square(transition_->shape(0), transition_->shape(1));
    if (transitions) take_transitions(*transitions);
    require(!start_ || static_cast<std::int64_t>(start_->shape(0)) == labels_,
            "start must have one entry per label");
    require(!end_ || static_cast<std::int64_t>(end_->shape(0)) == labels_,
            "end must have one entry per label");
  }

  void log_partition(Out<double, 1> log_z, Out<std::int64_t, 2> outcomes) const {
    check_size(log_z.shape(0));
    run<Purpose::probabilities>(
        [&](const ChainBatch<T>& c) { c.log_partition(log_z.data(), outcome(outcomes)); });
  }

  // Methods with one row of results per position return a list with the rows of each sequence, or None
  // if unary is one array.
  nb::object marginals(const nb::object& rows, std::optional<Out<T, 3>> pairwise,
                       std::optional<Integers> pairwise_starts, std::optional<Out<double, 2>> counts,
                       Out<double, 1> log_z, Out<std::int64_t, 2> outcomes,
                       std::optional<In<double, 1>> weights) const {
    std::vector<std::int64_t> matrix_starts;
    const MarginalsOut<T> out = checked(nb::cast<Out<T, 2>>(rows), pairwise, pairwise_starts, counts,
                                        log_z, outcomes, weights, &matrix_starts);
    return run_and_cut<Purpose::probabilities>(
        rows, [&](const ChainBatch<T>& c, const auto& meanwhile) { c.marginals(out, meanwhile); });
  }

  // Subtracts one path per sequence from the results of marginals(). The outcomes say whether the labels
  // of the paths are valid.
  void subtract_paths(Integers labels, Out<T, 2> unary, std::optional<Out<T, 3>> pairwise,
                      std::optional<Integers> pairwise_starts, std::optional<Out<double, 2>> counts,
                      Out<double, 1> log_z, Out<std::int64_t, 2> outcomes,
                      std::optional<In<double, 1>> weights) const {
    check_rows(labels.shape(0), static_cast<std::size_t>(labels_));
    std::vector<std::int64_t> matrix_starts;
    const MarginalsOut<T> out =
        checked(unary, pairwise, pairwise_starts, counts, log_z, outcomes, weights, &matrix_starts);
    run<Purpose::paths>([&](const ChainBatch<T>& c) { c.subtract_paths(labels.data(), out); });
  }

  // Computes the best paths. rows has one label per row; score is (count).
  nb::object viterbi(const nb::object& rows, Out<double, 1> score, Out<std::int64_t, 2> outcomes) const {
    const auto labels = nb::cast<Out<std::int64_t, 1>>(rows);
    check_rows(labels.shape(0), static_cast<std::size_t>(labels_));
    check_size(score.shape(0));
    return run_and_cut<Purpose::paths>(rows, [&](const ChainBatch<T>& c, const auto& meanwhile) {
      c.viterbi(labels.data(), score.data(), outcome(outcomes), meanwhile);
    });
  }

  nb::object max_marginals(const nb::object& rows, Out<std::int64_t, 2> outcomes) const {
    const auto out = nb::cast<Out<T, 2>>(rows);
    check_rows(out.shape(0), out.shape(1));
    return run_and_cut<Purpose::paths>(rows, [&](const ChainBatch<T>& c, const auto& meanwhile) {
      c.max_marginals(out.data(), outcome(outcomes), meanwhile);
    });
  }

  // The tables of the recursions, (rows, labels), with one total per sequence: log Z or the best score.
  void alpha_table(Out<double, 2> rows, Out<double, 1> log_z, Out<std::int64_t, 2> outcomes) const {
    check_rows(rows.shape(0), rows.shape(1));
    check_size(log_z.shape(0));
    run<Purpose::paths>(
        [&](const ChainBatch<T>& c) { c.alpha_table(rows.data(), log_z.data(), outcome(outcomes)); });
  }
  void beta_table(Out<double, 2> rows, Out<double, 1> log_z, Out<std::int64_t, 2> outcomes) const {
    check_rows(rows.shape(0), rows.shape(1));
    check_size(log_z.shape(0));
    run<Purpose::paths>(
        [&](const ChainBatch<T>& c) { c.beta_table(rows.data(), log_z.data(), outcome(outcomes)); });
  }
  void best_table(Out<double, 2> rows, Out<std::int64_t, 2> pointers, Out<double, 1> score,
                  Out<std::int64_t, 2> outcomes) const {
    check_rows(rows.shape(0), rows.shape(1));
    check_rows(pointers.shape(0), pointers.shape(1));
    check_size(score.shape(0));
    run<Purpose::paths>([&](const ChainBatch<T>& c) {
      c.best_table(rows.data(), pointers.data(), score.data(), outcome(outcomes));
    });
  }

  void entropy(Out<double, 1> result, Out<std::int64_t, 2> outcomes) const {
    check_size(result.shape(0));
    run<Purpose::paths>([&](const ChainBatch<T>& c) { c.entropy(result.data(), outcome(outcomes)); });
  }

  // Draws n paths. uniforms and labels hold n numbers per row; the numbers of sequence i begin at n *
  // rows_before[i].
  void sample(Integers rows_before, In<double, 1> uniforms, Out<std::int64_t, 1> labels,
              Out<std::int64_t, 2> outcomes) const {
    const std::vector<std::int64_t> before = copy_of(rows_before);
    const std::int64_t rows = check_packed(before);
    const std::int64_t size = static_cast<std::int64_t>(labels.shape(0));
    require(rows > 0 && size % rows == 0 && uniforms.shape(0) == labels.shape(0),
            "sample: uniforms and labels must hold n numbers for each row");
    run<Purpose::paths>([&](const ChainBatch<T>& c) {
      c.sample(size / rows, before.data(), uniforms.data(), labels.data(), outcome(outcomes));
    });
  }

  // Computes the k best paths. labels holds k labels per row, scores is (count, k), path_counts is
  // (count).
  void kbest(std::int64_t k, Integers rows_before, Out<std::int64_t, 1> labels, Out<double, 2> scores,
             Out<std::int64_t, 1> path_counts) const {
    const std::vector<std::int64_t> before = copy_of(rows_before);
    const std::int64_t rows = check_packed(before);
    require(k > 0 && static_cast<std::int64_t>(labels.shape(0)) == k * rows,
            "kbest: labels must hold k labels for each row");
    check_size(scores.shape(0));
    check_size(path_counts.shape(0));
    require(static_cast<std::int64_t>(scores.shape(1)) == k, "kbest: scores must be (count, k)");
    run<Purpose::paths>([&](const ChainBatch<T>& c) {
      c.kbest(k, before.data(), labels.data(), scores.data(), path_counts.data());
    });
  }

  // Counts the allowed paths, at most k; path_counts is (count).
  void count_paths(std::int64_t k, Out<std::int64_t, 1> path_counts) const {
    constexpr std::int64_t kMaxPaths = std::int64_t{1} << 36;  // the sum of two counts fits in an int64
    require(0 < k && k <= kMaxPaths, "count_paths: k must be 1 to 2^36");
    check_size(path_counts.shape(0));
    run<Purpose::paths>([&](const ChainBatch<T>& c) { c.count_paths(k, path_counts.data()); });
  }

  void score(Integers labels, Out<double, 1> scores, Out<std::int64_t, 2> outcomes) const {
    check_rows(labels.shape(0), static_cast<std::size_t>(labels_));
    check_size(scores.shape(0));
    run<Purpose::paths>(
        [&](const ChainBatch<T>& c) { c.score(labels.data(), scores.data(), outcome(outcomes)); });
  }

 private:
  std::int64_t count() const { return static_cast<std::int64_t>(starts_.size()); }

  // Checks the arrays of marginals() and returns their pointers. matrix_starts receives a copy of
  // pairwise_starts.
  MarginalsOut<T> checked(const Out<T, 2>& unary, const std::optional<Out<T, 3>>& pairwise,
                          const std::optional<Integers>& pairwise_starts,
                          const std::optional<Out<double, 2>>& counts, const Out<double, 1>& log_z,
                          const Out<std::int64_t, 2>& outcomes,
                          const std::optional<In<double, 1>>& weights,
                          std::vector<std::int64_t>* matrix_starts) const {
    if (weights) check_size(weights->shape(0));
    check_rows(unary.shape(0), unary.shape(1));
    check_size(log_z.shape(0));
    if (counts) check_square(counts->shape(0), counts->shape(1));
    if (pairwise) {
      require(pairwise_starts.has_value(), "pairwise needs pairwise_starts");
      *matrix_starts = copy_of(*pairwise_starts);
      check_matrices(*pairwise, *matrix_starts);
    }
    return {.unary = unary.data(),
            .pairwise = pairwise ? pairwise->data() : nullptr,
            .pairwise_starts = matrix_starts->data(),
            .counts = counts ? counts->data() : nullptr,
            .log_z = log_z.data(),
            .outcomes = outcome(outcomes),
            .weights = weights ? weights->data() : nullptr};
  }

  template <Purpose kPurpose, class Call>
  void run(const Call& call) const {
    const ReleasedGil release;
    const Batch<T> batch{.count = count(),
                         .labels = static_cast<int>(labels_),
                         .unary = unary_.data(),
                         .starts = starts_.data(),
                         .lengths = lengths_.data(),
                         .transition = transition_ ? transition_->data() : nullptr,
                         .transitions = transitions_.empty() ? nullptr : transitions_.data(),
                         .start = start_ ? start_->data() : nullptr,
                         .end = end_ ? end_->data() : nullptr};
    call(ChainBatch<T>(batch, kernels().chain<T>(), threads_, kPurpose));
  }

  // Runs a call and creates the arrays of the results. Creating one array per sequence takes time, so
  // this thread does it while the other threads compute.
  template <Purpose kPurpose, class Call>
  nb::object run_and_cut(const nb::object& rows, const Call& call) const {
    nb::object pieces = nb::none();
    const auto cut = [&] {
      const nb::gil_scoped_acquire acquire;
      pieces = split_rows(rows.ptr(), lengths_.data(), lengths_.size());
    };
    run<kPurpose>([&](const ChainBatch<T>& c) {
      if (is_list_) {
        call(c, cut);
      } else {
        call(c, nullptr);
      }
    });
    return pieces;
  }

  // Reads one (rows, labels) array. Sequences may be anywhere inside the array.
  void take_array(const In<T, 2>& array) {
    arrays_ = nb::make_tuple(array);
    labels_ = static_cast<std::int64_t>(array.shape(1));
    rows_ = static_cast<std::int64_t>(array.shape(0));
    for (std::int64_t i = 0; i < count(); ++i) {
      const std::int64_t start = starts_[i], length = lengths_[i];
      require(start >= 0 && length > 0 && length <= rows_ && start <= rows_ - length,
              "a sequence lies outside the rows of unary");
      unary_.push_back(array.data() + start * labels_);
    }
  }

  // Reads one array per sequence. Results are packed, so starts must be the cumulative lengths.
  void take_list(const nb::list& arrays) {
    arrays_ = nb::tuple(arrays);  // the list may change while the GIL is released
    is_list_ = true;
    require(arrays_.size() == starts_.size(), "unary must have one array per sequence");
    unary_.reserve(starts_.size());
    for (std::int64_t i = 0; i < count(); ++i) {
      const ArrayView view = checked_view(arrays_, i, 2);
      if (i == 0) labels_ = view.shape[1];
      require(view.shape[1] == labels_ && view.shape[0] == lengths_[i] && view.shape[0] > 0 &&
                  starts_[i] == rows_,
              "unary: an array has the wrong shape");
      rows_ += view.shape[0];
      unary_.push_back(static_cast<const T*>(view.data));
    }
  }

  void take_transitions(const nb::list& arrays) {
    transition_arrays_ = nb::tuple(arrays);
    require(transition_arrays_.size() == starts_.size(), "transitions must have one array per sequence");
    for (std::int64_t i = 0; i < count(); ++i) {
      const ArrayView view = checked_view(transition_arrays_, i, 3);
      require(view.shape[0] >= lengths_[i] - 1 && view.shape[1] == labels_ && view.shape[2] == labels_,
              "transitions: an array has the wrong shape");
      transitions_.push_back(static_cast<const T*>(view.data));
    }
  }

  static ArrayView checked_view(const nb::tuple& arrays, std::int64_t i, int dimensions) {
    ArrayView view;
    require(view_of(PyTuple_GET_ITEM(arrays.ptr(), i), dimensions, &view) && view.item_size == sizeof(T),
            "an array has the wrong dtype or memory layout");
    return view;
  }

  void check_square(std::size_t rows, std::size_t columns) const {
    require(static_cast<std::int64_t>(rows) == labels_ && rows == columns,
            "a transition matrix must be (labels, labels)");
  }
  void check_size(std::size_t size) const {
    require(static_cast<std::int64_t>(size) == count(), "a result must have one entry per sequence");
  }
  void check_rows(std::size_t rows, std::size_t columns) const {
    require(static_cast<std::int64_t>(rows) == rows_ && static_cast<std::int64_t>(columns) == labels_,
            "a result must have the shape of unary");
  }
  void check_matrices(const Out<T, 3>& matrices, const std::vector<std::int64_t>& starts) const {
    check_square(matrices.shape(1), matrices.shape(2));
    check_size(starts.size());
    for (std::int64_t i = 0; i < count(); ++i) {
      const std::int64_t start = starts[i], pairs = lengths_[i] - 1;
      const auto available = static_cast<std::int64_t>(matrices.shape(0));
      require(start >= 0 && pairs <= available && start <= available - pairs,
              "the matrices of a sequence are outside the array");
    }
  }
  // Checks that rows_before is the cumulative sum of the lengths; returns the total.
  std::int64_t check_packed(const std::vector<std::int64_t>& rows_before) const {
    check_size(rows_before.size());
    std::int64_t rows = 0;
    for (std::int64_t i = 0; i < count(); ++i) {
      require(rows_before[i] == rows, "rows_before must be the cumulative sum of the lengths");
      rows += lengths_[i];
    }
    return rows;
  }
  // Returns outcomes as the core's struct, which has the same layout.
  Outcome* outcome(const Out<std::int64_t, 2>& outcomes) const {
    static_assert(sizeof(Outcome) == 2 * sizeof(std::int64_t));
    check_size(outcomes.shape(0));
    require(outcomes.shape(1) == 2, "outcomes must be (count, 2)");
    return reinterpret_cast<Outcome*>(outcomes.data());
  }

  nb::tuple arrays_, transition_arrays_;  // own the memory that the pointers refer to
  bool is_list_ = false;                  // unary is one array per sequence
  std::vector<const T*> unary_;           // (count): the scores of each sequence
  std::vector<const T*> transitions_;     // (count), if transitions depend on the position
  std::int64_t labels_ = 0, rows_ = 0;
  std::vector<std::int64_t> starts_, lengths_;
  std::optional<In<double, 2>> transition_;
  std::optional<In<double, 1>> start_, end_;
  int threads_;
};

template <class T>
void bind(nb::module_& m, const char* name) {
  using C = ChainBinding<T>;
  nb::class_<C>(m, name)
      .def(
          nb::init<nb::object, Integers, Integers, std::optional<In<double, 2>>, std::optional<nb::list>,
                   std::optional<In<double, 1>>, std::optional<In<double, 1>>, int>(),
          nb::arg("unary"), nb::arg("starts"), nb::arg("lengths"), nb::arg("transition").none(),
          nb::arg("transitions").none(), nb::arg("start").none(), nb::arg("end").none(),
          nb::arg("threads"))
      .def("log_partition", &C::log_partition)
      .def("marginals", &C::marginals, nb::arg("unary"), nb::arg("pairwise").none(),
           nb::arg("pairwise_starts").none(), nb::arg("counts").none(), nb::arg("log_z"),
           nb::arg("outcomes"), nb::arg("weights").none())
      .def("subtract_paths", &C::subtract_paths, nb::arg("labels"), nb::arg("unary"),
           nb::arg("pairwise").none(), nb::arg("pairwise_starts").none(), nb::arg("counts").none(),
           nb::arg("log_z"), nb::arg("outcomes"), nb::arg("weights").none())
      .def("viterbi", &C::viterbi)
      .def("max_marginals", &C::max_marginals)
      .def("alpha_table", &C::alpha_table)
      .def("beta_table", &C::beta_table)
      .def("best_table", &C::best_table)
      .def("entropy", &C::entropy)
      .def("sample", &C::sample)
      .def("kbest", &C::kbest)
      .def("count_paths", &C::count_paths)
      .def("score", &C::score);
}

}  // namespace
}  // namespace trellis

void bind_chain(nb::module_& m) {
  trellis::bind<float>(m, "ChainFloat32");
  trellis::bind<double>(m, "ChainFloat64");
}
