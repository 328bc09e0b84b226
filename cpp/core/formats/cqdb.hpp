// The dictionary in CRFsuite's model files (CQDB): strings, numbered from 0, in 256 hash tables.
//
//     header (24 bytes) | 256 x (table offset, slots) | records | tables | offset of each record
//
// A record is (number, size with NUL, string, NUL). Table h mod 256 of hash h has two slots, (hash,
// record offset), per string; a string is in the first free slot from (h >> 8) mod slots on. All
// integers are uint32, little-endian; offsets count from the header.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace trellis::cqdb {

inline std::uint32_t rotate(std::uint32_t x, int k) { return x << k | x >> (32 - k); }

// Returns the hash of a string and its terminating NUL: Bob Jenkins' lookup3, hashlittle() with seed 0.
inline std::uint32_t hash(std::string_view s) {
  std::size_t bytes_left = s.size() + 1;
  std::uint32_t a = 0xdeadbeef + static_cast<std::uint32_t>(bytes_left), b = a, c = a;
  const char* p = s.data();
  const auto mix_block = [&](std::size_t count) {
    unsigned char block[12] = {};  // bytes past the string are 0, like its NUL
    const std::size_t size = std::min(count, static_cast<std::size_t>(s.data() + s.size() - p));
    if (size > 0) std::memcpy(block, p, size);
    const auto word = [&](int k) {
      return block[k] | std::uint32_t{block[k + 1]} << 8 | std::uint32_t{block[k + 2]} << 16 |
             std::uint32_t{block[k + 3]} << 24;
    };
    a += word(0);
    b += word(4);
    c += word(8);
    p += size;
    bytes_left -= count;
  };
  while (bytes_left > 12) {
    mix_block(12);
    a = (a - c) ^ rotate(c, 4), c += b;
    b = (b - a) ^ rotate(a, 6), a += c;
    c = (c - b) ^ rotate(b, 8), b += a;
    a = (a - c) ^ rotate(c, 16), c += b;
    b = (b - a) ^ rotate(a, 19), a += c;
    c = (c - b) ^ rotate(b, 4), b += a;
  }
  mix_block(bytes_left);
  c = (c ^ b) - rotate(b, 14);
  a = (a ^ c) - rotate(c, 11);
  b = (b ^ a) - rotate(a, 25);
  c = (c ^ b) - rotate(b, 16);
  a = (a ^ c) - rotate(c, 4);
  b = (b ^ a) - rotate(a, 14);
  return (c ^ b) - rotate(b, 24);
}

inline constexpr std::size_t kTables = 256, kHeader = 24, kData = kHeader + 8 * kTables;

class Writer {
 public:
  Writer() : tables_(kTables) { bytes_.resize(kData); }

  // Adds a string; strings get the numbers 0, 1, 2 ...
  void add(std::string_view s) {
    const std::uint32_t offset = place(), h = hash(s);
    append(static_cast<std::uint32_t>(records_.size()));
    append(static_cast<std::uint32_t>(s.size() + 1));
    bytes_.insert(bytes_.end(), s.begin(), s.end());
    bytes_.push_back(0);
    tables_[h % kTables].push_back({h, offset});
    records_.push_back(offset);
  }

  std::vector<std::uint8_t> finish() {
    std::uint32_t at = kHeader;
    for (const std::vector<Slot>& table : tables_) {
      const auto slots = static_cast<std::uint32_t>(2 * table.size());
      set(at, slots == 0 ? 0 : place());
      set(at + 4, slots);
      at += 8;
      append(table);
    }
    const std::uint32_t backward = records_.empty() ? 0 : place();
    for (const std::uint32_t offset : records_) append(offset);
    std::memcpy(bytes_.data(), "CQDB", 4);
    set(4, place());
    set(8, 0);            // flags
    set(12, 0x62445371);  // a magic number that shows the byte order
    set(16, static_cast<std::uint32_t>(records_.size()));
    set(20, backward);
    return std::move(bytes_);
  }

 private:
  struct Slot {
    std::uint32_t hash, offset;
  };

  // Returns the current offset.
  std::uint32_t place() const {
    if (bytes_.size() > 0xffffffff) throw std::length_error("the names need 4 GiB or more");
    return static_cast<std::uint32_t>(bytes_.size());
  }
  void set(std::size_t at, std::uint32_t value) {
    for (int k = 0; k < 4; ++k) bytes_[at + k] = static_cast<std::uint8_t>(value >> 8 * k);
  }
  void append(std::uint32_t value) {
    bytes_.resize(bytes_.size() + 4);
    set(bytes_.size() - 4, value);
  }
  void append(const std::vector<Slot>& table) {
    std::vector<Slot> slots(2 * table.size(), Slot{0, 0});
    // Links that skip used slots: a free slot points to itself, a used slot to a later one. Links are
    // shortened when they are followed, so a search takes few steps even if all names have the same
    // hash. (The format fixes the hash function.)
    std::vector<std::size_t> next(slots.size());
    std::iota(next.begin(), next.end(), std::size_t{0});
    for (const Slot& entry : table) {
      std::size_t k = (entry.hash >> 8) % slots.size();
      while (next[k] != k) k = next[k] = next[next[k]];
      slots[k] = entry;
      next[k] = (k + 1) % slots.size();
    }
    for (const Slot& slot : slots) {
      append(slot.hash);
      append(slot.offset);
    }
  }

  std::vector<std::uint8_t> bytes_;        // the file
  std::vector<std::vector<Slot>> tables_;  // (256)
  std::vector<std::uint32_t> records_;     // (strings): offsets
};

}  // namespace trellis::cqdb
