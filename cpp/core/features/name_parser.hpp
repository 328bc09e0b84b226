// Parses the name of an attribute into the values that a template has read. It finds all readings of a
// name, that is all values with
//
//     name = literal 0 + value + literal 1 + ... + value + literal n
//
// `cut` in src/trellis/features/names.py is the same in Python.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/tables.hpp"

namespace trellis {

class NameParser {
 public:
  // The largest number of readings of one name by one template. A name that repeats a literal can have
  // exponentially many.
  static constexpr std::size_t kMaxReadings = 256;
  using Literals = std::vector<std::string>;

  // Template n has the literals literals[n]. Only the templates in `numbers` are tried.
  NameParser(const std::vector<Literals>& literals, const std::vector<std::uint32_t>& numbers)
      : literals_(literals) {
    for (const std::uint32_t n : numbers) {
      if (n >= literals.size() || literals[n].empty())
        throw std::invalid_argument("numbers: a template number is out of range");
      const std::uint32_t head = first_literals_.intern(literals[n][0]);
      if (head == by_head_.size()) {
        by_head_.emplace_back();
        sizes_.push_back(literals[n][0].size());
      }
      by_head_[head].push_back(n);
    }
    std::sort(sizes_.begin(), sizes_.end());
    sizes_.erase(std::unique(sizes_.begin(), sizes_.end()), sizes_.end());
  }

  // Calls use(n, values) for each reading of a name by template n; returns the number of readings.
  template <class Use>
  std::size_t for_each_reading(std::string_view name, const Use& use) {
    std::size_t readings = 0;
    for (const std::size_t size : sizes_) {
      if (size > name.size()) break;
      const std::uint32_t head = first_literals_.find(name.substr(0, size));
      if (head == kNone) continue;
      for (const std::uint32_t n : by_head_[head]) {
        n_readings_ = 0;
        values_.clear();
        cut(name, size, std::span(literals_[n]).subspan(1), [&] { use(n, values_); });
        readings += n_readings_;
      }
    }
    return readings;
  }

  // Returns a name in quotes for an error message, truncated to 80 bytes.
  static std::string quoted(std::string_view name) {
    std::size_t size = std::min<std::size_t>(name.size(), 80);
    while (size > 0 && size < name.size() && is_inside_code_point(name, size)) --size;
    return "'" + std::string(name.substr(0, size)) + "'";
  }

 private:
  using Rest = std::span<const std::string>;

  // Returns whether position `at` lies inside a code point of several bytes.
  static bool is_inside_code_point(std::string_view name, std::size_t at) {
    return at < name.size() && (static_cast<unsigned char>(name[at]) & 0xc0) == 0x80;
  }

  static bool ends_with(std::string_view name, std::size_t begin, std::string_view last) {
    return name.size() >= begin + last.size() && name.ends_with(last);
  }

  // Returns whether at least one reading exists. Each literal is matched at its first occurrence, which
  // leaves the most text for the later literals. So if this fails, no other choice can succeed.
  static bool possible(std::string_view name, std::size_t begin, Rest literals) {
    if (literals.empty()) return begin == name.size();
    for (; literals.size() > 1; literals = literals.subspan(1)) {
      const std::size_t at = name.find(literals[0], begin);
      if (at == std::string_view::npos) return false;
      begin = at + literals[0].size();
    }
    return ends_with(name, begin, literals[0]);
  }

  // Extends values_ by the values in name[begin:], and calls use() for each complete reading.
  template <class Use>
  void cut(std::string_view name, std::size_t begin, Rest literals, const Use& use) {
    if (literals.size() <= 1) {
      if (!possible(name, begin, literals)) return;
      if (++n_readings_ > kMaxReadings) {
        throw std::invalid_argument(quoted(name) + " can be read in more than " +
                                    std::to_string(kMaxReadings) + " ways");
      }
      if (!literals.empty())
        values_.push_back(name.substr(begin, name.size() - literals[0].size() - begin));
      use();
      if (!literals.empty()) values_.pop_back();
      return;
    }
    for (std::size_t at = name.find(literals[0], begin); at != std::string_view::npos;
         at = name.find(literals[0], at + 1)) {
      const std::size_t next = at + literals[0].size();
      // If no reading exists from here, none exists from any later match, so the loop can stop.
      if (!possible(name, next, literals.subspan(1))) return;
      if (is_inside_code_point(name, at)) continue;
      values_.push_back(name.substr(begin, at - begin));
      cut(name, next, literals.subspan(1), use);
      values_.pop_back();
    }
  }

  const std::vector<Literals>& literals_;            // (templates, parts + 1)
  StringTable first_literals_;                       // the first literals
  std::vector<std::vector<std::uint32_t>> by_head_;  // (heads): templates
  std::vector<std::size_t> sizes_;                   // the different lengths of first literals
  std::vector<std::string_view> values_;             // the values of the current reading
  std::size_t n_readings_ = 0;
};

}  // namespace trellis
