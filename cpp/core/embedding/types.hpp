// The arguments of the embedding kernels: plain pointers, no ownership, independent of the instruction
// set.
//
// A hidden vector h (of a word, or the mean of several) is multiplied by rows w of the output table.
// Losses:
//     logistic  -sum_t weight_t log sigma(+-h . w_t)
//     softmax   -h . w_y + log sum_t exp(h . w_t)
// sigma is the logistic function; the sign is + for a target with label 1, - for one with label 0.
// Negative sampling, hierarchical softmax and one-vs-all use the logistic loss. Rows have `stride`
// floats, a multiple of kRowPadding. They are zero from `dim` on, and stay zero.
#pragma once

#include <cstdint>

namespace trellis {

inline constexpr int kRowPadding = 16;  // floats: a cache line
inline constexpr int kMaxTargets = 8;   // output rows per tile, at most

inline constexpr int padded_row(int dim) { return (dim + kRowPadding - 1) / kRowPadding * kRowPadding; }

// A cell of an alias table: its own index with probability threshold / 2^32, else `alias`.
struct AliasCell {
  std::uint32_t threshold;
  std::int32_t alias;
};

// Hot nodes: the nodes close to the root of the Huffman tree. Threads that write to their rows would
// compete for the cache lines. So each thread works on copies, and adds its changes to the table every
// hot_for words. In paths, hot node i is stored as -1 - i.
struct HotRows {
  const std::int32_t* id;  // (hot nodes): their rows of the output table
  float* copy;             // (hot nodes, stride)
  float* before;           // (hot nodes, stride): the values when they were copied
  std::int32_t* age;       // (hot nodes): a copy is valid if its age equals `now`
  std::int32_t* used;      // (hot nodes): the nodes that have been copied
  std::int32_t count;      // entries of `used`
  std::int32_t now;        // the age of valid copies
};

enum class EmbeddingLoss : int { negative = 0, hierarchical = 1, softmax = 2, ova = 3 };

struct EmbeddingModel {
  float* input;   // (rows, stride)
  float* output;  // (words or labels, stride)
  int stride;
  std::int64_t words;  // rows of output: words, or labels
  // The input rows of word i are row[rows_begin[i] .. rows_begin[i + 1]); null: row i alone.
  const std::int64_t* rows_begin;
  const std::int32_t* row;
  // (words): a word is kept if a random number is not above keep; null: all are kept.
  const std::uint32_t* keep;
  const AliasCell* noise;  // (words): the distribution of negatives
  // Huffman paths: the path of word i is the entries [path_begin[i], path_begin[i + 1]).
  const std::int64_t* path_begin;  // (words + 1)
  const std::int32_t* path_node;   // output rows, or hot nodes
  const std::uint8_t* path_right;  // 1 if the path goes to the right child
  EmbeddingLoss loss;
  bool cbow;
  bool sum;     // the vector of a word is the sum of its rows, not their mean
  bool shared;  // all contexts of a word share one draw of negatives
  int window;
  int negatives;
  bool shrink;             // the window of each word is drawn from 1 .. window
  std::int64_t hot_for;    // words after which the changes of hot nodes are added to the table
  std::int64_t ring_mask;  // ring_size(window) - 1
};

// Returns the size of the ring: a power of two that is larger than the number of words of a window.
inline constexpr std::int64_t ring_size(int window) {
  std::int64_t size = 4;
  while (size < 2 * std::int64_t{window} + 2) size *= 2;
  return size;
}

// The state and scratch memory of one thread.
struct EmbeddingWorker {
  std::uint64_t random;
  float rate;          // learning rate
  std::int64_t every;  // the loss is computed in one of `every` steps
  std::int64_t steps;
  double loss;   // the sum over the steps where it was computed
  double terms;  // the number of examples in these steps
  HotRows hot;
  std::int64_t words;    // words since the changes of hot nodes were last added
  const float** source;  // (maximal input rows of a word)
  float* ring;           // (ring_size, stride): hidden vectors of the words in the window
  float* before;         // (ring_size, stride): their values when they entered the ring
  float* hidden;         // (stride)
  float* change;         // (maximal hidden vectors, stride)
  float* score;          // (maximal hidden vectors, maximal targets)
  float* label;          // (maximal targets / tile, floats in a vector)
  float* weight;         // the same shape as label; 0 for targets that only pad a tile
  float** hidden_row;    // (maximal hidden vectors)
  float** change_row;    // (maximal hidden vectors)
  float** target_row;    // (maximal targets)
  std::int32_t* next;    // (2, negatives): drawn ahead, so that their rows can be prefetched
};

struct EmbeddingKernels {
  // Trains on one sentence of known word numbers, (count).
  void (*sentence)(const EmbeddingModel&, EmbeddingWorker&, const std::int32_t* words,
                   std::int64_t count);
  // Adds the changes of hot nodes to the table; call after all sentences.
  void (*write_back_hot_rows)(const EmbeddingModel&, EmbeddingWorker&);
  // Trains on a text: the mean of its rows should predict its labels.
  void (*text)(const EmbeddingModel&, EmbeddingWorker&, const std::int32_t* rows, std::int64_t count,
               const std::int32_t* labels, std::int64_t label_count);
  // out = mean of rows
  void (*mean)(const float* table, int stride, const std::int32_t* rows, std::int64_t count, float* out);
  // Fills rows [begin, end) uniformly in +-range, as a function of seed, row and column only.
  void (*fill)(float* table, std::int64_t begin, std::int64_t end, int dim, int stride, float range,
               std::uint64_t seed);
  // Performs one gradient step on hidden vectors and rows; only for tests.
  double (*step)(EmbeddingWorker&, float* const* hidden, int count, float* const* row,
                 std::int64_t targets, std::int64_t softmax_target, const float* label,
                 const float* weight, int stride);
};

}  // namespace trellis
