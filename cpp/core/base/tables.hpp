// Hash tables that number what they are given: strings, and short keys of integers.
//
// Entries are never removed. Numbers count from 0 in the order of insertion. Slots hold half of the
// hash, so that most comparisons never leave the table; a slot can be asked for ahead of its use.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "base/aligned.hpp"

namespace trellis {

inline constexpr std::uint32_t kNone = 0xffffffff;  // no such entry

// 64 x 64 -> 128 bits, folded.
inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

inline constexpr std::uint64_t kMixA = 0x9e3779b97f4a7c15, kMixB = 0xd1b54a32d192ed03;

inline std::uint64_t hash_bytes(const char* p, std::size_t n) {
  std::uint64_t h = kMixA ^ n;
  for (; n >= 8; p += 8, n -= 8) {
    std::uint64_t word;
    std::memcpy(&word, p, 8);
    h = mix(h ^ word, kMixB);
  }
  std::uint64_t last = 0;
  if (n > 0) std::memcpy(&last, p, n);  // an empty string may have no address
  return mix(h ^ last, kMixB ^ h);
}

inline std::uint64_t hash_key(const std::uint32_t* key, int size) {
  std::uint64_t h = kMixA;
  int i = 0;
  for (; i + 2 <= size; i += 2) h = mix(h ^ (key[i] | std::uint64_t{key[i + 1]} << 32), kMixB);
  if (i < size) h = mix(h ^ key[i], kMixB);
  return h ^ h >> 29;
}

// The slots of a table with open addressing; what an entry is, its owner knows.
class Slots {
 public:
  std::uint32_t size() const { return size_; }

  void prefetch(std::uint64_t hash) const {
    if (!slots_.empty()) __builtin_prefetch(slots_.data() + (hash & mask_));
  }

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

  // The entry that find() would look at first, if any: likely the one, to be fetched ahead.
  std::uint32_t likely(std::uint64_t hash) const {
    if (slots_.empty()) return kNone;
    for (std::size_t i = hash & mask_;; i = (i + 1) & mask_) {
      if (slots_[i] == 0) return kNone;
      if (slots_[i] >> 32 == hash >> 32) return static_cast<std::uint32_t>(slots_[i]) - 1;
    }
  }

  // Room for so many entries: a table that is about to be large is not copied on its way.
  template <class HashOf>
  void reserve(std::size_t entries, const HashOf& hash_of) {
    while (slots_.size() < 2 * entries) grow(hash_of);
  }

  // For an entry that find() has not found.
  template <class HashOf>
  std::uint32_t insert(std::uint64_t hash, const HashOf& hash_of) {
    if (size_ >= kNone - 2) throw std::length_error("more than 2^32 entries in a table");
    if (2 * (std::size_t{size_} + 1) > slots_.size()) grow(hash_of);
    place(hash, size_);
    return size_++;
  }

 private:
  template <class HashOf>
  void grow(const HashOf& hash_of) {
    slots_.assign(slots_.empty() ? 64 : 2 * slots_.size(), 0);
    mask_ = slots_.size() - 1;
    for (std::uint32_t id = 0; id < size_; ++id) place(hash_of(id), id);
  }

  void place(std::uint64_t hash, std::uint32_t id) {
    std::size_t i = hash & mask_;
    while (slots_[i] != 0) i = (i + 1) & mask_;
    slots_[i] = (hash >> 32 << 32) | (std::uint64_t{id} + 1);
  }

  std::vector<std::uint64_t, TableAllocator<std::uint64_t>>
      slots_;  // upper half of the hash, number + 1; 0 is free
  std::size_t mask_ = 0;
  std::uint32_t size_ = 0;
};

class StringTable {
 public:
  std::uint32_t size() const { return slots_.size(); }
  std::string_view string(std::uint32_t id) const {
    return {bytes_.data() + ends_[id], static_cast<std::size_t>(ends_[id + 1] - ends_[id])};
  }
  const std::vector<char>& bytes() const { return bytes_; }
  const std::vector<std::int64_t>& ends() const {
    return ends_;
  }  // string i is bytes [ends[i], ends[i + 1])

  std::uint32_t find(std::string_view s) const { return find(s, hash_bytes(s.data(), s.size())); }
  std::uint32_t find(std::string_view s, std::uint64_t hash) const {
    return slots_.find(hash, [&](std::uint32_t id) { return string(id) == s; });
  }
  void prefetch(std::uint64_t hash) const { slots_.prefetch(hash); }

  // The numbers of many strings, kNone where there is none: `count` strings that lie one after the other
  // in `text`, string i up to end[i]. A few at a time: all slots are asked for, then all ends, then all
  // bytes, so that none of them is waited for.
  void find_all(const char* text, const std::uint32_t* end, std::int64_t first, std::int64_t count,
                std::uint32_t* id) const {
    constexpr std::int64_t kFew = 16;
    std::uint64_t hash[kFew];
    for (std::int64_t begin = first; begin < first + count; begin += kFew) {
      const std::int64_t few = std::min(kFew, first + count - begin);
      const auto own = [&](std::int64_t k) {
        const std::uint32_t from = begin + k == 0 ? 0 : end[begin + k - 1];
        return std::string_view(text + from, end[begin + k] - from);
      };
      for (std::int64_t k = 0; k < few; ++k) {
        hash[k] = hash_bytes(own(k).data(), own(k).size());
        slots_.prefetch(hash[k]);
      }
      for (std::int64_t k = 0; k < few; ++k) {
        id[begin + k] = slots_.likely(hash[k]);
        if (id[begin + k] != kNone) __builtin_prefetch(ends_.data() + id[begin + k]);
      }
      for (std::int64_t k = 0; k < few; ++k) {
        if (id[begin + k] != kNone) __builtin_prefetch(bytes_.data() + ends_[id[begin + k]]);
      }
      for (std::int64_t k = 0; k < few; ++k) {
        if (id[begin + k] != kNone && string(id[begin + k]) != own(k))
          id[begin + k] = find(own(k), hash[k]);
      }
    }
  }

  std::uint32_t intern(std::string_view s) {
    const std::uint64_t hash = hash_bytes(s.data(), s.size());
    const std::uint32_t found = find(s, hash);
    if (found != kNone) return found;
    bytes_.insert(bytes_.end(), s.begin(), s.end());
    ends_.push_back(static_cast<std::int64_t>(bytes_.size()));
    return slots_.insert(hash, [this](std::uint32_t id) {
      const std::string_view own = string(id);
      return hash_bytes(own.data(), own.size());
    });
  }

 private:
  Slots slots_;
  std::vector<char> bytes_;
  std::vector<std::int64_t> ends_{0};
};

// Keys of up to `stride` integers; shorter ones are filled up with kNone.
class KeyTable {
 public:
  explicit KeyTable(int stride = 1) : stride_(stride) {}
  void reserve(std::size_t entries) {
    keys_.reserve(entries * static_cast<std::size_t>(stride_));
    slots_.reserve(entries, [this](std::uint32_t id) { return hash(key(id)); });
  }
  int stride() const { return stride_; }
  std::uint32_t size() const { return slots_.size(); }
  const std::uint32_t* key(std::uint32_t id) const { return keys_.data() + std::size_t{id} * stride_; }
  const auto& keys() const { return keys_; }

  std::uint64_t hash(const std::uint32_t* key) const { return hash_key(key, stride_); }
  void prefetch(std::uint64_t hash) const { slots_.prefetch(hash); }
  std::uint32_t find(const std::uint32_t* key, std::uint64_t hash) const {
    return slots_.find(hash, [&](std::uint32_t id) { return same(this->key(id), key); });
  }
  // In two steps: what likely() gives is fetched into the cache, find() is then quick.
  std::uint32_t likely(std::uint64_t hash) const {
    const std::uint32_t id = slots_.likely(hash);
    if (id != kNone) __builtin_prefetch(key(id));
    return id;
  }
  std::uint32_t find(const std::uint32_t* key, std::uint64_t hash, std::uint32_t likely) const {
    if (likely == kNone || same(this->key(likely), key)) return likely;
    return find(key, hash);
  }
  std::uint32_t intern(const std::uint32_t* key, std::uint64_t hash) {
    const std::uint32_t found = find(key, hash);
    if (found != kNone) return found;
    keys_.insert(keys_.end(), key, key + stride_);
    return slots_.insert(hash, [this](std::uint32_t id) { return this->hash(this->key(id)); });
  }

 private:
  bool same(const std::uint32_t* a, const std::uint32_t* b) const {
    std::uint32_t different = 0;  // keys are short: no call, no branches
    for (int i = 0; i < stride_; ++i) different |= a[i] ^ b[i];
    return different == 0;
  }

  int stride_;
  Slots slots_;
  std::vector<std::uint32_t, TableAllocator<std::uint32_t>> keys_;
};

}  // namespace trellis
