#include "bindings/base/gil.hpp"

namespace nb = nanobind;

namespace trellis {
namespace {

// Python runs signal handlers in its main thread only. After a fork, another thread may be the main one.
bool is_main_thread() {
  const nb::object ident = nb::module_::import_("threading").attr("main_thread")().attr("ident");
  return nb::cast<unsigned long>(ident) == PyThread_get_thread_ident();
}

// Runs the handlers of signals that have arrived. Returns true if a handler raised an exception, which
// stays set.
bool check_with_gil(InterruptibleCall& call) {
  if (PyErr_CheckSignals() != 0) return true;
  try {
    if (!is_main_thread()) call.ignore();
  } catch (nb::python_error& error) {
    const bool is_shutdown = error.matches(PyExc_ImportError) || error.matches(PyExc_AttributeError);
    if (!is_shutdown) {  // is_main_thread() runs Python code, so a handler may have raised there
      error.restore();
      return true;
    }
    call.ignore();
  }
  return false;
}

bool check_without_gil(InterruptibleCall& call) {
  const nb::gil_scoped_acquire acquire;
  return check_with_gil(call);
}

}  // namespace

ReleasedGil::ReleasedGil() : call_(check_without_gil) {}
HeldGil::HeldGil() : call_(check_with_gil) {}

}  // namespace trellis
