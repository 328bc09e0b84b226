// Finds the (attribute, label) and (edge attribute, bigram) pairs that occur in the training data: only
// these get a weight.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "base/poll.hpp"
#include "loglinear/weight_layout.hpp"

namespace trellis {

// The cells (labels or bigrams) with which each attribute occurs in the training labels.
struct SeenCells {
  std::vector<std::int64_t> begin{0};  // (attributes + 1)
  std::vector<std::int32_t> cell;
};

// The rows in which each attribute occurs, with its value there: the transpose of SparseRows.
struct Occurrences {
  std::vector<std::int64_t> begin;  // (attributes + 1)
  std::vector<std::int32_t> row;
  std::vector<double> value;  // empty if all are 1

  Occurrences(const SparseRows& x, std::int64_t attributes)
      : begin(attributes + 1, 0), row(x.begin[x.rows]), value(x.value == nullptr ? 0 : x.begin[x.rows]) {
    PollEvery poll(8);
    // Ids are checked again here, because another thread could change them after they were validated.
    for (std::int64_t i = 0; i < x.begin[x.rows]; ++i) {
      poll.step();
      const std::int32_t a = x.id_at(i);
      if (a >= 0 && a < attributes) ++begin[a + 1];
    }
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    std::vector<std::int64_t> next(begin.begin(), begin.end() - 1);
    for (std::int64_t r = 0; r < x.rows; ++r) {
      for (std::int64_t i = x.begin[r]; i < x.begin[r + 1]; ++i) {
        poll.step();
        const std::int32_t a = x.id_at(i);
        if (a < 0 || a >= attributes || next[a] == begin[a + 1]) continue;
        const std::int64_t place = next[a]++;
        row[place] = static_cast<std::int32_t>(r);
        if (x.value != nullptr) value[place] = x.value[i];
      }
    }
  }
};

// The known cell, or the possible cells, of each row.
struct RowCells {
  int cells;                 // the number of different cells
  const std::int32_t* cell;  // (rows): the cell of each row, -1 if it is not known
  const bool* allowed;       // (rows, cells): the cells that count if the cell is unknown; or null
  const double* weight;      // (rows), or null: all 1
};

// Returns the cells of each attribute. A cell is kept if the attribute's values in its rows, times the
// rows' weights, sum to at least min_sum. With min_sum = -inf, all cells are kept.
inline SeenCells seen_cells(const SparseRows& x, std::int64_t attributes, const RowCells& y,
                            double min_sum) {
  const Occurrences occurrences(x, attributes);
  SeenCells seen;
  std::vector<double> sum(y.cells, 0.0);
  std::vector<char> touched(y.cells, 0);
  std::vector<std::int32_t> touched_cells;
  const auto add = [&](std::int32_t c, double amount) {
    if (!touched[c]) touched_cells.push_back(c);
    touched[c] = 1;
    sum[c] += amount;
  };
  PollEvery poll(8);
  for (std::int64_t a = 0; a < attributes; ++a) {
    touched_cells.clear();
    for (std::int64_t i = occurrences.begin[a]; i < occurrences.begin[a + 1]; ++i) {
      poll.step();
      const std::int64_t r = occurrences.row[i];
      const double amount =
          (x.value == nullptr ? 1.0 : occurrences.value[i]) * (y.weight == nullptr ? 1.0 : y.weight[r]);
      if (y.cell[r] >= 0) add(y.cell[r], amount);
      for (int c = 0; y.cell[r] < 0 && y.allowed != nullptr && c < y.cells; ++c) {
        if (y.allowed[r * y.cells + c]) add(c, amount);
      }
    }
    std::sort(touched_cells.begin(), touched_cells.end());
    for (const std::int32_t c : touched_cells) {
      if (sum[c] >= min_sum) seen.cell.push_back(c);
      sum[c] = 0.0;
      touched[c] = 0;
    }
    seen.begin.push_back(static_cast<std::int64_t>(seen.cell.size()));
  }
  return seen;
}

}  // namespace trellis
