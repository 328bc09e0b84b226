"""The reader of gensim's pickles gives the objects that Python's pickle gives."""

from __future__ import annotations

import pickle
import pickletools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples

from trellis.errors import FormatError
from trellis.formats.gensim import _Machine

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=4)
    | st.binary(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


def run(data: bytes) -> Any:
    return _Machine(data).run()


@given(PLAIN, st.integers(1, pickle.HIGHEST_PROTOCOL))
@settings(max_examples=examples(150), deadline=None)
def test_plain_objects(value: Any, protocol: int) -> None:
    if any(op.name == "GLOBAL" for op, *_ in ops(value, protocol)):
        return  # bytes are calls of a function before protocol 3
    assert run(pickle.dumps(value, protocol)) == value


def ops(value: Any, protocol: int) -> Any:
    return pickletools.genops(pickle.dumps(value, protocol))


@pytest.mark.parametrize("protocol", range(1, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    "value",
    [
        {"a": 1},
        {"a": 1, "b": {"c": [1]}},
        [1],
        [1, 2],
        [],
        {},
        (),
        (1,),
        (1, 2),
        (1, 2, 3),
        (1, 2, 3, 4),
        "é" * 300,
        255,
        256,
        65536,
        -1,
        2**31,
        1.5,
    ],
)
def test_each_instruction(value: Any, protocol: int) -> None:
    assert run(pickle.dumps(value, protocol)) == value


@pytest.mark.parametrize("protocol", range(1, pickle.HIGHEST_PROTOCOL + 1))
def test_shared_objects(protocol: int) -> None:
    shared = ["x"]
    first, second, third = run(pickle.dumps([shared, shared, {"k": shared}], protocol))
    assert first is second
    assert third == {"k": ["x"]}
    assert third["k"] is first


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x80\x02K\x01", "no STOP instruction|not a readable pickle"),
        (b"\x80\x02.", "not a readable pickle"),
        (b"\x80\x02K\x01\x86.", "the stack is too short"),
        (b"\x80\x02h\x05.", "not a readable pickle"),
        (b"\x80\x02C\x01aQ.", "the instruction BINPERSID"),
    ],
)
def test_wrong_programs(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        run(data)
