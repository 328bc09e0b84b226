// Takes the numbers and strings that a fuzz driver needs from the bytes of a case.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

// Aborts unless the condition holds. Unlike assert, it does not depend on NDEBUG.
#define PROMISE(condition)                                                               \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                      \
    }                                                                                    \
  } while (false)

namespace trellis::fuzz {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : text_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return text_.empty(); }

  // Returns the next byte, or 0 at the end.
  std::uint8_t byte() {
    if (text_.empty()) return 0;
    const auto value = static_cast<std::uint8_t>(text_.front());
    text_.remove_prefix(1);
    return value;
  }

  // Returns at most `size` bytes.
  std::string_view bytes(std::size_t size) {
    const std::string_view piece = text_.substr(0, size);
    text_.remove_prefix(piece.size());
    return piece;
  }

  // Returns a string whose length is the next byte.
  std::string_view string() { return bytes(byte()); }

  std::string_view rest() { return bytes(text_.size()); }

 private:
  std::string_view text_;
};

// Calls a parser. Exceptions that report an invalid input are expected; all others are findings.
template <class Parse>
int run(const Parse& parse) {
  try {
    parse();
  } catch (const std::invalid_argument&) {
  } catch (const std::length_error&) {
  }
  return 0;
}

}  // namespace trellis::fuzz
