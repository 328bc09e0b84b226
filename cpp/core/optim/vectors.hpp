// Long vectors for the optimisers: inner products and steps.
//
// A vector is divided into blocks of a fixed size, which the threads share. Each block has its own
// partial sums, and these are added in the order of the blocks. So results do not depend on the number
// of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/simd.hpp"
#include "base/thread_pool.hpp"

namespace trellis::TRELLIS_ISA {

inline constexpr std::int64_t kBlock = 8192;  // numbers per task of a thread; chosen by hand
inline constexpr std::int64_t kTile = 512;    // numbers per tile of a vector; chosen by hand

// Calls body(begin, end, sums) for each block, and writes the totals of the `count` sums over all
// blocks.
template <class Body>
void sum_blocks(std::int64_t n, int threads, int count, double* totals, const Body& body) {
  const std::int64_t blocks = (n + kBlock - 1) / kBlock;
  std::vector<double> sums(static_cast<std::size_t>(blocks * count));
  parallel_for(blocks, threads, [&] {
    return [&](std::int64_t b) {
      body(b * kBlock, std::min(n, (b + 1) * kBlock), sums.data() + b * count);
    };
  });
  std::fill_n(totals, count, 0.0);
  for (std::int64_t b = 0; b < blocks; ++b) {
    for (int i = 0; i < count; ++i) totals[i] += sums[b * count + i];
  }
}

// Calls body(i, lanes) for i = begin, begin + kWidth, ...; the last call may have fewer lanes.
template <class Body>
TRELLIS_INLINE void for_each_vec(std::int64_t begin, std::int64_t end, const Body& body) {
  std::int64_t i = begin;
  for (; i + kWidth <= end; i += kWidth) body(i, kWidth);
  if (i < end) body(i, static_cast<int>(end - i));
}

TRELLIS_INLINE double sum(Vec v) { return sum_lanes(v)[0]; }
TRELLIS_INLINE Vec load_lanes(const double* p, int lanes) { return load_first(p, lanes, 0.0); }

// a · b
inline double dot(const double* a, const double* b, std::int64_t n, int threads) {
  double total;
  sum_blocks(n, threads, 1, &total, [=](std::int64_t begin, std::int64_t end, double* sums) {
    Vec parts[4]{};
    std::int64_t i = begin;
    for (; i + 4 * kWidth <= end; i += 4 * kWidth) {
      for (int k = 0; k < 4; ++k) parts[k] += load(a + i + k * kWidth) * load(b + i + k * kWidth);
    }
    for_each_vec(i, end, [&](std::int64_t j, int lanes) __attribute__((always_inline)) {
      parts[0] += load_lanes(a + j, lanes) * load_lanes(b + j, lanes);
    });
    sums[0] = sum((parts[0] + parts[1]) + (parts[2] + parts[3]));
  });
  return total;
}

// out = w + t d
inline void step(const double* w, const double* d, double t, std::int64_t n, double* out, int threads) {
  sum_blocks(n, threads, 0, nullptr, [=](std::int64_t begin, std::int64_t end, double*) {
    for_each_vec(begin, end, [&](std::int64_t i, int lanes) __attribute__((always_inline)) {
      store_first(out + i, load_lanes(w + i, lanes) + t * load_lanes(d + i, lanes), lanes);
    });
  });
}

}  // namespace trellis::TRELLIS_ISA
