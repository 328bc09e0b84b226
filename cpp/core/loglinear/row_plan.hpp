// Prepares the rows of a data set for the kernels: which attributes have dense weights, and where the
// weights of each attribute occurrence are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/poll.hpp"
#include "chain/types.hpp"
#include "loglinear/types.hpp"
#include "loglinear/weight_layout.hpp"

namespace trellis {

// Calls use(from, to) for blocks of the rows [begin, end), and polls before each. The kernels that add
// up rows have no polls inside.
template <class Use>
void in_row_blocks(std::int64_t begin, std::int64_t end, const Use& use) {
  constexpr std::int64_t kBlock = 2048;  // rows: more than most chunks have
  for (std::int64_t from = begin; from < end; from += kBlock) {
    poll_interrupt();
    use(from, std::min(end, from + kBlock));
  }
}

// Chooses the attributes whose weights are stored in dense rows, one weight per label. An attribute
// qualifies if it has more weights than a dense row has vectors of eight labels, plus one. The most
// frequent attributes are chosen until the table has kBytes bytes.
class DenseAttributes {
 public:
  // The bytes of the dense table. Other sizes did not help (docs/notes/benchmarks.md).
  static constexpr std::int64_t kBytes = 768 << 10;
  static constexpr int kWidest = 1024;  // padded labels; score_rows() holds one such row on its stack

  // `occurrences` is (attributes), or null if the numbers of occurrences are not known.
  DenseAttributes(const WeightLayout& layout, const std::int64_t* occurrences)
      : layout_(layout), stride_(padded(layout.labels)), place_(layout.attributes, -1) {
    if (stride_ > kWidest) return;
    const auto weight_count = [&](std::int64_t a) {
      return layout.state_begin[a + 1] - layout.state_begin[a];
    };
    for (std::int64_t a = 0; a < layout.attributes; ++a) {
      const bool is_frequent = occurrences == nullptr || occurrences[a] >= kOften;
      if (is_frequent && weight_count(a) > stride_ / kPadding + 1) dense_.push_back(a);
    }
    const auto gain = [&](std::int64_t a) {
      return occurrences == nullptr ? weight_count(a) : occurrences[a];
    };
    std::stable_sort(dense_.begin(), dense_.end(),
                     [&](std::int64_t a, std::int64_t b) { return gain(a) > gain(b); });
    const std::size_t max_rows =
        // Without occurrences, the model only predicts, and all threads share one table. Its size, eight
        // times larger, was chosen by hand.
        occurrences == nullptr ? 8 * kBytes / (stride_ * 8) : kBytes / (stride_ * 8);
    // In training, row numbers are stored in 16 bits (PlannedRows::add).
    static_assert(kBytes / (kPadding * 8) <= 0x10000);
    if (dense_.size() > max_rows) dense_.resize(max_rows);
    for (std::size_t k = 0; k < dense_.size(); ++k) place_[dense_[k]] = static_cast<std::int32_t>(k);
  }

  // Returns an object without dense rows.
  static DenseAttributes none(const WeightLayout& layout) {
    const std::vector<std::int64_t> occurrences(layout.attributes, 0);
    return {layout, occurrences.data()};
  }

  std::int64_t table_size() const { return static_cast<std::int64_t>(dense_.size()) * stride_; }
  // Returns the dense row of attribute a, or -1.
  std::int32_t place(std::int64_t a) const { return place_[a]; }

  // Copies the weights of dense attributes to `table`, (dense attributes, stride).
  void expand(const double* weights, double* table) const {
    std::fill(table, table + table_size(), 0.0);
    for_each_weight([&](std::int64_t weight, std::int64_t cell) { table[cell] = weights[weight]; });
  }

  // Calls use(index of the weight, index in the table) for all weights of dense attributes.
  template <class Use>
  void for_each_weight(const Use& use) const {
    for (std::size_t k = 0; k < dense_.size(); ++k) {
      for (std::int64_t i = layout_.state_begin[dense_[k]]; i < layout_.state_begin[dense_[k] + 1];
           ++i) {
        use(i, static_cast<std::int64_t>(k) * stride_ + layout_.state_label[i]);
      }
    }
  }

 private:
  // The least number of occurrences of a dense attribute; chosen by hand.
  static constexpr std::int64_t kOften = 16;

  WeightLayout layout_;
  int stride_;
  std::vector<std::int64_t> dense_;  // (dense rows): the attribute of each row
  std::vector<std::int32_t> place_;  // (attributes): the dense row, or -1
};

// The attribute occurrences of all rows, sorted by kind of weights and ready for the kernels.
class PlannedRows {
 public:
  PlannedRows(const WeightLayout& layout, const SparseRows& x, const DenseAttributes& dense)
      : layout_(layout) {
    for (std::vector<std::int64_t>* begin : {&dense_begin_, &sparse_begin_, &few_begin_}) {
      begin->reserve(x.rows + 1);
      begin->push_back(0);
    }
    PollEvery poll(16);
    for (std::int64_t r = 0; r < x.rows; ++r) {
      for (std::int64_t i = x.begin[r]; i < x.begin[r + 1]; ++i) {
        poll.step();
        add(x.id_at(i), x.value == nullptr ? nullptr : x.value + i, dense);
      }
      dense_begin_.push_back(static_cast<std::int64_t>(dense_.size()));
      sparse_begin_.push_back(static_cast<std::int64_t>(sparse_.size()));
      few_begin_.push_back(static_cast<std::int64_t>(few_.size()));
    }
    // The kernels read entries past the end to prefetch their weights.
    dense_.resize(dense_.size() + kPast, 0);
    sparse_.resize(sparse_.size() + kPast, Stretch{0, 0});
    few_.resize(few_.size() + kPast, 0);
  }

  RowPlan plan() const {
    return {.labels = layout_.labels,
            .stride = padded(layout_.labels),
            .dense_begin = dense_begin_.data(),
            .dense = dense_.data(),
            .dense_value = data_of(dense_value_),
            .sparse_begin = sparse_begin_.data(),
            .sparse = sparse_.data(),
            .sparse_value = data_of(sparse_value_),
            .few_begin = few_begin_.data(),
            .few = few_.data(),
            .few_label = few_label_.data(),
            .few_value = data_of(few_value_),
            .label = layout_.state_label};
  }

  // Returns 1 + the index of the last state weight that rows [begin, end) use, without dense attributes.
  std::int64_t touched(std::int64_t begin, std::int64_t end) const {
    std::int64_t last = 0;
    for (std::int64_t i = sparse_begin_[begin]; i < sparse_begin_[end]; ++i) {
      last = std::max<std::int64_t>(last, std::int64_t{sparse_[i].begin} + sparse_[i].count);
    }
    for (std::int64_t i = few_begin_[begin]; i < few_begin_[end]; ++i) {
      last = std::max<std::int64_t>(last, std::int64_t{few_[i]} + 1);
    }
    return last;
  }

  // Estimates the work of the kernels for all rows, in multiply-adds. The factors 8 and 3 were chosen by
  // hand; no measurement is recorded.
  double work() const {
    return static_cast<double>(few_.size() + 8 * sparse_.size() + 3 * dense_.size());
  }

 private:
  static constexpr std::size_t kPast = 64;  // at least kWeightsAhead and kAhead of the kernels
  // Attributes with at most 8 weights are listed weight by weight.
  static constexpr std::int64_t kFew = 8;

  static const double* data_of(const std::vector<double>& values) {
    return values.empty() ? nullptr : values.data();
  }

  void add(std::int32_t a, const double* value, const DenseAttributes& dense) {
    if (a < 0 || a >= layout_.attributes) return;
    const std::int64_t begin = layout_.state_begin[a], end = layout_.state_begin[a + 1];
    if (dense.place(a) >= 0) {
      dense_.push_back(static_cast<std::uint16_t>(dense.place(a)));
      if (value != nullptr) dense_value_.push_back(*value);
    } else if (end - begin <= kFew) {
      for (std::int64_t i = begin; i < end; ++i) {
        few_.push_back(static_cast<std::uint32_t>(i));
        few_label_.push_back(layout_.state_label[i]);
        if (value != nullptr) few_value_.push_back(*value);
      }
    } else {
      sparse_.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end - begin)});
      if (value != nullptr) sparse_value_.push_back(*value);
    }
  }

  std::vector<std::int64_t> dense_begin_, sparse_begin_, few_begin_;  // (rows + 1)
  std::vector<std::uint16_t> dense_;                                  // rows of the dense table
  std::vector<std::uint32_t> few_;                                    // single weights
  std::vector<Stretch> sparse_;                                       // ranges of weights
  std::vector<std::uint16_t> few_label_;                              // the label of each entry of few_
  std::vector<double> dense_value_, sparse_value_, few_value_;        // empty if all values are 1
  WeightLayout layout_;
};

}  // namespace trellis
