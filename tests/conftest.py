"""Settings that all tests share.

`make test` runs the quick tests: few examples of each property, the best instruction set. `make
test-all` sets TRELLIS_TESTS=all and runs everything.
"""

import os
from collections.abc import Iterator

import hypothesis
import pytest
from scale import FULL

from trellis import native

# GPU kernels run in Triton's interpreter. Triton reads this when a kernel is defined.
os.environ.setdefault("TRITON_INTERPRET", "1")

# A busy machine is not a failure.
hypothesis.settings.register_profile("no deadline", deadline=None)
hypothesis.settings.load_profile("no deadline")

ISAS = native.available_isas()


@pytest.fixture(params=ISAS if FULL else ISAS[-1:])
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run the test once on each instruction set of this machine, or on the best one only."""
    before = native.isa()
    native.use_isa(request.param)
    yield request.param
    native.use_isa(before)
