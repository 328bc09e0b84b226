// Rows as bytes. They need a quarter of the memory traffic of floats, and they are precise enough to
// rule out most rows. For a query q, a scaled row x and its bytes y,
//
//     x = scale row      y = step code      |q . x - q . y| <= |q| |x - y|
//
// Only rows that may beat the k-th best score are read in full, so the result is exact.
#pragma once

#include <cmath>

#include "embedding/nearest_kernels.hpp"

namespace trellis::TRELLIS_ISA {

// Loads as many bytes as a vector has floats, and converts them. Compilers may convert the generic form
// byte by byte.
TRELLIS_INLINE FloatVec load_bytes(const std::int8_t* p) {
#if defined(__AVX512F__)
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  const auto integers = reinterpret_cast<FloatMask>(_mm512_maskz_cvtepi8_epi32(0xffff, bytes));
#elif defined(__AVX2__)
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  const auto integers = reinterpret_cast<FloatMask>(_mm256_cvtepi8_epi32(bytes));
#elif defined(__SSE4_1__)
  std::int32_t four;
  std::memcpy(&four, p, sizeof four);
  const auto integers = reinterpret_cast<FloatMask>(_mm_cvtepi8_epi32(_mm_cvtsi32_si128(four)));
#else
  typedef std::int8_t ByteVec __attribute__((vector_size(kFloatWidth)));
  ByteVec bytes;
  std::memcpy(&bytes, p, sizeof bytes);
  const FloatMask integers = __builtin_convertvector(bytes, FloatMask);
#endif
  return __builtin_convertvector(integers, FloatVec);
}

TRELLIS_INLINE float dot_bytes(const std::int8_t* a, const float* b, std::int64_t n) {
  FloatVec sums[2]{};
  std::int64_t i = 0;
  for (; i + 2 * kFloatWidth <= n; i += 2 * kFloatWidth) {
    sums[0] += load_bytes(a + i) * float_load(b + i);
    sums[1] += load_bytes(a + i + kFloatWidth) * float_load(b + i + kFloatWidth);
  }
  for (; i < n; i += kFloatWidth) sums[0] += load_bytes(a + i) * float_load(b + i);
  return sum_floats(sums[0] + sums[1]);
}

// max |row[d]|
TRELLIS_INLINE float largest_size(const float* row, std::int64_t dim) {
  FloatVec sizes{};
  std::int64_t d = 0;
  for (; d + kFloatWidth <= dim; d += kFloatWidth) {
    const FloatVec x = float_load(row + d), size = x < 0.0f ? -x : x;
    sizes = size > sizes ? size : sizes;
  }
  float largest = 0.0f;
  for (int lane = 0; lane < kFloatWidth; ++lane) largest = sizes[lane] > largest ? sizes[lane] : largest;
  for (; d < dim; ++d) {
    const float size = row[d] < 0.0f ? -row[d] : row[d];
    largest = size > largest ? size : largest;
  }
  return largest;
}

inline void coarsen(const NearestRows& table, std::int64_t begin, std::int64_t end, std::int64_t stride,
                    std::int8_t* code, float* step, float* error_bound) {
  // An upper bound of the relative rounding error of x and of both scores, q . x and q . y. A score is a
  // sum of `dim` products, times a factor.
  const float rounding = (static_cast<float>(table.dim) + 16.0f) * 0x1p-22f;
  for (std::int64_t id = begin; id < end; ++id) {
    const float* row = table.rows + id * table.dim;
    std::int8_t* row_code = code + id * stride;
    const float largest = largest_size(row, table.dim), scale = table.scale[id];
    const float inverse = largest > 0.0f ? 127.0f / largest : 0.0f;
    // Adding an offset makes the number positive, so truncation rounds it without a branch on the sign.
    for (std::int64_t d = 0; d < table.dim; ++d)
      row_code[d] = static_cast<std::int8_t>(static_cast<int>(row[d] * inverse + 128.5f) - 128);
    for (std::int64_t d = table.dim; d < stride; ++d) row_code[d] = 0;
    step[id] = largest * scale / 127.0f;
    FloatVec squares{}, errors{};
    std::int64_t d = 0;
    for (; d + kFloatWidth <= table.dim; d += kFloatWidth) {
      const FloatVec x = scale * float_load(row + d), error = x - step[id] * load_bytes(row_code + d);
      squares += x * x;
      errors += error * error;
    }
    float squared_length = sum_floats(squares), squared_error = sum_floats(errors);
    for (; d < table.dim; ++d) {
      const float x = scale * row[d], error = x - step[id] * static_cast<float>(row_code[d]);
      squared_length += x * x;
      squared_error += error * error;
    }
    // 1.001 covers the rounding of these sums.
    error_bound[id] = (std::sqrt(squared_error) + rounding * std::sqrt(squared_length)) * 1.001f;
  }
}

inline void nearest_coarse(const NearestRows& table, const CoarseRows& coarse, std::int64_t begin,
                           std::int64_t end, const CoarseQueries& queries, const NearestBest& best) {
  constexpr std::int64_t kAhead = 4096;  // bytes: one page; hardware prefetchers stop at a page boundary
  for (std::int64_t id = begin; id < end; ++id) {
    const std::int8_t* code = coarse.code + id * coarse.stride;
    for (std::int64_t d = 0; d < coarse.stride; d += 64) __builtin_prefetch(code + d + kAhead);
    for (std::int64_t q = 0; q < queries.count; ++q) {
      const float approximate_score = dot_bytes(code, queries.padded + q * coarse.stride, coarse.stride);
      if (approximate_score * coarse.step[id] + queries.length[q] * coarse.error_bound[id] <=
          best.floor[q])
        continue;
      const float* row = table.rows + id * table.dim;
      const float score = dot_floats(row, queries.rows + q * table.dim, table.dim) * table.scale[id];
      if (score > best.floor[q]) keep(best, q, score, id);
    }
  }
}

}  // namespace trellis::TRELLIS_ISA
