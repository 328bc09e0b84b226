// The arguments of the kernels for nearest rows and product quantisation.
#pragma once

#include <cstdint>

namespace trellis {

// A table of vectors: score(row, query) = scale[row] * row . query
struct NearestRows {
  const float* rows;   // (count, dim)
  const float* scale;  // (count)
  std::int64_t dim;
};

// The best k rows of each query so far, best first; initially score -inf and id -1.
struct NearestBest {
  float* score;      // (queries, k)
  std::int64_t* id;  // (queries, k)
  std::int64_t k;
  float* floor;  // (queries): the score to beat, score[q][k - 1]
};

// The rows of a NearestRows table as bytes: |scale[i] row_i - step[i] code_i| < error_bound[i], rounding
// errors included.
struct CoarseRows {
  const std::int8_t* code;   // (count, stride), zero from dim on
  const float* step;         // (count)
  const float* error_bound;  // (count)
  std::int64_t stride;       // coarse_stride(dim)
};

struct CoarseQueries {
  const float* rows;    // (count, dim)
  const float* padded;  // (count, stride), zero from dim on
  const float* length;  // (count): upper bounds of the norms
  std::int64_t count;
};

// dim rounded up to a multiple of 16: the bytes of one vector load.
inline constexpr std::int64_t coarse_stride(std::int64_t dim) { return (dim + 15) / 16 * 16; }

struct NearestKernels {
  int lanes;  // queries per packed group
  // (count, dim) -> (groups of `lanes` queries, dim, lanes), padded with zeros
  void (*pack)(const float* queries, std::int64_t count, std::int64_t dim, float* packed);
  // Scores rows [begin, end) for many queries; `best` has entries for all lanes of all groups.
  void (*many)(const NearestRows&, std::int64_t begin, std::int64_t end, const float* packed,
               std::int64_t groups, const NearestBest& best);
  // Scores rows [begin, end) for few queries, (count, dim), which are not packed.
  void (*few)(const NearestRows&, std::int64_t begin, std::int64_t end, const float* queries,
              std::int64_t count, const NearestBest& best);
  // Scores rows [begin, end) for few queries, but reads a row of floats only if its bytes do not show
  // that the row cannot be among the best.
  void (*coarse)(const NearestRows&, const CoarseRows&, std::int64_t begin, std::int64_t end,
                 const CoarseQueries&, const NearestBest& best);
  // Computes the bytes of rows [begin, end).
  void (*coarsen)(const NearestRows&, std::int64_t begin, std::int64_t end, std::int64_t stride,
                  std::int8_t* code, float* step, float* error_bound);
  // code[i] = argmin_c |point_i - centroid_c|; among equal distances the lowest c. Points are `stride`
  // apart, centroids are (width, 256), codes are code_stride apart.
  void (*assign)(const float* points, std::int64_t count, std::int64_t stride, std::int64_t width,
                 const float* centroids, std::uint8_t* codes, std::int64_t code_stride);
};

inline constexpr int kCentroids = 256;  // a code is a byte

}  // namespace trellis
