// Kernels for the smaller parts of a network: windows of characters, and rows of a table.
#pragma once

#include "base/simd_float.hpp"
#include "nn/network_types.hpp"

namespace trellis::TRELLIS_ISA::network {

inline void largest(const CharWindows& a, float* best, std::int32_t* where) {
  for (std::int64_t word = 0; word < a.words; ++word, best += a.filters, where += a.filters) {
    const std::int64_t* ids = a.ids + word * a.longest;
    for (std::int64_t f = 0; f < a.filters; f += kFloatWidth) {
      const std::int64_t lanes = a.filters - f < kFloatWidth ? a.filters - f : kFloatWidth;
      FloatVec top{};
      FloatMask at{};
      for (std::int64_t t = 0; t < a.longest; ++t) {
        const std::int64_t end = a.longest - t < a.width ? a.longest - t : a.width;
        FloatVec score{};
        for (std::int64_t k = 0; k < end; ++k) {
          if (ids[t + k] == 0) continue;
          score += float_load_first(a.table + (ids[t + k] * a.width + k) * a.filters + f, lanes);
        }
        FloatMask taken = (score > top) | (score != score);  // NaN, once taken, stays
        if (t == 0) taken = ~FloatMask{};
        top = taken ? score : top;
        at = taken ? FloatMask{} + static_cast<std::int32_t>(t) : at;
      }
      float_store_first(best + f, top, lanes);
      std::memcpy(where + f, &at, static_cast<std::size_t>(lanes) * sizeof(std::int32_t));
    }
  }
}

inline FloatVec root(FloatVec x) {
#if defined(__AVX512F__)
  return _mm512_maskz_sqrt_ps(0xffff, x);  // GCC 12 warns of the plain one
#elif defined(__AVX2__)
  return _mm256_sqrt_ps(x);
#elif defined(__SSE2__)
  return _mm_sqrt_ps(x);
#else
  for (int i = 0; i < kFloatWidth; ++i) x[i] = __builtin_sqrtf(x[i]);
  return x;
#endif
}

inline void adam(float* w, float* m, float* v, const float* g, std::int64_t count, const AdamStep& a) {
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

}  // namespace trellis::TRELLIS_ISA::network
