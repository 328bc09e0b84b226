// y = x M over a semiring, for several vectors x at once: the inner loop of all chain recursions.
#pragma once

#include "base/simd.hpp"
#include "chain/score_rows.hpp"
#include "chain/types.hpp"

namespace trellis::TRELLIS_ISA {

// Sums over paths of products of probabilities.
struct SumProduct {
  static TRELLIS_INLINE Vec zero() { return Vec{}; }
  static TRELLIS_INLINE Vec add(Vec a, Vec b) { return a + b; }
  static TRELLIS_INLINE Vec times(Vec x, Vec m) { return x * m; }
};

// Maxima over paths of sums of scores.
struct MaxPlus {
  static TRELLIS_INLINE Vec zero() { return splat(-kInfinity); }
  static TRELLIS_INLINE Vec add(Vec a, Vec b) { return max(a, b); }
  static TRELLIS_INLINE Vec times(Vec x, Vec m) { return x + m; }
};

// The accumulators must fit in registers: AVX-512 has 32 vector registers, the others have 16.
inline constexpr int kTile = kWidth == 8 ? 3 : 2;    // vectors of labels per tile
inline constexpr int kChains = kWidth == 8 ? 2 : 1;  // independent sums, to hide the latency of FMA

// Computes columns [column, column + N vectors) of y_r = x_r M, for r < R. The order of the sum depends
// neither on R nor on N, so the other sequences of a group do not change the bits of a result.
template <class S, int R, int N>
TRELLIS_INLINE void product_tile(const double* m, int stride, int rows, const double* const* x,
                                 double* const* y, int column) {
  Vec acc[kChains][R][N];
#pragma GCC unroll 2
  for (int c = 0; c < kChains; ++c) {
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) acc[c][r][n] = S::zero();
    }
  }
  int i = 0;
  for (; i + kChains <= rows; i += kChains) {
#pragma GCC unroll 2
    for (int c = 0; c < kChains; ++c) {
      Vec row[N];
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) row[n] = load(m + (i + c) * stride + column + n * kWidth);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const Vec value = splat(x[r][i + c]);
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n) acc[c][r][n] = S::add(acc[c][r][n], S::times(value, row[n]));
      }
    }
  }
  if (i < rows) {  // with two chains and an odd number of rows, one row remains
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const Vec value = splat(x[r][i]);
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) {
        const Vec row = load(m + i * stride + column + n * kWidth);
        acc[0][r][n] = S::add(acc[0][r][n], S::times(value, row));
      }
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) {
      Vec total = acc[0][r][n];
      if constexpr (kChains == 2) total = S::add(total, acc[1][r][n]);
      store(y[r] + column + n * kWidth, total);
    }
  }
}

// Computes all columns of R products y_r = x_r M, with M (labels, stride).
template <class S, int R>
inline void products_of(const SharedView& s, const double* m, const double* const* x, double* const* y) {
  int v = 0;
  const int count = vectors(s);
  for (; v + kTile <= count; v += kTile) {
    product_tile<S, R, kTile>(m, s.stride, s.labels, x, y, v * kWidth);
  }
  if constexpr (kTile == 3) {
    if (v + 2 <= count) {
      product_tile<S, R, 2>(m, s.stride, s.labels, x, y, v * kWidth);
      v += 2;
    }
  }
  if (v < count) product_tile<S, R, 1>(m, s.stride, s.labels, x, y, v * kWidth);
}

// y_r = x_r M for `count` <= kGroup vectors. The count is a template argument, so loops are unrolled.
template <class S>
inline void products(const SharedView& s, const double* m, const double* const* x, double* const* y,
                     int count) {
  switch (count) {
    case 4: return products_of<S, 4>(s, m, x, y);
    case 3: return products_of<S, 3>(s, m, x, y);
    case 2: return products_of<S, 2>(s, m, x, y);
    case 1: return products_of<S, 1>(s, m, x, y);
    default: return;
  }
}

}  // namespace trellis::TRELLIS_ISA
