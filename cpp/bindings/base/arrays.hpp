// Lists of NumPy arrays. Thousands of short sequences make the cost of looking at one array count, and
// NumPy's own C functions take nanoseconds where a generic cast takes most of a microsecond.
#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

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

template <class T>
using Numpy = nanobind::ndarray<nanobind::numpy, T, nanobind::c_contig>;

// An array that owns a vector.
template <class T>
Numpy<T> to_array(std::vector<T>&& values) {
  auto* owned = new std::vector<T>(std::move(values));
  const nanobind::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return Numpy<T>(owned->data(), {owned->size()}, owner);
}

}  // namespace trellis
