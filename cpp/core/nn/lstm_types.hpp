// The arguments of the LSTM kernels: plain pointers, no ownership, independent of the instruction set.
//
// Tokens are packed: first those of step 0 of all sequences, then those of step 1, ...; the longest
// sequence comes first. All arrays have one row per token; direction 0 comes before direction 1 in a
// row.
#pragma once

#include <cstdint>

namespace trellis {

inline constexpr std::int64_t kLstmPadding = 16;  // floats: a multiple of every vector width

// The tokens of each step.
struct LstmBatch {
  std::int64_t hidden, steps;
  const std::int64_t* sizes;  // (steps): sequences that have this step; never increases
  const std::int64_t* begin;  // (steps): the first token of each step
};

// One direction (0: forward in time, 1: backward) of sequences [first, last).
struct LstmPart {
  int way;  // the direction
  std::int64_t first, last;
};

struct LstmForward {
  float* gates;   // (tokens, 8 hidden): W x + b, then the activations i, f, g, o of each direction
  float* h;       // (tokens, 2 hidden)
  float* c;       // (tokens, 2 hidden)
  float* before;  // (tokens, 2 hidden): h of the previous step in each direction
};

struct LstmBackward {
  const float* d_h;          // (tokens, 2 hidden)
  const float* activations;  // (tokens, 8 hidden): gates after the forward pass
  const float* c;            // (tokens, 2 hidden)
  float* d_gates;            // (tokens, 8 hidden)
};

struct LstmKernels {
  // Packs U, (4 hidden, hidden), of one direction in the order of access. The result has
  // lstm_packed(hidden) floats.
  void (*pack_forward)(const float* u, std::int64_t hidden, float* packed);
  void (*pack_backward)(const float* u, std::int64_t hidden, float* packed);
  void (*forward)(const LstmBatch&, const LstmPart&, const float* packed, const LstmForward&);
  // `carry` is (last - first, hidden): the gradient that flows back through c.
  void (*backward)(const LstmBatch&, const LstmPart&, const float* packed, const LstmBackward&,
                   float* carry);
};

// Returns the number of floats of a packed U.
inline constexpr std::int64_t lstm_packed(std::int64_t hidden) {
  return 4 * hidden * ((hidden + kLstmPadding - 1) / kLstmPadding * kLstmPadding);
}

}  // namespace trellis
