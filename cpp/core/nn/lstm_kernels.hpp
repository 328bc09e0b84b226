// One direction of an LSTM along packed sequences: forward and backward pass.
//
//     i, f, o = sigmoid(...), g = tanh(...) of gates + U h'      (h', c': of the previous step)
//     c = f c' + i g        h = o tanh(c)
// with gates = W x + b (see LstmForward) and U the recurrent weights.
//
// Both passes are a sequence of small matrix products, (rows, depth) times a packed U. A tile of several
// rows and up to four vectors of columns stays in registers: the four gates of the same columns in the
// forward pass, neighbouring columns in the backward pass.
#pragma once

#include "base/poll.hpp"
#include "base/simd_float.hpp"
#include "nn/lstm_types.hpp"

namespace trellis::TRELLIS_ISA::lstm {

inline constexpr int kTileRows = kVectorBytes == 64 ? 6 : 3;  // limited by the number of registers
inline constexpr int kTileVectors = 4;
// Columns of a tile in the backward pass.
inline constexpr std::int64_t kColumns = kTileVectors * kFloatWidth;
static_assert(kLstmPadding % kFloatWidth == 0);

// out[r][v] = sum_k x[r][k] u[k][v]; a row of out has kTileVectors vectors.
template <int Rows, int Vectors>
void multiply(const float* x, std::int64_t stride, const float* u, std::int64_t depth, float* out) {
  FloatVec sum[Rows][Vectors] = {};
  for (std::int64_t k = 0; k < depth; ++k, u += Vectors * kFloatWidth) {
    FloatVec w[Vectors];
    for (int v = 0; v < Vectors; ++v) w[v] = float_load(u + v * kFloatWidth);
    for (int r = 0; r < Rows; ++r) {
      const FloatVec factor = float_splat(x[r * stride + k]);
      for (int v = 0; v < Vectors; ++v) sum[r][v] += factor * w[v];
    }
  }
  for (int r = 0; r < Rows; ++r) {
    for (int v = 0; v < Vectors; ++v) float_store(out + (r * kTileVectors + v) * kFloatWidth, sum[r][v]);
  }
}

template <int Rows = kTileRows>
TRELLIS_INLINE void multiply_tile(std::int64_t rows, int vectors, const float* x, std::int64_t stride,
                                  const float* u, std::int64_t depth, float* out) {
  if constexpr (Rows > 1) {
    if (rows < Rows) return multiply_tile<Rows - 1>(rows, vectors, x, stride, u, depth, out);
  }
  switch (vectors) {
    case 1: return multiply<Rows, 1>(x, stride, u, depth, out);
    case 2: return multiply<Rows, 2>(x, stride, u, depth, out);
    case 3: return multiply<Rows, 3>(x, stride, u, depth, out);
    default: return multiply<Rows, 4>(x, stride, u, depth, out);
  }
}

// Calls use(row, sums) for all rows. sums is x·u for rows below `linked`, whose sequences have the step
// that x belongs to, and 0 for the rows from there on.
template <class Use>
TRELLIS_INLINE void for_each_row(std::int64_t rows, std::int64_t linked, int vectors, const float* x,
                                 std::int64_t stride, const float* u, std::int64_t depth,
                                 const Use& use) {
  alignas(64) float sums[kTileRows * kTileVectors * kFloatWidth];
  const std::int64_t tiles = (linked + kTileRows - 1) / kTileRows;
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    const std::int64_t begin = linked * tile / tiles, end = linked * (tile + 1) / tiles;
    multiply_tile(end - begin, vectors, x + begin * stride, stride, u, depth, sums);
    for (std::int64_t r = begin; r < end; ++r) use(r, sums + (r - begin) * kTileVectors * kFloatWidth);
  }
  if (linked == rows) return;
  for (float& sum : sums) sum = 0.0f;
  for (std::int64_t r = linked; r < rows; ++r) use(r, sums);
}

// The rows of a part in one step, and their first token. A step that does not exist has no rows.
struct Step {
  std::int64_t rows, token;
};
TRELLIS_INLINE Step step_at(const LstmBatch& batch, const LstmPart& part, std::int64_t t) {
  if (t < 0 || t >= batch.steps || batch.sizes[t] <= part.first) return {0, 0};
  const std::int64_t last = batch.sizes[t] < part.last ? batch.sizes[t] : part.last;
  return {last - part.first, batch.begin[t] + part.first};
}
TRELLIS_INLINE std::int64_t lesser(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

inline void pack_forward(const float* u, std::int64_t hidden, float* packed) {
  for (std::int64_t j = 0; j < hidden; j += kFloatWidth) {
    const std::int64_t width = lesser(kFloatWidth, hidden - j);
    for (std::int64_t k = 0; k < hidden; ++k) {
      for (int gate = 0; gate < 4; ++gate, packed += kFloatWidth) {
        const float* from = u + (gate * hidden + j) * hidden + k;
        for (std::int64_t i = 0; i < kFloatWidth; ++i) packed[i] = i < width ? from[i * hidden] : 0.0f;
      }
    }
  }
}

inline void pack_backward(const float* u, std::int64_t hidden, float* packed) {
  for (std::int64_t j = 0; j < hidden; j += kColumns) {
    const std::int64_t end = lesser(j + kColumns, hidden);
    for (std::int64_t k = 0; k < 4 * hidden; ++k) {
      for (std::int64_t i = j; i < end; i += kFloatWidth, packed += kFloatWidth) {
        float_store(packed, float_load_first(u + k * hidden + i, lesser(kFloatWidth, end - i)));
      }
    }
  }
}

inline void forward(const LstmBatch& batch, const LstmPart& part, const float* packed,
                    const LstmForward& a) {
  const std::int64_t hidden = batch.hidden, offset = part.way * hidden;
  PollEvery poll(4 * hidden * hidden * (part.last - part.first));
  for (std::int64_t s = 0; s < batch.steps; ++s) {
    poll.step();
    const std::int64_t t = part.way == 0 ? s : batch.steps - 1 - s;
    const Step now = step_at(batch, part, t), last = step_at(batch, part, part.way == 0 ? t - 1 : t + 1);
    const std::int64_t linked = lesser(now.rows, last.rows);
    const float* u = packed;
    for (std::int64_t j = 0; j < hidden; j += kFloatWidth, u += 4 * kFloatWidth * hidden) {
      const std::int64_t width = lesser(kFloatWidth, hidden - j);
      const auto cell = [&](std::int64_t r, const float* sums) __attribute__((always_inline)) {
        float* gates = a.gates + (now.token + r) * 8 * hidden + 4 * offset + j;
        FloatVec x[4];
        for (int v = 0; v < 4; ++v)
          x[v] = float_load_first(gates + v * hidden, width) + float_load(sums + v * kFloatWidth);
        const FloatVec i = sigmoid(x[0]), f = sigmoid(x[1]), g = tanh(x[2]), o = sigmoid(x[3]);
        const std::int64_t to = (now.token + r) * 2 * hidden + offset + j,
                           from = (last.token + r) * 2 * hidden + offset + j;
        const bool first = r >= linked;
        const FloatVec before = first ? FloatVec{} : float_load_first(a.h + from, width);
        const FloatVec c_before = first ? FloatVec{} : float_load_first(a.c + from, width);
        const FloatVec c = f * c_before + i * g;
        float_store_first(gates, i, width);
        float_store_first(gates + hidden, f, width);
        float_store_first(gates + 2 * hidden, g, width);
        float_store_first(gates + 3 * hidden, o, width);
        float_store_first(a.c + to, c, width);
        float_store_first(a.h + to, o * tanh(c), width);
        float_store_first(a.before + to, before, width);
      };
      for_each_row(now.rows, linked, 4, a.h + last.token * 2 * hidden + offset, 2 * hidden, u, hidden,
                   cell);
    }
  }
}

// Computes the gradients of the gates before their nonlinearities, from the gradients of h and c.
// `carry` is the gradient of c of the previous step.
struct GateGradients {
  FloatVec i, f, g, o, carry;
};
TRELLIS_INLINE GateGradients gate_gradients(FloatVec dh, FloatVec carry, const FloatVec* gate,
                                            FloatVec c, FloatVec c_before) {
  const FloatVec i = gate[0], f = gate[1], g = gate[2], o = gate[3], y = tanh(c);
  const FloatVec dc = dh * o * (1.0f - y * y) + carry;
  return {dc * g * (i - i * i), dc * c_before * (f - f * f), dc * i * (1.0f - g * g),
          dh * y * (o - o * o), dc * f};
}

inline void backward(const LstmBatch& batch, const LstmPart& part, const float* packed,
                     const LstmBackward& a, float* carry) {
  const std::int64_t hidden = batch.hidden, offset = part.way * hidden;
  PollEvery poll(4 * hidden * hidden * (part.last - part.first));
  for (std::int64_t s = 0; s < batch.steps; ++s) {
    poll.step();
    const std::int64_t t = part.way == 0 ? batch.steps - 1 - s : s, next_offset = part.way == 0 ? 1 : -1;
    const Step now = step_at(batch, part, t), last = step_at(batch, part, t - next_offset),
               next = step_at(batch, part, t + next_offset);
    const std::int64_t linked = lesser(now.rows, next.rows);
    const float* u = packed;
    for (std::int64_t block = 0; block < hidden; block += kColumns) {
      const int vectors =
          static_cast<int>((lesser(kColumns, hidden - block) + kFloatWidth - 1) / kFloatWidth);
      const auto cells = [&](std::int64_t r, const float* sums) __attribute__((always_inline)) {
        for (int v = 0; v < vectors; ++v) {
          const std::int64_t j = block + v * kFloatWidth, width = lesser(kFloatWidth, hidden - j);
          const std::int64_t at = (now.token + r) * 2 * hidden + offset + j,
                             gates = (now.token + r) * 8 * hidden + 4 * offset + j;
          FloatVec gate[4];
          for (int n = 0; n < 4; ++n)
            gate[n] = float_load_first(a.activations + gates + n * hidden, width);
          const FloatVec before =
              r < last.rows ? float_load_first(a.c + (last.token + r) * 2 * hidden + offset + j, width)
                            : FloatVec{};
          const FloatVec back =
              r < linked ? float_load_first(carry + r * hidden + j, width) : FloatVec{};
          const FloatVec dh = float_load_first(a.d_h + at, width) + float_load(sums + v * kFloatWidth);
          const GateGradients d =
              gate_gradients(dh, back, gate, float_load_first(a.c + at, width), before);
          float_store_first(a.d_gates + gates, d.i, width);
          float_store_first(a.d_gates + gates + hidden, d.f, width);
          float_store_first(a.d_gates + gates + 2 * hidden, d.g, width);
          float_store_first(a.d_gates + gates + 3 * hidden, d.o, width);
          float_store_first(carry + r * hidden + j, d.carry, width);
        }
      };
      for_each_row(now.rows, linked, vectors, a.d_gates + next.token * 8 * hidden + 4 * offset,
                   8 * hidden, u, 4 * hidden, cells);
      u += vectors * kFloatWidth * 4 * hidden;
    }
  }
}

}  // namespace trellis::TRELLIS_ISA::lstm
