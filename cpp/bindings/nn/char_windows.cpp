// Binds core/nn/char_windows.hpp: checks shapes and releases the GIL.
#include "nn/char_windows.hpp"

#include <nanobind/ndarray.h>

#include "bindings/base/arrays.hpp"
#include "bindings/base/gil.hpp"
#include "bindings/base/views.hpp"
#include "bindings/bindings.hpp"
#include "dispatch.hpp"
#include "nn/checked_ids.hpp"

namespace nb = nanobind;

namespace trellis {
namespace {

// Validated arguments: ids (words, longest), and a table (characters, width, filters) that has all ids.
class Windows {
 public:
  template <class Table>
  Windows(const In<std::int64_t, 2>& ids, const Table& table)
      : ids_(checked_ids(ids.data(), static_cast<std::int64_t>(ids.size()),
                         static_cast<std::int64_t>(table.shape(0)))),
        all_{.ids = ids_.data(),
             .words = static_cast<std::int64_t>(ids.shape(0)),
             .longest = static_cast<std::int64_t>(ids.shape(1)),
             .table = table.data(),
             .width = static_cast<std::int64_t>(table.shape(1)),
             .filters = static_cast<std::int64_t>(table.shape(2))} {
    require(0 < all_.longest && all_.longest < (1 << 30), "ids must have 1 to 2^30 - 1 columns");
    require(all_.width > 0, "table must have at least one position per window");
  }

  const CharWindows& all() const { return all_; }

  template <class Array>
  void require_like(const Array& array) const {
    require(static_cast<std::int64_t>(array.shape(0)) == all_.words &&
                static_cast<std::int64_t>(array.shape(1)) == all_.filters,
            "best, d_best and where must be (words, filters)");
  }

 private:
  std::vector<std::int64_t> ids_;
  CharWindows all_;
};

// Fills best and where, (words, filters), with the largest score and its position.
void largest(In<std::int64_t, 2> ids, In<float, 3> table, Out<float, 2> best,
             Out<std::int32_t, 2> where) {
  const Windows windows(ids, table);
  windows.require_like(best);
  windows.require_like(where);
  const ReleasedGil release;
  kernels().char_windows.largest(windows.all(), best.data(), where.data());
}

// Adds the gradient to d_table, (characters, width, filters).
void largest_backward(In<std::int64_t, 2> ids, In<std::int32_t, 2> where, In<float, 2> d_best,
                      Out<float, 3> d_table) {
  const Windows windows(ids, d_table);
  windows.require_like(where);
  windows.require_like(d_best);
  const ReleasedGil release;
  largest_gradient(windows.all(), where.data(), d_best.data(), d_table.data());
}

}  // namespace
}  // namespace trellis

void bind_char_windows(nb::module_& m) {
  m.def("largest_windows", &trellis::largest, nb::arg("ids"), nb::arg("table"),
        nb::arg("best").noconvert(), nb::arg("where").noconvert());
  m.def("largest_windows_backward", &trellis::largest_backward, nb::arg("ids"), nb::arg("where"),
        nb::arg("d_best"), nb::arg("d_table").noconvert());
}
