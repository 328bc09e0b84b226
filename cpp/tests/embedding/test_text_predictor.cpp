// Tests the labels of texts: compares the tree search with all leaves, and rows stored as codes with the
// decoded rows. Also splits lines.
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "embedding/text_predictor.hpp"
#include "tests/check.hpp"

using namespace trellis;

namespace {

StringTable strings(const std::vector<std::string>& all) {
  StringTable table;
  for (const std::string& s : all) table.intern(s);
  return table;
}

struct Case {
  std::int64_t labels, dim = 5;
  std::vector<float> input, output;
  std::vector<std::int64_t> counts;

  explicit Case(std::int64_t n) : labels(n) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < 2 * dim; ++i) input.push_back(normal(random));
    for (std::int64_t i = 0; i < labels * dim; ++i) output.push_back(normal(random));
    for (std::int64_t y = 0; y < labels; ++y) counts.push_back((labels - y) * (labels - y));
  }

  TextPredictor predictor(TextLoss loss) const {
    TextMatrix m;
    m.rows = 2;
    m.dim = dim;
    m.dense = reinterpret_cast<const std::uint8_t*>(input.data());
    m.row_bytes = dim * 4;
    std::vector<std::string> names;
    for (std::int64_t y = 0; y < labels; ++y) names.emplace_back("L").append(std::to_string(y));
    return {TextDictionary(strings({"a", "</s>"}), strings(names), {}), m, output.data(), loss, counts};
  }

  double score(std::int64_t row) const {
    double s = 0.0;
    for (std::int64_t j = 0; j < dim; ++j)
      s += double{output[row * dim + j]} * double{(input[j] + input[dim + j]) / 2.0f};
    return s;
  }
};

// Checks that the search, which skips parts of the tree, finds all of the best labels.
void check_tree(std::int64_t labels) {
  const Case c(labels);
  const TextPredictor predictor = c.predictor(TextLoss::hierarchical);
  const HuffmanTree tree = huffman_tree(c.counts.data(), labels);
  std::vector<std::pair<double, std::int32_t>> all;
  for (std::int64_t y = 0; y < labels; ++y) {
    double p = 1.0;
    for (std::int64_t i = tree.begin[y]; i < tree.begin[y + 1]; ++i)
      p *= 1.0 / (1.0 + std::exp(tree.right[i] ? -c.score(tree.node[i]) : c.score(tree.node[i]))) + 1e-5;
    all.push_back({-p, static_cast<std::int32_t>(y)});
  }
  std::sort(all.begin(), all.end());
  for (const std::int64_t k : {std::int64_t{1}, std::int64_t{3}, labels, labels + 7}) {
    const auto answers = predictor.best({{"a", "</s>"}}, k, 0.0, 1)[0];
    std::size_t expected = 0;
    while (expected < all.size() && static_cast<std::int64_t>(expected) < k &&
           -all[expected].first >= 1e-5)
      ++expected;
    CHECK(answers.size() == expected);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      CHECK(answers[i].label == all[i].second);
      CHECK_CLOSE(answers[i].p, -all[i].first, 1e-7);
    }
  }
}

void check_flat() {
  const Case c(4);
  double total = 0.0;
  for (std::int64_t y = 0; y < 4; ++y) total += std::exp(c.score(y));
  const auto likely = c.predictor(TextLoss::softmax).best({{"a", "</s>"}}, 4, 0.0, 1)[0];
  CHECK(likely.size() == 4);
  for (const auto& answer : likely)
    CHECK_CLOSE(answer.p, std::exp(c.score(answer.label)) / total + 1e-5, 1e-7);
  const auto positive = c.predictor(TextLoss::sigmoid).best({{"a", "</s>"}}, 4, 0.5, 1)[0];
  for (const auto& answer : positive) {
    CHECK(c.score(answer.label) >= 0.0);
    CHECK_CLOSE(answer.p, 1.0 / (1.0 + std::exp(-c.score(answer.label))) + 1e-5, 1e-7);
  }
  CHECK(c.predictor(TextLoss::softmax).best({{"x"}, {}}, 4, 0.0, 2)[0].empty());
}

// Compares sums of rows that are stored as codes with sums of the decoded rows. The three columns are in
// groups of `width`, and there are norms.
void check_codes(std::int64_t width) {
  constexpr std::int64_t kDim = 3;
  std::vector<float> centroids(kDim * kCentroids), norms(kCentroids, 0.5f);
  for (std::size_t i = 0; i < centroids.size(); ++i) centroids[i] = static_cast<float>(i % 101);
  const std::vector<std::uint8_t> codes{1, 2, 255, 0, 7, 9}, norm_codes{3, 4};
  TextMatrix m;
  m.rows = 2;
  m.dim = kDim;
  m.width = width;
  m.groups = (kDim + width - 1) / width;
  m.codes = codes.data();
  m.centroids = centroids.data();
  m.norm_codes = norm_codes.data();
  m.norms = norms.data();
  const std::int64_t ids[] = {1, 0, 1};
  float want[kDim] = {}, got[kDim] = {};
  for (const std::int64_t id : ids) {
    for (std::int64_t j = 0; j < kDim; ++j) {
      const std::int64_t g = j / width, columns = std::min(width, kDim - g * width);
      const std::int64_t code = codes[static_cast<std::size_t>(id * m.groups + g)];
      want[j] +=
          0.5f *
          centroids[static_cast<std::size_t>(g * width * kCentroids + code * columns + j - g * width)];
    }
  }
  for (const Kernels* kernel : available_kernels()) {
    std::fill_n(got, kDim, 0.0f);
    kernel->text.add_rows(m, ids, 3, got);
    for (std::int64_t j = 0; j < kDim; ++j) CHECK_CLOSE(got[j], want[j], 1e-6);
  }
}

void check_lines() {
  const TextDictionary d(strings({"__label__no"}), strings({"__label__x"}), {});
  std::string words;
  std::vector<std::uint32_t> labels;
  d.split(
      std::string_view("a\0b __label__x __label__y __label__no\nc", 38), "__label__",
      [&](std::string_view word) { words.append(word).append("|"); },
      [&](std::uint32_t label) { labels.push_back(label); });
  CHECK(words == "a|b|__label__no|</s>|");
  CHECK(labels == std::vector<std::uint32_t>{0});
}

}  // namespace

int main() {
  for (const std::int64_t labels : {1, 2, 3, 50, 700}) check_tree(labels);
  check_flat();
  for (const std::int64_t width : {1, 2, 3}) check_codes(width);
  check_lines();
  return failures();
}
