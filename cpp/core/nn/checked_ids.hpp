// Validation of row ids.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace trellis {

// Checks that a table of `rows` rows has all row ids, and returns a copy of them, (count). The caller
// could change the original after the check.
inline std::vector<std::int64_t> checked_ids(const std::int64_t* ids, std::int64_t count,
                                             std::int64_t rows) {
  std::vector<std::int64_t> copy(ids, ids + count);
  for (const std::int64_t id : copy) {
    if (id < 0 || id >= rows)
      throw std::invalid_argument("row " + std::to_string(id) + " is not in a table of " +
                                  std::to_string(rows));
  }
  return copy;
}

}  // namespace trellis
