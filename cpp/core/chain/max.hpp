// Best paths: the forward recursion with max instead of sum.
//
//     best_t(b) = max_a best_{t-1}(a) + transition_t(a, b)  + unary_t(b)
// Only the values are stored. The predecessor of a label is found again in the backward pass, and only
// for the labels on the best path: L additions per position instead of an argmax for each of L labels.
#pragma once

#include "base/poll.hpp"
#include "chain/score_rows.hpp"
#include "chain/semiring.hpp"

namespace trellis::TRELLIS_ISA {

inline double row_max(const SharedView& s, const double* row) {
  Vec top = splat(-kInfinity);
  for (int v = 0; v < vectors(s); ++v) top = max(top, load(row + v * kWidth));
  return max_lanes(top)[0];
}

// Returns the outcome of a best-path search. All rows must be filled.
template <class T>
inline Outcome max_outcome(const SharedView& s, const Sequence<T>& x, const double* rows,
                           std::int64_t bad_transition) {
  if (!valid_unary(s, x)) return {Status::bad_unary, 0};
  if (bad_transition != 0) return {Status::bad_transition, bad_transition};
  if (row_max(s, rows + (x.length - 1) * s.stride) > -kInfinity) return {};
  std::int64_t t = 0;
  while (row_max(s, rows + t * s.stride) > -kInfinity) ++t;
  return {Status::infeasible, t};
}

// Fills rows[r], (length, stride), for `count` sequences, longest first. next[r], or null, points to
// scores to prefetch. More than one sequence requires shared transitions.
template <class T>
void max_forward(const SharedView& s, const Sequence<T>* x, int count, const T* const* next,
                 double* const* rows, double* scratch, Outcome* outcome) {
  std::int64_t bad_transition = 0;
  int now = count;
  PollEvery poll(row_cost(s));
  for (std::int64_t t = 0; t < x[0].length; ++t) {
    poll.step();
    now = active(x, now, t);
    const double* before[kGroup];
    double* here[kGroup];
    for (int r = 0; r < now; ++r) {
      here[r] = rows[r] + t * s.stride;
      before[r] = here[r] - s.stride;
    }
    if (t > 0) {
      bool valid = true;
      const double* transition = transition_into(s, x[0], t, scratch, &valid);
      if (!valid && bad_transition == 0) bad_transition = t;
      products<MaxPlus>(s, transition, before, here, now);
    }
    for (int r = 0; r < now; ++r) {
      prefetch_row<0>(s, next[r], t);
      const double* edge = edge_of(s, t, x[r].length);
      for (int v = 0; v < vectors(s); ++v) {
        const Vec u = unary_scores(s, x[r], t, edge, v);
        store(here[r] + v * kWidth, t > 0 ? load(here[r] + v * kWidth) + u : u);
      }
    }
  }
  for (int r = 0; r < count; ++r) outcome[r] = max_outcome(s, x[r], rows[r], bad_transition);
}

// Returns the first label with the largest row[a] + column[a]. No branch depends on the scores.
inline int argmax(const SharedView& s, const double* row, const double* column) {
  Vec top = splat(-kInfinity), from = Vec{};
  for (int v = 0; v < vectors(s); ++v) {
    const Vec score = load(row + v * kWidth) + load(column + v * kWidth);
    const Mask is_better = score > top;
    top = select(is_better, score, top);
    from = select(is_better, splat(v * kWidth), from);
  }
  for (int i = 0; i < kWidth; ++i) from[i] += i;
  const Vec best = max_lanes(top);
  return static_cast<int>(min_lanes(select(top == best, from, splat(kInfinity)))[0]);
}

// Computes the best paths of a group, position by position for all sequences. A step of one sequence
// must wait for its previous step; meanwhile the CPU can work on the other sequences. A sequence without
// an allowed path gets arbitrary labels and score -inf.
template <class T>
void best_paths(const SharedView& s, const Sequence<T>* x, int count, const double* const* rows,
                double* scratch, std::int64_t* const* labels, double* score) {
  double* zeros = scratch;
  double* column = scratch + s.stride;  // finite past the labels: row + column is -inf there
  for (int a = 0; a < s.stride; ++a) zeros[a] = column[a] = 0.0;
  int after[kGroup] = {};  // the labels at t + 1, not read from `labels`: another thread could change it
  PollEvery poll(kRowCost + s.stride);
  for (std::int64_t t = x[0].length - 1; t >= 0; --t) {
    poll.step();
    const int now = active(x, count, t);
    for (int r = 0; r < now; ++r) {
      const double* row = rows[r] + t * s.stride;
      if (t == x[r].length - 1) {
        after[r] = argmax(s, row, zeros);
        score[r] = row[after[r]];
      } else {
        after[r] = argmax(s, row, transition_column(s, x[r], t + 1, after[r], column));
      }
      labels[r][t] = after[r];
    }
  }
}

// Computes max-marginals from the forward rows: best_t plus the best score of the positions after t.
template <class T>
void max_backward(const SharedView& s, const Sequence<T>& x, const double* rows, double* scratch,
                  T* out) {
  double* buffer = scratch;
  double* after = scratch + s.labels * s.stride;  // the best score after position t, per label at t
  double* through = after + s.stride;
  bool valid = true;
  for (int v = 0; v < vectors(s); ++v) store(after + v * kWidth, Vec{});
  PollEvery poll(row_cost(s));
  for (std::int64_t t = x.length - 1; t >= 0; --t) {
    poll.step();
    const double* edge = edge_of(s, t, x.length);
    for (int v = 0; v < vectors(s); ++v) {
      const Vec after_t = load(after + v * kWidth);
      store_first(out + t * s.labels + v * kWidth, load(rows + t * s.stride + v * kWidth) + after_t,
                  lanes_of(s, v));
      store(through + v * kWidth, unary_scores(s, x, t, edge, v) + after_t);
    }
    if (t == 0) break;
    const double* transition = transition_into(s, x, t, buffer, &valid);
    for (int a = 0; a < s.labels; ++a) {
      Vec top = splat(-kInfinity);
      for (int v = 0; v < vectors(s); ++v) {
        top = max(top, load(transition + a * s.stride + v * kWidth) + load(through + v * kWidth));
      }
      after[a] = max_lanes(top)[0];
    }
  }
}

}  // namespace trellis::TRELLIS_ISA
