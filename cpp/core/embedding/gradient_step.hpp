// One gradient step: several hidden vectors against several rows of the output table.
//
//     s = h . w      g = rate (label - p(s))      h += g w      w += g h     (both from the old values)
//
// The scores and the updates are small matrix products, computed in tiles that stay in registers.
#pragma once

#include <cmath>

#include "base/simd_float.hpp"
#include "embedding/types.hpp"

namespace trellis::TRELLIS_ISA::embedding {

// Rows of a tile; more would not fit in the registers.
inline constexpr int kTargets = kVectorBytes == 64 ? 8 : 4;
inline constexpr int kHidden = kFloatWidth / kTargets;  // the scores of a tile fill a vector
static_assert(kTargets <= kMaxTargets && kRowPadding % kFloatWidth == 0);

// A list of lane indices, for shuffles: LanesTo<N>::type is Lanes<0, ..., N-1>.
template <int... I>
struct Lanes {};
template <int N, int... I>
struct LanesTo : LanesTo<N - 1, N - 1, I...> {};
template <int... I>
struct LanesTo<0, I...> {
  using type = Lanes<I...>;
};

// Returns the source of a lane in a shuffle of a and b. In each run of 2 D lanes, the shuffle takes the
// first D lanes of a and of b (High = 0), or their last D lanes (High = 1).
template <int D, int High>
constexpr int picked(int lane) {
  const int run = lane / (2 * D) * 2 * D, at = lane % (2 * D);
  return at < D ? run + at + High * D : kFloatWidth + run + at - D + High * D;
}
template <int D, int... I>
TRELLIS_INLINE FloatVec fold(FloatVec a, FloatVec b, Lanes<I...>) {
  return __builtin_shufflevector(a, b, picked<D, 0>(I)...) +
         __builtin_shufflevector(a, b, picked<D, 1>(I)...);
}

// Lane i of the result is the sum of all lanes of v[i].
template <int D = kFloatWidth / 2>
TRELLIS_INLINE FloatVec lane_sums(FloatVec* v) {
  for (int i = 0; i < D; ++i) v[i] = fold<D>(v[i], v[i + D], typename LanesTo<kFloatWidth>::type{});
  if constexpr (D > 1) {
    return lane_sums<D / 2>(v);
  } else {
    return v[0];
  }
}

// ln(1 + e^x)
TRELLIS_INLINE double softplus(double x) {
  return (x > 0.0 ? x : 0.0) + std::log1p(std::exp(x > 0.0 ? -x : x));
}

template <int N>
struct Count {
  static constexpr int value = N;
};

// Calls f(Count<n>), with kTargets in place of a larger n, so that loops over targets are unrolled.
template <class F>
TRELLIS_INLINE void with_count(std::int64_t n, const F& f) {
  switch (n) {
    case 1: return f(Count<1>{});
    case 2: return f(Count<2>{});
    case 3: return f(Count<3>{});
    case 4: return f(Count<4>{});
    case 5: return f(Count < kTargets<5 ? kTargets : 5>{});
    case 6: return f(Count < kTargets<6 ? kTargets : 6>{});
    case 7: return f(Count < kTargets<7 ? kTargets : 7>{});
    default: return f(Count<kTargets>{});
  }
}

// Returns the scores of C hidden vectors and T rows, in lanes c * kTargets + t. Rows are (stride).
template <int C, int T>
TRELLIS_INLINE FloatVec tile_scores(float* const* hidden, float* const* row, int stride) {
  FloatVec sum[kFloatWidth] = {};
  const float* w[T];
  const float* h[C];
  for (int t = 0; t < T; ++t) w[t] = row[t];
  for (int c = 0; c < C; ++c) h[c] = hidden[c];
  for (int j = 0; j < stride; j += kFloatWidth) {
    FloatVec x[C];
    for (int c = 0; c < C; ++c) x[c] = float_load(h[c] + j);
    for (int t = 0; t < T; ++t) {
      const FloatVec y = float_load(w[t] + j);
      for (int c = 0; c < C; ++c) sum[c * kTargets + t] += x[c] * y;
    }
  }
  return lane_sums(sum);
}

// out_c += sum_t g[c][t] w_t and w_t += sum_c g[c][t] h_c. `out` may equal `hidden`.
template <int T>
TRELLIS_INLINE void tile_update(float* const* hidden, float* const* out, int count, float* const* row,
                                int stride, const float* g, std::int64_t pitch) {
  float* rows[T];
  for (int t = 0; t < T; ++t) rows[t] = row[t];
  for (int j = 0; j < stride; j += kFloatWidth) {
    FloatVec w[T], change[T] = {};
    for (int t = 0; t < T; ++t) w[t] = float_load(rows[t] + j);
    for (int c = 0; c < count; ++c) {
      const FloatVec h = float_load(hidden[c] + j);
      FloatVec sum = float_load(out[c] + j);
      for (int t = 0; t < T; ++t) {
        const FloatVec factor = float_splat(g[c * pitch + t]);
        sum += factor * w[t];
        change[t] += factor * h;
      }
      float_store(out[c] + j, sum);
    }
    // Rows are loaded again, because a row may occur twice among the targets.
    for (int t = 0; t < T; ++t) float_store(rows[t] + j, float_load(rows[t] + j) + change[t]);
  }
}

TRELLIS_INLINE std::int64_t padded_targets(std::int64_t targets) {
  return (targets + kTargets - 1) / kTargets * kTargets;
}

// Returns the index of the label and weight of a target for hidden vector c of a tile.
TRELLIS_INLINE std::int64_t lane_of(std::int64_t target, int c) {
  return target / kTargets * kFloatWidth + c * kTargets + target % kTargets;
}
TRELLIS_INLINE void set_target(EmbeddingWorker& k, std::int64_t target, float label, float weight) {
  for (int c = 0; c < kHidden; ++c) {
    k.label[lane_of(target, c)] = label;
    k.weight[lane_of(target, c)] = weight;
  }
}
// Pads the last tile with targets of weight 0.
TRELLIS_INLINE void pad_targets(EmbeddingWorker& k, std::int64_t targets) {
  for (std::int64_t t = targets; t < padded_targets(targets); ++t) set_target(k, t, 0.0f, 0.0f);
}

// Calls use(c, C, first target, scores) for all tiles; a tile has the hidden vectors c .. c + C - 1.
template <class Use>
TRELLIS_INLINE void for_each_tile(float* const* hidden, int count, float* const* row,
                                  std::int64_t targets, int stride, const Use& use) {
  for (std::int64_t t = 0; t < targets; t += kTargets) {
    with_count(targets - t, [&](auto n) __attribute__((always_inline)) {
      constexpr int T = decltype(n)::value;
      int c = 0;
      for (; c + kHidden <= count; c += kHidden)
        use(c, kHidden, t, tile_scores<kHidden, T>(hidden + c, row + t, stride));
      for (; c < count; ++c) use(c, 1, t, tile_scores<1, T>(hidden + c, row + t, stride));
    });
  }
}

// Copies the scores of a tile to score, (count, pitch).
TRELLIS_INLINE void store_tile(float* score, std::int64_t pitch, int c, int width, std::int64_t t,
                               FloatVec v) {
  float lanes[kFloatWidth];
  float_store(lanes, v);
  for (int i = 0; i < width; ++i)
    std::memcpy(score + (c + i) * pitch + t, lanes + i * kTargets, sizeof(float) * kTargets);
}

// Computes score := rate weight (label - sigma(score)); returns the loss if `want_loss`.
inline double logistic(EmbeddingWorker& k, float* const* hidden, int count, float* const* row,
                       std::int64_t targets, int stride, bool want_loss) {
  const std::int64_t pitch = padded_targets(targets);
  double loss = 0.0;
  for_each_tile(hidden, count, row, targets, stride,
                [&](int c, int width, std::int64_t t, FloatVec s) __attribute__((always_inline)) {
                  const float* label = k.label + t / kTargets * kFloatWidth;
                  const float* weight = k.weight + t / kTargets * kFloatWidth;
                  if (want_loss) [[unlikely]] {
                    for (int i = 0; i < width * kTargets; ++i)
                      loss += weight[i] * softplus(label[i] > 0.5f ? -s[i] : s[i]);
                  }
                  const FloatVec g = k.rate * float_load(weight) * (float_load(label) - sigmoid(s));
                  store_tile(k.score, pitch, c, width, t, g);
                });
  return loss;
}

// Computes score := rate ((t == label) - p_t), with p the softmax over all targets; returns the loss.
inline double softmax(EmbeddingWorker& k, float* const* hidden, int count, float* const* row,
                      std::int64_t targets, std::int64_t label, int stride) {
  const std::int64_t pitch = padded_targets(targets);
  for_each_tile(hidden, count, row, targets, stride,
                [&](int c, int width, std::int64_t t, FloatVec s)
                    __attribute__((always_inline)) { store_tile(k.score, pitch, c, width, t, s); });
  double loss = 0.0;
  for (int c = 0; c < count; ++c) {
    float* score = k.score + c * pitch;
    float largest = score[0];
    for (std::int64_t t = 1; t < targets; ++t) largest = score[t] > largest ? score[t] : largest;
    const double label_score = static_cast<double>(score[label]) - static_cast<double>(largest);
    for (std::int64_t t = targets; t < pitch; ++t) score[t] = -1e30f;
    double sum = 0.0;
    constexpr int kStep =
        kTargets < kFloatWidth ? kTargets : kFloatWidth;  // rows are padded to tiles, not to vectors
    for (std::int64_t t = 0; t < pitch; t += kStep) {
      float lanes[kFloatWidth] = {};
      std::memcpy(lanes, score + t, sizeof(float) * kStep);
      FloatVec x = float_load(lanes) - largest;
      x = x < -80.0f ? float_splat(-80.0f) : x;  // e^-80 is negligible, and within the range of exp
      float_store(lanes, float_exp(x));
      for (int i = 0; i < kStep; ++i) sum += t + i < targets ? static_cast<double>(lanes[i]) : 0.0;
      std::memcpy(score + t, lanes, sizeof(float) * kStep);
    }
    const float scale = k.rate / static_cast<float>(sum);
    for (std::int64_t t = 0; t < pitch; ++t) score[t] *= -scale;
    score[label] += k.rate;
    loss += std::log(sum) - label_score;
  }
  return loss;
}

// Updates h and w. logistic() or softmax() must have replaced the scores by errors. If `out` is null, h
// changes in place; otherwise the change of h is written to `out`.
inline void update(EmbeddingWorker& k, float* const* hidden, float* const* out, int count,
                   float* const* row, std::int64_t targets, int stride) {
  const std::int64_t pitch = padded_targets(targets);
  const bool in_place = out == nullptr && targets <= kTargets;
  float* const* sums = in_place ? hidden : out == nullptr ? k.change_row : out;
  if (!in_place) {
    for (int c = 0; c < count; ++c) {
      for (int j = 0; j < stride; j += kFloatWidth) float_store(sums[c] + j, FloatVec{});
    }
  }
  for (std::int64_t t = 0; t < targets; t += kTargets) {
    with_count(targets - t, [&](auto n) __attribute__((always_inline)) {
      tile_update<decltype(n)::value>(hidden, sums, count, row + t, stride, k.score + t, pitch);
    });
  }
  if (in_place || out != nullptr) return;
  for (int c = 0; c < count; ++c) {
    for (int j = 0; j < stride; j += kFloatWidth)
      float_store(hidden[c] + j, float_load(hidden[c] + j) + float_load(sums[c] + j));
  }
}

// Performs one step as in training; only for tests. `softmax_target` is the right target of a softmax,
// or -1 for logistic losses.
inline double step(EmbeddingWorker& k, float* const* hidden, int count, float* const* row,
                   std::int64_t targets, std::int64_t softmax_target, const float* label,
                   const float* weight, int stride) {
  double loss = 0.0;
  if (softmax_target >= 0) {
    loss = softmax(k, hidden, count, row, targets, softmax_target, stride);
  } else {
    for (std::int64_t t = 0; t < targets; ++t) set_target(k, t, label[t], weight[t]);
    pad_targets(k, targets);
    loss = logistic(k, hidden, count, row, targets, stride, true);
  }
  update(k, hidden, nullptr, count, row, targets, stride);
  return loss;
}

}  // namespace trellis::TRELLIS_ISA::embedding
