// A minimal test framework: CHECK prints and counts failures; main returns failures().
#pragma once

#include <cmath>
#include <cstdio>

inline int& failures() {
  static int count = 0;
  return count;
}

#define CHECK(condition)                                                        \
  do {                                                                          \
    if (!(condition)) {                                                         \
      std::printf("%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      ++failures();                                                             \
    }                                                                           \
  } while (false)

#define CHECK_CLOSE(got, want, tolerance)                                             \
  do {                                                                                \
    const double g = (got), w = (want);                                               \
    if (!(g == w || std::fabs(g - w) <= (tolerance) * (1.0 + std::fabs(w)))) {        \
      std::printf("%s:%d: %s is %.17g, not %.17g\n", __FILE__, __LINE__, #got, g, w); \
      ++failures();                                                                   \
    }                                                                                 \
  } while (false)
