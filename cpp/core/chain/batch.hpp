// Runs the chain kernels on a batch of sequences: groups them, assigns them to threads, provides scratch
// memory, chooses between scaled probabilities and log space, and sums in an order that does not depend
// on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/aligned.hpp"
#include "base/poll.hpp"
#include "base/thread_pool.hpp"
#include "chain/batch_memory.hpp"
#include "chain/kbest.hpp"
#include "chain/length_groups.hpp"
#include "chain/paths.hpp"
#include "chain/shared_scores.hpp"
#include "chain/types.hpp"

namespace trellis {

// Whether a batch computes probabilities, or only paths. Paths (best paths and samples) do not need
// exp(transition), so it is not computed for them.
enum class Purpose { probabilities, paths };

template <class T>
class ChainBatch {
 public:
  // The number of rows of scratch memory per sequence. A longer sequence is divided into blocks of this
  // size. Only one row per block is stored, and the backward pass repeats the forward pass of each
  // block. This needs little memory. The value was chosen by hand; it has not been measured since.
  static constexpr std::int64_t kBlockRows = 1024;

  using Memory = BatchMemory;
  using Meanwhile = std::function<void()>;  // run by the caller's thread while the other threads compute

  ChainBatch(const Batch<T>& batch, const ChainKernels<T>& kernels, int threads, Purpose purpose)
      : ChainBatch(batch, kernels, threads,
                   std::make_shared<SharedScores>(batch, purpose == Purpose::probabilities)) {}

  // Uses shared scores that the caller provides. Several batches may use the same object.
  ChainBatch(const Batch<T>& batch, const ChainKernels<T>& kernels, int threads,
             std::shared_ptr<const SharedScores> shared)
      : batch_(batch),
        kernels_(kernels),
        shared_(std::move(shared)),
        s_(shared_->view()),
        // A sequence is alone in its group if it has several blocks or its own transition matrices.
        groups_(batch.lengths, batch.count, s_.log == nullptr ? 0 : kBlockRows) {
    // A batch with fewer label pairs runs on one thread, because waking a thread takes time. The value
    // was chosen by hand.
    constexpr double kMinThreadedPairs = 1'000'000;
    const double pairs = static_cast<double>(groups_.rows()) * batch.labels * batch.labels;
    threads_ = pairs < kMinThreadedPairs ? 1 : threads;
  }

  // Computes log Z of each sequence; log_z and outcomes are (count).
  void log_partition(double* log_z, Outcome* outcomes) const {
    const std::int64_t chunks = groups_.tasks(threads_);
    parallel_for(chunks, threads_, [&] {
      return [&, this, memory = Memory(s_, kForwardRows)](std::int64_t c) mutable {
        PollEvery poll(kPollCost);
        for (std::int64_t g = groups_.begin(c, chunks); g < groups_.begin(c + 1, chunks); ++g) {
          poll.step();
          Lane<T> lanes[kGroup]{};
          const int count = open(g, nullptr, memory, kForwardRows, lanes);
          forward_only(lanes, count);
          for (int r = 0; r < count; ++r) {
            const std::int64_t i = groups_.sequence(g, r);
            log_z[i] = lanes[r].log_z;
            if (lanes[r].outcome.status == Status::needs_log_space) {
              lanes[r].outcome = log_forward(lanes[r].sequence, memory, &log_z[i]);
            }
            outcomes[i] = lanes[r].outcome;
          }
        }
      };
    });
  }

  // Computes unary marginals, log Z and, if requested, pairwise marginals or their sum.
  void marginals(const MarginalsOut<T>& out, const Meanwhile& meanwhile = nullptr) const {
    const std::int64_t chunks = out.counts == nullptr ? groups_.tasks(threads_) : reduction_chunks();
    const std::int64_t square = static_cast<std::int64_t>(s_.labels) * s_.stride;
    AlignedDoubles counts;  // (chunks, labels, stride): one partial sum per chunk
    if (out.counts != nullptr) {
      counts = aligned_doubles(chunks * square);
      std::fill(counts.get(), counts.get() + chunks * square, 0.0);
    }
    const auto make_worker = [&] {
      return [&, this, memory = Memory(s_, block_rows())](std::int64_t c) mutable {
        double* chunk_counts = out.counts == nullptr ? nullptr : counts.get() + c * square;
        PollEvery poll(kPollCost);
        for (std::int64_t g = groups_.begin(c, chunks); g < groups_.begin(c + 1, chunks); ++g) {
          poll.step();
          scaled_group(g, out, memory, chunk_counts);
        }
        // Scaled counts lack the factor exp(transition), but counts in log space contain it. So the
        // scaled counts are multiplied before the counts in log space are added.
        if (chunk_counts != nullptr && s_.weight != nullptr) {
          for (std::int64_t i = 0; i < square; ++i) chunk_counts[i] *= s_.weight[i];
        }
        for (const std::int64_t i : memory.needs_log_space) log_marginals(i, out, memory, chunk_counts);
        memory.needs_log_space.clear();
      };
    };
    parallel_for(chunks, threads_, make_worker, meanwhile);
    if (out.counts != nullptr) add_chunks(counts.get(), chunks, out.counts);
  }

  // Does the same as marginals(), on the caller's thread and with the caller's memory. Counts are added
  // to two (labels, stride) matrices: scaled_counts must still be multiplied by the shared weights,
  // log_counts must not.
  void marginals_here(const MarginalsOut<T>& out, Memory& memory, double* scaled_counts,
                      double* log_counts) const {
    memory.needs_log_space.clear();
    for (std::int64_t g = 0; g < groups_.count(); ++g) scaled_group(g, out, memory, scaled_counts);
    for (const std::int64_t i : memory.needs_log_space) log_marginals(i, out, memory, log_counts);
  }

  // Computes the best path of each sequence. labels has one entry per row; score and outcomes are
  // (count).
  void viterbi(std::int64_t* labels, double* score, Outcome* outcomes,
               const Meanwhile& meanwhile = nullptr) const {
    for_each_max_group(outcomes, meanwhile, [&](const MaxGroup& group, double* scratch) {
      std::int64_t* paths[kGroup];
      double best[kGroup];
      for (int r = 0; r < group.count; ++r) paths[r] = labels + batch_.starts[group.index[r]];
      kernels_.best_paths(s_, group.x, group.count, group.rows, scratch, paths, best);
      for (int r = 0; r < group.count; ++r) score[group.index[r]] = best[r];
    });
  }

  // Computes the max-marginals; out is (rows, labels), outcomes is (count).
  void max_marginals(T* out, Outcome* outcomes, const Meanwhile& meanwhile = nullptr) const {
    for_each_max_group(outcomes, meanwhile, [&](const MaxGroup& group, double* scratch) {
      for (int r = 0; r < group.count; ++r) {
        T* to = out + batch_.starts[group.index[r]] * s_.labels;
        kernels_.max_backward(s_, group.x[r], group.rows[r], scratch, to);
      }
    });
  }

  // Computes the entropy of p(y | x) of each sequence; result and outcomes are (count).
  void entropy(double* result, Outcome* outcomes) const {
    for_each_sequence([&](std::int64_t i, double* scratch) {
      outcomes[i] = kernels_.entropy(s_, batch_.sequence(i), scratch, &result[i]);
    });
  }

  // Draws n paths of each sequence. The uniform numbers and the labels of sequence i are (n, length)
  // arrays at offset n * rows_before[i].
  void sample(std::int64_t n, const std::int64_t* rows_before, const double* uniforms,
              std::int64_t* labels, Outcome* outcomes) const {
    parallel_for(batch_.count, threads_, [&] {
      return [&, this, memory = Memory(s_, 0)](std::int64_t task) mutable {
        const std::int64_t i = groups_.sequence(task);
        const Sequence<T> x = batch_.sequence(i);
        double log_z;
        outcomes[i] = log_forward(x, memory, &log_z);
        if (outcomes[i].status != Status::ok) return;
        const std::int64_t offset = n * rows_before[i];
        kernels_.sample(s_, x, memory.rows.get(x.length * s_.stride), memory.scratch.get(),
                        uniforms + offset, n, labels + offset);
      };
    });
  }

  // Computes up to k best paths of each sequence, laid out as in sample(); path_counts[i] is the number
  // of paths of sequence i.
  void kbest(std::int64_t k, const std::int64_t* rows_before, std::int64_t* labels, double* scores,
             std::int64_t* path_counts) const {
    const ChainPaths<T> paths(batch_, s_);
    parallel_for(batch_.count, threads_, [&] {
      return [&, this, search = KBest(s_.labels, k)](std::int64_t task) mutable {
        const std::int64_t i = groups_.sequence(task);
        const Sequence<T> x = batch_.sequence(i);
        const std::int64_t path_count = search.search(
            x.length, [&](std::int64_t t, int b) { return paths.unary(x, t, b); },
            [&](std::int64_t t, int a, int b) { return paths.transition(x, t, a, b); });
        path_counts[i] = path_count;
        for (std::int64_t rank = 0; rank < path_count; ++rank) {
          poll_interrupt();
          scores[i * k + rank] = search.score(rank);
          search.path(rank, labels + k * rows_before[i] + rank * x.length);
        }
      };
    });
  }

  // Counts the allowed paths of each sequence, at most k; path_counts is (count).
  void count_paths(std::int64_t k, std::int64_t* path_counts) const {
    const ChainPaths<T> paths(batch_, s_);
    parallel_for(batch_.count, threads_, [&] {
      return [&, this, search = KBest(s_.labels, k)](std::int64_t task) {
        const std::int64_t i = groups_.sequence(task);
        const Sequence<T> x = batch_.sequence(i);
        path_counts[i] = search.count(
            x.length, [&](std::int64_t t, int b) { return paths.unary(x, t, b); },
            [&](std::int64_t t, int a, int b) { return paths.transition(x, t, a, b); });
      };
    });
  }

  // Fills the tables of chain/tables.hpp: out is (rows, labels), totals and outcomes are (count).
  void alpha_table(double* out, double* log_z, Outcome* outcomes) const {
    for_each_sequence([&](std::int64_t i, double* scratch) {
      double* rows = out + batch_.starts[i] * s_.labels;
      outcomes[i] = kernels_.alpha_table(s_, batch_.sequence(i), scratch, rows, &log_z[i]);
    });
  }
  void beta_table(double* out, double* log_z, Outcome* outcomes) const {
    for_each_sequence([&](std::int64_t i, double* scratch) {
      double* rows = out + batch_.starts[i] * s_.labels;
      outcomes[i] = kernels_.beta_table(s_, batch_.sequence(i), scratch, rows, &log_z[i]);
    });
  }
  // pointers is (rows, labels) too.
  void best_table(double* out, std::int64_t* pointers, double* score, Outcome* outcomes) const {
    for_each_sequence([&](std::int64_t i, double* scratch) {
      const std::int64_t at = batch_.starts[i] * s_.labels;
      outcomes[i] =
          kernels_.best_table(s_, batch_.sequence(i), scratch, out + at, pointers + at, &score[i]);
    });
  }

  // Computes the score of one path per sequence; labels has one entry per row.
  void score(const std::int64_t* labels, double* scores, Outcome* outcomes) const {
    ChainPaths<T>(batch_, s_).score(labels, scores, outcomes);
  }

  // Subtracts the counts of one path per sequence from the expected counts in `out`, and the score of
  // the path from log Z. The results are -log p(path) and its gradient.
  void subtract_paths(const std::int64_t* labels, const MarginalsOut<T>& out) const {
    ChainPaths<T>(batch_, s_).subtract(labels, out);
  }

 private:
  // The cost of a group for PollEvery. Kernels poll too, but each call of a kernel counts from 0 again,
  // so calls for short sequences never poll.
  static constexpr std::int64_t kPollCost = 1 << 14;
  static constexpr std::int64_t kForwardRows = 64;  // rows per block when only log Z is requested

  std::int64_t block_rows() const { return std::min(kBlockRows, groups_.longest()); }
  bool scaled() const { return s_.log != nullptr && s_.scalable; }

  // Calls use(index of the sequence, scratch) for each sequence.
  template <class Use>
  void for_each_sequence(const Use& use) const {
    parallel_for(batch_.count, threads_, [&] {
      return [&, this, scratch = aligned_doubles(scratch_size(s_.labels))](std::int64_t n) mutable {
        use(groups_.sequence(n), scratch.get());
      };
    });
  }

  // Returns the number of partial sums of the counts, which decides the order of the additions. It
  // depends on the batch alone, so that the result has the same bits for any number of threads.
  std::int64_t reduction_chunks() const {
    const std::int64_t bytes = static_cast<std::int64_t>(s_.labels) * s_.stride * 8;
    constexpr std::int64_t kMaxBytes = std::int64_t{64} << 20;  // bytes of all partial sums together
    const std::int64_t max_chunks = std::clamp<std::int64_t>(kMaxBytes / bytes, 2, 32);
    return std::min(groups_.count(), max_chunks);
  }

  // Adds the partial sums, (count, labels, stride), in order: total is (labels, labels).
  void add_chunks(const double* chunks, std::int64_t count, double* total) const {
    PollEvery poll(count * s_.labels);
    for (int a = 0; a < s_.labels; ++a) {
      poll.step();
      for (int b = 0; b < s_.labels; ++b) {
        double sum = 0.0;
        for (std::int64_t c = 0; c < count; ++c) {
          sum += chunks[(c * s_.labels + a) * s_.stride + b];
        }
        total[a * s_.labels + b] = sum;
      }
    }
  }

  // Fills lanes for the sequences of group g, with `block` rows of scratch each; returns their number.
  int open(std::int64_t g, T* out, Memory& memory, std::int64_t block, Lane<T>* lanes) const {
    const int count = groups_.size(g);
    for (int r = 0; r < count; ++r) {
      const std::int64_t i = groups_.sequence(g, r);
      double* alpha = memory.lanes.get() + r * memory.lane_size;
      lanes[r] = {};
      lanes[r].sequence = batch_.sequence(i);
      lanes[r].alpha = alpha;
      lanes[r].emission = alpha + (block + 1) * s_.stride;
      lanes[r].beta = lanes[r].emission + (block + 1) * s_.stride;
      lanes[r].out = out == nullptr ? nullptr : out + batch_.starts[i] * s_.labels;
      lanes[r].product = lanes[r].inverse = 1.0;
      std::fill(lanes[r].low_alpha, lanes[r].low_alpha + kPadding, 1.0);
      if (!scaled()) lanes[r].outcome.status = Status::needs_log_space;
      const std::int64_t next = groups_.next(g, r);
      if (next >= 0) {
        lanes[r].next = batch_.unary[next];
        if (out != nullptr) lanes[r].next_out = out + batch_.starts[next] * s_.labels;
      }
    }
    return count;
  }

  // Computes log Z of a group. Each block needs only the last row of the block before it.
  void forward_only(Lane<T>* lanes, int count) const {
    if (!scaled()) return;
    const std::int64_t longest = lanes[0].sequence.length;
    PollEvery poll(kForwardRows * row_cost(s_));
    for (std::int64_t begin = 0; begin < longest; begin += kForwardRows) {
      poll.step();
      const std::int64_t end = std::min(begin + kForwardRows, longest);
      kernels_.scaled_forward(s_, lanes, count, begin, end);
      for (int r = 0; r < count && lanes[r].sequence.length > end; ++r) {
        const double* last = lanes[r].alpha + (end - begin) * s_.stride;
        std::copy(last, last + s_.stride, lanes[r].alpha);
      }
    }
    for (int r = 0; r < count; ++r) kernels_.scaled_finish(s_, lanes[r]);
  }

  // Computes the marginals of group g. Sequences that need log space are added to
  // memory.needs_log_space.
  void scaled_group(std::int64_t g, const MarginalsOut<T>& out, Memory& memory, double* counts) const {
    Lane<T> lanes[kGroup]{};
    const int count = open(g, out.unary, memory, block_rows(), lanes);
    if (scaled()) scaled_blocks(g, lanes, count, out, memory, counts);
    for (int r = 0; r < count; ++r) {
      const std::int64_t i = groups_.sequence(g, r);
      out.log_z[i] = lanes[r].log_z;
      out.outcomes[i] = lanes[r].outcome;
      if (lanes[r].outcome.status == Status::needs_log_space) memory.needs_log_space.push_back(i);
    }
  }

  // Runs the forward pass over all blocks, then the backward pass from the last block to the first.
  void scaled_blocks(std::int64_t g, Lane<T>* lanes, int count, const MarginalsOut<T>& out,
                     Memory& memory, double* counts) const {
    const std::int64_t block = block_rows(), longest = lanes[0].sequence.length;
    const std::int64_t blocks = (longest + block - 1) / block;
    double* checkpoints = memory.checkpoints.get(blocks * (s_.stride + 1));
    for (std::int64_t b = 0; b < blocks; ++b) {
      const std::int64_t end = std::min((b + 1) * block, longest);
      kernels_.scaled_forward(s_, lanes, count, b * block, end);
      if (b + 1 < blocks) save_checkpoint(lanes[0], checkpoints + b * (s_.stride + 1));
    }
    for (int r = 0; r < count; ++r) {
      kernels_.scaled_finish(s_, lanes[r]);
      // The last beta is multiplied by the weight of the sequence. All other betas are computed from it.
      lanes[r].inverse *= out.weight(groups_.sequence(g, r));
    }
    for (std::int64_t b = blocks - 1; b >= 0; --b) {
      const std::int64_t begin = b * block, end = std::min(begin + block, longest);
      if (b + 1 < blocks) redo_forward(lanes[0], checkpoints, begin, end);
      kernels_.scaled_backward(s_, lanes, count, begin, end);
      for (int r = 0; r < count; ++r) {
        add_pairs(lanes[r], groups_.sequence(g, r), begin, end, out, counts);
      }
    }
  }

  // Stores the last alpha of a block and its inverse sum, (stride + 1), and copies this alpha to row 0,
  // where the next block starts. Only a sequence that is alone in its group has several blocks.
  void save_checkpoint(Lane<T>& lane, double* checkpoint) const {
    const double* last = lane.alpha + block_rows() * s_.stride;
    std::copy(last, last + s_.stride, checkpoint);
    checkpoint[s_.stride] = lane.inverse;
    std::copy(last, last + s_.stride, lane.alpha);
  }

  // Repeats the forward pass of a block from its checkpoint. log Z and the outcome are already known.
  void redo_forward(Lane<T>& lane, const double* checkpoints, std::int64_t begin,
                    std::int64_t end) const {
    const Lane<T> finished = lane;
    lane.inverse = 1.0;
    if (begin > 0) {
      const double* checkpoint = checkpoints + (begin / block_rows() - 1) * (s_.stride + 1);
      std::copy(checkpoint, checkpoint + s_.stride, lane.alpha);
      lane.inverse = checkpoint[s_.stride];
    }
    kernels_.scaled_forward(s_, &lane, 1, begin, end);
    lane = finished;
  }

  // Computes the pairwise marginals of sequence i at the pairs (t-1, t) with t in [begin, end). Writes
  // them to out.pairwise, and adds their sum, still without the factor exp(transition), to counts;
  // either of these may be null.
  void add_pairs(const Lane<T>& lane, std::int64_t i, std::int64_t begin, std::int64_t end,
                 const MarginalsOut<T>& out, double* counts) const {
    if (lane.outcome.status != Status::ok) return;
    const std::int64_t t = std::max<std::int64_t>(begin, 1);
    const std::int64_t pairs = std::min(end, lane.sequence.length) - t;
    const std::int64_t row = (t - begin) * s_.stride;  // the offset of position t - 1
    if (pairs <= 0) return;
    if (counts != nullptr) {
      kernels_.outer_products(s_, lane.alpha + row, lane.emission + row, pairs, counts);
    }
    if (out.pairwise != nullptr) {
      T* to = out.pairwise + (out.pairwise_starts[i] + t - 1) * s_.labels * s_.labels;
      kernels_.pairwise(s_, lane.alpha + row, lane.emission + row, pairs, to);
    }
  }

  // Computes the marginals of sequence i in log space; counts is (labels, stride) or null.
  void log_marginals(std::int64_t i, const MarginalsOut<T>& out, Memory& memory, double* counts) const {
    const Sequence<T> x = batch_.sequence(i);
    out.outcomes[i] = log_forward(x, memory, &out.log_z[i]);
    if (out.outcomes[i].status != Status::ok) return;
    T* pairwise = out.pairwise == nullptr
                      ? nullptr
                      : out.pairwise + out.pairwise_starts[i] * s_.labels * s_.labels;
    T* unary = out.unary + batch_.starts[i] * s_.labels;
    const double weight = out.weight(i);
    const std::int64_t square = static_cast<std::int64_t>(s_.labels) * s_.stride;
    // The kernel adds counts of weight 1. Other weights need a separate matrix, which is scaled
    // afterwards.
    std::vector<double> sequence_counts(counts == nullptr || weight == 1.0 ? 0 : square, 0.0);
    kernels_.log_backward(s_, x, memory.rows.get(x.length * s_.stride), memory.scratch.get(), unary,
                          pairwise, sequence_counts.empty() ? counts : sequence_counts.data());
    if (weight == 1.0) return;
    for (std::int64_t k = 0; k < x.length * s_.labels; ++k) unary[k] *= static_cast<T>(weight);
    if (pairwise != nullptr) {
      T* const end = pairwise + (x.length - 1) * s_.labels * s_.labels;
      for (T* p = pairwise; p < end; ++p) *p *= static_cast<T>(weight);
    }
    for (std::size_t k = 0; k < sequence_counts.size(); ++k) counts[k] += weight * sequence_counts[k];
  }

  Outcome log_forward(const Sequence<T>& x, Memory& memory, double* log_z) const {
    return kernels_.log_forward(s_, x, memory.rows.get(x.length * s_.stride), memory.scratch.get(),
                                log_z);
  }

  // The sequences of a group, with their forward rows of best scores.
  struct MaxGroup {
    int count;
    std::int64_t index[kGroup];  // the index of each sequence in the batch
    Sequence<T> x[kGroup];
    double* rows[kGroup];  // (length, stride) each
  };

  // Calls use(group, scratch) for every group, after the forward pass.
  template <class Use>
  void for_each_max_group(Outcome* outcomes, const Meanwhile& meanwhile, const Use& use) const {
    const std::int64_t chunks = groups_.tasks(threads_);
    const auto make_worker = [&] {
      return [&, this, memory = Scratch(),
              scratch = aligned_doubles(scratch_size(s_.labels))](std::int64_t c) mutable {
        PollEvery poll(kPollCost);
        for (std::int64_t g = groups_.begin(c, chunks); g < groups_.begin(c + 1, chunks); ++g) {
          poll.step();
          use(max_forward(g, memory, scratch.get(), outcomes), scratch.get());
        }
      };
    };
    parallel_for(chunks, threads_, make_worker, meanwhile);
  }

  MaxGroup max_forward(std::int64_t g, Scratch& memory, double* scratch, Outcome* outcomes) const {
    MaxGroup group{};
    const T* next[kGroup]{};
    Outcome outcome[kGroup];
    group.count = groups_.size(g);
    std::int64_t total = 0;
    for (int r = 0; r < group.count; ++r) {
      group.index[r] = groups_.sequence(g, r);
      group.x[r] = batch_.sequence(group.index[r]);
      total += group.x[r].length;
      const std::int64_t after = groups_.next(g, r);
      if (after >= 0) next[r] = batch_.unary[after];
    }
    double* rows = memory.get(total * s_.stride);
    for (int r = 0; r < group.count; ++r) {
      group.rows[r] = rows;
      rows += group.x[r].length * s_.stride;
    }
    kernels_.max_forward(s_, group.x, group.count, next, group.rows, scratch, outcome);
    for (int r = 0; r < group.count; ++r) outcomes[group.index[r]] = outcome[r];
    return group;
  }

  Batch<T> batch_;
  const ChainKernels<T>& kernels_;
  std::shared_ptr<const SharedScores> shared_;
  const SharedView& s_;  // points into shared_
  LengthGroups groups_;
  int threads_ = 1;
};

}  // namespace trellis
