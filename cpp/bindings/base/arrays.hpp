// Fast access to lists of NumPy arrays. With thousands of short sequences the cost per array matters,
// and NumPy's C functions are faster than a generic cast.
#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <memory>
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

// Describes an array without copying it. Returns false unless it is a C-contiguous array of floats or
// doubles, in native byte order, with this number of dimensions (at most 3).
bool view_of(PyObject* object, int dimensions, ArrayView* view);

// Prefetches the memory that view_of() will read of later arrays of a list.
void prefetch_arrays(PyObject* const* arrays, Py_ssize_t i, Py_ssize_t count);

// Returns views of consecutive pieces of an array along its first axis: [flat[0:n0], flat[n0:n0+n1],
// ...].
nanobind::object split_rows(PyObject* flat, const std::int64_t* lengths, std::size_t count);

template <class T>
using Numpy = nanobind::ndarray<nanobind::numpy, T, nanobind::c_contig>;

// Returns a NumPy array that owns the vector; nothing is copied.
template <class T>
Numpy<T> to_array(std::vector<T>&& values) {
  auto vector = std::make_unique<std::vector<T>>(std::move(values));
  const nanobind::capsule owner(vector.get(),
                                [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  std::vector<T>* owned = vector.release();
  return Numpy<T>(owned->data(), {owned->size()}, owner);
}

}  // namespace trellis
