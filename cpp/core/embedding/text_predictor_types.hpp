// The arguments of the kernels for predicting labels of texts.
#pragma once

#include <cstdint>

namespace trellis {

// A matrix of rows as floats, or as codes:  row_i = norm[norm_code_i] * (c_1[code_i1], ...,
// c_m[code_im]),  where c_g are the centroids of the g-th group of columns.
struct TextMatrix {
  std::int64_t rows = 0;
  std::int64_t dim = 0;
  // (rows, dim) floats, not necessarily aligned: they may be part of a memory-mapped file
  const std::uint8_t* dense = nullptr;
  std::int64_t row_bytes = 0;  // bytes from one row to the next
  // The following members are for rows stored as codes.
  const std::uint8_t* codes = nullptr;  // (rows, groups)
  std::int64_t groups = 0;
  std::int64_t width = 0;                    // columns per group; the last group may have fewer
  const float* centroids = nullptr;          // for each group (256, columns)
  const std::uint8_t* norm_codes = nullptr;  // (rows), or null: all norms are 1
  const float* norms = nullptr;              // (256)
};

struct TextKernels {
  // sum += the rows with these ids; ids (count), sum (dim)
  void (*add_rows)(const TextMatrix&, const std::int64_t* ids, std::int64_t count, float* sum);
  // out[i] = row_i . vector; rows are (count, stride), zero-padded, and stride is a multiple of 8
  void (*dots)(const float* rows, std::int64_t stride, std::int64_t count, const double* vector,
               double* out);
};

}  // namespace trellis
