// The tokens and rows of a text in a fastText model: every row is below rows().
#include <string>
#include <utility>
#include <vector>

#include "embedding/text_dictionary.hpp"
#include "fuzz_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return trellis::fuzz::run([&] {
    trellis::fuzz::Input input(data, size);
    const std::uint8_t options = input.byte();
    trellis::TextSettings settings;
    settings.minn = options % 4;
    settings.maxn = options / 4 % 8;
    settings.word_ngrams = 1 + options / 32 % 4;
    settings.bucket = input.byte();
    trellis::StringTable words, labels;
    for (int n = input.byte() % 8; n > 0; --n) words.intern(input.string());
    for (int n = input.byte() % 4; n > 0; --n) labels.intern(input.string());
    trellis::TextDictionary dictionary(std::move(words), std::move(labels), settings);
    if ((options & 128) != 0) {
      std::vector<std::uint32_t> kept;
      for (int n = input.byte() % 8; n > 0; --n) kept.push_back(input.byte());
      dictionary.prune(kept);
    }
    const std::string_view prefix = input.string().substr(0, 10);
    const std::string line(input.rest());
    std::vector<std::string_view> tokens;
    dictionary.split(
        line, prefix, [&](std::string_view token) { tokens.push_back(token); },
        [&](std::uint32_t label) { PROMISE(label < dictionary.labels()); });
    trellis::TextDictionary::Scratch scratch;
    dictionary.for_each_row(tokens.data(), tokens.size(), scratch,
                            [&](std::int64_t row) { PROMISE(0 <= row && row < dictionary.rows()); });
  });
}
