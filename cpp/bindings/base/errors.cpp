#include "bindings/base/errors.hpp"

#include <nanobind/nanobind.h>

#include <exception>

#include "bindings/bindings.hpp"

namespace nb = nanobind;

void bind_errors(nb::module_&) {
  // trellis.errors is imported when an error occurs, not when this module is loaded: _core must not
  // depend on Python modules at load time.
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const trellis::SequenceError& error) {
      const nb::object type = nb::module_::import_("trellis.errors").attr("InputError");
      const nb::object instance = type(error.what(), nb::arg("sequence") = error.sequence);
      PyErr_SetObject(type.ptr(), instance.ptr());
    }
  });
}
