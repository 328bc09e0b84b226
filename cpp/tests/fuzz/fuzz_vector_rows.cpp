// Rows of word vectors, as text and as raw floats.
#include <charconv>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "formats/word_vector_rows.hpp"
#include "fuzz_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return trellis::fuzz::run([&] {
    trellis::fuzz::Input input(data, size);
    const bool text = input.byte() % 2 == 1;
    const std::int64_t dim = 1 + input.byte() % 9, capacity = input.byte() % 9;
    std::vector<float> out(static_cast<std::size_t>(dim * capacity));
    const std::string_view block = input.rest();
    const trellis::VectorRows rows = text ? trellis::text_rows(block, dim, capacity, out.data())
                                          : trellis::binary_rows(block, dim, capacity, out.data());
    const auto bytes = static_cast<std::int64_t>(block.size());
    PROMISE(0 <= rows.consumed && rows.consumed <= bytes);
    PROMISE(rows.words.size() % 2 == 0 && static_cast<std::int64_t>(rows.words.size()) <= 2 * capacity);
    for (std::size_t i = 0; i < rows.words.size(); i += 2) {
      PROMISE(0 <= rows.words[i] && rows.words[i] <= rows.words[i + 1] && rows.words[i + 1] <= bytes);
    }
  });
}
