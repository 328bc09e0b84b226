"""Fixtures for the tests of the models."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from trellis import native


@pytest.fixture(params=native.available_isas())
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run the test once for each instruction set of this machine."""
    original = native.isa()
    native.use_isa(request.param)
    yield request.param
    native.use_isa(original)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20261116)
