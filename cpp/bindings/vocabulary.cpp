// Ready features: reading Python's dicts and lists, and looking their names up without the GIL.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <tuple>

#include "arrays.hpp"
#include "bindings.hpp"
#include "python_text.hpp"
#include "tables.hpp"
#include "thread_pool.hpp"

namespace nb = nanobind;

namespace trellis {
namespace {

// The names of ready features, as python-crfsuite reads them: a str is an attribute; {"name": number}
// has that value, {"name": "text"} is the attribute name:text, True and False are 1 and 0, and what a
// dict, list or set under a name holds has that name before it.
class Vocabulary {
 public:
  using Arrays = std::tuple<Numpy<std::int64_t>, Numpy<std::int32_t>, std::optional<Numpy<double>>>;

  Arrays learn(nb::handle sequences) {
    return read(sequences, [this](Reading& r) {
      for (std::size_t k = 0; k < r.end.size(); ++k) r.found[k] = names_.intern(r.name_at(k));
    });
  }
  Arrays find(nb::handle sequences, int threads) const {
    require(threads > 0, "threads must be positive");
    return read(sequences, [this, threads](Reading& r) {
      const auto count = static_cast<std::int64_t>(r.end.size());
      const std::int64_t tasks = std::clamp<std::int64_t>(count / 1024, 1, 4 * threads);
      parallel_for(tasks, threads, [&] {
        return [&](std::int64_t task) {
          const std::int64_t begin = count * task / tasks, end = count * (task + 1) / tasks;
          names_.find_all(r.text.data(), r.end.data(), begin, end - begin, r.found.data());
        };
      });
    });
  }
  std::uint32_t size() const { return names_.size(); }
  std::tuple<Numpy<char>, Numpy<std::int64_t>> strings() const {
    return {to_array(std::vector<char>(names_.bytes())),
            to_array(std::vector<std::int64_t>(names_.ends()))};
  }
  void restore(const std::vector<std::string>& names) {
    for (std::size_t i = 0; i < names.size(); ++i)
      require(names_.intern(names[i]) == i, "names: one is repeated");
  }

 private:
  // Names and values as they are read, a block of sequences at a time: what they are called is then
  // looked up without Python.
  struct Reading {
    std::string text;                // names, one after the other
    std::vector<std::uint32_t> end;  // of each name in the text
    std::vector<double> value;       // of each name
    std::vector<std::int64_t> row;   // names up to the end of each position
    std::vector<std::uint32_t> found;
    std::string name;
    std::int64_t sequence = 0, position = 0;

    std::string_view name_at(std::size_t k) const {
      const std::uint32_t from = k == 0 ? 0 : end[k - 1];
      return std::string_view(text).substr(from, end[k] - from);
    }
    void clear() {
      text.clear();
      end.clear();
      value.clear();
      row.clear();
    }
  };

  struct Result {
    std::vector<std::int64_t> begin{0};
    std::vector<std::int32_t> id;
    std::vector<double> value;
    bool plain = true;  // all values are 1

    void take(const Reading& r) {
      std::size_t k = 0;
      for (const std::int64_t stop : r.row) {
        for (; k < static_cast<std::size_t>(stop); ++k) {
          if (r.found[k] == kNone) continue;
          plain = plain && r.value[k] == 1.0;
          id.push_back(static_cast<std::int32_t>(r.found[k]));
          value.push_back(r.value[k]);
        }
        begin.push_back(static_cast<std::int64_t>(id.size()));
      }
    }
  };

  static constexpr std::size_t kBlockBytes = 1 << 20;

  template <class LookUp>
  static Arrays read(nb::handle sequences, const LookUp& look_up) {
    const Items all(sequences.ptr());
    require(all.valid(), "X must be a list of sequences");
    Reading r;
    Result result;
    const auto flush = [&] {
      r.found.resize(r.end.size());
      const nb::gil_scoped_release release;
      look_up(r);
      result.take(r);
      r.clear();
    };
    for (Py_ssize_t i = 0; i < all.size(); ++i) {
      const Items tokens(all[i]);
      if (!tokens.valid()) {
        throw std::invalid_argument("sequence " + std::to_string(i) + " must be a list of tokens, not " +
                                    type_name(all[i]));
      }
      r.sequence = i;
      for (Py_ssize_t t = 0; t < tokens.size(); ++t) {
        r.position = t;
        r.name.clear();
        if (PyUnicode_Check(tokens[t])) fail(i, t, "ready features expected, got a str");
        add(tokens[t], r, 0);
        r.row.push_back(static_cast<std::int64_t>(r.end.size()));
        if (r.text.size() >= kBlockBytes) flush();
      }
    }
    flush();
    std::optional<Numpy<double>> values;
    if (!result.plain) values = to_array(std::move(result.value));
    return {to_array(std::move(result.begin)), to_array(std::move(result.id)), values};
  }

  static void emit(Reading& r, std::string_view name, double value) {
    if (!std::isfinite(value)) {
      fail(r.sequence, r.position, "the value of " + std::string(name) + " is not finite");
    }
    if (r.text.size() + name.size() > 0xffffffff) fail(r.sequence, r.position, "4 GiB of features");
    r.text.append(name);
    r.end.push_back(static_cast<std::uint32_t>(r.text.size()));
    r.value.push_back(value);
  }

  // r.name is what stands before, with its colon.
  static void add(PyObject* object, Reading& r, int depth) {
    if (depth > 16) fail(r.sequence, r.position, "features are nested too deeply");
    const std::size_t before = r.name.size();
    if (PyDict_Check(object)) {
      PyObject *key, *value;
      Py_ssize_t at = 0;
      while (PyDict_Next(object, &at, &key, &value)) {
        append(key, r);
        add_value(value, r, depth);
        r.name.resize(before);
      }
      return;
    }
    const bool is_set = PyAnySet_Check(object);
    if (!is_set && !PyList_Check(object) && !PyTuple_Check(object)) {
      fail(r.sequence, r.position,
           "features must be a dict, or a list or set of str, not " + type_name(object));
    }
    nb::object items = nb::steal(PySequence_Fast(object, ""));
    if (!items.is_valid()) throw nb::python_error();
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.ptr()); ++i) {
      PyObject* item = PySequence_Fast_GET_ITEM(items.ptr(), i);
      if (before == 0) {  // no copy of the name
        std::string_view text;
        if (!text_of(item, &text))
          fail(r.sequence, r.position, "a feature must be a str, not " + type_name(item));
        emit(r, text, 1.0);
        continue;
      }
      append(item, r);
      emit(r, r.name, 1.0);
      r.name.resize(before);
    }
  }

  static void append(PyObject* key, Reading& r) {
    std::string_view text;
    if (!text_of(key, &text))
      fail(r.sequence, r.position, "a feature's name must be a str, not " + type_name(key));
    r.name.append(text);
  }

  static void add_value(PyObject* value, Reading& r, int depth) {
    std::string_view text;
    if (PyFloat_CheckExact(value)) return emit(r, r.name, PyFloat_AS_DOUBLE(value));
    if (PyBool_Check(value)) return emit(r, r.name, value == Py_True ? 1.0 : 0.0);
    if (text_of(value, &text)) {
      r.name.push_back(':');
      r.name.append(text);
      return emit(r, r.name, 1.0);
    }
    if (PyDict_Check(value) || PyList_Check(value) || PyTuple_Check(value) || PyAnySet_Check(value)) {
      r.name.push_back(':');
      return add(value, r, depth + 1);
    }
    const double number_value = PyFloat_AsDouble(value);
    if (number_value == -1.0 && PyErr_Occurred() != nullptr) {
      const bool large = PyErr_ExceptionMatches(PyExc_OverflowError) != 0;
      PyErr_Clear();
      const std::string what =
          large ? "is too large" : "must be a str or a number, not " + type_name(value);
      fail(r.sequence, r.position, "the value of " + r.name + " " + what);
    }
    emit(r, r.name, number_value);
  }

  StringTable names_;
};

}  // namespace
}  // namespace trellis

void bind_vocabulary(nb::module_& m) {
  using namespace trellis;
  nb::class_<Vocabulary>(m, "Vocabulary")
      .def(nb::init<>())
      .def("learn", &Vocabulary::learn, nb::arg("sequences").none())
      .def("find", &Vocabulary::find, nb::arg("sequences").none(), nb::arg("threads"))
      .def("strings", &Vocabulary::strings)
      .def("restore", &Vocabulary::restore)
      .def("__len__", &Vocabulary::size);
}
