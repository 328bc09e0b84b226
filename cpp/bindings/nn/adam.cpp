// Binds core/nn/adam.hpp: checks shapes and releases the GIL.
#include "nn/adam.hpp"

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

// Performs one step of Adam. w, m and v are (rows, columns); g is (ids, columns). Only the rows in ids
// change.
void adam(Out<float, 2> w, Out<float, 2> m, Out<float, 2> v, In<std::int64_t> ids, In<float, 2> g,
          double beta1, double beta2, float decay, float size, float scale, float epsilon) {
  for (const auto* moments : {&m, &v})
    require(moments->shape(0) == w.shape(0) && moments->shape(1) == w.shape(1),
            "moments must have the shape of the weights");
  require(g.shape(0) == ids.shape(0) && g.shape(1) == w.shape(1), "g must have one row per id");
  const TableRows table{.w = w.data(),
                        .m = m.data(),
                        .v = v.data(),
                        .rows = static_cast<std::int64_t>(w.shape(0)),
                        .columns = static_cast<std::int64_t>(w.shape(1))};
  const AdamStep step{.part1 = static_cast<float>(1.0 - beta1),
                      .beta2 = static_cast<float>(beta2),
                      .part2 = static_cast<float>(1.0 - beta2),
                      .decay = decay,
                      .size = size,
                      .scale = scale,
                      .epsilon = epsilon};
  const auto rows = checked_ids(ids.data(), static_cast<std::int64_t>(ids.shape(0)), table.rows);
  const ReleasedGil release;
  adam_rows(kernels().adam, table, rows, g.data(), step);
}

}  // namespace
}  // namespace trellis

void bind_adam(nb::module_& m) {
  m.def("adam_rows", &trellis::adam, nb::arg("w").noconvert(), nb::arg("m").noconvert(),
        nb::arg("v").noconvert(), nb::arg("ids"), nb::arg("g"), nb::arg("beta1"), nb::arg("beta2"),
        nb::arg("decay"), nb::arg("size"), nb::arg("scale"), nb::arg("epsilon"));
}
