// From text to n-grams: numbers the words and adds the n-gram that ends at each of them to a sorter.
//
// A line is a sentence: it starts after order-1 symbols <s> and ends with </s>. Words are separated by
// spaces, tabs and carriage returns. Rows have the last word first, because n-grams that share their
// last words belong together (adjusted_counts.hpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/poll.hpp"
#include "base/tables.hpp"
#include "base/utf8.hpp"
#include "ngram/row_sorter.hpp"

namespace trellis {

// The first words of every vocabulary.
inline constexpr std::uint32_t kUnknownWord = 0, kBeginWord = 1, kEndWord = 2;

class TextCounter {
 public:
  // With `characters`, each code point is a word, and the spaces between words are the word `|`. With
  // `skip_symbols`, <s>, </s> and <unk> in the text are read as spaces; otherwise they are an error.
  TextCounter(int order, bool characters, bool skip_symbols, RowSorter& rows)
      : row_(static_cast<std::size_t>(order), kBeginWord),
        characters_(characters),
        skip_symbols_(skip_symbols),
        rows_(rows) {
    for (const char* symbol : {"<unk>", "<s>", "</s>"}) words_.intern(symbol);
  }

  const StringTable& words() const { return words_; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t lines() const { return lines_; }

  // Adds text; a block may end within a word.
  void feed(std::string_view block) {
    PollEvery poll(32);
    const void* zero = std::memchr(block.data(), '\0', block.size());
    if (zero != nullptr) {
      const char* end = static_cast<const char*>(zero);
      lines_ += std::count(block.data(), end, '\n');
      fail("the line has a zero byte: not a text file");
    }
    for (std::size_t i = 0; i < block.size();) {
      poll.step();
      const std::size_t begin = i;
      while (i < block.size() && !is_space(block[i])) ++i;
      if (i == block.size() || !rest_.empty()) {
        extend_rest(block.substr(begin, i - begin));
        if (i == block.size()) return;
        end_rest();
      } else if (i > begin) {
        add_text(block.substr(begin, i - begin));
      }
      if (block[i++] == '\n') end_line();
    }
  }

  // Ends a file: its last line may have no line break.
  void end_text() {
    end_rest();
    if (has_tokens_) end_line();
  }

 private:
  // The limit of the bytes of a word. With it, a line of 32 words is short enough for readers of ARPA
  // files.
  static constexpr std::size_t kLongestWord = 1 << 14;
  static constexpr std::size_t kLongestText = 1 << 20;  // the limit of the bytes of text without spaces

  static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

  [[noreturn]] void fail(const std::string& what) const {
    throw std::invalid_argument("line " + std::to_string(lines_ + 1) + ": " + what);
  }

  void extend_rest(std::string_view part) {
    if (rest_.size() + part.size() > kLongestText) fail("a word is longer than a mebibyte");
    rest_.append(part);
  }
  void end_rest() {
    if (!rest_.empty()) add_text(rest_);
    rest_.clear();
  }

  // Adds the text between two spaces.
  void add_text(std::string_view text) {
    if (!characters_) return add_token(text);
    if (has_tokens_) add_token("|");
    while (!text.empty()) {
      const auto size = static_cast<std::size_t>(std::max(utf8_length(text), 1));
      add_token(text.substr(0, size));
      text.remove_prefix(size);
    }
  }

  void add_token(std::string_view token) {
    const std::uint32_t known = words_.size(), word = words_.intern(token);
    if (word == known) check_new(token);
    if (word <= kEndWord) {
      if (skip_symbols_) return;
      fail(quoted(token) +
           " is not a word but a symbol of the model: remove it, or let it be skipped "
           "with skip_symbols=True (--skip-symbols)");
    }
    add_word(word);
    ++tokens_;
    has_tokens_ = true;
  }

  void check_new(std::string_view token) const {
    if (token.size() > kLongestWord) fail("a word is longer than 16 kibibytes: " + quoted(token, 40));
    if (utf8_count(token) < 0) fail("not UTF-8: " + quoted(token));
  }

  void add_word(std::uint32_t word) {
    std::copy_backward(row_.begin(), row_.end() - 1, row_.end());
    row_[0] = word;
    rows_.add(row_.data());
  }

  void end_line() {
    add_word(kEndWord);
    std::fill(row_.begin(), row_.end(), kBeginWord);
    has_tokens_ = false;
    ++lines_;
  }

  StringTable words_;
  std::vector<std::uint32_t> row_;  // (order): the last words of the line, the latest first
  const bool characters_, skip_symbols_;
  RowSorter& rows_;
  std::string rest_;         // the beginning of a word that continues in the next block
  bool has_tokens_ = false;  // the current line has tokens
  std::int64_t tokens_ = 0, lines_ = 0;
};

}  // namespace trellis
