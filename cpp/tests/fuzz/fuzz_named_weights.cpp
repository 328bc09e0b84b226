// Numbered weights of foreign models, split into weights of labels and of label pairs.
#include <vector>

#include "formats/named_weights.hpp"
#include "fuzz_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return trellis::fuzz::run([&] {
    trellis::fuzz::Input input(data, size);
    const std::int64_t labels = 1 + input.byte() % 20;
    std::vector<std::int64_t> begin{0}, number;
    std::vector<std::uint8_t> states, bare;
    while (!input.empty()) {
      const std::uint8_t kind = input.byte();
      states.push_back(kind & 1);
      bare.push_back(kind >> 1 & 1);
      const std::int64_t max_names = labels + labels * labels, first = begin.back();
      begin.push_back(first + (input.byte() * std::int64_t{2}) % (max_names + 1));
      for (std::int64_t n = first; n < begin.back(); n += 1 + kind % 5) number.push_back(n);
    }
    std::vector<double> weight(number.size());
    for (std::size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<double>(i);
    const auto parts = trellis::split_weights(
        {.begin = begin, .states = states, .bare = bare, .labels = labels}, number, weight);
    PROMISE(parts.states.cell.size() + parts.edges.cell.size() + parts.pair.size() == number.size());
    for (const std::uint16_t cell : parts.states.cell) PROMISE(cell < labels);
  });
}
