// Hashes of strings and of integer keys. They depend on secret numbers that each process draws once.
//
// Whoever can choose the keys of a table, such as the words of a text or of a model file, could choose
// keys with equal hashes, and each lookup would then compare all of them. Without the secret numbers
// such keys cannot be computed. No file, order or result depends on a hash: tables number their entries
// in the order of insertion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>

namespace trellis {

// Returns the 128-bit product of a and b, folded to 64 bits by exclusive or.
inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

// Odd constants with well-mixed bits: 2^64 / golden ratio, and one of SplitMix's.
inline constexpr std::uint64_t kMixA = 0x9e3779b97f4a7c15, kMixB = 0xd1b54a32d192ed03;

// The secret numbers. Each operand of a product is masked by one of them: a caller who knew an operand
// could make it 0, and the product would lose the other operand.
struct HashKeys {
  std::uint64_t left, right, inner, outer;
};

// Returns keys for tests: the text of a seed, mixed as in SplitMix.
inline HashKeys hash_keys_of(const char* seed) {
  std::uint64_t state = 0;
  for (; *seed != '\0'; ++seed) state = mix(state + kMixA + static_cast<unsigned char>(*seed), kMixB);
  const auto next = [&state] { return mix(state += kMixA, kMixB); };
  const std::uint64_t left = next(), right = next(), inner = next(), outer = next();
  return {left, right, inner, outer};
}

// Draws keys from the operating system, unless the environment variable TRELLIS_HASH_SEED is set.
inline HashKeys draw_hash_keys() {
  const char* seed = std::getenv("TRELLIS_HASH_SEED");
  if (seed != nullptr && *seed != '\0') return hash_keys_of(seed);
  std::random_device device;
  const auto next = [&device] { return std::uint64_t{device()} << 32 | device(); };
  const std::uint64_t left = next(), right = next(), inner = next(), outer = next();
  return {left, right, inner, outer};
}

// A global variable: a static variable in a function would be checked for initialisation at each call.
inline const HashKeys process_hash_keys = draw_hash_keys();

// Returns the hash of n bytes at p.
inline std::uint64_t hash_bytes(const char* p, std::size_t n, const HashKeys& keys = process_hash_keys) {
  const auto read8 = [](const char* from) {
    std::uint64_t word;
    std::memcpy(&word, from, 8);
    return word;
  };
  const auto read4 = [](const char* from) {
    std::uint32_t word;
    std::memcpy(&word, from, 4);
    return std::uint64_t{word};
  };
  std::uint64_t a = 0, b = 0, h = keys.right;
  // The words of short strings overlap, so that no byte is read in a loop. The size is hashed too, so
  // two strings of different sizes with the same words differ.
  if (n >= 8) {
    const char* const last = p + n - 8;
    for (; last - p > 8; p += 16) h = mix(read8(p) ^ keys.left, read8(p + 8) ^ h);
    a = read8(last - p > 0 ? p : last);
    b = read8(last);
  } else if (n >= 4) {
    a = read4(p);
    b = read4(p + n - 4);
  } else if (n > 0) {  // the pointer of an empty string may be null
    const auto byte = [p](std::size_t i) { return std::uint64_t{static_cast<unsigned char>(p[i])}; };
    a = byte(0) << 16 | byte(n / 2) << 8 | byte(n - 1);
  }
  return mix(mix(a ^ keys.left, b ^ h) ^ keys.inner, keys.outer ^ n);
}

// Returns the hash of `size` integers. Keys of different sizes belong in different tables.
inline std::uint64_t hash_key(const std::uint32_t* key, int size,
                              const HashKeys& keys = process_hash_keys) {
  // One product per pair, and no branch on the size before it: learning attributes was 20 % slower with
  // the scheme of hash_bytes, because templates look up keys right after they have stored them.
  std::uint64_t h = keys.left;
  int i = 0;
  for (; i + 2 <= size; i += 2) h = mix(h ^ (key[i] | std::uint64_t{key[i + 1]} << 32), keys.right);
  if (i < size) h = mix(h ^ key[i], keys.right);
  return h ^ h >> 29;  // the low bits select the slot, so mix high bits into them
}

}  // namespace trellis
