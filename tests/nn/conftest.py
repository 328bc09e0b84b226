"""Skips the tests of neural layers if PyTorch is not installed."""

from collections.abc import Callable, Iterator

import pytest

from trellis import native

pytest.importorskip("torch", reason="PyTorch is not installed")


@pytest.fixture
def each_isa() -> Iterator[Callable[[], Iterator[str]]]:
    """Return a generator function that uses each instruction set in turn, and yields its name."""

    def switch() -> Iterator[str]:
        for name in native.available_isas():
            native.use_isa(name)
            yield name

    previous = native.isa()
    yield switch
    native.use_isa(previous)
