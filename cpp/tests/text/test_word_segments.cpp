// Checks the rules of UAX #29 and the tokens on examples, and on random text in all three widths.
#include <random>
#include <string>
#include <vector>

#include "tests/check.hpp"
#include "text/word_segments.hpp"

using namespace trellis;

namespace {

// Returns the segments by UAX #29, separated by '|'.
std::u32string segments(const std::u32string& text) {
  std::u32string out;
  std::size_t begin = 0;
  WordSegments words(text.data(), text.size(), WordClassTable::standard());
  words.for_each_segment([&](std::size_t end) {
    out += text.substr(begin, end - begin) + U'|';
    begin = end;
  });
  return out;
}

// Returns the tokens, separated by '|'.
template <class Text>
Text tokens(const Text& text) {
  Text out;
  WordSegments words(text.data(), text.size(), WordClassTable::tokens());
  words.for_each_token([&](std::size_t begin, std::size_t end) {
    out += text.substr(begin, end - begin);
    out += static_cast<typename Text::value_type>('|');
  });
  return out;
}

std::u32string tokens(const char32_t* text) { return tokens(std::u32string(text)); }

void test_rules_of_the_standard() {
  CHECK(segments(U"").empty());
  CHECK(segments(U"\r\n\n\r") == U"\r\n|\n|\r|");                                    // WB3 to WB3b
  CHECK(segments(U"\U0001F469\u200D\U0001F467") == U"\U0001F469\u200D\U0001F467|");  // WB3c
  CHECK(segments(U"a  b") == U"a|  |b|");                                            // WB3d
  CHECK(segments(U"a \u0301 b") == U"a| \u0301| |b|");                               // WB4 and WB3d
  CHECK(segments(U"\u0301\u0301a") == U"\u0301\u0301|a|");                           // WB4 at the start
  CHECK(segments(U"a\n\u0301b") == U"a|\n|\u0301|b|");                               // WB3a, WB4
  CHECK(segments(U"can't a:b. c.") == U"can't| |a:b|.| |c|.|");                      // WB6, WB7
  CHECK(segments(U"a\u0301.\u0301b") == U"a\u0301.\u0301b|");  // the same with marks
  CHECK(segments(U"\u05D0' \u05D0\"\u05D1 \u05D0\"") ==
        U"\u05D0'| |\u05D0\"\u05D1| |\u05D0|\"|");                                 // WB7a to c
  CHECK(segments(U"a1b 3.14,5;6 3.a") == U"a1b| |3.14,5;6| |3|.|a|");              // WB8 to WB12
  CHECK(segments(U"\u30AB\u30BF\u3072\u3089") == U"\u30AB\u30BF|\u3072|\u3089|");  // WB13
  CHECK(segments(U"a_1_\u30AB") == U"a_1_\u30AB|");                                // WB13a, WB13b
  CHECK(segments(U"\U0001F1E6\U0001F1E7\U0001F1E8") == U"\U0001F1E6\U0001F1E7|\U0001F1E8|");  // WB15
  CHECK(segments(U"\U0001F1E6\u200D\U0001F1E7\U0001F1E8") ==
        U"\U0001F1E6\u200D\U0001F1E7|\U0001F1E8|");  // WB4 in a pair
}

void test_tokens() {
  CHECK(tokens(U"Don't pay $9.50, O\u2019Neil!") == U"Don't|pay|$|9|.|50|,|O\u2019Neil|!|");
  CHECK(tokens(U"'tis 'a' 5'b a''b") == U"'|tis|'|a|'|5'b|a|'|'|b|");
  CHECK(tokens(U"\u200B \u3000\u0301a\x1c") == U"\u0301|a|");
  CHECK(tokens(U"m\u00B2 \u00BD x\u2044y 3\u20444") == U"m\u00B2|\u00BD|x|\u2044|y|3\u20444|");
  CHECK(tokens(U"col\u00B7lega a\uFF0Eb") == U"col\u00B7lega|a|\uFF0E|b|");
  CHECK(tokens(U"\u0E19\u0E49\u0E33\u0E14\u0E37\u0E48\u0E21") ==
        U"\u0E19\u0E49\u0E33|\u0E14\u0E37\u0E48|\u0E21|");  // Thai: consonants with marks
  CHECK(tokens(U"\u1781\u17D2\u1798\u17C2\u179A") ==
        U"\u1781\u17D2\u1798\u17C2|\u179A|");  // a Khmer stack
  CHECK(tokens(U"a\u17D2b \u17D2\u1798") == U"a\u17D2b|\u17D2\u1798|");
  CHECK(tokens(U"\u6771\u4EAC\u30BF\u30EF\u30FC") == U"\u6771|\u4EAC|\u30BF\u30EF\u30FC|");
}

void test_numbers_that_are_not_code_points() {
  const char32_t odd[] = {0xD800, 0xDFFF, 0x10FFFF, 0x110000, 0xFFFFFFFF, U'a'};
  CHECK(tokens(std::u32string(odd, 6)).size() == 12);
  CHECK(tokens(std::u16string(1, 0xD800)).size() == 2);
}

// In random text every class follows every other class, so all pairs of rules occur.
void test_widths_agree_and_tokens_are_independent() {
  const std::u32string alphabet =
      U"a\u05D01\u00AA_'\" .:,\r\n\u00AD\u00B7\u00BD\u0301\u200D\u30AB\u0E01\u17D2\u1780\u2019"
      U"\u6771\U0001F1E6\U0001F469\u00A9";
  std::mt19937 generator(1);
  for (int repeat = 0; repeat < 20000; ++repeat) {
    const char32_t limit = repeat % 3 == 0 ? 0x100 : repeat % 3 == 1 ? 0x10000 : 0x110000;
    std::u32string text;
    for (unsigned n = generator() % 12; n > 0;) {
      const char32_t point = alphabet[generator() % alphabet.size()];
      if (point < limit) text += point, --n;
    }
    const std::u32string wide = tokens(text);
    const std::u16string half = tokens(std::u16string(text.begin(), text.end()));
    const std::basic_string<unsigned char> narrow =
        tokens(std::basic_string<unsigned char>(text.begin(), text.end()));
    CHECK(limit > 0x10000 || std::u32string(half.begin(), half.end()) == wide);
    CHECK(limit > 0x100 || std::u32string(narrow.begin(), narrow.end()) == wide);
    std::u32string spaced = wide;  // a token by itself is one token
    for (char32_t& point : spaced) {
      if (point == U'|') point = U' ';
    }
    CHECK(tokens(spaced) == wide);
  }
}

}  // namespace

int main() {
  test_rules_of_the_standard();
  test_tokens();
  test_numbers_that_are_not_code_points();
  test_widths_agree_and_tokens_are_independent();
  return failures();
}
