#define NPY_NO_DEPRECATED_API NPY_1_19_API_VERSION
#include "bindings/base/arrays.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <numpy/arrayobject.h>

#include <algorithm>

#include "base/thread_pool.hpp"
#include "bindings/base/gil.hpp"
#include "bindings/base/views.hpp"
#include "bindings/bindings.hpp"

namespace nb = nanobind;

namespace trellis {

// Reads the type and shape of an array through NumPy's C API: see arrays.hpp.
bool view_of(PyObject* object, int dimensions, ArrayView* view) {
  if (!PyArray_CheckExact(object)) return false;
  auto* array = reinterpret_cast<PyArrayObject*>(object);
  const int type = PyArray_TYPE(array);
  if (PyArray_NDIM(array) != dimensions || (type != NPY_FLOAT && type != NPY_DOUBLE)) return false;
  if (!PyArray_ISCARRAY_RO(array)) return false;
  *view = {.data = PyArray_DATA(array),
           .shape = {},
           .item_size = type == NPY_FLOAT ? sizeof(float) : sizeof(double)};
  for (int d = 0; d < dimensions; ++d) view->shape[d] = PyArray_DIM(array, d);
  return true;
}

// The arrays of a list are scattered in memory, so reading each one may miss the cache.
void prefetch_arrays(PyObject* const* arrays, Py_ssize_t i, Py_ssize_t count) {
  // First the object is prefetched, later its shape, which it points to. The distances were chosen by
  // hand.
  constexpr Py_ssize_t kObjectAhead = 16, kShapeAhead = 8;
  if (i + kObjectAhead < count) {
    const char* object = reinterpret_cast<const char*>(arrays[i + kObjectAhead]);
    __builtin_prefetch(object);
    __builtin_prefetch(object + 64);
  }
  if (i + kShapeAhead < count && PyArray_CheckExact(arrays[i + kShapeAhead])) {
    __builtin_prefetch(PyArray_DIMS(reinterpret_cast<PyArrayObject*>(arrays[i + kShapeAhead])));
  }
}

// Creates the views with the C API of NumPy, which is faster than slicing in Python.
nb::object split_rows(PyObject* flat, const std::int64_t* lengths, std::size_t count) {
  require(PyArray_CheckExact(flat), "flat must be an array");
  auto* array = reinterpret_cast<PyArrayObject*>(flat);
  const int dimensions = PyArray_NDIM(array);
  require(1 <= dimensions && dimensions <= 3 && PyArray_ISCARRAY(array), "flat must be contiguous");
  npy_intp shape[3] = {0, 0, 0};
  npy_intp row = PyArray_ITEMSIZE(array);
  for (int d = 1; d < dimensions; ++d) row *= shape[d] = PyArray_DIM(array, d);
  nb::object list = nb::steal(PyList_New(static_cast<Py_ssize_t>(count)));
  if (!list.is_valid()) throw nb::python_error();
  npy_intp done = 0;
  for (std::size_t i = 0; i < count; ++i) {
    shape[0] = lengths[i];
    require(shape[0] >= 0 && shape[0] <= PyArray_DIM(array, 0) - done, "the pieces exceed the array");
    char* data = PyArray_BYTES(array) + done * row;
    PyArray_Descr* type = PyArray_DESCR(array);
    Py_INCREF(type);  // PyArray_NewFromDescr steals the reference
    PyObject* view = PyArray_NewFromDescr(&PyArray_Type, type, dimensions, shape, nullptr, data,
                                          NPY_ARRAY_CARRAY, nullptr);
    if (view == nullptr) throw nb::python_error();
    PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i), view);
    Py_INCREF(flat);  // PyArray_SetBaseObject steals the reference
    if (PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(view), flat) != 0) {
      throw nb::python_error();
    }
    done += shape[0];
  }
  return list;
}

namespace {

using Lengths = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using LengthsOut = nb::ndarray<std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Writes the lengths of a list of arrays, (length, labels), and returns their number of labels. Returns
// 0 if an array is empty, has other labels or another dtype than the first array, or must be converted
// first. Then the caller takes the slow path.
std::int64_t scan_arrays(const nb::list& arrays, const LengthsOut& lengths) {
  require(lengths.shape(0) == arrays.size(), "lengths must have one entry per array");
  PyObject* const* items = PySequence_Fast_ITEMS(arrays.ptr());
  ArrayView first{};
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    ArrayView view;
    prefetch_arrays(items, static_cast<Py_ssize_t>(i), static_cast<Py_ssize_t>(arrays.size()));
    if (!view_of(items[i], 2, &view)) return 0;
    if (i == 0) first = view;
    const bool same = view.shape[1] == first.shape[1] && view.item_size == first.item_size;
    if (view.shape[0] == 0 || !same) return 0;
    lengths.data()[i] = view.shape[0];
  }
  return first.shape[1];
}

// Fills the rows past the end of each sequence with `value`. Sequence i has `slot` rows from row i *
// slot on, of which the first lengths[i] are used.
template <class T>
void fill_padding(nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu> rows,
                  const Lengths& lengths, std::int64_t slot, T value, int threads) {
  const auto count = static_cast<std::int64_t>(lengths.shape(0));
  const auto columns = static_cast<std::int64_t>(rows.shape(1));
  const auto all = static_cast<std::int64_t>(rows.shape(0));
  require(count > 0 && all % count == 0 && slot == all / count,
          "the number of rows must be sequences * slot");
  const std::vector<std::int64_t> used = copy_of(lengths);
  for (const std::int64_t length : used) {
    require(0 <= length && length <= slot, "a length exceeds its slot");
  }
  const ReleasedGil release;
  constexpr std::int64_t kTask = 64;  // sequences
  parallel_for((count + kTask - 1) / kTask, threads, [&] {
    return [&](std::int64_t task) {
      for (std::int64_t i = task * kTask; i < std::min(count, (task + 1) * kTask); ++i) {
        T* row = rows.data() + i * slot * columns;
        std::fill(row + used[i] * columns, row + slot * columns, value);
      }
    };
  });
}

// Loads NumPy's C API. The macro import_array1 contains a return statement, so it needs a separate
// function.
int load_numpy() {
  import_array1(-1);
  return 0;
}

}  // namespace
}  // namespace trellis

void bind_arrays(nb::module_& m) {
  if (trellis::load_numpy() != 0) throw nb::python_error();
  m.def("scan_arrays", &trellis::scan_arrays, nb::arg("arrays"), nb::arg("lengths"));
  m.def("fill_padding", &trellis::fill_padding<double>);
  m.def("fill_padding", &trellis::fill_padding<float>);
  m.def("fill_padding", &trellis::fill_padding<std::int64_t>);
  m.def(
      "split_rows",
      [](const nb::object& flat, const trellis::Lengths& lengths) {
        return trellis::split_rows(flat.ptr(), lengths.data(), lengths.shape(0));
      },
      nb::arg("flat"), nb::arg("lengths"));
}
