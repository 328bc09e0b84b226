// The discounts of modified Kneser-Ney smoothing (Chen and Goodman 1998, equation 26):
//
//     Y = n1 / (n1 + 2 n2)      Dk = k - (k + 1) Y n(k+1) / nk      for k = 1, 2, 3
//
// nk is the number of n-grams with adjusted count k. D3 serves all counts from 3 on.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include "ngram/adjusted_counts.hpp"

namespace trellis {

struct Discounts {
  std::array<double, 4> amount{};  // of adjusted counts 0, 1, 2, and 3 or more
  bool fallback = false;           // the amounts are the fallback, not an estimate

  double of(std::uint64_t count) const { return amount[std::min(count, std::uint64_t{3})]; }
};

// Returns the discounts of n-grams of length n, or `fallback` if the estimate does not exist.
inline Discounts estimate_discounts(const CountStatistics& statistics, int n,
                                    const std::optional<std::array<double, 3>>& fallback) {
  const std::int64_t* with = statistics.with_count;
  const std::string name = std::to_string(n) + "-grams";
  Discounts discounts;
  std::string problem;
  for (int k = 1; k <= 3 && problem.empty(); ++k) {
    if (with[k] == 0) problem = "no " + name + " have the adjusted count " + std::to_string(k);
  }
  // One division at the end. The products of small counts are exact, so a discount of 0 is exactly 0. A
  // rounding error below 0 would be rejected as an estimate; one above 0 would become a back-off weight.
  const auto n1 = static_cast<double>(with[1]), y_below = n1 + 2 * static_cast<double>(with[2]);
  for (int k = 1; k <= 3 && problem.empty(); ++k) {
    const auto nk = static_cast<double>(with[k]), next = static_cast<double>(with[k + 1]);
    const double amount = (k * y_below * nk - (k + 1) * n1 * next) / (y_below * nk);
    discounts.amount[static_cast<std::size_t>(k)] = amount;
    if (amount < 0.0 || amount > k) {
      problem = "the discount of " + name + " with the adjusted count " + std::to_string(k) + " is " +
                std::to_string(amount);
    }
  }
  if (problem.empty()) return discounts;
  if (!fallback) {
    throw std::invalid_argument(
        problem +
        ", so the text is too small or not natural: remove repeated lines, or choose the "
        "discounts with discount_fallback (--discount-fallback)");
  }
  discounts.amount = {0.0, (*fallback)[0], (*fallback)[1], (*fallback)[2]};
  discounts.fallback = true;
  return discounts;
}

}  // namespace trellis
