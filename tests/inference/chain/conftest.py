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
