// Binds vocabularies of ready features: reads Python dicts and lists, looks up names without the GIL.
#include "bindings/features/vocabulary.hpp"

#include <nanobind/stl/tuple.h>

#include <algorithm>

#include "base/thread_pool.hpp"
#include "bindings/base/casters.hpp"
#include "bindings/base/gil.hpp"
#include "bindings/bindings.hpp"

namespace nb = nanobind;

namespace trellis {
namespace {

// Sparse rows that are being built.
struct Result {
  std::vector<std::int64_t> begin{0};
  std::vector<std::int32_t> id;
  std::vector<double> value;
  bool plain = true;  // all values are 1

  // Appends the rows of a reading; ids has the number of each name, kNone to omit it.
  void take(const Reading& r, const std::vector<std::uint32_t>& ids) {
    std::size_t k = 0;
    for (const std::int64_t stop : r.row) {
      for (; k < static_cast<std::size_t>(stop); ++k) {
        if (ids[k] == kNone) continue;
        plain = plain && r.value[k] == 1.0;
        id.push_back(static_cast<std::int32_t>(ids[k]));
        value.push_back(r.value[k]);
      }
      begin.push_back(static_cast<std::int64_t>(id.size()));
    }
  }

  // Moves the vectors to NumPy arrays. The values are omitted if all are 1.
  Vocabulary::Arrays arrays() {
    std::optional<Numpy<double>> values;
    if (!plain) values = to_array(std::move(value));
    return {to_array(std::move(begin)), to_array(std::move(id)), values};
  }
};

constexpr std::size_t kBlockBytes = 1 << 20;  // bytes of the text of a block; chosen by hand

// Reads a block of sequences, then looks up its names, so that the text in memory stays small.
template <class LookUp>
Vocabulary::Arrays read_all(nb::handle sequences, const LookUp& look_up) {
  const HeldGil held;
  const Items all(sequences.ptr());
  require(all.valid(), "X must be a list of sequences");
  Reading r;
  PollEvery poll(1 << 10);  // per token
  Result result;
  std::vector<std::uint32_t> ids;
  const auto flush = [&] {
    ids.resize(r.end.size());
    const ReleasedGil release;
    look_up(r, ids);
    result.take(r, ids);
    r.clear();
  };
  for (Py_ssize_t i = 0; i < all.size(); ++i) {
    const Items tokens(all[i]);
    if (!tokens.valid()) {
      throw SequenceError(i, "sequence {sequence} must be a list of tokens, not " + type_name(all[i]));
    }
    r.sequence = i;
    r.position = 0;
    for (Py_ssize_t t = 0; t < tokens.size(); ++t) {
      poll.step();
      r.add_position(tokens[t]);
      if (r.text.size() >= kBlockBytes) flush();
    }
  }
  flush();
  return result.arrays();
}

}  // namespace

// PySequence_Tuple accepts any iterable, and keeps its items alive.
void ItemSequence::read(nb::handle sequence, Reading& r) {
  const HeldGil held;
  const nb::object positions = nb::steal(PySequence_Tuple(sequence.ptr()));
  if (!positions.is_valid()) throw nb::python_error();
  r.sequence = -1;
  r.position = 0;
  for (Py_ssize_t t = 0; t < PyTuple_GET_SIZE(positions.ptr()); ++t) {
    r.poll.step();
    r.add_position(PyTuple_GET_ITEM(positions.ptr(), t));
  }
}

// Returns one dict per position, as python-crfsuite does.
nb::list ItemSequence::items() const {
  const HeldGil held;
  PollEvery poll(1 << 10);  // per name
  nb::list all;
  std::size_t k = 0;
  for (const std::int64_t stop : reading_.row) {
    nb::dict item;
    for (; k < static_cast<std::size_t>(stop); ++k) {
      poll.step();
      const std::string_view name = reading_.name_at(k);
      item[nb::str(name.data(), name.size())] = reading_.value[k];
    }
    all.append(item);
  }
  return all;
}

Vocabulary::Arrays Vocabulary::learn(nb::handle sequences) {
  return read_all(sequences,
                  [this](const Reading& r, std::vector<std::uint32_t>& ids) { intern_all(r, ids); });
}

Vocabulary::Arrays Vocabulary::learn_items(const ItemSequence& items) {
  const HeldGil held;
  const Reading& r = items.reading();
  std::vector<std::uint32_t> ids(r.end.size());
  intern_all(r, ids);
  Result result;
  result.take(r, ids);
  return result.arrays();
}

void Vocabulary::intern_all(const Reading& r, std::vector<std::uint32_t>& ids) {
  PollEvery poll(256);
  for (std::size_t k = 0; k < ids.size(); ++k) {
    poll.step();
    ids[k] = names_.intern(r.name_at(k));
  }
}

Vocabulary::Arrays Vocabulary::find(nb::handle sequences, int threads) const {
  require(threads > 0, "threads must be positive");
  return read_all(sequences, [this, threads](const Reading& r, std::vector<std::uint32_t>& ids) {
    const auto count = static_cast<std::int64_t>(r.end.size());
    const std::int64_t tasks = std::clamp<std::int64_t>(count / 1024, 1, 4 * threads);
    parallel_for(tasks, threads, [&] {
      return [&](std::int64_t task) {
        const std::int64_t begin = count * task / tasks, end = count * (task + 1) / tasks;
        names_.find_all(r.text.data(), r.end.data(), begin, end - begin, ids.data());
      };
    });
  });
}

std::tuple<Numpy<char>, Numpy<std::int64_t>> Vocabulary::strings() const {
  return {to_array(std::vector<char>(names_.bytes())),
          to_array(std::vector<std::int64_t>(names_.ends()))};
}

void Vocabulary::restore(const std::vector<std::string>& names) {
  const HeldGil held;
  PollEvery poll(256);
  for (std::size_t i = 0; i < names.size(); ++i) {
    poll.step();
    require(names_.intern(names[i]) == i, "names: a name is repeated");
  }
}

// Adds all names. names_ changes only after every name has been checked.
void Vocabulary::restore_from(nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig> data,
                              nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig> begin,
                              nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig> size) {
  require(begin.shape(0) == size.shape(0), "names: begin and size must have the same length");
  require(names_.size() == 0, "names: the vocabulary is not empty");
  const HeldGil held;
  const auto bytes = static_cast<std::int64_t>(data.shape(0));
  StringTable names;
  PollEvery poll(256);
  for (std::size_t i = 0; i < begin.shape(0); ++i) {
    poll.step();
    const std::int64_t from = begin.data()[i], length = size.data()[i];
    require(0 <= from && 0 <= length && from <= bytes && length <= bytes - from,
            "names: a name ends past the data");
    const std::string_view name(reinterpret_cast<const char*>(data.data()) + from,
                                static_cast<std::size_t>(length));
    if (!valid_utf8(name)) throw std::invalid_argument("name " + std::to_string(i) + " is not UTF-8");
    if (name.find('\0') != name.npos) {
      throw std::invalid_argument("name " + std::to_string(i) + " contains a NUL");
    }
    if (names.intern(name) != i) {
      throw std::invalid_argument("name " + std::to_string(i) + ", " + std::string(name) +
                                  ", is repeated");
    }
  }
  names_ = std::move(names);
}

}  // namespace trellis

void bind_vocabulary(nb::module_& m) {
  using namespace trellis;
  nb::class_<ItemSequence>(m, "ItemSequence")
      .def(nb::init<nb::handle>(), nb::arg("sequence"))
      .def("items", &ItemSequence::items)
      .def("__len__", &ItemSequence::size);
  nb::class_<Vocabulary>(m, "Vocabulary")
      .def(nb::init<>())
      .def("learn", &Vocabulary::learn, nb::arg("sequences").none())
      .def("learn_items", &Vocabulary::learn_items, nb::arg("items"))
      .def("find", &Vocabulary::find, nb::arg("sequences").none(), nb::arg("threads"))
      .def("strings", &Vocabulary::strings)
      .def("restore", &Vocabulary::restore)
      .def("restore_from", &Vocabulary::restore_from, nb::arg("data"), nb::arg("begin"), nb::arg("size"))
      .def_prop_ro("longest_run", &Vocabulary::longest_run)
      .def("__len__", &Vocabulary::size);
}
