// The labels that a model learns from, their constraints, and the weights of sequences.
#pragma once

#include <cstdint>

namespace trellis {

// Labels, sequence weights and constraints of the training data.
struct TrainingLabels {
  std::int64_t sequences;
  const std::int64_t* row_begin;  // (sequences + 1)
  const std::int32_t* label;      // (rows): -1 if it is not known
  const bool* allowed;            // (rows, labels): the possible labels of unlabelled rows; null: all
  const double* weight;           // (sequences); null: all 1
  // (labels): cost[y] is added to the scores of all labels except the right label y; or null.
  const double* cost;
  const bool* forbidden;  // (labels, labels): transitions; null: none
  const double* start;    // (labels): 0 or -inf; null: all 0
  const double* end;      // (labels): 0 or -inf; null: all 0

  std::int64_t length(std::int64_t i) const { return row_begin[i + 1] - row_begin[i]; }
  double weight_of(std::int64_t i) const { return weight == nullptr ? 1.0 : weight[i]; }
  bool constrained() const { return forbidden != nullptr || start != nullptr || end != nullptr; }
};

// Whether probabilities are normalised over all labellings (CRF), or over the next label (MEMM).
enum class Normaliser { sequence, step };

}  // namespace trellis
