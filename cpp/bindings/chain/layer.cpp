// The chain as a layer of a neural network: a padded batch in one call, so that small batches are fast.
// There are no error messages about scores here. If a row has an invalid score, no allowed path or an
// overflow, a function returns false. Python then takes the slow path, which reports the problem.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <limits>
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

// prefix: each row of the mask is true at its first steps only; scattered: a row of the mask has a hole;
// wrong: a length or tag is out of range.
// inference/chain/layer.py expects the values 0, 1 and 2.
enum class Steps { prefix, scattered, wrong };

// Writes the number of unmasked steps of each row to `row_lengths`, (rows), from the mask or the
// lengths. Returns a value of Steps; wrong if a length or an unmasked tag is out of range.
int look_at_steps(std::optional<In<bool, 2>> mask, std::optional<In<std::int64_t, 1>> lengths,
                  std::optional<In<std::int64_t, 2>> tags, std::int64_t width, std::int64_t labels,
                  Out<std::int64_t, 1> row_lengths) {
  const std::int64_t rows = static_cast<std::int64_t>(row_lengths.shape(0));
  const auto fits = [&](const auto& grid) {
    return static_cast<std::int64_t>(grid.shape(0)) == rows &&
           static_cast<std::int64_t>(grid.shape(1)) == width;
  };
  require(mask.has_value() != lengths.has_value(), "exactly one of mask and lengths must be set");
  require(!mask || fits(*mask), "mask must be (rows, width)");
  require(!tags || fits(*tags), "tags must be (rows, width)");
  require(!lengths || static_cast<std::int64_t>(lengths->shape(0)) == rows,
          "lengths must have one entry per row");
  Steps steps = Steps::prefix;
  for (std::int64_t i = 0; i < rows; ++i) {
    const bool* counts = mask ? mask->data() + i * width : nullptr;
    std::int64_t length = lengths ? lengths->data()[i] : 0;
    if (counts != nullptr) {
      length = std::count(counts, counts + width, true);
      if (std::find(counts, counts + length, false) != counts + length) steps = Steps::scattered;
    }
    if (length < 1 || length > width) return static_cast<int>(Steps::wrong);
    row_lengths.data()[i] = length;
    if (!tags) continue;
    const std::int64_t* row_tags = tags->data() + i * width;
    std::int64_t bad = 0;
    for (std::int64_t t = 0; t < width; ++t) {
      const bool inside = counts != nullptr ? counts[t] : t < length;
      bad += inside & ((row_tags[t] < 0) | (row_tags[t] >= labels));
    }
    if (bad != 0) return static_cast<int>(Steps::wrong);
  }
  return static_cast<int>(steps);
}

// A padded batch that has been validated, as arguments of the core.
template <class T>
class Padded {
 public:
  Padded(const In<T, 3>& emissions, const In<double, 2>& transition, const In<double, 1>& start,
         const In<double, 1>& end, const In<std::int64_t, 1>& lengths)
      : rows_(static_cast<std::int64_t>(emissions.shape(0))),
        width_(static_cast<std::int64_t>(emissions.shape(1))),
        labels_(static_cast<std::int64_t>(emissions.shape(2))),
        // This is a copy, because the caller could change the original after it was checked.
        lengths_(lengths.data(), lengths.data() + lengths.shape(0)) {
    require(rows_ > 0 && width_ > 0 && 0 < labels_ && labels_ <= kMaxLabels,
            "emissions must not be empty");
    require(static_cast<std::int64_t>(lengths_.size()) == rows_, "lengths must have one entry per row");
    const auto labels = static_cast<std::size_t>(labels_);
    require(transition.shape(0) == labels && transition.shape(1) == labels,
            "transition must be (labels, labels)");
    require(start.shape(0) == labels && end.shape(0) == labels,
            "start and end must have one entry per label");
    for (std::int64_t i = 0; i < rows_; ++i) {
      require(1 <= lengths_[i] && lengths_[i] <= width_, "a length is out of range");
      starts_.push_back(i * width_);
      unary_.push_back(emissions.data() + i * width_ * labels_);
    }
    batch_ = {.count = rows_,
              .labels = static_cast<int>(labels_),
              .unary = unary_.data(),
              .starts = starts_.data(),
              .lengths = lengths_.data(),
              .transition = transition.data(),
              .transitions = nullptr,
              .start = start.data(),
              .end = end.data()};
  }

  std::int64_t rows() const { return rows_; }

  // Check the shapes of results against the shape of the batch.
  void require_size(const Out<double, 1>& numbers) const {
    require(static_cast<std::int64_t>(numbers.shape(0)) == rows_,
            "a result must have one number per row");
  }
  template <class Array>
  void require_grid(const Array& grid) const {
    require(static_cast<std::int64_t>(grid.shape(0)) == rows_ &&
                static_cast<std::int64_t>(grid.shape(1)) == width_,
            "an array must have one entry per step");
  }
  void require_square(const Out<double, 2>& pairs) const {
    require(static_cast<std::int64_t>(pairs.shape(0)) == labels_ && pairs.shape(0) == pairs.shape(1),
            "pairs must be (labels, labels)");
  }
  void require_like(const Out<T, 3>& unary) const {
    require_grid(unary);
    require(static_cast<std::int64_t>(unary.shape(2)) == labels_,
            "unary must have the shape of emissions");
  }

  // Sets the padding to 0: the steps past the end of each row. numbers is (rows, width, columns).
  template <class U>
  void clear_padding(U* numbers, std::int64_t columns) const {
    for (std::int64_t i = 0; i < rows_; ++i) {
      std::fill(numbers + (starts_[i] + lengths_[i]) * columns,
                numbers + (starts_[i] + width_) * columns, U{0});
    }
  }

  ChainBatch<T> chain(int threads, Purpose purpose) const {
    return ChainBatch<T>(batch_, kernels().chain<T>(), threads, purpose);
  }
  std::int64_t labels() const { return labels_; }

 private:
  std::int64_t rows_, width_, labels_;
  std::vector<std::int64_t> lengths_, starts_;  // (rows)
  std::vector<const T*> unary_;                 // (rows)
  Batch<T> batch_{};
};

// Returns whether all rows have a finite result.
bool all_finite(const std::vector<Outcome>& outcomes, const double* values) {
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    if (outcomes[i].status != Status::ok) return false;
    if (!(values[i] < std::numeric_limits<double>::infinity())) return false;
  }
  return true;
}

// Computes log Z, or -log p(tags), and its gradient. Returns false if a row has no finite result; the
// caller then takes the slow path, which raises the error.
template <class T>
bool layer_counts(In<T, 3> emissions, In<double, 2> transition, In<double, 1> start, In<double, 1> end,
                  In<std::int64_t, 1> lengths, std::optional<In<std::int64_t, 2>> tags,
                  Out<double, 1> value, Out<T, 3> unary, Out<double, 2> pairs, int threads) {
  require(threads > 0, "threads must be positive");
  const Padded<T> padded(emissions, transition, start, end, lengths);
  padded.require_size(value);
  padded.require_like(unary);
  padded.require_square(pairs);
  if (tags) padded.require_grid(*tags);
  const ReleasedGil release;
  std::vector<Outcome> outcomes(static_cast<std::size_t>(padded.rows()));
  const MarginalsOut<T> out{.unary = unary.data(),
                            .pairwise = nullptr,
                            .pairwise_starts = nullptr,
                            .counts = pairs.data(),
                            .log_z = value.data(),
                            .outcomes = outcomes.data(),
                            .weights = nullptr};
  const ChainBatch<T> chain = padded.chain(threads, Purpose::probabilities);
  chain.marginals(out);
  if (!all_finite(outcomes, value.data())) return false;
  padded.clear_padding(unary.data(), padded.labels());
  if (!tags) return true;
  chain.subtract_paths(tags->data(), out);
  return all_finite(outcomes, value.data());
}

// Computes the best labels, 0 in the padding, and their score. Returns false if a row has no finite
// result; the caller then takes the slow path, which raises the error.
template <class T>
bool layer_best(In<T, 3> emissions, In<double, 2> transition, In<double, 1> start, In<double, 1> end,
                In<std::int64_t, 1> lengths, Out<std::int64_t, 2> labels, Out<double, 1> score,
                int threads) {
  require(threads > 0, "threads must be positive");
  const Padded<T> padded(emissions, transition, start, end, lengths);
  padded.require_size(score);
  padded.require_grid(labels);
  const ReleasedGil release;
  std::vector<Outcome> outcomes(static_cast<std::size_t>(padded.rows()));
  padded.chain(threads, Purpose::paths).viterbi(labels.data(), score.data(), outcomes.data());
  padded.clear_padding(labels.data(), 1);
  return all_finite(outcomes, score.data());
}

template <class T>
void bind(nb::module_& m) {
  m.def("layer_counts", &layer_counts<T>, nb::arg("emissions").noconvert(), nb::arg("transition"),
        nb::arg("start"), nb::arg("end"), nb::arg("lengths"), nb::arg("tags").none(),
        nb::arg("value").noconvert(), nb::arg("unary").noconvert(), nb::arg("pairs").noconvert(),
        nb::arg("threads"));
  m.def("layer_best", &layer_best<T>, nb::arg("emissions").noconvert(), nb::arg("transition"),
        nb::arg("start"), nb::arg("end"), nb::arg("lengths"), nb::arg("labels").noconvert(),
        nb::arg("score").noconvert(), nb::arg("threads"));
}

}  // namespace
}  // namespace trellis

void bind_layer(nb::module_& m) {
  m.def("look_at_steps", &trellis::look_at_steps, nb::arg("mask").none(), nb::arg("lengths").none(),
        nb::arg("tags").none(), nb::arg("width"), nb::arg("labels"), nb::arg("row_lengths").noconvert());
  trellis::bind<float>(m);
  trellis::bind<double>(m);
}
