// The arguments of the grid kernels: plain pointers, no ownership, independent of the instruction set.
//
// The columns of a grid are parallel lines, and so are its rows after transposing it. Lane j of position
// i is the pixel of line j at that position. Lanes are padded to a multiple of kGridBlock.
#pragma once

#include <cstdint>

namespace trellis {

inline constexpr std::int64_t kGridBlock = 8;  // doubles: a multiple of every vector width
// The largest range of a table; with a larger one, psi could underflow.
inline constexpr double kGridSpan = 300.0;

struct GridLines {
  std::int64_t positions, lanes;
  int labels;
  const double* unary;    // (positions, labels, lanes)
  const double* across;   // (2, lanes, labels, crossing): messages of the crossing lines
  std::int64_t crossing;  // lanes of the crossing lines
  std::int64_t crossed;   // lanes without padding
  double* field;          // (positions, labels, lanes): scratch
  double* forward;        // (positions, labels, lanes): messages from the position before
  double* backward;       // (positions, labels, lanes): messages from the position after
  // The scores divided by `weight` (below): (labels, labels) if shared, otherwise
  // (positions - 1, labels, labels, lanes).
  const double* table;
  const double* psi;  // exp(table - maximum of the edge), in the layout of table
  bool shared;        // all edges have the same table
  double damping;
  // Weights of the edges along the lines and across: 1, or the fraction of spanning trees that use them.
  double weight, crossing_weight;
  // If true, two labels are stored as their difference x(1) - x(0). Then `labels` is 1, but tables are
  // (2, 2).
  bool odds;
};

struct GridKernels {
  // Fills `field` for lanes [begin, end) and passes messages along them, forward, then backward. Returns
  // the largest change. scratch is (2 * labels, kGridBlock).
  double (*sum_product)(const GridLines&, std::int64_t begin, std::int64_t end, double* scratch);
  double (*max_product)(const GridLines&, std::int64_t begin, std::int64_t end, double* scratch);
};

}  // namespace trellis
