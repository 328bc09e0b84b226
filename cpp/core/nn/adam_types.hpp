// The arguments of the Adam kernel: plain pointers, no ownership, independent of the instruction set.
#pragma once

#include <cstdint>

namespace trellis {

// The factors of one step of Adam with decoupled weight decay (AdamW). The caller computes them in
// double precision, because 1 - 0.999f has a large relative error.
struct AdamStep {
  float part1;         // 1 - beta1: the weight of the gradient in the first moment
  float beta2, part2;  // the weights of the old second moment and of the squared gradient (1 - beta2)
  float decay;         // the weights are multiplied by this: 1 - learning rate * weight decay
  float size;          // the size of the step: learning rate / (1 - beta1^t)
  float scale;         // (1 - beta2^t)^(-1/2)
  float epsilon;       // added to the square root of the second moment
};

struct AdamKernels {
  // Updates `count` weights w and their first and second moments m and v, with gradient g; all (count).
  void (*update)(float* w, float* m, float* v, const float* g, std::int64_t count, const AdamStep&);
};

}  // namespace trellis
