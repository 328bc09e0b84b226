// Grids: shapes, dtypes and the GIL; the work is in core/grid.hpp.
#include "grid.hpp"

#include <nanobind/ndarray.h>

#include "arrays.hpp"
#include "bindings.hpp"
#include "dispatch.hpp"

namespace nb = nanobind;

namespace trellis {
namespace {

using Image = nb::ndarray<const double, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Table = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;
using Messages = nb::ndarray<double, nb::ndim<4>, nb::c_contig, nb::device::cpu>;

// Whether the table is shared; its shape must be (L, L) or one table an edge.
bool is_shared(const Table& table, std::int64_t height, std::int64_t width, std::int64_t labels) {
  const auto size = [&](std::size_t axis) { return static_cast<std::int64_t>(table.shape(axis)); };
  const bool shared = table.ndim() == 2 && size(0) == labels && size(1) == labels;
  const bool own = table.ndim() == 4 && size(0) == height && size(1) == width && size(2) == labels &&
                   size(3) == labels;
  require(shared || own, "tables must be (L, L) or have one for each edge");
  return shared;
}

// (sweeps, residual, converged); messages is (4, H, W, L).
nb::tuple grid_propagate(Image unary, Table horizontal, Table vertical, bool max_product, double damping,
                         double tolerance, std::int64_t most, int threads, Messages messages) {
  const auto size = [](const auto& array, std::size_t axis) {
    return static_cast<std::int64_t>(array.shape(axis));
  };
  const std::int64_t height = size(unary, 0), width = size(unary, 1), labels = size(unary, 2);
  require(height > 0 && width > 0 && labels > 0 && labels < (1 << 20), "the grid must not be empty");
  require(damping >= 0.0 && damping < 1.0, "damping must be in [0, 1)");
  require(threads > 0, "threads must be positive");
  require(size(messages, 0) == 4 && size(messages, 1) == height && size(messages, 2) == width &&
              size(messages, 3) == labels,
          "messages must be (4, H, W, L)");
  const GridScores scores{height,
                          width,
                          static_cast<int>(labels),
                          unary.data(),
                          horizontal.data(),
                          vertical.data(),
                          is_shared(horizontal, height, width - 1, labels),
                          is_shared(vertical, height - 1, width, labels)};
  GridReport report{};
  {
    const nb::gil_scoped_release release;
    Grid grid(scores, kernels().grid);
    report = grid.run({max_product, damping, tolerance, most, threads});
    grid.messages(messages.data());
  }
  return nb::make_tuple(report.sweeps, report.residual, report.converged);
}

}  // namespace
}  // namespace trellis

void bind_grid(nb::module_& m) {
  m.def("grid_propagate", &trellis::grid_propagate, nb::arg("unary"), nb::arg("horizontal"),
        nb::arg("vertical"), nb::arg("max_product"), nb::arg("damping"), nb::arg("tolerance"),
        nb::arg("most"), nb::arg("threads"), nb::arg("messages"));
}
