// Reading Python lists and strings, and errors that name the sequence and the position.
#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>

#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>

#include "bindings/base/errors.hpp"

namespace trellis {

// Throws an error that names the position. A sequence of -1 means that the caller passed only one
// sequence; then the message does not name it.
[[noreturn]] inline void fail(std::int64_t sequence, std::int64_t position, const std::string& what) {
  const std::string message = "position " + std::to_string(position) + ": " + what;
  if (sequence < 0) throw std::invalid_argument(message);
  throw SequenceError(sequence, "sequence {sequence}, " + message);
}

// Clears the current Python exception if it has one of the expected types. Throws any other exception,
// such as KeyboardInterrupt or MemoryError.
inline void clear_expected(std::initializer_list<PyObject*> expected) {
  for (PyObject* type : expected) {
    if (PyErr_ExceptionMatches(type) != 0) return PyErr_Clear();
  }
  throw nanobind::python_error();
}

// Returns whether the bytes are valid UTF-8. ASCII is checked here; other text is decoded by Python.
inline bool valid_utf8(std::string_view bytes) {
  for (const char c : bytes) {
    if (static_cast<unsigned char>(c) < 0x80) continue;
    PyObject* text = PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), nullptr);
    if (text == nullptr) clear_expected({PyExc_UnicodeError});
    Py_XDECREF(text);
    return text != nullptr;
  }
  return true;
}

// Returns the type of an object, for an error message.
inline std::string type_name(PyObject* object) {
  return PyUnicode_Check(object) ? "a str with lone surrogates" : Py_TYPE(object)->tp_name;
}

// Reads the UTF-8 text of a str. Returns false if the object is not a str or has lone surrogates.
inline bool text_of(PyObject* object, std::string_view* text) {
  if (!PyUnicode_Check(object)) return false;
  if (PyUnicode_IS_COMPACT_ASCII(object)) {
    *text = {reinterpret_cast<const char*>(PyUnicode_1BYTE_DATA(object)),
             static_cast<std::size_t>(PyUnicode_GET_LENGTH(object))};
    return true;
  }
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(object, &size);
  if (data == nullptr) {
    clear_expected({PyExc_UnicodeError});
    return false;
  }
  *text = {data, static_cast<std::size_t>(size)};
  return true;
}

// The items of a list or tuple, kept alive by this object; valid() is false for other types.
class Items {
 public:
  explicit Items(PyObject* object) {
    if (!PyList_Check(object) && !PyTuple_Check(object)) return;
    // Other code may change a list while it is read, but it cannot change this tuple of its items.
    owner_ = nanobind::steal(PySequence_Tuple(object));
    if (!owner_.is_valid()) throw nanobind::python_error();
    items_ = PySequence_Fast_ITEMS(owner_.ptr());
    size_ = PySequence_Fast_GET_SIZE(owner_.ptr());
  }
  bool valid() const { return owner_.is_valid(); }
  Py_ssize_t size() const { return size_; }
  PyObject* operator[](Py_ssize_t i) const { return items_[i]; }

 private:
  nanobind::object owner_;
  PyObject** items_ = nullptr;
  Py_ssize_t size_ = 0;
};

}  // namespace trellis
