// The classes of code points that decide where words end.
#pragma once

#include <cstdint>

namespace trellis {

enum class WordClass : std::uint8_t {
  kOther,
  // The property Word_Break of UAX #29.
  kALetter,
  kHebrewLetter,
  kNumeric,
  kKatakana,
  kExtendNumLet,
  kExtend,
  kFormat,
  kZWJ,
  kRegionalIndicator,
  kMidLetter,
  kMidNum,
  kMidNumLet,
  kSingleQuote,
  kDoubleQuote,
  kCR,
  kLF,
  kNewline,
  kWSegSpace,
  // The classes below are not in UAX #29. Only tokens use them: README.md explains them.
  kApostrophe,
  kStacker,    // a sign that puts the next letter below the last one
  kStackable,  // a letter of a script without spaces between words that has such signs
};

// The two classes of a code point, and the property Extended_Pictographic.
struct WordClassRow {
  WordClass standard;  // by UAX #29
  WordClass token;
  bool pictographic;
};

struct WordClassRange {
  char32_t first, last;
  std::uint8_t row;  // in kWordClassRows
};

}  // namespace trellis
