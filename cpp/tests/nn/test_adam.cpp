// Compares Adam on rows of a table with the equations. Arrays end with the last element that is read, so
// that a sanitizer reports any access past it.
#include <random>
#include <vector>

#include "dispatch.hpp"
#include "nn/adam.hpp"
#include "tests/check.hpp"

using namespace trellis;

namespace {

std::mt19937 generator(1);

std::vector<float> normals(std::int64_t count) {
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& x : values) x = normal(generator);
  return values;
}

void test_adam(const Kernels& kernels, std::int64_t columns) {
  const std::vector<std::int64_t> ids{2, 0, 2};
  const std::vector<float> g = normals(3 * columns), before = normals(4 * columns);
  std::vector<float> w = before, m(before.size(), 0.5f), v(before.size(), 0.25f);
  adam_rows(kernels.adam, {.w = w.data(), .m = m.data(), .v = v.data(), .rows = 4, .columns = columns},
            ids, g.data(),
            {.part1 = 0.1f,
             .beta2 = 0.999f,
             .part2 = 0.001f,
             .decay = 0.9f,
             .size = 0.01f,
             .scale = 2.0f,
             .epsilon = 1e-8f});
  for (std::int64_t i = 0; i < 4 * columns; ++i) {
    const std::int64_t row = i / columns, j = i % columns;
    const double twice = static_cast<double>(g[j]) + static_cast<double>(g[2 * columns + j]);
    const double slope = row == 2 ? twice : static_cast<double>(g[columns + j]);
    const double mean = 0.9 * 0.5 + 0.1 * slope, square = 0.999 * 0.25 + 0.001 * slope * slope;
    const double after =
        0.9 * static_cast<double>(before[i]) - 0.01 * mean / (2.0 * std::sqrt(square) + 1e-8);
    CHECK_CLOSE(static_cast<double>(w[i]), row % 2 == 0 ? after : static_cast<double>(before[i]), 1e-6);
    CHECK_CLOSE(static_cast<double>(m[i]), row % 2 == 0 ? mean : 0.5, 1e-6);
    CHECK_CLOSE(static_cast<double>(v[i]), row % 2 == 0 ? square : 0.25, 1e-6);
  }
}

}  // namespace

int main() {
  for (const Kernels* kernels : available_kernels()) {
    for (const std::int64_t columns : {1, 3, 4, 8, 15, 16, 17, 50}) test_adam(*kernels, columns);
  }
  return failures() != 0;
}
