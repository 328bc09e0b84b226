"""Strings as arrays: round trips, and errors that name the string."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.errors import FormatError, InputError
from trellis.formats.strings import pack_strings, unpack_strings


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_round_trip(strings: list[str]) -> None:
    data, offsets = pack_strings(strings)
    assert (data.dtype, offsets.dtype) == (np.uint8, np.int64)
    assert offsets.shape == (len(strings) + 1,)
    assert data.tobytes() == "".join(strings).encode()
    assert unpack_strings(data, offsets, "here") == strings


@pytest.mark.parametrize(
    ("strings", "match"),
    [
        (["a", "\ud800"], "string 1 cannot be stored: .*surrogates"),
        (["a", "b", 3], "string 2 cannot be stored: .*int"),
        ([b"a"], "string 0 cannot be stored: .*bytes"),
        ([None], "string 0"),
    ],
)
def test_strings_that_cannot_be_packed(strings: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        pack_strings(strings)


TEXT = np.frombuffer("aéb".encode(), dtype=np.uint8)  # 4 bytes; é is 1 to 3
INT = np.int64


@pytest.mark.parametrize(
    ("data", "offsets", "match"),
    [
        (TEXT, np.array([], INT), "offsets must start at 0 and end at 4, not empty"),
        (TEXT, np.array([0], INT), r"end at 4, not \[0, 0\]"),
        (TEXT, np.array([1, 4], INT), r"\[1, 4\]"),
        (TEXT, np.array([0, 3], INT), r"\[0, 3\]"),
        (TEXT, np.array([0, 5], INT), r"\[0, 5\]"),
        (TEXT, np.array([0, 3, 1, 4], INT), "string 1 ends before it begins"),
        (TEXT, np.array([0, -1, 4], INT), "string 0 ends before it begins"),
        (TEXT, np.array([0, 9, 4], INT), "string 1 ends before it begins"),
        (TEXT, np.array([0, 2**63 - 1, -(2**63), 4], INT), "string 1 ends before"),
        (TEXT, np.array([0, 1, 2, 4], INT), "string 1 is not UTF-8"),
        (np.array([97, 255], np.uint8), np.array([0, 1, 2], INT), "string 1 is not UTF-8"),
        (np.array([0xED, 0xA0, 0x80], np.uint8), np.array([0, 3], INT), "string 0 is not UTF-8"),
        (TEXT, np.array([0, 4], np.int32), "1-D uint8 data and 1-D int64"),
        (TEXT, np.array([0.0, 4.0]), "int64"),
        (TEXT.astype(np.int8), np.array([0, 4], INT), "uint8"),
        (TEXT.reshape(2, 2), np.array([0, 4], INT), "1-D"),
        (TEXT, np.array([[0, 4]], INT), "1-D"),
        (TEXT, np.array(4, INT), "1-D"),
    ],
)
def test_bad_arrays(data: Any, offsets: Any, match: str) -> None:
    with pytest.raises(FormatError, match=f"model.trellis: labels: .*{match}"):
        unpack_strings(data, offsets, "model.trellis: labels")
