// Tests ARPA files: scores computed by hand, blocks of all sizes, and one damaged file per error
// message.
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "formats/arpa.hpp"
#include "tests/check.hpp"

using namespace trellis;

namespace {

const std::string kModel =
    "a remark\n\\data\\\nngram 1=4\nngram 2=2\nngram 3=1\n\n"
    "\\1-grams:\n-99\t<s>\t-0.5\n-1\t</s>\n-0.25\ta\t-0.125\n-0.5\tb\t-2e-1\n\n"
    "\\2-grams:\n-0.75\t<s> a\t-0.0625\n-1.5\ta b\n\n"
    "\\3-grams:\n-0.375\t<s> b a\n\n\\end\\\n";

std::unique_ptr<NgramModel> read(const std::string& text, std::size_t block = 1 << 20) {
  ArpaReader reader;
  for (std::size_t i = 0; i < text.size(); i += block) {
    reader.feed(std::string_view(text).substr(i, block));
  }
  return reader.finish();
}

void check_scores(const NgramModel& m) {
  CHECK(m.order() == 3 && m.counts() == (std::vector<std::int64_t>{4, 2, 1}));
  const std::uint32_t a = m.find("a"), b = m.find("b");
  CHECK(m.is_unknown(m.find("c")) && m.is_unknown(m.unknown()) && !m.is_unknown(a));
  NgramModel::Score s = m.score(m.begin_state(), a);
  CHECK_CLOSE(s.log10, -0.75, 1e-7);
  CHECK(s.length == 2);
  s = m.score(s.next, b);  // no trigram: the back-off of "<s> a", then "a b"
  CHECK_CLOSE(s.log10, -0.0625 - 1.5, 1e-7);
  s = m.score(s.next, kNone);  // the back-off weights of "a b" (none) and "b", then <unk>
  CHECK_CLOSE(s.log10, -0.2 - 100.0, 1e-7);
  CHECK(s.length == 1);
  // "<s> b" and "b a" exist only because of the trigram
  s = m.score(m.begin_state(), b);
  CHECK_CLOSE(s.log10, -0.5 - 0.5, 1e-7);
  s = m.score(s.next, a);
  CHECK_CLOSE(s.log10, -0.375, 1e-7);
  CHECK(s.length == 3);
  CHECK_CLOSE(m.score(NgramModel::kNoContext, m.end()).log10, -1.0, 1e-7);
}

void check_refused(const std::string& from, const std::string& to, const std::string& message) {
  std::string text = kModel;
  const std::size_t begin = text.find(from);
  CHECK(begin != std::string::npos);
  text.replace(begin, from.size(), to);
  try {
    read(text);
    std::printf("accepted: %s\n", to.c_str());
    CHECK(false);
  } catch (const std::invalid_argument& error) {
    if (std::string(error.what()).find(message) == std::string::npos) {
      std::printf("%s: %s\n", to.c_str(), error.what());
      CHECK(false);
    }
  }
}

void check_numbers() {
  const auto is = [](const char* text, double want) {
    double value = NAN;
    return arpa_detail::parse_number(text, &value) && std::fabs(value - want) <= 1e-15 * std::fabs(want);
  };
  CHECK(is("-1.25", -1.25) && is("0", 0.0) && is("+3", 3.0) && is(".5", 0.5) && is("7.", 7.0));
  CHECK(is("-2.5e-05", -2.5e-5) && is("1E+2", 100.0) &&
        is("0.1234567890123456789012", 0.12345678901234568));
  double value;
  for (const char* bad : {"", "-", ".", "e5", "1e", "1e+", "1x", "nan", "inf", "-inf", "1e999", "--1"}) {
    CHECK(!arpa_detail::parse_number(bad, &value));
  }
}

// Checks that arbitrary damage leads to a model or to an error, never to a crash.
void check_damage() {
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    std::string text = kModel;
    for (int changes = 1 + static_cast<int>(random() % 3); changes > 0; --changes) {
      const std::size_t place = random() % text.size();
      switch (random() % 3) {
        case 0: text[place] = static_cast<char>(random()); break;
        case 1: text.erase(place, 1 + random() % 20); break;
        default: text.insert(place, text.substr(random() % text.size(), random() % 20));
      }
      if (text.empty()) text.push_back('x');
    }
    try {
      const auto model = read(text, 1 + random() % 50);
      model->score(model->begin_state(), model->find("a"));
    } catch (const std::invalid_argument&) {
    }
  }
}

}  // namespace

int main() {
  for (const std::size_t block : {1, 2, 7, 1000}) check_scores(*read(kModel, block));
  check_scores(*read(kModel.substr(0, kModel.size() - 1)));  // without the last line break
  check_refused("\\data\\", "data", "line 21: the file ends before \\data\\");
  check_refused("\\end\\\n", "", "before \\end\\");
  check_refused("ngram 1=4", "ngram 1=5", "line 13: 4 1-grams, but \\data\\ says 5");
  check_refused("ngram 1=4", "ngram 1=3", "line 11: more 1-grams");
  check_refused("ngram 2=2", "ngram 3=2", "line 4: the count of 3-grams");
  check_refused("ngram 1=4", "ngram one", "line 3: must be like");
  check_refused("\\2-grams:", "\\3-grams:", "line 13: must be \\2-grams:");
  check_refused("-0.25\ta", "zero\ta", "line 10: log10 of a probability is 'zero'");
  check_refused("-0.25\ta", "0.25\ta", "line 10");
  check_refused("-0.125", "a lot", "line 10");
  check_refused("-1.5\ta b", "-1.5\ta c", "line 15: 'c' is not among the 1-grams");
  check_refused("-1.5\ta b", "-1.5\t<s> a", "line 15: this n-gram is repeated");
  check_refused("-0.25\ta", std::string("-0.25\t\xff", 7), "line 10: not UTF-8: '?'");
  check_refused("-0.25\ta", std::string("-0.25\t\0", 7), "line 10: the line has a zero byte");
  check_numbers();
  check_damage();
  return failures() != 0;
}
