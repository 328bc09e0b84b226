// The few questions that are asked about UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace trellis {

// The bytes of the code point that `text` begins with; 0 if they are not valid, or there are none.
inline int utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto at = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t first = at(0);
  if (first < 0x80) return 1;
  const int length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (length == 0 || text.size() < static_cast<std::size_t>(length)) return 0;
  for (int i = 1; i < length; ++i) {
    if ((at(static_cast<std::size_t>(i)) & 0xc0) != 0x80) return 0;
  }
  // too long for what they say, surrogates, beyond the last code point
  if (first == 0xe0 && at(1) < 0xa0) return 0;
  if (first == 0xed && at(1) >= 0xa0) return 0;
  if (first == 0xf0 && at(1) < 0x90) return 0;
  if (first == 0xf4 && at(1) >= 0x90) return 0;
  return length;
}

// How many code points; -1 if it is not UTF-8.
inline std::int64_t utf8_count(std::string_view text) {
  std::int64_t count = 0;
  for (; !text.empty(); ++count) {
    const int length = utf8_length(text);
    if (length == 0) return -1;
    text.remove_prefix(static_cast<std::size_t>(length));
  }
  return count;
}

// As an error quotes it: valid whatever the bytes are, and cut where it is long.
inline std::string quoted(std::string_view text, int most = 80) {
  std::string out = "'";
  for (int count = 0; !text.empty(); ++count) {
    if (count == most) {
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
