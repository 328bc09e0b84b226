// Ready features as python-crfsuite reads them: Python's dicts and lists become names and values.
//
// A str is an attribute; {"name": number} has that value, {"name": "text"} is the attribute name:text,
// True and False are 1 and 0, and what a dict, list or set under a name holds has that name before it.
#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/base/python_text.hpp"

namespace trellis {

// Names and values as they are read: what they are called is then looked up without Python.
struct Reading {
  std::string text;                // names, one after the other
  std::vector<std::uint32_t> end;  // of each name in the text
  std::vector<double> value;       // of each name
  std::vector<std::int64_t> row;   // names up to the end of each position
  std::string name;
  std::int64_t sequence = -1, position = 0;  // what is being read; -1: there is one sequence only

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

  // The features of the next position.
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

  void emit(std::string_view own, double number) {
    if (!std::isfinite(number)) wrong("the value of " + std::string(own) + " is not finite");
    if (text.size() + own.size() > 0xffffffff) wrong("4 GiB of features");
    text.append(own);
    end.push_back(static_cast<std::uint32_t>(text.size()));
    value.push_back(number);
  }

  // `name` is what stands before, with its colon.
  void add(PyObject* object, int depth) {
    if (depth > 16) wrong("features are nested too deeply");
    const std::size_t before = name.size();
    if (PyDict_Check(object)) {
      PyObject *key, *item;
      Py_ssize_t at = 0;
      while (PyDict_Next(object, &at, &key, &item)) {
        append(key);
        add_value(item, depth);
        name.resize(before);
      }
      return;
    }
    const nanobind::object items = nanobind::steal(PySequence_Fast(object, ""));
    if (!items.is_valid()) {
      PyErr_Clear();
      wrong("features must be a dict, or a list or set of str, not " + type_name(object));
    }
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.ptr()); ++i) {
      PyObject* item = PySequence_Fast_GET_ITEM(items.ptr(), i);
      if (before == 0) {  // no copy of the name
        std::string_view own;
        if (!text_or_bytes(item, &own)) wrong("a feature must be a str, not " + type_name(item));
        emit(own, 1.0);
        continue;
      }
      append(item);
      emit(name, 1.0);
      name.resize(before);
    }
  }

  void append(PyObject* key) {
    std::string_view own;
    if (!text_or_bytes(key, &own)) wrong("a feature's name must be a str, not " + type_name(key));
    name.append(own);
  }

  void add_value(PyObject* item, int depth) {
    std::string_view own;
    if (PyFloat_CheckExact(item)) return emit(name, PyFloat_AS_DOUBLE(item));
    if (PyBool_Check(item)) return emit(name, item == Py_True ? 1.0 : 0.0);
    if (text_or_bytes(item, &own)) {
      name.push_back(':');
      name.append(own);
      return emit(name, 1.0);
    }
    if (PyDict_Check(item) || PyList_Check(item) || PyTuple_Check(item) || PyAnySet_Check(item)) {
      name.push_back(':');
      return add(item, depth + 1);
    }
    const double number = PyFloat_AsDouble(item);
    if (number == -1.0 && PyErr_Occurred() != nullptr) {
      const bool large = PyErr_ExceptionMatches(PyExc_OverflowError) != 0;
      PyErr_Clear();
      wrong("the value of " + name + " " +
            (large ? "is too large" : "must be a str or a number, not " + type_name(item)));
    }
    emit(name, number);
  }

  // Bytes are taken as UTF-8.
  static bool text_or_bytes(PyObject* object, std::string_view* own) {
    if (text_of(object, own)) return true;
    if (!PyBytes_Check(object)) return false;
    *own = {PyBytes_AS_STRING(object), static_cast<std::size_t>(PyBytes_GET_SIZE(object))};
    return valid_utf8(*own);
  }
};

}  // namespace trellis
