// Splits numbered weights of a foreign model into weights of labels and of label pairs, by feature name.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/poll.hpp"

namespace trellis {

// The weights of name i have the numbers begin[i], begin[i] + 1, ... If states[i] is not 0, the first
// `labels` weights belong to the labels. All other weights belong to label pairs, sorted by the first
// label.
struct NumberedNames {
  std::span<const std::int64_t> begin;   // (names + 1)
  std::span<const std::uint8_t> states;  // (names)
  std::span<const std::uint8_t> bare;    // (names): not 0 if its pairs are plain transitions
  std::int64_t labels;
};

// Cells (labels or label pairs) by name.
template <class Cell>
struct NamedCells {
  // The names with at least one cell, and the number of cells of each.
  std::vector<std::int64_t> name, size;
  std::vector<Cell> cell;

  void add(std::int64_t name_index, std::int64_t c) {
    if (name.empty() || name.back() != name_index) {
      name.push_back(name_index);
      size.push_back(0);
    }
    ++size.back();
    cell.push_back(static_cast<Cell>(c));
  }
};

struct SplitWeights {
  NamedCells<std::uint16_t> states;
  NamedCells<std::int32_t> edges;
  std::vector<double> edge_weight;
  std::vector<std::int64_t> pair;  // plain transitions
  std::vector<double> pair_weight;
};

// Splits the weights. `number` must ascend, and each number must belong to a name. The weights of labels
// are moved to the front of `weight`; states.cell.size() is their number.
inline SplitWeights split_weights(const NumberedNames& names, std::span<const std::int64_t> number,
                                  std::span<double> weight) {
  SplitWeights out;
  std::int64_t i = 0;
  const std::int64_t last = static_cast<std::int64_t>(names.states.size()) - 1;
  PollEvery poll(16);
  for (std::size_t k = 0; k < number.size(); ++k) {
    // The bound `last` holds even if another thread changes a number after it was validated.
    while (i < last && number[k] >= names.begin[i + 1]) {
      poll.step();
      ++i;
    }
    poll.step();
    const std::int64_t first = names.states[i] != 0 ? names.labels : 0;
    const std::int64_t cell = number[k] - names.begin[i];
    if (cell < first) {
      weight[out.states.cell.size()] = weight[k];
      out.states.add(i, cell);
    } else if (names.bare[i] != 0) {
      out.pair.push_back(cell - first);
      out.pair_weight.push_back(weight[k]);
    } else {
      out.edges.add(i, cell - first);
      out.edge_weight.push_back(weight[k]);
    }
  }
  return out;
}

}  // namespace trellis
