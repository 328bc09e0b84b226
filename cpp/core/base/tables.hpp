// Hash tables that assign consecutive numbers to strings, or to short keys of integers.
//
// Entries are never removed. Numbers count from 0 in the order of insertion. A slot stores half of the
// hash, so that most unequal entries are rejected without reading them. Slots can be prefetched.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "base/aligned.hpp"
#include "base/keyed_hash.hpp"
#include "base/poll.hpp"

namespace trellis {

inline constexpr std::uint32_t kNone = 0xffffffff;  // the number that stands for "no entry"

// The slots of a table with open addressing. The owner stores the entries and compares them.
class Slots {
 public:
  std::uint32_t size() const { return size_; }

  void prefetch(std::uint64_t hash) const {
    if (!slots_.empty()) __builtin_prefetch(slots_.data() + (hash & mask_));
  }

  // Returns the number of the entry with this hash for which same(number) is true, or kNone.
  template <class Same>
  std::uint32_t find(std::uint64_t hash, const Same& same) const {
    if (slots_.empty()) return kNone;
    for (std::size_t i = hash & mask_;; i = (i + 1) & mask_) {
      const std::uint64_t slot = slots_[i];
      if (slot == 0) return kNone;
      const auto id = static_cast<std::uint32_t>(slot) - 1;
      if (slot >> 32 == hash >> 32 && same(id)) return id;
    }
  }

  // Returns the first entry that find() would compare, or kNone. Callers prefetch it, because it is most
  // likely the right one.
  std::uint32_t likely_entry(std::uint64_t hash) const {
    if (slots_.empty()) return kNone;
    for (std::size_t i = hash & mask_;; i = (i + 1) & mask_) {
      if (slots_[i] == 0) return kNone;
      if (slots_[i] >> 32 == hash >> 32) return static_cast<std::uint32_t>(slots_[i]) - 1;
    }
  }

  // Returns the length of the longest run of used slots. No lookup probes more slots than that plus one.
  std::size_t longest_run() const {
    std::size_t longest = 0, run = 0;
    for (std::size_t i = 0; i < 2 * slots_.size(); ++i) {  // twice, for a run across the end
      run = slots_[i & mask_] != 0 ? run + 1 : 0;
      longest = std::max(longest, run);
    }
    return longest;
  }

  // Allocates memory for `entries` entries, so that a table that will be large is not rehashed while it
  // grows.
  template <class HashOf>
  void reserve(std::size_t entries, const HashOf& hash_of) {
    if (slots_.size() >= 2 * entries) return;
    std::size_t size = kFirstSlots;
    while (size < 2 * entries) size *= 2;
    resize(size, hash_of);
  }

  // Adds an entry that find() did not return, and returns its number.
  template <class HashOf>
  std::uint32_t insert(std::uint64_t hash, const HashOf& hash_of) {
    constexpr std::uint32_t kMaxEntries = kNone - 2;  // kNone and number + 1 must fit in 32 bits
    if (size_ >= kMaxEntries) throw std::length_error("a table has more than 2^32 entries");
    // A table is at most half full, so that few slots are probed per lookup.
    if (2 * (std::size_t{size_} + 1) > slots_.size()) {
      resize(slots_.empty() ? kFirstSlots : 2 * slots_.size(), hash_of);
    }
    place(hash, size_);
    return size_++;
  }

 private:
  static constexpr std::size_t kFirstSlots = 64;  // a power of two, like every later size

  template <class HashOf>
  void resize(std::size_t size, const HashOf& hash_of) {
    slots_.assign(size, 0);
    mask_ = size - 1;
    for (std::uint32_t id = 0; id < size_; ++id) place(hash_of(id), id);
  }

  void place(std::uint64_t hash, std::uint32_t id) {
    std::size_t i = hash & mask_;
    while (slots_[i] != 0) i = (i + 1) & mask_;
    slots_[i] = (hash >> 32 << 32) | (std::uint64_t{id} + 1);
  }

  // The number of slots is a power of two. A slot holds the upper half of the hash and the entry's
  // number + 1; 0 marks a free slot.
  std::vector<std::uint64_t, TableAllocator<std::uint64_t>> slots_;
  std::size_t mask_ = 0;
  std::uint32_t size_ = 0;
};

// Numbers strings; their bytes are stored one after the other.
class StringTable {
 public:
  std::uint32_t size() const { return slots_.size(); }
  std::size_t longest_run() const { return slots_.longest_run(); }
  std::string_view string(std::uint32_t id) const {
    return {bytes_.data() + ends_[id], static_cast<std::size_t>(ends_[id + 1] - ends_[id])};
  }
  const std::vector<char>& bytes() const { return bytes_; }
  // (size + 1): string i is bytes [ends[i], ends[i + 1])
  const std::vector<std::int64_t>& ends() const { return ends_; }

  std::uint32_t find(std::string_view s) const { return find(s, hash_bytes(s.data(), s.size())); }
  std::uint32_t find(std::string_view s, std::uint64_t hash) const {
    return slots_.find(hash, [&](std::uint32_t id) { return string(id) == s; });
  }
  void prefetch(std::uint64_t hash) const { slots_.prefetch(hash); }

  // Looks up strings [first, first + count) of `text`, where string i ends at end[i]. Writes their
  // numbers to id[i], kNone for unknown strings. Strings are processed in small groups: first all slots
  // of the group are prefetched, then all ends, then all bytes, so that the cache misses overlap.
  void find_all(const char* text, const std::uint32_t* end, std::int64_t first, std::int64_t count,
                std::uint32_t* id) const {
    constexpr std::int64_t kFew = 16;  // strings per group; chosen by hand
    std::uint64_t hash[kFew];
    PollEvery poll(256 * kFew);
    for (std::int64_t begin = first; begin < first + count; begin += kFew) {
      poll.step();
      const std::int64_t batch_size = std::min(kFew, first + count - begin);
      const auto key = [&](std::int64_t k) {
        const std::uint32_t from = begin + k == 0 ? 0 : end[begin + k - 1];
        return std::string_view(text + from, end[begin + k] - from);
      };
      for (std::int64_t k = 0; k < batch_size; ++k) {
        hash[k] = hash_bytes(key(k).data(), key(k).size());
        slots_.prefetch(hash[k]);
      }
      for (std::int64_t k = 0; k < batch_size; ++k) {
        id[begin + k] = slots_.likely_entry(hash[k]);
        if (id[begin + k] != kNone) __builtin_prefetch(ends_.data() + id[begin + k]);
      }
      for (std::int64_t k = 0; k < batch_size; ++k) {
        if (id[begin + k] != kNone) __builtin_prefetch(bytes_.data() + ends_[id[begin + k]]);
      }
      for (std::int64_t k = 0; k < batch_size; ++k) {
        if (id[begin + k] != kNone && string(id[begin + k]) != key(k))
          id[begin + k] = find(key(k), hash[k]);
      }
    }
  }

  // Returns the number of a string; adds the string if it is new.
  std::uint32_t intern(std::string_view s) {
    const std::uint64_t hash = hash_bytes(s.data(), s.size());
    const std::uint32_t entry = find(s, hash);
    if (entry != kNone) return entry;
    bytes_.insert(bytes_.end(), s.begin(), s.end());
    ends_.push_back(static_cast<std::int64_t>(bytes_.size()));
    return slots_.insert(hash, [this](std::uint32_t id) {
      const std::string_view entry = string(id);
      return hash_bytes(entry.data(), entry.size());
    });
  }

 private:
  Slots slots_;
  std::vector<char> bytes_;
  std::vector<std::int64_t> ends_{0};  // see ends()
};

// Numbers keys of up to `stride` integers; shorter keys are padded with kNone.
class KeyTable {
 public:
  explicit KeyTable(int stride = 1) : stride_(stride) {}
  void reserve(std::size_t entries) {
    keys_.reserve(entries * static_cast<std::size_t>(stride_));
    slots_.reserve(entries, [this](std::uint32_t id) { return hash(key(id)); });
  }
  int stride() const { return stride_; }
  std::uint32_t size() const { return slots_.size(); }
  std::size_t longest_run() const { return slots_.longest_run(); }
  const std::uint32_t* key(std::uint32_t id) const { return keys_.data() + std::size_t{id} * stride_; }
  const auto& keys() const { return keys_; }

  std::uint64_t hash(const std::uint32_t* key) const { return hash_key(key, stride_); }
  void prefetch(std::uint64_t hash) const { slots_.prefetch(hash); }
  std::uint32_t find(const std::uint32_t* key, std::uint64_t hash) const {
    return slots_.find(hash, [&](std::uint32_t id) { return same(this->key(id), key); });
  }
  // A lookup has two steps: likely_entry() prefetches the entry, find(key, hash, entry) then compares
  // it.
  std::uint32_t likely_entry(std::uint64_t hash) const {
    const std::uint32_t id = slots_.likely_entry(hash);
    if (id != kNone) __builtin_prefetch(key(id));
    return id;
  }
  std::uint32_t find(const std::uint32_t* key, std::uint64_t hash, std::uint32_t likely_entry) const {
    if (likely_entry == kNone || same(this->key(likely_entry), key)) return likely_entry;
    return find(key, hash);
  }
  // Returns the number of a key; adds the key if it is new.
  std::uint32_t intern(const std::uint32_t* key, std::uint64_t hash) {
    const std::uint32_t known = find(key, hash);
    if (known != kNone) return known;
    keys_.insert(keys_.end(), key, key + stride_);
    return slots_.insert(hash, [this](std::uint32_t id) { return this->hash(this->key(id)); });
  }

 private:
  bool same(const std::uint32_t* a, const std::uint32_t* b) const {
    std::uint32_t differing_bits = 0;  // keys are short: a loop without branches beats memcmp
    for (int i = 0; i < stride_; ++i) differing_bits |= a[i] ^ b[i];
    return differing_bits == 0;
  }

  int stride_;
  Slots slots_;
  std::vector<std::uint32_t, TableAllocator<std::uint32_t>> keys_;  // (size, stride)
};

}  // namespace trellis
