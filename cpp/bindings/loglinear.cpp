// Log-linear chain models: shapes, dtypes and the GIL.
#include "bindings.hpp"

namespace nb = nanobind;

void bind_loglinear(nb::module_&) {}
