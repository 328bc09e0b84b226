// Tests token fields of ASCII values, and compares templates with a simple implementation.
#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "features/extractor.hpp"
#include "tests/check.hpp"

using namespace trellis;

namespace {

using Key = std::vector<std::uint32_t>;
using Keys = std::vector<std::vector<Key>>;  // (positions)

std::mt19937_64 generator(11);

std::uint32_t below(std::uint32_t n) {
  return std::uniform_int_distribution<std::uint32_t>(0, n - 1)(generator);
}

// ---- fields

std::optional<std::string> derived(std::string_view kind, std::size_t size, std::string_view value) {
  std::string value_text;
  if (!ascii::derive({0, kind_of(kind), size}, value, value_text)) return std::nullopt;
  return value_text;
}

void check_fields() {
  using Value = std::optional<std::string>;
  const Value none;
  CHECK(derived("value", 0, "") == Value(""));
  CHECK(derived("lower", 0, "aZ[@`{") == Value("az[@`{"));
  CHECK(derived("ascii_lower", 0, "U.S.") == Value("u.s."));
  CHECK(derived("shape", 0, "McD-52") == Value("XxX-dd"));
  CHECK(derived("short_shape", 0, "McDonald's--52") == Value("XxXx'x-d"));
  CHECK(derived("short_shape", 0, "") == Value(""));
  CHECK(derived("prefix", 3, "abcd") == Value("abc"));
  CHECK(derived("prefix", 3, "ab") == none);
  CHECK(derived("suffix", 3, "abcd") == Value("bcd"));
  CHECK(derived("suffix", 3, "abc") == Value("abc"));
  CHECK(derived("suffix", 3, "ab") == none);
  CHECK(derived("lower_prefix", 2, "ABC") == Value("ab"));
  CHECK(derived("lower_suffix", 2, "ABC") == Value("bc"));
  CHECK(derived("lower_suffix", 2, "A") == none);
  CHECK(derived("digits", 0, "12") == Value("all"));
  CHECK(derived("digits", 0, "1a") == Value("some"));
  CHECK(derived("digits", 0, "a") == none);
  CHECK(derived("digits", 0, "") == none);
  CHECK(derived("case", 0, "U.S.") == Value("upper"));
  CHECK(derived("case", 0, "it's") == Value("lower"));
  CHECK(derived("case", 0, "(Paris)") == Value("title"));
  CHECK(derived("case", 0, "aB") == Value("mixed"));
  CHECK(derived("case", 0, "AbC") == Value("mixed"));
  CHECK(derived("case", 0, "1.") == none);
  CHECK(derived("alnum", 0, "ab") == Value("alpha"));
  CHECK(derived("alnum", 0, "12") == Value("digit"));
  CHECK(derived("alnum", 0, "a1") == Value("alnum"));
  CHECK(derived("alnum", 0, "a.") == Value("other"));
  CHECK(derived("alnum", 0, "..") == Value("punct"));
  CHECK(derived("alnum", 0, "") == none);
  CHECK(derived("length", 3, "ab") == Value("2"));
  CHECK(derived("length", 3, "abcde") == Value("3"));
  for (const char* kind : {"python", "first", "last", "gazetteer"}) CHECK(derived(kind, 0, "a") == none);
  CHECK(is_ascii("") && is_ascii("\x7f") && !is_ascii("\x80") && !is_ascii("a\xc3\xa9"));
  bool refused = false;
  try {
    kind_of("no such kind");
  } catch (const std::invalid_argument&) {
    refused = true;
  }
  CHECK(refused);
}

// ---- templates

// Two columns of values 0 .. kValues - 1. A field derives a number from each, or no value.
constexpr std::uint32_t kValues = 12, kKnown = 8, kYes = 100, kBegins = 101, kInside = 102;
constexpr int kFields = 6;  // two of column 0, one of column 1, first, last, gazetteer

std::uint32_t derived_value(int field, std::uint32_t value) {
  if (field == 1) return value % 3 == 0 ? kNone : 40 + value % 3;
  return value % 5 == 4 ? kNone : 20 * field + value;
}

ExtractorSpec random_spec(int templates, bool outside) {
  ExtractorSpec spec;
  spec.fields = {{0, Kind::value, 0}, {0, Kind::value, 0}, {1, Kind::value, 0},
                 {0, Kind::first, 0}, {0, Kind::last, 0},  {0, Kind::gazetteer, 0}};
  for (int n = 0; n < templates; ++n) {
    AttributeTemplate t{below(3), below(4) == 0, {}};
    for (std::uint32_t parts = below(4); parts > 0; --parts) {
      t.parts.push_back({static_cast<std::int64_t>(below(7)) - 3, static_cast<int>(below(kFields)),
                         static_cast<Origin>(below(3))});
    }
    spec.templates.push_back(t);
  }
  spec.has_outside = outside;
  for (auto* side : {&spec.before, &spec.after}) {
    for (std::uint32_t distance = 1 + below(2); outside && distance > 0; --distance) {
      side->push_back({below(9), kNone, below(9), 5, 5, 5});  // the last three have no value outside
    }
  }
  Gazetteer g{5, 0, {}};
  for (int n = 0; n < 6; ++n) {
    g.phrases.emplace_back();
    for (std::uint32_t size = 1 + below(3); size > 0; --size) g.phrases.back().push_back(below(4));
  }
  std::sort(g.phrases.begin(), g.phrases.end());
  spec.gazetteers.push_back(g);
  spec.yes = kYes, spec.begins = kBegins, spec.inside = kInside;
  return spec;
}

EncodedTokens random_tokens(std::initializer_list<int> lengths, std::uint32_t values) {
  EncodedTokens x;
  x.columns.resize(2);
  for (const int length : lengths) {
    for (auto& column : x.columns) {
      for (int t = 0; t < length; ++t) column.push_back(below(values));
    }
    x.begin.push_back(static_cast<std::int64_t>(x.columns[0].size()));
  }
  return x;
}

// Returns the marks of the gazetteer, by trying all phrases at all positions.
std::vector<std::uint32_t> marks(const ExtractorSpec& spec, const std::vector<std::uint32_t>& text) {
  std::vector<std::uint32_t> to(text.size(), kNone);
  for (std::size_t t = 0; t < text.size();) {
    std::size_t longest = 0;
    for (const auto& phrase : spec.gazetteers[0].phrases) {
      const bool here = phrase.size() <= text.size() - t &&
                        std::equal(phrase.begin(), phrase.end(), text.begin() + static_cast<long>(t));
      if (here) longest = std::max(longest, phrase.size());
    }
    for (std::size_t k = 0; k < longest; ++k) to[t + k] = k == 0 ? kBegins : kInside;
    t += std::max<std::size_t>(longest, 1);
  }
  return to;
}

std::uint32_t value_of(const ExtractorSpec& spec, const EncodedTokens& x, std::size_t i, int field,
                       std::int64_t position) {
  const std::int64_t begin = x.begin[i], length = x.begin[i + 1] - begin;
  if (position < 0 || position >= length) {
    if (!spec.has_outside || field > 2) return kNone;
    const auto& side = position < 0 ? spec.before : spec.after;
    const auto distance = static_cast<std::size_t>(position < 0 ? -position : position - length + 1);
    return side[std::min(distance, side.size()) - 1][field];
  }
  if (field == 3) return position == 0 ? kYes : kNone;
  if (field == 4) return position == length - 1 ? kYes : kNone;
  if (field < 3) return derived_value(field, x.columns[field == 2][begin + position]);
  std::vector<std::uint32_t> text;
  for (std::int64_t t = 0; t < length; ++t) text.push_back(derived_value(0, x.columns[0][begin + t]));
  return marks(spec, text)[position];
}

Keys naive(const ExtractorSpec& spec, const EncodedTokens& x, bool edge) {
  Keys all;
  for (std::size_t i = 0; i + 1 < x.begin.size(); ++i) {
    const std::int64_t length = x.begin[i + 1] - x.begin[i];
    for (std::int64_t t = 0; t < length; ++t) {
      all.emplace_back();
      for (const AttributeTemplate& tpl : spec.templates) {
        if (tpl.edge != edge || (edge && t == 0)) continue;
        Key key{tpl.literals};
        for (const TemplatePart& p : tpl.parts) {
          const std::int64_t origin = p.origin == Origin::here   ? t
                                      : p.origin == Origin::last ? length - 1
                                                                 : 0;
          key.push_back(value_of(spec, x, i, p.field, origin + p.offset));
        }
        if (std::find(key.begin(), key.end(), kNone) == key.end()) all.back().push_back(key);
      }
    }
  }
  return all;
}

DerivedValues derived_values(const ExtractorSpec& spec, std::uint32_t begin, std::uint32_t end) {
  DerivedValues values(spec.fields.size());
  for (std::uint32_t v = begin; v < end; ++v) {
    values.push({derived_value(0, v), derived_value(1, v), derived_value(2, v), kNone, kNone, kNone});
  }
  return values;
}

void check_rows(const RowsOut& rows, const KeyTable& table, const Keys& want, bool all_known) {
  CHECK(rows.begin.size() == want.size() + 1);
  for (std::size_t r = 0; r < want.size(); ++r) {
    std::vector<Key> got;
    for (std::int64_t k = rows.begin[r]; k < rows.begin[r + 1]; ++k) {
      const std::uint32_t* key = table.key(static_cast<std::uint32_t>(rows.id[k]));
      got.emplace_back(key, std::find(key, key + table.stride(), kNone));
    }
    std::vector<Key> known;
    for (Key key : want[r]) {
      Key full = key;
      full.resize(table.stride(), kNone);
      if (all_known || table.find(full.data(), table.hash(full.data())) != kNone) known.push_back(key);
    }
    CHECK(got == known);
  }
}

void check_templates(int templates, bool outside) {
  const ExtractorSpec spec = random_spec(templates, outside);
  TemplateExtractor extractor(spec, 3);
  const DerivedValues known = derived_values(spec, 0, kKnown),
                      fresh = derived_values(spec, kKnown, kValues);
  TemplateExtractor::Memory memory;
  const EncodedTokens x = random_tokens({0, 1, 5, 0, 40, 2, 0}, kKnown);
  ExtractedRows learned;
  for (std::size_t i = 0; i + 1 < x.begin.size(); ++i) {
    extractor.learn({x, x.begin[i], x.begin[i + 1]}, known, memory, learned);
  }
  check_rows(learned.rows, extractor.attributes(), naive(spec, x, false), true);
  check_rows(learned.edges, extractor.edges(), naive(spec, x, true), true);
  const std::uint32_t size = extractor.attributes().size(), edge_size = extractor.edges().size();
  const EncodedTokens others = random_tokens({3, 0, 1, 50}, kValues);
  ExtractedRows looked_up;
  for (std::size_t i = 0; i + 1 < others.begin.size(); ++i) {
    extractor.find({others, others.begin[i], others.begin[i + 1]}, known, fresh, memory, looked_up);
  }
  check_rows(looked_up.rows, extractor.attributes(), naive(spec, others, false), false);
  check_rows(looked_up.edges, extractor.edges(), naive(spec, others, true), false);
  CHECK(extractor.attributes().size() == size && extractor.edges().size() == edge_size);
}

}  // namespace

int main() {
  check_fields();
  for (int k = 0; k < 200; ++k) check_templates(1 + k % 9, k % 2 == 0);
  for (const int templates : {0, 127, 128, 129, 300}) check_templates(templates, true);
  return failures() != 0;
}
