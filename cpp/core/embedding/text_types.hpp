// What the labelling of texts asks of the kernels.
#pragma once

#include <cstdint>

namespace trellis {

// Rows as floats, or as codes:  row_i = norm[norm_code_i] * (c_1[code_i1], ..., c_m[code_im]).
struct TextMatrix {
  std::int64_t rows = 0;
  std::int64_t dim = 0;
  // floats, which need not be aligned: they may lie in a mapped file
  const std::uint8_t* dense = nullptr;
  std::int64_t row_bytes = 0;
  // codes
  const std::uint8_t* codes = nullptr;  // (rows, groups)
  std::int64_t groups = 0;
  std::int64_t width = 0;            // columns of a group; the last may have fewer
  const float* centroids = nullptr;  // group after group, (256, its columns)
  const std::uint8_t* norm_codes = nullptr;
  const float* norms = nullptr;  // (256)
};

struct TextKernels {
  // sum += the rows of these ids
  void (*add_rows)(const TextMatrix&, const std::int64_t* ids, std::int64_t count, float* sum);
  // out[i] = row_i . vector;  the stride is a multiple of 8, and what is past the columns is zero
  void (*dots)(const float* rows, std::int64_t stride, std::int64_t count, const double* vector,
               double* out);
};

}  // namespace trellis
