// Forced alignment: the best path of a target. Also greedy decoding.
//
// The forward pass stores every 128th row (a checkpoint). The backward pass recomputes the 128 rows of a
// segment, but only the positions that the path can come from: as many as the segment has frames. Memory
// is frames * labels / 8 bytes, and nothing is stored for states that the path cannot visit.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "base/aligned.hpp"
#include "base/poll.hpp"
#include "ctc/target.hpp"

namespace trellis {

// The frames of one sequence.
template <class T>
struct CtcInput {
  const T* scores;  // (length, vocabulary), rows frame_stride apart
  std::int64_t frame_stride, length, vocabulary, blank;

  const T* frame(std::int64_t t) const { return scores + t * frame_stride; }
};

// The best path: the label of each frame, (length), and the frames [start, end) of each symbol,
// (symbols).
struct CtcRuns {
  std::int64_t *labels, *starts, *ends;
};

template <class T>
class CtcAligner {
 public:
  explicit CtcAligner(const CtcKernels& kernels) : best_(kernels.best<T>()) {}

  // Writes the best path to `out` and returns its score. Returns -inf, and writes nothing, if there is
  // no path.
  double align(const CtcInput<T>& x, const std::int64_t* target, std::int64_t count, CtcRuns out) {
    plan(target, count, x.blank);
    const double score = forward(x);
    if (score > -kInfinity) back(x, out);
    return score;
  }

  // Returns one frame for each symbol of the target: among the frames of the symbol on the best path,
  // the one where it is most likely. The target must have a path.
  std::vector<std::int64_t> peaks(const CtcInput<T>& x, const std::vector<std::int64_t>& target) {
    const std::size_t count = target.size();
    path_.resize(static_cast<std::size_t>(x.length) + 2 * count);
    std::int64_t* starts = path_.data() + x.length;
    align(x, target.data(), static_cast<std::int64_t>(count), {path_.data(), starts, starts + count});
    std::vector<std::int64_t> frames(count);
    for (std::size_t i = 0; i < count; ++i) {
      frames[i] = peak(x, target[i], starts[i], starts[count + i]);
    }
    return frames;
  }

  // Returns the frame of [start, end) where a label is most likely.
  static std::int64_t peak(const CtcInput<T>& x, std::int64_t label, std::int64_t start,
                           std::int64_t end) {
    std::int64_t best = start;
    for (std::int64_t t = start + 1; t < end; ++t) {
      if (x.frame(t)[label] > x.frame(best)[label]) best = t;
    }
    return best;
  }

 private:
  static constexpr std::int64_t kSegment = 128;  // frames between checkpoints
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  void plan(const std::int64_t* target, std::int64_t count, std::int64_t blank) {
    labels_ = count;
    column_.assign(static_cast<std::size_t>(ctc_padded(static_cast<int>(count) + 1)),
                   static_cast<std::int32_t>(blank));
    skip_.assign(column_.size(), -kInfinity);
    for (std::int64_t i = 1; i <= count; ++i) {
      column_[i] = static_cast<std::int32_t>(target[i - 1]);
      if (i > 1 && column_[i] != column_[i - 1]) skip_[i] = 0.0;
    }
    target_ = {.positions = static_cast<int>(column_.size()),
               .blank = static_cast<int>(blank),
               .column = column_.data(),
               .skip = skip_.data()};
  }

  double forward(const CtcInput<T>& x) {
    const std::int64_t width = 2 * target_.positions;
    double* checkpoint = checkpoints_ = stored_.get(((x.length - 1) / kSegment + 1) * width);
    double* row = row_.get(width);
    std::fill(row, row + width, -kInfinity);
    row[target_.positions] = 0.0;  // before the first frame, no label has been emitted
    for (std::int64_t begin = 0; begin < x.length; begin += kSegment, checkpoint += width) {
      poll_interrupt();
      std::copy(row, row + width, checkpoint);
      const std::int64_t count = std::min(kSegment, x.length - begin);
      // After frame t, at most t + 1 labels have been emitted, and the remaining frames must be able to
      // emit the rest.
      const CtcBand band{labels_ - (x.length - 1 - begin), begin + 1, 1};
      best_.forward(target_, x.frame(begin), x.frame_stride, count, band, row, 0);
    }
    in_label_ = row[labels_] >= row[target_.positions + labels_];
    return std::max(row[labels_], row[target_.positions + labels_]);
  }

  void back(const CtcInput<T>& x, CtcRuns out) {
    std::int64_t i = labels_, seen = 0;  // the position; the last position whose end is already stored
    bool in_label = in_label_ && labels_ > 0;
    for (std::int64_t begin = (x.length - 1) / kSegment * kSegment; begin >= 0; begin -= kSegment) {
      poll_interrupt();
      const std::int64_t count = std::min(kSegment, x.length - begin);
      const std::int64_t first = std::max<std::int64_t>(0, i - count) / kCtcBlock * kCtcBlock;
      const int positions = ctc_padded(static_cast<int>(i - first + 1));
      const CtcPath part{.positions = positions,
                         .blank = target_.blank,
                         .column = target_.column + first,
                         .skip = target_.skip + first};
      const double* rows = segment(x, begin, count, first, part);
      for (std::int64_t f = count - 1; f >= 0; --f) {
        const double* before = rows + f * 2 * positions;
        out.labels[begin + f] = in_label ? target_.column[i] : target_.blank;
        if (in_label) {
          out.starts[i - 1] = begin + f;
          if (i != seen) out.ends[i - 1] = begin + f + 1;
          seen = i;
        }
        step(before, before + positions, i - first, first, i, in_label);
      }
    }
  }

  // Computes all rows of a segment, (count + 1, 2, positions), for positions from `first` on.
  const double* segment(const CtcInput<T>& x, std::int64_t begin, std::int64_t count, std::int64_t first,
                        const CtcPath& part) {
    const std::int64_t width = 2 * part.positions;
    double* rows = rows_.get((count + 1) * width);
    const double* checkpoint = checkpoints_ + begin / kSegment * 2 * target_.positions + first;
    std::copy(checkpoint, checkpoint + part.positions, rows);
    checkpoint += target_.positions;
    std::copy(checkpoint, checkpoint + part.positions, rows + part.positions);
    best_.forward(part, x.frame(begin), x.frame_stride, count, {0, part.positions, 0}, rows, width);
    return rows;
  }

  // Goes back to the previous state on the best path. Among equal scores, the same state is preferred,
  // then the blank. `at` is the position i counted from `first`.
  void step(const double* label, const double* blank, std::int64_t at, std::int64_t first,
            std::int64_t& i, bool& in_label) const {
    if (!in_label) {
      in_label = i > 0 && label[at] > blank[at];
      return;
    }
    const double left = at > 0 ? blank[at - 1] : -kInfinity;
    const double skipped = at > 0 ? label[at - 1] + skip_[first + at] : -kInfinity;
    if (label[at] >= left && label[at] >= skipped) return;
    in_label = skipped > left;
    --i;
  }

  const CtcBest<T>& best_;
  std::vector<std::int32_t> column_;  // (positions): see CtcPath
  std::vector<double> skip_;          // (positions)
  std::vector<std::int64_t> path_;    // scratch memory of peaks()
  CtcPath target_{};
  std::int64_t labels_ = 0;
  bool in_label_ = false;  // the best path ends in its last label, not in a blank
  Scratch stored_, row_, rows_;
  double* checkpoints_ = nullptr;  // (segments, 2 * positions): the row before each segment
};

// Takes the best label of each frame. Writes the symbols of this path and the frames where they are most
// likely, and returns the score of the path.
template <class T>
double ctc_greedy(const CtcInput<T>& x, const CtcBest<T>& best, std::vector<std::int64_t>* symbols,
                  std::vector<std::int64_t>* frames) {
  double score = 0.0;
  std::int64_t last = x.blank;
  PollEvery poll(x.vocabulary + 16);
  for (std::int64_t t = 0; t < x.length; ++t) {
    poll.step();
    double top;
    const std::int64_t label = best.argmax(x.frame(t), x.vocabulary, &top);
    score += top;
    if (label != x.blank && label != last) {
      symbols->push_back(label);
      frames->push_back(t);
    } else if (label != x.blank && x.frame(t)[label] > x.frame(frames->back())[label]) {
      frames->back() = t;
    }
    last = label;
  }
  return score;
}

}  // namespace trellis
