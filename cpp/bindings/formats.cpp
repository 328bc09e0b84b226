// Parts of other programs' files that are too slow to make in Python.
#include <nanobind/ndarray.h>

#include "arrays.hpp"
#include "bindings.hpp"
#include "cqdb.hpp"

namespace nb = nanobind;

namespace trellis {
namespace {

using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Integers = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// String i is data[ends[i] : ends[i + 1]].
Numpy<std::uint8_t> make_cqdb(Bytes data, Integers ends) {
  const auto count = static_cast<std::int64_t>(ends.shape(0)) - 1;
  require(count >= 0 && ends.data()[0] == 0, "ends must begin with 0");
  for (std::int64_t i = 0; i < count; ++i)
    require(ends.data()[i] <= ends.data()[i + 1], "ends must ascend");
  require(ends.data()[count] == static_cast<std::int64_t>(data.shape(0)), "ends do not fit the data");
  std::vector<std::uint8_t> made;
  {
    const nb::gil_scoped_release release;
    const char* text = reinterpret_cast<const char*>(data.data());
    cqdb::Writer writer;
    for (std::int64_t i = 0; i < count; ++i) {
      writer.put({text + ends.data()[i], static_cast<std::size_t>(ends.data()[i + 1] - ends.data()[i])});
    }
    made = writer.finish();
  }
  return to_array(std::move(made));
}

}  // namespace
}  // namespace trellis

void bind_formats(nb::module_& m) {
  m.def("make_cqdb", &trellis::make_cqdb, nb::arg("data"), nb::arg("ends"));
}
