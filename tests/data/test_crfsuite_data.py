"""CRFsuite's text data."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.data import crfsuite
from trellis.errors import FormatError, InputError

NAMES = st.text(st.characters(exclude_characters="\t\n\r\0", exclude_categories=["Cs"]), min_size=1)
VALUES = st.floats(allow_nan=False, allow_infinity=False)
LABELS = NAMES.filter(lambda name: not name.startswith("@"))
POSITIONS = st.tuples(LABELS, st.dictionaries(NAMES, VALUES, max_size=4))


@given(st.lists(st.lists(POSITIONS, min_size=1, max_size=3), max_size=3), st.floats(0, 9))
def test_write_and_read(sequences: Any, weight: float) -> None:
    X = [[item for _, item in sequence] for sequence in sequences]
    y = [[label for label, _ in sequence] for sequence in sequences]
    file = io.StringIO()
    crfsuite.write(file, X, y, [weight] * len(X))
    result = crfsuite.read(file.getvalue().split("\n"))
    assert result == (X, y, [weight] * len(X))


def test_repeated_attributes_are_added() -> None:
    assert crfsuite.read(["O\ta\ta:2\t\tb:"]).X == [[{"a": 3.0, "b": 1.0}]]


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        (["O\ta:x"], "line 1: 'x' is not a finite number"),
        (["O\ta", "O\ta:inf"], "line 2: 'inf'"),
        (["@scale:2"], "'@scale' is unknown"),
        (["@weight:-1"], "must be at least 0"),
        (["@weight"], "not a finite number"),
    ],
)
def test_bad_lines(lines: list[str], what: str) -> None:
    with pytest.raises(FormatError, match=what):
        crfsuite.read(lines)


@pytest.mark.parametrize(
    ("X", "y", "what"),
    [
        ([[["a"]]], [["O", "O"]], "sequence 0 has 1 positions and 2 labels"),
        ([[["a\tb"]]], [["O"]], "cannot be a label or an attribute"),
        ([[["a"]]], [[""]], "cannot be a label or an attribute"),
        ([["ab"]], [["O"]], "sequence 0: position 0"),
        ([5], [["O"]], "sequence 0"),
    ],
)
def test_what_cannot_be_written(tmp_path: Path, X: Any, y: Any, what: str) -> None:
    with pytest.raises(InputError, match=what):
        crfsuite.write(tmp_path / "data", X, y)
