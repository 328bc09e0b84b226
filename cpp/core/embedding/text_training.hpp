// Training of text classifiers: the mean of a text's rows predicts its label. Also initial values of
// tables, and means of rows.
#pragma once

#include "embedding/sentence_training.hpp"

namespace trellis::TRELLIS_ISA::embedding {

// out = mean of the rows; (stride).
inline void mean(const float* table, int stride, const std::int32_t* rows, std::int64_t count,
                 float* out) {
  const float scale = count > 0 ? 1.0f / static_cast<float>(count) : 0.0f;
  for (int j = 0; j < stride; j += kFloatWidth) {
    FloatVec sum{};
    for (std::int64_t i = 0; i < count; ++i)
      sum += float_load(table + rows[i] * std::int64_t{stride} + j);
    float_store(out + j, scale * sum);
  }
}

// Trains on one text. Of several labels, one is drawn at random; with one-vs-all, all are used.
inline void text(const EmbeddingModel& m, EmbeddingWorker& k, const std::int32_t* rows,
                 std::int64_t count, const std::int32_t* labels, std::int64_t label_count) {
  if (count == 0 || label_count == 0) return;
  mean(m.input, m.stride, rows, count, k.hidden);
  const std::int32_t label = labels[label_count == 1 ? 0 : below(next_random(k), label_count)];
  std::int64_t targets = m.words;
  switch (m.loss) {
    case EmbeddingLoss::softmax: break;
    case EmbeddingLoss::hierarchical: targets = set_path_targets(m, k, label); break;
    case EmbeddingLoss::negative:
      targets = 1 + m.negatives;
      draw_negatives(m, k, label, k.next);
      set_row_targets(m, k, label, k.next);
      set_noise_labels(m, k);
      break;
    case EmbeddingLoss::ova:
      for (std::int64_t t = 0; t < targets; ++t) set_target(k, t, 0.0f, 1.0f);
      for (std::int64_t i = 0; i < label_count; ++i) set_target(k, labels[i], 1.0f, 1.0f);
      pad_targets(k, targets);
      break;
  }
  train_step(m, k, &k.hidden, k.change_row, 1, targets, label);
  add_to_rows(m.input, m.stride, {rows, count}, 1.0f / static_cast<float>(count), k.change);
}

// Computes initial values of rows [begin, end): see EmbeddingKernels::fill.
inline void fill(float* table, std::int64_t begin, std::int64_t end, int dim, int stride, float range,
                 std::uint64_t seed) {
  for (std::int64_t i = begin; i < end; ++i) {
    float* row = table + i * stride;
    for (int j = 0; j < dim; ++j) {  // the random number is SplitMix64 of the seed and the index
      std::uint64_t z =
          seed + 0x9e3779b97f4a7c15 * (static_cast<std::uint64_t>(i) * static_cast<std::uint64_t>(dim) +
                                       static_cast<std::uint64_t>(j) + 1);
      z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
      z = (z ^ z >> 27) * 0x94d049bb133111eb;
      row[j] = range * (static_cast<float>((z ^ z >> 31) >> 40) * 0x1p-23f - 1.0f);
    }
    for (int j = dim; j < stride; ++j) row[j] = 0.0f;
  }
}

}  // namespace trellis::TRELLIS_ISA::embedding
