// Sparse rows of attributes, and the weights of (attribute, label) pairs: w . phi(x, t, y).
//
// Weights lie in one vector: those of attribute a are params[state_begin[a] .. state_begin[a + 1]), one
// for each label in state_label at the same places. Most attributes have a few labels of many, but the
// few attributes that occur all the time have most of them: these are expanded into dense, padded rows.
#pragma once

#include <cstdint>

namespace trellis {

// A stretch of weights: those of one occurrence of an attribute.
struct Stretch {
  std::uint32_t begin;
  std::uint32_t count;
};

// The occurrences of attributes in rows: those with dense weights, those with a long stretch of weights,
// and those with few weights, which are spelled out one by one: loops over one or two would mostly end
// where the processor does not expect it.
struct RowPlan {
  int labels;
  int stride;
  const std::int64_t* dense_begin;   // (rows + 1)
  const std::uint16_t* dense;        // rows of the dense table
  const double* dense_value;         // null: all 1
  const std::int64_t* sparse_begin;  // (rows + 1)
  const Stretch* sparse;
  const double* sparse_value;      // null: all 1
  const std::int64_t* few_begin;   // (rows + 1)
  const std::uint32_t* few;        // weights
  const std::uint16_t* few_label;  // and their labels
  const double* few_value;         // null: all 1
  const std::uint16_t* label;      // of each weight
};

inline constexpr int kLanes = 8;  // sequences that go abreast where transitions are sparse

// Eight sequences, longest first, and transitions of which most score 0; see chain_sparse.hpp.
struct SparseChain {
  int labels;
  const std::int32_t* from_begin;  // (labels + 1): the pairs (a, to[k]) with a weight
  const std::uint16_t* to;
  const double* value;           // exp(score) - 1
  const std::int32_t* to_begin;  // (labels + 1): the same pairs by their second label
  const std::uint16_t* from;
  const double* value_by_to;
  std::int64_t length[kLanes];  // 0 for an empty lane
  const double* unary[kLanes];  // (length, labels)
  double* out[kLanes];          // (length, labels): weight * p(y_t)
  double weight[kLanes];
  double log_z[kLanes];
  double* counts;  // (pairs, kLanes): weight * p(y_{t-1} = a, y_t = b) / exp(score) is added
};

// Where the weights of an attribute are, for rows that are scored once.
struct Place {
  std::uint32_t begin;
  std::uint32_t count;
  std::int32_t dense;  // the row of the dense table, or -1
};

struct LoglinearKernels {
  // scores[r - begin][y] = sum over the attributes of row r of value * weight(attribute, y)
  void (*score_rows)(const RowPlan&, const double* dense_weights, const double* weights,
                     std::int64_t begin, std::int64_t end, double* scores);
  // The same without a plan: rows are ids [begin[r], begin[r + 1]); ids not below `attributes` are
  // unknown.
  void (*score_ids)(const RowPlan&, const Place*, std::int64_t attributes, const double* dense_weights,
                    const double* weights, const std::int64_t* begin, const std::int32_t* id,
                    const double* value, std::int64_t rows, double* scores);
  // gradient(attribute, y) += value * residual[r - begin][y], for all attributes of row r
  void (*add_rows)(const RowPlan&, const double* residual, std::int64_t begin, std::int64_t end,
                   double* dense_gradient, double* gradient);
  // Forward-backward of eight sequences; scratch is (2 * longest + 1) * labels * kLanes doubles.
  void (*sparse_marginals)(SparseChain&, double* scratch);
  // p = softmax(scores + extra), returns log sum exp; all of them (labels)
  double (*softmax)(const double* scores, const double* extra, int labels, double* p);
};

}  // namespace trellis
