// Scores of rows against queries. Only the best k per query are stored; the matrix of scores is not.
// The scores of many queries are a matrix product. Each SIMD lane belongs to one query. The numbers of a
// row are broadcast to all lanes, and a vector of scores is compared with a vector of thresholds. Few
// scores exceed these thresholds and have to be inserted.
#pragma once

#include "base/poll.hpp"
#include "base/simd_float.hpp"
#include "embedding/nearest_types.hpp"

namespace trellis::TRELLIS_ISA {

inline constexpr int kQueries = 2 * kFloatWidth;  // queries of a tile
// Rows of a tile; more would not fit in the registers.
inline constexpr int kRows = kVectorBytes == 64 ? 12 : 6;
// Rows that are used for all queries before the next rows are read; chosen by hand.
inline constexpr std::int64_t kRowBlock = 20 * kRows;

// Inserts a score into the sorted best k of a query, after equal scores.
inline void keep(const NearestBest& best, std::int64_t query, float score, std::int64_t id) {
  float* scores = best.score + query * best.k;
  std::int64_t* ids = best.id + query * best.k;
  std::int64_t at = best.k - 1;
  for (; at > 0 && scores[at - 1] < score; --at) {
    scores[at] = scores[at - 1];
    ids[at] = ids[at - 1];
  }
  scores[at] = score;
  ids[at] = id;
  best.floor[query] = scores[best.k - 1];
}

// Inserts the scores of one row for a vector of queries, where they beat the threshold.
TRELLIS_INLINE void keep_better(const NearestBest& best, std::int64_t query, FloatVec score,
                                std::int64_t id) {
  unsigned better = greater_bits(score, float_load(best.floor + query));
  if (better == 0) return;
  float scores[kFloatWidth];
  float_store(scores, score);
  for (; better != 0; better &= better - 1) {
    const int lane = __builtin_ctz(better);
    keep(best, query + lane, scores[lane], id);
  }
}

// Scores R rows from `id` on for the group of queries that begins with `query`.
template <int R>
TRELLIS_INLINE void tile(const NearestRows& table, std::int64_t id, const float* packed,
                         std::int64_t query, const NearestBest& best) {
  const std::int64_t dim = table.dim;
  const float* rows = table.rows + id * dim;
  FloatVec sums[R][2]{};
  for (std::int64_t d = 0; d < dim; ++d) {
    const FloatVec q0 = float_load(packed + d * kQueries);
    const FloatVec q1 = float_load(packed + d * kQueries + kFloatWidth);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const FloatVec x = float_splat(rows[r * dim + d]);
      sums[r][0] += x * q0;
      sums[r][1] += x * q1;
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    const FloatVec scale = float_splat(table.scale[id + r]);
    keep_better(best, query, sums[r][0] * scale, id + r);
    keep_better(best, query + kFloatWidth, sums[r][1] * scale, id + r);
  }
}

inline void nearest_pack(const float* queries, std::int64_t count, std::int64_t dim, float* packed) {
  for (std::int64_t first = 0; first < count; first += kQueries, packed += dim * kQueries) {
    for (std::int64_t d = 0; d < dim; ++d) {
      for (std::int64_t q = 0; q < kQueries; ++q) {
        packed[d * kQueries + q] = first + q < count ? queries[(first + q) * dim + d] : 0.0f;
      }
    }
  }
}

inline void nearest_many(const NearestRows& table, std::int64_t begin, std::int64_t end,
                         const float* packed, std::int64_t groups, const NearestBest& best) {
  PollEvery poll(kRowBlock * kQueries * table.dim);
  for (std::int64_t block = begin; block < end; block += kRowBlock) {
    const std::int64_t stop = block + kRowBlock < end ? block + kRowBlock : end;
    for (std::int64_t g = 0; g < groups; ++g) {
      poll.step();
      const float* queries = packed + g * table.dim * kQueries;
      std::int64_t id = block;
      for (; id + kRows <= stop; id += kRows) tile<kRows>(table, id, queries, g * kQueries, best);
      for (; id < stop; ++id) tile<1>(table, id, queries, g * kQueries, best);
    }
  }
}

TRELLIS_INLINE float dot_floats(const float* a, const float* b, std::int64_t n) {
  FloatVec sums[4]{};
  std::int64_t i = 0;
  for (; i + 4 * kFloatWidth <= n; i += 4 * kFloatWidth) {
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      sums[k] += float_load(a + i + k * kFloatWidth) * float_load(b + i + k * kFloatWidth);
    }
  }
  for (; i + kFloatWidth <= n; i += kFloatWidth) sums[0] += float_load(a + i) * float_load(b + i);
  float tail_sum = 0.0f;
  for (; i < n; ++i) tail_sum += a[i] * b[i];
  return sum_floats((sums[0] + sums[1]) + (sums[2] + sums[3])) + tail_sum;
}

inline void nearest_few(const NearestRows& table, std::int64_t begin, std::int64_t end,
                        const float* queries, std::int64_t count, const NearestBest& best) {
  constexpr std::int64_t kAhead = 4096 / sizeof(float);  // hardware prefetchers stop at a page boundary
  for (std::int64_t id = begin; id < end; ++id) {
    const float* row = table.rows + id * table.dim;
    for (std::int64_t d = 0; d < table.dim; d += 16) __builtin_prefetch(row + d + kAhead);
    for (std::int64_t q = 0; q < count; ++q) {
      const float score = dot_floats(row, queries + q * table.dim, table.dim) * table.scale[id];
      if (score > best.floor[q]) keep(best, q, score, id);
    }
  }
}

// --- product quantisation

// Returns the index of the nearest of 256 centroids, (width, 256); among equal distances the lowest
// index.
inline std::uint8_t nearest_centroid(const float* point, std::int64_t width, const float* centroids) {
  FloatVec best = float_splat(__builtin_inff());
  FloatMask block{};  // per lane: the block of centroids with the best distance
  for (int c = 0; c < kCentroids; c += kFloatWidth) {
    FloatVec distance{};  // sums of squared differences stay precise where centroids are close
    for (std::int64_t d = 0; d < width; ++d) {
      const FloatVec difference = float_splat(point[d]) - float_load(centroids + d * kCentroids + c);
      distance += difference * difference;
    }
    const FloatMask is_nearer = distance < best;
    best = is_nearer ? distance : best;
    block = is_nearer ? c - FloatMask{} : block;
  }
  int nearest = block[0];
  float least = best[0];
  for (int lane = 1; lane < kFloatWidth; ++lane) {
    const int code = block[lane] + lane;
    if (best[lane] < least || (best[lane] == least && code < nearest)) {
      least = best[lane];
      nearest = code;
    }
  }
  return static_cast<std::uint8_t>(nearest);
}

inline void assign_centroids(const float* points, std::int64_t count, std::int64_t stride,
                             std::int64_t width, const float* centroids, std::uint8_t* codes,
                             std::int64_t code_stride) {
  for (std::int64_t i = 0; i < count; ++i) {
    codes[i * code_stride] = nearest_centroid(points + i * stride, width, centroids);
  }
}

}  // namespace trellis::TRELLIS_ISA
