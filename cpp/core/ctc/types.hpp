// What the CTC kernels take and give: plain pointers, no ownership, no instruction set.
//
// A target y_1 .. y_S has 2S + 1 states, in two rows of positions 0 .. S: position i of the first is
// "blank, after i labels", position i of the second is "label y_i" (none at 0). Their forward
// probabilities are alpha_-(i) and alpha_*(i); a row of scratch holds both, padded, one after the other.
#pragma once

#include <cstdint>

namespace trellis {

// Positions are padded to a multiple of this, which is one of every vector width.
inline constexpr int kCtcBlock = 8;

inline constexpr int ctc_padded(int n) { return (n + kCtcBlock - 1) / kCtcBlock * kCtcBlock; }

// One target. Its symbols are the whole vocabulary, or the blank and the different labels in the target.
struct CtcTarget {
  int labels;     // S
  int positions;  // S + 1, padded
  int symbols;
  int blank;                   // a symbol
  const std::int32_t* column;  // (positions): the symbol of y_i; `symbols` where there is no label
  const double* skip;          // (positions): 1 where y_i may follow y_{i-1} without a blank, else 0
  const std::int32_t* reach;   // (positions): the frames that it takes to come to y_i
  const double* unused;        // (stride()): 0 for symbols in the target, else +inf

  int stride() const { return ctc_padded(symbols + 1); }  // of rows of symbols
};

// Frames [begin, begin + count) of `length` on their way through the kernels.
struct CtcFrames {
  std::int64_t begin, length;
  int count;
  double* e;            // (count, y.stride()): exp(score - top) of each symbol, and 0 behind them
  double* top;          // (count): the best score
  double* low;          // (count): the worst score of a symbol in the target, less the best of all
  double* total;        // (count): the sum of e over all symbols
  double* row;          // the row before the first frame; frame f gives row f + 1
  std::int64_t stride;  // from a row to the next: 2 * positions, or 0 to keep only the last one
  double* unit;         // (positions): the last row is in units of 2^unit, in log space of e^unit[0]
  double* scale;        // (events, positions): what an event multiplied the row before it with
  double* ratio;        // (events, positions): from the units of a position to those of the next
  const double* ones;   // (positions)
  std::int64_t event_stride;  // positions, or 0 to keep only the last one
  std::int32_t* event;        // (count): the last event before the frame
};

// Forward and backward, in scaled probabilities or in log space, where e holds logarithms.
struct CtcWalk {
  bool in_log;
  // False if scaled probabilities could underflow: log space must be used.
  bool (*forward)(const CtcTarget&, const CtcFrames&);
  // log of the sum over all alignments, from the last row of all; `back` (2 * positions) is what the
  // way back starts with.
  double (*finish)(const CtcTarget&, const double* row, const double* unit, double* back);
  // `back` is given for the last row of the frames and returned for the row before the first.
  // occupation is (count, symbols): p(symbol at the frame | target). scratch is (2 * positions).
  void (*backward)(const CtcTarget&, const CtcFrames&, double* back, double* occupation,
                   double* scratch);
};

// What depends on the type of the scores.
template <class T>
struct CtcScores {
  // log sum exp; -inf if all are; NaN if one is NaN or +inf
  double (*log_norm)(const T* scores, std::int64_t size);
  // out = weight * exp(scores - log_norm), where log_norm may have been rounded to T
  void (*softmax)(const T* scores, std::int64_t size, T log_norm, double weight, T* out);
  // scores are rows of `symbols`, from one to the next by stride; fills in e, top, low and total.
  void (*emissions)(const CtcTarget&, const T* scores, std::int64_t stride, bool in_log,
                    const CtcFrames&);
  // out = weight * (e / total - occupation), for a row of symbols; `later` will be written soon
  void (*gradient)(const double* e, bool in_log, double total, const double* occupation, int symbols,
                   double weight, T* out, const T* later);
};

// A target on its way to its best path. Padding has the blank's column, so that it can be looked up.
struct CtcPath {
  int positions;               // S + 1, padded; fewer for a part of the positions
  int blank;                   // an entry of the vocabulary
  const std::int32_t* column;  // (positions): y_i, an entry of the vocabulary
  const double* skip;          // (positions): 0 where y_i may follow y_{i-1} without a blank, else -inf
};

// The positions that matter: from `low` to `high` at the first frame, `step` more at each further one.
struct CtcBand {
  std::int64_t low, high, step;
};

// What decoding needs (ctc/best.hpp).
template <class T>
struct CtcBest {
  void (*forward)(const CtcPath&, const T* scores, std::int64_t frame_stride, std::int64_t count,
                  CtcBand, double* row, std::int64_t stride);
  std::int64_t (*argmax)(const T* scores, std::int64_t size, double* top);
};

// The kernels of one instruction set.
struct CtcKernels {
  CtcWalk scaled, in_log;
  CtcScores<float> scores_float;
  CtcScores<double> scores_double;
  CtcBest<float> best_float;
  CtcBest<double> best_double;
  void (*log_add_masses)(const double* blank, const double* entering, double* star, double* total,
                         std::int64_t size);

  template <class T>
  const CtcScores<T>& scores() const {
    if constexpr (sizeof(T) == sizeof(float)) {
      return scores_float;
    } else {
      return scores_double;
    }
  }
  template <class T>
  const CtcBest<T>& best() const {
    if constexpr (sizeof(T) == sizeof(float)) {
      return best_float;
    } else {
      return best_double;
    }
  }
};

}  // namespace trellis
