// The tokenizer of text corpora: text in blocks of any size, one to three threads, with and without a
// temporary file. Every word and line that is read back must have been counted.
#include <string>
#include <vector>

#include "embedding/corpus.hpp"
#include "fuzz_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return trellis::fuzz::run([&] {
    trellis::fuzz::Input input(data, size);
    const std::uint8_t options = input.byte();
    const std::size_t block = 1 + input.byte();
    // One case in 64 uses the temporary file, because creating a file takes long.
    trellis::Corpus corpus(options % 64 == 1 ? 3 : 1, (options & 4) != 0,
                           options % 64 == 2 ? 0 : 1 << 20);
    while (!input.empty()) {
      corpus.add_text(input.bytes(block));
      if ((options & 8) != 0) corpus.end_text();
    }
    corpus.finish();
    std::vector<std::int32_t> numbers(corpus.types().size());
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int32_t>(i) - 1;
    corpus.number(numbers);
    std::int64_t words = 0, lines = 0;
    for (const trellis::Corpus::Chunk& chunk : corpus.chunks()) {
      std::vector<std::int32_t> ids(static_cast<std::size_t>(chunk.count));
      corpus.read(chunk, ids.data());
      for (const std::int32_t id : ids) ++(id == trellis::Corpus::kLineEnd ? lines : words);
    }
    PROMISE(words == corpus.words());
    PROMISE(lines == corpus.lines());
    PROMISE(corpus.common_types(1, 0).size() == numbers.size());
  });
}
