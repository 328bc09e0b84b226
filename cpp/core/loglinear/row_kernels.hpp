// From attributes to scores and from residuals to gradients: the hot loops of log-linear models.
#pragma once

#include "base/simd.hpp"
#include "loglinear/types.hpp"

namespace trellis::TRELLIS_ISA {

// Prefetch distances: kAhead attribute occurrences, kWeightsAhead single weights. Prefetching 64 weights
// ahead was faster than no prefetching (docs/notes/benchmarks.md); kAhead was chosen by hand, no
// measurement is recorded.
inline constexpr int kAhead = 24, kWeightsAhead = 64;
// A row of at most kLocalRow padded labels is accumulated on the stack. The value is that of
// DenseAttributes::kWidest.
inline constexpr int kLocalRow = 1024;

// row[label] += value * weight, for attributes with a long range of weights.
TRELLIS_INLINE void sparse_scores(const RowPlan& plan, const double* weights, std::int64_t begin,
                                  std::int64_t end, double* row) {
  for (std::int64_t i = begin; i < end; ++i) {
    const Stretch s = plan.sparse[i];
    __builtin_prefetch(weights + plan.sparse[i + kAhead].begin);
    __builtin_prefetch(plan.label + plan.sparse[i + kAhead].begin);
    const double value = plan.sparse_value == nullptr ? 1.0 : plan.sparse_value[i];
    const double* w = weights + s.begin;
    const std::uint16_t* label = plan.label + s.begin;
    for (std::uint32_t k = 0; k < s.count; ++k) row[label[k]] += value * w[k];
  }
}

// row[label] += value * weight, for attributes with few weights, which the plan lists one by one. With
// kOnes, all values are 1.
template <bool kOnes>
TRELLIS_INLINE void few_scores(const RowPlan& plan, const double* weights, std::int64_t begin,
                               std::int64_t end, double* row) {
  for (std::int64_t i = begin; i < end; ++i) {
    __builtin_prefetch(weights + plan.few[i + kWeightsAhead]);
    row[plan.few_label[i]] += (kOnes ? 1.0 : plan.few_value[i]) * weights[plan.few[i]];
  }
}

// Adds gradient[weight] += value * row[label]. It is the transpose of few_scores.
template <bool kOnes>
TRELLIS_INLINE void few_gradient(const RowPlan& plan, const double* row, std::int64_t begin,
                                 std::int64_t end, double* gradient) {
  for (std::int64_t i = begin; i < end; ++i) {
    __builtin_prefetch(gradient + plan.few[i + kWeightsAhead], 1);
    gradient[plan.few[i]] += (kOnes ? 1.0 : plan.few_value[i]) * row[plan.few_label[i]];
  }
}

// Prefetches the dense row that is needed kAhead occurrences later.
template <int N, int kWrite>
TRELLIS_INLINE void fetch_dense(const RowPlan& plan, const double* table, std::int64_t i) {
  const double* row = table + static_cast<std::int64_t>(plan.dense[i + kAhead]) * plan.stride;
#pragma GCC unroll 4
  for (int n = 0; n < N * kWidth; n += 8) __builtin_prefetch(row + n, kWrite);
}

// Writes the sum of the dense attributes of a row, for N vectors of labels, which stay in registers (N
// <= 4).
template <int N>
TRELLIS_INLINE void dense_scores(const RowPlan& plan, const double* table, std::int64_t begin,
                                 std::int64_t end, int column, double* row) {
  Vec sum[N] = {};
  for (std::int64_t i = begin; i < end; ++i) {
    fetch_dense<N, 0>(plan, table + column, i);
    const double* w = table + static_cast<std::int64_t>(plan.dense[i]) * plan.stride + column;
    const Vec value = splat(plan.dense_value == nullptr ? 1.0 : plan.dense_value[i]);
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) sum[n] += value * load(w + n * kWidth);
  }
#pragma GCC unroll 4
  for (int n = 0; n < N; ++n) store(row + column + n * kWidth, sum[n]);
}

// Adds table += value * row. It is the transpose of dense_scores.
template <int N>
TRELLIS_INLINE void dense_gradient(const RowPlan& plan, const double* row, std::int64_t begin,
                                   std::int64_t end, int column, double* table) {
  Vec r[N];
#pragma GCC unroll 4
  for (int n = 0; n < N; ++n) r[n] = load(row + column + n * kWidth);
  for (std::int64_t i = begin; i < end; ++i) {
    fetch_dense<N, 1>(plan, table + column, i);
    double* g = table + static_cast<std::int64_t>(plan.dense[i]) * plan.stride + column;
    const Vec value = splat(plan.dense_value == nullptr ? 1.0 : plan.dense_value[i]);
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) store(g + n * kWidth, load(g + n * kWidth) + value * r[n]);
  }
}

// Calls use(N, column) for pieces of up to 4 vectors, which together cover a row.
template <class Use>
TRELLIS_INLINE void in_pieces(int stride, const Use& use) {
  const int vectors = stride / kWidth;
  int v = 0;
  for (; v + 4 <= vectors; v += 4) use.template operator()<4>(v * kWidth);
  switch (vectors - v) {
    case 3: return use.template operator()<3>(v * kWidth);
    case 2: return use.template operator()<2>(v * kWidth);
    case 1: return use.template operator()<1>(v * kWidth);
    default: return;
  }
}

// Copies a row of `labels` numbers, from or to a row that is padded to full vectors.
TRELLIS_INLINE void copy_row(const double* from, double* to, int labels) {
  for (int y = 0; y < labels; y += kWidth) {
    const int n = labels - y < kWidth ? labels - y : kWidth;
    store_first(to + y, load_first(from + y, n, 0.0), n);
  }
}

// Computes the scores of rows. The terms are added in the order of the plan: dense attributes, then long
// ranges, then single weights. Another order would change the last bits of the result.
inline void score_rows(const RowPlan& plan, const double* dense_weights, const double* weights,
                       std::int64_t begin, std::int64_t end, double* scores) {
  alignas(64) double local[kLocalRow];
  for (std::int64_t r = begin; r < end; ++r) {
    double* to = scores + (r - begin) * plan.labels;
    double* row = plan.stride <= kLocalRow ? local : to;
    if (plan.stride <= kLocalRow) {
      in_pieces(plan.stride, [&]<int N>(int column) __attribute__((always_inline)) {
        dense_scores<N>(plan, dense_weights, plan.dense_begin[r], plan.dense_begin[r + 1], column, row);
      });
    } else {
      for (int y = 0; y < plan.labels; ++y) row[y] = 0.0;
    }
    sparse_scores(plan, weights, plan.sparse_begin[r], plan.sparse_begin[r + 1], row);
    if (plan.few_value == nullptr) {
      few_scores<true>(plan, weights, plan.few_begin[r], plan.few_begin[r + 1], row);
    } else {
      few_scores<false>(plan, weights, plan.few_begin[r], plan.few_begin[r + 1], row);
    }
    if (row != to) copy_row(row, to, plan.labels);
  }
}

// Computes the scores of rows without a plan, from attribute ids. For each id, its place is prefetched
// first, and its weights later.
inline void score_ids(const RowPlan& plan, const Place* places, std::int64_t attributes,
                      const double* dense_weights, const double* weights, const std::int64_t* begin,
                      const std::int32_t* id, const double* value, std::int64_t rows, double* scores) {
  const std::int64_t all = begin[rows];
  const auto place = [&](std::int64_t i) __attribute__((always_inline)) {
    // Read exactly once: another thread could change the id between the check and its use.
    const std::int32_t a = i < all ? *static_cast<const volatile std::int32_t*>(id + i) : -1;
    return a >= 0 && a < attributes ? places + a : nullptr;
  };
  alignas(64) double local[kLocalRow];
  for (std::int64_t r = 0; r < rows; ++r) {
    double* to = scores + r * plan.labels;
    double* row = plan.stride <= kLocalRow ? local : to;
    for (int y = 0; y < (row == to ? plan.labels : plan.stride); ++y) row[y] = 0.0;
    for (std::int64_t i = begin[r]; i < begin[r + 1]; ++i) {
      __builtin_prefetch(place(i + 2 * kAhead));
      // This place was prefetched kAhead iterations ago. It is read now to prefetch the weights.
      if (const Place* next = place(i + kAhead)) {
        __builtin_prefetch(next->dense < 0 ? weights + next->begin
                                           : dense_weights + std::int64_t{next->dense} * plan.stride);
      }
      const Place* current = place(i);
      if (current == nullptr) continue;
      const double v = value == nullptr ? 1.0 : value[i];
      if (current->dense >= 0) {
        const double* w = dense_weights + std::int64_t{current->dense} * plan.stride;
        for (int y = 0; y < plan.stride; y += kWidth) {
          store(row + y, load(row + y) + splat(v) * load(w + y));
        }
      } else {
        const std::uint16_t* label = plan.label + current->begin;
        for (std::uint32_t k = 0; k < current->count; ++k)
          row[label[k]] += v * weights[current->begin + k];
      }
    }
    if (row != to) copy_row(row, to, plan.labels);
  }
}

// Adds value * residual to the gradient of every weight of a row. It is the transpose of score_rows.
inline void add_rows(const RowPlan& plan, const double* residual, std::int64_t begin, std::int64_t end,
                     double* dense_gradient_table, double* gradient) {
  alignas(64) double local[kLocalRow] = {};
  for (std::int64_t r = begin; r < end; ++r) {
    const double* row = residual + (r - begin) * plan.labels;
    if (plan.stride <= kLocalRow) {
      copy_row(row, local, plan.labels);
      row = local;
      in_pieces(plan.stride, [&]<int N>(int column) __attribute__((always_inline)) {
        dense_gradient<N>(plan, row, plan.dense_begin[r], plan.dense_begin[r + 1], column,
                          dense_gradient_table);
      });
    }
    for (std::int64_t i = plan.sparse_begin[r]; i < plan.sparse_begin[r + 1]; ++i) {
      const Stretch s = plan.sparse[i];
      __builtin_prefetch(gradient + plan.sparse[i + kAhead].begin, 1);
      __builtin_prefetch(plan.label + plan.sparse[i + kAhead].begin);
      const double value = plan.sparse_value == nullptr ? 1.0 : plan.sparse_value[i];
      double* g = gradient + s.begin;
      const std::uint16_t* label = plan.label + s.begin;
      for (std::uint32_t k = 0; k < s.count; ++k) g[k] += value * row[label[k]];
    }
    if (plan.few_value == nullptr) {
      few_gradient<true>(plan, row, plan.few_begin[r], plan.few_begin[r + 1], gradient);
    } else {
      few_gradient<false>(plan, row, plan.few_begin[r], plan.few_begin[r + 1], gradient);
    }
  }
}

// Computes p = softmax(scores + extra) in three passes over p, which holds scores + extra, then
// exponentials, then probabilities. Returns log sum exp(scores + extra).
inline double softmax(const double* scores, const double* extra, int labels, double* p) {
  Vec top = splat(-kInfinity);
  for (int y = 0; y < labels; y += kWidth) {
    const int n = labels - y < kWidth ? labels - y : kWidth;
    const Vec s = load_first(scores + y, n, -kInfinity) + load_first(extra + y, n, 0.0);
    store_first(p + y, s, n);
    top = max(top, s);
  }
  top = max_lanes(top);
  Vec total{};
  for (int y = 0; y < labels; y += kWidth) {
    const int n = labels - y < kWidth ? labels - y : kWidth;
    const Vec e = exp(load_first(p + y, n, -kInfinity) - top);
    store_first(p + y, e, n);
    total += e;
  }
  const double sum = sum_lanes(total)[0];
  const Vec inverse = splat(1.0 / sum);
  for (int y = 0; y < labels; y += kWidth) {
    const int n = labels - y < kWidth ? labels - y : kWidth;
    store_first(p + y, load_first(p + y, n, 0.0) * inverse, n);
  }
  return top[0] + __builtin_log(sum);
}

}  // namespace trellis::TRELLIS_ISA
