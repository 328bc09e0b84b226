// Language models in the ARPA format, read in blocks of any size; then two words are looked up.
#include <string>

#include "formats/arpa.hpp"
#include "fuzz_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return trellis::fuzz::run([&] {
    trellis::fuzz::Input input(data, size);
    const std::size_t block = 1 + input.byte();
    trellis::ArpaReader reader;
    while (!input.empty()) reader.feed(input.bytes(block));
    const auto model = reader.finish();
    PROMISE(model != nullptr);
    PROMISE(model->find("blue") != model->find("sky") || model->find("sky") == trellis::kNone);
  });
}
