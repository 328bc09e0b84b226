// The best path through a CTC trellis, and the inner loops of the beam search, with SIMD along a row.
//
// Row layout as in ctc/types.hpp, but labels first: a row holds "label y_i" for all positions i, then
// "blank, after i labels". With max in place of the sum, and with scores p of the blank (-) and of
// labels,
//     blank'(i) = p(-)   + max(blank(i), label(i))
//     label'(i) = p(y_i) + max(label(i), blank(i-1), label(i-1) unless y_i = y_{i-1}).
// There are no back pointers: the backward pass compares the candidates of the previous row again.
#pragma once

#include "ctc/neighbours.hpp"

namespace trellis::TRELLIS_ISA::ctc {

template <class T>
TRELLIS_INLINE Vec look_up_scores(const T* scores, const std::int32_t* column) {
#if defined(__AVX512F__) && defined(__AVX512VL__)
  const __m256i index = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(column));
  if constexpr (sizeof(T) == sizeof(float)) {
    const __m256 gathered = _mm256_mmask_i32gather_ps(_mm256_setzero_ps(), 0xff, index, scores, 4);
    return _mm512_maskz_cvtps_pd(0xff, gathered);
  } else {
    return _mm512_mask_i32gather_pd(Vec{}, 0xff, index, scores, 8);
  }
#else
  Vec v;
  for (int k = 0; k < kWidth; ++k) v[k] = scores[column[k]];
  return v;
#endif
}

// Processes one frame, for positions [from, to), both multiples of kCtcBlock. Positions before `from`
// count as impossible.
template <class T>
TRELLIS_INLINE void best_step(const CtcPath& y, const T* scores, int from, int to, const double* before,
                              double* after) {
  const double *label = before, *blank = before + y.positions;
  const Vec p_blank = splat(static_cast<double>(scores[y.blank]));
  Vec label_left = splat(-kInfinity), blank_left = label_left;
  for (int i = from; i < to; i += kWidth) {
    const Vec l = load(label + i), b = load(blank + i);
    const Vec skipped = from_left(label_left, l) + load(y.skip + i);
    const Vec best = max(max(l, from_left(blank_left, b)), skipped);
    store(after + i, best + look_up_scores(scores, y.column + i));
    store(after + y.positions + i, max(b, l) + p_blank);
    label_left = l;
    blank_left = b;
  }
}

// Processes `count` frames. The row before the first is row[0]; the row after frame f is row[(f + 1) *
// stride].
template <class T>
void best_forward(const CtcPath& y, const T* scores, std::int64_t frame_stride, std::int64_t count,
                  CtcBand band, double* row, std::int64_t stride) {
  for (std::int64_t f = 0; f < count; ++f, row += stride) {
    const std::int64_t low = band.low + f * band.step, high = band.high + f * band.step;
    // A path can enter `low` from the position to the left of it, so that position is included.
    const int from = low <= 1 ? 0 : static_cast<int>((low - 1) / kCtcBlock * kCtcBlock);
    const int to = high + 1 >= y.positions
                       ? y.positions
                       : static_cast<int>((high + kCtcBlock) / kCtcBlock * kCtcBlock);
    best_step(y, scores + f * frame_stride, from, to, row, row + stride);
  }
}

// Returns the index of the first largest score, and writes that score to *top.
template <class T>
std::int64_t argmax(const T* scores, std::int64_t size, double* top) {
  Vec best = splat(-kInfinity);
  std::int64_t v = 0;
  for (; v + kWidth <= size; v += kWidth) best = max(load(scores + v), best);
  if (v < size) best = max(load_first(scores + v, static_cast<int>(size - v), -kInfinity), best);
  *top = max_lanes(best)[0];
  std::int64_t best_index = 0;
  while (best_index + 1 < size && static_cast<double>(scores[best_index]) != *top) ++best_index;
  return best_index;
}

// log(e^a + e^b)
TRELLIS_INLINE Vec log_add(Vec a, Vec b) {
  const Vec top = max(a, b), low = min(a, b);
  return select(top == -kInfinity, top, top + log(1.0 + exp(low - top)));
}

// star = log(e^star + e^entering), total = log(e^blank + e^star), for arrays padded to kCtcBlock.
inline void log_add_masses(const double* blank, const double* entering, double* star, double* total,
                           std::int64_t size) {
  for (std::int64_t i = 0; i < size; i += kWidth) {
    const Vec sum = log_add(load(star + i), load(entering + i));
    store(star + i, sum);
    store(total + i, log_add(load(blank + i), sum));
  }
}

}  // namespace trellis::TRELLIS_ISA::ctc
