// Adam on those rows of a table that a batch has used (sparse gradients).
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "base/poll.hpp"
#include "nn/adam_types.hpp"

namespace trellis {

struct TableRows {
  float *w, *m, *v;  // (rows, columns): weights, first and second moments
  std::int64_t rows, columns;
};

// Performs one step for rows ids[i] with gradients g, (ids, columns). Gradients of a repeated row are
// added.
inline void adam_rows(const AdamKernels& kernels, const TableRows& table,
                      const std::vector<std::int64_t>& ids, const float* g, const AdamStep& step) {
  std::vector<std::int64_t> order(ids.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return ids[a] < ids[b]; });
  std::vector<float> sum(static_cast<std::size_t>(table.columns));
  PollEvery poll(64 + table.columns);
  for (auto first = order.begin(); first != order.end();) {
    poll.step();
    const std::int64_t id = ids[*first];
    const float* gradient = g + *first * table.columns;
    if (++first != order.end() && ids[*first] == id) {
      std::copy(gradient, gradient + table.columns, sum.begin());
      for (; first != order.end() && ids[*first] == id; ++first) {
        for (std::int64_t j = 0; j < table.columns; ++j)
          sum[static_cast<std::size_t>(j)] += g[*first * table.columns + j];
      }
      gradient = sum.data();
    }
    const std::int64_t offset = id * table.columns;
    kernels.update(table.w + offset, table.m + offset, table.v + offset, gradient, table.columns, step);
  }
}

}  // namespace trellis
