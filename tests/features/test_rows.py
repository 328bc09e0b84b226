"""Sparse rows against plain loops."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples

from trellis.features.rows import FeatureBatch, SparseRows, lengths_of

ROWS = st.lists(st.lists(st.integers(0, 5), max_size=4), max_size=8)


def packed(rows: list[list[int]], values: bool) -> SparseRows:
    begin = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    ids = np.array([i for row in rows for i in row], dtype=np.int32)
    return SparseRows(begin, ids, np.arange(1.0, len(ids) + 1) if values else None)


def unpacked(rows: SparseRows) -> list[list[tuple[int, float]]]:
    values = [1.0] * len(rows.id) if rows.value is None else rows.value.tolist()
    entries = [*zip(rows.id.tolist(), values, strict=True)]
    return [entries[a:b] for a, b in pairwise(rows.begin)]


@given(ROWS, st.lists(st.integers(-1, 9), min_size=6, max_size=6), st.booleans())
@settings(max_examples=examples(150), deadline=None)
def test_renumbered_rows_are_those_of_a_loop(
    ids: list[list[int]], new: list[int], values: bool
) -> None:
    rows = packed(ids, values)
    before = unpacked(rows)
    made = rows.renumbered(np.array(new, dtype=np.int32))
    assert unpacked(made) == [[(new[i], v) for i, v in row if new[i] >= 0] for row in before]
    assert len(made) == len(ids)
    assert (made.value is None) == (not values)
    assert made.begin.dtype == np.int64
    assert made.id.dtype == np.int32
    assert unpacked(rows) == before  # a new object, the old one as it was
    made.native()  # the core checks that begin fits


@pytest.mark.parametrize(
    "ids", [[], [[]], [[], []], [[0], []], [[], [0]], [[], [0, 1], [], [1], []]]
)
def test_empty_rows_stay_where_they_are(ids: list[list[int]]) -> None:
    drop_one = packed(ids, False).renumbered(np.array([-1, 0], dtype=np.int32))
    assert unpacked(drop_one) == [[(0, 1.0)] * row.count(1) for row in ids]


def test_row_begin() -> None:
    batch = FeatureBatch(lengths_of([["a", "b"], [], ("c",)]), packed([[0], [], [1]], False))
    assert batch.lengths.tolist() == [2, 0, 1]
    assert batch.row_begin.tolist() == [0, 2, 2, 3]
    assert batch.edges is None


def test_joined_rows_have_the_entries_of_both() -> None:
    rows = packed([[3], [], [1, 2]], False)
    more = np.array([1, 0, 1]), np.array([7, 8, 9], np.int32)
    assert rows.joined(*more, np.ones(3)).value is None
    joined = rows.joined(*more, np.array([2.0, 1.0, 1.0]))
    assert unpacked(joined) == [
        [(3, 1.0), (8, 1.0)],
        [(7, 2.0), (9, 1.0)],
        [(1, 1.0), (2, 1.0)],
    ]
    joined.native()


def test_the_arrays_of_a_batch() -> None:
    lengths, rows = np.array([2]), packed([[0], [1]], False)
    assert len(FeatureBatch(lengths, rows).arrays()) == 4
    assert len(FeatureBatch(lengths, rows, packed([[], [0]], False)).arrays()) == 6
    values = SparseRows(np.array([0, 0, 1]), np.zeros(1, np.int32), np.array([0.5]))
    assert [
        a.tolist() for a in FeatureBatch(lengths, rows, values).arrays()[4:] if a is not None
    ] == [
        [0, 0, 1],
        [0],
        [0.5],
    ]


@pytest.mark.parametrize(
    ("begin", "count"),
    [([0, 3], 2), ([0, 1], 2), ([1, 2], 2), ([0, 2, 1, 2], 2), ([], 0), ([-1, 2], 2)],
)
def test_the_core_rejects_inconsistent_rows(begin: list[int], count: int) -> None:
    rows = SparseRows(np.array(begin, np.int64), np.zeros(count, np.int32))
    with pytest.raises(ValueError, match="begin does not fit"):
        rows.native()


def test_the_core_needs_one_value_per_id() -> None:
    rows = SparseRows(np.array([0, 2], np.int64), np.zeros(2, np.int32), np.ones(3))
    with pytest.raises(ValueError, match="value must have one entry per id"):
        rows.native()
