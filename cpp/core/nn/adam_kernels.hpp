// The Adam kernel: one step for consecutive weights.
#pragma once

#include "base/simd_float.hpp"
#include "nn/adam_types.hpp"

namespace trellis::TRELLIS_ISA::adam {

// Returns the square root of each lane.
inline FloatVec root(FloatVec x) {
#if defined(__AVX512F__)
  return _mm512_maskz_sqrt_ps(0xffff, x);  // the unmasked intrinsic makes GCC 12 warn
#elif defined(__AVX2__)
  return _mm256_sqrt_ps(x);
#elif defined(__SSE2__)
  return _mm_sqrt_ps(x);
#else
  for (int i = 0; i < kFloatWidth; ++i) x[i] = __builtin_sqrtf(x[i]);
  return x;
#endif
}

inline void update(float* w, float* m, float* v, const float* g, std::int64_t count, const AdamStep& a) {
  for (std::int64_t i = 0; i < count; i += kFloatWidth) {
    const std::int64_t lanes = count - i < kFloatWidth ? count - i : kFloatWidth;
    const FloatVec slope = float_load_first(g + i, lanes), m_before = float_load_first(m + i, lanes);
    const FloatVec mean = m_before + a.part1 * (slope - m_before);
    const FloatVec square = a.beta2 * float_load_first(v + i, lanes) + a.part2 * slope * slope;
    const FloatVec step = a.size * mean / (root(square) * a.scale + a.epsilon);
    float_store_first(m + i, mean, lanes);
    float_store_first(v + i, square, lanes);
    float_store_first(w + i, a.decay * float_load_first(w + i, lanes) - step, lanes);
  }
}

}  // namespace trellis::TRELLIS_ISA::adam
