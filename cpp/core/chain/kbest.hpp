// The k best paths, exact.
//
// The k best paths that end in label b at position t extend the k best paths of each label a at t-1. For
// each (t, b) a heap holds one candidate per a: its best path that has not been taken yet. Each time,
// the top is taken and replaced by the next path of the same a. So paths come out in order, and since
// each (a, rank) is taken once, they are distinct.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "base/poll.hpp"
#include "chain/types.hpp"

namespace trellis {

class KBest {
 public:
  KBest(int labels, std::int64_t k) : labels_(labels), k_(k) {}

  // Finds the paths and returns their number, at most k. transition(t, a, b) scores the step into
  // position t; unary(t, b) includes start and end scores.
  template <class Unary, class Transition>
  std::int64_t search(std::int64_t length, const Unary& unary, const Transition& transition) {
    length_ = length;
    entries_.clear();
    first_.assign(1, 0);
    for (int b = 0; b < labels_; ++b) {
      const double score = unary(0, b);
      if (score > -kInfinity) entries_.push_back({score, 0, 0});
      first_.push_back(static_cast<std::int64_t>(entries_.size()));
    }
    PollEvery poll(labels_ * (kRowCost + labels_ + 16 * std::min<std::int64_t>(k_, kMaxLabels)));
    for (std::int64_t t = 1; t < length; ++t) {
      poll.step();
      for (int b = 0; b < labels_; ++b) extend(t, b, unary(t, b), transition);
    }
    return finish();
  }

  // Returns the number of allowed paths, at most k.
  template <class Unary, class Transition>
  std::int64_t count(std::int64_t length, const Unary& unary, const Transition& transition) const {
    std::vector<std::int64_t> before(static_cast<std::size_t>(labels_), 0), here(before);
    for (int b = 0; b < labels_; ++b) before[b] = unary(0, b) > -kInfinity ? 1 : 0;
    PollEvery poll(4 * labels_);
    for (std::int64_t t = 1; t < length; ++t) {
      for (int b = 0; b < labels_; ++b) {
        poll.step();
        here[b] = 0;
        if (unary(t, b) == -kInfinity) continue;
        for (int a = 0; a < labels_; ++a) {  // the sum fits: the caller limits k to 2^36
          if (transition(t, a, b) > -kInfinity) here[b] = std::min(k_, here[b] + before[a]);
        }
      }
      std::swap(before, here);
    }
    std::int64_t total = 0;
    for (const std::int64_t paths : before) total = std::min(k_, total + paths);
    return total;
  }

  double score(std::int64_t rank) const { return final_[rank].score; }

  // Writes the labels, (length), of the path with this rank.
  void path(std::int64_t rank, std::int64_t* labels) const {
    std::int64_t label = final_[rank].label;
    std::int64_t rank_here = final_[rank].rank;
    for (std::int64_t t = length_ - 1; t >= 0; --t) {
      labels[t] = label;
      const Entry& entry = entries_[static_cast<std::size_t>(cell(t, label) + rank_here)];
      label = entry.label;
      rank_here = entry.rank;
    }
  }

 private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  struct Entry {  // a path; label and rank say which path of the position before it extends
    double score;
    std::int32_t label;
    std::int64_t rank;
  };
  static bool is_worse(const Entry& a, const Entry& b) {
    if (a.score != b.score) return a.score < b.score;
    return std::pair(a.label, a.rank) > std::pair(b.label, b.rank);
  }

  std::int64_t cell(std::int64_t t, std::int64_t b) const {
    return first_[static_cast<std::size_t>(t * labels_ + b)];
  }
  std::int64_t path_count(std::int64_t t, std::int64_t b) const {
    return first_[static_cast<std::size_t>(t * labels_ + b) + 1] - cell(t, b);
  }

  // Appends up to k entries, best first. The heap starts with the best candidate of each label, and only
  // the k best of these are kept: a label whose best candidate is not among them has none of the k best
  // paths.
  template <class Score>
  void append_best(std::int64_t t_before, const Score& score_of, std::vector<Entry>& entries) {
    heap_.clear();
    for (int a = 0; a < labels_; ++a) {
      if (path_count(t_before, a) == 0) continue;
      const double score = score_of(a, entries_[static_cast<std::size_t>(cell(t_before, a))].score);
      if (score > -kInfinity) heap_.push_back({score, a, 0});
    }
    if (static_cast<std::int64_t>(heap_.size()) > k_) {
      const auto is_better = [](const Entry& x, const Entry& y) { return is_worse(y, x); };
      std::nth_element(heap_.begin(), heap_.begin() + k_ - 1, heap_.end(), is_better);
      heap_.resize(static_cast<std::size_t>(k_));
    }
    std::make_heap(heap_.begin(), heap_.end(), is_worse);
    for (std::int64_t count = 0; count < k_ && !heap_.empty(); ++count) {
      std::pop_heap(heap_.begin(), heap_.end(), is_worse);
      Entry& best = heap_.back();
      entries.push_back(best);
      if (++best.rank < path_count(t_before, best.label)) {
        const auto next = static_cast<std::size_t>(cell(t_before, best.label) + best.rank);
        best.score = score_of(best.label, entries_[next].score);
        std::push_heap(heap_.begin(), heap_.end(), is_worse);
      } else {
        heap_.pop_back();
      }
    }
  }

  template <class Transition>
  void extend(std::int64_t t, int b, double unary, const Transition& transition) {
    if (unary > -kInfinity) {
      append_best(
          t - 1, [&](int a, double before) { return before + transition(t, a, b) + unary; }, entries_);
    }
    first_.push_back(static_cast<std::int64_t>(entries_.size()));
  }

  std::int64_t finish() {
    final_.clear();
    append_best(length_ - 1, [](int, double before) { return before; }, final_);
    return static_cast<std::int64_t>(final_.size());
  }

  int labels_;
  std::int64_t k_;
  std::int64_t length_ = 0;
  std::vector<Entry> entries_;       // the entries of all (t, b), one after the other
  std::vector<std::int64_t> first_;  // (length * labels + 1): where the entries of each (t, b) begin
  std::vector<Entry> heap_;          // the next candidate of each label
  std::vector<Entry> final_;         // (paths): the k best paths, best first
};

}  // namespace trellis
