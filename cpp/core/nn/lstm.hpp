// A bidirectional LSTM over packed sequences: validates the steps, packs U, and runs the kernels on
// threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/aligned.hpp"
#include "base/thread_pool.hpp"
#include "nn/lstm_types.hpp"

namespace trellis {

// The number of sequences per task. It is fixed, so that the tiles, and the bits of the result, do not
// depend on the number of threads.
inline constexpr std::int64_t kLstmGroup = 16;

// The sizes of the steps, copied and validated.
class LstmSteps {
 public:
  LstmSteps(const std::int64_t* sizes, std::int64_t steps, std::int64_t tokens)
      : sizes_(sizes, sizes + steps) {
    begin_.reserve(sizes_.size());
    std::int64_t n_read = 0;
    for (std::size_t t = 0; t < sizes_.size(); ++t) {
      const std::int64_t max_size = t == 0 ? tokens : sizes_[t - 1];
      const std::string place = "sizes[" + std::to_string(t) + "] is " + std::to_string(sizes_[t]);
      if (sizes_[t] < 1 || sizes_[t] > max_size)
        throw std::invalid_argument(place + ": must be from 1 to " + std::to_string(max_size));
      if (sizes_[t] > tokens - n_read)
        throw std::invalid_argument(place + ": more than the " + std::to_string(tokens) + " tokens");
      begin_.push_back(n_read);
      n_read += sizes_[t];
    }
    if (n_read != tokens)
      throw std::invalid_argument("sizes has " + std::to_string(n_read) +
                                  " tokens, but the arrays have " + std::to_string(tokens));
  }

  std::int64_t sequences() const { return sizes_.empty() ? 0 : sizes_[0]; }

  // Returns a view, which is valid while this object exists.
  LstmBatch batch(std::int64_t hidden) const {
    return {hidden, static_cast<std::int64_t>(sizes_.size()), sizes_.data(), begin_.data()};
  }

 private:
  std::vector<std::int64_t> sizes_, begin_;
};

namespace lstm_detail {

// An array of floats that is aligned to cache lines, and to huge pages if it is large.
using Floats = std::vector<float, TableAllocator<float>>;

// Calls walk(part, packed U, scratch) for both directions of all groups of sequences.
template <class Pack, class Walk>
void run(const LstmSteps& steps, std::int64_t hidden, const float* u, int threads, const Pack& pack,
         const Walk& walk) {
  const std::int64_t size = lstm_packed(hidden);
  Floats packed(static_cast<std::size_t>(2 * size));
  parallel_for(2, threads, [&] {
    return [&](std::int64_t direction) {
      pack(u + direction * 4 * hidden * hidden, hidden, &packed[direction * size]);
    };
  });
  const std::int64_t groups = (steps.sequences() + kLstmGroup - 1) / kLstmGroup;
  parallel_for(2 * groups, threads, [&] {
    return [&, carry = Floats()](std::int64_t task) mutable {
      const std::int64_t first = task / 2 * kLstmGroup;
      const LstmPart part{.way = static_cast<int>(task % 2),
                          .first = first,
                          .last = std::min(first + kLstmGroup, steps.sequences())};
      walk(part, &packed[part.way * size], carry);
    };
  });
}

}  // namespace lstm_detail

// u is (2, 4 hidden, hidden).
inline void lstm_forward(const LstmKernels& kernels, const LstmSteps& steps, std::int64_t hidden,
                         const float* u, const LstmForward& arrays, int threads) {
  const LstmBatch batch = steps.batch(hidden);
  lstm_detail::run(steps, hidden, u, threads, kernels.pack_forward,
                   [&](const LstmPart& part, const float* packed, lstm_detail::Floats&) {
                     kernels.forward(batch, part, packed, arrays);
                   });
}

// u is (2, 4 hidden, hidden).
inline void lstm_backward(const LstmKernels& kernels, const LstmSteps& steps, std::int64_t hidden,
                          const float* u, const LstmBackward& arrays, int threads) {
  const LstmBatch batch = steps.batch(hidden);
  lstm_detail::run(steps, hidden, u, threads, kernels.pack_backward,
                   [&](const LstmPart& part, const float* packed, lstm_detail::Floats& carry) {
                     carry.resize(static_cast<std::size_t>((part.last - part.first) * hidden));
                     kernels.backward(batch, part, packed, arrays, carry.data());
                   });
}

}  // namespace trellis
