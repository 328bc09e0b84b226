// OWL-QN: minimises loss(w) + Σ c_i |w_i| (Andrew and Gao 2007). The optimiser is in
// src/trellis/optim/owlqn.py; these are its loops over long vectors.
#pragma once

#include <cstdint>

#include "base/simd.hpp"
#include "optim/vectors.hpp"

namespace trellis::TRELLIS_ISA {

// Computes the pseudo-gradient, the slope of loss + Σ c_i |w_i|. Where w_i = 0, it is the one-sided
// slope on the side that descends, or 0 if neither side descends. Returns Σ c_i |w_i|.
inline double pseudo_gradient(const double* w, const double* gradient, const double* c, std::int64_t n,
                              double* out, int threads) {
  double total;
  sum_blocks(n, threads, 1, &total, [=](std::int64_t begin, std::int64_t end, double* sums) {
    Vec penalty{};
    for_each_vec(begin, end, [&](std::int64_t i, int lanes) __attribute__((always_inline)) {
      const Vec x = load_lanes(w + i, lanes), g = load_lanes(gradient + i, lanes);
      const Vec l1 = load_lanes(c + i, lanes);
      // This order of arguments preserves NaN.
      const Vec at_zero = max(Vec{}, g - l1) + min(Vec{}, g + l1);
      store_first(out + i, select(x > 0.0, g + l1, select(x < 0.0, g - l1, at_zero)), lanes);
      penalty += l1 * max(x, -x);
    });
    sums[0] = sum(penalty);
  });
  return total;
}

// Sets d_i to 0 where it does not descend along the pseudo-gradient; returns d · pseudo.
inline double project_direction(const double* pseudo, const double* c, std::int64_t n, double* d,
                                int threads) {
  double total;
  sum_blocks(n, threads, 1, &total, [=](std::int64_t begin, std::int64_t end, double* sums) {
    Vec slope{};
    for_each_vec(begin, end, [&](std::int64_t i, int lanes) __attribute__((always_inline)) {
      const Vec p = load_lanes(pseudo + i, lanes), x = load_lanes(d + i, lanes);
      const Mask is_ascent = (x * p >= 0.0) & (load_lanes(c + i, lanes) > 0.0);
      const Vec projected = select(is_ascent, Vec{}, x);
      store_first(d + i, projected, lanes);
      slope += projected * p;
    });
    sums[0] = sum(slope);
  });
  return total;
}

struct OrthantStep {
  double penalty;  // Σ c_i |out_i|
  double slope;    // (out - w) · pseudo
};

// out = w + t d, but 0 where this leaves the orthant of w (or of -pseudo where w_i = 0).
inline OrthantStep orthant_step(const double* w, const double* d, double t, const double* pseudo,
                                const double* c, std::int64_t n, double* out, int threads) {
  double totals[2];
  sum_blocks(n, threads, 2, totals, [=](std::int64_t begin, std::int64_t end, double* sums) {
    Vec penalty{}, slope{};
    for_each_vec(begin, end, [&](std::int64_t i, int lanes) __attribute__((always_inline)) {
      const Vec x = load_lanes(w + i, lanes), p = load_lanes(pseudo + i, lanes);
      const Vec l1 = load_lanes(c + i, lanes), unprojected = x + t * load_lanes(d + i, lanes);
      const Vec side = select(x == 0.0, -p, x);
      const Mask is_in_orthant =
          ((unprojected > 0.0) & (side > 0.0)) | ((unprojected < 0.0) & (side < 0.0)) | (l1 <= 0.0);
      const Vec projected = select(is_in_orthant, unprojected, Vec{});
      store_first(out + i, projected, lanes);
      penalty += l1 * max(projected, -projected);
      slope += (projected - x) * p;
    });
    sums[0] = sum(penalty);
    sums[1] = sum(slope);
  });
  return {totals[0], totals[1]};
}

}  // namespace trellis::TRELLIS_ISA
