// The arguments of the log-linear kernels: w . phi(x, t, y) for sparse rows of attributes.
//
// All weights are in one vector: those of attribute a are w[state_begin[a] .. state_begin[a + 1]), with
// their labels in state_label. Most attributes have weights for few of the labels. A few very frequent
// attributes have weights for most labels. Their weights are expanded into dense, padded rows.
#pragma once

#include <cstdint>

#include "chain/types.hpp"

namespace trellis {

// The range of weights of one attribute.
struct Stretch {
  std::uint32_t begin;
  std::uint32_t count;
};

// The attribute occurrences of all rows, in three kinds: attributes with dense weights, attributes with
// a long range of weights, and attributes with few weights. The last kind is listed weight by weight,
// because the CPU mispredicts the end of very short loops (docs/notes/benchmarks.md).
struct RowPlan {
  int labels;
  int stride;                        // the stride of the dense table: padded(labels)
  const std::int64_t* dense_begin;   // (rows + 1)
  const std::uint16_t* dense;        // (dense occurrences): rows of the dense table
  const double* dense_value;         // null: all 1
  const std::int64_t* sparse_begin;  // (rows + 1)
  const Stretch* sparse;             // (sparse occurrences)
  const double* sparse_value;        // null: all 1
  const std::int64_t* few_begin;     // (rows + 1)
  const std::uint32_t* few;          // (few weights): indices of weights
  const std::uint16_t* few_label;    // (few weights): their labels
  const double* few_value;           // null: all 1
  const std::uint16_t* label;        // (state weights): the label of each weight
};

// The position of an attribute's weights, for rows that are scored only once and have no plan.
struct Place {
  std::uint32_t begin;
  std::uint32_t count;
  std::int32_t dense;  // the row of the dense table, or -1
};

struct LoglinearKernels {
  // scores[r - begin][y] = sum over the attributes of row r of value * weight(attribute, y)
  void (*score_rows)(const RowPlan&, const double* dense_weights, const double* weights,
                     std::int64_t begin, std::int64_t end, double* scores);
  // The same without a plan: row r has ids [begin[r], begin[r + 1]). Ids outside [0, attributes) are
  // ignored.
  void (*score_ids)(const RowPlan&, const Place*, std::int64_t attributes, const double* dense_weights,
                    const double* weights, const std::int64_t* begin, const std::int32_t* id,
                    const double* value, std::int64_t rows, double* scores);
  // gradient(attribute, y) += value * residual[r - begin][y], for all attributes of row r
  void (*add_rows)(const RowPlan&, const double* residual, std::int64_t begin, std::int64_t end,
                   double* dense_gradient, double* gradient);
  // Forward-backward of eight sequences; scratch has (2 * longest + 1) * labels * kLanes doubles.
  void (*sparse_marginals)(SparseChain&, double* scratch);
  // The forward and the backward pass of eight sequences; scratch has pair_scratch_size() doubles. If a
  // lane is inexact after the forward pass, this pass must run again without the lane.
  void (*pair_forward)(PairChain&, double* scratch);
  void (*pair_backward)(const PairChain&, double* scratch);
  // p = softmax(scores + extra); returns log sum exp. All arrays are (labels).
  double (*softmax)(const double* scores, const double* extra, int labels, double* p);
};

}  // namespace trellis
