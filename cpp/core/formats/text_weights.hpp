// Reads weights as text, one per line: `number` or `index=number`, decimal or hexadecimal as in C.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/poll.hpp"

namespace trellis {

// Parses one finite number. Returns false if the text is not one.
inline bool read_weight(std::string_view text, double* value) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const bool hexadecimal = text.starts_with("0x");
  if (hexadecimal) text.remove_prefix(2);
  if (text.empty() || text[0] == '-') return false;
  const char* end = text.data() + text.size();
  const auto format = hexadecimal ? std::chars_format::hex : std::chars_format::general;
  const auto [stop, error] = std::from_chars(text.data(), end, *value, format);
  if (error != std::errc() || stop != end || !std::isfinite(*value)) return false;
  if (negative) *value = -*value;
  return true;
}

// Reads block after block of lines. Weights that are 0 are counted but not stored.
class TextWeightReader {
 public:
  TextWeightReader(bool indexed, std::span<std::int64_t> index, std::span<double> weight)
      : indexed_(indexed), index_(index), weight_(weight) {}

  enum class Fault { none, text, order, capacity };  // not a weight; index not ascending; arrays full

  // Reads a block, which must end with a complete line. After a fault, *wrong is the line.
  Fault feed(std::string_view block, std::string_view* wrong) {
    PollEvery poll(64);  // per line
    while (!block.empty()) {
      poll.step();
      std::string_view line = block.substr(0, block.find('\n'));
      block.remove_prefix(std::min(line.size() + 1, block.size()));
      *wrong = line;
      std::int64_t index = lines_;
      if (indexed_) {
        const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), index);
        const auto used = static_cast<std::size_t>(stop - line.data());
        if (error != std::errc() || used >= line.size() || *stop != '=' || index < 0) return Fault::text;
        line.remove_prefix(used + 1);
        if (index <= last_) return Fault::order;
        last_ = index;
      }
      double value;
      if (!read_weight(line, &value)) return Fault::text;
      ++lines_;
      if (value == 0.0) continue;
      if (kept_ == weight_.size()) return Fault::capacity;
      index_[kept_] = index;
      weight_[kept_++] = value;
    }
    return Fault::none;
  }

  std::int64_t lines() const { return lines_; }
  std::size_t kept() const { return kept_; }

 private:
  const bool indexed_;
  const std::span<std::int64_t> index_;  // (capacity)
  const std::span<double> weight_;       // (capacity)
  std::int64_t lines_ = 0, last_ = -1;
  std::size_t kept_ = 0;
};

}  // namespace trellis
