// What the search for nearest rows and the product quantiser ask of the kernels.
#pragma once

#include <cstdint>

namespace trellis {

// A table of vectors: score(row, query) = scale[row] * row . query
struct NearestRows {
  const float* rows;   // (count, dim)
  const float* scale;  // (count)
  std::int64_t dim;
};

// The best k of each query so far, best first; where none is known yet, score -inf and id -1.
struct NearestBest {
  float* score;      // (queries, k)
  std::int64_t* id;  // (queries, k)
  std::int64_t k;
  float* floor;  // (queries): the score to beat, score[q][k - 1]
};

struct NearestKernels {
  int lanes;  // queries that are packed together
  // (count, dim) -> (groups of `lanes` queries, dim, lanes); those past count are zero
  void (*pack)(const float* queries, std::int64_t count, std::int64_t dim, float* packed);
  // Rows [begin, end) against many queries; `best` has room for all lanes of all groups.
  void (*many)(const NearestRows&, std::int64_t begin, std::int64_t end, const float* packed,
               std::int64_t groups, const NearestBest& best);
  // The same for few queries, (count, dim), as they are.
  void (*few)(const NearestRows&, std::int64_t begin, std::int64_t end, const float* queries,
              std::int64_t count, const NearestBest& best);
  // code[i] = argmin_c |point_i - centroid_c|, the lowest of equals;  points are `stride` apart,
  // centroids are (width, 256).
  void (*assign)(const float* points, std::int64_t count, std::int64_t stride, std::int64_t width,
                 const float* centroids, std::uint8_t* codes, std::int64_t code_stride);
};

inline constexpr int kCentroids = 256;  // what a byte can tell apart

}  // namespace trellis
