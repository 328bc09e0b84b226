// Character n-grams and word n-grams, numbered as in fastText, so that models are interchangeable.
//
// An n-gram of "<word>" has the row  words + hash mod bucket;  hash is 32-bit FNV-1a over UTF-8 bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trellis {

// Hashes growing prefixes of a text. Each call passes a longer string that begins at the same address,
// and only its new bytes are read; any other string starts a new hash. As in fastText, bytes are
// sign-extended, which changes the hash of non-ASCII text.
class GrowingHash {
 public:
  std::uint32_t operator()(std::string_view text) {
    if (text.data() != begin_ || text.size() < size_) {
      begin_ = text.data();
      size_ = 0;
      hash_ = 2166136261u;
    }
    for (; size_ < text.size(); ++size_) {
      hash_ ^=
          static_cast<std::uint32_t>(static_cast<std::int32_t>(static_cast<signed char>(text[size_])));
      hash_ *= 16777619u;
    }
    return hash_;
  }

 private:
  const char* begin_ = nullptr;
  std::size_t size_ = 0;
  std::uint32_t hash_ = 2166136261u;
};

inline std::uint32_t subword_hash(std::string_view text) { return GrowingHash()(text); }

inline bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

inline constexpr std::string_view kEndOfSentence = "</s>";  // the only word without n-grams

// Calls use(n-gram) for the n-grams of shortest .. longest code points of "<word>", except the single
// brackets. `bracketed_word` is scratch.
template <class Use>
void for_each_subword(std::string_view word, int shortest, int longest, std::string& bracketed_word,
                      const Use& use) {
  if (longest <= 0 || word == kEndOfSentence) return;
  bracketed_word.assign(1, '<').append(word).push_back('>');
  const std::string_view text = bracketed_word;
  for (std::size_t begin = 0; begin < text.size(); ++begin) {
    if (continues_character(text[begin])) continue;
    std::size_t end = begin;
    for (int n = 1; n <= longest && end < text.size(); ++n) {
      ++end;
      while (end < text.size() && continues_character(text[end])) ++end;
      const bool bracket = n == 1 && (begin == 0 || end == text.size());
      if (n >= shortest && !bracket) use(text.substr(begin, end - begin));
    }
  }
}

// Calls use(bucket) for the runs of 2 .. longest words that begin at each word; hash is (count).
template <class Use>
void for_each_word_ngram(const std::uint32_t* hash, std::int64_t count, int longest,
                         std::uint64_t buckets, const Use& use) {
  const auto sign_extend = [](std::uint32_t h) {  // fastText stores word hashes as signed integers
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(static_cast<std::int32_t>(h)));
  };
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint64_t h = sign_extend(hash[i]);
    for (std::int64_t j = i + 1; j < count && j < i + longest; ++j) {
      h = h * 116049371u + sign_extend(hash[j]);
      use(static_cast<std::int32_t>(h % buckets));
    }
  }
}

}  // namespace trellis
