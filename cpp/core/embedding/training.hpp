// Training of embeddings on several threads. All threads write to the same tables without locks
// (Hogwild), so results are reproducible only with one thread. The random numbers of a chunk depend on
// the seed and the chunk, not on the thread.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/aligned.hpp"
#include "base/thread_pool.hpp"
#include "dispatch.hpp"
#include "embedding/corpus.hpp"
#include "embedding/subwords.hpp"
#include "embedding/types.hpp"

namespace trellis {

// Owns the memory that an EmbeddingWorker points to.
class EmbeddingScratch {
 public:
  EmbeddingScratch(int stride, std::int64_t ring, std::int64_t hidden, std::int64_t targets,
                   int negatives, std::int64_t rows_of_a_word = 1)
      : rows_(static_cast<std::size_t>((2 * ring + hidden + 1) * stride)),
        scores_(static_cast<std::size_t>((hidden + 4) * padded(targets) + 2 * kRowPadding)),
        pointers_(static_cast<std::size_t>(2 * hidden + targets + 1)),
        negatives_(static_cast<std::size_t>(2 * negatives + 1)),
        sources_(static_cast<std::size_t>(rows_of_a_word)) {
    EmbeddingWorker& k = worker;
    k.ring = rows_.data();
    k.before = k.ring + ring * stride;
    k.hidden = k.before + ring * stride;
    k.change = k.hidden + stride;
    k.score = scores_.data();
    k.label = k.score + hidden * padded(targets);
    k.weight = k.label + 2 * padded(targets);
    k.hidden_row = pointers_.data();
    k.change_row = k.hidden_row + hidden;
    k.target_row = k.change_row + hidden;
    k.next = negatives_.data();
    k.source = sources_.data();
    for (std::int64_t i = 0; i < hidden; ++i) k.change_row[i] = k.change + i * stride;
  }

  // Allocates the copies of hot nodes. Must be called if there are hot nodes.
  void allocate_hot_copies(const std::vector<std::int32_t>& nodes, int stride) {
    const std::size_t floats = nodes.size() * static_cast<std::size_t>(stride);
    hot_rows_.resize(2 * floats);
    hot_places_.resize(2 * nodes.size());
    float* copy = hot_rows_.data();
    std::int32_t* age = hot_places_.data();
    worker.hot = {.id = nodes.data(),
                  .copy = copy,
                  .before = copy + floats,
                  .age = age,
                  .used = age + nodes.size(),
                  .count = 0,
                  .now = 1};
  }

  EmbeddingWorker worker{};

 private:
  static std::int64_t padded(std::int64_t targets) { return (targets / kMaxTargets + 1) * kMaxTargets; }

  std::vector<float, TableAllocator<float>> rows_, scores_;
  std::vector<float*> pointers_;
  std::vector<std::int32_t> negatives_;
  std::vector<const float*> sources_;
  std::vector<float, TableAllocator<float>> hot_rows_;
  std::vector<std::int32_t> hot_places_;
};

// The data of a text classifier for each type of the corpus.
struct TypeRows {
  const std::int64_t* begin;  // (types + 1): the input rows of type i are row[begin[i] .. begin[i + 1])
  const std::int32_t* row;
  const std::int32_t* label;  // (types): the label's number; -1 for words, -2 for ignored types
  const std::uint32_t* hash;  // (types): the hash for word n-grams
  int word_ngrams;
  std::int64_t buckets;
  std::int64_t first_bucket;       // the row of bucket 0
  const std::int32_t* bucket_row;  // (buckets), or null: the row of each bucket of a pruned model, or -1
};

// The learning rate decreases linearly with the number of words. `seen` of `total` words were trained
// before this run.
struct Schedule {
  double first_rate, last_rate;
  double seen, total;
};

// One run over chunks [first, last) of a corpus.
struct TrainingRun {
  std::int64_t first, last;
  Schedule schedule;
  std::uint64_t seed;
  std::int64_t loss_every;  // the loss is computed in one of loss_every steps
  int threads;
};

// The sum of the losses, and the number of examples in it.
struct Report {
  double loss = 0.0, terms = 0.0;
};

class EmbeddingTraining {
 public:
  // `hot` has the output rows of hot nodes. In the model's paths, hot node i is stored as -1 - i.
  EmbeddingTraining(const EmbeddingModel& model, std::int64_t longest_path,
                    std::vector<std::int32_t> hot = {})
      : model_(model), hot_(std::move(hot)) {
    for (std::int64_t i = 0; model.rows_begin != nullptr && i < model.words; ++i)
      most_rows_ = std::max(most_rows_, model.rows_begin[i + 1] - model.rows_begin[i]);
    switch (model.loss) {
      case EmbeddingLoss::negative: targets_ = 1 + model.negatives; break;
      case EmbeddingLoss::hierarchical: targets_ = longest_path; break;
      default: targets_ = model.words;
    }
  }

  // Trains on sentences.
  Report sentences(Corpus& corpus, const TrainingRun& run) const {
    const auto& train = kernels().embedding;
    return chunks(corpus, run,
                  [&](EmbeddingWorker& k, const std::vector<std::int32_t>& numbers,
                      std::vector<std::int32_t>& kept, std::vector<std::int32_t>&) {
                    kept.clear();
                    for (const std::int32_t number : numbers) {
                      if (number >= 0 && keeps(k, number)) kept.push_back(number);
                      if (number != Corpus::kLineEnd && kept.size() < static_cast<std::size_t>(kLongest))
                        continue;
                      poll_interrupt();
                      train.sentence(model_, k, kept.data(), static_cast<std::int64_t>(kept.size()));
                      kept.clear();
                    }
                    train.sentence(model_, k, kept.data(), static_cast<std::int64_t>(kept.size()));
                    train.write_back_hot_rows(model_, k);
                  });
  }

  // Trains on labelled texts, one per line; the numbers of the corpus must be types.
  Report texts(Corpus& corpus, const TypeRows& types, const TrainingRun& run) const {
    const auto& train = kernels().embedding;
    return chunks(corpus, run,
                  [&](EmbeddingWorker& k, const std::vector<std::int32_t>& numbers,
                      std::vector<std::int32_t>& rows, std::vector<std::int32_t>& labels) {
                    std::vector<std::uint32_t> hashes;
                    rows.clear();
                    labels.clear();
                    for (const std::int32_t type : numbers) {
                      if (type >= 0) {
                        add_type(types, type, rows, labels, hashes);
                        continue;
                      }
                      poll_interrupt();
                      add_word_ngrams(types, hashes, rows);
                      train.text(model_, k, rows.data(), static_cast<std::int64_t>(rows.size()),
                                 labels.data(), static_cast<std::int64_t>(labels.size()));
                      rows.clear();
                      labels.clear();
                      hashes.clear();
                    }
                  });
  }

 private:
  static constexpr std::int64_t kLongest = 1000;  // words; longer sentences are cut, as in word2vec

  // Calls train(worker, numbers, buffer, buffer) for each chunk.
  template <class Train>
  Report chunks(Corpus& corpus, const TrainingRun& run, const Train& train) const {
    Report report;
    std::mutex mutex;
    parallel_for(run.last - run.first, run.threads, [&] {
      auto scratch =
          std::make_shared<EmbeddingScratch>(model_.stride, model_.ring_mask + 1, 2 * model_.window + 1,
                                             targets_, model_.negatives, most_rows_);
      scratch->allocate_hot_copies(hot_, model_.stride);
      if (model_.loss == EmbeddingLoss::softmax || model_.loss == EmbeddingLoss::ova) {
        for (std::int64_t t = 0; t < model_.words; ++t)
          scratch->worker.target_row[t] = model_.output + t * model_.stride;
      }
      scratch->worker.every = run.loss_every;
      return
          [&, scratch, numbers = std::vector<std::int32_t>(), first_buffer = std::vector<std::int32_t>(),
           second_buffer = std::vector<std::int32_t>()](std::int64_t i) mutable {
            const Corpus::Chunk& chunk = corpus.chunks()[static_cast<std::size_t>(run.first + i)];
            EmbeddingWorker& k = scratch->worker;
            k.random = mix(run.seed + kMixA * static_cast<std::uint64_t>(run.first + i + 1), kMixB) | 1;
            k.rate = rate(run.schedule, static_cast<double>(chunk.words_before));
            k.loss = k.terms = 0.0;
            numbers.resize(static_cast<std::size_t>(chunk.count));
            corpus.read(chunk, numbers.data());
            train(k, numbers, first_buffer, second_buffer);
            const std::lock_guard lock(mutex);
            report.loss += k.loss;
            report.terms += k.terms;
          };
    });
    return report;
  }

  // Returns the learning rate after words_before words of this run.
  static float rate(const Schedule& s, double words_before) {
    const double done = s.total > 0.0 ? (s.seen + words_before) / s.total : 0.0;
    return static_cast<float>(s.first_rate + (s.last_rate - s.first_rate) * (done < 1.0 ? done : 1.0));
  }

  // Returns whether subsampling keeps an occurrence of a word.
  bool keeps(EmbeddingWorker& k, std::int32_t word) const {
    if (model_.keep == nullptr || model_.keep[word] == 0xffffffff) return true;
    k.random = k.random * 6364136223846793005u + 1442695040888963407u;
    if (k.random == 0) k.random = 1;  // xorshift would stay at 0
    return static_cast<std::uint32_t>(k.random >> 32) <= model_.keep[word];
  }

  // Adds the rows or the label of one token.
  static void add_type(const TypeRows& types, std::int32_t type, std::vector<std::int32_t>& rows,
                       std::vector<std::int32_t>& labels, std::vector<std::uint32_t>& hashes) {
    if (types.label[type] >= 0) return labels.push_back(types.label[type]);
    if (types.label[type] < -1) return;
    rows.insert(rows.end(), types.row + types.begin[type], types.row + types.begin[type + 1]);
    if (types.word_ngrams > 1) hashes.push_back(types.hash[type]);
  }

  // Adds the rows of the word n-grams of a line.
  static void add_word_ngrams(const TypeRows& types, const std::vector<std::uint32_t>& hashes,
                              std::vector<std::int32_t>& rows) {
    if (types.word_ngrams <= 1) return;
    for_each_word_ngram(hashes.data(), static_cast<std::int64_t>(hashes.size()), types.word_ngrams,
                        static_cast<std::uint64_t>(types.buckets), [&](std::int32_t bucket) {
                          const std::int32_t row =
                              types.bucket_row != nullptr
                                  ? types.bucket_row[bucket]
                                  : static_cast<std::int32_t>(types.first_bucket + bucket);
                          if (row >= 0) rows.push_back(row);
                        });
  }

  EmbeddingModel model_;
  std::vector<std::int32_t> hot_;
  // The largest number of output rows per prediction, and of input rows per word.
  std::int64_t targets_ = 0, most_rows_ = 1;
};

}  // namespace trellis
