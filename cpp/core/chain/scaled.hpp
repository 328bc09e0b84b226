// Forward-backward in scaled probability space: the fast path.
//
//     m_t(b)     = sum_a alpha_{t-1}(a) psi(a, b)           psi = exp(transition - shift)
//     alpha_t(b) = m_t(b) w_t(b)                            w_t = exp(unary_t - reference) / s_{t-1}
//     beta_{t-1}(a) = sum_b psi(a, b) w_t(b) beta_t(b)      s_t = sum_b alpha_t(b), beta_T = 1 / s_T
//     p(y_t = b) = alpha_t(b) beta_t(b)      p(y_{t-1} = a, y_t = b) = alpha_{t-1}(a) psi(a, b) q_t(b)
// with q_t = w_t beta_t. The reference is the largest unary score of the position or of its block; the
// shift is the largest transition score. log Z is the sum of log s_t and of the references and shifts.
// Dividing by the sum of the step before, not of this one, keeps the sum, the division and the
// exponentials off the critical path from one step to the next. Scaled probabilities are exact only as
// long as no alpha underflows. Every factor and every non-zero alpha is compared with a threshold; above
// it, no product of them can underflow. A sequence below the threshold is flagged and recomputed in log
// space (chain/log.hpp). By induction, alpha = 0 then means "no allowed path", never "too small".
// src/trellis/inference/chain/README.md has the proof.
#pragma once

#include "base/poll.hpp"
#include "chain/score_rows.hpp"
#include "chain/semiring.hpp"

namespace trellis::TRELLIS_ISA {

// A product of kTinyAlpha and two factors e^-kWidestScores is still a normal number.
inline constexpr double kTinyAlpha = 1e-150;

// Checks whether the block of positions [begin, end) is plain. In a plain block no probability can be 0
// or close to underflow, and all rows use the same reference score.
template <class T>
inline void check_plain(const SharedView& s, Lane<T>& lane, std::int64_t begin, std::int64_t end) {
  const Sequence<T>& x = lane.sequence;
  Vec low = splat(kInfinity), high = splat(-kInfinity);
  for (std::int64_t t = begin; t < end; ++t) {
    const double* edge = edge_of(s, t, x.length);
    const double any_score = static_cast<double>(x.unary[t * s.labels]) + edge[0];
    for (int v = 0; v < vectors(s); ++v) {
      const Vec u = unary_scores(s, x, t, edge, v, any_score);
      low = min(u, low);
      high = max(u, high);
    }
  }
  lane.reference = max_lanes(high)[0];
  const double range = lane.reference - min_lanes(low)[0];
  lane.plain = s.dense && range <= kWidestScores;  // false also for NaN and infinite ranges
}

// Sends a sequence whose reference is beyond kLargestScore to log space, where all scores are validated.
// The other scores need no check: they lie within kWidestScores of the reference, or the sequence goes
// to log space anyway.
template <class T>
TRELLIS_INLINE void check_range(Lane<T>& lane, double reference) {
  if (reference > kLargestScore || reference < -kLargestScore) lane.low_score[0] = -kInfinity;
}

// Computes e_t = exp(unary_t - maximum of the row), and returns the maximum. Used for blocks with
// forbidden labels, or with scores too far apart for one reference.
template <class T>
inline double row_reference(const SharedView& s, Lane<T>& lane, std::int64_t t, double* e) {
  const double* edge = edge_of(s, t, lane.sequence.length);
  Vec top = splat(-kInfinity);
  for (int v = 0; v < vectors(s); ++v) {
    const Vec u = unary_scores(s, lane.sequence, t, edge, v);
    top = max(top, u);
    store(e + v * kWidth, u);
  }
  top = max_lanes(top);
  top = select(top == -kInfinity, Vec{}, top);  // no label is allowed here: all e are 0
  Vec low_score = load(lane.low_score);
  for (int v = 0; v < vectors(s); ++v) {
    const Vec raw = load(e + v * kWidth), u = raw - top;
    low_score = min(select(raw > -kInfinity, u, Vec{}), low_score);
    store(e + v * kWidth, exp(u));
  }
  store(lane.low_score, low_score);
  check_range(lane, top[0]);
  return top[0];
}

// Computes e_t = exp(unary_t - reference) for a whole block before the recursion. Exponentials of
// different positions do not depend on each other. Inside the recursion they would lengthen the critical
// path.
template <class T>
inline void emissions(const SharedView& s, Lane<T>& lane, std::int64_t begin, std::int64_t end) {
  end = end < lane.sequence.length ? end : lane.sequence.length;
  check_plain(s, lane, begin, end);
  const Vec reference = splat(lane.reference);
  for (std::int64_t t = begin; t < end; ++t) {
    double* e = lane.emission + (t - begin + 1) * s.stride;
    if (!lane.plain) {
      lane.log_z += row_reference(s, lane, t, e);
      continue;
    }
    const double* edge = edge_of(s, t, lane.sequence.length);
    for (int v = 0; v < vectors(s); ++v) {
      const Vec u = unary_scores(s, lane.sequence, t, edge, v, lane.reference);
      store(e + v * kWidth, exp_in_range(u - reference));
    }
  }
  if (begin >= end) return;
  if (lane.plain) {
    lane.log_z += static_cast<double>(end - begin) * lane.reference;
    check_range(lane, lane.reference);
  }
  lane.log_z += static_cast<double>(end - begin - (begin == 0 ? 1 : 0)) * s.shift;
}

// Records the sum of alpha_t for log Z, and its inverse for the next step.
template <class T>
TRELLIS_INLINE void take_sum(Lane<T>& lane, std::int64_t t, double sum) {
  if (sum > 0.0) {
    lane.inverse = 1.0 / sum;
    lane.product *= sum;
    if (lane.product < kSmallestProduct || lane.product > kLargestProduct) {
      lane.log_z += __builtin_log(lane.product);
      lane.product = 1.0;
    }
    return;
  }
  lane.inverse = 0.0;
  if (sum != sum) {  // NaN comes from scores that are NaN or +inf
    lane.outcome = {Status::bad_unary, t};
  } else if (lane.outcome.status == Status::ok) {
    lane.outcome = {Status::infeasible, t};
  }
}

// Turns m_t in `alpha` into alpha_t, and e_t in `e` into w_t. Weights of labels that no path reaches are
// set to 0: their backward messages could grow without bound.
template <bool kPlain, class T>
inline void forward_row(const SharedView& s, Lane<T>& lane, std::int64_t t, double* alpha, double* e) {
  const Vec inverse = splat(lane.inverse);
  Vec total{}, low_alpha = load(lane.low_alpha);
  for (int v = 0; v < vectors(s); ++v) {
    Vec weight = load(e + v * kWidth) * inverse;
    const Vec a = load(alpha + v * kWidth) * weight;
    if constexpr (!kPlain) {
      const Mask reached = a > 0.0;
      low_alpha = min(select(reached, a, splat(1.0)), low_alpha);
      weight = select(reached, weight, Vec{});
    }
    total += a;
    store(alpha + v * kWidth, a);
    store(e + v * kWidth, weight);
  }
  if constexpr (!kPlain) store(lane.low_alpha, low_alpha);
  take_sum(lane, t, sum_lanes(total)[0]);
}

// m_0 = 1 for the labels, 0 past them.
inline void set_ones(const SharedView& s, double* m) {
  for (int i = 0; i < s.stride; ++i) m[i] = i < s.labels ? 1.0 : 0.0;
}

template <class T>
void scaled_forward(const SharedView& s, Lane<T>* lanes, int count, std::int64_t begin,
                    std::int64_t end) {
  for (int r = 0; r < count; ++r) emissions(s, lanes[r], begin, end);
  PollEvery poll(count * row_cost(s));
  for (std::int64_t t = begin; t < end; ++t) {
    poll.step();
    count = active(lanes, count, t);
    const std::int64_t row = (t - begin + 1) * s.stride;
    const double* before[kGroup];
    double* here[kGroup];
    for (int r = 0; r < count; ++r) {
      before[r] = lanes[r].alpha + row - s.stride;
      here[r] = lanes[r].alpha + row;
    }
    if (t > 0) {
      products<SumProduct>(s, s.weight, before, here, count);
    } else {
      for (int r = 0; r < count; ++r) set_ones(s, here[r]);
    }
    for (int r = 0; r < count; ++r) {
      prefetch_row<0>(s, lanes[r].next, t);
      double* e = lanes[r].emission + row;
      if (lanes[r].plain) {
        forward_row<true>(s, lanes[r], t, here[r], e);
      } else {
        forward_row<false>(s, lanes[r], t, here[r], e);
      }
    }
  }
}

// Computes log Z after the last position, and whether log space is needed instead.
template <class T>
void scaled_finish(const SharedView&, Lane<T>& lane) {
  double low_score = 0.0, low_alpha = 1.0;
  for (int i = 0; i < kWidth; ++i) {
    low_score = lane.low_score[i] < low_score ? lane.low_score[i] : low_score;
    low_alpha = lane.low_alpha[i] < low_alpha ? lane.low_alpha[i] : low_alpha;
  }
  lane.log_z += __builtin_log(lane.product);
  // Near underflow, an outcome that was found so far may be wrong too. The computation in log space
  // validates all scores again.
  if (low_score < -kWidestScores || low_alpha < kTinyAlpha) {
    lane.outcome = {Status::needs_log_space, 0};
  }
}

// Computes unary marginals at positions [begin, end). Leaves q_t in the emission rows, for
// outer_products().
template <class T>
void scaled_backward(const SharedView& s, Lane<T>* lanes, int count, std::int64_t begin,
                     std::int64_t end) {
  PollEvery poll(count * row_cost(s));
  for (std::int64_t t = end - 1; t >= begin; --t) {
    poll.step();
    const int now = active(lanes, count, t);
    const std::int64_t row = (t - begin + 1) * s.stride;
    const double* message[kGroup];
    double* beta[kGroup];
    for (int r = 0; r < now; ++r) {
      Lane<T>& lane = lanes[r];
      const bool last = t == lane.sequence.length - 1;
      T* out = lane.out + t * s.labels;
      prefetch_row<1>(s, lane.next_out, t);
      for (int v = 0; v < vectors(s); ++v) {
        const Vec b = last ? splat(lane.inverse) : load(lane.beta + v * kWidth);
        double* q = lane.emission + row + v * kWidth;
        store_first(out + v * kWidth, load(lane.alpha + row + v * kWidth) * b, lanes_of(s, v));
        store(q, load(q) * b);
      }
      message[r] = lane.emission + row;
      beta[r] = lane.beta;
    }
    if (t > 0) products<SumProduct>(s, s.weight_by_to, message, beta, now);
  }
}

// out[r][a][b] = alpha[r][a] psi(a, b) q[r + 1][b]: one matrix of pairwise marginals per row.
template <class T>
void pairwise(const SharedView& s, const double* alpha, const double* emission, std::int64_t rows,
              T* out) {
  PollEvery poll(row_cost(s));
  for (std::int64_t r = 0; r < rows; ++r) {
    poll.step();
    const double* q = emission + (r + 1) * s.stride;
    for (int a = 0; a < s.labels; ++a) {
      const double from = alpha[r * s.stride + a];
      T* to = out + (r * s.labels + a) * s.labels;
      for (int v = 0; v < vectors(s); ++v) {
        const Vec joint = from * load(s.weight + a * s.stride + v * kWidth) * load(q + v * kWidth);
        store_first(to + v * kWidth, joint, lanes_of(s, v));
      }
    }
  }
}

// counts[i][j] += sum_t alpha[t][i] q[t][j] for the rows i in [a, a + R) and N vectors of columns j from
// `column` on. The sums over t are kept in registers.
template <int R, int N>
TRELLIS_INLINE void outer_tile(const SharedView& s, const double* alpha, const double* q,
                               std::int64_t rows, double* counts, int a, int column) {
  Vec acc[R][N] = {};
  for (std::int64_t t = 0; t < rows; ++t) {
    Vec row[N];
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) row[n] = load(q + t * s.stride + column + n * kWidth);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const Vec value = splat(alpha[t * s.stride + a + r]);
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) acc[r][n] += value * row[n];
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) {
      double* to = counts + (a + r) * s.stride + column + n * kWidth;
      store(to, load(to) + acc[r][n]);
    }
  }
}

// Adds to N vectors of columns of the counts, four rows at a time.
template <int N>
TRELLIS_INLINE void outer_columns(const SharedView& s, const double* alpha, const double* q,
                                  std::int64_t rows, double* counts, int column) {
  int a = 0;
  for (; a + 4 <= s.labels; a += 4) outer_tile<4, N>(s, alpha, q, rows, counts, a, column);
  for (; a < s.labels; ++a) outer_tile<1, N>(s, alpha, q, rows, counts, a, column);
}

inline void outer_products(const SharedView& s, const double* alpha, const double* emission,
                           std::int64_t rows, double* counts) {
  const double* q = emission + s.stride;
  int v = 0;
  const int count = vectors(s);
  PollEvery poll(rows * s.labels * kTile * kWidth);
  for (; v + kTile <= count; v += kTile) {
    poll.step();
    outer_columns<kTile>(s, alpha, q, rows, counts, v * kWidth);
  }
  for (; v < count; ++v) outer_columns<1>(s, alpha, q, rows, counts, v * kWidth);
}

}  // namespace trellis::TRELLIS_ISA
