// What a model is to learn from, besides the attributes.
#pragma once

#include <cstdint>

namespace trellis {

// What is known of the labels, and how much each sequence counts.
struct Supervision {
  std::int64_t sequences;
  const std::int64_t* row_begin;  // (sequences + 1)
  const std::int32_t* label;      // of each row; -1 if it is not known
  const bool* allowed;            // (rows, labels): where not known, which it may be; null: any
  const double* weight;           // of each sequence; null: 1
  const double* cost;             // (labels): added to the scores of wrong labels where y is right
  const bool* forbidden;          // (labels, labels) transitions; null: none
  const double* start;            // (labels): 0 or -inf; null: 0
  const double* end;

  std::int64_t length(std::int64_t i) const { return row_begin[i + 1] - row_begin[i]; }
  double weight_of(std::int64_t i) const { return weight == nullptr ? 1.0 : weight[i]; }
  bool constrained() const { return forbidden != nullptr || start != nullptr || end != nullptr; }
};

enum class Normaliser { sequence, step };  // CRF: over all labellings; MEMM: over the next label

}  // namespace trellis
