// Reading score rows: shared by the scaled, log-space and max-plus kernels.
#pragma once

#include "chain_types.hpp"
#include "simd.hpp"

namespace trellis::TRELLIS_ISA {

// How many vectors hold the labels; columns between that and the stride are never touched.
TRELLIS_INLINE int vectors(const Shared& s) { return (s.labels + kWidth - 1) / kWidth; }

// Lanes of vector v that are labels.
TRELLIS_INLINE int lanes_of(const Shared& s, int v) {
  const int left = s.labels - v * kWidth;
  return left < kWidth ? left : kWidth;
}

// Vector v of the unary scores at position t, with start and end scores folded in; -inf past the labels.
template <class T>
TRELLIS_INLINE Vec unary_scores(const Shared& s, const Sequence<T>& x, std::int64_t t, int v) {
  Vec u = load_first(x.unary + t * s.labels + v * kWidth, lanes_of(s, v), -kInfinity);
  if (t == 0) u += load(s.start + v * kWidth);
  if (t == x.length - 1) u += load(s.end + v * kWidth);
  return u;
}

TRELLIS_INLINE Mask not_a_score(Vec v) { return ~(v < kInfinity); }  // NaN or +inf

// Remembers true lanes; whether any was set is asked once, at the end of a sequence.
TRELLIS_INLINE void gather(std::int64_t* flags, Mask m) {
  Mask seen;
  std::memcpy(&seen, flags, sizeof seen);
  seen |= m;
  std::memcpy(flags, &seen, sizeof seen);
}

// Of `count` sequences, longest first, those that reach position t.
template <class Item>
TRELLIS_INLINE int active(const Item* items, int count, std::int64_t t) {
  while (count > 0 && length_of(items[count - 1]) <= t) --count;
  return count;
}

// The transition scores into position t, padded: the shared matrix, or this position's in `buffer`.
template <class T>
inline const double* transition_into(const Shared& s, const Sequence<T>& x, std::int64_t t,
                                     double* buffer, bool* valid) {
  if (s.log != nullptr) return s.log;
  const T* matrix = x.transition + (t - 1) * s.labels * s.labels;
  Mask bad{};
  for (int a = 0; a < s.labels; ++a) {
    for (int v = 0; v < vectors(s); ++v) {
      const Vec row = load_first(matrix + a * s.labels + v * kWidth, lanes_of(s, v), -kInfinity);
      bad |= not_a_score(row);
      store(buffer + a * s.stride + v * kWidth, row);
    }
  }
  if (any(bad)) *valid = false;
  return buffer;
}

// scores[a] += transition_t(a, to): one column of the transition scores into position t.
template <class T>
TRELLIS_INLINE void add_column(const Shared& s, const Sequence<T>& x, std::int64_t t, int to,
                               double* scores) {
  if (s.log_by_to != nullptr) {
    const double* column = s.log_by_to + to * s.stride;
    for (int a = 0; a < s.labels; ++a) scores[a] += column[a];
  } else {
    const T* column = x.transition + (t - 1) * s.labels * s.labels + to;
    for (int a = 0; a < s.labels; ++a) scores[a] += column[a * s.labels];
  }
}

template <class T>
inline bool valid_unary(const Shared& s, const Sequence<T>& x) {
  Mask bad{};
  for (std::int64_t t = 0; t < x.length; ++t) {
    for (int v = 0; v < vectors(s); ++v) bad |= not_a_score(unary_scores(s, x, t, v));
  }
  return !any(bad);
}

}  // namespace trellis::TRELLIS_ISA
