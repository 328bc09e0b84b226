// Groups sequences of similar length. A kernel processes the sequences of a group at the same time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "chain/types.hpp"

namespace trellis {

class LengthGroups {
 public:
  // Each sequence longer than `alone_above` gets its own group.
  LengthGroups(const std::int64_t* lengths, std::int64_t count, std::int64_t alone_above) {
    sort(lengths, count);
    for (std::int64_t i = 0; i < count;) {
      first_.push_back(i);
      const bool is_single_group = lengths[order_[i]] > alone_above;
      i = is_single_group ? i + 1 : std::min<std::int64_t>(i + kGroup, count);
    }
    first_.push_back(count);
    rows_ = std::accumulate(lengths, lengths + count, std::int64_t{0});
    longest_ = count == 0 ? 0 : lengths[order_[0]];
  }

  std::int64_t count() const { return static_cast<std::int64_t>(first_.size()) - 1; }
  std::int64_t rows() const { return rows_; }
  std::int64_t longest() const { return longest_; }
  int size(std::int64_t g) const { return static_cast<int>(first_[g + 1] - first_[g]); }

  // Returns the index of the n-th longest sequence, or of the r-th sequence of group g.
  std::int64_t sequence(std::int64_t n) const { return order_[n]; }
  std::int64_t sequence(std::int64_t g, int r) const { return order_[first_[g] + r]; }

  // Returns the r-th sequence of the group after g, which can be prefetched; -1 if there is none.
  std::int64_t next(std::int64_t g, int r) const {
    const std::int64_t n = first_[g + 1] + r;
    return n < static_cast<std::int64_t>(order_.size()) ? order_[n] : -1;
  }

  // Return the number of tasks to divide the groups into, and the first group of task c. Eight tasks per
  // thread balance the load; up to eight groups per task keep the overhead low. Both numbers were chosen
  // by hand.
  std::int64_t tasks(int threads) const {
    const std::int64_t size = std::clamp<std::int64_t>(count() / (8 * threads), 1, 8);
    return (count() + size - 1) / size;
  }
  std::int64_t begin(std::int64_t c, std::int64_t tasks) const { return c * count() / tasks; }

 private:
  // Sorts the longest sequences first, ties in the caller's order. The sequences of a group then end at
  // about the same step. A counting sort is used unless the longest sequence is much longer than the
  // number of sequences.
  void sort(const std::int64_t* lengths, std::int64_t count) {
    order_.resize(static_cast<std::size_t>(count));
    const std::int64_t longest = count == 0 ? 0 : *std::max_element(lengths, lengths + count);
    if (longest > 4 * count + 1024) {  // the histogram would be much longer than the batch
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

  std::vector<std::int64_t> order_;  // (count): sequences, longest first
  std::vector<std::int64_t>
      first_;  // (groups + 1): group g is order_[first_[g]] .. order_[first_[g + 1] - 1]
  std::int64_t rows_ = 0, longest_ = 0;
};

}  // namespace trellis
