// Ready features in the format of python-crfsuite: Python dicts and lists become names and values.
//
// A str is an attribute; {"name": number} has that value; {"name": "text"} is the attribute name:text;
// True and False are 1 and 0. The contents of a dict, list or set under a name get that name as a
// prefix.
#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/poll.hpp"
#include "bindings/base/python_text.hpp"

namespace trellis {

// Names and values of the features of one or more sequences. Reading them needs the GIL, looking them up
// does not.
struct Reading {
  std::string text;                // all names, one after the other
  std::vector<std::uint32_t> end;  // (names): where each name ends in the text
  std::vector<double> value;       // (names)
  std::vector<std::int64_t> row;   // (positions): the number of names up to the end of the position
  std::string name;                // the name that is being built
  // The sequence and position that are being read, for error messages. -1 means that the caller passed
  // only one sequence.
  std::int64_t sequence = -1, position = 0;
  PollEvery poll{256};  // per name: one position can have millions

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

  // Reads the features of the next position.
  void add_position(PyObject* token) {
    name.clear();
    if (PyUnicode_Check(token) || PyBytes_Check(token)) {
      wrong("ready features expected, got a " + std::string(Py_TYPE(token)->tp_name));
    }
    add(token, 0);
    row.push_back(static_cast<std::int64_t>(end.size()));
    ++position;
  }

 private:
  [[noreturn]] void wrong(const std::string& what) const { fail(sequence, position, what); }

  // Adds a name with its value.
  void emit(std::string_view full_name, double number) {
    if (!std::isfinite(number)) wrong("the value of " + std::string(full_name) + " is not finite");
    constexpr std::size_t kMaxText = 0xffffffff;  // ends are 32-bit integers
    if (text.size() + full_name.size() > kMaxText) wrong("more than 4 GiB of features");
    text.append(full_name);
    end.push_back(static_cast<std::uint32_t>(text.size()));
    value.push_back(number);
  }

  // Adds a dict, list or set; `name` is the prefix, with its colon.
  void add(PyObject* object, int depth) {
    constexpr int kMaxDepth = 16;  // a list or dict may contain itself
    if (depth > kMaxDepth) wrong("features are nested too deeply");
    const std::size_t before = name.size();
    if (PyDict_Check(object)) return add_dict(object, depth);
    const nanobind::object items = nanobind::steal(PySequence_Fast(object, ""));
    if (!items.is_valid()) {
      clear_expected({PyExc_TypeError, PyExc_ValueError});
      wrong("features must be a dict, or a list or set of str, not " + type_name(object));
    }
    // Python code can run at a poll and may change the list, so its size is read after the poll. No
    // Python code runs in the rest of the loop.
    for (Py_ssize_t i = 0; poll.step(), i < PySequence_Fast_GET_SIZE(items.ptr()); ++i) {
      PyObject* item = PySequence_Fast_GET_ITEM(items.ptr(), i);
      if (before == 0) {  // without a prefix, the name is not copied
        std::string_view item_text;
        if (!text_or_bytes(item, &item_text)) wrong("a feature must be a str, not " + type_name(item));
        emit(item_text, 1.0);
        continue;
      }
      append(item);
      emit(name, 1.0);
      name.resize(before);
    }
  }

  // Adds a dict. Converting its values, and polls, may run Python code, which may change the dict. So a
  // changed size is an error, and at most `size` items are read.
  void add_dict(PyObject* dict, int depth) {
    const std::size_t before = name.size();
    const Py_ssize_t size = PyDict_GET_SIZE(dict);
    PyObject *key, *item;
    Py_ssize_t at = 0;
    for (Py_ssize_t i = 0; i < size && PyDict_Next(dict, &at, &key, &item); ++i) {
      append(key);
      add_value(item, depth);
      poll.step();
      if (PyDict_GET_SIZE(dict) != size) wrong("the dict has changed while its features were read");
      name.resize(before);
    }
  }

  void append(PyObject* key) {
    std::string_view key_text;
    if (!text_or_bytes(key, &key_text)) wrong("a feature's name must be a str, not " + type_name(key));
    name.append(key_text);
  }

  void add_value(PyObject* item, int depth) {
    std::string_view item_text;
    if (PyFloat_CheckExact(item)) return emit(name, PyFloat_AS_DOUBLE(item));
    if (PyBool_Check(item)) return emit(name, item == Py_True ? 1.0 : 0.0);
    if (text_or_bytes(item, &item_text)) {
      name.push_back(':');
      name.append(item_text);
      return emit(name, 1.0);
    }
    // From here on Python code may run, and the dict that contains the item may lose it.
    const nanobind::object owner = nanobind::borrow(item);
    if (PyDict_Check(item) || PyList_Check(item) || PyTuple_Check(item) || PyAnySet_Check(item)) {
      name.push_back(':');
      return add(item, depth + 1);
    }
    const double number = PyFloat_AsDouble(item);
    if (number == -1.0 && PyErr_Occurred() != nullptr) {
      const bool large = PyErr_ExceptionMatches(PyExc_OverflowError) != 0;
      clear_expected({PyExc_TypeError, PyExc_ValueError, PyExc_OverflowError});
      wrong("the value of " + name + " " +
            (large ? "is too large" : "must be a str or a number, not " + type_name(item)));
    }
    emit(name, number);
  }

  // Reads the text of a str, or bytes that are valid UTF-8. Returns false for other objects.
  static bool text_or_bytes(PyObject* object, std::string_view* text) {
    if (text_of(object, text)) return true;
    if (!PyBytes_Check(object)) return false;
    *text = {PyBytes_AS_STRING(object), static_cast<std::size_t>(PyBytes_GET_SIZE(object))};
    return valid_utf8(*text);
  }
};

}  // namespace trellis
