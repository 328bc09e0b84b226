// Windows of characters, and Adam on rows of a table: shapes and the GIL; the work is in
// core/nn/network.hpp.
#include "nn/network.hpp"

#include <nanobind/ndarray.h>

#include "bindings/base/arrays.hpp"
#include "bindings/base/views.hpp"
#include "bindings/bindings.hpp"
#include "dispatch.hpp"

namespace nb = nanobind;

namespace trellis {
namespace {

// Ids of characters (words, longest) and a table (characters, width, filters) that has them all.
class Windows {
 public:
  template <class Table>
  Windows(const In<std::int64_t, 2>& ids, const Table& table)
      : ids_(checked_ids(ids.data(), static_cast<std::int64_t>(ids.size()),
                         static_cast<std::int64_t>(table.shape(0)))),
        all_{ids_.data(),
             static_cast<std::int64_t>(ids.shape(0)),
             static_cast<std::int64_t>(ids.shape(1)),
             table.data(),
             static_cast<std::int64_t>(table.shape(1)),
             static_cast<std::int64_t>(table.shape(2))} {
    require(0 < all_.longest && all_.longest < (1 << 30), "a row of ids must have some characters");
    require(all_.width > 0, "a window must have some characters");
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

void largest(In<std::int64_t, 2> ids, In<float, 3> table, Out<float, 2> best,
             Out<std::int32_t, 2> where) {
  const Windows windows(ids, table);
  windows.require_like(best);
  windows.require_like(where);
  const nb::gil_scoped_release release;
  kernels().network.largest(windows.all(), best.data(), where.data());
}

void largest_backward(In<std::int64_t, 2> ids, In<std::int32_t, 2> where, In<float, 2> d_best,
                      Out<float, 3> d_table) {
  const Windows windows(ids, d_table);
  windows.require_like(where);
  windows.require_like(d_best);
  const nb::gil_scoped_release release;
  largest_gradient(windows.all(), where.data(), d_best.data(), d_table.data());
}

void adam(Out<float, 2> w, Out<float, 2> m, Out<float, 2> v, In<std::int64_t> ids, In<float, 2> g,
          double beta1, double beta2, float decay, float size, float scale, float epsilon) {
  for (const auto* moments : {&m, &v})
    require(moments->shape(0) == w.shape(0) && moments->shape(1) == w.shape(1),
            "moments must have the shape of the weights");
  require(g.shape(0) == ids.shape(0) && g.shape(1) == w.shape(1), "one gradient a row");
  const TableRows table{w.data(), m.data(), v.data(), static_cast<std::int64_t>(w.shape(0)),
                        static_cast<std::int64_t>(w.shape(1))};
  const AdamStep step{static_cast<float>(1.0 - beta1),
                      static_cast<float>(beta2),
                      static_cast<float>(1.0 - beta2),
                      decay,
                      size,
                      scale,
                      epsilon};
  const auto own = checked_ids(ids.data(), static_cast<std::int64_t>(ids.shape(0)), table.rows);
  const nb::gil_scoped_release release;
  adam_rows(kernels().network, table, own, g.data(), step);
}

}  // namespace
}  // namespace trellis

void bind_network(nb::module_& m) {
  m.def("largest_windows", &trellis::largest, nb::arg("ids"), nb::arg("table"),
        nb::arg("best").noconvert(), nb::arg("where").noconvert());
  m.def("largest_windows_backward", &trellis::largest_backward, nb::arg("ids"), nb::arg("where"),
        nb::arg("d_best"), nb::arg("d_table").noconvert());
  m.def("adam_rows", &trellis::adam, nb::arg("w").noconvert(), nb::arg("m").noconvert(),
        nb::arg("v").noconvert(), nb::arg("ids"), nb::arg("g"), nb::arg("beta1"), nb::arg("beta2"),
        nb::arg("decay"), nb::arg("size"), nb::arg("scale"), nb::arg("epsilon"));
}
