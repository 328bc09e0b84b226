// The optimisers' work on long vectors: shapes, dtypes and the GIL.
#include "bindings.hpp"

namespace nb = nanobind;

void bind_optim(nb::module_&) {}
