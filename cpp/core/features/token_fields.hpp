// Token fields: values that are derived from a token's value (lower case, shape, prefix, ...). This file
// handles only ASCII values. Python derives the fields of other values, which need the rules of Unicode.
#pragma once

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

namespace trellis {

// The kinds of fields, in the order of the names in kind_of(). Gazetteers and positions do not depend on
// a single value.
enum class Kind {
  value,
  lower,
  ascii_lower,
  shape,
  short_shape,
  prefix,
  suffix,
  lower_prefix,
  lower_suffix,
  digits,
  letter_case,
  alnum,
  length,
  python,
  first,
  last,
  gazetteer,
};

// Returns the kind of a field by its name in a feature spec.
inline Kind kind_of(std::string_view name) {
  constexpr std::string_view names[] = {
      "value",  "lower",        "ascii_lower",  "shape",  "short_shape", "prefix",
      "suffix", "lower_prefix", "lower_suffix", "digits", "case",        "alnum",
      "length", "python",       "first",        "last",   "gazetteer"};
  const auto* match = std::find(std::begin(names), std::end(names), name);
  if (match == std::end(names)) throw std::invalid_argument("unknown kind of field");
  return static_cast<Kind>(match - std::begin(names));
}

struct Field {
  int column;  // the column of the token
  Kind kind;
  std::size_t size;  // the size of prefixes, suffixes and lengths, in characters

  // Returns whether the field depends on the position in the sequence, not on the value.
  bool positional() const {
    return kind == Kind::first || kind == Kind::last || kind == Kind::gazetteer;
  }
};

inline bool is_ascii(std::string_view s) {
  return std::all_of(s.begin(), s.end(), [](char c) { return static_cast<signed char>(c) >= 0; });
}

namespace ascii {

inline bool upper(char c) { return 'A' <= c && c <= 'Z'; }
inline bool lower(char c) { return 'a' <= c && c <= 'z'; }
inline bool digit(char c) { return '0' <= c && c <= '9'; }
inline char to_lower(char c) { return upper(c) ? static_cast<char>(c + ('a' - 'A')) : c; }

inline void append_lower(std::string_view s, std::string& to) {
  for (const char c : s) to.push_back(to_lower(c));
}

// Appends the shape of s: X for upper-case letters, x for lower-case letters, d for digits; other
// characters stay. Without `runs`, equal neighbours are merged.
inline void append_shape(std::string_view s, bool runs, std::string& to) {
  for (const char c : s) {
    const char shape = upper(c) ? 'X' : lower(c) ? 'x' : digit(c) ? 'd' : c;
    if (runs || to.empty() || to.back() != shape) to.push_back(shape);
  }
}

// Returns "upper", "lower", "title" or "mixed"; an empty text if s has no letters.
inline std::string_view letter_case(std::string_view s) {
  std::size_t uppers = 0, lowers = 0;
  bool first_upper = false;
  for (const char c : s) {
    if (upper(c) && uppers + lowers == 0) first_upper = true;
    uppers += upper(c);
    lowers += lower(c);
  }
  if (uppers + lowers == 0) return {};
  if (lowers == 0) return "upper";
  if (uppers == 0) return "lower";
  return first_upper && uppers == 1 ? "title" : "mixed";
}

// Returns "alpha", "digit", "alnum", "punct" or "other"; an empty text for an empty value.
inline std::string_view alnum(std::string_view s) {
  if (s.empty()) return {};
  std::size_t letters = 0, digits = 0;
  for (const char c : s) {
    letters += upper(c) || lower(c);
    digits += digit(c);
  }
  if (letters == s.size()) return "alpha";
  if (digits == s.size()) return "digit";
  if (letters + digits == s.size()) return "alnum";
  return letters + digits == 0 ? "punct" : "other";
}

// Returns "all" or "some"; an empty text if s has no digits.
inline std::string_view digits(std::string_view s) {
  const auto count = std::count_if(s.begin(), s.end(), digit);
  if (count == 0) return {};
  return static_cast<std::size_t>(count) == s.size() ? "all" : "some";
}

// Writes the field's value to `to`, which must be empty. Returns false if the field has no value.
inline bool derive(const Field& field, std::string_view s, std::string& to) {
  const bool too_short = s.size() < field.size;
  const auto assign = [&](std::string_view text) {
    to.assign(text);
    return !text.empty();
  };
  switch (field.kind) {
    case Kind::value: to.assign(s); return true;
    case Kind::lower:
    case Kind::ascii_lower: append_lower(s, to); return true;
    case Kind::shape:
    case Kind::short_shape: append_shape(s, field.kind == Kind::shape, to); return true;
    case Kind::prefix: to.assign(s.substr(0, field.size)); return !too_short;
    case Kind::suffix:
      if (!too_short) to.assign(s.substr(s.size() - field.size));
      return !too_short;
    case Kind::lower_prefix: append_lower(s.substr(0, field.size), to); return !too_short;
    case Kind::lower_suffix:
      if (!too_short) append_lower(s.substr(s.size() - field.size), to);
      return !too_short;
    case Kind::digits: return assign(digits(s));
    case Kind::letter_case: return assign(letter_case(s));
    case Kind::alnum: return assign(alnum(s));
    case Kind::length: to.assign(std::to_string(std::min(s.size(), field.size))); return true;
    default: return false;
  }
}

}  // namespace ascii
}  // namespace trellis
