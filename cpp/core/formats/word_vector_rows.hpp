// Rows of word vectors in files: "word 0.1 -2e-3 …\n" as text, or "word " and raw floats.
//
// text_rows() and binary_rows() read complete rows from a block of bytes. An incomplete row at the end
// of the block is not consumed: it may continue in the next block.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/poll.hpp"

namespace trellis {

struct VectorRows {
  std::vector<std::int64_t> words;  // (2 * rows): begin and end of each row's word in the block
  std::int64_t consumed = 0;        // bytes of the block
  const char* wrong = nullptr;      // the problem with the next row, or null
};

inline constexpr std::int64_t kLongestWord = 1 << 16;  // bytes

// Parses a number that is followed by a space or the end; returns its end, or null.
inline const char* parse_number(const char* at, const char* end, float* out) {
  double value;
  if (at != end && *at == '+') ++at;
  const auto [rest, error] = std::from_chars(at, end, value);
  // from_chars does not tell overflow from underflow, but strtod returns infinity or a number near 0.
  if (error == std::errc::result_out_of_range) {
    value = std::strtod(std::string(at, rest).c_str(), nullptr);
  } else if (error != std::errc{}) {
    return nullptr;
  }
  if (rest != end && *rest != ' ') return nullptr;
  *out = static_cast<float>(value);
  return rest;
}

// Parses a line: the last `dim` fields are numbers, the text before them is the word and may have
// spaces.
inline const char* parse_line(std::string_view line, std::int64_t dim, float* out,
                              std::int64_t* word_size) {
  std::size_t at = line.size();
  for (std::int64_t d = 0; d < dim; ++d) {
    at = at == 0 ? std::string_view::npos : line.rfind(' ', at - 1);
    if (at == std::string_view::npos) return "too few numbers";
  }
  *word_size = static_cast<std::int64_t>(at);
  const char* p = line.data() + at;
  const char* const end = line.data() + line.size();
  for (std::int64_t d = 0; d < dim; ++d) {
    p = parse_number(p + 1, end, out + d);
    if (p == nullptr) return "a field that is not a number";
  }
  return p == end ? nullptr : "a field that is not a number";
}

// Reads at most `capacity` rows of text; `out` is (capacity, dim).
inline VectorRows text_rows(std::string_view block, std::int64_t dim, std::int64_t capacity,
                            float* out) {
  VectorRows rows;
  std::size_t at = 0;
  PollEvery poll(64 * dim);
  for (std::int64_t row = 0;;) {
    poll.step();
    const std::size_t stop = block.find('\n', at);
    if (stop == std::string_view::npos) break;
    std::string_view line = block.substr(at, stop - at);
    while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.remove_suffix(1);
    if (!line.empty()) {
      if (row == capacity) break;
      std::int64_t word = 0;
      rows.wrong = parse_line(line, dim, out + row * dim, &word);
      if (rows.wrong != nullptr) break;
      rows.words.push_back(static_cast<std::int64_t>(at));
      rows.words.push_back(static_cast<std::int64_t>(at) + word);
      ++row;
    }
    at = stop + 1;
  }
  rows.consumed = static_cast<std::int64_t>(at);
  return rows;
}

// Reads at most `capacity` rows of floats. A line break between two rows belongs to the first row.
inline VectorRows binary_rows(std::string_view block, std::int64_t dim, std::int64_t capacity,
                              float* out) {
  VectorRows rows;
  const std::size_t bytes = static_cast<std::size_t>(dim) * sizeof(float);
  std::size_t at = 0;
  PollEvery poll(256 + dim);
  for (std::int64_t row = 0;; ++row) {
    poll.step();
    if (at < block.size() && block[at] == '\n') ++at;
    rows.consumed = static_cast<std::int64_t>(at);
    if (row == capacity) break;
    const std::string_view beginning = block.substr(at, static_cast<std::size_t>(kLongestWord) + 1);
    const std::size_t space = beginning.find(' ');
    if (space == std::string_view::npos) {
      if (beginning.size() > static_cast<std::size_t>(kLongestWord))
        rows.wrong = "a word without an end";
      break;
    }
    if (block.size() - at - space - 1 < bytes) break;
    std::memcpy(out + row * dim, block.data() + at + space + 1, bytes);
    rows.words.push_back(static_cast<std::int64_t>(at));
    rows.words.push_back(static_cast<std::int64_t>(at + space));
    at += space + 1 + bytes;
  }
  return rows;
}

}  // namespace trellis
