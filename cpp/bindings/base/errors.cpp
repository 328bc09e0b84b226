#include "bindings/base/errors.hpp"

#include <nanobind/nanobind.h>

#include <cerrno>
#include <exception>

#include "base/interrupt.hpp"
#include "base/temporary_file.hpp"
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
    } catch (const trellis::FileError& error) {
      errno = error.code;
      PyErr_SetFromErrnoWithFilename(PyExc_OSError, error.path.c_str());
    } catch (const trellis::Interrupted&) {
      // The handler of the signal has set its exception (bindings/base/gil.cpp).
      if (PyErr_Occurred() == nullptr) PyErr_SetNone(PyExc_KeyboardInterrupt);
    }
  });
}
