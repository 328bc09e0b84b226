// The CTC loss of a batch: prepares targets, threads and scratch memory, and chooses between scaled
// probabilities and log space. The forward pass stores no rows of alpha. The backward pass recomputes
// them, one segment at a time (src/trellis/inference/ctc/README.md).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "base/aligned.hpp"
#include "base/thread_pool.hpp"
#include "ctc/target.hpp"

namespace trellis {

template <class T>
class Ctc {
 public:
  Ctc(const CtcBatch<T>& batch, const CtcKernels& kernels, int threads)
      : x_(batch),
        compact_(batch.vocabulary > 2 * batch.most_labels + 1),
        kernels_(kernels),
        scores_(kernels.scores<T>()),
        threads_(batch.frames * batch.count * (batch.vocabulary + 2 * batch.most_labels) <
                         kMinThreadedCells
                     ? 1
                     : threads) {
    check_ctc(batch);
    std::vector<std::int32_t> place(static_cast<std::size_t>(batch.vocabulary), -1);
    plans_.reserve(static_cast<std::size_t>(batch.count));
    for (std::int64_t b = 0; b < batch.count; ++b) {
      plans_.emplace_back(batch.targets + b * batch.most_labels, batch.target_lengths[b], batch.blank,
                          compact_, place);
    }
  }

  // Computes the loss, (B). Fills log_norm, (T, B), if the input is logits. Fills kept,
  // (B, T, 2 * most_labels + 1), with the scores that backward() needs, if keeps().
  void forward(T* loss, T* log_norm, T* kept) const {
    // The layout is (B, T): with (T, B), two threads would write to the same cache line and wait for
    // each other.
    std::vector<double> norm(x_.logits ? static_cast<std::size_t>(x_.frames * x_.count) : 0);
    const auto norms_of = [&](std::int64_t b) {
      return x_.logits ? norm.data() + b * x_.frames : nullptr;
    };
    if (keeps()) {
      for_each_frame<false>([&](std::int64_t t, std::int64_t b) {
        norms_of(b)[t] = scores_.log_norm(input(t, b), x_.vocabulary);
        gather(t, b, kept_row(kept, t, b));
      });
    }
    for_each_row([&](std::int64_t b, Memory& memory) {
      loss[b] = static_cast<T>(row_loss(b, kept, norms_of(b), memory));
    });
    for (std::int64_t i = 0; x_.logits && i < x_.frames * x_.count; ++i) {
      log_norm[i] = static_cast<T>(norm[i % x_.count * x_.frames + i / x_.count]);
    }
  }

  // Computes the gradient, (T, B, V), with strides frame_stride and row_stride; weight (B) is the
  // gradient of the loss.
  void backward(const T* log_norm, const T* kept, const T* loss, const T* weight, T* gradient,
                std::int64_t frame_stride, std::int64_t row_stride) const {
    const auto gradient_row = [&](std::int64_t t, std::int64_t b) {
      return gradient + t * frame_stride + b * row_stride;
    };
    for_each_row([&](std::int64_t b, Memory& memory) {
      const std::int64_t length = std::isfinite(loss[b]) ? x_.input_lengths[b] : 0;
      if (length > 0) {
        occupations(b, kept, memory, [&](const CtcFrames& f, int i, bool in_log, const double* p) {
          // If compact, the occupations are stored at the start of the row until the row is filled
          // below.
          T* row = gradient_row(f.begin + i, b);
          const CtcTarget y = plans_[b].view();
          if (compact_) {
            std::copy(p, p + y.symbols, row);
          } else if (x_.logits) {
            scores_.gradient(f.e + i * y.stride(), in_log, f.total[i], p, y.symbols, weight[b], row,
                             row + 8 * frame_stride);
          } else {
            for (int v = 0; v < y.symbols; ++v) row[v] = static_cast<T>(-weight[b] * p[v]);
          }
        });
      }
      if (compact_) return;
      for (std::int64_t t = length; t < x_.frames; ++t) clear(gradient_row(t, b), t, b, loss[b]);
    });
    if (!compact_) return;
    for_each_frame<true>([&, occupation = std::vector<T>()](std::int64_t t, std::int64_t b) mutable {
      T* row = gradient_row(t, b);
      if (t >= x_.input_lengths[b] || !std::isfinite(loss[b])) return clear(row, t, b, loss[b]);
      const std::vector<std::int32_t>& symbol = plans_[b].symbol();
      occupation.assign(row, row + symbol.size());
      if (x_.logits) {
        scores_.softmax(input(t, b), x_.vocabulary, log_norm[t * x_.count + b], weight[b], row);
      } else {
        std::fill(row, row + x_.vocabulary, T(0));
      }
      for (std::size_t u = 0; u < occupation.size(); ++u) row[symbol[u]] -= weight[b] * occupation[u];
    });
  }

 private:
  // A batch with fewer numbers runs on one thread, because waking a thread takes time. The value was
  // chosen by hand.
  static constexpr std::int64_t kMinThreadedCells = 30'000;
  static constexpr int kChunk = 16;  // frames per kernel call when only the loss is computed
  static constexpr std::int64_t kSegmentBytes = 512 << 10;  // rows of a segment in the backward pass
  static constexpr std::int64_t kMaxBytes = 16 << 20;       // probabilities stored for the backward pass

  // The scratch memory of one thread.
  struct Memory {
    Scratch doubles, checkpoints;
    std::vector<std::int32_t> events;  // (frames): see CtcFrames::event
    std::vector<T> gathered;           // (frames, symbols)
    double* back = nullptr;            // (2 * positions)
    double* scratch = nullptr;         // (2 * positions)
    double* occupation = nullptr;      // (rows, symbols)
  };

  const T* input(std::int64_t t, std::int64_t b) const {
    return x_.input + t * x_.frame_stride + b * x_.row_stride;
  }

  // Returns whether the scores of the target's symbols are stored for backward(). Gathering them from a
  // large vocabulary again would read most cache lines of the logits once more.
  bool keeps() const { return compact_ && x_.logits; }
  template <class U>
  U* kept_row(U* kept, std::int64_t t, std::int64_t b) const {
    return kept + (b * x_.frames + t) * (2 * x_.most_labels + 1);
  }
  void gather(std::int64_t t, std::int64_t b, T* out) const {
    const T* row = input(t, b);
    for (const std::int32_t y : plans_[b].symbol()) *out++ = row[y];
  }

  // Fills the gradient of a frame without occupations: with NaN if the loss of its row is NaN and the
  // frame is not past the end of the row, otherwise with 0.
  void clear(T* row, std::int64_t t, std::int64_t b, T loss) const {
    const bool is_nan = t < x_.input_lengths[b] && std::isnan(loss);
    std::fill(row, row + x_.vocabulary, is_nan ? loss : T(0));
  }

  // Calls body(t, b) for every frame of every row; with kAll also for frames past the end of a row.
  template <bool kAll, class Body>
  void for_each_frame(const Body& body) const {
    const std::int64_t work = std::max<std::int64_t>(1, x_.count * x_.vocabulary);
    const std::int64_t chunk = std::max<std::int64_t>(1, (std::int64_t{1} << 15) / work);  // frames
    parallel_for((x_.frames + chunk - 1) / chunk, threads_, [&] {
      return [&, thread_body = body](std::int64_t task) mutable {
        for (std::int64_t t = task * chunk; t < std::min(x_.frames, (task + 1) * chunk); ++t) {
          for (std::int64_t b = 0; b < x_.count; ++b) {
            if (kAll || t < x_.input_lengths[b]) thread_body(t, b);
          }
        }
      };
    });
  }

  // Calls body(b, memory) for every row. Rows with the most work come first.
  template <class Body>
  void for_each_row(const Body& body) const {
    std::vector<std::int64_t> order(static_cast<std::size_t>(x_.count));
    std::iota(order.begin(), order.end(), 0);
    const auto work = [&](std::int64_t b) { return x_.input_lengths[b] * (x_.target_lengths[b] + 8); };
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t a, std::int64_t b) { return work(a) > work(b); });
    parallel_for(x_.count, threads_, [&] {
      return [&, memory = Memory()](std::int64_t task) mutable { body(order[task], memory); };
    });
  }

  // Divides scratch memory among the arrays of CtcFrames: `frames` rows of probabilities, and `rows` + 1
  // rows of alpha (0: only the last one is stored).
  CtcFrames divide_memory(std::int64_t b, std::int64_t frames, std::int64_t rows, Memory& memory) const {
    const CtcTarget y = plans_[b].view();
    const std::int64_t width = 2 * y.positions, events = std::max<std::int64_t>(rows, 1);
    double* next = memory.doubles.get(frames * (y.stride() + 3) + (rows + 3) * width +
                                      (2 * events + 2) * y.positions + rows * y.symbols + 96);
    const auto allocate = [&](std::int64_t size) {
      double* array = next;
      next += (size + kCtcBlock - 1) / kCtcBlock * kCtcBlock;
      return array;
    };
    CtcFrames f{};
    f.length = x_.input_lengths[b];
    f.e = allocate(frames * y.stride());
    f.row = allocate((rows + 1) * width);
    memory.back = allocate(width);
    memory.scratch = allocate(width);
    f.top = allocate(frames);
    f.low = allocate(frames);
    f.total = allocate(frames);
    f.unit = allocate(y.positions);
    f.scale = allocate(events * y.positions);
    f.ratio = allocate(events * y.positions);
    double* ones = allocate(y.positions);
    std::fill(ones, ones + y.positions, 1.0);
    f.ones = ones;
    memory.occupation = allocate(rows * y.symbols);
    memory.events.resize(static_cast<std::size_t>(std::max<std::int64_t>(rows, kChunk)));
    f.event = memory.events.data();
    return f;
  }

  void emissions(std::int64_t b, const CtcTarget& y, const T* kept, bool in_log, const CtcFrames& f,
                 Memory& memory) const {
    if (!compact_) {
      return scores_.emissions(y, input(f.begin, b), x_.frame_stride, in_log, f);
    }
    if (keeps()) {
      return scores_.emissions(y, kept_row(kept, f.begin, b), 2 * x_.most_labels + 1, in_log, f);
    }
    memory.gathered.resize(static_cast<std::size_t>(f.count) * y.symbols);
    for (int i = 0; i < f.count; ++i) {
      gather(f.begin + i, b, memory.gathered.data() + static_cast<std::size_t>(i) * y.symbols);
    }
    scores_.emissions(y, memory.gathered.data(), y.symbols, in_log, f);
  }

  // Returns the loss of a row. norm (T) is null unless the input is logits; if not compact, it is filled
  // here.
  double row_loss(std::int64_t b, const T* kept, double* norm, Memory& memory) const {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const CtcTarget y = plans_[b].view();
    CtcFrames f = divide_memory(b, kChunk, 0, memory);
    bool feasible = f.length >= plans_[b].least_frames();
    for (const CtcWalk* walk : {&kernels_.scaled, &kernels_.in_log}) {
      double total = 0.0;
      bool exact = true;
      PollEvery poll(kChunk * (y.positions + std::int64_t{y.symbols}));
      for (f.begin = 0; f.begin < f.length; f.begin += f.count) {
        poll.step();
        f.count = static_cast<int>(std::min<std::int64_t>(kChunk, f.length - f.begin));
        emissions(b, y, kept, walk->in_log, f, memory);
        for (int i = 0; i < f.count; ++i) {
          if (f.top[i] == -kInfinity) feasible = false;  // all symbols are impossible at this frame
          if (norm != nullptr && !compact_) norm[f.begin + i] = f.top[i] + std::log(f.total[i]);
          total += (norm == nullptr ? 0.0 : norm[f.begin + i]) - f.top[i];
          if (std::isnan(f.total[i])) total = f.total[i];
        }
        exact = exact && feasible && walk->forward(y, f);
      }
      if (!feasible) return kInfinity;
      if (f.length == 0 || std::isnan(total)) return total;
      if (!exact) continue;
      const double loss = total - walk->finish(y, f.row, f.unit, memory.back);
      if (walk->in_log || std::isfinite(loss)) return loss;
    }
    return kInfinity;  // not reached: log space is always exact
  }

  // Calls use(frames, index in these frames, whether in log space, occupation) for all frames of a row
  // whose loss is finite.
  template <class Use>
  void occupations(std::int64_t b, const T* kept, Memory& memory, const Use& use) const {
    for (const CtcWalk* walk : {&kernels_.scaled, &kernels_.in_log}) {
      const Segments segments(*this, b, *walk, kept, memory);
      if (!segments.forward()) continue;
      return segments.back(use);
    }
  }

  // The two passes over one row. The forward pass stores one row of alpha per segment of frames. The
  // backward pass repeats the forward pass of each segment, from the last to the first.
  class Segments {
   public:
    Segments(const Ctc& ctc, std::int64_t b, const CtcWalk& walk, const T* kept, Memory& memory)
        : ctc_(ctc),
          b_(b),
          walk_(walk),
          kept_(kept),
          memory_(memory),
          y_(ctc.plans_[b].view()),
          length_(ctc.x_.input_lengths[b]),
          width_(2 * y_.positions),
          stores_all_(length_ * y_.stride() * 8 <= kMaxBytes) {
      const std::int64_t max_frames =
          kSegmentBytes / (8 * (width_ + y_.symbols)) / kCtcBlock * kCtcBlock;
      segment_ = std::min(length_, std::max<std::int64_t>(kCtcBlock, max_frames));
      last_ = (length_ - 1) / segment_ * segment_;
      all_ = ctc.divide_memory(b, stores_all_ ? length_ : segment_, segment_, memory);
      checkpoints_ = memory.checkpoints.get(last_ / segment_ * (width_ + y_.positions));
    }

    bool forward() const {
      for (std::int64_t begin = 0; begin <= last_; begin += segment_) {
        poll_interrupt();
        const CtcFrames f = frames(begin, begin == last_);
        ctc_.emissions(b_, y_, kept_, walk_.in_log, f, memory_);
        if (begin > 0) {
          double* to = std::copy(f.row, f.row + width_, checkpoint(begin));
          std::copy(f.unit, f.unit + y_.positions, to);
        }
        if (!walk_.forward(y_, f)) return false;
      }
      const double* end = all_.row + (length_ - last_) * width_;
      return std::isfinite(walk_.finish(y_, end, all_.unit, memory_.back)) || walk_.in_log;
    }

    template <class Use>
    void back(const Use& use) const {
      for (std::int64_t begin = last_; begin >= 0; begin -= segment_) {
        poll_interrupt();
        const CtcFrames f = frames(begin, true);
        if (begin < last_) {
          if (begin > 0) {
            const double* from = checkpoint(begin);
            std::copy(from, from + width_, f.row);
            std::copy(from + width_, from + width_ + y_.positions, f.unit);
          }
          if (!stores_all_) ctc_.emissions(b_, y_, kept_, walk_.in_log, f, memory_);
          walk_.forward(y_, f);
        }
        walk_.backward(y_, f, memory_.back, memory_.occupation, memory_.scratch);
        for (int i = 0; i < f.count; ++i) {
          use(f, i, walk_.in_log, memory_.occupation + std::int64_t{i} * y_.symbols);
        }
      }
    }

   private:
    double* checkpoint(std::int64_t begin) const {
      return checkpoints_ + (begin / segment_ - 1) * (width_ + y_.positions);
    }
    CtcFrames frames(std::int64_t begin, bool all_rows) const {
      CtcFrames f = all_;
      const std::int64_t offset = stores_all_ ? begin : 0;
      f.begin = begin;
      f.count = static_cast<int>(std::min(segment_, length_ - begin));
      f.e += offset * y_.stride();
      f.top += offset;
      f.low += offset;
      f.total += offset;
      f.stride = all_rows ? width_ : 0;
      f.event_stride = all_rows ? y_.positions : 0;
      return f;
    }

    const Ctc& ctc_;
    const std::int64_t b_;
    const CtcWalk& walk_;
    const T* const kept_;
    Memory& memory_;
    const CtcTarget y_;
    const std::int64_t length_, width_;
    const bool stores_all_;        // the probabilities of all frames are stored
    std::int64_t segment_, last_;  // frames of a segment; the first frame of the last segment
    CtcFrames all_;
    double* checkpoints_;  // (segments - 1, 3 * positions): alpha and units before each segment
  };

  CtcBatch<T> x_;
  bool compact_;  // the symbols are those of the target, not the whole vocabulary
  const CtcKernels& kernels_;
  const CtcScores<T>& scores_;
  std::vector<CtcPlan> plans_;  // (B)
  int threads_;
};

}  // namespace trellis
