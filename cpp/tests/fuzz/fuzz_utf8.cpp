// Validation, counting and quoting of UTF-8: quoted text is valid.
#include <string>

#include "base/utf8.hpp"
#include "fuzz_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return trellis::fuzz::run([&] {
    trellis::fuzz::Input input(data, size);
    const int max_count = input.byte();
    const std::string_view text = input.rest();
    const std::int64_t count = trellis::utf8_count(text);
    PROMISE(count >= -1 && count <= static_cast<std::int64_t>(text.size()));
    const std::string quoted = trellis::quoted(text, max_count);
    const std::int64_t shown = trellis::utf8_count(quoted);
    PROMISE(shown >= 2 && shown <= max_count + 3);
  });
}
