// CTC in log space, which is exact for any scores. It is used for targets that scaled probabilities
// cannot represent.
//
// The forward rows are the logarithms of those in ctc/scaled.hpp, minus their maximum. In the backward
// pass the occupation of a state is divided among its predecessors,
//     p(state before | state) = exp(alpha before - log sum of alpha over all predecessors),
// by sums of positive terms only. There is no beta, and occupations sum to 1 at every frame.
#pragma once

#include "ctc/neighbours.hpp"

namespace trellis::TRELLIS_ISA::ctc {

// Up to three terms, first as logarithms; sum() turns them into values relative to the largest.
struct Terms {
  Vec a, b, c, top;

  TRELLIS_INLINE Vec sum() {  // 0 if all terms are log 0
    top = max(max(a, b), c);
    const Vec finite = select(top > -kInfinity, top, Vec{});
    a = exp(a - finite);
    b = exp(b - finite);
    c = exp(c - finite);
    return a + b + c;
  }
  TRELLIS_INLINE Vec log_sum() {
    const Vec total = sum();
    return select(top > -kInfinity, top + log(total), splat(-kInfinity));
  }
};

// Return the terms of the predecessors of "blank, after i labels" and of "label y_i", from a row of
// alpha.
TRELLIS_INLINE Terms before_blank(Vec blanks, Vec labels) {
  return {blanks, labels, splat(-kInfinity), Vec{}};
}
TRELLIS_INLINE Terms before_label(Vec labels, Vec blanks_left, Vec labels_left, Vec skip) {
  return {labels, blanks_left, select(skip > 0.0, labels_left, splat(-kInfinity)), Vec{}};
}

// Processes one frame; `from` may equal `to`. Returns the maximum that was subtracted from the new row.
inline double log_step(const CtcTarget& y, const double* from, double* to, const double* e) {
  const Vec blank = splat(e[y.blank]);
  const Vec none = splat(-kInfinity);
  Vec top = none, blanks_before = none, labels_before = none;
  for (int i = 0; i < y.positions; i += kWidth) {
    const Vec blanks = load(from + i), labels = load(from + y.positions + i);
    const Vec a = before_blank(blanks, labels).log_sum() + blank;
    const Vec b = before_label(labels, from_left(blanks_before, blanks),
                               from_left(labels_before, labels), load(y.skip + i))
                      .log_sum() +
                  look_up(e, y.column + i);
    top = max(max(a, b), top);
    store(to + i, a);
    store(to + y.positions + i, b);
    blanks_before = blanks;
    labels_before = labels;
  }
  top = max_lanes(top);
  top = select(top > -kInfinity, top, Vec{});
  for (int i = 0; i < 2 * y.positions; i += kWidth) store(to + i, load(to + i) - top);
  return top[0];
}

inline bool log_forward(const CtcTarget& y, const CtcFrames& x) {
  if (x.begin == 0) {
    for (int i = 0; i < 2 * y.positions; ++i) x.row[i] = i == 0 ? 0.0 : -kInfinity;
    x.unit[0] = 0.0;
  }
  for (int f = 0; f < x.count; ++f) {
    double* row = x.row + f * x.stride;
    x.unit[0] += log_step(y, row, row + x.stride, x.e + f * y.stride());
  }
  return true;
}

inline double log_finish(const CtcTarget& y, const double* row, const double* unit, double* back) {
  Terms end = before_blank(splat(row[y.labels]), splat(row[y.positions + y.labels]));
  const Vec sum = end.sum();
  for (int i = 0; i < 2 * y.positions; ++i) back[i] = 0.0;
  back[y.labels] = (end.a / sum)[0];
  back[y.positions + y.labels] = (end.b / sum)[0];
  return unit[0] + (end.top + log(sum))[0];
}

// Returns the occupation divided by the sum of the predecessors' terms; 0 for unreachable states.
TRELLIS_INLINE Vec divide_or_zero(Vec occupation, Vec sum) {
  return select(sum > 0.0, occupation / sum, Vec{});
}

// Replaces the occupations `gamma` of a row, in place, by those of the previous row, whose alpha is
// `from`.
inline void log_step_back(const CtcTarget& y, const double* from, double* gamma) {
  const Vec none = splat(-kInfinity);
  Vec entered_after{}, skipped_after{};
  for (int i = y.positions - kWidth; i >= 0; i -= kWidth) {
    const Vec blanks = load(from + i), labels = load(from + y.positions + i);
    const Vec blanks_before = i > 0 ? load(from + i - kWidth) : none;
    const Vec labels_before = i > 0 ? load(from + y.positions + i - kWidth) : none;
    Terms label = before_label(labels, from_left(blanks_before, blanks),
                               from_left(labels_before, labels), load(y.skip + i));
    const Vec to_label = divide_or_zero(load(gamma + y.positions + i), label.sum());
    Terms blank = before_blank(blanks, labels);
    const Vec to_blank = divide_or_zero(load(gamma + i), blank.sum());
    const Vec entered = label.b * to_label, skipped = label.c * to_label;
    store(gamma + i, blank.a * to_blank + from_right(entered, entered_after));
    store(gamma + y.positions + i,
          label.a * to_label + blank.b * to_blank + from_right(skipped, skipped_after));
    entered_after = entered;
    skipped_after = skipped;
  }
}

inline void log_backward(const CtcTarget& y, const CtcFrames& x, double* gamma, double* occupation,
                         double*) {
  for (int f = x.count - 1; f >= 0; --f) {
    double* frame_occupation = occupation + static_cast<std::int64_t>(f) * y.symbols;
    for (int u = 0; u < y.symbols; ++u) frame_occupation[u] = 0.0;
    for (int i = 0; i <= y.labels; ++i) frame_occupation[y.blank] += gamma[i];
    for (int i = 1; i <= y.labels; ++i) frame_occupation[y.column[i]] += gamma[y.positions + i];
    log_step_back(y, x.row + f * x.stride, gamma);
  }
}

}  // namespace trellis::TRELLIS_ISA::ctc
