// Vectors of floats as wide as the instruction set this file is compiled for (see simd.hpp).
#pragma once

#include "simd.hpp"
#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace trellis::TRELLIS_ISA {

inline constexpr int kFloatWidth = kVectorBytes / 4;

typedef float FloatVec __attribute__((vector_size(kVectorBytes)));
typedef std::int32_t FloatMask __attribute__((vector_size(kVectorBytes)));  // all bits set where true

TRELLIS_INLINE FloatVec float_splat(float x) { return x - FloatVec{}; }
TRELLIS_INLINE FloatVec float_load(const float* p) {
  FloatVec v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
TRELLIS_INLINE void float_store(float* p, FloatVec v) { std::memcpy(p, &v, sizeof v); }

// Bit i is set where a[i] > b[i].
TRELLIS_INLINE unsigned greater_bits(FloatVec a, FloatVec b) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ);
#elif defined(__AVX2__)
  return static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ)));
#elif defined(__SSE2__)
  return static_cast<unsigned>(_mm_movemask_ps(_mm_cmpgt_ps(a, b)));
#else
  const FloatMask m = a > b;
  unsigned bits = 0;
  for (int i = 0; i < kFloatWidth; ++i) bits |= static_cast<unsigned>(m[i] & 1) << i;
  return bits;
#endif
}

TRELLIS_INLINE float sum_floats(FloatVec v) {
  float parts[kFloatWidth];
  float_store(parts, v);
#pragma GCC unroll 4
  for (int half = kFloatWidth / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < half; ++i) parts[i] += parts[i + half];
  }
  return parts[0];
}

}  // namespace trellis::TRELLIS_ISA
