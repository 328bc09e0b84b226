// Compares the tables that assign numbers to strings and keys with std::map.
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/tables.hpp"
#include "tests/check.hpp"

using namespace trellis;

namespace {

std::mt19937_64 generator(7);

std::uint32_t below(std::uint32_t n) {
  return std::uniform_int_distribution<std::uint32_t>(0, n - 1)(generator);
}

// Returns strings of few different letters or of all byte values. Every second string is a prefix of the
// previous one.
std::vector<std::string> random_strings(int count) {
  std::vector<std::string> strings;
  for (int k = 0; k < count; ++k) {
    std::string s;
    if (k % 2 == 1) {
      s = strings.back().substr(0, below(static_cast<std::uint32_t>(strings.back().size()) + 1));
    } else {
      const std::uint32_t letters = k % 4 == 0 ? 3 : 256;
      for (std::uint32_t n = below(20); n > 0; --n) s.push_back(static_cast<char>(below(letters)));
    }
    strings.push_back(std::move(s));
  }
  return strings;
}

void check_strings() {
  StringTable table;
  std::map<std::string, std::uint32_t> truth;
  CHECK(table.find("") == kNone);
  for (const std::string& s : random_strings(100'000)) {
    const auto known = truth.find(s);
    CHECK(table.find(s) == (known == truth.end() ? kNone : known->second));
    const auto number = truth.emplace(s, static_cast<std::uint32_t>(truth.size())).first->second;
    CHECK(table.intern(s) == number);
  }
  CHECK(table.size() == truth.size());
  CHECK(truth.count("") == 1);
  for (const auto& [s, number] : truth) {
    CHECK(table.find(s) == number);
    CHECK(table.string(number) == s);
  }
  CHECK(table.ends().size() == truth.size() + 1);
  CHECK(table.ends().front() == 0);
  CHECK(table.ends().back() == static_cast<std::int64_t>(table.bytes().size()));
  for (const std::string& s : random_strings(1000)) {
    const auto known = truth.find(s + "unknown");
    CHECK(table.find(s + "unknown") == (known == truth.end() ? kNone : known->second));
  }
}

void check_empty_string() {
  StringTable table;
  CHECK(table.intern({}) == 0);  // a view with a null pointer
  CHECK(table.intern("") == 0);
  CHECK(table.string(0).empty());
  CHECK(table.intern(std::string_view("\0", 1)) == 1);
  CHECK(table.intern(std::string_view("\0\0", 2)) == 2);
  CHECK(table.find(std::string_view("\0\0\0", 3)) == kNone);
}

void check_keys(int stride) {
  KeyTable table(stride);
  std::map<std::vector<std::uint32_t>, std::uint32_t> truth;
  for (int k = 0; k < 100'000; ++k) {
    std::vector<std::uint32_t> key(stride, kNone);  // short keys are padded
    const std::uint32_t values = k % 2 == 0 ? 8 : 4'000'000'000u;
    for (std::uint32_t n = 0, size = 1 + below(stride); n < size; ++n) key[n] = below(values);
    const std::uint64_t hash = table.hash(key.data());
    const auto known = truth.find(key);
    const std::uint32_t want = known == truth.end() ? kNone : known->second;
    table.prefetch(hash);
    CHECK(table.find(key.data(), hash) == want);
    CHECK(table.find(key.data(), hash, table.likely_entry(hash)) == want);
    const auto number = truth.emplace(key, static_cast<std::uint32_t>(truth.size())).first->second;
    CHECK(table.intern(key.data(), hash) == number);
  }
  CHECK(table.size() == truth.size());
  CHECK(table.keys().size() == truth.size() * stride);
  for (const auto& [key, number] : truth) {
    CHECK(std::vector<std::uint32_t>(table.key(number), table.key(number) + stride) == key);
    CHECK(table.find(key.data(), table.hash(key.data())) == number);
  }
}

// Checks hashes that collide, in full or in the half that a slot stores.
void check_collisions() {
  for (const std::uint64_t step : {0ull, 1ull, 1ull << 32, (1ull << 40) + 64}) {
    for (const std::uint64_t first : {0ull, ~0ull}) {
      Slots slots;
      const auto hash = [&](std::uint32_t id) { return first + step * (id % 5); };
      for (std::uint32_t id = 0; id < 500; ++id) {
        CHECK(slots.find(hash(id), [&](std::uint32_t other) { return other == id; }) == kNone);
        CHECK(slots.insert(hash(id), hash) == id);
      }
      for (std::uint32_t id = 0; id < 500; ++id) {
        CHECK(slots.find(hash(id), [&](std::uint32_t other) { return other == id; }) == id);
        const std::uint32_t likely = slots.likely_entry(hash(id));
        CHECK(likely < 500 && hash(likely) >> 32 == hash(id) >> 32);
      }
      CHECK(slots.size() == 500);
    }
  }
}

// Checks keys with the same hash: likely_entry() then returns the wrong entry for most keys.
void check_unlikely() {
  KeyTable table(2);
  for (std::uint32_t k = 0; k < 30; ++k) {  // so few that the table does not grow
    const std::uint32_t key[] = {k, 7 * k};
    CHECK(table.find(key, 5, table.likely_entry(5)) == kNone);
    CHECK(table.intern(key, 5) == k);
    CHECK(table.find(key, 5, table.likely_entry(5)) == k);
  }
  CHECK(table.likely_entry(5) == 0);
}

}  // namespace

int main() {
  check_strings();
  check_empty_string();
  for (const int stride : {1, 2, 3, 4, 7}) check_keys(stride);
  check_collisions();
  check_unlikely();
  return failures() != 0;
}
