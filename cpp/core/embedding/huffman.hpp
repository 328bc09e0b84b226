// The Huffman tree over words: frequent words have short paths.
//
// Inner node i is row i of the output table; the root is row words - 2. The tree is built from
// descending counts in the same way as in fastText, so that models are interchangeable.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "base/poll.hpp"

namespace trellis {

struct HuffmanTree {
  std::vector<std::int64_t> begin{0};  // the path of word i is [begin[i], begin[i + 1])
  std::vector<std::int32_t> node;      // inner nodes, from the word's parent to the root
  std::vector<std::uint8_t> right;     // 1 if the path goes to the right child of that node
  std::vector<std::int32_t>
      child;  // (inner nodes, 2): left and right; inner nodes are numbered from `words`
};

inline HuffmanTree huffman_tree(const std::int64_t* count, std::int64_t words) {
  for (std::int64_t i = 0; i < words; ++i) {
    if (count[i] < 0 || (i > 0 && count[i] > count[i - 1]))
      throw std::invalid_argument("counts must be positive, in descending order");
  }
  const auto size = static_cast<std::size_t>(words);
  HuffmanTree tree;
  if (words == 0) return tree;
  std::vector<std::int64_t> weight(count, count + words);
  std::vector<std::int64_t> parent(2 * size - 1, -1);
  std::vector<std::uint8_t> is_right(2 * size - 1, 0);
  PollEvery poll(64);
  std::int64_t leaf = words - 1, inner = words;  // the lightest leaf, the lightest inner node
  for (std::int64_t next = words; next < 2 * words - 1; ++next) {
    poll.step();
    std::int64_t lightest[2];
    for (std::int64_t& node : lightest) {
      const bool is_leaf = leaf >= 0 && (inner == next || weight[static_cast<std::size_t>(leaf)] <
                                                              weight[static_cast<std::size_t>(inner)]);
      node = is_leaf ? leaf-- : inner++;
    }
    for (int side = 0; side < 2; ++side) {
      parent[static_cast<std::size_t>(lightest[side])] = next;
      is_right[static_cast<std::size_t>(lightest[side])] = static_cast<std::uint8_t>(side);
      tree.child.push_back(static_cast<std::int32_t>(lightest[side]));
    }
    weight.push_back(weight[static_cast<std::size_t>(lightest[0])] +
                     weight[static_cast<std::size_t>(lightest[1])]);
  }
  for (std::int64_t word = 0; word < words; ++word) {
    poll.step();
    for (auto at = static_cast<std::size_t>(word); parent[at] != -1;
         at = static_cast<std::size_t>(parent[at])) {
      tree.node.push_back(static_cast<std::int32_t>(parent[at] - words));
      tree.right.push_back(is_right[at]);
    }
    tree.begin.push_back(static_cast<std::int64_t>(tree.node.size()));
  }
  return tree;
}

}  // namespace trellis
