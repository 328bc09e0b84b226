// A batch for CTC: validation, and targets prepared for the kernels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "ctc/types.hpp"

namespace trellis {

// A batch of B rows of up to T frames over a vocabulary of V.
template <class T>
struct CtcBatch {
  std::int64_t frames, count, vocabulary;
  const T* input;                         // (T, B, V): log-probabilities or logits
  std::int64_t frame_stride, row_stride;  // the strides of input, in numbers; V is contiguous
  const std::int64_t* targets;            // (B, most_labels), padded
  std::int64_t most_labels;
  const std::int64_t* input_lengths;   // (B)
  const std::int64_t* target_lengths;  // (B)
  std::int64_t blank;
  bool logits;
};

namespace ctc_detail {

inline void require_between(std::int64_t value, std::int64_t low, std::int64_t high,
                            const std::string& what) {
  if (low <= value && value <= high) return;
  throw std::invalid_argument(what + " is " + std::to_string(value) + ": must be " +
                              std::to_string(low) + " to " + std::to_string(high));
}

}  // namespace ctc_detail

// Throws std::invalid_argument, naming the batch row, if a length or label is out of range.
template <class T>
void check_ctc(const CtcBatch<T>& x) {
  using ctc_detail::require_between;
  require_between(x.vocabulary, 1, std::numeric_limits<std::int32_t>::max(),
                  "the size of the vocabulary");
  require_between(x.most_labels, 0, 1 << 24, "the length of targets");
  require_between(x.blank, 0, x.vocabulary - 1, "blank");
  for (std::int64_t b = 0; b < x.count; ++b) {
    const std::string row = " of batch row " + std::to_string(b);
    require_between(x.input_lengths[b], 0, x.frames, "input length" + row);
    require_between(x.target_lengths[b], 0, x.most_labels, "target length" + row);
    for (std::int64_t i = 0; i < x.target_lengths[b]; ++i) {
      const std::int64_t label = x.targets[b * x.most_labels + i];
      if (0 <= label && label < x.vocabulary && label != x.blank) continue;
      const std::string where = "target" + row + ", position " + std::to_string(i);
      require_between(label, 0, x.vocabulary - 1, where);
      throw std::invalid_argument(where + " is the blank, " + std::to_string(label));
    }
  }
}

// A target prepared for the kernels. Its symbols are the vocabulary or, if `compact`, only the blank and
// the labels that occur: then rows of probabilities are short.
class CtcPlan {
 public:
  // `place` (vocabulary) is scratch memory; all its entries are -1 before and after the call.
  CtcPlan(const std::int64_t* target, std::int64_t count, std::int64_t blank, bool compact,
          std::vector<std::int32_t>& place)
      : labels_(static_cast<int>(count)) {
    const auto use = [&](std::int64_t y) {
      if (place[y] < 0) {
        place[y] = static_cast<std::int32_t>(compact ? symbol_.size() : y);
        symbol_.push_back(static_cast<std::int32_t>(y));
      }
      return place[y];
    };
    blank_ = use(blank);
    column_.resize(static_cast<std::size_t>(ctc_padded(labels_ + 1)));
    skip_.assign(column_.size(), 0.0);
    reach_.assign(column_.size(), 0);
    for (std::int64_t i = 1; i <= count; ++i) {
      column_[i] = use(target[i - 1]);
      const bool repeats = i > 1 && column_[i] == column_[i - 1];
      skip_[i] = i > 1 && !repeats ? 1.0 : 0.0;
      reach_[i] = reach_[i - 1] + (repeats ? 2 : 1);  // a repeated label needs a blank in between
    }
    symbols_ = static_cast<int>(compact ? symbol_.size() : place.size());
    column_[0] = symbols_;
    std::fill(column_.begin() + count + 1, column_.end(), symbols_);
    unused_.assign(static_cast<std::size_t>(ctc_padded(symbols_ + 1)),
                   std::numeric_limits<double>::infinity());
    for (const std::int32_t y : symbol_) {
      unused_[place[y]] = 0.0;
      place[y] = -1;
    }
  }

  CtcTarget view() const {
    return {.labels = labels_,
            .positions = static_cast<int>(column_.size()),
            .symbols = symbols_,
            .blank = blank_,
            .column = column_.data(),
            .skip = skip_.data(),
            .reach = reach_.data(),
            .unused = unused_.data()};
  }
  // Returns the vocabulary entries that occur in the target, in order of appearance.
  const std::vector<std::int32_t>& symbol() const { return symbol_; }
  std::int64_t least_frames() const { return reach_[labels_]; }

 private:
  int labels_, blank_ = 0, symbols_ = 0;
  std::vector<std::int32_t> symbol_, column_, reach_;  // see symbol() and CtcTarget
  std::vector<double> skip_, unused_;                  // see CtcTarget
};

}  // namespace trellis
