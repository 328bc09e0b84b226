// SIMD vectors of doubles, as wide as the instruction set that this file is compiled for.
//
// Everything lives in namespace trellis::TRELLIS_ISA (isa_v2, isa_v3, ...): the same source is compiled
// once per instruction set, and the names must not collide. For the same reason neither this file nor
// any kernel instantiates standard containers or algorithms: the linker would keep one copy for all
// instruction sets, perhaps one with instructions that the CPU lacks (cpp/tests/symbols.cmake checks).
#pragma once

#include <cstdint>
#include <cstring>

#if !defined(__GNUC__)
#error "trellis needs the vector extensions of GCC or Clang (clang-cl on Windows)"
#endif
#if defined(__AVX512F__)
#include <immintrin.h>
#endif
#if !defined(TRELLIS_ISA)
#define TRELLIS_ISA isa_generic
#endif

#define TRELLIS_INLINE inline __attribute__((always_inline))

namespace trellis::TRELLIS_ISA {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif
inline constexpr int kWidth = kVectorBytes / 8;  // doubles in a vector; divides 8

typedef double Vec __attribute__((vector_size(kVectorBytes)));
typedef std::int64_t Mask __attribute__((vector_size(kVectorBytes)));  // all bits set where true
typedef float HalfVec __attribute__((vector_size(kVectorBytes / 2)));

inline constexpr double kInfinity = __builtin_inf();

TRELLIS_INLINE Vec splat(double x) { return x - Vec{}; }

TRELLIS_INLINE Vec load(const double* p) {
  Vec v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
TRELLIS_INLINE Vec load(const float* p) {
  HalfVec v;
  std::memcpy(&v, p, sizeof v);
  return __builtin_convertvector(v, Vec);
}
TRELLIS_INLINE void store(double* p, Vec v) { std::memcpy(p, &v, sizeof v); }
TRELLIS_INLINE void store(float* p, Vec v) {
  const HalfVec h = __builtin_convertvector(v, HalfVec);
  std::memcpy(p, &h, sizeof h);
}

// Loads the first n lanes (0 <= n <= kWidth) and sets the others to `fill`. Reads nothing past p[n-1].
#if defined(__AVX512F__) && defined(__AVX512VL__)
TRELLIS_INLINE Vec load_first(const double* p, int n, double fill) {
  return _mm512_mask_loadu_pd(splat(fill), static_cast<__mmask8>((1u << n) - 1), p);
}
TRELLIS_INLINE Vec load_first(const float* p, int n, double fill) {
  const __mmask8 lanes = static_cast<__mmask8>((1u << n) - 1);
  return _mm512_mask_cvtps_pd(splat(fill), lanes, _mm256_maskz_loadu_ps(lanes, p));
}
TRELLIS_INLINE void store_first(double* p, Vec v, int n) {
  _mm512_mask_storeu_pd(p, static_cast<__mmask8>((1u << n) - 1), v);
}
TRELLIS_INLINE void store_first(float* p, Vec v, int n) {
  _mm256_mask_storeu_ps(p, static_cast<__mmask8>((1u << n) - 1), _mm512_maskz_cvtpd_ps(0xff, v));
}
#else
template <class T>
TRELLIS_INLINE Vec load_first(const T* p, int n, double fill) {
  if (n == kWidth) return load(p);
  Vec v = splat(fill);
  for (int i = 0; i < n; ++i) v[i] = p[i];
  return v;
}
template <class T>
TRELLIS_INLINE void store_first(T* p, Vec v, int n) {
  if (n == kWidth) return store(p, v);
  for (int i = 0; i < n; ++i) p[i] = static_cast<T>(v[i]);
}
#endif

// Returns m ? a : b in each lane.
TRELLIS_INLINE Vec select(Mask m, Vec a, Vec b) { return m ? a : b; }

// max and min are one instruction each on x86. If either argument is NaN, they return the second one.
TRELLIS_INLINE Vec max(Vec a, Vec b) { return a > b ? a : b; }
TRELLIS_INLINE Vec min(Vec a, Vec b) { return a < b ? a : b; }

// Reduces all lanes to one value by exchanging lanes at distance kWidth/2, kWidth/4, ... Afterwards
// every lane holds the result, so no broadcast is needed.
template <class Op>
TRELLIS_INLINE Vec reduce(Vec v, Op op) {
#if defined(__AVX512F__)
  v = op(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3));
  v = op(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5));
  return op(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6));
#elif defined(__AVX2__)
  v = op(v, __builtin_shufflevector(v, v, 2, 3, 0, 1));
  return op(v, __builtin_shufflevector(v, v, 1, 0, 3, 2));
#else
  return op(v, __builtin_shufflevector(v, v, 1, 0));
#endif
}
TRELLIS_INLINE Vec sum_lanes(Vec v) {
  return reduce(v, [](Vec a, Vec b) __attribute__((always_inline)) { return a + b; });
}
TRELLIS_INLINE Vec max_lanes(Vec v) {
  return reduce(v, [](Vec a, Vec b) __attribute__((always_inline)) { return max(a, b); });
}
TRELLIS_INLINE Vec min_lanes(Vec v) {
  return reduce(v, [](Vec a, Vec b) __attribute__((always_inline)) { return min(a, b); });
}
TRELLIS_INLINE bool any(Mask m) {
#if defined(__AVX512DQ__)
  return _mm512_movepi64_mask(reinterpret_cast<__m512i>(m)) != 0;
#elif defined(__AVX2__)
  return __builtin_ia32_movmskpd256(reinterpret_cast<Vec>(m)) != 0;
#else
  std::int64_t bits = 0;
  for (int i = 0; i < kWidth; ++i) bits |= m[i];
  return bits != 0;
#endif
}

// e^x for -708 <= x <= 709, within 1 ulp; exactly 1 at 0; NaN for NaN. Outside this range the exponent
// field would overflow.
// x = k ln 2 + r with |r| <= ln 2 / 2;  e^r = 1 + r + r^2 q(r), with q fitted at Chebyshev points.
TRELLIS_INLINE Vec exp_in_range(Vec x) {
  constexpr double q[] = {0x1.0000000000001p-1,  0x1.5555555555556p-3,  0x1.5555555553d63p-5,
                          0x1.11111111109b3p-7,  0x1.6c16c1788bd90p-10, 0x1.a01a01a7c41d5p-13,
                          0x1.a019b90d2ae7ap-16, 0x1.71de0dae63bb3p-19, 0x1.289185613a3d6p-22,
                          0x1.af38a9b0ec855p-26};
  const Vec shifter = splat(0x1.8p52);  // adding it rounds x / ln 2 to an integer k in the low bits
  // k ln 2 is subtracted in two parts. The first part has trailing zero bits, so k times it is exact.
  const Vec shifted = x * 0x1.71547652b82fep0 + shifter;
  const Vec k = shifted - shifter;
  const Vec r = (x - k * 0x1.62e42fefa38p-1) - k * 0x1.ef35793c7673p-45;
  const Vec r2 = r * r;
  const Vec r4 = r2 * r2;
  const Vec low = (q[0] + q[1] * r) + (q[2] + q[3] * r) * r2;
  const Vec high = (q[4] + q[5] * r) + (q[6] + q[7] * r) * r2 + (q[8] + q[9] * r) * r4;
  const Vec p = 1.0 + (r + r2 * (low + r4 * high));
  // 2^k: k moved into the exponent field, plus the bias
  const Mask power = (reinterpret_cast<Mask>(shifted) << 52) + std::int64_t{0x3ff0000000000000};
  return p * reinterpret_cast<Vec>(power);
}

// Below this, e^x is not a normal number; flushing it to 0 keeps denormals out of the sums.
inline constexpr double kLowestExp = -708.0;

// e^x for any x <= 709; exactly 0 below -708, also for -inf.
TRELLIS_INLINE Vec exp(Vec x) {
  return select(x < kLowestExp, Vec{}, exp_in_range(max(splat(kLowestExp), x)));
}

// ln x for normal x > 0, within 2 ulp; -inf at 0.
// x = 2^k m with m in [sqrt 1/2, sqrt 2); s = (m-1)/(m+1); ln m = 2s + s^3 P(s^2).
TRELLIS_INLINE Vec log(Vec x) {
  constexpr double P[] = {0x1.5555555555558p-1, 0x1.99999999952ccp-2, 0x1.2492492df3ba9p-2,
                          0x1.c71c62e26208bp-3, 0x1.7462b58e46ebep-3, 0x1.39fe42e9740a7p-3,
                          0x1.2b59b713616c9p-3};
  constexpr std::int64_t kSqrtHalf = 0x3fe6a09e667f3bcd;  // the bits of sqrt(1/2)
  // After subtracting kSqrtHalf, the exponent field is k for m in the interval [sqrt 1/2, sqrt 2).
  const Mask bits = reinterpret_cast<Mask>(x);
  const Mask exponent = (bits - kSqrtHalf) & ~((std::int64_t{1} << 52) - 1);
  const Vec m = reinterpret_cast<Vec>(bits - exponent);
  // k as a double: its bits are added to those of 1.5 * 2^52, which is then subtracted
  const Mask k_bits = (exponent >> 52) + std::int64_t{0x4338000000000000};
  const Vec k = reinterpret_cast<Vec>(k_bits) - 0x1.8p52;
  const Vec f = m - 1.0;
  const Vec s = f / (f + 2.0);
  const Vec z = s * s;
  const Vec poly = P[0] + z * (P[1] + z * (P[2] + z * (P[3] + z * (P[4] + z * (P[5] + z * P[6])))));
  const Vec ln = k * 0x1.62e42fefa38p-1 + (2.0 * s + (s * (z * poly) + k * 0x1.ef35793c7673p-45));
  return select(x > 0.0, ln, splat(-kInfinity));
}

}  // namespace trellis::TRELLIS_ISA
