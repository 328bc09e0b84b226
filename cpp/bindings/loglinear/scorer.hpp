// The arrays of a weight layout and of sparse rows, and the scores of rows under given weights.
#pragma once

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/aligned.hpp"
#include "base/thread_pool.hpp"
#include "bindings/base/arrays.hpp"
#include "bindings/base/gil.hpp"
#include "bindings/base/views.hpp"
#include "dispatch.hpp"
#include "loglinear/row_plan.hpp"
#include "loglinear/weight_layout.hpp"

namespace trellis {

template <class T>
std::int64_t size_of(const T& array) {
  return static_cast<std::int64_t>(array.shape(0));
}

// Checks that begin ascends from 0 to `end`.
inline void check_begin(const std::vector<std::int64_t>& begin, std::int64_t end, const char* what) {
  require(!begin.empty() && begin.front() == 0, what);
  for (std::size_t i = 1; i < begin.size(); ++i) require(begin[i - 1] <= begin[i], what);
  require(begin.back() == end, what);
}

// A private copy of an array, shared by the copies of its owner.
template <class T>
using Shared = std::shared_ptr<const std::vector<T>>;

template <class T>
Shared<T> share(std::vector<T> values) {
  return std::make_shared<const std::vector<T>>(std::move(values));
}
template <class T>
std::int64_t size_of(const Shared<T>& values) {
  return static_cast<std::int64_t>(values->size());
}

// The arrays that a SparseRows points to, kept alive. `begin` is a private copy. The ids are not copied,
// because they are large: each use as an index checks them (SparseRows::id_at).
struct SparseRowsArrays {
  Shared<std::int64_t> begin;       // (rows + 1)
  In<std::int32_t> id;              // (entries)
  std::optional<In<double>> value;  // (entries)

  SparseRowsArrays(In<std::int64_t> begin_, In<std::int32_t> id_, std::optional<In<double>> value_)
      : begin(share(copy_of(begin_))), id(id_), value(value_) {
    check_begin(*begin, size_of(id), "rows: begin does not fit the ids");
    require(!value || size_of(*value) == size_of(id), "rows: value must have one entry per id");
  }
  SparseRows view() const {
    return {.rows = size_of(begin) - 1,
            .begin = begin->data(),
            .id = id.data(),
            .value = value ? value->data() : nullptr};
  }
};

// Checks trigrams, which are stored as (first * labels + second) * labels + third: PairStates uses them
// as indices, and has at most kMaxLabels states.
inline void check_trigrams(int labels, const std::vector<std::int64_t>& trigrams) {
  const std::int64_t cells = std::int64_t{labels} * labels * labels;
  std::int64_t last = -1, states = labels;
  for (const std::int64_t cell : trigrams) {
    require(0 <= cell && cell < cells, "weights: a trigram is out of range");
    require(last < cell, "weights: trigrams must be ascending");
    if (last < 0 || last / labels != cell / labels) ++states;
    last = cell;
  }
  require(states <= kMaxLabels, "weights: there must be at most 32768 labels and label pairs");
}

// The arrays that a WeightLayout points to, with the same shapes. They are private and validated copies:
// every call uses them as indices, and the caller may change the original arrays at any time.
struct WeightLayoutArrays {
  int labels;
  Shared<std::int64_t> state_begin;
  Shared<std::uint16_t> state_label;
  Shared<std::int32_t> bigram;
  Shared<std::int64_t> edge_begin;   // null without edge attributes
  Shared<std::int32_t> edge_bigram;  // null without edge attributes
  Shared<std::int64_t> trigram;      // null in a chain of first order

  WeightLayoutArrays(int labels_, In<std::int64_t> state_begin_, In<std::uint16_t> state_label_,
                     In<std::int32_t> bigram_, std::optional<In<std::int64_t>> edge_begin_,
                     std::optional<In<std::int32_t>> edge_bigram_,
                     std::optional<In<std::int64_t>> trigram_)
      : labels(labels_),
        state_begin(share(copy_of(state_begin_))),
        state_label(share(copy_of(state_label_))),
        bigram(share(copy_of(bigram_))),
        edge_begin(edge_begin_ ? share(copy_of(*edge_begin_)) : nullptr),
        edge_bigram(edge_bigram_ ? share(copy_of(*edge_bigram_)) : nullptr),
        trigram(trigram_ ? share(copy_of(*trigram_)) : nullptr) {
    require(0 < labels && labels <= kMaxLabels, "weights: labels must be 1 to 32768");
    check_begin(*state_begin, size_of(state_label), "weights: state_begin does not fit state_label");
    require(size_of(state_label) < (std::int64_t{1} << 32), "weights: more than 2^32 state weights");
    for (const std::uint16_t label : *state_label) {
      require(label < labels, "weights: a label is out of range");
    }
    check_bigrams(*bigram);
    require((edge_begin == nullptr) == (edge_bigram == nullptr),
            "weights: edge_begin requires edge_bigram, and vice versa");
    if (edge_begin) check_begin(*edge_begin, size_of(edge_bigram), "weights: edge_begin does not fit");
    if (edge_bigram) check_bigrams(*edge_bigram);
    require(!trigram || !edge_begin, "weights: trigrams cannot be combined with edge attributes");
    if (trigram) check_trigrams(labels, *trigram);
  }

  // Checks bigrams, which are stored as from * labels + to.
  void check_bigrams(const std::vector<std::int32_t>& cells) const {
    for (const std::int32_t cell : cells) {
      require(0 <= cell && cell < labels * labels, "weights: a bigram is out of range");
    }
  }
  WeightLayout view() const {
    return {.labels = labels,
            .attributes = size_of(state_begin) - 1,
            .state_begin = state_begin->data(),
            .state_label = state_label->data(),
            .bigrams = size_of(bigram),
            .bigram = bigram->data(),
            .edge_attributes = edge_begin ? size_of(edge_begin) - 1 : 0,
            .edge_begin = edge_begin ? edge_begin->data() : nullptr,
            .edge_bigram = edge_bigram ? edge_bigram->data() : nullptr,
            .trigrams = trigram ? size_of(trigram) : 0,
            .trigram = trigram ? trigram->data() : nullptr};
  }
};

// Scores rows under fixed weights.
class Scorer {
 public:
  Scorer(const WeightLayoutArrays& weights, In<double> w)
      : weights_(weights),
        layout_(weights_.view()),
        w_(w.data(), w.data() + size_of(w)),
        dense_(layout_, nullptr) {
    require(size_of(w) == layout_.size(), "w must have one entry per weight");
    table_ = aligned_doubles(dense_.table_size() + kPadding);
    dense_.expand(w_.data(), table_.get());
    for (std::int64_t a = 0; a < layout_.attributes; ++a) {
      const std::int64_t begin = layout_.state_begin[a], end = layout_.state_begin[a + 1];
      places_.push_back(
          {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end - begin), dense_.place(a)});
    }
  }

  // Fills out, (rows, labels), with the scores of rows.
  void scores(const SparseRowsArrays& rows, int threads, Out<double, 2> out) const {
    const std::int64_t count = rows.view().rows;
    require(size_of(out) == count && std::int64_t(out.shape(1)) == layout_.labels,
            "out must be (rows, labels)");
    require(threads > 0, "threads must be positive");
    const ReleasedGil release;
    constexpr std::int64_t kTask = 1024;  // rows
    const SparseRows all = rows.view();
    const RowPlan plan = this->plan();
    parallel_for((count + kTask - 1) / kTask, threads, [&] {
      return [&, this](std::int64_t task) {
        const std::int64_t begin = task * kTask, end = std::min(count, begin + kTask);
        kernels().loglinear.score_ids(plan, places_.data(), layout_.attributes, table_.get(), w_.data(),
                                      all.begin + begin, all.id, all.value, end - begin,
                                      out.data() + begin * layout_.labels);
      };
    });
  }

  int labels() const { return layout_.labels; }

  // Computes the scores of a few rows, on the caller's thread; out is (rows, labels).
  void scores_here(const SparseRows& rows, double* out) const {
    kernels().loglinear.score_ids(plan(), places_.data(), layout_.attributes, table_.get(), w_.data(),
                                  rows.begin, rows.id, rows.value, rows.rows, out);
  }

  // Returns the scores of label bigrams, (labels, labels), without edge attributes.
  std::vector<double> bigrams() const {
    std::vector<double> out(static_cast<std::size_t>(layout_.labels) * layout_.labels);
    transition_scores(layout_, w_.data(), nullptr, out.data());
    return out;
  }

  // Fills out with the transition scores: (1, labels, labels) or, with edge attributes, one matrix per
  // row.
  void transitions(const std::optional<SparseRowsArrays>& edges,
                   const std::optional<In<bool, 2>>& forbidden, Out<double, 3> out) const {
    const std::int64_t count = edges ? edges->view().rows : 1, labels = layout_.labels;
    require(size_of(out) == count && std::int64_t(out.shape(1)) == labels &&
                std::int64_t(out.shape(2)) == labels,
            "out must be (rows, labels, labels)");
    std::vector<double> base(labels * labels);
    require(!forbidden || (size_of(*forbidden) == labels && std::int64_t(forbidden->shape(1)) == labels),
            "forbidden must be (labels, labels)");
    transition_scores(layout_, w_.data(), forbidden ? forbidden->data() : nullptr, base.data());
    const ReleasedGil release;
    if (!edges) {
      std::copy(base.begin(), base.end(), out.data());
      return;
    }
    edge_scores(layout_, edges->view(), w_.data() + layout_.states() + layout_.bigrams, base.data(), 0,
                count, out.data());
  }

 private:
  // Returns a plan without occurrences: score_ids() reads only these three members.
  RowPlan plan() const {
    RowPlan plan{};
    plan.labels = layout_.labels;
    plan.stride = padded(layout_.labels);
    plan.label = layout_.state_label;
    return plan;
  }

  WeightLayoutArrays weights_;
  WeightLayout layout_;
  std::vector<double> w_;  // (weights): a copy
  DenseAttributes dense_;
  AlignedDoubles table_;       // the weights of dense attributes, expanded
  std::vector<Place> places_;  // (attributes)
};

}  // namespace trellis
