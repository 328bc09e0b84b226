// Decodes one sequence into transcripts with word times; all at once, or as the frames arrive.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "ctc/align.hpp"
#include "ctc/word_search.hpp"

namespace trellis {

struct CtcTimedTranscript {
  CtcTranscript transcript;
  std::vector<std::int64_t> starts, ends;  // (words): frames; empty if times were not requested
};

// Finds the times of the words of a transcript on the best path of its labels. A word boundary is
// treated as a blank, because a text does not contain the number of boundary labels that were emitted.
template <class T>
class CtcWordTimes {
 public:
  CtcWordTimes(const CtcKernels& kernels, const CtcInput<T>& x, std::int64_t space)
      : x_(x), aligner_(kernels) {
    if (space < 0) return;
    merged_.resize(static_cast<std::size_t>(x.length * x.vocabulary));
    for (std::int64_t t = 0; t < x.length; ++t) {
      T* row = merged_.data() + t * x.vocabulary;
      std::copy(x.frame(t), x.frame(t) + x.vocabulary, row);
      row[x.blank] = std::max(row[x.blank], row[space]);
    }
    x_.scores = merged_.data();
    x_.frame_stride = x.vocabulary;
  }

  // Fills starts and ends of a transcript.
  void find(CtcTimedTranscript* out) {
    const CtcTranscript& text = out->transcript;
    const std::vector<std::int64_t> target(text.labels.begin(), text.labels.end());
    const std::size_t count = target.size();
    runs_.assign(static_cast<std::size_t>(x_.length) + 2 * count, 0);
    std::int64_t* starts = runs_.data() + x_.length;
    aligner_.align(x_, target.data(), static_cast<std::int64_t>(count),
                   {runs_.data(), starts, starts + count});
    std::size_t label = 0;
    for (const std::int32_t size : text.sizes) {
      out->starts.push_back(starts[label]);
      label += static_cast<std::size_t>(size);
      out->ends.push_back(starts[count + label - 1]);
    }
  }

 private:
  CtcInput<T> x_;
  CtcAligner<T> aligner_;
  std::vector<T> merged_;
  std::vector<std::int64_t> runs_;
};

// The decoder of one sequence.
template <class T>
class CtcWordDecoder {
 public:
  // search.begin() must have been called. No other decoder may use `search` before finish().
  CtcWordDecoder(const CtcWords& words, CtcWordSearch& search, const CtcKernels& kernels, bool logits)
      : words_(words), search_(search), kernels_(kernels), logits_(logits) {}

  // Processes frames. Returns false if no hypothesis survives a frame; frames() is then the index of
  // that frame.
  bool feed(const CtcInput<T>& x) {
    PollEvery poll(kCtcFrameCost + x.vocabulary);
    for (std::int64_t t = 0; t < x.length; ++t, ++frames_) {
      poll.step();
      const T* frame = x.frame(t);
      const double norm = logits_ ? kernels_.scores<T>().log_norm(frame, x.vocabulary) : 0.0;
      if (!search_.advance(frame, norm)) return false;
    }
    return true;
  }

  std::int64_t frames() const { return frames_; }
  const CtcWordSearch& search() const { return search_; }

  // Returns the k best transcripts. `x` has all frames so far; it is null if times are not requested.
  std::vector<CtcTimedTranscript> finish(std::int64_t k, const CtcInput<T>* x) {
    std::vector<CtcTimedTranscript> out;
    for (CtcTranscript& transcript : search_.finish(k)) out.push_back({std::move(transcript), {}, {}});
    if (x == nullptr || x->length == 0) return out;
    CtcWordTimes<T> times(kernels_, *x, words_.options().space);
    for (CtcTimedTranscript& transcript : out) times.find(&transcript);
    return out;
  }

 private:
  const CtcWords& words_;
  CtcWordSearch& search_;
  const CtcKernels& kernels_;
  const bool logits_;
  std::int64_t frames_ = 0;
};

}  // namespace trellis
