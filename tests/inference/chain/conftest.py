"""Fixtures for the chain tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from trellis import native


@pytest.fixture
def use_isa() -> Iterator[Callable[[str], None]]:
    """Switch the native code path for one test."""
    before = native.isa()
    yield native.use_isa
    native.use_isa(before)


@pytest.fixture(params=native.available_isas())
def isa(request: pytest.FixtureRequest, use_isa: Callable[[str], None]) -> str:
    """Run the test once on each code path that this machine has."""
    use_isa(request.param)
    return request.param
