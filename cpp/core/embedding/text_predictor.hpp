// p(label | text) of a fastText classifier, for the most likely labels of a text.
//
//   h = mean of the text's rows,   s = W h
//   softmax: exp(s_y) / sum exp(s)      one-vs-all, negative sampling: sigmoid(s_y)
//   hierarchical: the product of sigmoid(+-s_node) along the path from the root to y; + at a node where
//   the path goes to the right child, - where it goes left
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "base/thread_pool.hpp"
#include "dispatch.hpp"
#include "embedding/huffman.hpp"
#include "embedding/text_dictionary.hpp"

namespace trellis {

enum class TextLoss { softmax, sigmoid, hierarchical };

// The words of a text. As in fastText, the last word is </s> if the text is a complete line.
using TextWords = std::vector<std::string_view>;

class TextPredictor {
 public:
  struct Answer {
    std::int32_t label;
    double p;
  };
  using Answers = std::vector<Answer>;  // best first

  // `output` is (labels, dim) and is copied; the memory of `input` must outlive this object.
  TextPredictor(TextDictionary dictionary, const TextMatrix& input, const float* output, TextLoss loss,
                const std::vector<std::int64_t>& label_counts)
      : dictionary_(std::move(dictionary)),
        input_(input),
        loss_(loss),
        stride_((input.dim + 7) / 8 * 8) {
    const std::int64_t labels = dictionary_.labels();
    if (input.rows < dictionary_.rows())
      throw std::invalid_argument("the input has fewer rows than words and buckets");
    if (static_cast<std::int64_t>(label_counts.size()) != labels)
      throw std::invalid_argument("counts must have one entry per label");
    if (labels > (std::int64_t{1} << 30)) throw std::invalid_argument("there are more than 2^30 labels");
    output_.resize(static_cast<std::size_t>(labels * stride_));
    for (std::int64_t y = 0; y < labels; ++y)
      std::copy_n(output + y * input.dim, input.dim, output_.begin() + y * stride_);
    if (loss != TextLoss::hierarchical) return;
    const HuffmanTree tree = huffman_tree(label_counts.data(), labels);
    child_ = tree.child;
    std::int64_t longest = 0;
    for (std::size_t y = 1; y < tree.begin.size(); ++y)
      longest = std::max(longest, tree.begin[y] - tree.begin[y - 1]);
    // Each step of a path multiplies p by a factor, which kAdded can make larger than 1. 1 + 1e-6 covers
    // the rounding to float in is_better().
    max_factor_ = std::exp(static_cast<double>(longest) * kAdded) * (1.0 + 1e-6);
  }

  const TextDictionary& dictionary() const { return dictionary_; }
  std::int64_t dim() const { return input_.dim; }

  // Writes the mean of a text's rows, (dim), and returns the number of rows.
  std::int64_t mean(const TextWords& words, float* out) const {
    Memory memory;
    return mean(words, memory, out);
  }

  // Returns, for each text, the k most likely labels with a probability of at least `threshold` (before
  // fastText adds kAdded). The list is empty for a text without rows.
  std::vector<Answers> best(const std::vector<TextWords>& texts, std::int64_t k, double threshold,
                            int threads) const {
    constexpr std::int64_t kTask = 32;  // texts
    const auto count = static_cast<std::int64_t>(texts.size());
    std::vector<Answers> answers(texts.size());
    if (count == 1) {  // one text is not worth the thread pool
      Memory memory;
      best(texts[0], k, threshold, memory, answers[0]);
      return answers;
    }
    parallel_for((count + kTask - 1) / kTask, threads, [&] {
      return [&, memory = Memory()](std::int64_t task) mutable {
        const std::int64_t end = std::min(count, (task + 1) * kTask);
        for (std::int64_t i = task * kTask; i < end; ++i) {
          poll_interrupt();
          best(texts[static_cast<std::size_t>(i)], k, threshold, memory,
               answers[static_cast<std::size_t>(i)]);
        }
      };
    });
    return answers;
  }

 private:
  // fastText adds this to a probability before taking the logarithm.
  static constexpr double kAdded = 1e-5;
  static constexpr std::int64_t kRows = 256;  // rows per kernel call

  // A node to visit, and the probability of reaching it.
  struct Step {
    std::int32_t node;
    double p;
  };
  // Scratch memory of one thread.
  struct Memory {
    TextDictionary::Scratch scratch;
    std::vector<float> mean;
    std::vector<double> hidden, score, none, p;
    std::vector<Step> steps;
  };

  std::int64_t mean(const TextWords& words, Memory& memory, float* out) const {
    const auto add = kernels().text.add_rows;
    std::fill_n(out, input_.dim, 0.0f);
    std::int64_t ids[kRows];  // the size is fixed, so long texts need no more memory
    std::int64_t count = 0;
    dictionary_.for_each_row(words.data(), words.size(), memory.scratch, [&](std::int64_t row) {
      ids[count++ % kRows] = row;
      if (count % kRows != 0) return;
      poll_interrupt();
      add(input_, ids, kRows, out);
    });
    add(input_, ids, count % kRows, out);
    if (count > 0) {
      for (std::int64_t j = 0; j < input_.dim; ++j) out[j] /= static_cast<float>(count);
    }
    return count;
  }

  void best(const TextWords& words, std::int64_t k, double threshold, Memory& memory,
            Answers& answers) const {
    memory.mean.resize(static_cast<std::size_t>(input_.dim));
    if (k <= 0 || dictionary_.labels() == 0 || mean(words, memory, memory.mean.data()) == 0) return;
    memory.hidden.assign(static_cast<std::size_t>(stride_), 0.0);
    std::copy(memory.mean.begin(), memory.mean.end(), memory.hidden.begin());
    const double least = threshold + kAdded;
    if (loss_ == TextLoss::hierarchical) {
      search(k, least, memory, answers);
    } else {
      score_all(k, least, memory, answers);
    }
    std::sort_heap(answers.begin(), answers.end(), is_better);
  }

  // Returns whether a is better than b. Probabilities are compared as floats, as in fastText; if they
  // are equal, the lower label is better.
  static bool is_better(const Answer& a, const Answer& b) {
    const auto p = static_cast<float>(a.p), q = static_cast<float>(b.p);
    return p > q || (p == q && a.label < b.label);
  }

  // Keeps the best k in a heap whose front is the worst of them.
  static void insert_if_best(const Answer& answer, std::int64_t k, double least, Answers& answers) {
    if (!(answer.p >= least)) return;
    if (static_cast<std::int64_t>(answers.size()) == k) {
      if (!is_better(answer, answers.front())) return;
      std::pop_heap(answers.begin(), answers.end(), is_better);
      answers.pop_back();
    }
    answers.push_back(answer);
    std::push_heap(answers.begin(), answers.end(), is_better);
  }

  void score_all(std::int64_t k, double least, Memory& memory, Answers& answers) const {
    const std::int64_t labels = dictionary_.labels();
    const auto size = static_cast<std::size_t>(labels);
    memory.score.resize(size);
    kernels().text.dots(output_.data(), stride_, labels, memory.hidden.data(), memory.score.data());
    if (loss_ == TextLoss::softmax) {
      memory.none.resize(size);
      memory.p.resize(size);
      kernels().loglinear.softmax(memory.score.data(), memory.none.data(), static_cast<int>(labels),
                                  memory.p.data());
      memory.score.swap(memory.p);
    } else {
      for (double& s : memory.score) s = 1.0 / (1.0 + std::exp(-s));
    }
    for (std::size_t y = 0; y < size; ++y)
      insert_if_best({static_cast<std::int32_t>(y), memory.score[y] + kAdded}, k, least, answers);
  }

  // Searches the tree depth first, the more likely child first. Nodes that cannot lead to one of the
  // best k labels are skipped.
  void search(std::int64_t k, double least, Memory& memory, Answers& answers) const {
    const auto labels = static_cast<std::int32_t>(dictionary_.labels());
    const auto dot = kernels().text.dots;
    std::vector<Step>& steps = memory.steps;
    steps.assign(1, {labels > 1 ? 2 * labels - 2 : 0, 1.0});
    PollEvery poll(16 + stride_);
    while (!steps.empty()) {
      poll.step();
      const auto [node, p] = steps.back();
      steps.pop_back();
      const bool is_full = static_cast<std::int64_t>(answers.size()) == k;
      if (p * max_factor_ < (is_full ? answers.front().p : least)) continue;
      if (node < labels) {
        insert_if_best({node, p}, k, least, answers);
        continue;
      }
      const auto inner = static_cast<std::size_t>(node - labels);
      double score = 0.0;
      dot(output_.data() + inner * static_cast<std::size_t>(stride_), stride_, 1, memory.hidden.data(),
          &score);
      const double right = 1.0 / (1.0 + std::exp(-score)), left = 1.0 - right;
      Step sides[2] = {{child_[2 * inner], p * (left + kAdded)},
                       {child_[2 * inner + 1], p * (right + kAdded)}};
      if (left > right) std::swap(sides[0], sides[1]);
      steps.insert(steps.end(), {sides[0], sides[1]});
    }
  }

  TextDictionary dictionary_;
  TextMatrix input_;
  TextLoss loss_;
  std::int64_t stride_;              // the stride of output_: dim, rounded up
  std::vector<float> output_;        // (labels, stride)
  std::vector<std::int32_t> child_;  // see HuffmanTree
  double max_factor_ = 1.0;  // an upper bound of the factor by which the rest of a path can raise p
};

}  // namespace trellis
