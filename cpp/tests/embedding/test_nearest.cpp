// Compares nearest rows with a sort of all scores, and codes with a search over all distances. Reads
// files in two blocks, divided at every byte.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <string>

#include "embedding/nearest.hpp"
#include "formats/word_vector_rows.hpp"
#include "tests/check.hpp"

namespace {

using trellis::kernels;

std::vector<float> numbers(std::size_t count, unsigned seed) {
  std::mt19937 rng(seed);
  std::uniform_int_distribution<int> draw(-8, 8);  // small integers: sums are exact, ties occur
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(draw(rng));
  return values;
}

void test_search(std::int64_t rows, std::int64_t dim, std::int64_t queries, std::int64_t k, int threads,
                 bool coarse) {
  const auto table = numbers(static_cast<std::size_t>(rows * dim), 1);
  const auto query = numbers(static_cast<std::size_t>(queries * dim), 2);
  const std::vector<float> scale(static_cast<std::size_t>(rows), 0.5f);
  std::vector<float> score(static_cast<std::size_t>(queries * k));
  std::vector<std::int64_t> id(static_cast<std::size_t>(queries * k));
  const trellis::NearestRows all_rows{.rows = table.data(), .scale = scale.data(), .dim = dim};
  const std::int64_t stride = trellis::coarse_stride(dim);
  std::vector<std::int8_t> code(static_cast<std::size_t>(rows * stride));
  std::vector<float> step(scale.size()), error_bound(scale.size());
  kernels().nearest.coarsen(all_rows, 0, rows, stride, code.data(), step.data(), error_bound.data());
  const trellis::CoarseRows bytes{
      .code = code.data(), .step = step.data(), .error_bound = error_bound.data(), .stride = stride};
  trellis::nearest(
      all_rows, coarse ? &bytes : nullptr, rows,
      {.queries = query.data(), .count = queries, .k = k, .score = score.data(), .id = id.data()},
      threads);
  for (std::int64_t q = 0; q < queries; ++q) {
    std::vector<float> all(static_cast<std::size_t>(rows));
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t d = 0; d < dim; ++d) all[r] += table[r * dim + d] * query[q * dim + d];
      all[r] *= 0.5f;
    }
    std::vector<std::int64_t> order(static_cast<std::size_t>(rows));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return all[a] > all[b]; });
    for (std::int64_t i = 0; i < k; ++i) {
      CHECK(id[q * k + i] == (i < rows ? order[i] : -1));
      if (i < rows) CHECK(score[q * k + i] == all[order[i]]);
    }
  }
}

void test_assign(std::int64_t width) {
  const std::int64_t count = 37, stride = width + 3;
  const auto points = numbers(static_cast<std::size_t>(count * stride), 3);
  const auto centroids = numbers(static_cast<std::size_t>(width * trellis::kCentroids), 4);
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(count * 2), 7);
  kernels().nearest.assign(points.data(), count, stride, width, centroids.data(), codes.data(), 2);
  for (std::int64_t i = 0; i < count; ++i) {
    int best = 0;
    float least = 1e30f;
    for (int c = 0; c < trellis::kCentroids; ++c) {
      float distance = 0.0f;
      for (std::int64_t d = 0; d < width; ++d) {
        const float away = points[i * stride + d] - centroids[d * trellis::kCentroids + c];
        distance += away * away;
      }
      if (distance < least) {
        least = distance;
        best = c;
      }
    }
    CHECK(codes[2 * i] == best);
    CHECK(codes[2 * i + 1] == 7);
  }
}

// Checks that any division of a file into two blocks yields the same rows.
void test_rows_of_files() {
  const float values[] = {1.5f, -2.0f, 0.0f, 3e8f};
  std::string binary = "a ";
  binary.append(reinterpret_cast<const char*>(values), 8).append("\nbc ");
  binary.append(reinterpret_cast<const char*>(values + 2), 8).append("\n");
  const std::string text = "a 1.5 -2\n\nbc +0 3e8 \n";
  for (const bool is_text : {true, false}) {
    const std::string& file = is_text ? text : binary;
    const auto rows_of = is_text ? trellis::text_rows : trellis::binary_rows;
    for (std::size_t cut = 0; cut <= file.size(); ++cut) {
      float out[4]{};
      const std::string first = file.substr(0, cut);
      auto parsed = rows_of(first, 2, 2, out);
      CHECK(parsed.wrong == nullptr);
      const auto taken = static_cast<std::int64_t>(parsed.words.size() / 2);
      const std::string rest = file.substr(static_cast<std::size_t>(parsed.consumed));
      parsed = rows_of(rest, 2, 2 - taken, out + 2 * taken);
      CHECK(parsed.wrong == nullptr);
      CHECK(taken + static_cast<std::int64_t>(parsed.words.size() / 2) == 2);
      CHECK(std::memcmp(out, values, sizeof values) == 0);
    }
  }
  float out[2];
  for (const char* bad : {"a\n", "a 1\n", "a 1 x\n", "a 1 2x\n", "a 1 \n", "a  1\n", "1 2\n"}) {
    CHECK(trellis::text_rows(bad, 2, 1, out).wrong != nullptr);
  }
}

}  // namespace

int main() {
  const std::string best = kernels().name;
  for (const trellis::Kernels* isa : trellis::available_kernels()) {
    CHECK(trellis::use_kernels(isa->name));
    for (const int threads : {1, 3}) {
      for (const std::int64_t queries : {1, 5, 6, 33, 70}) {
        for (const bool coarse : {false, true}) {
          test_search(1, 3, queries, 2, threads, coarse);
          test_search(250, 17, queries, 4, threads, coarse);
          test_search(4001, 5, queries, 9, threads, coarse);
        }
      }
    }
    for (const std::int64_t width : {1, 2, 5}) test_assign(width);
  }
  CHECK(trellis::use_kernels(best));
  test_rows_of_files();
  return failures();
}
