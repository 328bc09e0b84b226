// Tests the corpus (in pieces, in memory and in a file), the Huffman tree, alias tables and training.
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "embedding/alias_table.hpp"
#include "embedding/corpus.hpp"
#include "embedding/huffman.hpp"
#include "embedding/training.hpp"
#include "tests/check.hpp"

using namespace trellis;

namespace {

std::mt19937 generator(1);

std::string random_text(int lines) {
  std::string text;
  for (int i = 0; i < lines; ++i) {
    for (int j = 0; j < 12; ++j) {
      text += 'w';  // appended in pieces, because GCC 12 warns about a sum of strings
      text += std::to_string(generator() % 40 * (generator() % 3));
      text += ' ';
    }
    text.back() = '\n';
  }
  return text;
}

std::vector<std::int32_t> numbers_of(Corpus& corpus) {
  corpus.finish();
  std::vector<std::int32_t> numbers(corpus.types().size());
  const auto order = corpus.common_types(1, 0);
  for (std::size_t i = 0; i < order.size(); ++i) numbers[order[i]] = static_cast<std::int32_t>(i);
  corpus.number(numbers);
  std::vector<std::int32_t> all;
  for (const Corpus::Chunk& chunk : corpus.chunks()) {
    const std::size_t before = all.size();
    all.resize(before + static_cast<std::size_t>(chunk.count));
    corpus.read(chunk, all.data() + before);
  }
  return all;
}

void test_corpus() {
  const std::string text = random_text(5000);
  Corpus corpus_at_once(1);
  corpus_at_once.add_text(text);
  const std::vector<std::int32_t> expected = numbers_of(corpus_at_once);
  CHECK(corpus_at_once.words() == 60'000 && corpus_at_once.lines() == 5000);
  for (const int threads : {1, 3}) {
    for (const std::int64_t memory : {std::int64_t{0}, std::int64_t{20'000}, std::int64_t{1} << 20}) {
      Corpus corpus(threads, false, memory);
      for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t size = generator() % 70'000;
        corpus.add_text(std::string_view(text).substr(begin, size));
        begin += size;
      }
      CHECK(numbers_of(corpus) == expected);
    }
  }
}

void test_alias() {
  const std::vector<double> weight{5.0, 0.0, 1.0, 0.25, 3.75};
  const auto cells = alias_table(weight.data(), 5);
  std::vector<double> p(5);
  for (std::size_t i = 0; i < 5; ++i) {
    const double p_index = (cells[i].threshold + 1.0) / 4294967296.0;
    p[i] += p_index / 5;
    p[static_cast<std::size_t>(cells[i].alias)] += (1 - p_index) / 5;
  }
  for (std::size_t i = 0; i < 5; ++i) CHECK_CLOSE(p[i], weight[i] / 10, 1e-8);
}

// Checks that the probabilities of all words in the tree sum to 1 for any scores.
void test_tree() {
  std::vector<std::int64_t> count(50);
  for (std::size_t i = 0; i < count.size(); ++i) count[i] = static_cast<std::int64_t>(1000 / (i + 1));
  const HuffmanTree tree = huffman_tree(count.data(), 50);
  std::normal_distribution<double> normal;
  std::vector<double> score(50);
  for (double& s : score) s = normal(generator);
  double sum = 0.0;
  for (std::size_t word = 0; word < 50; ++word) {
    double p = 1.0;
    for (auto i = static_cast<std::size_t>(tree.begin[word]);
         i < static_cast<std::size_t>(tree.begin[word + 1]); ++i) {
      const double s = score[static_cast<std::size_t>(tree.node[i])];
      p /= 1.0 + std::exp(tree.right[i] != 0 ? -s : s);
    }
    sum += p;
  }
  CHECK_CLOSE(sum, 1.0, 1e-12);
  CHECK(huffman_tree(count.data(), 1).node.empty());
}

// Trains for three epochs, and returns the mean loss of the third. With `hot`, the root of the Huffman
// tree is a hot node (see HotRows), whose changes reach the table every 4 words.
double trained(Corpus& corpus, std::int64_t words, EmbeddingLoss loss, bool cbow, bool hot, int threads,
               bool sum = false) {
  constexpr int kStride = 32;
  std::vector<float> input(static_cast<std::size_t>(words * kStride)), output(input.size());
  kernels().embedding.fill(input.data(), 0, words, 20, kStride, 0.05f, 7);
  std::vector<std::int64_t> count(static_cast<std::size_t>(words));
  std::iota(count.rbegin(), count.rend(), 1);
  const std::vector<double> weight(count.begin(), count.end());
  const auto noise = alias_table(weight.data(), words);
  HuffmanTree tree = huffman_tree(count.data(), words);
  std::int64_t longest = 0;
  for (std::size_t i = 0; i + 1 < tree.begin.size(); ++i)
    longest = std::max(longest, tree.begin[i + 1] - tree.begin[i]);
  std::vector<std::int64_t> begin(count.size() + 1);
  std::iota(begin.begin(), begin.end(), 0);
  std::vector<std::int32_t> row(count.size()), nodes;
  std::iota(row.begin(), row.end(), 0);
  if (hot) {
    nodes = {static_cast<std::int32_t>(words - 2)};
    for (std::int32_t& node : tree.node) {
      if (node == words - 2) node = -1;
    }
  }
  const EmbeddingModel model{.input = input.data(),
                             .output = output.data(),
                             .stride = kStride,
                             .words = words,
                             .rows_begin = begin.data(),
                             .row = row.data(),
                             .keep = nullptr,
                             .noise = noise.data(),
                             .path_begin = tree.begin.data(),
                             .path_node = tree.node.data(),
                             .path_right = tree.right.data(),
                             .loss = loss,
                             .cbow = cbow,
                             .sum = sum,
                             .shared = true,
                             .window = 5,
                             .negatives = 5,
                             .shrink = true,
                             .hot_for = hot ? 4 : 1'000'000,
                             .ring_mask = ring_size(5) - 1};
  const EmbeddingTraining training(model, longest, nodes);
  Report report;
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    report = training.sentences(
        corpus, {.first = 0,
                 .last = static_cast<std::int64_t>(corpus.chunks().size()),
                 .schedule = {.first_rate = 0.05, .last_rate = 0.01, .seen = 0, .total = 1e9},
                 .seed = epoch,
                 .loss_every = 1,
                 .threads = threads});
  }
  for (const float x : input) CHECK(std::isfinite(x));
  for (std::size_t i = 0; i < input.size(); ++i) {
    if (i % kStride >= 20) CHECK(input[i] == 0.0f && output[i] == 0.0f);
  }
  return report.loss / report.terms;
}

void test_training() {
  Corpus corpus(1);
  corpus.add_text(random_text(3000));
  numbers_of(corpus);
  const auto words = static_cast<std::int64_t>(corpus.types().size());
  for (const Kernels* isa : available_kernels()) {
    current_kernels().store(isa);
    for (const EmbeddingLoss loss : {EmbeddingLoss::negative, EmbeddingLoss::hierarchical,
                                     EmbeddingLoss::softmax, EmbeddingLoss::ova}) {
      for (const bool cbow : {false, true}) {
        const double plain = trained(corpus, words, loss, cbow, false, 1);
        CHECK(plain > 0.0);
        // Each word has one row, so its mean and its sum are equal.
        CHECK_CLOSE(trained(corpus, words, loss, cbow, false, 1, true), plain, 1e-5);
        if (loss != EmbeddingLoss::hierarchical) continue;
        CHECK_CLOSE(trained(corpus, words, loss, cbow, true, 1), plain, 0.01);
      }
    }
  }
}

}  // namespace

int main() {
  test_corpus();
  test_alias();
  test_tree();
  test_training();
  return failures() != 0;
}
