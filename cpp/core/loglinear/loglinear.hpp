// Log-linear chain models: which weights there are, and how rows of attributes meet them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "base/aligned.hpp"
#include "chain/types.hpp"
#include "loglinear/types.hpp"

namespace trellis {

// SparseRows of each row: ids [begin[r], begin[r + 1]); an id outside the model's attributes is unknown
// and counts for nothing.
struct SparseRows {
  std::int64_t rows;
  const std::int64_t* begin;  // (rows + 1)
  const std::int32_t* id;
  const double* value;  // null: all 1
};

// The weight vector: (attribute, label) pairs, then label bigrams, then (edge attribute, bigram)
// triples.
struct WeightLayout {
  int labels;
  std::int64_t attributes;
  const std::int64_t* state_begin;   // (attributes + 1)
  const std::uint16_t* state_label;  // of each state weight, ascending within an attribute
  std::int64_t bigrams;
  const std::int32_t* bigram;  // from * labels + to, of each transition weight
  std::int64_t edge_attributes;
  const std::int64_t* edge_begin;   // (edge_attributes + 1); null if there are none
  const std::int32_t* edge_bigram;  // of each edge weight

  std::int64_t states() const { return state_begin[attributes]; }
  std::int64_t edges() const { return edge_attributes == 0 ? 0 : edge_begin[edge_attributes]; }
  std::int64_t size() const { return states() + bigrams + edges(); }
};

// Which attributes are worth dense rows of weights: those with so many labels that whole vectors are
// cheaper than one label at a time, the most frequent first, as many as stay in the cache.
class DenseAttributes {
 public:
  static constexpr std::int64_t kBytes = 768 << 10;
  static constexpr int kWidest = 1024;  // labels, padded: loglinear_rows.hpp keeps a row of them at hand

  // occurrences: of each attribute, null if not known.
  DenseAttributes(const WeightLayout& layout, const std::int64_t* occurrences)
      : layout_(layout), stride_(padded(layout.labels)), place_(layout.attributes, -1) {
    if (stride_ > kWidest) return;
    const auto weights = [&](std::int64_t a) {
      return layout.state_begin[a + 1] - layout.state_begin[a];
    };
    for (std::int64_t a = 0; a < layout.attributes; ++a) {
      const bool often = occurrences == nullptr || occurrences[a] >= kOften;
      if (often && weights(a) > stride_ / kPadding + 1) dense_.push_back(a);
    }
    const auto gain = [&](std::int64_t a) {
      return occurrences == nullptr ? weights(a) : occurrences[a];
    };
    std::stable_sort(dense_.begin(), dense_.end(),
                     [&](std::int64_t a, std::int64_t b) { return gain(a) > gain(b); });
    const std::size_t most =
        occurrences == nullptr ? 8 * kBytes / (stride_ * 8) : kBytes / (stride_ * 8);
    static_assert(kBytes / (kPadding * 8) <=
                  0x10000);  // rows are numbered in 16 bits where they are many
    if (dense_.size() > most) dense_.resize(most);
    for (std::size_t k = 0; k < dense_.size(); ++k) place_[dense_[k]] = static_cast<std::int32_t>(k);
  }

  static DenseAttributes none(const WeightLayout& layout) {
    const std::vector<std::int64_t> never(layout.attributes, 0);
    return {layout, never.data()};
  }

  std::int64_t table_size() const { return static_cast<std::int64_t>(dense_.size()) * stride_; }
  std::int32_t place(std::int64_t a) const { return place_[a]; }

  void expand(const double* weights, double* table) const {
    std::fill(table, table + table_size(), 0.0);
    each([&](std::int64_t weight, std::int64_t cell) { table[cell] = weights[weight]; });
  }

  // Calls use(index of the weight, index in the table) for all weights of dense attributes.
  template <class Use>
  void each(const Use& use) const {
    for (std::size_t k = 0; k < dense_.size(); ++k) {
      for (std::int64_t i = layout_.state_begin[dense_[k]]; i < layout_.state_begin[dense_[k] + 1];
           ++i) {
        use(i, static_cast<std::int64_t>(k) * stride_ + layout_.state_label[i]);
      }
    }
  }

 private:
  static constexpr std::int64_t kOften = 16;

  WeightLayout layout_;
  int stride_;
  std::vector<std::int64_t> dense_;  // attributes
  std::vector<std::int32_t> place_;  // of an attribute among them, or -1
};

// The occurrences of attributes in rows, ready for the kernels.
class PlannedRows {
 public:
  PlannedRows(const WeightLayout& layout, const SparseRows& x, const DenseAttributes& dense)
      : layout_(layout) {
    for (std::vector<std::int64_t>* begin : {&dense_begin_, &sparse_begin_, &few_begin_}) {
      begin->reserve(x.rows + 1);
      begin->push_back(0);
    }
    for (std::int64_t r = 0; r < x.rows; ++r) {
      for (std::int64_t i = x.begin[r]; i < x.begin[r + 1]; ++i) {
        add(x.id[i], x.value == nullptr ? nullptr : x.value + i, dense);
      }
      dense_begin_.push_back(static_cast<std::int64_t>(dense_.size()));
      sparse_begin_.push_back(static_cast<std::int64_t>(sparse_.size()));
      few_begin_.push_back(static_cast<std::int64_t>(few_.size()));
    }
    dense_.resize(dense_.size() + kPast, 0);  // fetched ahead, never used
    sparse_.resize(sparse_.size() + kPast, Stretch{0, 0});
    few_.resize(few_.size() + kPast, 0);
  }

  RowPlan plan() const {
    return {layout_.labels,     padded(layout_.labels), dense_begin_.data(),
            dense_.data(),      data_of(dense_value_),  sparse_begin_.data(),
            sparse_.data(),     data_of(sparse_value_), few_begin_.data(),
            few_.data(),        few_label_.data(),      data_of(few_value_),
            layout_.state_label};
  }

  // One past the last weight that occurrences without dense weights touch in these rows.
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

  // How many steps the kernels take for all rows, to compare with other work.
  double work() const {
    return static_cast<double>(few_.size() + 8 * sparse_.size() + 3 * dense_.size());
  }

 private:
  static constexpr std::size_t kPast = 64;  // at least what the kernels look ahead
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

  std::vector<std::int64_t> dense_begin_, sparse_begin_, few_begin_;
  std::vector<std::uint16_t> dense_;
  std::vector<std::uint32_t> few_;
  std::vector<Stretch> sparse_;
  std::vector<std::uint16_t> few_label_;
  std::vector<double> dense_value_, sparse_value_, few_value_;
  WeightLayout layout_;
};

// Transition scores: w of each label bigram, 0 where there is no weight, -inf where it is forbidden.
inline void transition_scores(const WeightLayout& layout, const double* w, const bool* forbidden, double* to) {
  const std::int64_t square = static_cast<std::int64_t>(layout.labels) * layout.labels;
  std::fill(to, to + square, 0.0);
  for (std::int64_t i = 0; i < layout.bigrams; ++i) to[layout.bigram[i]] = w[layout.states() + i];
  for (std::int64_t i = 0; forbidden != nullptr && i < square; ++i) {
    if (forbidden[i]) to[i] = -std::numeric_limits<double>::infinity();
  }
}

// matrices[r - begin] = base + the edge attributes of the transition into row r, for rows (begin, end).
inline void edge_scores(const WeightLayout& layout, const SparseRows& edges, const double* edge_weights,
                        const double* base, std::int64_t begin, std::int64_t end, double* matrices) {
  const std::int64_t square = static_cast<std::int64_t>(layout.labels) * layout.labels;
  for (std::int64_t r = begin; r < end; ++r) {
    double* matrix = matrices + (r - begin) * square;
    std::copy(base, base + square, matrix);
    for (std::int64_t i = edges.begin[r]; i < edges.begin[r + 1]; ++i) {
      const std::int32_t a = edges.id[i];
      if (a < 0 || a >= layout.edge_attributes) continue;
      const double value = edges.value == nullptr ? 1.0 : edges.value[i];
      for (std::int64_t k = layout.edge_begin[a]; k < layout.edge_begin[a + 1]; ++k) {
        matrix[layout.edge_bigram[k]] += value * edge_weights[k];
      }
    }
  }
}

// gradient(edge attribute, bigram) += value * residual of the transition into row r.
inline void add_edges(const WeightLayout& layout, const SparseRows& edges, const double* residuals,
                      std::int64_t begin, std::int64_t end, double* gradient) {
  const std::int64_t square = static_cast<std::int64_t>(layout.labels) * layout.labels;
  for (std::int64_t r = begin; r < end; ++r) {
    const double* residual = residuals + (r - begin) * square;
    for (std::int64_t i = edges.begin[r]; i < edges.begin[r + 1]; ++i) {
      const std::int32_t a = edges.id[i];
      if (a < 0 || a >= layout.edge_attributes) continue;
      const double value = edges.value == nullptr ? 1.0 : edges.value[i];
      for (std::int64_t k = layout.edge_begin[a]; k < layout.edge_begin[a + 1]; ++k) {
        gradient[k] += value * residual[layout.edge_bigram[k]];
      }
    }
  }
}

// Which cells (labels, or bigrams) each attribute is seen with, in what is known of the labels.
struct SeenCells {
  std::vector<std::int64_t> begin{0};
  std::vector<std::int32_t> cell;
};

// cell: of each row, -1 if not known; then all of `allowed` (rows, cells) count, if given. An attribute
// is kept with a cell if its values, times the rows' weights, sum to at least min_sum (-inf: always).
inline SeenCells seen_cells(const SparseRows& x, std::int64_t attributes, int cells,
                            const std::int32_t* cell, const bool* allowed, const double* weight,
                            double min_sum) {
  std::vector<std::int64_t> first(attributes + 1, 0);
  const std::int64_t count = x.begin[x.rows];
  for (std::int64_t i = 0; i < count; ++i) ++first[x.id[i] + 1];
  std::partial_sum(first.begin(), first.end(), first.begin());
  std::vector<std::int32_t> row(count);
  std::vector<double> value(x.value == nullptr ? 0 : count);
  {
    std::vector<std::int64_t> next(first.begin(), first.end() - 1);
    for (std::int64_t r = 0; r < x.rows; ++r) {
      for (std::int64_t i = x.begin[r]; i < x.begin[r + 1]; ++i) {
        const std::int64_t at = next[x.id[i]]++;
        row[at] = static_cast<std::int32_t>(r);
        if (x.value != nullptr) value[at] = x.value[i];
      }
    }
  }
  SeenCells seen;
  std::vector<double> sum(cells, 0.0);
  std::vector<char> touched(cells, 0);
  std::vector<std::int32_t> mine;
  const auto add = [&](std::int32_t c, double amount) {
    if (!touched[c]) mine.push_back(c);
    touched[c] = 1;
    sum[c] += amount;
  };
  for (std::int64_t a = 0; a < attributes; ++a) {
    mine.clear();
    for (std::int64_t i = first[a]; i < first[a + 1]; ++i) {
      const std::int64_t r = row[i];
      const double amount =
          (x.value == nullptr ? 1.0 : value[i]) * (weight == nullptr ? 1.0 : weight[r]);
      if (cell[r] >= 0) add(cell[r], amount);
      for (int c = 0; cell[r] < 0 && allowed != nullptr && c < cells; ++c) {
        if (allowed[r * cells + c]) add(c, amount);
      }
    }
    std::sort(mine.begin(), mine.end());
    for (const std::int32_t c : mine) {
      if (sum[c] >= min_sum) seen.cell.push_back(c);
      sum[c] = 0.0;
      touched[c] = 0;
    }
    seen.begin.push_back(static_cast<std::int64_t>(seen.cell.size()));
  }
  return seen;
}

}  // namespace trellis
