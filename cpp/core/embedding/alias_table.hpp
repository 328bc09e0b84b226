// Constant-time draws from a discrete distribution: Walker's alias method.
#pragma once

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "base/poll.hpp"
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
  std::vector<std::size_t> small_cells, large_cells;
  PollEvery poll(16);
  for (std::size_t i = 0; i < mass.size(); ++i) {
    poll.step();
    mass[i] = weight[i] / sum * static_cast<double>(count);
    cells[i] = {0xffffffff, static_cast<std::int32_t>(i)};
    (mass[i] < 1.0 ? small_cells : large_cells).push_back(i);
  }
  while (!small_cells.empty() && !large_cells.empty()) {
    poll.step();
    const std::size_t cell = small_cells.back(), other = large_cells.back();
    small_cells.pop_back();
    cells[cell] = {static_cast<std::uint32_t>(mass[cell] * 4294967295.0),
                   static_cast<std::int32_t>(other)};
    mass[other] -= 1.0 - mass[cell];
    if (mass[other] < 1.0) {
      large_cells.pop_back();
      small_cells.push_back(other);
    }
  }
  return cells;
}

}  // namespace trellis
