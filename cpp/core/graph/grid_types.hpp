// What the kernels for grids take: plain pointers, no ownership, no instruction set.
//
// The columns of a grid are lines that run side by side, and so are its rows once it is transposed. Lane
// j of position i is the pixel of line j there; lanes are padded to a multiple of kGridBlock.
#pragma once

#include <cstdint>

namespace trellis {

inline constexpr std::int64_t kGridBlock = 8;  // a multiple of every vector width
inline constexpr double kGridSpan = 300.0;     // of a table: beyond, psi could underflow

struct GridLines {
  std::int64_t positions, lanes;
  int labels;
  const double* unary;    // (positions, labels, lanes)
  const double* across;   // (2, lanes, labels, other lanes): messages of the lines that cross these
  std::int64_t crossing;  // other lanes
  std::int64_t crossed;   // lanes that are crossed: the rest is padding
  double* field;          // (positions, labels, lanes): scratch
  double* forward;        // (positions, labels, lanes): what a position hears from the one before it
  double* backward;       // the same from the one after it
  // scores / weight: (labels, labels), or (positions - 1, labels, labels, lanes)
  const double* table;
  const double* psi;  // exp(table - highest of the edge), laid out as the table
  bool shared;        // whether there is one table for all edges
  double damping;
  // Of the edges along the lines and of those across: 1, or how many of the trees have them.
  double weight, crossing_weight;
  // Two labels in one plane: x(1) - x(0) instead of both. labels is 1 then, and
  // tables still are of two.
  bool odds;
};

struct GridKernels {
  // Fills field for some lanes, passes messages along them, forward then backward; the largest change.
  // scratch is (labels, kGridBlock).
  double (*sum_product)(const GridLines&, std::int64_t begin, std::int64_t end, double* scratch);
  double (*max_product)(const GridLines&, std::int64_t begin, std::int64_t end, double* scratch);
};

}  // namespace trellis
