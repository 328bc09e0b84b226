// Windows of characters and Adam on rows, written out once more; vectors end where what is read ends, so
// that a sanitizer sees any access past it.
#include <random>
#include <vector>

#include "dispatch.hpp"
#include "nn/network.hpp"
#include "tests/check.hpp"

using namespace trellis;

namespace {

std::mt19937 generator(1);

std::vector<float> normals(std::int64_t count) {
  std::normal_distribution<float> normal;
  std::vector<float> found(static_cast<std::size_t>(count));
  for (float& x : found) x = normal(generator);
  return found;
}

void test_windows(const Kernels& kernels, std::int64_t longest, std::int64_t width,
                  std::int64_t filters) {
  constexpr std::int64_t kWords = 5, kCharacters = 4;
  std::vector<std::int64_t> ids(static_cast<std::size_t>(kWords * longest));
  for (auto& id : ids) id = static_cast<std::int64_t>(generator() % kCharacters);
  const std::vector<float> table = normals(kCharacters * width * filters);
  const CharWindows a{ids.data(), kWords, longest, table.data(), width, filters};
  std::vector<float> best(static_cast<std::size_t>(kWords * filters)), d_table(table.size());
  std::vector<std::int32_t> where(best.size());
  kernels.network.largest(a, best.data(), where.data());
  const std::vector<float> d_best = normals(kWords * filters);
  largest_gradient(a, where.data(), d_best.data(), d_table.data());
  std::vector<double> wanted(table.size());
  for (std::int64_t i = 0; i < kWords * filters; ++i) {
    const std::int64_t word = i / filters, f = i % filters;
    const auto place = [&](std::int64_t t, std::int64_t k) {
      return (ids[word * longest + t + k] * width + k) * filters + f;
    };
    const auto used = [&](std::int64_t t, std::int64_t k) {
      return t + k < longest && ids[word * longest + t + k] != 0;
    };
    double top = -INFINITY;
    for (std::int64_t t = 0; t < longest; ++t) {
      double score = 0.0;
      for (std::int64_t k = 0; k < width; ++k) score += used(t, k) ? table[place(t, k)] : 0.0f;
      top = std::fmax(top, score);
    }
    CHECK_CLOSE(static_cast<double>(best[i]), top, 1e-6);
    for (std::int64_t k = 0; k < width; ++k) {
      if (used(where[i], k)) wanted[place(where[i], k)] += static_cast<double>(d_best[i]);
    }
  }
  for (std::size_t i = 0; i < wanted.size(); ++i)
    CHECK_CLOSE(static_cast<double>(d_table[i]), wanted[i], 1e-5);
}

void test_adam(const Kernels& kernels, std::int64_t columns) {
  const std::vector<std::int64_t> ids{2, 0, 2};
  const std::vector<float> g = normals(3 * columns), before = normals(4 * columns);
  std::vector<float> w = before, m(before.size(), 0.5f), v(before.size(), 0.25f);
  adam_rows(kernels.network, {w.data(), m.data(), v.data(), 4, columns}, ids, g.data(),
            {0.1f, 0.999f, 0.001f, 0.9f, 0.01f, 2.0f, 1e-8f});
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
    for (const std::int64_t size : {1, 3, 4, 8, 15, 16, 17, 50}) {
      for (const std::int64_t longest : {1, 2, 7}) test_windows(*kernels, longest, 3, size);
      test_adam(*kernels, size);
    }
  }
  bool refused = false;
  try {
    const std::int64_t id = 4;
    checked_ids(&id, 1, 4);
  } catch (const std::invalid_argument&) {
    refused = true;
  }
  CHECK(refused);
  return failures() != 0;
}
