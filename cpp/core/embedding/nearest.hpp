// Exact search for the k rows of a table nearest to each query, on several threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <mutex>
#include <vector>

#include "base/thread_pool.hpp"
#include "dispatch.hpp"

namespace trellis {

// The best rows of several queries; owns their memory.
class BestLists {
 public:
  BestLists(std::int64_t queries, std::int64_t capacity, std::int64_t k)
      : k_(k),
        score_(static_cast<std::size_t>(capacity * k), -kNone),
        id_(static_cast<std::size_t>(capacity * k), -1),
        floor_(static_cast<std::size_t>(capacity), kNone) {  // +inf in unused lanes: nothing beats it
    std::fill_n(floor_.begin(), queries, -kNone);
  }

  NearestBest view() { return {score_.data(), id_.data(), k_, floor_.data()}; }

  // Merges another list. The result is sorted: best first, among equal scores the lowest id first.
  // `keep` in nearest_kernels.hpp has the same order.
  void merge(const BestLists& other, std::int64_t queries) {
    std::vector<float> score(static_cast<std::size_t>(k_));
    std::vector<std::int64_t> id(static_cast<std::size_t>(k_));
    PollEvery poll(8 * k_);
    for (std::int64_t q = 0; q < queries; ++q) {
      poll.step();
      std::int64_t a = q * k_, b = q * k_;
      for (std::int64_t i = 0; i < k_; ++i) {
        const bool take_this =
            score_[a] > other.score_[b] ||
            (score_[a] == other.score_[b] && (id_[a] < other.id_[b] || other.id_[b] < 0));
        score[i] = take_this ? score_[a] : other.score_[b];
        id[i] = take_this ? id_[a++] : other.id_[b++];
      }
      std::copy(score.begin(), score.end(), score_.begin() + q * k_);
      std::copy(id.begin(), id.end(), id_.begin() + q * k_);
    }
  }

 private:
  static constexpr float kNone = std::numeric_limits<float>::infinity();
  std::int64_t k_;
  std::vector<float> score_;
  std::vector<std::int64_t> id_;
  std::vector<float> floor_;
};

// Queries padded like the rows of bytes, and upper bounds of their norms.
class PaddedQueries {
 public:
  PaddedQueries(const float* queries, std::int64_t count, std::int64_t dim)
      : queries_(queries), padded_(static_cast<std::size_t>(count * coarse_stride(dim))) {
    for (std::int64_t q = 0; q < count; ++q) {
      std::copy_n(queries + q * dim, dim, padded_.begin() + q * coarse_stride(dim));
      double square = 0.0;
      for (std::int64_t d = 0; d < dim; ++d)
        square += static_cast<double>(queries[q * dim + d]) * static_cast<double>(queries[q * dim + d]);
      length_.push_back(static_cast<float>(std::sqrt(square) * (1.0 + 1e-6)));
    }
  }

  // Returns whether all lengths are far from the limits of floats. Only then are the rounding bounds
  // valid.
  bool fit() const {
    return std::all_of(length_.begin(), length_.end(), [](float x) { return x > 1e-3f && x < 1e3f; });
  }
  CoarseQueries view() const {
    return {.rows = queries_,
            .padded = padded_.data(),
            .length = length_.data(),
            .count = static_cast<std::int64_t>(length_.size())};
  }

 private:
  const float* queries_;
  std::vector<float> padded_, length_;
};

// A search: queries and results.
struct NearestSearch {
  const float* queries;  // (count, dim)
  std::int64_t count, k;
  float* score;      // (count, k); -inf if there are fewer than k rows
  std::int64_t* id;  // (count, k); -1 if there are fewer than k rows
};

// Searches rows [0, rows) of the table; `coarse` has the same rows as bytes, or is null.
inline void nearest(const NearestRows& table, const CoarseRows* coarse, std::int64_t rows,
                    const NearestSearch& search, int threads) {
  const float* queries = search.queries;
  const std::int64_t count = search.count, k = search.k;
  constexpr std::int64_t kFew = 6;  // fewer queries are not packed; chosen by hand
  constexpr std::int64_t kTask =
      1920;  // rows per task: a multiple of kRowBlock of every instruction set
  const NearestKernels& kernel = kernels().nearest;
  const bool few = count < kFew;
  const std::int64_t groups = (count + kernel.lanes - 1) / kernel.lanes;
  const std::int64_t capacity = few ? count : groups * kernel.lanes;
  std::vector<float> packed(few ? 0 : static_cast<std::size_t>(capacity * table.dim));
  if (!few) kernel.pack(queries, count, table.dim, packed.data());
  const PaddedQueries padded(queries, few && coarse != nullptr ? count : 0, table.dim);
  const bool by_bytes = few && coarse != nullptr && padded.fit();
  BestLists total(count, capacity, k);
  std::mutex mutex;
  const std::int64_t tasks = (rows + kTask - 1) / kTask;
  std::atomic<std::int64_t> next{0};
  const auto body = [&] {
    BestLists best(count, capacity, k);
    for (std::int64_t t = next++; t < tasks; t = next++) {
      poll_interrupt();
      const std::int64_t begin = t * kTask, end = std::min(rows, begin + kTask);
      if (by_bytes) {
        kernel.coarse(table, *coarse, begin, end, padded.view(), best.view());
      } else if (few) {
        kernel.few(table, begin, end, queries, count, best.view());
      } else {
        kernel.many(table, begin, end, packed.data(), groups, best.view());
      }
    }
    const std::lock_guard lock(mutex);
    total.merge(best, count);
  };
  ThreadPool::shared().run(static_cast<int>(std::clamp<std::int64_t>(tasks, 1, threads)), body);
  const NearestBest result = total.view();
  std::copy_n(result.score, count * k, search.score);
  std::copy_n(result.id, count * k, search.id);
}

}  // namespace trellis
