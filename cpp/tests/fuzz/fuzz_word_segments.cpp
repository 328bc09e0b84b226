// Tokens and word boundaries of any code points: they are in order, complete, and the same for all
// widths.
#include <algorithm>
#include <cstring>
#include <vector>

#include "fuzz_input.hpp"
#include "text/word_segments.hpp"

namespace {

using trellis::WordClassTable;

bool is_white(std::uint32_t point) {
  const WordClassTable& table = WordClassTable::tokens();
  return table.entry(point) == static_cast<std::uint8_t>(trellis::WordClass::kNewline);
}

// Returns the begin and end of all tokens, then the ends of all segments. The copy of the text ends
// where the memory ends, so that a sanitizer reports any access past it.
template <class Point>
std::vector<std::size_t> boundaries(const std::vector<std::uint32_t>& points) {
  const std::vector<Point> text(points.begin(), points.end());
  std::vector<std::size_t> out;
  std::size_t before = 0;
  const auto skip_white = [&](std::size_t end) {
    for (; before < end; ++before) PROMISE(is_white(points[before]));
  };
  trellis::WordSegments tokens(text.data(), text.size(), WordClassTable::tokens());
  tokens.for_each_token([&](std::size_t begin, std::size_t end) {
    PROMISE(before <= begin && begin < end && end <= text.size());
    skip_white(begin);
    PROMISE(std::none_of(points.begin() + begin, points.begin() + end, is_white));
    out.insert(out.end(), {begin, before = end});
  });
  skip_white(text.size());
  before = 0;
  trellis::WordSegments segments(text.data(), text.size(), WordClassTable::standard());
  segments.for_each_segment([&](std::size_t end) {
    PROMISE(before < end && end <= text.size());
    out.push_back(before = end);
  });
  PROMISE(before == text.size());
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return trellis::fuzz::run([&] {
    trellis::fuzz::Input input(data, size);
    const int width = 1 << input.byte() % 3;
    const std::string_view bytes = input.rest();
    std::vector<std::uint32_t> points(bytes.size() / width);
    for (std::size_t i = 0; i < points.size(); ++i)
      std::memcpy(&points[i], bytes.data() + i * width, width);  // low bytes first
    const std::vector<std::size_t> wide = boundaries<std::uint32_t>(points);
    if (width <= 2) PROMISE(boundaries<std::uint16_t>(points) == wide);
    if (width == 1) PROMISE(boundaries<std::uint8_t>(points) == wide);
  });
}
