// The softmax over the vocabulary for CTC: from scores to probabilities, and back to gradients.
#pragma once

#include <type_traits>

#include "base/simd.hpp"
#include "ctc/types.hpp"

namespace trellis::TRELLIS_ISA::ctc {

// Rows of floats are read and exponentiated in vectors of floats, which hold twice as many numbers as
// vectors of doubles. Sums are always doubles, so that small terms are not lost.
using TRELLIS_ISA::exp;
using TRELLIS_ISA::max;
typedef float Floats __attribute__((vector_size(kVectorBytes)));
typedef std::int32_t FloatMask __attribute__((vector_size(kVectorBytes)));

template <class T>
using Lanes = std::conditional_t<sizeof(T) == sizeof(float), Floats, Vec>;
template <class T>
inline constexpr int kLanesOf = kVectorBytes / static_cast<int>(sizeof(T));

TRELLIS_INLINE Floats max(Floats a, Floats b) { return a > b ? a : b; }

// e^x for x <= 88, within 1 ulp; exactly 1 at 0, exactly 0 below -87; NaN for NaN. See exp(Vec).
TRELLIS_INLINE Floats exp(Floats x) {
  constexpr float q[] = {0x1.fffff8p-2f, 0x1.55548ep-3f, 0x1.555b58p-5f, 0x1.123b9ep-7f,
                         0x1.687bf6p-10f};
  const Floats lowest = -87.0f - Floats{};
  const Floats clamped = max(lowest, x);
  const Floats shifted = clamped * 0x1.715476p0f + 0x1.8p23f;
  const Floats k = shifted - 0x1.8p23f;
  const Floats r = (clamped - k * 0x1.62e4p-1f) - k * 0x1.7f7d1cp-20f;
  const Floats r2 = r * r;
  const Floats p = (q[0] + q[1] * r) + r2 * ((q[2] + q[3] * r) + r2 * q[4]);
  const FloatMask power = (reinterpret_cast<FloatMask>(shifted) << 23) + 0x3f800000;
  const Floats value = (1.0f + (r + r2 * p)) * reinterpret_cast<Floats>(power);
  return x < lowest ? Floats{} : value;
}

TRELLIS_INLINE void add_to(Vec& total, Vec v) { total += v; }
TRELLIS_INLINE Vec widened(HalfVec v) {
#if defined(__AVX512F__)
  return _mm512_maskz_cvtps_pd(0xff, v);  // GCC would convert two lanes at a time
#else
  return __builtin_convertvector(v, Vec);
#endif
}
TRELLIS_INLINE void add_to(Vec& total, Floats v) {
  HalfVec half[2];
  std::memcpy(half, &v, sizeof v);
  total += widened(half[0]) + widened(half[1]);
}

// Loads the first n numbers; the other lanes are -inf.
template <class T>
TRELLIS_INLINE Lanes<T> load_lanes(const T* p, int n) {
  Lanes<T> v = T(-__builtin_inf()) - Lanes<T>{};
  if (n == kLanesOf<T>) {
    std::memcpy(&v, p, sizeof v);
  } else {
    for (int k = 0; k < n; ++k) v[k] = p[k];
  }
  return v;
}
template <class T>
TRELLIS_INLINE void store_lanes(T* p, Lanes<T> v, int n) {
  if (n == kLanesOf<T>) {
    std::memcpy(p, &v, sizeof v);
  } else {
    for (int k = 0; k < n; ++k) p[k] = v[k];
  }
}

// Calls body(i, lanes) for the vectors of `size` numbers; the last may have fewer lanes.
template <int kLanesEach, class Body>
TRELLIS_INLINE void for_each_vector(std::int64_t size, const Body& body) {
  std::int64_t i = 0;
  for (; i + kLanesEach <= size; i += kLanesEach) body(i, kLanesEach);
  if (i < size) body(i, static_cast<int>(size - i));
}

// Returns the largest of `size` scores.
template <class T>
inline T largest(const T* scores, std::int64_t size) {
  Lanes<T> top = T(-__builtin_inf()) - Lanes<T>{};
  for_each_vector<kLanesOf<T>>(size, [&](std::int64_t i, int n) __attribute__((always_inline)) {
    top = max(load_lanes(scores + i, n), top);
  });
  T best = top[0];
  for (int k = 1; k < kLanesOf<T>; ++k) best = top[k] > best ? top[k] : best;
  return best;
}

// Returns log sum exp(scores): see CtcScores.
template <class T>
inline double log_norm(const T* scores, std::int64_t size) {
  const T top = largest(scores, size);
  if (top == T(-__builtin_inf())) return -kInfinity;
  Vec total{};
  for_each_vector<kLanesOf<T>>(size, [&](std::int64_t i, int n) __attribute__((always_inline)) {
    __builtin_prefetch(scores + size + i, 0, 2);  // in a contiguous batch, this is the next row
    add_to(total, exp(load_lanes(scores + i, n) - top));
  });
  total = sum_lanes(total);
  return total[0] == total[0] ? top + log(total)[0] : total[0];  // log would turn NaN into -inf
}

template <class T>
inline void softmax(const T* scores, std::int64_t size, T norm, double weight, T* out) {
  constexpr std::int64_t kFar = 2048 / sizeof(T);  // prefetch distance: half a page; chosen by hand
  T factor = static_cast<T>(weight);
  // A float stores a logarithm below 16 with an error of at most 1e-6. Larger logarithms are recomputed.
  constexpr T kMaxNorm = T(16);
  if (sizeof(T) == sizeof(float) && !(norm > -kMaxNorm && norm < kMaxNorm)) {
    norm = largest(scores, size);
    factor = static_cast<T>(weight / __builtin_exp(log_norm(scores, size) - norm));
  }
  for_each_vector<kLanesOf<T>>(size, [&](std::int64_t i, int n) __attribute__((always_inline)) {
    __builtin_prefetch(scores + i + kFar, 0, 3);
    __builtin_prefetch(out + i + kFar, 1, 3);
    store_lanes<T>(out + i, factor * exp(load_lanes(scores + i, n) - norm), n);
  });
}

// Prefetches a row that will soon be read or written: rows of a batch are too far apart for the hardware
// prefetcher. Prefetching past the end is harmless.
template <int kWrite, class T>
TRELLIS_INLINE void prefetch_scores(const T* row, std::int64_t size) {
  const char* bytes = reinterpret_cast<const char*>(row);
  for (std::int64_t i = 0; i < size * static_cast<std::int64_t>(sizeof(T)); i += 64) {
    __builtin_prefetch(bytes + i, kWrite, 2);
  }
}

// Fills e, top, low and total of CtcFrames for all frames: see CtcScores.
template <class T>
inline void emissions(const CtcTarget& y, const T* scores, std::int64_t stride, bool in_log,
                      const CtcFrames& x) {
  for (int f = 0; f < x.count; ++f, scores += stride) {
    double* e = x.e + f * y.stride();
    prefetch_scores<0>(scores + 8 * stride, y.symbols);  // eight frames ahead; chosen by hand
    Vec high = splat(-kInfinity), low = splat(kInfinity), total{};
    Mask too_large{};
    for_each_vector<kWidth>(y.symbols, [&](std::int64_t u, int n) __attribute__((always_inline)) {
      const Vec s = load_first(scores + u, n, -kInfinity);
      high = max(s, high);
      low = min(s + load(y.unused + u),
                low);  // y.unused is +inf for symbols without a label; min() ignores NaN
      // Sums of scores above this limit could overflow. Floats cannot exceed it.
      if constexpr (sizeof(T) == sizeof(double)) {
        too_large |= (s > kLargestCtcScore) | ((s < -kLargestCtcScore) & (s > -kInfinity));
      }
      store(e + u, s);
    });
    high = max_lanes(high);
    x.top[f] = high[0];
    x.low[f] = min_lanes(low)[0] - high[0];
    high = select(high == -kInfinity, Vec{}, high);
    for_each_vector<kWidth>(y.symbols, [&](std::int64_t u, int) __attribute__((always_inline)) {
      const Vec s = load(e + u) - high;
      const Vec p = exp(s);
      total += p;
      store(e + u, in_log ? s : p);
    });
    e[y.symbols] = in_log ? -kInfinity : 0.0;
    x.total[f] = any(too_large) ? __builtin_nan("") : sum_lanes(total)[0];
  }
}

// Computes the gradient of one frame with respect to its logits: see CtcScores.
template <class T>
inline void gradient(const double* e, bool in_log, double total, const double* occupation, int symbols,
                     double weight, T* out, const T* prefetched) {
  prefetch_scores<1>(prefetched, symbols);
  const Vec inverse = splat(1.0 / total), factor = splat(weight);
  for_each_vector<kWidth>(symbols, [&](std::int64_t u, int n) __attribute__((always_inline)) {
    const Vec p = in_log ? exp(load(e + u)) : load(e + u);
    store_first(out + u, factor * (p * inverse - load_first(occupation + u, n, 0.0)), n);
  });
}

}  // namespace trellis::TRELLIS_ISA::ctc
