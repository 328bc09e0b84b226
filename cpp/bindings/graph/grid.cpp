// Binds core/graph/grid.hpp: checks shapes and dtypes, and releases the GIL.
#include "graph/grid.hpp"

#include <nanobind/ndarray.h>

#include <optional>

#include "bindings/base/arrays.hpp"
#include "bindings/base/gil.hpp"
#include "bindings/bindings.hpp"
#include "dispatch.hpp"

namespace nb = nanobind;

namespace trellis {
namespace {

using Image = nb::ndarray<const double, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Table = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;
using Messages = nb::ndarray<double, nb::ndim<4>, nb::c_contig, nb::device::cpu>;

// Returns whether all edges share one (L, L) table. Otherwise there must be one table per edge.
bool is_shared(const Table& table, std::int64_t height, std::int64_t width, std::int64_t labels) {
  const auto size = [&](std::size_t axis) { return static_cast<std::int64_t>(table.shape(axis)); };
  const bool shared = table.ndim() == 2 && size(0) == labels && size(1) == labels;
  const bool per_edge = table.ndim() == 4 && size(0) == height && size(1) == width &&
                        size(2) == labels && size(3) == labels;
  require(shared || per_edge, "tables must be (L, L), or one such table per edge");
  return shared;
}

// A grid after belief propagation. The constructor runs belief propagation; the methods read the result.
// The object keeps the scores alive; Python must not change them.
class GridBinding {
 public:
  GridBinding(Image unary, Table horizontal, Table vertical, bool max_product, double damping,
              double tolerance, std::int64_t max_sweeps, int threads, double horizontal_weight,
              double vertical_weight)
      : unary_(unary) {
    const auto size = [&](std::size_t axis) { return static_cast<std::int64_t>(unary.shape(axis)); };
    height_ = size(0);
    width_ = size(1);
    labels_ = size(2);
    require(height_ > 0 && width_ > 0 && labels_ > 0 && labels_ < (1 << 20),
            "the grid must not be empty");
    require(damping >= 0.0 && damping < 1.0, "damping must be in [0, 1)");
    require(threads > 0, "threads must be positive");
    for (const double weight : {horizontal_weight, vertical_weight}) {
      require(weight > 0.0 && weight <= 1.0, "weights must be in (0, 1]");
    }
    const GridScores scores{.height = height_,
                            .width = width_,
                            .labels = static_cast<int>(labels_),
                            .unary = unary.data(),
                            .horizontal = horizontal.data(),
                            .vertical = vertical.data(),
                            .horizontal_shared = is_shared(horizontal, height_, width_ - 1, labels_),
                            .vertical_shared = is_shared(vertical, height_ - 1, width_, labels_)};
    const ReleasedGil release;
    grid_.emplace(scores, kernels().grid,
                  GridOptions{.max_product = max_product,
                              .damping = damping,
                              .tolerance = tolerance,
                              .max_sweeps = max_sweeps,
                              .threads = threads,
                              .horizontal_weight = horizontal_weight,
                              .vertical_weight = vertical_weight});
    report_ = grid_->run();
  }

  // Returns (sweeps, residual, converged).
  nb::tuple report() const {
    return nb::make_tuple(report_.sweeps, report_.residual, report_.converged);
  }

  // Fills out, (H, W, L), with beliefs. Returns False if a pixel has no possible label.
  bool beliefs(nb::ndarray<double, nb::ndim<3>, nb::c_contig, nb::device::cpu> out) const {
    require(has_shape(out, 0), "beliefs must be (H, W, L)");
    const ReleasedGil release;
    return grid_->beliefs(out.data());
  }

  // Fills out, (4, H, W, L), with the messages from above, below, the left and the right.
  void messages(Messages out) const {
    require(out.shape(0) == 4 && has_shape(out, 1), "messages must be (4, H, W, L)");
    const ReleasedGil release;
    grid_->messages(out.data());
  }

 private:
  template <class A>
  bool has_shape(const A& out, std::size_t from) const {
    return static_cast<std::int64_t>(out.shape(from)) == height_ &&
           static_cast<std::int64_t>(out.shape(from + 1)) == width_ &&
           static_cast<std::int64_t>(out.shape(from + 2)) == labels_;
  }

  Image unary_;
  std::int64_t height_ = 0, width_ = 0, labels_ = 0;
  std::optional<Grid> grid_;
  GridReport report_{};
};

}  // namespace
}  // namespace trellis

void bind_grid(nb::module_& m) {
  using trellis::GridBinding;
  nb::class_<GridBinding>(m, "Grid")
      .def(nb::init<trellis::Image, trellis::Table, trellis::Table, bool, double, double, std::int64_t,
                    int, double, double>(),
           nb::arg("unary"), nb::arg("horizontal"), nb::arg("vertical"), nb::arg("max_product"),
           nb::arg("damping"), nb::arg("tolerance"), nb::arg("max_sweeps"), nb::arg("threads"),
           nb::arg("horizontal_weight") = 1.0, nb::arg("vertical_weight") = 1.0)
      .def("report", &GridBinding::report)
      .def("beliefs", &GridBinding::beliefs, nb::arg("out"))
      .def("messages", &GridBinding::messages, nb::arg("out"));
}
