// Adjusted counts of n-grams of every length, from the counts of the longest.
//
//     a(w1 .. wn) = c(w1 .. wn)               if n is the order of the model, or w1 is <s>
//                   |{v : c(v w1 .. wn) > 0}|  if not: the number of different words before w1
//
// The longest n-grams arrive sorted by their last word, then the word before it, and so on. In this
// order, n-grams that end in the same words follow each other. So only one n-gram of each length is open
// (being counted) at a time, and the n-grams of each length are completed in sorted order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ngram/text_counter.hpp"

namespace trellis {

// Counts the n-grams of one length: with each of the adjusted counts 1 to 4, all n-grams, and the
// n-grams that are kept.
struct CountStatistics {
  std::int64_t with_count[5] = {0, 0, 0, 0, 0};
  std::int64_t ngrams = 0, kept = 0;

  void add(std::uint64_t count, bool pruned) {
    ++ngrams;
    kept += !pruned;
    if (count < 5) ++with_count[count];
  }
};

// Calls sink(n, row, adjusted count, pruned) for each n-gram; the row has the last word first. An n-gram
// of length n is pruned if it occurs at most thresholds[n - 1] times.
template <class Sink>
class CountAdjuster {
 public:
  CountAdjuster(int order, std::vector<std::uint64_t> thresholds, Sink& sink)
      : order_(order),
        thresholds_(std::move(thresholds)),
        sink_(sink),
        words_(static_cast<std::size_t>(order)),
        adjusted_(static_cast<std::size_t>(order)),
        occurrences_(static_cast<std::size_t>(order)),
        statistics_(static_cast<std::size_t>(order)) {
    for (const std::uint32_t symbol : {kUnknownWord, kBeginWord}) {
      statistics_[0].add(0, false);
      sink_(1, &symbol, 0, false);
    }
  }

  const std::vector<CountStatistics>& statistics() const { return statistics_; }

  // Adds an n-gram of full order and its count.
  void add(const std::uint32_t* row, std::uint64_t count) {
    int same = 0;  // the number of last words that the open n-grams share with this row
    while (same < open_ && words_[same] == row[same]) ++same;
    close(same);
    for (int k = 0; k < same; ++k) occurrences_[k] += count;
    if (same > 0) ++adjusted_[same - 1];
    while (open_ < order_ - 1) {
      const std::uint32_t word = row[open_];
      words_[open_] = word;
      adjusted_[open_] = word == kBeginWord ? count : 1;
      occurrences_[open_] = count;
      ++open_;
      if (word == kBeginWord) return;  // a longer n-gram would only repeat <s>
    }
    emit(order_, row, count, count, count);
  }

  void finish() {
    last_ = true;
    close(0);
  }

 private:
  // Completes the open n-grams of more than `same` words.
  void close(int same) {
    for (; open_ > same; --open_) {
      const std::uint64_t adjusted = adjusted_[open_ - 1], occurrences = occurrences_[open_ - 1];
      // In its statistics, lmplz uses the number of occurrences of the last n-gram of each length, not
      // its adjusted count. In a small text this changes the discounts, so the same is done here.
      emit(open_, words_.data(), adjusted, occurrences, last_ ? occurrences : adjusted);
    }
  }

  void emit(int n, const std::uint32_t* row, std::uint64_t adjusted, std::uint64_t occurrences,
            std::uint64_t counted) {
    const bool is_end = n == 1 && row[0] == kEndWord;  // the symbols are always kept
    const bool pruned = !is_end && occurrences <= thresholds_[static_cast<std::size_t>(n - 1)];
    statistics_[static_cast<std::size_t>(n - 1)].add(counted, pruned);
    sink_(n, row, adjusted, pruned);
  }

  const int order_;
  const std::vector<std::uint64_t> thresholds_;  // (order)
  Sink& sink_;
  // The open n-grams are words_[0 .. k], the last word first, for each k < open_.
  std::vector<std::uint32_t> words_;
  std::vector<std::uint64_t> adjusted_, occurrences_;
  int open_ = 0;
  bool last_ = false;  // no n-grams follow
  std::vector<CountStatistics> statistics_;
};

}  // namespace trellis
