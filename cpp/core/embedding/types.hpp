// What the embedding kernels take: plain pointers, no ownership, no instruction set.
//
// A hidden vector h (of a word, or the mean of several) meets rows w of the output table. The losses are
//     logistic   -sum_t weight_t log sigma(+-h . w_t)     negative sampling, hierarchical softmax, one
//     against all softmax    -h . w_y + log sum_t exp(h . w_t)
// Rows have `stride` floats, a multiple of kRowPadding, zero from `dim` on: they stay zero.
#pragma once

#include <cstdint>

namespace trellis {

inline constexpr int kRowPadding = 16;  // floats: a cache line
inline constexpr int kMostTargets = 8;  // that go through a tile together

inline constexpr int padded_row(int dim) { return (dim + kRowPadding - 1) / kRowPadding * kRowPadding; }

// A cell of an alias table: `word` itself with probability own / 2^32, else the other.
struct AliasCell {
  std::uint32_t own;
  std::int32_t other;
};

// Nodes so near the root that threads would pass their rows to and fro: a thread works on copies, and
// adds its changes to the table after some words. In paths, hot node i stands as -1 - i.
struct HotRows {
  const std::int32_t* id;  // (most): their rows of the output table
  float* copy;             // (most, stride)
  float* before;           // as they were when they were copied
  std::int32_t* age;       // of each copy; those of an older age are not used
  std::int32_t* used;      // (most): which have been copied
  std::int32_t count;      // of `used`
  std::int32_t now;        // the age of good copies
};

enum class EmbeddingLoss : int { negative = 0, hierarchical = 1, softmax = 2, ova = 3 };

struct EmbeddingModel {
  float* input;   // (rows, stride)
  float* output;  // (words or labels, stride)
  int stride;
  std::int64_t words;  // that are predicted: words, or labels
  const std::int64_t*
      rows_begin;             // the input rows of word i are row[rows_begin[i] .. rows_begin[i + 1]);
  const std::int32_t* row;    // null: row i alone
  const std::uint32_t* keep;  // a word is kept if a random number is not above; null: always
  const AliasCell* noise;     // (words): what negatives are drawn from
  const std::int64_t* path_begin;  // Huffman paths
  const std::int32_t* path_node;
  const std::uint8_t* path_right;
  EmbeddingLoss loss;
  bool cbow;
  bool shared;  // one draw of negatives for all contexts of a word
  int window;
  int negatives;
  bool shrink;             // windows are drawn from 1 .. window
  std::int64_t hot_for;    // words between two additions of hot nodes' changes
  std::int64_t ring_mask;  // of ring_size(window)
};

// Words in reach, and one more, as a power of two.
inline constexpr std::int64_t ring_size(int window) {
  std::int64_t size = 4;
  while (size < 2 * std::int64_t{window} + 2) size *= 2;
  return size;
}

// What a thread has for itself.
struct EmbeddingWorker {
  std::uint64_t random;
  float rate;          // of learning
  std::int64_t every;  // the loss is looked at once in so many steps
  std::int64_t steps;
  double loss;   // of the steps looked at
  double terms;  // how many examples these were
  HotRows hot;
  std::int64_t words;    // since hot nodes were last written back
  const float** source;  // (most rows of a word)
  float* ring;           // (ring_size, stride): hidden vectors of the words near
  float* before;         // the same as they were when they came
  float* hidden;         // (stride)
  float* change;         // (most hidden vectors, stride)
  float* score;          // (most hidden vectors, most targets)
  float* label;          // (most targets / tile, floats in a vector)
  float* weight;         // the same; 0 for targets that are not there
  float** hidden_row;    // (most hidden vectors)
  float** change_row;
  float** target_row;  // (most targets)
  std::int32_t* next;  // (2, most negatives): drawn ahead
};

struct EmbeddingKernels {
  // One sentence of word numbers, all known.
  void (*sentence)(const EmbeddingModel&, EmbeddingWorker&, const std::int32_t* words,
                   std::int64_t count);
  // Hot nodes' changes go to the table: after all sentences.
  void (*cool)(const EmbeddingModel&, EmbeddingWorker&);
  // The mean of rows is taught that its labels are these.
  void (*text)(const EmbeddingModel&, EmbeddingWorker&, const std::int32_t* rows, std::int64_t count,
               const std::int32_t* labels, std::int64_t label_count);
  // out = mean of rows
  void (*mean)(const float* table, int stride, const std::int32_t* rows, std::int64_t count, float* out);
  // Rows [begin, end) uniform in +-range: a function of seed, row and column alone.
  void (*fill)(float* table, std::int64_t begin, std::int64_t end, int dim, int stride, float range,
               std::uint64_t seed);
  // One step on hidden vectors and rows as they are given: for tests.
  double (*step)(EmbeddingWorker&, float* const* hidden, int count, float* const* row,
                 std::int64_t targets, std::int64_t own, const float* label, const float* weight,
                 int stride);
};

}  // namespace trellis
