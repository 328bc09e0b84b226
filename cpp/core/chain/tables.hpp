// The tables of the recursions in log space, exact for any scores: alpha, beta, and best scores with
// back pointers.
//
//     alpha_t(b) = log sum_a exp(alpha_{t-1}(a) + transition_t(a, b)) + unary_t(b)
//     beta_t(a)  = log sum_b exp(transition_{t+1}(a, b) + unary_{t+1}(b) + beta_{t+1}(b))
//     best_t(b)  = max_a (best_{t-1}(a) + transition_t(a, b)) + unary_t(b)
// These tables are results for the caller. The other kernels do not use them, because they need only a
// part of the numbers.
#pragma once

#include "base/poll.hpp"
#include "chain/log.hpp"
#include "chain/score_rows.hpp"

namespace trellis::TRELLIS_ISA {

// Returns log sum exp(x + y) over the labels; -inf if there is no label with a finite sum.
inline double log_sum(const SharedView& s, const double* x, const double* y) {
  Vec top = splat(-kInfinity);
  for (int v = 0; v < vectors(s); ++v) top = max(top, load(x + v * kWidth) + load(y + v * kWidth));
  top = max_lanes(top);
  if (!(top[0] > -kInfinity)) return -kInfinity;
  Vec total{};
  for (int v = 0; v < vectors(s); ++v) {
    total += exp(load(x + v * kWidth) + load(y + v * kWidth) - top);
  }
  return top[0] + __builtin_log(sum_lanes(total)[0]);
}

// Fills alpha, (length, labels), and log Z.
template <class T>
Outcome alpha_table(const SharedView& s, const Sequence<T>& x, double* scratch, double* out,
                    double* log_z) {
  if (!valid_unary(s, x)) return {Status::bad_unary, 0};
  double* buffer = scratch;
  double* before = scratch + s.labels * s.stride;
  double* here = before + s.stride;
  double* zeros = here + s.stride;
  bool valid = true;
  for (int v = 0; v < vectors(s); ++v) store(zeros + v * kWidth, Vec{});
  PollEvery poll(row_cost(s));
  for (std::int64_t t = 0; t < x.length; ++t) {
    poll.step();
    const double* edge = edge_of(s, t, x.length);
    const double* transition = t == 0 ? nullptr : transition_into(s, x, t, buffer, &valid);
    if (!valid) return {Status::bad_transition, t};
    for (int v = 0; v < vectors(s); ++v) {
      Vec alpha = unary_scores(s, x, t, edge, v);
      if (t > 0) alpha += log_column<false>(s, transition, before, v, nullptr, nullptr);
      store(here + v * kWidth, alpha);
      store_first(out + t * s.labels + v * kWidth, alpha, lanes_of(s, v));
    }
    double* swap = before;
    before = here;
    here = swap;
  }
  *log_z = log_sum(s, before, zeros);
  return {};
}

// Fills beta, (length, labels), and log Z.
template <class T>
Outcome beta_table(const SharedView& s, const Sequence<T>& x, double* scratch, double* out,
                   double* log_z) {
  if (!valid_unary(s, x)) return {Status::bad_unary, 0};
  double* buffer = scratch;
  double* beta = scratch + s.labels * s.stride;
  double* through = beta + s.stride;
  double* zeros = through + s.stride;
  bool valid = true;
  for (int v = 0; v < vectors(s); ++v) {
    store(zeros + v * kWidth, Vec{});
    store(beta + v * kWidth, Vec{});
  }
  PollEvery poll(row_cost(s));
  for (std::int64_t t = x.length - 1; t >= 0; --t) {
    poll.step();
    const double* edge = edge_of(s, t, x.length);
    for (int v = 0; v < vectors(s); ++v) {
      const Vec after = load(beta + v * kWidth);
      store_first(out + t * s.labels + v * kWidth, after, lanes_of(s, v));
      store(through + v * kWidth, unary_scores(s, x, t, edge, v) + after);
    }
    if (t == 0) break;
    const double* transition = transition_into(s, x, t, buffer, &valid);
    if (!valid) return {Status::bad_transition, t};
    for (int a = 0; a < s.labels; ++a) beta[a] = log_sum(s, transition + a * s.stride, through);
  }
  *log_z = log_sum(s, through, zeros);
  return {};
}

// Fills `out` with the best scores, (length, labels), and `pointers` with the best previous label of
// each label: the first one if several are equally good, -1 at the first position and where no path
// reaches the label. *score becomes the score of the best path.
template <class T>
Outcome best_table(const SharedView& s, const Sequence<T>& x, double* scratch, double* out,
                   std::int64_t* pointers, double* score) {
  if (!valid_unary(s, x)) return {Status::bad_unary, 0};
  double* buffer = scratch;
  double* before = scratch + s.labels * s.stride;
  double* here = before + s.stride;
  bool valid = true;
  PollEvery poll(row_cost(s));
  for (std::int64_t t = 0; t < x.length; ++t) {
    poll.step();
    const double* edge = edge_of(s, t, x.length);
    const double* transition = t == 0 ? nullptr : transition_into(s, x, t, buffer, &valid);
    if (!valid) return {Status::bad_transition, t};
    Vec highest = splat(-kInfinity);
    for (int v = 0; v < vectors(s); ++v) {
      Vec top = splat(t == 0 ? 0.0 : -kInfinity), from = splat(-1.0);
      for (int a = 0; t > 0 && a < s.labels; ++a) {
        const Vec candidate = before[a] + load(transition + a * s.stride + v * kWidth);
        const Mask better = candidate > top;
        top = select(better, candidate, top);
        from = select(better, splat(a), from);
      }
      top += unary_scores(s, x, t, edge, v);
      from = select(top > -kInfinity, from, splat(-1.0));
      highest = max(highest, top);
      store(here + v * kWidth, top);
      store_first(out + t * s.labels + v * kWidth, top, lanes_of(s, v));
      for (int i = 0; i < lanes_of(s, v); ++i) {
        pointers[t * s.labels + v * kWidth + i] = static_cast<std::int64_t>(from[i]);
      }
    }
    *score = max_lanes(highest)[0];
    double* swap = before;
    before = here;
    here = swap;
  }
  return {};
}

}  // namespace trellis::TRELLIS_ISA
