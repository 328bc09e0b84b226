// The kernel of character windows: the largest score of each filter over all windows of a word.
#pragma once

#include "base/poll.hpp"
#include "base/simd_float.hpp"
#include "nn/char_windows_types.hpp"

namespace trellis::TRELLIS_ISA::char_windows {

inline void largest(const CharWindows& a, float* best, std::int32_t* where) {
  PollEvery poll(a.longest * a.width * a.filters);
  for (std::int64_t word = 0; word < a.words; ++word, best += a.filters, where += a.filters) {
    poll.step();
    const std::int64_t* ids = a.ids + word * a.longest;
    for (std::int64_t f = 0; f < a.filters; f += kFloatWidth) {
      const std::int64_t lanes = a.filters - f < kFloatWidth ? a.filters - f : kFloatWidth;
      FloatVec top{};
      FloatMask at{};
      for (std::int64_t t = 0; t < a.longest; ++t) {
        const std::int64_t end = a.longest - t < a.width ? a.longest - t : a.width;
        FloatVec score{};
        for (std::int64_t k = 0; k < end; ++k) {
          if (ids[t + k] == 0) continue;
          score += float_load_first(a.table + (ids[t + k] * a.width + k) * a.filters + f, lanes);
        }
        // NaN replaces any score, and nothing replaces NaN.
        FloatMask taken = (score > top) | (score != score);
        if (t == 0) taken = ~FloatMask{};
        top = taken ? score : top;
        at = taken ? FloatMask{} + static_cast<std::int32_t>(t) : at;
      }
      float_store_first(best + f, top, lanes);
      std::memcpy(where + f, &at, static_cast<std::size_t>(lanes) * sizeof(std::int32_t));
    }
  }
}

}  // namespace trellis::TRELLIS_ISA::char_windows
