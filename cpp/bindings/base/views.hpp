// Types of NumPy arguments: C-contiguous arrays in CPU memory.
#pragma once

#include <nanobind/ndarray.h>

#include <vector>

namespace trellis {

template <class T, std::size_t N = 1>
using In = nanobind::ndarray<const T, nanobind::ndim<N>, nanobind::c_contig, nanobind::device::cpu>;
template <class T, std::size_t N = 1>
using Out = nanobind::ndarray<T, nanobind::ndim<N>, nanobind::c_contig, nanobind::device::cpu>;

// Returns a private copy of an array, flat. Integers that index memory are copied before they are
// validated: another thread may change the caller's array while the GIL is released.
template <class Array>
auto copy_of(const Array& array) {
  using T = std::remove_const_t<typename Array::Scalar>;
  return std::vector<T>(array.data(), array.data() + array.size());
}

}  // namespace trellis
