// Best paths: the forward recursion with max instead of sum.
//
//     best_t(b) = max_a best_{t-1}(a) + transition_t(a, b)  + unary_t(b)
// Only the values are kept. Where the best path comes from is asked again on the way back, for the one
// label it goes through: L additions a position instead of an argmax for each of L labels.
#pragma once

#include "chain_rows.hpp"
#include "semiring.hpp"

namespace trellis::TRELLIS_ISA {

inline double row_max(const Shared& s, const double* row) {
  Vec top = splat(-kInfinity);
  for (int v = 0; v < vectors(s); ++v) top = max(top, load(row + v * kWidth));
  return max_lanes(top)[0];
}

// Fills rows[r], (length, stride), for `count` sequences, longest first. More than one sequence only
// with shared transitions.
template <class T>
void max_forward(const Shared& s, const Sequence<T>* x, int count, double* const* rows,
                 double* scratch, Outcome* outcome) {
  std::int64_t invalid[kGroup][kPadding] = {};
  std::int64_t bad_transition = 0;
  const std::int64_t longest = x[0].length;
  int now = count;
  for (std::int64_t t = 0; t < longest; ++t) {
    now = active(x, now, t);
    if (t > 0) {
      const double* before[kGroup];
      double* here[kGroup];
      for (int r = 0; r < now; ++r) {
        before[r] = rows[r] + (t - 1) * s.stride;
        here[r] = rows[r] + t * s.stride;
      }
      bool valid = true;
      const double* transition = transition_into(s, x[0], t, scratch, &valid);
      if (!valid && bad_transition == 0) bad_transition = t;
      products<MaxPlus>(s, transition, before, here, now);
    }
    for (int r = 0; r < now; ++r) {
      double* row = rows[r] + t * s.stride;
      for (int v = 0; v < vectors(s); ++v) {
        const Vec u = unary_scores(s, x[r], t, v);
        gather(invalid[r], not_a_score(u));
        store(row + v * kWidth, t > 0 ? load(row + v * kWidth) + u : u);
      }
    }
  }
  for (int r = 0; r < count; ++r) {
    std::int64_t flags = 0;
    for (int i = 0; i < kPadding; ++i) flags |= invalid[r][i];
    outcome[r] = {};
    if (flags != 0) {
      outcome[r] = {Status::bad_unary, 0};
    } else if (bad_transition != 0) {
      outcome[r] = {Status::bad_transition, bad_transition};
    } else if (row_max(s, rows[r] + (x[r].length - 1) * s.stride) == -kInfinity) {
      std::int64_t t = 0;
      while (row_max(s, rows[r] + t * s.stride) > -kInfinity) ++t;
      outcome[r] = {Status::infeasible, t};
    }
  }
}

// The first label with the largest score.
inline int argmax(const Shared& s, const double* scores) {
  const Vec top = splat(row_max(s, scores));
  for (int v = 0;; ++v) {
    const Mask equal = load(scores + v * kWidth) == top;
    for (int i = 0; i < kWidth; ++i) {
      if (equal[i] != 0) return v * kWidth + i;
    }
  }
}

template <class T>
double best_path(const Shared& s, const Sequence<T>& x, const double* rows, double* scratch,
                 std::int64_t* labels) {
  double* scores = scratch;
  for (int a = 0; a < s.stride; ++a) scores[a] = -kInfinity;
  const double* last = rows + (x.length - 1) * s.stride;
  int label = argmax(s, last);
  labels[x.length - 1] = label;
  for (std::int64_t t = x.length - 1; t > 0; --t) {
    const double* row = rows + (t - 1) * s.stride;
    for (int a = 0; a < s.labels; ++a) scores[a] = row[a];
    add_column(s, x, t, label, scores);
    label = argmax(s, scores);
    labels[t - 1] = label;
  }
  return last[labels[x.length - 1]];
}

// Max-marginals from the forward rows: best_t plus the best that can follow.
template <class T>
void max_backward(const Shared& s, const Sequence<T>& x, const double* rows, double* scratch, T* out) {
  double* buffer = scratch;
  double* after = scratch + s.labels * s.stride;  // the best score after position t, per label at t
  double* through = after + s.stride;
  bool valid = true;
  for (int v = 0; v < vectors(s); ++v) store(after + v * kWidth, Vec{});
  for (std::int64_t t = x.length - 1; t >= 0; --t) {
    for (int v = 0; v < vectors(s); ++v) {
      const Vec rest = load(after + v * kWidth);
      store_first(out + t * s.labels + v * kWidth, load(rows + t * s.stride + v * kWidth) + rest,
                  lanes_of(s, v));
      store(through + v * kWidth, unary_scores(s, x, t, v) + rest);
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
