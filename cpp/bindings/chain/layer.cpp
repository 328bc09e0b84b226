// The chain as a layer of a network: a padded batch in one call, so that a small one costs little.
//
// Nothing is explained here. A batch with anything unusual in it (a mistake, a row without a path,
// scores that overflow) is refused, and Python takes the longer way, which can say what it is.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "bindings/base/arrays.hpp"
#include "bindings/base/views.hpp"
#include "bindings/bindings.hpp"
#include "chain/batch.hpp"
#include "dispatch.hpp"

namespace nb = nanobind;

namespace trellis {
namespace {

enum class Look { plain, scattered, wrong };  // what layer.py knows as 0, 1, 2

// The lengths of the rows of a mask, or a copy of those given; whether the steps that count come first,
// and whether all tags of theirs are labels.
int look_at_steps(std::optional<In<bool, 2>> mask, std::optional<In<std::int64_t, 1>> lengths,
                  std::optional<In<std::int64_t, 2>> tags, std::int64_t width, std::int64_t labels,
                  Out<std::int64_t, 1> found) {
  const std::int64_t rows = static_cast<std::int64_t>(found.shape(0));
  const auto fits = [&](const auto& grid) {
    return static_cast<std::int64_t>(grid.shape(0)) == rows &&
           static_cast<std::int64_t>(grid.shape(1)) == width;
  };
  require(mask.has_value() != lengths.has_value(), "a mask or lengths");
  require(!mask || fits(*mask), "mask size");
  require(!tags || fits(*tags), "tags size");
  require(!lengths || static_cast<std::int64_t>(lengths->shape(0)) == rows, "lengths size");
  Look look = Look::plain;
  for (std::int64_t i = 0; i < rows; ++i) {
    const bool* counts = mask ? mask->data() + i * width : nullptr;
    std::int64_t length = lengths ? lengths->data()[i] : 0;
    if (counts != nullptr) {
      length = std::count(counts, counts + width, true);
      if (std::find(counts, counts + length, false) != counts + length) look = Look::scattered;
    }
    if (length < 1 || length > width) return static_cast<int>(Look::wrong);
    found.data()[i] = length;
    if (!tags) continue;
    const std::int64_t* own = tags->data() + i * width;
    std::int64_t bad = 0;
    for (std::int64_t t = 0; t < width; ++t) {
      const bool inside = counts != nullptr ? counts[t] : t < length;
      bad += inside & ((own[t] < 0) | (own[t] >= labels));
    }
    if (bad != 0) return static_cast<int>(Look::wrong);
  }
  return static_cast<int>(look);
}

// A padded batch as the core takes it.
template <class T>
class Padded {
 public:
  Padded(const In<T, 3>& emissions, const In<double, 2>& transition, const In<double, 1>& start,
         const In<double, 1>& end, const In<std::int64_t, 1>& lengths)
      : rows_(static_cast<std::int64_t>(emissions.shape(0))),
        width_(static_cast<std::int64_t>(emissions.shape(1))),
        labels_(static_cast<std::int64_t>(emissions.shape(2))),
        // copies: what is checked must not change
        lengths_(lengths.data(), lengths.data() + lengths.shape(0)) {
    require(rows_ > 0 && width_ > 0 && 0 < labels_ && labels_ <= kMostLabels, "emissions size");
    require(static_cast<std::int64_t>(lengths_.size()) == rows_, "lengths size");
    const auto labels = static_cast<std::size_t>(labels_);
    require(transition.shape(0) == labels && transition.shape(1) == labels, "transition size");
    require(start.shape(0) == labels && end.shape(0) == labels, "start and end size");
    for (std::int64_t i = 0; i < rows_; ++i) {
      require(1 <= lengths_[i] && lengths_[i] <= width_, "a length is impossible");
      starts_.push_back(i * width_);
      unary_.push_back(emissions.data() + i * width_ * labels_);
    }
    batch_ = {rows_,           static_cast<int>(labels_), unary_.data(), starts_.data(),
              lengths_.data(), transition.data(),         nullptr,       start.data(),
              end.data()};
  }

  std::int64_t rows() const { return rows_; }

  void require_size(const Out<double, 1>& numbers) const {
    require(static_cast<std::int64_t>(numbers.shape(0)) == rows_, "one number a row");
  }
  template <class Array>
  void require_grid(const Array& grid) const {
    require(static_cast<std::int64_t>(grid.shape(0)) == rows_ &&
                static_cast<std::int64_t>(grid.shape(1)) == width_,
            "one entry a step");
  }
  void require_square(const Out<double, 2>& pairs) const {
    require(static_cast<std::int64_t>(pairs.shape(0)) == labels_ && pairs.shape(0) == pairs.shape(1),
            "one number a pair of labels");
  }
  void require_like(const Out<T, 3>& unary) const {
    require_grid(unary);
    require(static_cast<std::int64_t>(unary.shape(2)) == labels_, "one number a label");
  }

  template <class U>
  void fill_behind(U* numbers, std::int64_t columns) const {
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
  std::vector<std::int64_t> lengths_, starts_;
  std::vector<const T*> unary_;
  Batch<T> batch_{};
};

bool usual(const std::vector<Outcome>& outcomes, const double* values) {
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    if (outcomes[i].status != Status::ok) return false;
    if (!(values[i] < std::numeric_limits<double>::infinity())) return false;
  }
  return true;
}

// log Z and its gradient, or -log p of the tags and its gradient; false if anything is unusual.
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
  const nb::gil_scoped_release release;
  std::vector<Outcome> outcomes(static_cast<std::size_t>(padded.rows()));
  const MarginalsOut<T> out{unary.data(), nullptr,         nullptr, pairs.data(),
                            value.data(), outcomes.data(), nullptr};
  const ChainBatch<T> chain = padded.chain(threads, Purpose::probabilities);
  chain.marginals(out);
  if (!usual(outcomes, value.data())) return false;
  padded.fill_behind(unary.data(), padded.labels());
  if (!tags) return true;
  chain.subtract_paths(tags->data(), out);
  return usual(outcomes, value.data());
}

// The best labels, 0 behind the length of a row, and their score; false if anything is unusual.
template <class T>
bool layer_best(In<T, 3> emissions, In<double, 2> transition, In<double, 1> start, In<double, 1> end,
                In<std::int64_t, 1> lengths, Out<std::int64_t, 2> labels, Out<double, 1> score,
                int threads) {
  require(threads > 0, "threads must be positive");
  const Padded<T> padded(emissions, transition, start, end, lengths);
  padded.require_size(score);
  padded.require_grid(labels);
  const nb::gil_scoped_release release;
  std::vector<Outcome> outcomes(static_cast<std::size_t>(padded.rows()));
  padded.chain(threads, Purpose::paths).viterbi(labels.data(), score.data(), outcomes.data());
  padded.fill_behind(labels.data(), 1);
  return usual(outcomes, score.data());
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
        nb::arg("tags").none(), nb::arg("width"), nb::arg("labels"), nb::arg("found").noconvert());
  trellis::bind<float>(m);
  trellis::bind<double>(m);
}
