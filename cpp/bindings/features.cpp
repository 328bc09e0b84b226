// Feature extraction: shapes, dtypes and the GIL.
#include "bindings.hpp"

namespace nb = nanobind;

void bind_features(nb::module_&) {}
