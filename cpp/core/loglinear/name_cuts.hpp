// From the name of an attribute back to what a template read: all ways to write
//
//     name = literal 0 + value + literal 1 + ... + value + literal n
//
// `cut` in src/trellis/features/names.py is the same in plain words.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace trellis {

class NameCuts {
 public:
  static constexpr std::size_t kMost = 256;  // ways to cut one name by one template
  using Literals = std::vector<std::string>;

  // Template n is known by `literals[n]`, if it is one of `numbers`.
  NameCuts(const std::vector<Literals>& literals, const std::vector<std::uint32_t>& numbers)
      : literals_(literals) {
    for (const std::uint32_t n : numbers) {
      if (n >= literals.size() || literals[n].empty()) throw std::invalid_argument("no such literals");
      by_head_[literals[n][0]].push_back(n);
    }
    for (const auto& [head, _] : by_head_) {
      if (std::find(sizes_.begin(), sizes_.end(), head.size()) == sizes_.end())
        sizes_.push_back(head.size());
    }
    std::sort(sizes_.begin(), sizes_.end());
  }

  // Calls use(n, values) for each way to read a name; gives how many there are.
  template <class Use>
  std::size_t each(std::string_view name, const Use& use) {
    std::size_t found = 0;
    for (const std::size_t size : sizes_) {
      if (size > name.size()) break;
      const auto own = by_head_.find(std::string(name.substr(0, size)));
      if (own == by_head_.end()) continue;
      for (const std::uint32_t n : own->second) {
        ways_ = 0;
        values_.clear();
        cut(name, size, std::span(literals_[n]).subspan(1), [&] { use(n, values_); });
        found += ways_;
      }
    }
    return found;
  }

  // A name as errors show it.
  static std::string quoted(std::string_view name) {
    std::size_t size = std::min<std::size_t>(name.size(), 80);
    while (size > 0 && size < name.size() && inside(name, size)) --size;
    std::string found = "'";
    found.append(name.substr(0, size)).push_back('\'');
    return found;
  }

 private:
  using Rest = std::span<const std::string>;

  static bool inside(std::string_view name, std::size_t at) {  // a code point of several bytes
    return at < name.size() && (static_cast<unsigned char>(name[at]) & 0xc0) == 0x80;
  }

  static bool ends_so(std::string_view name, std::size_t begin, std::string_view last) {
    return name.size() >= begin + last.size() && name.ends_with(last);
  }

  // Whether there is a way at all: taking each literal where it comes first leaves most room.
  static bool possible(std::string_view name, std::size_t begin, Rest rest) {
    if (rest.empty()) return begin == name.size();
    for (; rest.size() > 1; rest = rest.subspan(1)) {
      const std::size_t at = name.find(rest[0], begin);
      if (at == std::string_view::npos) return false;
      begin = at + rest[0].size();
    }
    return ends_so(name, begin, rest[0]);
  }

  template <class Use>
  void cut(std::string_view name, std::size_t begin, Rest rest, const Use& use) {
    if (rest.size() <= 1) {
      if (!possible(name, begin, rest)) return;
      if (++ways_ > kMost) {
        throw std::invalid_argument(quoted(name) + " can be read in more than " + std::to_string(kMost) +
                                    " ways");
      }
      if (!rest.empty()) values_.push_back(name.substr(begin, name.size() - rest[0].size() - begin));
      use();
      if (!rest.empty()) values_.pop_back();
      return;
    }
    for (std::size_t at = name.find(rest[0], begin); at != std::string_view::npos;
         at = name.find(rest[0], at + 1)) {
      const std::size_t next = at + rest[0].size();
      // what cannot be from here cannot be from further on: no dead end is walked twice
      if (!possible(name, next, rest.subspan(1))) return;
      if (inside(name, at)) continue;
      values_.push_back(name.substr(begin, at - begin));
      cut(name, next, rest.subspan(1), use);
      values_.pop_back();
    }
  }

  const std::vector<Literals>& literals_;
  std::unordered_map<std::string, std::vector<std::uint32_t>> by_head_;
  std::vector<std::size_t> sizes_;
  std::vector<std::string_view> values_;
  std::size_t ways_ = 0;
};

}  // namespace trellis
