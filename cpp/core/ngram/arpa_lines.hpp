// Logarithms in ARPA files.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

namespace trellis {

inline constexpr double kLog10OfZero = -99.0;  // what ARPA files have for log10 of 0

// Appends log10 of a probability or a back-off weight, with at most `decimals` (1 to 15) decimals.
inline void append_log10(std::string& out, double value, int decimals) {
  const double log10 = std::max(kLog10OfZero, std::min(0.0, std::log10(value)));
  std::int64_t one = 1;
  for (int i = 0; i < decimals; ++i) one *= 10;
  const std::int64_t scaled = std::llround(-log10 * static_cast<double>(one));
  if (scaled == 0) {
    out += '0';
    return;
  }
  std::int64_t whole = scaled / one, fraction = scaled % one;
  while (decimals > 0 && fraction % 10 == 0) {
    fraction /= 10;
    --decimals;
  }
  char text[24];  // from its end: the decimals, the point, the digits before it, and the sign
  char* const end = text + sizeof text;
  char* begin = end;
  const bool has_point = decimals > 0;
  for (; decimals > 0; --decimals, fraction /= 10) *--begin = static_cast<char>('0' + fraction % 10);
  if (has_point) *--begin = '.';
  do {
    *--begin = static_cast<char>('0' + whole % 10);
    whole /= 10;
  } while (whole > 0);
  *--begin = '-';
  out.append(begin, end);
}

}  // namespace trellis
