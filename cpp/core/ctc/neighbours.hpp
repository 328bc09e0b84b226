// Shifts along rows of positions, and lookup of symbols: shared by the scaled and the log-space kernels.
#pragma once

#include "base/simd.hpp"
#include "ctc/types.hpp"

namespace trellis::TRELLIS_ISA::ctc {

// Return (before[last], v[0], v[1], ...) and (v[1], v[2], ..., after[0]).
#if defined(__AVX512F__)
TRELLIS_INLINE Vec from_left(Vec before, Vec v) {
  return __builtin_shufflevector(before, v, 7, 8, 9, 10, 11, 12, 13, 14);
}
TRELLIS_INLINE Vec from_right(Vec v, Vec after) {
  return __builtin_shufflevector(v, after, 1, 2, 3, 4, 5, 6, 7, 8);
}
#elif defined(__AVX2__)
TRELLIS_INLINE Vec from_left(Vec before, Vec v) {
  return __builtin_shufflevector(before, v, 3, 4, 5, 6);
}
TRELLIS_INLINE Vec from_right(Vec v, Vec after) { return __builtin_shufflevector(v, after, 1, 2, 3, 4); }
#else
TRELLIS_INLINE Vec from_left(Vec before, Vec v) { return __builtin_shufflevector(before, v, 1, 2); }
TRELLIS_INLINE Vec from_right(Vec v, Vec after) { return __builtin_shufflevector(v, after, 1, 2); }
#endif

// Returns the entries of e at the indices in `column`.
TRELLIS_INLINE Vec look_up(const double* e, const std::int32_t* column) {
#if defined(__AVX512F__)
  const __m256i index = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(column));
  return _mm512_mask_i32gather_pd(Vec{}, 0xff, index, e, 8);
#else
  Vec v;
  for (int k = 0; k < kWidth; ++k) v[k] = e[column[k]];
  return v;
#endif
}

}  // namespace trellis::TRELLIS_ISA::ctc
