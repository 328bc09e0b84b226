// Validation, counting and quoting of UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace trellis {

// Returns the number of bytes of the first code point of `text`; 0 if it is not valid or `text` is
// empty.
inline int utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const int length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (length == 0 || text.size() < static_cast<std::size_t>(length)) return 0;
  for (int i = 1; i < length; ++i) {
    if ((byte(static_cast<std::size_t>(i)) & 0xc0) != 0x80) return 0;
  }
  // Overlong encodings, surrogates, and code points above U+10FFFF are not valid.
  if (first == 0xe0 && byte(1) < 0xa0) return 0;
  if (first == 0xed && byte(1) >= 0xa0) return 0;
  if (first == 0xf0 && byte(1) < 0x90) return 0;
  if (first == 0xf4 && byte(1) >= 0x90) return 0;
  return length;
}

// Returns the number of code points, or -1 if the text is not valid UTF-8.
inline std::int64_t utf8_count(std::string_view text) {
  std::int64_t count = 0;
  for (; !text.empty(); ++count) {
    const int length = utf8_length(text);
    if (length == 0) return -1;
    text.remove_prefix(static_cast<std::size_t>(length));
  }
  return count;
}

// Returns the text in quotes, for an error message. Invalid bytes become '?', and long texts are
// truncated.
inline std::string quoted(std::string_view text, int max_points = 80) {
  std::string out = "'";
  for (int count = 0; !text.empty(); ++count) {
    if (count == max_points) {
      out += "\xe2\x80\xa6";  // …
      break;
    }
    const int length = utf8_length(text);
    if (length == 0) {
      out += '?';
      text.remove_prefix(1);
      continue;
    }
    out += text.substr(0, static_cast<std::size_t>(length));
    text.remove_prefix(static_cast<std::size_t>(length));
  }
  return out + "'";
}

}  // namespace trellis
