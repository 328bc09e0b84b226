// The best path of a target, and the most likely label of each frame.
//
// The forward pass keeps every 128th row. On the way back, the 128 rows of a segment are made once more,
// but only the positions from which the path can have come: as many as there are frames. Memory is
// frames * labels / 8 bytes, and nothing is written for the states that the path never sees.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "base/aligned.hpp"
#include "ctc/target.hpp"

namespace trellis {

// Frames (length, V) of one sequence.
template <class T>
struct CtcInput {
  const T* scores;
  std::int64_t frame_stride, length, vocabulary, blank;

  const T* frame(std::int64_t t) const { return scores + t * frame_stride; }
};

// Where to write the best path: its label at each frame, and the run of each symbol in [start, end).
struct CtcRuns {
  std::int64_t *labels, *starts, *ends;
};

template <class T>
class CtcAligner {
 public:
  explicit CtcAligner(const CtcKernels& kernels) : best_(kernels.best<T>()) {}

  // The score of the best path; -inf if there is none, and then nothing is written.
  double align(const CtcInput<T>& x, const std::int64_t* target, std::int64_t count, CtcRuns out) {
    plan(target, count, x.blank);
    const double score = forward(x);
    if (score > -kNever) back(x, out);
    return score;
  }

  // The frame of each symbol at which it is most likely, on the best path of a target that has one.
  std::vector<std::int64_t> peaks(const CtcInput<T>& x, const std::vector<std::int64_t>& target) {
    const std::size_t count = target.size();
    path_.resize(static_cast<std::size_t>(x.length) + 2 * count);
    std::int64_t* starts = path_.data() + x.length;
    align(x, target.data(), static_cast<std::int64_t>(count), {path_.data(), starts, starts + count});
    std::vector<std::int64_t> found(count);
    for (std::size_t i = 0; i < count; ++i) {
      found[i] = peak(x, target[i], starts[i], starts[count + i]);
    }
    return found;
  }

  // The frame of [start, end) at which a label is most likely.
  static std::int64_t peak(const CtcInput<T>& x, std::int64_t label, std::int64_t start,
                           std::int64_t end) {
    std::int64_t best = start;
    for (std::int64_t t = start + 1; t < end; ++t) {
      if (x.frame(t)[label] > x.frame(best)[label]) best = t;
    }
    return best;
  }

 private:
  static constexpr std::int64_t kSegment = 128;  // frames
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  void plan(const std::int64_t* target, std::int64_t count, std::int64_t blank) {
    labels_ = count;
    column_.assign(static_cast<std::size_t>(ctc_padded(static_cast<int>(count) + 1)),
                   static_cast<std::int32_t>(blank));
    skip_.assign(column_.size(), -kNever);
    for (std::int64_t i = 1; i <= count; ++i) {
      column_[i] = static_cast<std::int32_t>(target[i - 1]);
      if (i > 1 && column_[i] != column_[i - 1]) skip_[i] = 0.0;
    }
    whole_ = {static_cast<int>(column_.size()), static_cast<int>(blank), column_.data(), skip_.data()};
  }

  double forward(const CtcInput<T>& x) {
    const std::int64_t width = 2 * whole_.positions;
    double* kept = checkpoints_ = kept_.get(((x.length - 1) / kSegment + 1) * width);
    double* row = row_.get(width);
    std::fill(row, row + width, -kNever);
    row[whole_.positions] = 0.0;  // before the first frame: no label, and as good as a blank
    for (std::int64_t begin = 0; begin < x.length; begin += kSegment, kept += width) {
      std::copy(row, row + width, kept);
      const std::int64_t count = std::min(kSegment, x.length - begin);
      // behind frame t at most t + 1 labels, and at most as many to come as there are frames
      const CtcBand band{labels_ - (x.length - 1 - begin), begin + 1, 1};
      best_.forward(whole_, x.frame(begin), x.frame_stride, count, band, row, 0);
    }
    in_label_ = row[labels_] >= row[whole_.positions + labels_];
    return std::max(row[labels_], row[whole_.positions + labels_]);
  }

  void back(const CtcInput<T>& x, CtcRuns out) {
    std::int64_t i = labels_, seen = 0;  // the last label that was met
    bool in_label = in_label_ && labels_ > 0;
    for (std::int64_t begin = (x.length - 1) / kSegment * kSegment; begin >= 0; begin -= kSegment) {
      const std::int64_t count = std::min(kSegment, x.length - begin);
      const std::int64_t first = std::max<std::int64_t>(0, i - count) / kCtcBlock * kCtcBlock;
      const int positions = ctc_padded(static_cast<int>(i - first + 1));
      const CtcPath part{positions, whole_.blank, whole_.column + first, whole_.skip + first};
      const double* rows = segment(x, begin, count, first, part);
      for (std::int64_t f = count - 1; f >= 0; --f) {
        const double* before = rows + f * 2 * positions;
        out.labels[begin + f] = in_label ? whole_.column[i] : whole_.blank;
        if (in_label) {
          out.starts[i - 1] = begin + f;
          if (i != seen) out.ends[i - 1] = begin + f + 1;
          seen = i;
        }
        step(before, before + positions, i - first, first, i, in_label);
      }
    }
  }

  // All rows of a segment, at positions `first` on.
  const double* segment(const CtcInput<T>& x, std::int64_t begin, std::int64_t count, std::int64_t first,
                        const CtcPath& part) {
    const std::int64_t width = 2 * part.positions;
    double* rows = rows_.get((count + 1) * width);
    const double* kept = checkpoints_ + begin / kSegment * 2 * whole_.positions + first;
    std::copy(kept, kept + part.positions, rows);
    kept += whole_.positions;
    std::copy(kept, kept + part.positions, rows + part.positions);
    best_.forward(part, x.frame(begin), x.frame_stride, count, {0, part.positions, 0}, rows, width);
    return rows;
  }

  // The state before; of equals the one that stays, then the blank.
  void step(const double* label, const double* blank, std::int64_t own, std::int64_t first,
            std::int64_t& i, bool& in_label) const {
    if (!in_label) {
      in_label = i > 0 && label[own] > blank[own];
      return;
    }
    const double left = own > 0 ? blank[own - 1] : -kNever;
    const double skipped = own > 0 ? label[own - 1] + skip_[first + own] : -kNever;
    if (label[own] >= left && label[own] >= skipped) return;
    in_label = skipped > left;
    --i;
  }

  const CtcBest<T>& best_;
  std::vector<std::int32_t> column_;
  std::vector<double> skip_;
  std::vector<std::int64_t> path_;
  CtcPath whole_{};
  std::int64_t labels_ = 0;
  bool in_label_ = false;
  Scratch kept_, row_, rows_;
  double* checkpoints_ = nullptr;  // a row for each segment: that before its first frame
};

// The path of the best label of each frame: its symbols, the frames at which they are most likely, its
// score.
template <class T>
double ctc_greedy(const CtcInput<T>& x, const CtcBest<T>& best, std::vector<std::int64_t>* symbols,
                  std::vector<std::int64_t>* frames) {
  double score = 0.0;
  std::int64_t last = x.blank;
  for (std::int64_t t = 0; t < x.length; ++t) {
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
