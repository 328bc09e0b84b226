// Lists of NumPy arrays. Thousands of short sequences make the cost of looking at one array count, and
// NumPy's own C functions take nanoseconds where a generic cast takes most of a microsecond.
#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>

#include <cstdint>
#include <stdexcept>

namespace trellis {

inline void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

struct ArrayView {
  const void* data;
  std::int64_t shape[3];
  std::size_t item_size;  // 4 or 8: float or double
};

// False if it is anything but a C-contiguous array of floats, in native byte order, of so many
// dimensions (at most 3).
bool look_at(PyObject* object, int dimensions, ArrayView* view);

// Asks for the memory that look_at() will read of the arrays some places ahead in a list.
void look_ahead(PyObject* const* arrays, Py_ssize_t i, Py_ssize_t count);

// Views of consecutive pieces of an array along its first axis: [flat[0:n0], flat[n0:n0+n1], ...].
nanobind::object split_rows(PyObject* flat, const std::int64_t* lengths, std::size_t count);

}  // namespace trellis
