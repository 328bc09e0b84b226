// The rows of a text in a fastText model: of its words, their character n-grams, and word n-grams.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/tables.hpp"
#include "embedding/subwords.hpp"

namespace trellis {

struct TextSettings {
  int minn = 0, maxn = 0;    // lengths of character n-grams, in code points
  int word_ngrams = 1;       // the longest word n-gram
  std::uint32_t bucket = 0;  // the number of rows that n-grams are hashed into
};

class TextDictionary {
 public:
  // Scratch memory of one thread.
  struct Scratch {
    std::string bracketed;
    std::vector<std::uint32_t> hash;
  };

  TextDictionary(StringTable words, StringTable labels, const TextSettings& settings)
      : words_(std::move(words)), labels_(std::move(labels)), settings_(settings) {}

  // Keeps only these buckets, in this order (a pruned model).
  void prune(const std::vector<std::uint32_t>& kept) {
    pruned_ = true;
    kept_.reserve(kept.size());
    for (const std::uint32_t bucket : kept) kept_.intern(&bucket, hash_key(&bucket, 1));
    if (kept_.size() != kept.size()) throw std::invalid_argument("kept: a bucket is listed twice");
  }

  std::int64_t labels() const { return labels_.size(); }

  // Returns 1 + the largest row that for_each_row() can return.
  std::int64_t rows() const {
    const bool has_buckets = pruned_ || settings_.maxn > 0 || settings_.word_ngrams > 1;
    const std::int64_t buckets = pruned_ ? kept_.size() : settings_.bucket;
    return words_.size() + (has_buckets ? buckets : 0);
  }

  // Calls word(text) and label(number) for the tokens of a line, split as in fastText: at six kinds of
  // white space and at zero bytes. The end of the line is a token only if the line has a line break.
  template <class Word, class Label>
  void split(std::string_view line, std::string_view prefix, const Word& word,
             const Label& label) const {
    constexpr std::string_view kSpace(" \n\r\t\v\f\0", 7);
    for (std::size_t at = 0; at < line.size();) {
      if (line[at] == '\n') return word(kEndOfSentence);
      if (kSpace.find(line[at]) != kSpace.npos) {
        ++at;
        continue;
      }
      const std::size_t begin = at;
      while (at < line.size() && kSpace.find(line[at]) == kSpace.npos) ++at;
      const std::string_view token = line.substr(begin, at - begin);
      const std::uint32_t number = labels_.find(token);
      if (number != kNone) {
        label(number);
      } else if (!token.starts_with(prefix) || words_.find(token) != kNone) {
        word(token);
      }
      if (token == kEndOfSentence) return;
    }
  }

  // Calls use(row) for all rows of a text.
  template <class Use>
  void for_each_row(const std::string_view* words, std::size_t count, Scratch& scratch,
                    const Use& use) const {
    const auto take_bucket = [&](std::uint32_t bucket) {
      if (pruned_) {
        bucket = kept_.find(&bucket, hash_key(&bucket, 1));
        if (bucket == kNone) return;
      }
      use(std::int64_t{words_.size()} + bucket);
    };
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t row = words_.find(words[i]);
      if (row != kNone) use(std::int64_t{row});
      if (settings_.bucket == 0) continue;
      GrowingHash hash;
      for_each_subword(words[i], settings_.minn, settings_.maxn, scratch.bracketed,
                       [&](std::string_view gram) { take_bucket(hash(gram) % settings_.bucket); });
    }
    if (settings_.bucket == 0 || settings_.word_ngrams <= 1) return;
    scratch.hash.clear();
    for (std::size_t i = 0; i < count; ++i) scratch.hash.push_back(subword_hash(words[i]));
    for_each_word_ngram(scratch.hash.data(), static_cast<std::int64_t>(count), settings_.word_ngrams,
                        settings_.bucket,
                        [&](std::int32_t b) { take_bucket(static_cast<std::uint32_t>(b)); });
  }

 private:
  StringTable words_, labels_;
  TextSettings settings_;
  bool pruned_ = false;
  KeyTable kept_;
};

}  // namespace trellis
