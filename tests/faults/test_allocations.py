"""Allocation n of a call fails, for n = 1, 2, 3, … until the call succeeds.

Each failure must be a MemoryError, must not leak, and must leave the library in a state in which
the same call gives the same bits as before. The tests need a module built with TRELLIS_FAULTS:
`make faults`.
"""

from __future__ import annotations

import dataclasses
import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trellis import _core

faults: Any = getattr(_core, "faults", None)
if faults is None:
    pytest.skip("the module is built without TRELLIS_FAULTS", allow_module_level=True)

from calls import CACHES, CALLS, Call  # noqa: E402

FOREVER = 1 << 62


def bits(value: Any) -> Any:
    """Return a value that is equal only if all numbers have the same bits."""
    if isinstance(value, np.ndarray):
        items = value.tolist() if value.dtype == object else value.tobytes()
        return (value.dtype.str, value.shape, items)
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, dict):
        return {key: bits(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value):
        return [bits(getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, (list, tuple)):
        return [bits(item) for item in value]
    return value


def count_live() -> int:
    gc.collect()
    return int(faults.live())


def fails(call: Call, n: int, count: int, expected: Any) -> bool:
    """Let allocations n .. n + count - 1 of a call fail. Return False if it makes fewer than n."""
    faults.start(n, count)
    try:
        value = call()
    except MemoryError:
        return True
    finally:
        total = faults.stop()
    # std::stable_sort works without its buffer, so a call may succeed despite a failed allocation.
    assert bits(value) == expected, f"allocation {n} failed: the value is wrong"
    return total >= n


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, FOREVER], ids=["one", "all later"])
@pytest.mark.parametrize("name", CALLS)
def test_every_allocation_fails(
    name: str, count: int, tmp_path: Path, record_property: Any
) -> None:
    call = CALLS[name](tmp_path)
    expected = bits(call())
    assert bits(call()) == expected, "the call must be deterministic"
    gc.collect()
    gc.freeze()  # later collections look only at new objects
    try:
        live, n = count_live(), 1
        while fails(call, n, count, expected):
            assert name in CACHES or count_live() <= live, (
                f"allocation {n} failed: memory is not freed"
            )
            assert bits(call()) == expected, f"allocation {n} failed: the next call differs"
            n += 1
    finally:
        gc.unfreeze()
    assert n > 10, "the call hardly allocates"
    record_property("points", n - 1)
