// The arguments of the CTC kernels: plain pointers, no ownership, independent of the instruction set.
//
// A target y_1 .. y_S has 2S + 1 states, in two rows of positions 0 .. S: position i of the first row is
// "blank, after i labels", position i of the second row is "label y_i" (none at 0). Their forward
// probabilities are alpha_-(i) and alpha_*(i). A scratch row holds both rows, padded, one after the
// other.
#pragma once

#include <cstdint>

namespace trellis {

// The largest finite score. The loss of a row with a larger score is NaN: the sum of 10^7 scores within
// this limit is finite.
inline constexpr double kLargestCtcScore = 1e300;

// Positions are padded to a multiple of kCtcBlock, which is a multiple of every vector width.
inline constexpr int kCtcBlock = 8;

// n rounded up to a multiple of kCtcBlock.
inline constexpr int ctc_padded(int n) { return (n + kCtcBlock - 1) / kCtcBlock * kCtcBlock; }

// One target. Its symbols are the whole vocabulary, or only the blank and the labels that occur.
struct CtcTarget {
  int labels;                  // S
  int positions;               // S + 1, padded
  int symbols;                 // the number of symbols
  int blank;                   // the symbol of the blank
  const std::int32_t* column;  // (positions): the symbol of y_i; `symbols` where there is no label
  const double* skip;          // (positions): 1 where y_i may follow y_{i-1} without a blank, else 0
  const std::int32_t* reach;   // (positions): the least number of frames needed to reach y_i
  const double* unused;        // (stride()): 0 for symbols in the target, else +inf

  int stride() const { return ctc_padded(symbols + 1); }  // the length of a row of symbols
};

// Frames [begin, begin + count) of a sequence of `length` frames, while the kernels work on them.
struct CtcFrames {
  std::int64_t begin, length;
  int count;
  double* e;    // (count, y.stride()): exp(score - top) of each symbol, then 0; logarithms in log space
  double* top;  // (count): the largest score
  double* low;  // (count): the lowest score of a symbol of the target, minus top
  double* total;  // (count): the sum of e over all symbols
  double* row;    // (rows, 2 * positions): row 0 is before the first frame, f + 1 after frame f
  std::int64_t
      stride;     // numbers from one row to the next: 2 * positions, or 0 to store only the last row
  double* unit;   // (positions): the last row is in units of 2^unit; in log space e^unit[0]
  double* scale;  // (events, positions): the factors by which an event multiplied its row
  double* ratio;  // (events, positions): units of the position before / units of this position
  const double* ones;         // (positions): all 1, in place of scale where there was no event
  std::int64_t event_stride;  // positions, or 0 to store only the last event
  std::int32_t* event;        // (count): the last event before the frame
};

// Forward and backward pass, in scaled probabilities or in log space (where e holds logarithms).
struct CtcWalk {
  bool in_log;
  // Returns false if scaled probabilities could underflow: then log space must be used.
  bool (*forward)(const CtcTarget&, const CtcFrames&);
  // Returns the log of the sum over all alignments, from the last row. Initialises `back`,
  // (2 * positions), for the backward pass.
  double (*finish)(const CtcTarget&, const double* row, const double* unit, double* back);
  // On entry, `back` belongs to the last row of the frames; on return, to the row before the first.
  // occupation is (count, symbols): p(symbol at the frame | target). scratch is (2 * positions).
  void (*backward)(const CtcTarget&, const CtcFrames&, double* back, double* occupation,
                   double* scratch);
};

// The kernels that depend on the type of the scores.
template <class T>
struct CtcScores {
  // log sum exp; -inf if all scores are -inf; NaN if one is NaN or +inf
  double (*log_norm)(const T* scores, std::int64_t size);
  // out = weight * exp(scores - log_norm); log_norm may have been rounded to T
  void (*softmax)(const T* scores, std::int64_t size, T log_norm, double weight, T* out);
  // scores are rows of `symbols` numbers, `stride` apart; fills e, top, low and total of CtcFrames
  void (*emissions)(const CtcTarget&, const T* scores, std::int64_t stride, bool in_log,
                    const CtcFrames&);
  // out = weight * (e / total - occupation), for a row of symbols; prefetches the row `prefetched`
  void (*gradient)(const double* e, bool in_log, double total, const double* occupation, int symbols,
                   double weight, T* out, const T* prefetched);
};

// A target for the best-path kernel. Positions without a label have the blank in `column`, so that their
// scores can be looked up too.
struct CtcPath {
  int positions;               // S + 1, padded; fewer for a range of positions
  int blank;                   // an entry of the vocabulary
  const std::int32_t* column;  // (positions): y_i, an entry of the vocabulary
  const double* skip;          // (positions): 0 where y_i may follow y_{i-1} without a blank, else -inf
};

// The positions that a path can occupy: [low, high] at the first frame; both bounds grow by `step` at
// each later frame.
struct CtcBand {
  std::int64_t low, high, step;
};

// The kernels of best paths and greedy decoding (ctc/best_path.hpp).
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
  // See ctc/best_path.hpp; all arrays are (size), padded to kCtcBlock.
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
