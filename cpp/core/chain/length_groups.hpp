// Sequences of about one length, in groups that go through a kernel side by side.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "chain/types.hpp"

namespace trellis {

class LengthGroups {
 public:
  // Sequences longer than `alone_above` get a group of their own.
  LengthGroups(const std::int64_t* lengths, std::int64_t count, std::int64_t alone_above) {
    sort(lengths, count);
    for (std::int64_t i = 0; i < count;) {
      first_.push_back(i);
      const bool alone = lengths[order_[i]] > alone_above;
      i = alone ? i + 1 : std::min<std::int64_t>(i + kGroup, count);
    }
    first_.push_back(count);
    rows_ = std::accumulate(lengths, lengths + count, std::int64_t{0});
    longest_ = count == 0 ? 0 : lengths[order_[0]];
  }

  std::int64_t count() const { return static_cast<std::int64_t>(first_.size()) - 1; }
  std::int64_t rows() const { return rows_; }
  std::int64_t longest() const { return longest_; }
  int size(std::int64_t g) const { return static_cast<int>(first_[g + 1] - first_[g]); }

  // The n-th longest sequence; the r-th of group g.
  std::int64_t sequence(std::int64_t n) const { return order_[n]; }
  std::int64_t sequence(std::int64_t g, int r) const { return order_[first_[g] + r]; }

  // What will follow in the place of the r-th sequence of group g, for prefetching; -1 if nothing.
  std::int64_t next(std::int64_t g, int r) const {
    const std::int64_t n = first_[g + 1] + r;
    return n < static_cast<std::int64_t>(order_.size()) ? order_[n] : -1;
  }

  // Into how many tasks of neighbouring groups to cut the work, and where task c begins.
  std::int64_t tasks(int threads) const {
    const std::int64_t size = std::clamp<std::int64_t>(count() / (8 * threads), 1, 8);
    return (count() + size - 1) / size;
  }
  std::int64_t begin(std::int64_t c, std::int64_t tasks) const { return c * count() / tasks; }

 private:
  // Longest first, ties in the order given: groups then waste no steps. By counting where that pays, as
  // sorting would cost a noticeable part of the whole.
  void sort(const std::int64_t* lengths, std::int64_t count) {
    order_.resize(static_cast<std::size_t>(count));
    const std::int64_t longest = count == 0 ? 0 : *std::max_element(lengths, lengths + count);
    if (longest > 4 * count + 1024) {
      std::iota(order_.begin(), order_.end(), std::int64_t{0});
      std::stable_sort(order_.begin(), order_.end(),
                       [lengths](std::int64_t a, std::int64_t b) { return lengths[a] > lengths[b]; });
      return;
    }
    std::vector<std::int64_t> place(static_cast<std::size_t>(longest) + 2, 0);
    for (std::int64_t i = 0; i < count; ++i) ++place[longest - lengths[i] + 1];
    std::partial_sum(place.begin(), place.end(), place.begin());
    for (std::int64_t i = 0; i < count; ++i) order_[place[longest - lengths[i]]++] = i;
  }

  std::vector<std::int64_t> order_;  // sequences, longest first
  std::vector<std::int64_t> first_;  // group g is order_[first_[g]] .. order_[first_[g + 1]]
  std::int64_t rows_ = 0, longest_ = 0;
};

}  // namespace trellis
