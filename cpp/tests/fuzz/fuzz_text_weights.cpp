// Weights as text, with and without indices, into arrays of a limited size.
#include <cmath>
#include <vector>

#include "formats/text_weights.hpp"
#include "fuzz_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return trellis::fuzz::run([&] {
    trellis::fuzz::Input input(data, size);
    const bool indexed = input.byte() % 2 == 1;
    const std::size_t capacity = input.byte();
    std::vector<std::int64_t> index(capacity);
    std::vector<double> weight(capacity);
    trellis::TextWeightReader reader(indexed, index, weight);
    using Fault = trellis::TextWeightReader::Fault;
    std::string_view wrong;
    while (!input.empty()) {
      // The reader takes the end of a block as the end of a line.
      if (reader.feed(input.bytes(1 + input.byte()), &wrong) != Fault::none) break;
    }
    PROMISE(reader.kept() <= capacity);
    for (std::size_t i = 0; i < reader.kept(); ++i) {
      PROMISE(std::isfinite(weight[i]) && index[i] >= 0);
      PROMISE(i == 0 || index[i] > index[i - 1]);
    }
  });
}
