// Label bigrams, few of which have a weight, and forward-backward that processes only these bigrams
// (chain/sparse.hpp).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "base/aligned.hpp"
#include "dispatch.hpp"
#include "loglinear/row_plan.hpp"

namespace trellis {

class SparseBigrams {
 public:
  // The largest length. All rows of eight sequences are in memory at once, so longer sequences use the
  // dense kernels. The limit was chosen by hand.
  static constexpr std::int64_t kLongest = 2000;

  // Returns whether at most half of all bigrams have a weight. Otherwise the dense kernels are used. The
  // limit was chosen by hand.
  static bool are_few(const WeightLayout& layout) {
    return 2 * layout.bigrams <= static_cast<std::int64_t>(layout.labels) * layout.labels;
  }

  explicit SparseBigrams(const WeightLayout& layout)
      : layout_(layout), from_begin_(layout.labels + 1, 0), to_begin_(layout.labels + 1, 0) {
    const int labels = layout.labels;
    for (std::int64_t k = 0; k < layout.bigrams; ++k) {
      ++from_begin_[layout.bigram[k] / labels + 1];
      ++to_begin_[layout.bigram[k] % labels + 1];
      to_.push_back(static_cast<std::uint16_t>(layout.bigram[k] % labels));
    }
    std::partial_sum(from_begin_.begin(), from_begin_.end(), from_begin_.begin());
    std::partial_sum(to_begin_.begin(), to_begin_.end(), to_begin_.begin());
    std::vector<std::int32_t> next(to_begin_.begin(), to_begin_.end());
    place_by_to_.resize(layout.bigrams);
    from_.resize(layout.bigrams);
    for (std::int64_t k = 0; k < layout.bigrams; ++k) {
      const std::int32_t place = next[layout.bigram[k] % labels]++;
      place_by_to_[k] = place;
      from_[place] = static_cast<std::uint16_t>(layout.bigram[k] / labels);
    }
  }

  // Computes exp(w) - 1. Returns false if a weight is too small or too large: in 1 + (exp(w) - 1), a
  // weight of -12 has lost 5 of 16 digits, and exp(300) squared would overflow.
  bool prepare(const double* w) {
    constexpr double kLowestWeight = -12.0, kHighestWeight = 300.0;
    const auto is_in_range = [](double x) { return x >= kLowestWeight && x < kHighestWeight; };
    if (!std::all_of(w, w + layout_.bigrams, is_in_range)) return false;
    value_.resize(layout_.bigrams);
    value_by_to_.resize(layout_.bigrams);
    for (std::int64_t k = 0; k < layout_.bigrams; ++k) {
      value_[k] = value_by_to_[place_by_to_[k]] = std::expm1(w[k]);
    }
    return true;
  }

  // Computes `out` = weight * p(y_t), (rows, labels), and `log_z`. Adds the pairwise marginals, still
  // without the factor exp(bigram weight), to `counts`, (bigrams, kLanes). Processes eight sequences of
  // similar length at a time.
  void marginals(const std::vector<const double*>& unary, const std::vector<std::int64_t>& lengths,
                 const std::vector<std::int64_t>& starts, const std::vector<double>& weights,
                 double* out, Scratch& scratch, double* counts, double* log_z) const {
    const auto count = static_cast<std::int64_t>(lengths.size());
    std::vector<std::int64_t> order(count);
    std::iota(order.begin(), order.end(), std::int64_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t a, std::int64_t b) { return lengths[a] > lengths[b]; });
    for (std::int64_t begin = 0; begin < count; begin += kLanes) {
      SparseChain c = chain(counts);
      const int lanes = static_cast<int>(std::min<std::int64_t>(kLanes, count - begin));
      for (int lane = 0; lane < lanes; ++lane) {
        const std::int64_t n = order[begin + lane];
        c.length[lane] = lengths[n];
        c.unary[lane] = unary[n];
        c.out[lane] = out + starts[n] * layout_.labels;
        c.weight[lane] = weights[n];
      }
      kernels().loglinear.sparse_marginals(c, scratch.get((2 * c.length[0] + 1) * c.labels * kLanes));
      for (int lane = 0; lane < lanes; ++lane) log_z[order[begin + lane]] = c.log_z[lane];
    }
  }

  // Sums the counts over the lanes, multiplies them by exp(bigram weight), and adds them to a matrix,
  // (labels, stride).
  void add_counts(const double* counts, int stride, double* matrix) const {
    for (std::int64_t k = 0; k < layout_.bigrams; ++k) {
      const std::int64_t a = layout_.bigram[k] / layout_.labels, b = layout_.bigram[k] % layout_.labels;
      const double* lanes = counts + k * kLanes;
      matrix[a * stride + b] += std::accumulate(lanes, lanes + kLanes, 0.0) * (1.0 + value_[k]);
    }
  }

 private:
  SparseChain chain(double* counts) const {
    SparseChain c{};
    c.labels = layout_.labels;
    c.from_begin = from_begin_.data();
    c.to = to_.data();
    c.value = value_.data();
    c.to_begin = to_begin_.data();
    c.from = from_.data();
    c.value_by_to = value_by_to_.data();
    c.counts = counts;
    return c;
  }

  WeightLayout layout_;
  std::vector<std::int32_t> from_begin_, to_begin_;  // (labels + 1): bigrams by first, by second label
  std::vector<std::int32_t> place_by_to_;            // (bigrams): the place in the order by second label
  std::vector<std::uint16_t> from_, to_;             // (bigrams): see SparseChain
  std::vector<double> value_, value_by_to_;          // (bigrams): exp(w) - 1
};

}  // namespace trellis
