// What the kernels for smaller parts of a network take: plain pointers, no ownership, no instruction
// set.
#pragma once

#include <cstdint>

namespace trellis {

// Filters over windows of characters: the score of filter f for the window at t is
// sum_k table[ids[t + k]][k][f], where id 0 and what lies behind the end of a row add nothing.
struct CharWindows {
  const std::int64_t* ids;  // (words, longest)
  std::int64_t words, longest;
  const float* table;  // (characters, width, filters)
  std::int64_t width, filters;
};

// A step of Adam with decoupled weight decay.
struct AdamStep {
  float part1;         // 1 - beta1, of a gradient in the first moment
  float beta2, part2;  // of the second moment, and 1 - beta2, from doubles: 1 - 0.999f is far off
  float decay;         // what weights are multiplied by
  float size;          // of the step: the learning rate / (1 - beta1^t)
  float scale;         // (1 - beta2^t)^(-1/2)
  float epsilon;       // added to the root
};

struct NetworkKernels {
  // The largest score over all windows (words, filters), and where it is; NaN if a score is.
  void (*largest)(const CharWindows&, float* best, std::int32_t* where);
  // Updates `count` weights and their first and second moments.
  void (*adam)(float* w, float* m, float* v, const float* g, std::int64_t count, const AdamStep&);
};

}  // namespace trellis
