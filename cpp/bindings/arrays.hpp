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

struct ArrayView {
  const void* data;
  std::int64_t shape[3];
  std::size_t item_size;  // 4 or 8: float or double
};

// False if it is anything but a C-contiguous array of floats, in native byte order, of so many
// dimensions (at most 3).
bool look_at(PyObject* object, int dimensions, ArrayView* view);

}  // namespace trellis
