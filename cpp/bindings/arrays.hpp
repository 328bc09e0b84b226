// Lists of NumPy arrays. Thousands of short sequences make the cost of looking at one array count, and
// NumPy's own C functions take nanoseconds where a generic cast takes most of a microsecond.
#pragma once

#include <Python.h>

#include <cstdint>
#include <stdexcept>

namespace trellis {

inline void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

struct Matrix {
  const void* data;
  std::int64_t rows, columns;
  std::size_t item_size;  // 4 or 8: float or double
};

// False if it is anything but a C-contiguous two-dimensional array of floats in native byte order.
bool look_at(PyObject* object, Matrix* matrix);

}  // namespace trellis
