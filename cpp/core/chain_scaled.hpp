// Forward-backward in scaled probability space: the fast path.
//
//     m_t(b)     = sum_a alpha_{t-1}(a) psi(a, b)          psi = exp(transition - shift)
//     alpha_t(b) = m_t(b) e_t(b) / s_t                      e_t = exp(unary_t - max), s_t makes it sum to 1
//     beta_{t-1}(a) = sum_b psi(a, b) e_t(b) beta_t(b) / s_t
//     p(y_t = b) = alpha_t(b) beta_t(b)      p(y_{t-1} = a, y_t = b) = alpha_{t-1}(a) psi(a, b) q_t(b)
// with q_t = e_t beta_t / s_t. log Z is the sum of the logarithms of all scales.
//
// Scaled probabilities are exact only while nothing that matters underflows. Every factor and every
// non-zero alpha is compared with a threshold such that no product of them can; a sequence that comes
// near is flagged and done again in log space (chain_log.hpp). By induction a zero alpha then means
// "no allowed path", never "too small". README.md in src/trellis/inference/chain has the argument.
#pragma once

#include "chain_rows.hpp"
#include "semiring.hpp"

namespace trellis::TRELLIS_ISA {

inline constexpr double kTinyFactor = 1e-75;  // of psi and e
inline constexpr double kTinyAlpha = 1e-150;  // kTinyAlpha * kTinyFactor^2 is still a normal number

// e_t in `e`; returns the maximum that was taken out of it.
template <class T>
TRELLIS_INLINE double emissions(const Shared& s, Lane<T>& lane, std::int64_t t, double* e) {
  const int count = vectors(s);
  Vec top = splat(-kInfinity);
  Mask invalid{};
  for (int v = 0; v < count; ++v) {
    const Vec u = unary_scores(s, lane.sequence, t, v);
    invalid |= not_a_score(u);
    top = max(top, u);
    store(e + v * kWidth, u);
  }
  top = max_lanes(top);
  const Vec reference = select(top > -kInfinity, top, Vec{});  // no label allowed here: all e are 0
  Mask hazard{};
  for (int v = 0; v < count; ++v) {
    const Vec u = load(e + v * kWidth);
    const Vec factor = exp(u - reference);
    hazard |= (factor < kTinyFactor) & (u > -kInfinity);
    store(e + v * kWidth, factor);
  }
  gather(lane.invalid, invalid);
  gather(lane.hazard, hazard);
  return reference[0];
}

// alpha_t = m_t e_t / s_t, and e_t / s_t where alpha_t > 0: messages from labels that no path reaches
// are dropped, since they could grow without bound.
template <class T>
TRELLIS_INLINE void normalise(const Shared& s, Lane<T>& lane, std::int64_t t, double* alpha,
                              double* e) {
  const int count = vectors(s);
  Vec total{};
  for (int v = 0; v < count; ++v) {
    const Vec joint = load(alpha + v * kWidth) * load(e + v * kWidth);
    store(alpha + v * kWidth, joint);
    total += joint;
  }
  const double scale = sum_lanes(total)[0];
  if (!(scale > 0.0)) {  // also NaN, from invalid scores
    if (lane.outcome.status == Status::ok) lane.outcome = {Status::infeasible, t};
  } else {
    lane.product *= scale;
    if (lane.product < 1e-100 || lane.product > 1e100) {
      lane.log_z += __builtin_log(lane.product);
      lane.product = 1.0;
    }
  }
  const Vec inverse = splat(scale > 0.0 ? 1.0 / scale : 0.0);
  Mask hazard{};
  for (int v = 0; v < count; ++v) {
    const Vec a = load(alpha + v * kWidth) * inverse;
    const Mask reached = a > 0.0;
    hazard |= (a < kTinyAlpha) & reached;
    store(alpha + v * kWidth, a);
    store(e + v * kWidth, select(reached, load(e + v * kWidth) * inverse, Vec{}));
  }
  gather(lane.hazard, hazard);
}

template <class T>
void scaled_forward(const Shared& s, Lane<T>* lanes, int count, std::int64_t begin,
                    std::int64_t end) {
  for (std::int64_t t = begin; t < end; ++t) {
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
      for (int r = 0; r < count; ++r) {
        for (int v = 0; v < vectors(s); ++v) store(here[r] + v * kWidth, splat(1.0));
      }
    }
    for (int r = 0; r < count; ++r) {
      double* e = lanes[r].emission + row;
      lanes[r].log_z += emissions(s, lanes[r], t, e) + (t > 0 ? s.shift : 0.0);
      normalise(s, lanes[r], t, here[r], e);
    }
  }
}

// After the last position: log Z, and what the gathered flags say.
template <class T>
void scaled_finish(const Shared&, Lane<T>& lane) {
  std::int64_t hazard = 0, invalid = 0;
  for (int i = 0; i < kPadding; ++i) {
    hazard |= lane.hazard[i];
    invalid |= lane.invalid[i];
  }
  lane.log_z += __builtin_log(lane.product);
  if (invalid != 0) {
    lane.outcome = {Status::bad_unary, 0};
  } else if (hazard != 0) {
    lane.outcome = {Status::needs_log_space, 0};
  }
}

// Unary marginals at positions [begin, end), and q_t in the emission rows for outer_products.
template <class T>
void scaled_backward(const Shared& s, Lane<T>* lanes, int count, std::int64_t begin,
                     std::int64_t end) {
  for (std::int64_t t = end - 1; t >= begin; --t) {
    const int now = active(lanes, count, t);
    const std::int64_t row = (t - begin + 1) * s.stride;
    const double* message[kGroup];
    double* beta[kGroup];
    for (int r = 0; r < now; ++r) {
      Lane<T>& lane = lanes[r];
      const bool last = t == lane.sequence.length - 1;
      T* out = lane.out + t * s.labels;
      for (int v = 0; v < vectors(s); ++v) {
        const Vec b = last ? splat(1.0) : load(lane.beta + v * kWidth);
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

// out[r][a][b] = alpha[r][a] psi(a, b) q[r + 1][b]: one matrix of pairwise marginals a row.
template <class T>
void pairwise(const Shared& s, const double* alpha, const double* emission, std::int64_t rows,
              T* out) {
  for (std::int64_t r = 0; r < rows; ++r) {
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

template <int R, int N>
TRELLIS_INLINE void outer_tile(const Shared& s, const double* alpha, const double* q,
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

template <int N>
TRELLIS_INLINE void outer_columns(const Shared& s, const double* alpha, const double* q,
                                  std::int64_t rows, double* counts, int column) {
  int a = 0;
  for (; a + 4 <= s.labels; a += 4) outer_tile<4, N>(s, alpha, q, rows, counts, a, column);
  for (; a < s.labels; ++a) outer_tile<1, N>(s, alpha, q, rows, counts, a, column);
}

inline void outer_products(const Shared& s, const double* alpha, const double* emission,
                           std::int64_t rows, double* counts) {
  const double* q = emission + s.stride;
  int v = 0;
  const int count = vectors(s);
  for (; v + kTile <= count; v += kTile) {
    outer_columns<kTile>(s, alpha, q, rows, counts, v * kWidth);
  }
  for (; v < count; ++v) outer_columns<1>(s, alpha, q, rows, counts, v * kWidth);
}

}  // namespace trellis::TRELLIS_ISA
