// Binds CTC alignment, greedy decoding and prefix search: checks shapes and dtypes, releases the GIL.
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "base/thread_pool.hpp"
#include "bindings/base/arrays.hpp"
#include "bindings/base/gil.hpp"
#include "bindings/base/views.hpp"
#include "bindings/bindings.hpp"
#include "ctc/prefix_search.hpp"
#include "dispatch.hpp"

namespace nb = nanobind;

namespace trellis {
namespace {

template <class T>
using Batch = nb::ndarray<const T, nb::ndim<3>, nb::device::cpu>;  // (B, T, V), V contiguous

template <class A>
std::int64_t size(const A& array, int axis) {
  return static_cast<std::int64_t>(array.shape(static_cast<std::size_t>(axis)));
}

// A validated batch. Lengths are copied, so that they cannot change after the check.
template <class T>
class CtcRows {
 public:
  CtcRows(const Batch<T>& x, const In<std::int64_t, 1>& lengths, std::int64_t blank, int threads)
      : lengths_(copy_of(lengths)), no_targets_(lengths_.size(), 0) {
    require(x.size() == 0 || x.shape(2) == 1 || x.stride(2) == 1, "the last axis must be contiguous");
    require(threads > 0, "threads must be positive");
    require(size(lengths, 0) == size(x, 0), "lengths must have one entry per row");
    batch_ = {.frames = size(x, 1),
              .count = size(x, 0),
              .vocabulary = size(x, 2),
              .input = x.data(),
              .frame_stride = x.stride(1),
              .row_stride = x.stride(0),
              .targets = nullptr,
              .most_labels = 0,
              .input_lengths = lengths_.data(),
              .target_lengths = no_targets_.data(),
              .blank = blank,
              .logits = false};
    for (const std::int64_t length : lengths_) require(length > 0, "a row is empty");
    check_ctc(batch_);
  }

  std::int64_t count() const { return batch_.count; }
  const CtcBatch<T>& batch() const { return batch_; }
  CtcInput<T> operator[](std::int64_t b) const {
    return {.scores = batch_.input + b * batch_.row_stride,
            .frame_stride = batch_.frame_stride,
            .length = lengths_[b],
            .vocabulary = batch_.vocabulary,
            .blank = batch_.blank};
  }

 private:
  std::vector<std::int64_t> lengths_, no_targets_;  // (B)
  CtcBatch<T> batch_{};
};

// Computes the best paths of targets: labels (B, T), starts, ends and confidence (B, S), score (B). The
// confidence of a symbol is the geometric mean of its probabilities in its frames.
template <class T>
void align(const Batch<T>& x, const In<std::int64_t, 2>& targets, const In<std::int64_t, 1>& lengths,
           const In<std::int64_t, 1>& target_lengths, std::int64_t blank, int threads,
           const Out<std::int64_t, 2>& labels, const Out<std::int64_t, 2>& starts,
           const Out<std::int64_t, 2>& ends, const Out<double, 2>& confidence,
           const Out<double, 1>& score) {
  const CtcRows<T> rows(x, lengths, blank, threads);
  const std::vector<std::int64_t> labels_of_targets(targets.data(), targets.data() + targets.size());
  const std::vector<std::int64_t> counts = copy_of(target_lengths);
  const std::int64_t max_labels = size(targets, 1), frames = size(x, 1);
  require(size(targets, 0) == rows.count() && size(target_lengths, 0) == rows.count() &&
              size(score, 0) == rows.count(),
          "targets and score must have one entry per row");
  require(size(labels, 0) == rows.count() && size(labels, 1) == frames, "labels must be (rows, frames)");
  for (const auto& [array_rows, columns] :
       {std::pair(size(starts, 0), size(starts, 1)), std::pair(size(ends, 0), size(ends, 1)),
        std::pair(size(confidence, 0), size(confidence, 1))}) {
    require(array_rows == rows.count() && columns == max_labels,
            "starts, ends and confidence must have the shape of targets");
  }
  CtcBatch<T> batch = rows.batch();
  batch.targets = labels_of_targets.data();
  batch.most_labels = max_labels;
  batch.target_lengths = counts.data();
  check_ctc(batch);
  const ReleasedGil release;
  parallel_for(rows.count(), threads, [&] {
    return [&, aligner = CtcAligner<T>(kernels().ctc),
            runs = std::vector<std::int64_t>()](std::int64_t b) mutable {
      const CtcInput<T> row = rows[b];
      const std::int64_t* target = labels_of_targets.data() + b * max_labels;
      // The runs index frames below. In the caller's arrays another thread could change them, so they
      // are copied to these arrays only afterwards.
      runs.resize(static_cast<std::size_t>(2 * counts[b]));
      const CtcRuns out{
          .labels = labels.data() + b * frames, .starts = runs.data(), .ends = runs.data() + counts[b]};
      const double best = score.data()[b] = aligner.align(row, target, counts[b], out);
      if (std::isinf(best)) return;
      for (std::int64_t i = 0; i < counts[b]; ++i) {
        double sum = 0.0;
        for (std::int64_t t = out.starts[i]; t < out.ends[i]; ++t) sum += row.frame(t)[target[i]];
        confidence.data()[b * max_labels + i] =
            std::exp(sum / static_cast<double>(out.ends[i] - out.starts[i]));
      }
      std::copy(out.starts, out.starts + counts[b], starts.data() + b * max_labels);
      std::copy(out.ends, out.ends + counts[b], ends.data() + b * max_labels);
    };
  });
}

// The hypotheses of all rows as flat arrays: hypotheses per row, symbols per hypothesis, log-probability
// per hypothesis, then all symbols and their frames.
using Flat = std::tuple<Numpy<std::int64_t>, Numpy<std::int64_t>, Numpy<double>, Numpy<std::int64_t>,
                        Numpy<std::int64_t>>;

Flat flatten(const std::vector<std::vector<CtcHypothesis>>& rows) {
  std::vector<std::int64_t> counts, lengths, labels, frames;
  std::vector<double> log_probs;
  for (const auto& row : rows) {
    counts.push_back(static_cast<std::int64_t>(row.size()));
    for (const CtcHypothesis& h : row) {
      lengths.push_back(static_cast<std::int64_t>(h.labels.size()));
      log_probs.push_back(h.log_prob);
      labels.insert(labels.end(), h.labels.begin(), h.labels.end());
      frames.insert(frames.end(), h.frames.begin(), h.frames.end());
    }
  }
  return {to_array(std::move(counts)), to_array(std::move(lengths)), to_array(std::move(log_probs)),
          to_array(std::move(labels)), to_array(std::move(frames))};
}

// Returns one hypothesis per row: the best label of each frame, collapsed.
template <class T>
Flat greedy(const Batch<T>& x, const In<std::int64_t, 1>& lengths, std::int64_t blank, int threads) {
  const CtcRows<T> rows(x, lengths, blank, threads);
  std::vector<std::vector<CtcHypothesis>> hypotheses(static_cast<std::size_t>(rows.count()));
  {
    const ReleasedGil release;
    parallel_for(rows.count(), threads, [&] {
      return [&](std::int64_t b) {
        CtcHypothesis h{};
        h.log_prob = ctc_greedy(rows[b], kernels().ctc.best<T>(), &h.labels, &h.frames);
        hypotheses[b].push_back(std::move(h));
      };
    });
  }
  return flatten(hypotheses);
}

// Returns the k best labellings of each row, by prefix search with a beam of `width`.
template <class T>
Flat beam_search(const Batch<T>& x, const In<std::int64_t, 1>& lengths, std::int64_t blank,
                 std::int64_t width, std::int64_t k, double min_log_prob, int threads) {
  const CtcRows<T> rows(x, lengths, blank, threads);
  require(width > 0 && k > 0, "width and k must be positive");
  std::vector<std::vector<CtcHypothesis>> hypotheses(static_cast<std::size_t>(rows.count()));
  {
    const ReleasedGil release;
    parallel_for(rows.count(), threads, [&] {
      return [&, search = CtcPrefixSearch<T>(kernels().ctc, width, min_log_prob)](
                 std::int64_t b) mutable { hypotheses[b] = search.search(rows[b], k); };
    });
  }
  return flatten(hypotheses);
}

template <class T>
void bind(nb::module_& m) {
  m.def("ctc_align", &align<T>);
  m.def("ctc_greedy", &greedy<T>);
  m.def("ctc_beam_search", &beam_search<T>);
}

}  // namespace
}  // namespace trellis

void bind_ctc_decode(nb::module_& m) {
  trellis::bind<float>(m);
  trellis::bind<double>(m);
}
