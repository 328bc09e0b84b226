// Reads language models in the ARPA format, one block of bytes at a time.
//
//     \data\            the number of n-grams of each length
//     ngram 1=3
//     \1-grams:         log10 p, the words, and log10 of the back-off weight unless it is 0
//     -1.2	the	-0.3
//     \end\             fields are separated by tabs or spaces; lines before \data\ are comments
// Declared counts are only compared with the actual counts. They do not decide how much memory is
// allocated, because a damaged file may declare any count.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/poll.hpp"
#include "base/utf8.hpp"
#include "ctc/ngram.hpp"

namespace trellis {

namespace arpa_detail {

// Parses a decimal number such as -1.5, 2e-05 or .5, independent of the locale. Returns false if the
// text is not a number.
inline bool parse_number(std::string_view text, double* value) {
  const char *p = text.data(), *const end = p + text.size();
  const bool negative = p != end && *p == '-';
  if (p != end && (*p == '-' || *p == '+')) ++p;
  std::uint64_t digits = 0;
  int seen = 0, scale = 0;
  bool point = false;
  for (; p != end; ++p) {
    if (*p == '.' && !point) {
      point = true;
    } else if ('0' <= *p && *p <= '9') {
      ++seen;
      if (digits < std::uint64_t{1} << 59) {  // later digits are beyond the precision of a double
        digits = 10 * digits + static_cast<std::uint64_t>(*p - '0');
        scale -= point;
      } else {
        scale += !point;
      }
    } else {
      break;
    }
  }
  if (seen == 0) return false;
  if (p != end) {
    if (*p != 'e' && *p != 'E') return false;
    p += p + 1 != end && p[1] == '+' ? 2 : 1;
    int exponent = 0;
    const auto [stop, error] = std::from_chars(p, end, exponent);
    if (error != std::errc() || stop != end || exponent < -4000 || exponent > 4000) return false;
    scale += exponent;
  }
  const auto mantissa = static_cast<double>(digits);
  const double size = scale < 0 ? mantissa / std::pow(10.0, -scale) : mantissa * std::pow(10.0, scale);
  *value = negative ? -size : size;
  return std::isfinite(*value);
}

}  // namespace arpa_detail

class ArpaReader {
 public:
  void feed(std::string_view block) {
    PollEvery poll(1 << 10);  // per line
    while (!block.empty()) {
      poll.step();
      const auto* line_break = static_cast<const char*>(std::memchr(block.data(), '\n', block.size()));
      if (line_break == nullptr) {
        rest_.append(block);
        if (rest_.size() > kLongestLine) fail("the line is longer than a mebibyte");
        return;
      }
      const auto size = static_cast<std::size_t>(line_break - block.data());
      if (rest_.empty()) {
        line(block.substr(0, size));
      } else {
        rest_.append(block.substr(0, size));
        line(rest_);
        rest_.clear();
      }
      block.remove_prefix(size + 1);
    }
  }

  std::unique_ptr<NgramModel> finish() {
    if (!rest_.empty()) line(rest_);
    ++number_;
    if (section_ == kRemarks) fail("the file ends before \\data\\");
    if (section_ != kEnd) fail("the file ends before \\end\\");
    model_->finish();
    return std::move(model_);
  }

 private:
  // The section that is being read; section n > 0 has the n-grams of length n.
  static constexpr int kRemarks = -2, kData = -1, kEnd = 0;
  static constexpr std::size_t kLongestLine = 1 << 20;  // bytes

  [[noreturn]] void fail(const std::string& what) const {
    throw std::invalid_argument("line " + std::to_string(number_) + ": " + what);
  }

  void line(std::string_view text) {
    ++number_;
    if (text.size() > kLongestLine) fail("the line is longer than a mebibyte");
    if (std::memchr(text.data(), '\0', text.size()) != nullptr)
      fail("the line has a zero byte: not a text file");
    split(text);
    if (fields_.empty() || section_ == kEnd) return;  // text after \end\ is ignored
    if (section_ == kRemarks) {
      if (fields_.size() == 1 && fields_[0] == "\\data\\") section_ = kData;
    } else if (fields_[0].front() == '\\' && fields_.size() == 1) {
      heading(fields_[0]);
    } else if (section_ == kData) {
      declare();
    } else {
      entry();
    }
  }

  // Splits a line into fields_.
  void split(std::string_view text) {
    fields_.clear();
    const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
    for (std::size_t i = 0; i < text.size();) {
      while (i < text.size() && is_space(text[i])) ++i;
      const std::size_t begin = i;
      while (i < text.size() && !is_space(text[i])) ++i;
      if (i > begin) fields_.push_back(text.substr(begin, i - begin));
    }
  }

  // Parses a line such as "ngram 2=45", with or without spaces around the sign.
  void declare() {
    std::string joined;
    for (std::size_t i = 1; i < fields_.size(); ++i) joined += fields_[i];
    int length = 0;
    std::int64_t count = -1;
    const char* const end = joined.data() + joined.size();
    const auto [sign, error] = std::from_chars(joined.data(), end, length);
    const bool split = error == std::errc() && sign != end && *sign == '=';
    const auto stop = split ? std::from_chars(sign + 1, end, count).ptr : joined.data();
    if (fields_[0] != "ngram" || !split || stop != end || count < 0) {
      fail("must be like 'ngram 1=1000', not " + quoted(fields_[0]));
    }
    if (length != static_cast<int>(declared_.size()) + 1) {
      fail("the count of " + std::to_string(length) + "-grams is where that of " +
           std::to_string(declared_.size() + 1) + "-grams belongs");
    }
    if (length > NgramModel::kMaxOrder) fail("n-grams of more than 32 words");
    declared_.push_back(count);
  }

  // Parses a line such as "\2-grams:" or "\end\" (a heading).
  void heading(std::string_view text) {
    close_section();
    if (text == "\\end\\") {
      if (section_ != static_cast<int>(declared_.size())) {
        fail("\\end\\ before the " + std::to_string(section_ + 1) + "-grams");
      }
      section_ = kEnd;
      return;
    }
    const int next = section_ == kData ? 1 : section_ + 1;
    std::string expected_heading = "\\";
    expected_heading += std::to_string(next);
    expected_heading += "-grams:";
    if (text != expected_heading) fail("must be " + expected_heading + ", not " + quoted(text));
    if (next > static_cast<int>(declared_.size())) {
      fail(std::to_string(next) + "-grams, but \\data\\ has counts up to " +
           std::to_string(declared_.size()));
    }
    section_ = next;
    entries_ = 0;
  }

  // Checks the number of n-grams of the section that ends.
  void close_section() {
    if (section_ == kData) {
      if (declared_.empty()) fail("\\data\\ has no counts");
      return;
    }
    if (entries_ != declared_[section_ - 1]) {
      fail(std::to_string(entries_) + " " + std::to_string(section_) + "-grams, but \\data\\ says " +
           std::to_string(declared_[section_ - 1]));
    }
    if (section_ == 1 && entries_ == 0) fail("there are no words");
    if (section_ == 1) model_->end_unigrams();
  }

  // Parses a line with an n-gram.
  void entry() {
    const auto words = static_cast<std::size_t>(section_);
    if (fields_.size() != words + 1 && fields_.size() != words + 2) {
      fail("must have a number, " + std::to_string(words) + " words and perhaps a back-off, but has " +
           std::to_string(fields_.size()) + " fields");
    }
    const double log10 = number(fields_[0], "log10 of a probability");
    if (log10 > 0.0) fail("log10 of a probability is " + quoted(fields_[0]) + ": must not be above 0");
    const double backoff =
        fields_.size() == words + 2 ? number(fields_.back(), "log10 of a back-off weight") : 0.0;
    if (section_ == 1 && utf8_count(fields_[1]) < 0) fail("not UTF-8: " + quoted(fields_[1]));
    std::uint32_t ids[NgramModel::kMaxOrder];
    for (std::size_t i = 0; i < words; ++i) {
      ids[i] = section_ == 1 ? model_->add_word(fields_[i + 1]) : model_->find(fields_[i + 1]);
      if (ids[i] == kNone) fail(quoted(fields_[i + 1]) + " is not among the 1-grams");
    }
    if (!model_->add(ids, section_, static_cast<float>(log10), static_cast<float>(backoff))) {
      fail("this n-gram is repeated");
    }
    if (++entries_ > declared_[section_ - 1]) {
      fail("more " + std::to_string(section_) + "-grams than \\data\\ says, " +
           std::to_string(declared_[section_ - 1]));
    }
  }

  double number(std::string_view text, const char* what) const {
    double value;
    if (!arpa_detail::parse_number(text, &value)) fail(std::string(what) + " is " + quoted(text));
    return value;
  }

  std::unique_ptr<NgramModel> model_ = std::make_unique<NgramModel>();
  std::string rest_;                      // the beginning of a line that continues in the next block
  std::vector<std::string_view> fields_;  // the fields of the current line
  std::vector<std::int64_t> declared_;    // (order): the counts of the data section
  // The number of the current line, and the number of n-grams of the section so far.
  std::int64_t number_ = 0, entries_ = 0;
  int section_ = kRemarks;
};

}  // namespace trellis
