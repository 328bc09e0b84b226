// Access to rows of scores: shared by the scaled, log-space and max-plus kernels.
#pragma once

#include <cstddef>

#include "base/simd.hpp"
#include "chain/types.hpp"

namespace trellis::TRELLIS_ISA {

// Returns the number of vectors that hold the labels. Later columns of a row are never read.
TRELLIS_INLINE int vectors(const SharedView& s) { return (s.labels + kWidth - 1) / kWidth; }

// Returns the number of lanes of vector v that are labels.
TRELLIS_INLINE int lanes_of(const SharedView& s, int v) {
  const int labels_left = s.labels - v * kWidth;
  return labels_left < kWidth ? labels_left : kWidth;
}

// Returns vector v of the unary scores at position t plus start and end scores (`edge`, from edge_of).
// Lanes past the labels are `fill`.
template <class T>
TRELLIS_INLINE Vec unary_scores(const SharedView& s, const Sequence<T>& x, std::int64_t t,
                                const double* edge, int v, double fill = -kInfinity) {
  const T* row = x.unary + t * s.labels + v * kWidth;
  return load_first(row, lanes_of(s, v), fill) + load(edge + v * kWidth);
}

// Prefetches row t of an array that will soon be read or written. The hardware prefetcher cannot predict
// short sequences in irregular order. Prefetching past the end is harmless.
template <int kWrite, class T>
TRELLIS_INLINE void prefetch_row(const SharedView& s, const T* rows, std::int64_t t) {
  if (rows == nullptr) return;
  const char* row = reinterpret_cast<const char*>(rows + t * s.labels);
  for (std::size_t i = 0; i < s.labels * sizeof(T); i += 64) __builtin_prefetch(row + i, kWrite, 2);
}

// Returns a mask of the lanes that are NaN, +inf, or finite and beyond kLargestScore.
TRELLIS_INLINE Mask not_a_score(Vec v) {
  return ~((v <= kLargestScore) & (v >= -kLargestScore)) & ~(v == -kInfinity);
}

// Returns how many of the `count` sequences, longest first, have a position t.
template <class Item>
TRELLIS_INLINE int active(const Item* items, int count, std::int64_t t) {
  while (count > 0 && length_of(items[count - 1]) <= t) --count;
  return count;
}

// Returns the transition scores into position t, (labels, stride): the shared matrix, or a padded copy
// in `buffer`. Sets *valid to false if one of them is NaN, +inf, or finite and beyond kLargestScore.
template <class T>
inline const double* transition_into(const SharedView& s, const Sequence<T>& x, std::int64_t t,
                                     double* buffer, bool* valid) {
  if (s.log != nullptr) return s.log;
  const T* matrix = x.transition + (t - 1) * s.labels * s.labels;
  Mask invalid_lanes{};
  for (int a = 0; a < s.labels; ++a) {
    for (int v = 0; v < vectors(s); ++v) {
      const Vec row = load_first(matrix + a * s.labels + v * kWidth, lanes_of(s, v), -kInfinity);
      invalid_lanes |= not_a_score(row);
      store(buffer + a * s.stride + v * kWidth, row);
    }
  }
  if (any(invalid_lanes)) *valid = false;
  return buffer;
}

// Returns column `to` of the transition scores into position t: entry a scores label a followed by `to`.
// If the column is not contiguous, it is copied to `buffer`; entries past the labels do not change.
template <class T>
TRELLIS_INLINE const double* transition_column(const SharedView& s, const Sequence<T>& x, std::int64_t t,
                                               int to, double* buffer) {
  if (s.log_by_to != nullptr) return s.log_by_to + to * s.stride;
  const T* column = x.transition + (t - 1) * s.labels * s.labels + to;
  for (int a = 0; a < s.labels; ++a) buffer[a] = static_cast<double>(column[a * s.labels]);
  return buffer;
}

// Returns whether each unary score, with start and end scores added, is -inf or a number within
// kLargestScore, and whether the shared scores are in range too.
template <class T>
inline bool valid_unary(const SharedView& s, const Sequence<T>& x) {
  Mask invalid_lanes{};
  for (std::int64_t t = 0; t < x.length; ++t) {
    const double* edge = edge_of(s, t, x.length);
    for (int v = 0; v < vectors(s); ++v) invalid_lanes |= not_a_score(unary_scores(s, x, t, edge, v));
  }
  return s.in_range && !any(invalid_lanes);
}

}  // namespace trellis::TRELLIS_ISA
