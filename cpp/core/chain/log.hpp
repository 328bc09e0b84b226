// Forward-backward in log space: exact for any scores, also with position-dependent transitions.
//
//     m_t(b)     = log sum_a exp(alpha_{t-1}(a) + transition_t(a, b))
//     alpha_t(b) = m_t(b) + unary_t(b) - n_t                       n_t makes the largest alpha_t 0
//     p(y_{t-1} = a | y_t = b) = exp(alpha_{t-1}(a) + transition_t(a, b) - m_t(b))
// The last line yields the marginals from right to left by sums of positive terms: nothing cancels, and
// no backward table is needed. Only m is stored; alpha is recomputed from it.
#pragma once

#include "base/poll.hpp"
#include "chain/score_rows.hpp"

namespace trellis::TRELLIS_ISA {

// Computes alpha_t from m_t; returns n_t, which is -inf if no path reaches position t.
template <class T>
inline double log_alpha(const SharedView& s, const Sequence<T>& x, std::int64_t t, const double* m,
                        double* alpha) {
  const double* edge = edge_of(s, t, x.length);
  Vec top = splat(-kInfinity);
  for (int v = 0; v < vectors(s); ++v) {
    const Vec joint = load(m + v * kWidth) + unary_scores(s, x, t, edge, v);
    top = max(top, joint);
    store(alpha + v * kWidth, joint);
  }
  top = max_lanes(top);
  if (!(top[0] > -kInfinity)) return -kInfinity;
  for (int v = 0; v < vectors(s); ++v) store(alpha + v * kWidth, load(alpha + v * kWidth) - top);
  return top[0];
}

// Computes vector v of m_t, the labels [v * kWidth, (v + 1) * kWidth). With kEntropy, also computes the
// same labels of h_t(b), the entropy of the path before t given y_t = b:
//     h_t(b) = sum_a r(a|b) (h_{t-1}(a) - log r(a|b)),   r(a|b) = p(y_{t-1} = a | y_t = b).
template <bool kEntropy>
TRELLIS_INLINE Vec log_column(const SharedView& s, const double* transition, const double* alpha, int v,
                              const double* h, Vec* h_out) {
  const double* column = transition + v * kWidth;
  Vec top = splat(-kInfinity);
  for (int a = 0; a < s.labels; ++a) top = max(top, alpha[a] + load(column + a * s.stride));
  top = select(top > -kInfinity, top, Vec{});  // -inf - (-inf) would be NaN
  Vec total{}, weighted{};
  for (int a = 0; a < s.labels; ++a) {
    const Vec score = alpha[a] + load(column + a * s.stride) - top;
    const Vec e = exp(score);
    total += e;
    if constexpr (kEntropy) weighted += select(e > 0.0, e * (h[a] - score), Vec{});
  }
  const Vec log_total = log(total);
  if constexpr (kEntropy) *h_out = select(total > 0.0, weighted / total + log_total, Vec{});
  return top + log_total;
}

// Fills rows, (length, stride), with m_t, and sets *log_z.
template <class T>
Outcome log_forward(const SharedView& s, const Sequence<T>& x, double* rows, double* scratch,
                    double* log_z) {
  double* buffer = scratch;
  double* alpha = scratch + s.labels * s.stride;
  Outcome outcome;
  bool valid = true;
  *log_z = 0.0;
  for (int v = 0; v < vectors(s); ++v) store(rows + v * kWidth, Vec{});
  PollEvery poll(row_cost(s));
  for (std::int64_t t = 0; t < x.length; ++t) {
    poll.step();
    double* m = rows + t * s.stride;
    if (t > 0) {
      const double* transition = transition_into(s, x, t, buffer, &valid);
      if (!valid) return {Status::bad_transition, t};
      for (int v = 0; v < vectors(s); ++v) {
        store(m + v * kWidth, log_column<false>(s, transition, alpha, v, nullptr, nullptr));
      }
    }
    const double top = log_alpha(s, x, t, m, alpha);
    *log_z += top;
    if (top == -kInfinity) {  // continue: alpha stays -inf, and later scores are validated
      if (outcome.status == Status::ok) outcome = {Status::infeasible, t};
    }
  }
  if (!valid_unary(s, x)) return {Status::bad_unary, 0};
  Vec total{};
  for (int v = 0; v < vectors(s); ++v) total += exp(load(alpha + v * kWidth));
  if (outcome.status != Status::ok) return outcome;
  *log_z += __builtin_log(sum_lanes(total)[0]);
  if (!(*log_z < kInfinity)) return {Status::bad_unary, 0};  // finite scores, but their sum overflows
  return outcome;
}

// p_t = softmax(alpha_t), at the last position.
inline void softmax_row(const SharedView& s, const double* alpha, double* p) {
  Vec total{};
  for (int v = 0; v < vectors(s); ++v) {
    const Vec e = exp(load(alpha + v * kWidth));
    store(p + v * kWidth, e);
    total += e;
  }
  const Vec inverse = 1.0 / sum_lanes(total);
  for (int v = 0; v < vectors(s); ++v) store(p + v * kWidth, load(p + v * kWidth) * inverse);
}

// w[a][b] = p(y_{t-1} = a, y_t = b) = p(y_{t-1} = a | y_t = b) p(y_t = b). The rounding error of m is
// relative to the size of the scores, and it would grow from step to step. So each column is divided by
// its actual sum.
inline void joint_pairs(const SharedView& s, const double* alpha, const double* transition,
                        const double* m, double* p, double* w, double* column_sum) {
  const int count = vectors(s);
  for (int v = 0; v < count; ++v) store(column_sum + v * kWidth, Vec{});
  for (int a = 0; a < s.labels; ++a) {
    for (int v = 0; v < count; ++v) {
      const Vec raw = load(m + v * kWidth);
      const Vec reached = select(raw > -kInfinity, raw, splat(kInfinity));
      const Vec e = exp(alpha[a] + load(transition + a * s.stride + v * kWidth) - reached);
      store(w + a * s.stride + v * kWidth, e);
      store(column_sum + v * kWidth, load(column_sum + v * kWidth) + e);
    }
  }
  for (int v = 0; v < count; ++v) {
    const Vec sum = load(column_sum + v * kWidth);
    const Vec share = load(p + v * kWidth) / sum;
    store(p + v * kWidth, select(sum > 0.0, share, Vec{}));
  }
  for (int a = 0; a < s.labels; ++a) {
    for (int v = 0; v < count; ++v) {
      double* pair = w + a * s.stride + v * kWidth;
      store(pair, load(pair) * load(p + v * kWidth));
    }
  }
}

// Adds row a of the pairs to the requested results, and returns its sum, p(y_{t-1} = a).
template <class T>
inline double store_pairs(const SharedView& s, const double* row, T* pairwise, double* counts) {
  Vec total{};
  for (int v = 0; v < vectors(s); ++v) {
    const Vec probabilities = load(row + v * kWidth);
    total += probabilities;
    if (pairwise != nullptr) store_first(pairwise + v * kWidth, probabilities, lanes_of(s, v));
    if (counts != nullptr) store(counts + v * kWidth, load(counts + v * kWidth) + probabilities);
  }
  return sum_lanes(total)[0];
}

// Computes the marginals from right to left, from the rows of log_forward().
template <class T>
void log_backward(const SharedView& s, const Sequence<T>& x, const double* rows, double* scratch, T* out,
                  T* pairwise, double* counts) {
  double* w = scratch;  // (labels, stride): first the transitions into t if they depend on t, then pairs
  double* alpha = scratch + s.labels * s.stride;
  double* p = alpha + s.stride;
  double* column_sum = p + s.stride;
  bool valid = true;
  log_alpha(s, x, x.length - 1, rows + (x.length - 1) * s.stride, alpha);
  softmax_row(s, alpha, p);
  PollEvery poll(row_cost(s));
  for (std::int64_t t = x.length - 1; t >= 0; --t) {
    poll.step();
    for (int v = 0; v < vectors(s); ++v) {
      store_first(out + t * s.labels + v * kWidth, load(p + v * kWidth), lanes_of(s, v));
    }
    if (t == 0) break;
    const double* transition = transition_into(s, x, t, w, &valid);
    log_alpha(s, x, t - 1, rows + (t - 1) * s.stride, alpha);
    joint_pairs(s, alpha, transition, rows + t * s.stride, p, w, column_sum);
    for (int a = 0; a < s.stride; ++a) p[a] = 0.0;
    for (int a = 0; a < s.labels; ++a) {
      T* pairs = pairwise == nullptr ? nullptr : pairwise + ((t - 1) * s.labels + a) * s.labels;
      p[a] =
          store_pairs(s, w + a * s.stride, pairs, counts == nullptr ? nullptr : counts + a * s.stride);
    }
  }
}

// Returns the entropy of p(y) = softmax(alpha_T), plus the expected entropy h_T of the labels before.
inline double row_entropy(const SharedView& s, const double* alpha, const double* h) {
  Vec total{}, weighted{};
  for (int v = 0; v < vectors(s); ++v) {
    const Vec score = load(alpha + v * kWidth);
    const Vec e = exp(score);
    total += e;
    weighted += select(e > 0.0, e * (load(h + v * kWidth) - score), Vec{});
  }
  const double z = sum_lanes(total)[0];
  return sum_lanes(weighted)[0] / z + __builtin_log(z);
}

// Computes the entropy of p(y | x) in one forward pass: see log_column<true>.
template <class T>
Outcome entropy(const SharedView& s, const Sequence<T>& x, double* scratch, double* result) {
  double* buffer = scratch;
  double* alpha = scratch + s.labels * s.stride;
  double* m = alpha + s.stride;
  double* h = m + s.stride;
  double* h_next = h + s.stride;
  Outcome outcome;
  bool valid = true;
  for (int v = 0; v < vectors(s); ++v) {
    store(m + v * kWidth, Vec{});
    store(h + v * kWidth, Vec{});
  }
  PollEvery poll(row_cost(s));
  for (std::int64_t t = 0; t < x.length; ++t) {
    poll.step();
    if (t > 0) {
      const double* transition = transition_into(s, x, t, buffer, &valid);
      if (!valid) return {Status::bad_transition, t};
      for (int v = 0; v < vectors(s); ++v) {
        Vec next;
        store(m + v * kWidth, log_column<true>(s, transition, alpha, v, h, &next));
        store(h_next + v * kWidth, next);
      }
      double* swap = h;
      h = h_next;
      h_next = swap;
    }
    if (log_alpha(s, x, t, m, alpha) == -kInfinity && outcome.status == Status::ok) {
      outcome = {Status::infeasible, t};
    }
  }
  if (!valid_unary(s, x)) return {Status::bad_unary, 0};
  if (outcome.status != Status::ok) return outcome;
  *result = row_entropy(s, alpha, h);
  return outcome;
}

// Draws a label with probability proportional to exp(row + column), by inverting the cumulative sum.
inline int draw(const SharedView& s, const double* row, const double* column, double uniform,
                double* weights) {
  Vec top = splat(-kInfinity);
  for (int v = 0; v < vectors(s); ++v) {
    const Vec score = load(row + v * kWidth) + load(column + v * kWidth);
    top = max(top, score);
    store(weights + v * kWidth, score);
  }
  top = max_lanes(top);
  for (int v = 0; v < vectors(s); ++v) {
    store(weights + v * kWidth, exp(load(weights + v * kWidth) - top));
  }
  double total = 0.0;
  for (int a = 0; a < s.labels; ++a) total += weights[a];
  const double target = uniform * total;
  double cumulative = 0.0;
  int last = 0;
  for (int a = 0; a < s.labels; ++a) {
    if (weights[a] == 0.0) continue;
    cumulative += weights[a];
    last = a;
    if (cumulative > target) break;
  }
  return last;
}

// Draws n paths by forward filtering (rows holds m) and backward sampling. uniforms and labels are (n,
// length).
template <class T>
void sample(const SharedView& s, const Sequence<T>& x, double* rows, double* scratch,
            const double* uniforms, std::int64_t n, std::int64_t* labels) {
  double* zeros = scratch;
  double* column = zeros + s.stride;
  double* weights = column + s.stride;
  for (int a = 0; a < s.stride; ++a) zeros[a] = column[a] = 0.0;
  PollEvery poll(kRowCost + s.stride);
  for (std::int64_t t = 0; t < x.length; ++t) {
    poll.step();
    log_alpha(s, x, t, rows + t * s.stride, rows + t * s.stride);
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const double* u = uniforms + i * x.length;
    std::int64_t* path = labels + i * x.length;
    int after = 0;  // the label at t + 1, not read from `path`: another thread could change it
    for (std::int64_t t = x.length - 1; t >= 0; --t) {
      poll.step();
      const double* from = zeros;
      if (t < x.length - 1) from = transition_column(s, x, t + 1, after, column);
      after = draw(s, rows + t * s.stride, from, u[t], weights);
      path[t] = after;
    }
  }
}

}  // namespace trellis::TRELLIS_ISA
