// Binds parts of foreign file formats that would be too slow in Python.
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <numeric>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/tables.hpp"
#include "bindings/base/arrays.hpp"
#include "bindings/base/gil.hpp"
#include "bindings/base/views.hpp"
#include "bindings/bindings.hpp"
#include "formats/cqdb.hpp"
#include "formats/named_weights.hpp"
#include "formats/text_weights.hpp"

namespace nb = nanobind;

namespace trellis {
namespace {

using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Integers = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Returns the bytes of a CQDB dictionary; string i is data[ends[i] : ends[i + 1]].
Numpy<std::uint8_t> make_cqdb(Bytes data, Integers ends) {
  const std::vector<std::int64_t> end = copy_of(ends);
  const auto count = static_cast<std::int64_t>(end.size()) - 1;
  require(count >= 0 && end[0] == 0, "ends must begin with 0");
  for (std::int64_t i = 0; i < count; ++i) require(end[i] <= end[i + 1], "ends must ascend");
  require(end[count] == static_cast<std::int64_t>(data.shape(0)),
          "the last entry of ends must be the size of data");
  std::vector<std::uint8_t> bytes;
  {
    const ReleasedGil release;
    const char* text = reinterpret_cast<const char*>(data.data());
    cqdb::Writer writer;
    PollEvery poll(256);
    for (std::int64_t i = 0; i < count; ++i) {
      poll.step();
      writer.add({text + end[i], static_cast<std::size_t>(end[i + 1] - end[i])});
    }
    bytes = writer.finish();
  }
  return to_array(std::move(bytes));
}

// Returns the index of the first string that repeats an earlier one, or -1; string i is data[begin[i] :
// begin[i] + size[i]].
std::int64_t repeated(Bytes data, Integers begin, Integers size) {
  require(begin.shape(0) == size.shape(0) && begin.shape(0) < kNone,
          "begin and size must have the same length");
  const auto bytes = static_cast<std::int64_t>(data.shape(0));
  const std::vector<std::int64_t> first = copy_of(begin), sizes = copy_of(size);
  const auto string = [&](std::size_t i) {
    const char* text = reinterpret_cast<const char*>(data.data());
    return std::string_view(text + first[i], static_cast<std::size_t>(sizes[i]));
  };
  for (std::size_t i = 0; i < first.size(); ++i) {
    const std::int64_t at = first[i], length = sizes[i];
    require(0 <= at && 0 <= length && at <= bytes && length <= bytes - at,
            "a string ends past the data");
  }
  const ReleasedGil release;
  PollEvery poll(16);
  const auto hash = [&](std::uint32_t i) { return hash_bytes(string(i).data(), string(i).size()); };
  Slots slots;
  slots.reserve(first.size(), hash);
  for (std::uint32_t i = 0; i < first.size(); ++i) {
    poll.step();
    const auto same = [&](std::uint32_t other) { return string(other) == string(i); };
    if (slots.find(hash(i), same) != kNone) return i;
    slots.insert(hash(i), hash);
  }
  return -1;
}

// Reads weights as text into arrays that Python owns.
class WeightReader {
 public:
  using Index = nb::ndarray<std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  using Weight = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

  WeightReader(bool indexed, Index index, Weight weight)
      : index_(std::move(index)),
        weight_(std::move(weight)),
        lines_(indexed, {index_.data(), index_.shape(0)}, {weight_.data(), weight_.shape(0)}) {
    require(index_.shape(0) == weight_.shape(0), "index and weight must have the same length");
  }

  // Reads a block. Returns the kind of fault and the line; ("", b"") if all lines are valid.
  std::pair<const char*, nb::bytes> feed(const nb::bytes& block) {
    const HeldGil held;
    const BusyMark mark(busy_);
    std::string_view wrong;
    const auto fault = lines_.feed({block.c_str(), block.size()}, &wrong);
    const char* const names[] = {"", "text", "order", "capacity"};
    const bool none = fault == TextWeightReader::Fault::none;
    return {names[static_cast<int>(fault)], nb::bytes(wrong.data(), none ? 0 : wrong.size())};
  }
  std::int64_t lines() const { return lines_.lines(); }
  std::size_t kept() const { return lines_.kept(); }

 private:
  Index index_;
  Weight weight_;
  TextWeightReader lines_;
  bool busy_ = false;
};

template <class Cell>
using Cells = std::tuple<Numpy<std::int64_t>, Numpy<std::int64_t>, Numpy<Cell>>;  // name, size, cell
// Moves the vectors to NumPy arrays.
template <class Cell>
Cells<Cell> arrays(NamedCells<Cell>&& cells) {
  return {to_array(std::move(cells.name)), to_array(std::move(cells.size)),
          to_array(std::move(cells.cell))};
}

// Returns the cells of labels, whose weights are moved to the front of `weight`; the cells of label
// pairs and their weights; the pairs without a name and their weights.
std::tuple<Cells<std::uint16_t>, Cells<std::int32_t>, Numpy<double>, Numpy<std::int64_t>, Numpy<double>>
split(Integers number, WeightReader::Weight weight, Integers begin, Bytes states, Bytes bare,
      std::int64_t labels) {
  const std::size_t names = states.shape(0), count = number.shape(0);
  require(begin.shape(0) == names + 1 && bare.shape(0) == names,
          "begin, states and bare must fit together");
  require(weight.shape(0) == count, "number and weight must have the same length");
  require(0 < labels && labels < 1 << 15, "labels must be 1 to 32767");
  const std::vector<std::int64_t> first = copy_of(begin);
  const std::int64_t *b = first.data(), *n = number.data();
  for (std::size_t i = 0; i < names; ++i) {
    const std::int64_t max_weights = labels + labels * labels;
    require(b[i] <= b[i + 1] && b[i + 1] - b[i] <= max_weights,
            "begin must ascend, by at most labels + labels^2");
  }
  for (std::size_t k = 1; k < count; ++k) require(n[k - 1] < n[k], "numbers must ascend");
  require(count == 0 || (b[0] <= n[0] && n[count - 1] < b[names]), "a number belongs to no name");
  SplitWeights parts;
  {
    const ReleasedGil release;
    parts = split_weights({.begin = {b, names + 1},
                           .states = {states.data(), names},
                           .bare = {bare.data(), names},
                           .labels = labels},
                          {n, count}, {weight.data(), count});
  }
  return {arrays(std::move(parts.states)), arrays(std::move(parts.edges)),
          to_array(std::move(parts.edge_weight)), to_array(std::move(parts.pair)),
          to_array(std::move(parts.pair_weight))};
}

}  // namespace
}  // namespace trellis

void bind_formats(nb::module_& m) {
  m.def("make_cqdb", &trellis::make_cqdb, nb::arg("data"), nb::arg("ends"));
  m.def("repeated", &trellis::repeated, nb::arg("data"), nb::arg("begin"), nb::arg("size"));
  m.def("split_weights", &trellis::split, nb::arg("number"), nb::arg("weight"), nb::arg("begin"),
        nb::arg("states"), nb::arg("bare"), nb::arg("labels"));
  nb::class_<trellis::WeightReader>(m, "WeightReader")
      .def(nb::init<bool, trellis::WeightReader::Index, trellis::WeightReader::Weight>(),
           nb::arg("indexed"), nb::arg("index"), nb::arg("weight"))
      .def("feed", &trellis::WeightReader::feed, nb::arg("block"))
      .def_prop_ro("lines", &trellis::WeightReader::lines)
      .def_prop_ro("kept", &trellis::WeightReader::kept);
}
