"""Fixtures for the tests of graphs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from trellis import native


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20261116)


@pytest.fixture(params=native.available_isas())
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run the test once on each code path that this machine has."""
    before = native.isa()
    native.use_isa(request.param)
    yield request.param
    native.use_isa(before)
