// Weights by number, as weights of names for labels and for pairs of labels.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trellis {

// The numbers of name i begin with begin[i]. The first ones, where states[i] is not 0, are those of the
// labels; all others are of pairs of labels, the one before first.
struct NumberedNames {
  std::span<const std::int64_t> begin;  // one more than there are names
  std::span<const std::uint8_t> states;
  std::span<const std::uint8_t> bare;  // not 0: its pairs are those of any position, without a name
  std::int64_t labels;
};

template <class Cell>
struct NamedCells {
  std::vector<std::int64_t> name, size;  // which names have any, and how many
  std::vector<Cell> cell;

  void add(std::int64_t own, std::int64_t c) {
    if (name.empty() || name.back() != own) {
      name.push_back(own);
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
  std::vector<std::int64_t> pair;  // without a name
  std::vector<double> pair_weight;
};

// `number` ascends, and each is one of the names'. The weights of labels are moved to the front of
// `weight`: there are as many as states.cell has.
inline SplitWeights split_weights(const NumberedNames& names, std::span<const std::int64_t> number,
                                  std::span<double> weight) {
  SplitWeights out;
  std::int64_t i = 0;
  for (std::size_t k = 0; k < number.size(); ++k) {
    while (number[k] >= names.begin[i + 1]) ++i;
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
