// Trains n-gram models with interpolated modified Kneser-Ney smoothing: text in, ARPA text out.
//
//     count       feed(), end_text()   n-grams of full order, sorted, with their counts
//     adjust      estimate()           adjusted counts of all lengths, and the discounts
//     normalise   next_block()         for each length, sorted by context: the parts of p(w | h)
//     interpolate next_block()         p(w | h) from p(w | shorter h), and the lines of the ARPA file
//
// N-grams are rows of word numbers with the last word first. In this order, the n-grams of length n and
// those of length n - 1 that they end with can be read side by side. The vocabulary is in memory.
// Everything else is in sorters and spools, which use at most `memory` bytes, and temporary files.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "ngram/adjusted_counts.hpp"
#include "ngram/arpa_lines.hpp"
#include "ngram/discounts.hpp"
#include "ngram/normalization.hpp"
#include "ngram/row_sorter.hpp"
#include "ngram/spool.hpp"
#include "ngram/text_counter.hpp"

namespace trellis {

struct NgramOptions {
  int order;
  bool characters, skip_symbols;  // see TextCounter
  int decimals;                   // of the logarithms that are written
  std::size_t memory;             // bytes
  int threads;
  std::string folder;  // for temporary files
};

class NgramTrainer {
 public:
  explicit NgramTrainer(const NgramOptions& options)
      : options_(options),
        counts_(std::make_unique<RowSorter>(RowLayout{options.order, 2, true}, options.memory,
                                            options.threads, options.folder)),
        text_(options.order, options.characters, options.skip_symbols, *counts_) {}

  void feed(std::string_view block) { text_.feed(block); }
  void end_text() { text_.end_text(); }

  const TextCounter& text() const { return text_; }
  const std::vector<CountStatistics>& statistics() const { return statistics_; }  // (order)
  const std::vector<Discounts>& discounts() const { return discounts_; }          // (order)

  // Ends the text. `thresholds` is (order).
  void estimate(const std::vector<std::uint64_t>& thresholds,
                const std::optional<std::array<double, 3>>& fallback) {
    if (text_.tokens() == 0) throw std::invalid_argument("the text has no words");
    make_levels();
    counts_->finish(options_.memory / 2);
    const auto add = [this](int n, const std::uint32_t* row, std::uint64_t adjusted, bool pruned) {
      level(n).add(n, row, adjusted, pruned);
    };
    CountAdjuster adjuster(options_.order, thresholds, add);
    while (const std::uint32_t* row = counts_->next())
      adjuster.add(row, read_wide(row + options_.order));
    adjuster.finish();
    counts_.reset();
    statistics_ = adjuster.statistics();
    for (int n = 1; n <= options_.order; ++n)
      discounts_.push_back(
          estimate_discounts(statistics_[static_cast<std::size_t>(n - 1)], n, fallback));
  }

  // Returns the number of n-grams written, of all lengths.
  std::int64_t written() const { return written_; }

  // Returns the next part of the ARPA file; empty at the end.
  std::string next_block() {
    std::string out;
    if (section_ == 0) start_file(out);
    while (section_ <= options_.order && out.size() < kBlock) {
      if (!write_ngram(out)) end_section(out);
    }
    return out;
  }

 private:
  static constexpr std::size_t kBlock = 1 << 20;

  // N-grams of one length.
  struct Level {
    Level(int n, std::size_t rows, std::size_t buffer, const NgramOptions& options)
        : ngrams(options.folder, buffer),
          weights(options.folder, buffer),
          probabilities(options.folder, buffer),
          by_context(std::make_unique<RowSorter>(RowLayout{n - 1, 4, false}, rows, options.threads,
                                                 options.folder)),
          row(static_cast<std::size_t>(n) + 3) {}

    void add(int n, const std::uint32_t* words, std::uint64_t adjusted, bool pruned) {
      const std::uint64_t number = pruned ? kPruned : size++;
      std::copy(words + 1, words + n, row.begin());
      write_wide(number, row.data() + n - 1);
      write_wide(adjusted, row.data() + n + 1);
      by_context->add(row.data());
      if (!pruned) ngrams.append(words, 4 * static_cast<std::size_t>(n));
    }

    Spool ngrams;         // the words of the n-grams that are kept
    Spool weights;        // the contexts of these n-grams, and the weight of each context
    Spool probabilities;  // of `ngrams`
    std::unique_ptr<RowSorter> by_context;
    std::unique_ptr<ProbabilityParts> parts;
    std::vector<std::uint32_t> row;
    std::uint64_t size = 0;
  };

  Level& level(int n) { return *levels_[static_cast<std::size_t>(n - 1)]; }

  // The rows of all levels get at most half of the memory; longer n-grams get a larger share.
  void make_levels() {
    const std::size_t order = static_cast<std::size_t>(options_.order);
    const std::size_t buffer =
        std::clamp(options_.memory / 256, std::size_t{1} << 12, std::size_t{1} << 20);
    for (std::size_t n = 1; n <= order; ++n) {
      const std::size_t share = options_.memory / (order * (order + 1)) * n;
      levels_.push_back(std::make_unique<Level>(static_cast<int>(n),
                                                std::min(share, options_.memory / 4), buffer, options_));
    }
  }

  void normalize(int n) {
    Level& at = level(n);
    at.by_context->finish(options_.memory / 4);
    at.parts = std::make_unique<ProbabilityParts>(
        static_cast<std::int64_t>(at.size), options_.memory / 8, options_.threads, options_.folder);
    ContextNormalizer(n - 1, discounts_[static_cast<std::size_t>(n - 1)], at.weights, *at.parts)
        .run(*at.by_context);
    at.by_context.reset();
    at.parts->finish();
    at.weights.rewind();
  }

  void start_file(std::string& out) {
    out += "\\data\\\n";
    for (int n = 1; n <= options_.order; ++n)
      out += "ngram " + std::to_string(n) + "=" + std::to_string(level(n).size) + "\n";
    normalize(1);
    start_section(out);
  }

  void start_section(std::string& out) {
    ++section_;
    out += "\n\\" + std::to_string(section_) + "-grams:\n";
    level(section_).ngrams.rewind();
    const auto n = static_cast<std::size_t>(section_);
    words_.resize(n);
    shorter_.assign(n - 1, kNone);
    context_.assign(n, kNone);
    if (section_ == 1) {
      lower_ = 1.0 / static_cast<double>(level(1).size - 1);  // <s> is never predicted
    } else {
      level(section_ - 1).ngrams.rewind();
      level(section_ - 1).probabilities.rewind();
    }
    if (section_ < options_.order) {
      normalize(section_ + 1);
      next_context();
    }
  }

  void end_section(std::string& out) {
    if (section_ > 1) levels_[static_cast<std::size_t>(section_ - 2)].reset();
    if (section_ < options_.order) return start_section(out);
    ++section_;
    out += "\n\\end\\\n";
  }

  // Writes the next line of a section; returns false after the last.
  bool write_ngram(std::string& out) {
    poll_.step();
    Level& at = level(section_);
    if (!at.ngrams.read(words_.data(), 4 * words_.size())) return false;
    find_shorter();
    const ProbabilityParts::Parts parts = at.parts->next();
    const bool is_begin = section_ == 1 && words_[0] == kBeginWord;
    const double probability = is_begin ? 1.0 : parts.base + parts.weight * lower_;
    at.probabilities.append(&probability, sizeof probability);
    append_log10(out, probability, options_.decimals);
    char separator = '\t';
    for (std::size_t i = words_.size(); i-- > 0; separator = ' ') {
      out += separator;
      out += text_.words().string(words_[i]);
    }
    if (section_ < options_.order) {
      out += '\t';
      append_log10(out, find_weight(), options_.decimals);
    }
    out += '\n';
    ++written_;
    return true;
  }

  // Finds the current n-gram without its first word in the section before, and sets lower_ to its
  // probability.
  void find_shorter() {
    if (section_ == 1) return;
    Level& below = level(section_ - 1);
    while (!std::equal(shorter_.begin(), shorter_.end(), words_.begin())) {
      if (!below.ngrams.read(shorter_.data(), 4 * shorter_.size()) ||
          !below.probabilities.read(&lower_, sizeof lower_))
        throw std::logic_error("an n-gram is kept, but not the end of it");
    }
  }

  // Returns the back-off weight of the current n-gram. It is 1 if no kept n-gram continues it.
  double find_weight() {
    if (context_ != words_) return 1.0;
    const double weight = weight_;
    next_context();
    return weight;
  }

  void next_context() {
    Spool& weights = level(section_ + 1).weights;
    if (weights.read(context_.data(), 4 * context_.size())) {
      weights.read(&weight_, sizeof weight_);
    } else {
      context_.assign(context_.size(), kNone);
    }
  }

  NgramOptions options_;
  std::unique_ptr<RowSorter> counts_;
  TextCounter text_;
  std::vector<std::unique_ptr<Level>> levels_;  // (order): level n becomes null after section n + 1
  std::vector<CountStatistics> statistics_;
  std::vector<Discounts> discounts_;
  // The section that is being written: 0 before the first, order + 1 after the last.
  int section_ = 0;
  std::int64_t written_ = 0;
  std::vector<std::uint32_t> words_;    // (n): the current n-gram
  std::vector<std::uint32_t> shorter_;  // (n - 1): the latest n-gram read from the section before
  double lower_ = 0.0;                  // the probability of shorter_
  std::vector<std::uint32_t> context_;  // (n): the next context of the n-grams of length n + 1
  double weight_ = 0.0;                 // the weight of context_
  PollEvery poll_{256};
};

}  // namespace trellis
