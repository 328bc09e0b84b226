// Forward-backward of second order: eight sequences at once, one in each SIMD lane.
//
// A labelling is one path of states. The state at t is the pair (y_{t-1}, y_t) if some trigram begins
// with it, and y_t alone otherwise. Let value(s, c) = exp(trigram weight), or 1 without a weight, and
// e_t(c) = exp(score of c at t). Then
//     g_t(b, c)  = sum over states s of b of alpha_{t-1}(s) value(s, c)
//     alpha_t(r) = e_t(c) * sum over the bigrams (b, c) that lead to r of exp(bigram) g_t(b, c)
// and the backward pass has the same form. Where no trigram ends with (b, c), g is the sum of alpha over
// the states of b, which is computed once. So the work is proportional to the number of bigrams, plus
// the number of states before each bigram that ends a trigram. All terms are positive, so no digits
// cancel.
//
// As in chain/scaled.hpp, alpha is exact as long as it does not underflow. Each factor is at least
// e^-kWidestScores (loglinear/pair_chain.hpp checks the weights). A lane with a smaller factor or with
// an alpha below kTinyAlpha is marked as inexact.
#pragma once

#include "base/poll.hpp"
#include "base/simd.hpp"
#include "chain/scaled.hpp"
#include "chain/sparse.hpp"
#include "chain/types.hpp"

namespace trellis::TRELLIS_ISA {

// The rows of scratch memory; see pair_scratch_size().
struct PairRows {
  double* alpha;  // (longest, states, kLanes)
  double* beta;   // (2, states, kLanes): of this position and of the position before
  double* sum;    // (longest, labels, kLanes): the sum of alpha over the states of a label
  double* w;      // (longest, labels, kLanes): exp(score - largest score) / sum of alpha before scaling
  double* row;    // (2, labels, kLanes): p(y_t), and the part of beta that all states of a label share
  std::int64_t states, labels;  // the sizes of a row

  TRELLIS_INLINE PairRows(const PairChain& c, double* scratch)
      : states(std::int64_t{c.states} * kLanes), labels(std::int64_t{c.labels} * kLanes) {
    const std::int64_t longest = c.length[0];
    alpha = scratch;
    beta = alpha + longest * states;
    sum = beta + 2 * states;
    w = sum + longest * labels;
    row = w + longest * labels;
  }
};

// a += b * c
TRELLIS_INLINE void add_product(Lanes& a, const Lanes& b, const Lanes& c) {
#pragma GCC unroll 4
  for (int i = 0; i < kParts; ++i) a.part[i] += b.part[i] * c.part[i];
}

// Returns x where alpha > 0, and `otherwise` elsewhere.
TRELLIS_INLINE Lanes reached(const Lanes& alpha, const Lanes& x, double otherwise) {
  Lanes y;
#pragma GCC unroll 4
  for (int i = 0; i < kParts; ++i) y.part[i] = select(alpha.part[i] > 0.0, x.part[i], splat(otherwise));
  return y;
}

TRELLIS_INLINE Lanes minimum(const Lanes& a, const Lanes& b) {
  return each_lane(a, b, [](Vec x, Vec y) __attribute__((always_inline)) { return min(x, y); });
}
TRELLIS_INLINE Lanes maximum(const Lanes& a, const Lanes& b) {
  return each_lane(a, b, [](Vec x, Vec y) __attribute__((always_inline)) { return max(x, y); });
}

// Gathers the scores of position t, plus start and end scores, into `to`, (labels, kLanes). Lanes of
// sequences that have ended get 0.
TRELLIS_INLINE void gather_pair_scores(const PairChain& c, std::int64_t t, double* to) {
  for (int lane = 0; lane < kLanes; ++lane) {
    const bool active = c.length[lane] > t;
    const double* from = active ? c.unary[lane] + t * c.labels : nullptr;
    const double* start = active && t == 0 ? c.start : nullptr;
    const double* end = t == c.length[lane] - 1 ? c.end : nullptr;
    for (int b = 0; b < c.labels; ++b) {
      to[b * kLanes + lane] = (from == nullptr ? 0.0 : from[b]) + (start == nullptr ? 0.0 : start[b]) +
                              (end == nullptr ? 0.0 : end[b]);
    }
  }
}

// Replaces scores by e = exp(score - largest), and returns the largest score of each lane. *low is
// lowered to the lowest difference that is not -inf.
TRELLIS_INLINE Lanes exponentiate(const PairChain& c, double* w, Lanes* low) {
  Lanes top = all_lanes(-kLargestScore);  // -inf - (-inf) would be NaN
  for (int b = 0; b < c.labels; ++b) top = maximum(top, load_lanes(w + b * kLanes));
  for (int b = 0; b < c.labels; ++b) {
    const Lanes x = load_lanes(w + b * kLanes) - top;
    Lanes e;
#pragma GCC unroll 4
    for (int i = 0; i < kParts; ++i) {
      low->part[i] = min(select(x.part[i] > -kInfinity, x.part[i], Vec{}), low->part[i]);
      e.part[i] = exp(x.part[i]);
    }
    store_lanes(w + b * kLanes, e);
  }
  return top;
}

// Returns g(b, c) of bigram n, from alpha and its sums at the position before.
TRELLIS_INLINE Lanes sum_sources(const PairChain& c, std::int32_t n, const double* alpha,
                                 const double* sum) {
  std::int32_t k = c.source_begin[n];
  const std::int32_t plain = c.plain_begin[n], end = c.source_begin[n + 1];
  if (k == end) return load_lanes(sum + c.before[n] * kLanes);
  Lanes total = all_lanes(0.0), others = all_lanes(0.0);
  for (; k < plain; ++k)
    add_product(total, all_lanes(c.source_value[k]), load_lanes(alpha + c.source[k] * kLanes));
  for (; k < end; ++k) others = others + load_lanes(alpha + c.source[k] * kLanes);
  return total + others;
}

// Computes alpha_t before scaling, and returns its sum.
TRELLIS_INLINE Lanes pair_step(const PairChain& c, const double* before, const double* sum_before,
                               const double* e, double* alpha) {
  Lanes total = all_lanes(0.0);
  for (int label = 0; label < c.labels; ++label) {
    const Lanes factor = load_lanes(e + label * kLanes);
    for (std::int32_t s = c.state_begin[label]; s < c.state_begin[label + 1]; ++s) {
      Lanes x = all_lanes(0.0);
      for (std::int32_t n = c.bigram_begin[s]; n < c.bigram_begin[s + 1]; ++n)
        add_product(x, all_lanes(c.bigram_value[n]), sum_sources(c, n, before, sum_before));
      x = x * factor;
      store_lanes(alpha + s * kLanes, x);
      total = total + x;
    }
  }
  return total;
}

// Computes alpha_0 before scaling, and returns its sum. There is no label before position 0, so only the
// states that stand for one label are reached.
TRELLIS_INLINE Lanes first_pair_step(const PairChain& c, const double* e, double* alpha) {
  Lanes total = all_lanes(0.0);
  for (int label = 0; label < c.labels; ++label) {
    for (std::int32_t s = c.state_begin[label]; s < c.state_begin[label + 1]; ++s)
      store_lanes(alpha + s * kLanes, all_lanes(0.0));
    const Lanes x = load_lanes(e + label * kLanes);
    store_lanes(alpha + c.state_begin[label] * kLanes, x);
    total = total + x;
  }
  return total;
}

// Scales alpha and w, sums alpha over the states of each label, and updates the smallest alpha above 0.
TRELLIS_INLINE void scale_row(const PairChain& c, const Lanes& total, double* alpha, double* w,
                              double* sum, Lanes* low) {
  const Lanes inverse = all_lanes(1.0) / maximum(total, all_lanes(kSmallestProduct));
  for (int label = 0; label < c.labels; ++label) {
    Lanes of_label = all_lanes(0.0);
    for (std::int32_t s = c.state_begin[label]; s < c.state_begin[label + 1]; ++s) {
      const Lanes x = load_lanes(alpha + s * kLanes) * inverse;
      *low = minimum(*low, reached(x, x, 1.0));
      of_label = of_label + x;
      store_lanes(alpha + s * kLanes, x);
    }
    store_lanes(sum + label * kLanes, of_label);
    store_lanes(w + label * kLanes, load_lanes(w + label * kLanes) * inverse);
  }
}

inline void pair_forward(PairChain& chain, double* scratch) {
  const PairChain c = chain;  // a local copy: the compiler cannot know that stores do not change it
  const PairRows rows(c, scratch);
  double product[kLanes], log_z[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    product[lane] = 1.0;
    log_z[lane] = 0.0;
    chain.inexact[lane] = false;
  }
  PollEvery poll(kLanes * (kRowCost + c.states + c.source_begin[c.bigram_begin[c.states]]));
  for (std::int64_t t = 0; t < c.length[0]; ++t) {
    poll.step();
    double *w = rows.w + t * rows.labels, *alpha = rows.alpha + t * rows.states;
    double* sum = rows.sum + t * rows.labels;
    Lanes low_score = all_lanes(0.0), low_alpha = all_lanes(1.0);
    gather_pair_scores(c, t, w);
    const Lanes top = exponentiate(c, w, &low_score);
    const Lanes total = t == 0 ? first_pair_step(c, w, alpha)
                               : pair_step(c, alpha - rows.states, sum - rows.labels, w, alpha);
    scale_row(c, total, alpha, w, sum, &low_alpha);
    for (int lane = 0; lane < kLanes && c.length[lane] > t; ++lane) {
      const int part = lane / kWidth, i = lane % kWidth;
      const double x = total.part[part][i];
      log_z[lane] += top.part[part][i];
      product[lane] *= x;
      if (product[lane] < kSmallestProduct || product[lane] > kLargestProduct) {
        log_z[lane] += __builtin_log(product[lane]);
        product[lane] = 1.0;
      }
      // The comparisons are also false for NaN.
      if (!(x >= kSmallestProduct && x <= kLargestProduct && low_alpha.part[part][i] >= kTinyAlpha &&
            low_score.part[part][i] >= -kWidestScores && top.part[part][i] <= kLargestScore)) {
        chain.inexact[lane] = true;
      }
    }
  }
  for (int lane = 0; lane < kLanes; ++lane)
    chain.log_z[lane] = log_z[lane] + __builtin_log(product[lane]);
}

// Adds r = exp(bigram) w beta of bigram n, times the value of the source, to beta of each of its
// sources. If it has no sources, adds r to plain_beta of its first label. Also adds the expected counts.
TRELLIS_INLINE void back_bigram(const PairChain& c, std::int32_t n, const Lanes& r, const double* alpha,
                                const double* sum, double* beta, double* plain_beta) {
  double* count = c.bigram_counts + std::int64_t{n} * kLanes;
  std::int32_t k = c.source_begin[n];
  const std::int32_t plain = c.plain_begin[n], end = c.source_begin[n + 1];
  if (k == end) {
    double* to = plain_beta + c.before[n] * kLanes;
    store_lanes(to, load_lanes(to) + r);
    store_lanes(count, load_lanes(count) + load_lanes(sum + c.before[n] * kLanes) * r);
    return;
  }
  Lanes total = all_lanes(0.0);
  for (; k < plain; ++k) {
    const Lanes value = all_lanes(c.source_value[k]);
    const Lanes x = load_lanes(alpha + c.source[k] * kLanes);
    double* to = beta + c.source[k] * kLanes;
    double* source_count = c.source_counts + std::int64_t{k} * kLanes;
    Lanes y = load_lanes(to);
    add_product(y, value, r);
    store_lanes(to, y);
    store_lanes(source_count, load_lanes(source_count) + x * r);
    add_product(total, value, x);
  }
  for (; k < end; ++k) {
    double* to = beta + c.source[k] * kLanes;
    store_lanes(to, load_lanes(to) + r);
    total = total + load_lanes(alpha + c.source[k] * kLanes);
  }
  store_lanes(count, load_lanes(count) + total * r);
}

// Sets beta to 0 where alpha is 0: there it could grow without bound. Computes p(y_t), (labels, kLanes).
TRELLIS_INLINE void pair_posteriors(const PairChain& c, const double* alpha, double* beta, double* p) {
  for (int label = 0; label < c.labels; ++label) {
    Lanes total = all_lanes(0.0);
    for (std::int32_t s = c.state_begin[label]; s < c.state_begin[label + 1]; ++s) {
      const Lanes a = load_lanes(alpha + s * kLanes);
      const Lanes b = reached(a, load_lanes(beta + s * kLanes), 0.0);
      store_lanes(beta + s * kLanes, b);
      add_product(total, a, b);
    }
    store_lanes(p + label * kLanes, total);
  }
}

// Computes beta_{t-1} from beta_t, and adds the counts of the transitions between them.
TRELLIS_INLINE void pair_step_back(const PairChain& c, const PairRows& rows, std::int64_t t,
                                   const double* beta, double* before, double* plain) {
  const double *alpha = rows.alpha + (t - 1) * rows.states, *sum = rows.sum + (t - 1) * rows.labels;
  const double* w = rows.w + t * rows.labels;
  for (std::int64_t i = 0; i < rows.states; ++i) before[i] = 0.0;
  for (std::int64_t i = 0; i < rows.labels; ++i) plain[i] = 0.0;
  for (int label = 0; label < c.labels; ++label) {
    const Lanes factor = load_lanes(w + label * kLanes);
    for (std::int32_t s = c.state_begin[label]; s < c.state_begin[label + 1]; ++s) {
      const Lanes q = factor * load_lanes(beta + s * kLanes);
      for (std::int32_t n = c.bigram_begin[s]; n < c.bigram_begin[s + 1]; ++n)
        back_bigram(c, n, all_lanes(c.bigram_value[n]) * q, alpha, sum, before, plain);
    }
  }
  for (int label = 0; label < c.labels; ++label) {
    const Lanes x = load_lanes(plain + label * kLanes);
    for (std::int32_t s = c.state_begin[label]; s < c.state_begin[label + 1]; ++s)
      store_lanes(before + s * kLanes, load_lanes(before + s * kLanes) + x);
  }
}

inline void pair_backward(const PairChain& chain, double* scratch) {
  const PairChain c = chain;
  const PairRows rows(c, scratch);
  double *beta = rows.beta, *before = rows.beta + rows.states;
  double *p = rows.row, *plain = rows.row + rows.labels;
  for (std::int64_t i = 0; i < rows.states; ++i) beta[i] = 0.0;
  PollEvery poll(2 * kLanes * (kRowCost + c.states + c.source_begin[c.bigram_begin[c.states]]));
  for (std::int64_t t = c.length[0] - 1; t >= 0; --t) {
    poll.step();
    for (int lane = 0; lane < kLanes && c.length[lane] > t; ++lane) {
      if (t != c.length[lane] - 1) continue;
      for (int s = 0; s < c.states; ++s) beta[s * kLanes + lane] = c.weight[lane];
    }
    pair_posteriors(c, rows.alpha + t * rows.states, beta, p);
    for (int lane = 0; lane < kLanes && c.length[lane] > t; ++lane) {
      double* to = c.out[lane] + t * c.labels;
      for (int b = 0; b < c.labels; ++b) to[b] = p[b * kLanes + lane];
    }
    if (t == 0) return;
    pair_step_back(c, rows, t, beta, before, plain);
    double* last = beta;
    beta = before;
    before = last;
  }
}

}  // namespace trellis::TRELLIS_ISA
