// A packed trie of words: 9 bytes per node for letters that are bytes, and 4 more per word.
//
// Nodes are numbered level by level. So the children of a node are neighbours, sorted, and end where the
// children of the next node begin.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "base/tables.hpp"

namespace trellis {

template <class Letter>
class PackedTrie {
 public:
  static constexpr std::uint32_t kRoot = 0;

  PackedTrie() = default;

  // Word i is spell(i), a span of letters; several words may have the same spelling.
  template <class Spell>
  PackedTrie(std::uint32_t count, const Spell& spell) {
    words_.resize(count);
    std::iota(words_.begin(), words_.end(), 0);
    std::stable_sort(words_.begin(), words_.end(), [&](std::uint32_t a, std::uint32_t b) {
      const auto x = spell(a), y = spell(b);
      return std::lexicographical_compare(x.begin(), x.end(), y.begin(), y.end());
    });
    struct Range {
      std::uint32_t begin, end;
    };
    std::vector<Range> level{{0, count}}, next;
    std::vector<std::uint32_t> ordered;
    letter_.push_back(Letter());
    for (std::size_t depth = 0; !level.empty(); ++depth, level.swap(next)) {
      next.clear();
      for (auto [begin, end] : level) {
        word_begin_.push_back(static_cast<std::uint32_t>(ordered.size()));
        for (; begin < end && spell(words_[begin]).size() == depth; ++begin) {
          ordered.push_back(words_[begin]);
        }
        child_begin_.push_back(static_cast<std::uint32_t>(letter_.size()));
        while (begin < end) {
          const Letter letter = spell(words_[begin])[depth];
          const std::uint32_t first = begin;
          while (begin < end && spell(words_[begin])[depth] == letter) ++begin;
          next.push_back({first, begin});
          letter_.push_back(letter);
        }
      }
    }
    child_begin_.push_back(static_cast<std::uint32_t>(letter_.size()));
    word_begin_.push_back(count);
    words_ = std::move(ordered);
    child_begin_.shrink_to_fit();
    letter_.shrink_to_fit();
  }

  std::uint32_t size() const { return static_cast<std::uint32_t>(letter_.size()); }
  bool empty() const { return words_.empty(); }

  // Returns the child for a letter; kNone if there is none or if `node` is kNone.
  std::uint32_t child(std::uint32_t node, Letter letter) const {
    if (node == kNone || letter_.empty()) return kNone;
    const Letter *const all = letter_.data(), *begin = all + child_begin_[node];
    const Letter* const end = all + child_begin_[node + 1];
    // Nodes with at most 16 children are searched linearly; chosen by hand.
    constexpr std::ptrdiff_t kFew = 16;
    if (end - begin > kFew) {
      begin = std::lower_bound(begin, end, letter);
    } else {
      while (begin != end && *begin != letter) ++begin;
    }
    return begin != end && *begin == letter ? static_cast<std::uint32_t>(begin - all) : kNone;
  }
  // Returns the node after several letters, or kNone.
  template <class Letters>
  std::uint32_t walk(std::uint32_t node, const Letters& letters) const {
    for (const auto letter : letters) node = child(node, static_cast<Letter>(letter));
    return node;
  }

  // Returns the words that end at a node.
  std::span<const std::uint32_t> words(std::uint32_t node) const {
    if (node == kNone || letter_.empty()) return {};
    return {words_.data() + word_begin_[node], words_.data() + word_begin_[node + 1]};
  }

  // Returns, for each node, the least value(word) of the words that end at it or, if there are none,
  // below it.
  template <class Value>
  std::vector<std::uint32_t> nearest(const Value& value) const {
    std::vector<std::uint32_t> least(size(), kNone);
    for (std::uint32_t node = size(); node-- > 0;) {
      for (const std::uint32_t word : words(node)) least[node] = std::min(least[node], value(word));
      if (!words(node).empty()) continue;
      for (std::uint32_t c = child_begin_[node]; c < child_begin_[node + 1]; ++c) {
        least[node] = std::min(least[node], least[c]);
      }
    }
    return least;
  }

 private:
  std::vector<Letter> letter_;              // (nodes): the letter that leads to each node
  std::vector<std::uint32_t> child_begin_;  // (nodes + 1): the first child
  std::vector<std::uint32_t> word_begin_;   // (nodes + 1): the first entry of words_
  std::vector<std::uint32_t> words_;        // (words): ordered by the node where they end
};

using TextTrie = PackedTrie<std::uint8_t>;
using LabelTrie = PackedTrie<std::int32_t>;

}  // namespace trellis
