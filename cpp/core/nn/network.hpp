// The smaller parts of a network that would be many small operations: windows of characters and their
// gradient, and Adam on the rows of a table that a batch has touched.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "nn/network_types.hpp"

namespace trellis {

// A copy of ids of rows: what is checked must not change.
inline std::vector<std::int64_t> checked_ids(const std::int64_t* ids, std::int64_t count,
                                             std::int64_t rows) {
  std::vector<std::int64_t> own(ids, ids + count);
  for (const std::int64_t id : own) {
    if (id < 0 || id >= rows)
      throw std::invalid_argument("row " + std::to_string(id) + " is not in a table of " +
                                  std::to_string(rows));
  }
  return own;
}

// d_table += d of the best windows, one after the other.
inline void largest_gradient(const CharWindows& a, const std::int32_t* where, const float* d_best,
                             float* d_table) {
  for (std::int64_t word = 0; word < a.words; ++word) {
    const std::int64_t* ids = a.ids + word * a.longest;
    for (std::int64_t f = 0; f < a.filters; ++f) {
      const std::int64_t t = where[word * a.filters + f];
      if (t < 0 || t >= a.longest)
        throw std::invalid_argument("window " + std::to_string(t) + " is not in a row of " +
                                    std::to_string(a.longest));
      const std::int64_t end = std::min(a.width, a.longest - t);
      for (std::int64_t k = 0; k < end; ++k) {
        const std::int64_t id = ids[t + k];
        if (id != 0) d_table[(id * a.width + k) * a.filters + f] += d_best[word * a.filters + f];
      }
    }
  }
}

struct TableRows {
  float *w, *m, *v;  // (rows, columns): weights, first and second moments
  std::int64_t rows, columns;
};

// Adam on rows ids[i] with gradients g[i] of `columns` each; those of a row that is there twice are
// added.
inline void adam_rows(const NetworkKernels& kernels, const TableRows& table,
                      const std::vector<std::int64_t>& ids, const float* g, const AdamStep& step) {
  std::vector<std::int64_t> order(ids.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return ids[a] < ids[b]; });
  std::vector<float> sum(static_cast<std::size_t>(table.columns));
  for (auto first = order.begin(); first != order.end();) {
    const std::int64_t id = ids[*first];
    const float* own = g + *first * table.columns;
    if (++first != order.end() && ids[*first] == id) {
      std::copy(own, own + table.columns, sum.begin());
      for (; first != order.end() && ids[*first] == id; ++first) {
        for (std::int64_t j = 0; j < table.columns; ++j)
          sum[static_cast<std::size_t>(j)] += g[*first * table.columns + j];
      }
      own = sum.data();
    }
    const std::int64_t at = id * table.columns;
    kernels.adam(table.w + at, table.m + at, table.v + at, own, table.columns, step);
  }
}

}  // namespace trellis
