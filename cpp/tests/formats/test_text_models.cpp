// Tests text models of other programs: names parsed by templates, weights as text, weights by number.
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "features/name_parser.hpp"
#include "formats/named_weights.hpp"
#include "formats/text_weights.hpp"
#include "tests/check.hpp"

using namespace trellis;

namespace {

std::set<std::vector<std::string>> readings_of(const std::string& name,
                                               const std::vector<NameParser::Literals>& literals) {
  NameParser parser(literals, {0});
  std::set<std::vector<std::string>> readings;
  std::size_t calls = 0;
  const std::size_t count = parser.for_each_reading(name, [&](std::uint32_t n, const auto& values) {
    CHECK(n == 0);
    ++calls;
    readings.insert({values.begin(), values.end()});
  });
  CHECK(calls == count && readings.size() == count);
  return readings;
}

void check_names() {
  using Readings = std::set<std::vector<std::string>>;
  CHECK((readings_of("U:a/b/c", {{"U:", "/", ""}}) == Readings{{"a", "b/c"}, {"a/b", "c"}}));
  CHECK((readings_of("U:a/b", {{"U:", "/", "/", ""}}) == Readings{}));
  CHECK((readings_of("U", {{"U"}}) == Readings{{}}));
  CHECK((readings_of("Ux", {{"U"}}) == Readings{}));
  CHECK((readings_of("U:a#", {{"U:", "#"}}) == Readings{{"a"}}));
  // two values without a literal between them: the border must not be inside a code point
  CHECK((readings_of("U:\xc3\xa9", {{"U:", "", ""}}) == Readings{{"", "\xc3\xa9"}, {"\xc3\xa9", ""}}));
  // there are 10^11 ways to place the slashes, and no reading, because the name does not end with #
  CHECK((readings_of("U:" + std::string(1000, '/'), {{"U:", "/", "/", "/", "/", "/", "#"}}) ==
         Readings{}));
  bool thrown = false;
  try {
    readings_of("U:" + std::string(300, '/'), {{"U:", "/", ""}});
  } catch (const std::invalid_argument&) {
    thrown = true;
  }
  CHECK(thrown);
  CHECK(NameParser::quoted(std::string(79, 'a') + "\xc3\xa9") == "'" + std::string(79, 'a') + "'");
}

void check_weights() {
  double value = 0.0;
  for (const auto& [text, want] :
       {std::pair{"1.5", 1.5}, {"-0x1.8p+1", -3.0}, {"+2e3", 2000.0}, {"0x0p+0", 0.0}, {"-0", 0.0}}) {
    CHECK(read_weight(text, &value) && value == want);
  }
  for (const char* text :
       {"", "-", "0x", "1 ", " 1", "nan", "inf", "1e999", "0x1p99999", "--1", "1,5"}) {
    CHECK(!read_weight(text, &value));
  }
  std::int64_t index[3] = {};
  double weight[3] = {};
  std::string_view wrong;
  using Fault = TextWeightReader::Fault;
  TextWeightReader plain(false, index, weight);
  CHECK(plain.feed("1\n0\n2\n", &wrong) == Fault::none && plain.feed("3\n", &wrong) == Fault::none);
  CHECK(plain.lines() == 4 && plain.kept() == 3);
  CHECK(index[0] == 0 && index[1] == 2 && index[2] == 3 && weight[2] == 3.0);
  CHECK(plain.feed("4\n", &wrong) == Fault::capacity && wrong == "4");
  TextWeightReader numbered(true, index, weight);
  CHECK(numbered.feed("5=0x1p0\n7=-2\n", &wrong) == Fault::none && index[1] == 7 && weight[1] == -2.0);
  CHECK(numbered.feed("7=1\n", &wrong) == Fault::order && wrong == "7=1");
  for (const char* line : {"8\n", "8=\n", "=1\n", "-9=1\n", "99999999999999999999=1\n", "\n"}) {
    CHECK(numbered.feed(line, &wrong) == Fault::text);
  }
}

// There are two labels. Name 0 has weights of labels and of label pairs, name 1 of labels only, name 2
// of pairs only, and name 3 of pairs that are plain transitions.
void check_split() {
  const std::vector<std::int64_t> begin{0, 6, 8, 12, 16};
  const std::vector<std::uint8_t> states{1, 1, 0, 0}, bare{0, 0, 0, 1};
  const std::vector<std::int64_t> number{1, 2, 5, 6, 7, 9, 13};
  std::vector<double> weight{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7};
  const SplitWeights out =
      split_weights({.begin = begin, .states = states, .bare = bare, .labels = 2}, number, weight);
  CHECK((out.states.name == std::vector<std::int64_t>{0, 1}));
  CHECK((out.states.size == std::vector<std::int64_t>{1, 2}));
  CHECK((out.states.cell == std::vector<std::uint16_t>{1, 0, 1}));
  CHECK(weight[0] == 0.1 && weight[1] == 0.4 && weight[2] == 0.5);
  CHECK((out.edges.name == std::vector<std::int64_t>{0, 2}));
  CHECK((out.edges.size == std::vector<std::int64_t>{2, 1}));
  CHECK((out.edges.cell == std::vector<std::int32_t>{0, 3, 1}));
  CHECK((out.edge_weight == std::vector<double>{0.2, 0.3, 0.6}));
  CHECK((out.pair == std::vector<std::int64_t>{1}) && out.pair_weight[0] == 0.7);
}

}  // namespace

int main() {
  check_names();
  check_weights();
  check_split();
  return failures();
}
