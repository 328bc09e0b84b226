// Word boundaries by UAX #29, and the tokens of raw text.
//
// Text is an array of code points of 1, 2 or 4 bytes, as Python stores it. No value is invalid: lone
// surrogates and numbers above U+10FFFF are of class kOther. Time and memory are linear in the text.
//
// One set of rules serves word boundaries and tokens: WordClassTable has either the standard classes or
// those for tokens, and classes that are only for tokens never occur in the standard table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/poll.hpp"
#include "text/word_class.hpp"
#include "text/word_class_data.hpp"

namespace trellis {

// Class and property of each code point, in blocks of 256. All blocks in which every code point is
// kOther share one block.
class WordClassTable {
 public:
  static constexpr std::uint8_t kPictographic = 0x80;

  // Return the tables, which are built at their first use.
  static const WordClassTable& standard() {
    static const WordClassTable table(&WordClassRow::standard);
    return table;
  }
  static const WordClassTable& tokens() {
    static const WordClassTable table(&WordClassRow::token);
    return table;
  }

  // Returns the number of a WordClass, plus kPictographic.
  template <class Point>
  std::uint8_t entry(Point point) const {
    if constexpr (sizeof(Point) == 1) {
      return entries_[point];
    } else {
      if (point >= kEnd) return 0;
      return entries_[static_cast<std::size_t>(block_[point >> 8]) << 8 | (point & 255)];
    }
  }

 private:
  static constexpr char32_t kEnd = 0x110000;

  explicit WordClassTable(WordClass WordClassRow::* column) : block_(kEnd >> 8, 1), entries_(2 << 8) {
    block_[0] = 0;  // Latin-1; block 1 is the shared one
    for (const WordClassRange& range : kWordClassRanges) {
      const WordClassRow& row = kWordClassRows[range.row];
      const auto entry = static_cast<std::uint8_t>(static_cast<int>(row.*column) |
                                                   (row.pictographic ? kPictographic : 0));
      for (char32_t point = range.first; point <= range.last; ++point) set(point, entry);
    }
  }

  void set(char32_t point, std::uint8_t entry) {
    std::uint16_t& block = block_[point >> 8];
    if (block == 1) {
      block = static_cast<std::uint16_t>(entries_.size() >> 8);
      entries_.resize(entries_.size() + 256);
    }
    entries_[static_cast<std::size_t>(block) << 8 | (point & 255)] = entry;
  }

  std::vector<std::uint16_t> block_;   // (kEnd / 256), index of the block in entries_
  std::vector<std::uint8_t> entries_;  // (blocks, 256)
};

template <class Point>
class WordSegments {
 public:
  // The text, (size); it must outlive this object.
  WordSegments(const Point* text, std::size_t size, const WordClassTable& classes)
      : text_(text), size_(size), classes_(classes) {}

  // Calls use(end) for each segment; the first segment begins at 0, each later one where the previous
  // ends.
  template <class Use>
  void for_each_segment(const Use& use) {
    for (std::size_t i = 0; i < size_;) use(i = segment_end(i));
  }

  // Calls use(begin, end) for each token: each segment that is not white space.
  template <class Use>
  void for_each_token(const Use& use) {
    for (std::size_t i = 0; i < size_;) {
      const std::size_t begin = i;
      if (class_at(i) == WordClass::kNewline) {
        poll_.step();
        ++i;
        continue;
      }
      use(begin, i = segment_end(begin));
    }
  }

 private:
  // Returns a set of classes, as bits.
  template <class... Classes>
  static constexpr std::uint32_t set_of(Classes... classes) {
    return (0U | ... | (1U << static_cast<int>(classes)));
  }
  static constexpr bool is_in(WordClass word_class, std::uint32_t set) {
    return (set >> static_cast<int>(word_class) & 1U) != 0;
  }

  static constexpr std::uint32_t kLetters = set_of(WordClass::kALetter, WordClass::kHebrewLetter);
  static constexpr std::uint32_t kNumbers = set_of(WordClass::kNumeric);
  static constexpr std::uint32_t kWord =
      kLetters | kNumbers | set_of(WordClass::kKatakana, WordClass::kExtendNumLet);
  static constexpr std::uint32_t kLineEnds = set_of(WordClass::kCR, WordClass::kLF, WordClass::kNewline);
  static constexpr std::uint32_t kIgnored =
      set_of(WordClass::kExtend, WordClass::kFormat, WordClass::kZWJ, WordClass::kStacker);

  // Returns the classes that follow a class without a boundary: rules WB5, WB8 to WB10, WB13.
  static constexpr std::uint32_t followers(WordClass before) {
    switch (before) {
      case WordClass::kALetter:
      case WordClass::kHebrewLetter:
      case WordClass::kNumeric: return kLetters | kNumbers | set_of(WordClass::kExtendNumLet);
      case WordClass::kKatakana: return set_of(WordClass::kKatakana, WordClass::kExtendNumLet);
      case WordClass::kExtendNumLet: return kWord;
      default: return 0;
    }
  }

  // Returns whether `middle` joins the classes beside it: rules WB6, WB7, WB7b, WB7c, WB11, WB12.
  static constexpr bool bridges(WordClass before, WordClass middle, WordClass after) {
    const auto both_in = [&](std::uint32_t set) { return is_in(before, set) && is_in(after, set); };
    switch (middle) {
      case WordClass::kMidLetter: return both_in(kLetters);
      case WordClass::kMidNum: return both_in(kNumbers);
      case WordClass::kMidNumLet:
      case WordClass::kSingleQuote: return both_in(kLetters) || both_in(kNumbers);
      case WordClass::kDoubleQuote: return both_in(set_of(WordClass::kHebrewLetter));
      case WordClass::kApostrophe: return both_in(kWord);
      default: return false;
    }
  }

  static constexpr std::uint32_t kMiddle =
      set_of(WordClass::kMidLetter, WordClass::kMidNum, WordClass::kMidNumLet, WordClass::kSingleQuote,
             WordClass::kDoubleQuote, WordClass::kApostrophe);
  static constexpr std::uint32_t kQuotes = set_of(WordClass::kSingleQuote, WordClass::kApostrophe);

  std::uint8_t entry_at(std::size_t i) const { return classes_.entry(text_[i]); }
  WordClass class_at(std::size_t i) const { return class_of(entry_at(i)); }
  static constexpr WordClass class_of(std::uint8_t entry) {
    return static_cast<WordClass>(entry & ~WordClassTable::kPictographic);
  }

  // Returns the end of the segment that begins at `begin` < size. Only the rule of regional
  // indicators depends on code points before `begin`: a run of them is divided into pairs.
  std::size_t segment_end(std::size_t begin) {
    WordClass before = class_at(begin);  // the class before i, ignored classes skipped (WB4)
    std::size_t i = begin + 1;
    poll_.step();
    if (is_in(before, kLineEnds)) {  // WB3, WB3a
      const bool is_pair = before == WordClass::kCR && i < size_ && class_at(i) == WordClass::kLF;
      return is_pair ? i + 1 : i;
    }
    for (WordClass last = before; i < size_; ++i) {  // `last` is the class at i - 1
      poll_.step();
      const std::uint8_t entry = entry_at(i);
      const WordClass next = class_of(entry);
      if (is_in(next, followers(before))) {
        before = next;
      } else if (is_in(next, kIgnored)) {  // WB4
      } else if (!joins(before, last, entry)) {
        if (!is_in(next, kMiddle)) return i;
        const std::size_t after = skip_ignored(i + 1);
        if (after < size_ && bridges(before, next, class_at(after))) {
          i = after;
          before = class_at(after);
        } else if (before == WordClass::kHebrewLetter && is_in(next, kQuotes)) {  // WB7a
          before = next;
        } else {
          return i;
        }
      } else {
        // WB15, WB16: a third regional indicator does not join the first two.
        before = next == WordClass::kRegionalIndicator ? WordClass::kOther : next;
      }
      last = class_at(i);
    }
    return size_;
  }

  // Returns whether a rule forbids a boundary before the code point `entry`: a rule about its direct
  // neighbour (class `last`) or about pairs of regional indicators (class `before`).
  static constexpr bool joins(WordClass before, WordClass last, std::uint8_t entry) {
    const WordClass next = class_of(entry);
    switch (last) {
      case WordClass::kZWJ:
        if ((entry & WordClassTable::kPictographic) != 0) return true;  // WB3c
        break;
      case WordClass::kWSegSpace: return next == WordClass::kWSegSpace;  // WB3d
      case WordClass::kStacker:
        if (next == WordClass::kStackable) return true;
        break;
      default: break;
    }
    return before == WordClass::kRegionalIndicator && next == WordClass::kRegionalIndicator;
  }

  // Returns the index of the first code point from i on that is not of an ignored class.
  std::size_t skip_ignored(std::size_t i) {
    for (; i < size_ && is_in(class_at(i), kIgnored); ++i) poll_.step();
    return i;
  }

  const Point* text_;
  std::size_t size_;
  const WordClassTable& classes_;
  PollEvery poll_{2};  // a step is one code point and costs about 2 operations
};

}  // namespace trellis
