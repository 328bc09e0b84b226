"""Neural layers are tested where PyTorch is installed."""

from collections.abc import Callable, Iterator

import pytest

from trellis import native

pytest.importorskip("torch", reason="PyTorch is not installed")


@pytest.fixture
def each_isa() -> Iterator[Callable[[], Iterator[str]]]:
    """Iterates over the instruction sets, each in use while it is the current one."""

    def switch() -> Iterator[str]:
        for name in native.available_isas():
            native.use_isa(name)
            yield name

    before = native.isa()
    yield switch
    native.use_isa(before)
