// Types of NumPy arguments: C-contiguous arrays in CPU memory.
#pragma once

#include <nanobind/ndarray.h>

namespace trellis {

template <class T, std::size_t N = 1>
using In = nanobind::ndarray<const T, nanobind::ndim<N>, nanobind::c_contig, nanobind::device::cpu>;
template <class T, std::size_t N = 1>
using Out = nanobind::ndarray<T, nanobind::ndim<N>, nanobind::c_contig, nanobind::device::cpu>;

}  // namespace trellis
