// Constant-time draws from a discrete distribution: Walker's alias method.
#pragma once

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "embedding/types.hpp"

namespace trellis {

// Builds the table. A draw picks a cell uniformly. It returns the index of the cell with probability
// threshold / 2^32, and cell.alias otherwise.
inline std::vector<AliasCell> alias_table(const double* weight, std::int64_t count) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (!(weight[i] >= 0.0) || !std::isfinite(weight[i]))
      throw std::invalid_argument("weights must be finite and >= 0");
    sum += weight[i];
  }
  if (count > 0 && !(sum > 0.0 && std::isfinite(sum)))
    throw std::invalid_argument("at least one weight must be above 0");
  std::vector<double> mass(static_cast<std::size_t>(count));
  std::vector<AliasCell> cells(mass.size());
  std::vector<std::size_t> poor, rich;
  for (std::size_t i = 0; i < mass.size(); ++i) {
    mass[i] = weight[i] / sum * static_cast<double>(count);
    cells[i] = {0xffffffff, static_cast<std::int32_t>(i)};
    (mass[i] < 1.0 ? poor : rich).push_back(i);
  }
  while (!poor.empty() && !rich.empty()) {
    const std::size_t cell = poor.back(), other = rich.back();
    poor.pop_back();
    cells[cell] = {static_cast<std::uint32_t>(mass[cell] * 4294967295.0),
                   static_cast<std::int32_t>(other)};
    mass[other] -= 1.0 - mass[cell];
    if (mass[other] < 1.0) {
      rich.pop_back();
      poor.push_back(other);
    }
  }
  return cells;
}

}  // namespace trellis
