// Compares character windows and their gradient with a simple implementation. Arrays end with the last
// element that is read, so that a sanitizer reports any access past it.
#include <random>
#include <stdexcept>
#include <vector>

#include "dispatch.hpp"
#include "nn/char_windows.hpp"
#include "nn/checked_ids.hpp"
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

void test_windows(const Kernels& kernels, std::int64_t longest, std::int64_t width,
                  std::int64_t filters) {
  constexpr std::int64_t kWords = 5, kCharacters = 4;
  std::vector<std::int64_t> ids(static_cast<std::size_t>(kWords * longest));
  for (auto& id : ids) id = static_cast<std::int64_t>(generator() % kCharacters);
  const std::vector<float> table = normals(kCharacters * width * filters);
  const CharWindows a{.ids = ids.data(),
                      .words = kWords,
                      .longest = longest,
                      .table = table.data(),
                      .width = width,
                      .filters = filters};
  std::vector<float> best(static_cast<std::size_t>(kWords * filters)), d_table(table.size());
  std::vector<std::int32_t> where(best.size());
  kernels.char_windows.largest(a, best.data(), where.data());
  const std::vector<float> d_best = normals(kWords * filters);
  largest_gradient(a, where.data(), d_best.data(), d_table.data());
  std::vector<double> expected(table.size());
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
      if (used(where[i], k)) expected[place(where[i], k)] += static_cast<double>(d_best[i]);
    }
  }
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK_CLOSE(static_cast<double>(d_table[i]), expected[i], 1e-5);
}

void test_checked_ids() {
  bool refused = false;
  try {
    const std::int64_t id = 4;
    checked_ids(&id, 1, 4);
  } catch (const std::invalid_argument&) {
    refused = true;
  }
  CHECK(refused);
}

}  // namespace

int main() {
  for (const Kernels* kernels : available_kernels()) {
    for (const std::int64_t filters : {1, 3, 4, 8, 15, 16, 17, 50}) {
      for (const std::int64_t longest : {1, 2, 7}) test_windows(*kernels, longest, 3, filters);
    }
  }
  test_checked_ids();
  return failures() != 0;
}
