// The sparse rows of a log-linear chain model, the layout of its weight vector, and the transition
// scores.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/poll.hpp"

namespace trellis {

// Sparse rows of attributes: row r has the ids [begin[r], begin[r + 1]). Ids outside the model's
// attributes are unknown and ignored.
struct SparseRows {
  std::int64_t rows;
  const std::int64_t* begin;  // (rows + 1)
  const std::int32_t* id;     // (entries)
  const double* value;        // (entries); null: all 1

  // Reads an id exactly once. Another thread could change it between a check and its use, and the
  // compiler may repeat a plain load.
  std::int32_t id_at(std::int64_t i) const { return *static_cast<const volatile std::int32_t*>(id + i); }
};

// The layout of the weight vector: (attribute, label) pairs, then label bigrams, then (edge attribute,
// bigram) pairs, then label trigrams. A layout never has both trigrams and edge attributes.
struct WeightLayout {
  int labels;
  std::int64_t attributes;
  const std::int64_t* state_begin;   // (attributes + 1)
  const std::uint16_t* state_label;  // (state weights): ascending within an attribute
  std::int64_t bigrams;
  const std::int32_t* bigram;  // (bigrams): from * labels + to
  std::int64_t edge_attributes;
  const std::int64_t* edge_begin;   // (edge_attributes + 1); null if there are no edge attributes
  const std::int32_t* edge_bigram;  // (edge weights)
  std::int64_t trigrams = 0;
  const std::int64_t* trigram = nullptr;  // (trigrams): (first * labels + second) * labels + third

  std::int64_t states() const { return state_begin[attributes]; }
  std::int64_t edges() const { return edge_attributes == 0 ? 0 : edge_begin[edge_attributes]; }
  std::int64_t first_trigram() const { return states() + bigrams + edges(); }
  std::int64_t size() const { return first_trigram() + trigrams; }
};

// Computes the transition scores, (labels, labels): the weight of each bigram, 0 without a weight, -inf
// if forbidden.
inline void transition_scores(const WeightLayout& layout, const double* w, const bool* forbidden,
                              double* to) {
  const std::int64_t square = static_cast<std::int64_t>(layout.labels) * layout.labels;
  std::fill(to, to + square, 0.0);
  for (std::int64_t i = 0; i < layout.bigrams; ++i) to[layout.bigram[i]] = w[layout.states() + i];
  for (std::int64_t i = 0; forbidden != nullptr && i < square; ++i) {
    if (forbidden[i]) to[i] = -std::numeric_limits<double>::infinity();
  }
}

// matrices[r - begin], (labels, labels) = base + the edge attributes of the transition into row r, for
// rows [begin, end).
inline void edge_scores(const WeightLayout& layout, const SparseRows& edges, const double* edge_weights,
                        const double* base, std::int64_t begin, std::int64_t end, double* matrices) {
  const std::int64_t square = static_cast<std::int64_t>(layout.labels) * layout.labels;
  PollEvery poll(square);
  for (std::int64_t r = begin; r < end; ++r) {
    poll.step();
    double* matrix = matrices + (r - begin) * square;
    std::copy(base, base + square, matrix);
    for (std::int64_t i = edges.begin[r]; i < edges.begin[r + 1]; ++i) {
      const std::int32_t a = edges.id_at(i);
      if (a < 0 || a >= layout.edge_attributes) continue;
      const double value = edges.value == nullptr ? 1.0 : edges.value[i];
      for (std::int64_t k = layout.edge_begin[a]; k < layout.edge_begin[a + 1]; ++k) {
        matrix[layout.edge_bigram[k]] += value * edge_weights[k];
      }
    }
  }
}

// gradient[edge attribute, bigram] += value * residual of the transition into row r.
inline void add_edges(const WeightLayout& layout, const SparseRows& edges, const double* residuals,
                      std::int64_t begin, std::int64_t end, double* gradient) {
  const std::int64_t square = static_cast<std::int64_t>(layout.labels) * layout.labels;
  PollEvery poll(square);
  for (std::int64_t r = begin; r < end; ++r) {
    poll.step();
    const double* residual = residuals + (r - begin) * square;
    for (std::int64_t i = edges.begin[r]; i < edges.begin[r + 1]; ++i) {
      const std::int32_t a = edges.id_at(i);
      if (a < 0 || a >= layout.edge_attributes) continue;
      const double value = edges.value == nullptr ? 1.0 : edges.value[i];
      for (std::int64_t k = layout.edge_begin[a]; k < layout.edge_begin[a + 1]; ++k) {
        gradient[k] += value * residual[layout.edge_bigram[k]];
      }
    }
  }
}

}  // namespace trellis
