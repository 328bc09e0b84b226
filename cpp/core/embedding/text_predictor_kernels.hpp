// Sums of rows, stored as floats or as codes, and dot products with a vector.
#pragma once

#include "base/simd_float.hpp"
#include "embedding/nearest_types.hpp"
#include "embedding/text_predictor_types.hpp"

namespace trellis::TRELLIS_ISA::text {

// Returns the float at p, which may have any alignment.
TRELLIS_INLINE float float_at(const std::uint8_t* p) {
  float value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

inline void add_dense(const TextMatrix& m, const std::int64_t* ids, std::int64_t count, float* sum) {
  std::int64_t j = 0;
  for (; j + kFloatWidth <= m.dim; j += kFloatWidth) {
    FloatVec total = float_load(sum + j);
    for (std::int64_t i = 0; i < count; ++i) {
      FloatVec v;
      std::memcpy(&v, m.dense + ids[i] * m.row_bytes + j * 4, sizeof v);
      total += v;
    }
    float_store(sum + j, total);
  }
  for (; j < m.dim; ++j) {
    for (std::int64_t i = 0; i < count; ++i) sum[j] += float_at(m.dense + ids[i] * m.row_bytes + j * 4);
  }
}

// kColumns is the number of columns of a group if it is known at compile time, otherwise 0.
template <int kColumns>
inline void add_codes(const TextMatrix& m, const std::int64_t* ids, std::int64_t count,
                      float* __restrict sum) {
  const std::int64_t width = kColumns > 0 ? kColumns : m.width;
  const std::int64_t full_groups = m.dim / width;  // the last group may have fewer columns
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint8_t* code = m.codes + ids[i] * m.groups;
    const float norm = m.norm_codes == nullptr ? 1.0f : m.norms[m.norm_codes[ids[i]]];
    for (std::int64_t g = 0; g < full_groups; ++g) {
      const float* centroid = m.centroids + (g * kCentroids + code[g]) * width;
      for (std::int64_t j = 0; j < width; ++j) sum[g * width + j] += norm * centroid[j];
    }
    if (full_groups == m.groups) continue;
    const std::int64_t last = m.dim - full_groups * width;
    const float* centroid = m.centroids + full_groups * kCentroids * width + code[full_groups] * last;
    for (std::int64_t j = 0; j < last; ++j) sum[full_groups * width + j] += norm * centroid[j];
  }
}

inline void add_rows(const TextMatrix& m, const std::int64_t* ids, std::int64_t count, float* sum) {
  if (m.codes == nullptr) return add_dense(m, ids, count, sum);
  return m.width == 2 ? add_codes<2>(m, ids, count, sum) : add_codes<0>(m, ids, count, sum);
}

inline void dots(const float* rows, std::int64_t stride, std::int64_t count, const double* vector,
                 double* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    Vec total{};
    for (std::int64_t j = 0; j < stride; j += kWidth)
      total += load(rows + i * stride + j) * load(vector + j);
    out[i] = sum_lanes(total)[0];
  }
}

}  // namespace trellis::TRELLIS_ISA::text
