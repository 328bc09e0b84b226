// The arguments of the character-window kernel: plain pointers, no ownership, independent of the
// instruction set.
#pragma once

#include <cstdint>

namespace trellis {

// Filters over windows of characters. The score of filter f for the window at position t is
// sum_k table[ids[t + k]][k][f]. Id 0 (padding) and positions past the end of a row add nothing.
struct CharWindows {
  const std::int64_t* ids;  // (words, longest)
  std::int64_t words, longest;
  const float* table;  // (characters, width, filters)
  std::int64_t width, filters;
};

struct CharWindowKernels {
  // Computes the largest score over all windows and its position, both (words, filters); NaN if a score
  // is NaN.
  void (*largest)(const CharWindows&, float* best, std::int32_t* where);
};

}  // namespace trellis
