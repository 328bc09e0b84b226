// The backward pass of character windows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "base/poll.hpp"
#include "nn/char_windows_types.hpp"

namespace trellis {

// Adds the gradient of the best windows to d_table, (characters, width, filters). where and d_best are
// (words, filters).
inline void largest_gradient(const CharWindows& a, const std::int32_t* where, const float* d_best,
                             float* d_table) {
  PollEvery poll(4 * a.width * a.filters);
  for (std::int64_t word = 0; word < a.words; ++word) {
    poll.step();
    const std::int64_t* ids = a.ids + word * a.longest;
    for (std::int64_t f = 0; f < a.filters; ++f) {
      const std::int64_t t = where[word * a.filters + f];
      if (t < 0 || t >= a.longest)
        throw std::invalid_argument("window " + std::to_string(t) + " is not in a row of " +
                                    std::to_string(a.longest));
      const std::int64_t end = std::min(a.width, a.longest - t);
      for (std::int64_t k = 0; k < end; ++k) {
        const std::int64_t id = ids[t + k];
        if (id != 0) d_table[(id * a.width + k) * a.filters + f] += d_best[word * a.filters + f];
      }
    }
  }
}

}  // namespace trellis
