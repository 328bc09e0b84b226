// Tests that a corpus releases the memory of text that it has moved to the temporary file.
#include <atomic>
#include <cstdlib>
#include <new>
#include <string>

#include "embedding/corpus.hpp"
#include "tests/check.hpp"

#if defined(__GLIBC__)
#include <malloc.h>

namespace {
std::atomic<std::int64_t> live_bytes{0};
}

void* operator new(std::size_t size) {
  void* memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  live_bytes += static_cast<std::int64_t>(malloc_usable_size(memory));
  return memory;
}

void operator delete(void* memory) noexcept {
  if (memory != nullptr) live_bytes -= static_cast<std::int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }

namespace {

// Returns the bytes that a corpus of 2,000,000 words occupies before and after finish().
std::pair<std::int64_t, std::int64_t> occupied_bytes(std::int64_t memory, const std::string& text) {
  const std::int64_t before = live_bytes;
  trellis::Corpus corpus(1, false, memory);
  for (int i = 0; i < 10; ++i) corpus.add_text(text);
  const std::int64_t added = live_bytes - before;
  corpus.finish();
  CHECK(corpus.words() == 2'000'000);
  return {added, live_bytes - before};
}

void test_released_memory() {
  std::string text;
  for (int i = 0; i < 200'000; ++i) {
    text += static_cast<char>('a' + i % 23);
    text += i % 20 == 19 ? '\n' : ' ';
  }
  const auto [stored, stored_finished] = occupied_bytes(std::int64_t{1} << 25, text);
  const auto [spilled, spilled_finished] = occupied_bytes(0, text);
  constexpr std::int64_t kWords = 8'000'000;  // bytes: 2,000,000 words of 4 bytes
  // The corpus keeps up to one block of text that it has not parsed yet.
  CHECK(stored > kWords / 4);
  CHECK(stored_finished >= kWords);
  CHECK(spilled_finished < kWords / 4);
  CHECK(spilled < stored_finished);
}

}  // namespace

int main() {
  test_released_memory();
  return failures() != 0;
}
#else
int main() { return 0; }
#endif
