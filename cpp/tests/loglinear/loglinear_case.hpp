// Small log-linear models with random data, and their expected results by enumeration of all label
// sequences.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "loglinear/objective.hpp"
#include "loglinear/row_plan.hpp"
#include "loglinear/seen_cells.hpp"

using Vector = std::vector<double>;
using Path = std::vector<std::int32_t>;

struct Settings {
  int labels = 3;
  int sequences = 6;
  int longest = 4;
  bool values = false, edges = false, partial = false, weights = false, costs = false;
  double bigrams = 0.8;    // the fraction of transitions with a weight
  double trigrams = 0.0;   // the fraction of label trigrams with a weight
  double forbidden = 0.0;  // the fraction of forbidden transitions, first and last labels
  double scale = 1.0;      // the standard deviation of the weights
  bool full = false;       // all possible features, so that no two labellings have the same score
};

// Sparse rows of attributes; some ids are outside the model.
struct RowsOfIds {
  std::vector<std::int64_t> begin{0};
  std::vector<std::int32_t> id;
  Vector value;

  trellis::SparseRows view() const {
    return {.rows = static_cast<std::int64_t>(begin.size()) - 1,
            .begin = begin.data(),
            .id = id.data(),
            .value = value.empty() ? nullptr : value.data()};
  }
};

class Case {
 public:
  Vector w;

  Case(std::mt19937_64& random, const Settings& settings) : s_(settings), random_(random) {
    make_layout();
    make_rows();
    make_labels();
    std::normal_distribution<double> normal(0.0, s_.scale);
    w.resize(static_cast<std::size_t>(layout().size()));
    for (double& x : w) x = normal(random_);
  }

  trellis::WeightLayout layout() const {
    return {.labels = s_.labels,
            .attributes = kAttributes,
            .state_begin = state_begin_.data(),
            .state_label = state_label_.data(),
            .bigrams = static_cast<std::int64_t>(bigram_.size()),
            .bigram = bigram_.data(),
            .edge_attributes = s_.edges ? kEdgeAttributes : 0,
            .edge_begin = s_.edges ? edge_begin_.data() : nullptr,
            .edge_bigram = s_.edges ? edge_bigram_.data() : nullptr,
            .trigrams = static_cast<std::int64_t>(trigram_.size()),
            .trigram = trigram_.data()};
  }
  trellis::SparseRows x() const { return rows_.view(); }
  trellis::SparseRows edges() const { return s_.edges ? edge_rows_.view() : trellis::SparseRows{}; }
  trellis::TrainingLabels y() const {
    return {.sequences = s_.sequences,
            .row_begin = row_begin_.data(),
            .label = label_.data(),
            .allowed = allowed_.get(),
            .weight = weight_.empty() ? nullptr : weight_.data(),
            .cost = cost_.empty() ? nullptr : cost_.data(),
            .forbidden = forbidden_.get(),
            .start = start_.empty() ? nullptr : start_.data(),
            .end = end_.empty() ? nullptr : end_.data()};
  }
  // Returns the labels of sequence i alone; its rows keep their numbers.
  trellis::TrainingLabels only(std::int64_t i) const {
    trellis::TrainingLabels one = y();
    one.sequences = 1;
    one.row_begin += i;
    if (one.weight != nullptr) one.weight += i;
    return one;
  }

  std::int64_t length(std::int64_t i) const { return row_begin_[i + 1] - row_begin_[i]; }
  double weight(std::int64_t i) const { return weight_.empty() ? 1.0 : weight_[i]; }
  Path labels(std::int64_t i) const {
    return {label_.begin() + row_begin_[i], label_.begin() + row_begin_[i + 1]};
  }

  // Calls use(weight, value) for the features of position t of sequence i that have these labels.
  template <class Use>
  void features_at(std::int64_t i, std::int64_t t, std::int32_t before, std::int32_t here,
                   const Use& use) const {
    const std::int64_t row = row_begin_[i] + t;
    for_each_attribute(rows_, row, kAttributes, [&](std::int32_t a, double value) {
      for (std::int64_t k = state_begin_[a]; k < state_begin_[a + 1]; ++k) {
        if (state_label_[k] == here) use(k, value);
      }
    });
    if (t == 0) return;
    const std::int64_t states = layout().states();
    const std::int32_t cell = before * s_.labels + here;
    for (std::size_t k = 0; k < bigram_.size(); ++k) {
      if (bigram_[k] == cell) use(states + static_cast<std::int64_t>(k), 1.0);
    }
    if (!s_.edges) return;
    for_each_attribute(edge_rows_, row, kEdgeAttributes, [&](std::int32_t a, double value) {
      for (std::int64_t k = edge_begin_[a]; k < edge_begin_[a + 1]; ++k) {
        if (edge_bigram_[k] == cell) use(states + layout().bigrams + k, value);
      }
    });
  }
  template <class Use>
  void features(std::int64_t i, const Path& path, const Use& use) const {
    for (std::size_t t = 0; t < path.size(); ++t) {
      features_at(i, static_cast<std::int64_t>(t), t == 0 ? -1 : path[t - 1], path[t], use);
    }
    trigrams(path, use);
  }
  // Calls use(weight, value) for the label trigrams of a path.
  template <class Use>
  void trigrams(const Path& path, const Use& use) const {
    for (std::size_t t = 2; t < path.size(); ++t) {
      const std::int64_t cell =
          (std::int64_t{path[t - 2]} * s_.labels + path[t - 1]) * s_.labels + path[t];
      for (std::size_t k = 0; k < trigram_.size(); ++k) {
        if (trigram_[k] == cell) use(layout().first_trigram() + static_cast<std::int64_t>(k), 1.0);
      }
    }
  }

  // Returns the score of label `here` after `before`, plus the cost of a wrong label; -inf if forbidden.
  double score_at(std::int64_t i, std::int64_t t, std::int32_t before, std::int32_t here,
                  const Vector& weights) const {
    double score = 0.0;
    features_at(i, t, before, here, [&](std::int64_t k, double value) { score += weights[k] * value; });
    const std::int32_t right = label_[row_begin_[i] + t];
    if (!cost_.empty() && right >= 0 && right != here) score += cost_[right];
    const bool is_forbidden = t == 0 ? !start_.empty() && start_[here] < 0.0
                                     : forbidden_ && forbidden_[before * s_.labels + here];
    return is_forbidden ? -kInfinity : score;
  }
  double score(std::int64_t i, const Path& path, const Vector& weights) const {
    double total = end_.empty() ? 0.0 : end_[path.back()];
    for (std::size_t t = 0; t < path.size(); ++t) {
      total += score_at(i, static_cast<std::int64_t>(t), t == 0 ? -1 : path[t - 1], path[t], weights);
    }
    trigrams(path, [&](std::int64_t k, double value) { total += weights[k] * value; });
    return total;
  }

  // Returns whether a labelling agrees with the known labels.
  bool consistent(std::int64_t i, const Path& path) const {
    for (std::size_t t = 0; t < path.size(); ++t) {
      const std::int64_t row = row_begin_[i] + static_cast<std::int64_t>(t);
      if (label_[row] >= 0 ? path[t] != label_[row] : allowed_ && !allowed_[row * s_.labels + path[t]]) {
        return false;
      }
    }
    return true;
  }

  std::vector<Path> paths(std::int64_t i) const {
    std::vector<Path> all(1);
    for (std::int64_t t = 0; t < length(i); ++t) {
      std::vector<Path> longer;
      for (const Path& path : all) {
        for (std::int32_t y = 0; y < s_.labels; ++y) {
          longer.push_back(path);
          longer.back().push_back(y);
        }
      }
      all = std::move(longer);
    }
    return all;
  }

  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static constexpr std::int64_t kAttributes = 7, kEdgeAttributes = 3;

 private:
  bool chance(double p) { return std::bernoulli_distribution(p)(random_); }
  std::int32_t below(std::int64_t n) {
    return static_cast<std::int32_t>(std::uniform_int_distribution<std::int64_t>(0, n - 1)(random_));
  }

  // Creates a layout in which attribute 0 has weights for all labels, attribute 1 for none, and each
  // other attribute for some labels.
  void make_layout() {
    for (std::int64_t a = 0; a < kAttributes; ++a) {
      for (int y = 0; y < s_.labels; ++y) {
        if (a == 0 || s_.full || (a > 1 && chance(0.7)))
          state_label_.push_back(static_cast<std::uint16_t>(y));
      }
      state_begin_.push_back(static_cast<std::int64_t>(state_label_.size()));
    }
    const std::int32_t cells = s_.labels * s_.labels;
    for (std::int32_t cell = 0; cell < cells; ++cell) {
      if (s_.full || chance(s_.bigrams)) bigram_.push_back(cell);
    }
    for (std::int64_t cell = 0; s_.trigrams > 0.0 && cell < std::int64_t{cells} * s_.labels; ++cell) {
      if (chance(s_.trigrams)) trigram_.push_back(cell);
    }
    for (std::int64_t a = 0; s_.edges && a < kEdgeAttributes; ++a) {
      for (std::int32_t cell = 0; cell < cells; ++cell) {
        if (chance(0.5)) edge_bigram_.push_back(cell);
      }
      edge_begin_.push_back(static_cast<std::int64_t>(edge_bigram_.size()));
    }
  }

  void make_rows() {
    std::normal_distribution<double> normal;
    for (int i = 0; i < s_.sequences; ++i)
      row_begin_.push_back(row_begin_.back() + 1 + below(s_.longest));
    const auto fill = [&](RowsOfIds& rows, std::int64_t attributes) {
      for (std::int64_t r = 0; r < row_begin_.back(); ++r) {
        if (s_.full || chance(0.9)) rows.id.push_back(0);
        for (int k = below(4); k > 0; --k) rows.id.push_back(below(attributes + 2) - 1);
        rows.begin.push_back(static_cast<std::int64_t>(rows.id.size()));
      }
      if (!s_.values) return;
      rows.value.resize(rows.id.size());
      for (double& v : rows.value) v = normal(random_);
    };
    fill(rows_, kAttributes);
    if (s_.edges) fill(edge_rows_, kEdgeAttributes);
  }

  void make_labels() {
    const std::int64_t rows = row_begin_.back(), labels = s_.labels;
    for (std::int64_t r = 0; r < rows; ++r) {
      label_.push_back(s_.partial && chance(0.3) ? -1 : below(labels));
    }
    const auto flags = [&](std::int64_t n, double p) {
      std::unique_ptr<bool[]> values(new bool[static_cast<std::size_t>(n)]);
      for (std::int64_t k = 0; k < n; ++k) values[k] = chance(p);
      return values;
    };
    if (s_.partial && chance(0.5)) {
      allowed_ = flags(rows * labels, 0.6);
      for (std::int64_t r = 0; r < rows; ++r) allowed_[r * labels + below(labels)] = true;
    }
    std::uniform_real_distribution<double> uniform(0.1, 2.0);
    for (int i = 0; s_.weights && i < s_.sequences; ++i) weight_.push_back(uniform(random_));
    for (int y = 0; s_.costs && y < labels; ++y) cost_.push_back(uniform(random_));
    if (s_.forbidden == 0.0) return;
    forbidden_ = flags(labels * labels, s_.forbidden);
    for (Vector* edge : {&start_, &end_}) {
      for (int y = 0; y < labels; ++y) edge->push_back(chance(s_.forbidden) ? -kInfinity : 0.0);
    }
  }

  template <class Use>
  static void for_each_attribute(const RowsOfIds& rows, std::int64_t row, std::int64_t attributes,
                                 const Use& use) {
    for (std::int64_t k = rows.begin[row]; k < rows.begin[row + 1]; ++k) {
      if (rows.id[k] < 0 || rows.id[k] >= attributes) continue;
      use(rows.id[k], rows.value.empty() ? 1.0 : rows.value[k]);
    }
  }

  Settings s_;
  std::mt19937_64& random_;
  std::vector<std::int64_t> state_begin_{0}, edge_begin_{0}, row_begin_{0};
  std::vector<std::uint16_t> state_label_;
  std::vector<std::int64_t> trigram_;
  std::vector<std::int32_t> bigram_, edge_bigram_, label_;
  RowsOfIds rows_, edge_rows_;
  std::unique_ptr<bool[]> allowed_, forbidden_;
  Vector weight_, cost_, start_, end_;
};

// Returns log sum exp of the scores, and computes p = exp(score - log sum exp); all 0 if every score is
// -inf.
inline double normalise(const Vector& scores, Vector& p) {
  const double top = *std::max_element(scores.begin(), scores.end());
  p.assign(scores.size(), 0.0);
  if (top == -Case::kInfinity) return top;
  double total = 0.0;
  for (const double s : scores) total += std::exp(s - top);
  const double log_z = top + std::log(total);
  for (std::size_t k = 0; k < scores.size(); ++k) p[k] = std::exp(scores[k] - log_z);
  return log_z;
}
