// SIMD vectors of floats, as wide as the instruction set that this file is compiled for (see simd.hpp).
#pragma once

#include "base/simd.hpp"
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

// Loads the first n lanes (0 <= n <= kFloatWidth) and sets the others to 0. Reads nothing past p[n-1].
TRELLIS_INLINE FloatVec float_load_first(const float* p, std::int64_t n) {
  if (n == kFloatWidth) [[likely]]
    return float_load(p);
#if defined(__AVX512F__)
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p);
#else
  FloatVec v{};
  for (std::int64_t i = 0; i < n; ++i) v[i] = p[i];
  return v;
#endif
}
TRELLIS_INLINE void float_store_first(float* p, FloatVec v, std::int64_t n) {
  if (n == kFloatWidth) [[likely]]
    return float_store(p, v);
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), v);
#else
  for (std::int64_t i = 0; i < n; ++i) p[i] = v[i];
#endif
}

// Returns a bit mask: bit i is set where a[i] > b[i].
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

// Returns the sum of all lanes. The order of the additions is fixed, so the bits are the same with every
// compiler.
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

TRELLIS_INLINE FloatVec float_clamp(FloatVec x, float bound) {
  x = x < -bound ? float_splat(-bound) : x;
  return x > bound ? float_splat(bound) : x;
}

// e^x = scale (1 + rest), where x = k ln 2 + r with |r| <= ln 2 / 2, scale = 2^k and rest = e^r - 1.
struct ExpParts {
  FloatVec scale, rest;
};
// Requires |x| <= kWidestExp.
TRELLIS_INLINE ExpParts exp_parts(FloatVec x) {
  constexpr float q[] = {0x1p-1f, 0x1.5554d8p-3f, 0x1.5554e4p-5f, 0x1.121072p-7f, 0x1.6d4926p-10f};
  const FloatVec shifter =
      float_splat(0x1.8p23f);  // adding it rounds to an integer kept in the low bits
  const FloatVec shifted = x * 1.44269504f + shifter;
  const FloatVec k = shifted - shifter;
  const FloatVec r = (x - k * 0.693145752f) - k * 1.42860677e-6f;
  const FloatVec rest = r + r * r * (q[0] + r * (q[1] + r * (q[2] + r * (q[3] + r * q[4]))));
  return {reinterpret_cast<FloatVec>((reinterpret_cast<FloatMask>(shifted) << 23) + (127 << 23)), rest};
}

inline constexpr float kWidestExp = 87.0f;  // e^87 and e^-87 are normal floats, e^89 is not

// e^x for |x| <= kWidestExp, with a relative error below 2e-7.
TRELLIS_INLINE FloatVec float_exp(FloatVec x) {
  const ExpParts e = exp_parts(x);
  return e.scale * (1.0f + e.rest);
}
// 1 / (1 + e^-x), within 3 ulp for |x| <= 87 and constant beyond; NaN for NaN.
TRELLIS_INLINE FloatVec sigmoid(FloatVec x) {
  return 1.0f / (1.0f + float_exp(-float_clamp(x, kWidestExp)));
}

// m / (m + 2) with m = e^(2x) - 1 = (scale - 1) + scale rest. Near 0, where scale is 1, nothing cancels.
// Within 3 ulp; NaN for NaN.
TRELLIS_INLINE FloatVec tanh(FloatVec x) {
  constexpr float kSaturated = 15.0f;  // tanh(15) rounds to 1
  const ExpParts e = exp_parts(2.0f * float_clamp(x, kSaturated));
  const FloatVec m = (e.scale - 1.0f) + e.scale * e.rest;
  return m / (m + 2.0f);
}

}  // namespace trellis::TRELLIS_ISA
