// Names of attributes: every reading must spell the name again.
#include <string>
#include <vector>

#include "features/name_parser.hpp"
#include "fuzz_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return trellis::fuzz::run([&] {
    trellis::fuzz::Input input(data, size);
    std::vector<trellis::NameParser::Literals> literals(1 + input.byte() % 4);
    std::vector<std::uint32_t> numbers;
    for (auto& parts : literals) {
      for (int count = input.byte() % 6; count >= 0; --count) {
        // A template has text between two values; only the first and the last literal may be empty.
        const std::string_view part = input.string().substr(0, 8);
        parts.emplace_back(part.empty() && !parts.empty() ? "/" : part);
      }
      numbers.push_back(input.byte() % 5);
    }
    trellis::NameParser parser(literals, numbers);
    while (!input.empty()) {
      const std::string name(input.string());
      parser.for_each_reading(name, [&](std::uint32_t n, const std::vector<std::string_view>& values) {
        std::string spelt = literals[n][0];
        for (std::size_t i = 0; i < values.size(); ++i)
          spelt.append(values[i]).append(literals[n][i + 1]);
        PROMISE(spelt == name);
      });
      trellis::NameParser::quoted(name);
    }
  });
}
