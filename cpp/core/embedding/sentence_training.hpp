// Skip-gram and CBOW: training along a sentence.
//
// The hidden vectors of the words in a window are stored in a ring. A vector is gathered from the input
// table when its word enters the window, changed in the ring, and its change is added to the table when
// the word leaves. So with subwords, the rows of a word are accessed twice, not once per neighbour, and
// threads seldom compete for the rows of frequent words.
#pragma once

#include "base/poll.hpp"
#include "embedding/gradient_step.hpp"

namespace trellis::TRELLIS_ISA::embedding {

// xorshift64*
TRELLIS_INLINE std::uint64_t next_random(EmbeddingWorker& k) {
  k.random ^= k.random >> 12;
  k.random ^= k.random << 25;
  k.random ^= k.random >> 27;
  return k.random * 0x2545f4914f6cdd1d;
}
// Returns a random number 0 .. n-1. Its bias is at most n / 2^32, which is negligible here.
TRELLIS_INLINE std::int64_t below(std::uint64_t random, std::int64_t n) {
  return static_cast<std::int64_t>((random >> 32) * static_cast<std::uint64_t>(n) >> 32);
}

TRELLIS_INLINE void prefetch_row(const float* row, int stride) {
  for (int j = 0; j < stride; j += kRowPadding) __builtin_prefetch(row + j, 1, 2);
}

TRELLIS_INLINE float* row_of(float* table, std::int64_t row, int stride) { return table + row * stride; }

// Returns the row to use for a node: its copy if the node is hot (see HotRows).
TRELLIS_INLINE float* node_row(const EmbeddingModel& m, HotRows& hot, std::int32_t node) {
  const int stride = m.stride;
  if (node >= 0) return row_of(m.output, node, stride);
  const std::int64_t place = -1 - std::int64_t{node};
  const float* row = row_of(m.output, hot.id[place], stride);
  float* copy = hot.copy + place * stride;
  if (hot.age[place] == hot.now) return copy;
  hot.age[place] = hot.now;
  hot.used[hot.count++] = static_cast<std::int32_t>(place);
  float* before = hot.before + place * stride;
  for (int j = 0; j < stride; j += kFloatWidth) {
    const FloatVec v = float_load(row + j);
    float_store(copy + j, v);
    float_store(before + j, v);
  }
  return copy;
}

// Adds the changes of hot nodes to the table and invalidates the copies.
inline void write_back_hot_rows(const EmbeddingModel& m, EmbeddingWorker& k) {
  HotRows& hot = k.hot;
  const int stride = m.stride;
  for (std::int32_t i = 0; i < hot.count; ++i)
    prefetch_row(row_of(m.output, hot.id[hot.used[i]], stride), stride);
  for (std::int32_t i = 0; i < hot.count; ++i) {
    const std::int64_t place = hot.used[i];
    float* row = row_of(m.output, hot.id[place], stride);
    for (int j = 0; j < stride; j += kFloatWidth) {
      const FloatVec change =
          float_load(hot.copy + place * stride + j) - float_load(hot.before + place * stride + j);
      float_store(row + j, float_load(row + j) + change);
    }
  }
  hot.count = 0;
  ++hot.now;
  k.words = 0;
}

// Draws a word from the noise distribution.
TRELLIS_INLINE std::int32_t draw_noise(const EmbeddingModel& m, EmbeddingWorker& k) {
  const std::uint64_t random = next_random(k);
  const std::int64_t word = below(random, m.words);
  return static_cast<std::uint32_t>(random) <= m.noise[word].threshold ? static_cast<std::int32_t>(word)
                                                                       : m.noise[word].alias;
}

// Draws negatives that are different from a word, and prefetches their rows. This happens some time
// before they are used, so that the rows have arrived by then.
TRELLIS_INLINE void draw_negatives(const EmbeddingModel& m, EmbeddingWorker& k, std::int32_t word,
                                   std::int32_t* out) {
  for (int i = 0; i < m.negatives; ++i) {
    std::int32_t negative = draw_noise(m, k);
    constexpr int kMaxRedraws = 16;  // the noise distribution may draw almost only this word
    for (int redraws = 0; negative == word && redraws < kMaxRedraws; ++redraws)
      negative = draw_noise(m, k);
    if (negative == word) negative = static_cast<std::int32_t>((word + 1) % m.words);
    out[i] = negative;
    prefetch_row(row_of(m.output, negative, m.stride), m.stride);
  }
}

// The indices of the input rows of a word.
struct Rows {
  const std::int32_t* row;
  std::int64_t count;
};
TRELLIS_INLINE Rows rows_of(const EmbeddingModel& m, const std::int32_t* word) {
  if (m.rows_begin == nullptr) return {word, 1};
  return {m.row + m.rows_begin[*word], m.rows_begin[*word + 1] - m.rows_begin[*word]};
}
TRELLIS_INLINE void prefetch_rows(const EmbeddingModel& m, const std::int32_t* word) {
  const Rows rows = rows_of(m, word);
  for (std::int64_t i = 0; i < rows.count; ++i)
    prefetch_row(row_of(m.input, rows.row[i], m.stride), m.stride);
}

// out = scale * sum of rows; `source` is scratch.
TRELLIS_INLINE void sum_rows(float* table, int stride, Rows rows, float scale, const float** source,
                             float* out) {
  for (std::int64_t i = 0; i < rows.count; ++i) source[i] = row_of(table, rows.row[i], stride);
  for (int j = 0; j < stride; j += kFloatWidth) {
    FloatVec sum{};
    for (std::int64_t i = 0; i < rows.count; ++i) sum += float_load(source[i] + j);
    float_store(out + j, scale * sum);
  }
}

// rows += scale * change
TRELLIS_INLINE void add_to_rows(float* table, int stride, Rows rows, float scale, const float* change) {
  for (std::int64_t i = 0; i < rows.count; ++i) {
    float* row = row_of(table, rows.row[i], stride);
    for (int j = 0; j < stride; j += kFloatWidth)
      float_store(row + j, float_load(row + j) + scale * float_load(change + j));
  }
}

TRELLIS_INLINE float* slot(const EmbeddingModel& m, float* ring, std::int64_t position) {
  return ring + (position & m.ring_mask) * m.stride;
}

// Returns whether the ring has the sums of the rows of words; otherwise it has their means. CBOW
// computes its mean over the rows of all words.
TRELLIS_INLINE bool ring_has_sums(const EmbeddingModel& m) { return m.cbow || m.sum; }

// Adds a word that enters the window to the ring.
TRELLIS_INLINE void enter(const EmbeddingModel& m, EmbeddingWorker& k, const std::int32_t* word,
                          std::int64_t position) {
  const Rows rows = rows_of(m, word);
  float* vector = slot(m, k.ring, position);
  sum_rows(m.input, m.stride, rows, ring_has_sums(m) ? 1.0f : 1.0f / static_cast<float>(rows.count),
           k.source, vector);
  std::memcpy(slot(m, k.before, position), vector, sizeof(float) * static_cast<std::size_t>(m.stride));
}
// Adds the change of a word that leaves the window to the input table.
TRELLIS_INLINE void leave(const EmbeddingModel& m, EmbeddingWorker& k, const std::int32_t* word,
                          std::int64_t position) {
  const Rows rows = rows_of(m, word);
  const float* after = slot(m, k.ring, position);
  float* change = slot(m, k.before, position);
  for (int j = 0; j < m.stride; j += kFloatWidth)
    float_store(change + j, float_load(after + j) - float_load(change + j));
  add_to_rows(m.input, m.stride, rows, ring_has_sums(m) ? 1.0f / static_cast<float>(rows.count) : 1.0f,
              change);
}

// Sets the targets of negative sampling: the word itself, then its negatives.
TRELLIS_INLINE void set_row_targets(const EmbeddingModel& m, EmbeddingWorker& k, std::int32_t word,
                                    const std::int32_t* negative) {
  k.target_row[0] = row_of(m.output, word, m.stride);
  for (int i = 0; i < m.negatives; ++i) k.target_row[1 + i] = row_of(m.output, negative[i], m.stride);
}
// Sets the labels of these targets: 1 for the word, 0 for negatives.
TRELLIS_INLINE void set_noise_labels(const EmbeddingModel& m, EmbeddingWorker& k) {
  for (int t = 0; t <= m.negatives; ++t) set_target(k, t, t == 0 ? 1.0f : 0.0f, 1.0f);
  pad_targets(k, 1 + m.negatives);
}
// Sets the nodes on the path to a word as targets; returns their number.
TRELLIS_INLINE std::int64_t set_path_targets(const EmbeddingModel& m, EmbeddingWorker& k,
                                             std::int32_t word) {
  const std::int64_t begin = m.path_begin[word], count = m.path_begin[word + 1] - begin;
  for (std::int64_t t = 0; t < count; ++t) {
    k.target_row[t] = node_row(m, k.hot, m.path_node[begin + t]);
    set_target(k, t, m.path_right[begin + t] != 0 ? 1.0f : 0.0f, 1.0f);
  }
  pad_targets(k, count);
  return count;
}
TRELLIS_INLINE void prefetch_path(const EmbeddingModel& m, std::int32_t word) {
  for (std::int64_t t = m.path_begin[word]; t < m.path_begin[word + 1]; ++t) {
    const std::int32_t node = m.path_node[t];
    if (node >= 0) prefetch_row(row_of(m.output, node, m.stride), m.stride);
  }
}

// Sets the labels of one-vs-all before the first word of a sentence: no word is right.
TRELLIS_INLINE void set_wrong_labels(const EmbeddingModel& m, EmbeddingWorker& k) {
  for (std::int64_t t = 0; t < m.words; ++t) set_target(k, t, 0.0f, 1.0f);
  pad_targets(k, m.words);
}

// Performs one gradient step, in which hidden vectors predict `word`. The targets of `word` must be set,
// except for a softmax.
TRELLIS_INLINE void train_step(const EmbeddingModel& m, EmbeddingWorker& k, float* const* hidden,
                               float* const* out, int count, std::int64_t targets, std::int32_t word) {
  const bool want_loss = ++k.steps % k.every == 0;
  double loss = 0.0;
  if (m.loss == EmbeddingLoss::softmax) {
    loss = softmax(k, hidden, count, k.target_row, targets, word, m.stride);
  } else {
    loss = logistic(k, hidden, count, k.target_row, targets, m.stride, want_loss);
  }
  if (want_loss) {
    k.loss += loss;
    k.terms += count;
  }
  update(k, hidden, out, count, k.target_row, targets, m.stride);
}

// Adds a change to each row of a word. The ring has the sum of these rows, so the change is multiplied
// by their number.
TRELLIS_INLINE void add_to_slot(const EmbeddingModel& m, const std::int32_t* word, float* slot,
                                const float* change) {
  const float rows = static_cast<float>(rows_of(m, word).count);
  for (int j = 0; j < m.stride; j += kFloatWidth)
    float_store(slot + j, float_load(slot + j) + rows * float_load(change + j));
}

// Trains CBOW on one word: the mean of the context predicts the word. This is the mean of the rows of
// all context words or, with m.sum, of one sum of rows per word. Each row of the context receives the
// full gradient.
TRELLIS_INLINE void cbow(const EmbeddingModel& m, EmbeddingWorker& k, const std::int32_t* words,
                         std::int64_t begin, std::int64_t end, std::int64_t i, std::int64_t targets) {
  std::int64_t rows = 0;
  int count = 0;
  for (std::int64_t p = begin; p < end; ++p) {
    if (p == i) continue;
    rows += rows_of(m, words + p).count;
    k.hidden_row[count++] = slot(m, k.ring, p);
  }
  const float scale = 1.0f / static_cast<float>(m.sum ? count : rows);
  for (int j = 0; j < m.stride; j += kFloatWidth) {
    FloatVec sum{};
    for (int c = 0; c < count; ++c) sum += float_load(k.hidden_row[c] + j);
    float_store(k.hidden + j, scale * sum);
  }
  train_step(m, k, &k.hidden, k.change_row, 1, targets, words[i]);
  int c = 0;
  for (std::int64_t p = begin; p < end; ++p) {
    if (p != i) add_to_slot(m, words + p, k.hidden_row[c++], k.change);
  }
}

// Trains skip-gram on one word: each word of the context predicts the word. A step adds the same change
// to every row of a context word. The mean of its rows changes by the same amount; their sum changes by
// this amount times the number of rows.
TRELLIS_INLINE void skip_gram(const EmbeddingModel& m, EmbeddingWorker& k, const std::int32_t* words,
                              std::int64_t begin, std::int64_t end, std::int64_t i,
                              std::int64_t targets) {
  int count = 0;
  for (std::int64_t p = begin; p < end; ++p) {
    if (p != i) k.hidden_row[count++] = slot(m, k.ring, p);
  }
  float* const* out = m.sum ? k.change_row : nullptr;
  const auto finish = [&] {
    if (!m.sum) return;
    int c = 0;
    for (std::int64_t p = begin; p < end; ++p) {
      if (p == i) continue;
      add_to_slot(m, words + p, k.hidden_row[c], k.change_row[c]);
      ++c;
    }
  };
  if (m.loss != EmbeddingLoss::negative || m.shared) {
    train_step(m, k, k.hidden_row, out, count, targets, words[i]);
    return finish();
  }
  std::int32_t* next = k.next;  // the negatives of the next pair; the first ones are already drawn
  for (int c = 0; c < count; ++c) {
    set_row_targets(m, k, words[i], next);
    next = next == k.next ? k.next + m.negatives : k.next;
    if (c + 1 < count) draw_negatives(m, k, words[i], next);
    train_step(m, k, k.hidden_row + c, m.sum ? out + c : nullptr, 1, targets, words[i]);
  }
  finish();
}

// Prefetches the rows that the prediction of a word needs, and draws its negatives.
TRELLIS_INLINE void look_ahead(const EmbeddingModel& m, EmbeddingWorker& k, std::int32_t word,
                               std::int32_t* negatives) {
  if (m.loss == EmbeddingLoss::hierarchical) prefetch_path(m, word);
  if (m.loss != EmbeddingLoss::negative) return;
  prefetch_row(row_of(m.output, word, m.stride), m.stride);
  draw_negatives(m, k, word, negatives);
}

// Moves the window along the sentence. The targets of word i + 1 are drawn and prefetched while word i
// is trained.
inline void sentence(const EmbeddingModel& m, EmbeddingWorker& k, const std::int32_t* words,
                     std::int64_t count) {
  if (count < 2) return;
  const bool pairs = m.loss == EmbeddingLoss::negative && !m.cbow && !m.shared;
  const bool one_vs_all = m.loss == EmbeddingLoss::ova;
  std::int64_t targets = one_vs_all || m.loss == EmbeddingLoss::softmax ? m.words : 1 + m.negatives;
  if (m.loss == EmbeddingLoss::negative) set_noise_labels(m, k);
  if (one_vs_all) set_wrong_labels(m, k);
  std::int32_t* next = k.next;
  if (!pairs) look_ahead(m, k, words[0], next);
  std::int64_t entered_words = 0;
  // The cost of a word for PollEvery. A word takes some microseconds with negative sampling. With a
  // softmax or one-vs-all, the time grows with the number of words.
  PollEvery poll((1 << 13) + targets * m.stride);
  for (std::int64_t i = 0; i < count; ++i) {
    poll.step();
    for (; entered_words < count && entered_words <= i + m.window; ++entered_words) {
      if (entered_words + 1 < count) prefetch_rows(m, words + entered_words + 1);
      enter(m, k, words + entered_words, entered_words);
    }
    const std::int64_t radius = m.shrink ? 1 + below(next_random(k), m.window) : m.window;
    const std::int64_t begin = i < radius ? 0 : i - radius,
                       end = i + radius < count ? i + radius + 1 : count;
    if (m.loss == EmbeddingLoss::negative && !pairs) set_row_targets(m, k, words[i], next);
    if (m.loss == EmbeddingLoss::hierarchical) targets = set_path_targets(m, k, words[i]);
    next = next == k.next ? k.next + m.negatives : k.next;
    if (pairs) {
      look_ahead(m, k, words[i], k.next);
    } else if (i + 1 < count) {
      look_ahead(m, k, words[i + 1], next);
    }
    if (one_vs_all) set_target(k, words[i], 1.0f, 1.0f);
    if (m.cbow) {
      cbow(m, k, words, begin, end, i, targets);
    } else {
      skip_gram(m, k, words, begin, end, i, targets);
    }
    if (one_vs_all) set_target(k, words[i], 0.0f, 1.0f);
    if (i >= m.window) leave(m, k, words + i - m.window, i - m.window);
    if (++k.words >= m.hot_for) write_back_hot_rows(m, k);
  }
  for (std::int64_t p = count > m.window ? count - m.window : 0; p < count; ++p)
    leave(m, k, words + p, p);
}

}  // namespace trellis::TRELLIS_ISA::embedding
