// What the kernels of a bidirectional LSTM take: plain pointers, no ownership, no instruction set.
//
// Tokens are packed: those of step 0 of all sequences, then those of step 1, ..., longest sequence
// first. All arrays have a row for each token; direction 0 comes before direction 1 in each row.
#pragma once

#include <cstdint>

namespace trellis {

inline constexpr std::int64_t kLstmPadding = 16;  // floats: a multiple of every vector width

// Which tokens belong to which step.
struct LstmBatch {
  std::int64_t hidden, steps;
  const std::int64_t* sizes;  // (steps): how many sequences go as far; never grows
  const std::int64_t* begin;  // (steps): the first token
};

// One direction (0: from the first step on, 1: from the last) of sequences first .. last - 1.
struct LstmPart {
  int way;
  std::int64_t first, last;
};

struct LstmForward {
  float* gates;   // (tokens, 8 hidden): W x + b, then the activations i, f, g, o of each direction
  float* h;       // (tokens, 2 hidden)
  float* c;       // (tokens, 2 hidden)
  float* before;  // (tokens, 2 hidden): h of the step before, in the order of each direction
};

struct LstmBackward {
  const float* d_h;
  const float* activations;
  const float* c;
  float* d_gates;
};

struct LstmKernels {
  // U (4 hidden, hidden) of a direction in the order that a walk reads it: lstm_packed() floats.
  void (*pack_forward)(const float* u, std::int64_t hidden, float* packed);
  void (*pack_backward)(const float* u, std::int64_t hidden, float* packed);
  void (*forward)(const LstmBatch&, const LstmPart&, const float* packed, const LstmForward&);
  // `carry` is (last - first, hidden): what flows back through c.
  void (*backward)(const LstmBatch&, const LstmPart&, const float* packed, const LstmBackward&,
                   float* carry);
};

inline constexpr std::int64_t lstm_packed(std::int64_t hidden) {
  return 4 * hidden * ((hidden + kLstmPadding - 1) / kLstmPadding * kLstmPadding);
}

}  // namespace trellis
