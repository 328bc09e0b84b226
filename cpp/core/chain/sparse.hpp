// Forward-backward where most transitions score 0: eight sequences at once, one in each SIMD lane.
//
// Let psi(a, b) = exp(transition) = 1 + s(a, b), with s different from 0 for few pairs. Then
//     m_t(b) = sum_a alpha_{t-1}(a) psi(a, b) = 1 + sum of alpha_{t-1}(a) s(a, b) over the a with s != 0
// because alpha is scaled to sum to 1. The backward pass does the same, so the work is proportional to
// the number of pairs with s != 0. With one sequence per lane, every step is the same instruction for
// all sequences, and sums over labels need no shuffles. All psi are positive, so every label is reached
// and no sum is 0. The caller guarantees that no psi is so small that 1 + s loses its digits
// (SparseBigrams::prepare).
#pragma once

#include "base/poll.hpp"
#include "base/simd.hpp"
#include "chain/types.hpp"

namespace trellis::TRELLIS_ISA {

// The number of SIMD vectors that hold one number for each of kLanes sequences.
inline constexpr int kParts = kLanes / kWidth;

struct Lanes {
  Vec part[kParts];
};

TRELLIS_INLINE Lanes load_lanes(const double* p) {
  Lanes x;
#pragma GCC unroll 4
  for (int i = 0; i < kParts; ++i) x.part[i] = load(p + i * kWidth);
  return x;
}
TRELLIS_INLINE void store_lanes(double* p, const Lanes& x) {
#pragma GCC unroll 4
  for (int i = 0; i < kParts; ++i) store(p + i * kWidth, x.part[i]);
}
template <class Op>
TRELLIS_INLINE Lanes each_lane(const Lanes& a, const Lanes& b, Op op) {
  Lanes x;
#pragma GCC unroll 4
  for (int i = 0; i < kParts; ++i) x.part[i] = op(a.part[i], b.part[i]);
  return x;
}
TRELLIS_INLINE Lanes operator+(const Lanes& a, const Lanes& b) {
  return each_lane(a, b, [](Vec x, Vec y) __attribute__((always_inline)) { return x + y; });
}
TRELLIS_INLINE Lanes operator-(const Lanes& a, const Lanes& b) {
  return each_lane(a, b, [](Vec x, Vec y) __attribute__((always_inline)) { return x - y; });
}
TRELLIS_INLINE Lanes operator*(const Lanes& a, const Lanes& b) {
  return each_lane(a, b, [](Vec x, Vec y) __attribute__((always_inline)) { return x * y; });
}
TRELLIS_INLINE Lanes operator/(const Lanes& a, const Lanes& b) {
  return each_lane(a, b, [](Vec x, Vec y) __attribute__((always_inline)) { return x / y; });
}
TRELLIS_INLINE Lanes all_lanes(double value) {
  Lanes x;
#pragma GCC unroll 4
  for (int i = 0; i < kParts; ++i) x.part[i] = splat(value);
  return x;
}

// Returns base + sum over k in [begin, end) of x[other[k]] * value[k], computed as two independent sums.
TRELLIS_INLINE Lanes sparse_dot(const Lanes& base, const std::uint16_t* other, const double* value,
                                std::int32_t begin, std::int32_t end, const double* x) {
  Lanes even = base, odd = all_lanes(0.0);
  std::int32_t k = begin;
  for (; k + 2 <= end; k += 2) {
    even = even + all_lanes(value[k]) * load_lanes(x + other[k] * kLanes);
    odd = odd + all_lanes(value[k + 1]) * load_lanes(x + other[k + 1] * kLanes);
  }
  if (k < end) even = even + all_lanes(value[k]) * load_lanes(x + other[k] * kLanes);
  return even + odd;
}

// Gathers the scores of position t into `to`, (labels, kLanes). Lanes of sequences that have ended get
// 0; their results are ignored.
TRELLIS_INLINE void gather_scores(const SparseChain& c, std::int64_t t, double* to) {
  const int labels = c.labels;
  for (int lane = 0; lane < kLanes; ++lane) {
    if (c.length[lane] > t) {
      const double* from = c.unary[lane] + t * labels;
      for (int b = 0; b < labels; ++b) to[b * kLanes + lane] = from[b];
    } else {
      for (int b = 0; b < labels; ++b) to[b * kLanes + lane] = 0.0;
    }
  }
}

// Computes alpha_t in `alpha` and e_t / s_t in `w`, from the scores in `w`. Adds to log_z and product,
// in the lanes of sequences that have not ended.
TRELLIS_INLINE void sparse_forward(const SparseChain& c, std::int64_t t, const double* before,
                                   double* alpha, double* w, Lanes& log_z, Lanes& product) {
  Lanes top = load_lanes(w);
  for (int b = 1; b < c.labels; ++b) {
    top = each_lane(load_lanes(w + b * kLanes), top,
                    [](Vec x, Vec y) __attribute__((always_inline)) { return max(x, y); });
  }
  const std::int32_t* begin = c.to_begin;
  const std::uint16_t* from = c.from;
  const double* value = c.value_by_to;
  const int labels = c.labels;
  const Lanes one = all_lanes(1.0);
  Lanes sum = all_lanes(0.0);
  for (int b = 0; b < labels; ++b) {
    Lanes e = load_lanes(w + b * kLanes) - top;
#pragma GCC unroll 4
    for (int i = 0; i < kParts; ++i) e.part[i] = exp(e.part[i]);
    store_lanes(w + b * kLanes, e);
    const Lanes m = t == 0 ? one : sparse_dot(one, from, value, begin[b], begin[b + 1], before);
    const Lanes a = m * e;
    sum = sum + a;
    store_lanes(alpha + b * kLanes, a);
  }
  const Lanes inverse = all_lanes(1.0) / sum;
  for (int b = 0; b < c.labels; ++b) {
    store_lanes(alpha + b * kLanes, load_lanes(alpha + b * kLanes) * inverse);
    store_lanes(w + b * kLanes, load_lanes(w + b * kLanes) * inverse);
  }
  for (int lane = 0; lane < kLanes && c.length[lane] > t; ++lane) {
    log_z.part[lane / kWidth][lane % kWidth] += top.part[lane / kWidth][lane % kWidth];
    double& p = reinterpret_cast<double*>(&product)[lane];
    p *= sum.part[lane / kWidth][lane % kWidth];
    if (p < kSmallestProduct || p > kLargestProduct) {
      log_z.part[lane / kWidth][lane % kWidth] += __builtin_log(p);
      p = 1.0;
    }
  }
}

// beta_{t-1}(a) = sum_b psi(a, b) q_t(b) = total + sum_b s(a, b) q_t(b), where total = sum_b q_t(b).
// Also adds alpha_{t-1}(a) q_t(b) to the counts of the pairs.
TRELLIS_INLINE void backward_pairs(const SparseChain& c, const Lanes& total, const double* before,
                                   const double* q, double* beta) {
  // Local copies of the pointers: the compiler cannot know that the stores do not change them.
  const std::int32_t* begin = c.from_begin;
  const std::uint16_t* to = c.to;
  const double* value = c.value;
  double* counts = c.counts;
  const int labels = c.labels;
  for (int a = 0; a < labels; ++a) {
    const Lanes x = load_lanes(before + a * kLanes);
    Lanes sum = total;
    const std::int32_t end = begin[a + 1];
    for (std::int32_t k = begin[a]; k < end; ++k) {
      const Lanes y = load_lanes(q + to[k] * kLanes);
      double* count = counts + static_cast<std::int64_t>(k) * kLanes;
      store_lanes(count, load_lanes(count) + x * y);
      sum = sum + all_lanes(value[k]) * y;
    }
    store_lanes(beta + a * kLanes, sum);
  }
}

// Writes the marginals at t to c.out, replaces w_t by q_t, and computes beta_{t-1} and the counts.
TRELLIS_INLINE void sparse_backward(const SparseChain& c, std::int64_t t, const double* before,
                                    const double* alpha, double* w, double* beta) {
  for (int lane = 0; lane < kLanes && c.length[lane] > t; ++lane) {
    if (t != c.length[lane] - 1) continue;
    for (int b = 0; b < c.labels; ++b) beta[b * kLanes + lane] = c.weight[lane];
  }
  Lanes total = all_lanes(0.0);
  for (int b = 0; b < c.labels; ++b) {
    const Lanes x = load_lanes(beta + b * kLanes);
    const Lanes q = load_lanes(w + b * kLanes) * x;
    total = total + q;
    store_lanes(w + b * kLanes, q);
    store_lanes(beta + b * kLanes, load_lanes(alpha + b * kLanes) * x);  // p(y_t), until backward_pairs
  }
  for (int lane = 0; lane < kLanes && c.length[lane] > t; ++lane) {
    double* to = c.out[lane] + t * c.labels;
    for (int b = 0; b < c.labels; ++b) to[b] = beta[b * kLanes + lane];
  }
  if (t > 0) backward_pairs(c, total, before, w, beta);
}

// Computes the marginals of eight sequences. scratch has (2 * longest + 1) * labels * kLanes doubles.
inline void sparse_marginals(SparseChain& c, double* scratch) {
  const std::int64_t row = static_cast<std::int64_t>(c.labels) * kLanes, longest = c.length[0];
  double* alpha = scratch;
  double* w = scratch + longest * row;
  double* beta = w + longest * row;
  for (std::int64_t i = 0; i < row; ++i) beta[i] = 0.0;
  Lanes log_z = all_lanes(0.0), product = all_lanes(1.0);
  PollEvery poll(kLanes * (kRowCost + c.labels + c.to_begin[c.labels]));
  for (std::int64_t t = 0; t < longest; ++t) {
    poll.step();
    gather_scores(c, t, w + t * row);
    sparse_forward(c, t, alpha + (t - 1) * row, alpha + t * row, w + t * row, log_z, product);
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    c.log_z[lane] = log_z.part[lane / kWidth][lane % kWidth] +
                    __builtin_log(product.part[lane / kWidth][lane % kWidth]);
  }
  for (std::int64_t t = longest - 1; t >= 0; --t) {
    poll.step();
    sparse_backward(c, t, alpha + (t - 1) * row, alpha + t * row, w + t * row, beta);
  }
}

}  // namespace trellis::TRELLIS_ISA
