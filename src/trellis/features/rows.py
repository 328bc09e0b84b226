"""Sparse rows, which store the attributes of each position of a batch of sequences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.errors import InputError
from trellis.features.cells.entries import JointCells

Integers: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Row r has the attributes ``id[begin[r]:begin[r + 1]]``, with the same slice of ``value``."""

    begin: Integers  # (rows + 1,)
    id: NDArray[np.int32]  # (entries,)
    value: NDArray[np.float64] | None = None  # (entries,); None if all values are 1

    def __len__(self) -> int:
        return len(self.begin) - 1

    def native(self) -> _core.SparseRows:
        """Return the same arrays as an object of the core."""
        return _core.SparseRows(self.begin, self.id, self.value)

    def select(self, rows: NDArray[np.int64]) -> Self:
        """Return the rows with these indices, in this order."""
        sizes = np.diff(self.begin)[rows]
        begin = np.concatenate([[0], np.cumsum(sizes)])
        entries = np.repeat(self.begin[rows] - begin[:-1], sizes) + np.arange(begin[-1])
        return type(self)(
            begin, self.id[entries], None if self.value is None else self.value[entries]
        )

    def joined(self, row: NDArray[Any], id: NDArray[np.int32], value: NDArray[np.float64]) -> Self:
        """Return these rows with entries added.

        Entry k is added to row ``row[k]``, with ``id[k]`` and ``value[k]``.
        """
        counts = np.diff(self.begin)
        old_value = np.ones(len(self.id)) if self.value is None else self.value
        rows = np.concatenate([np.repeat(np.arange(len(self)), counts), row])
        order = np.argsort(rows, kind="stable")
        values = np.concatenate([old_value, value])[order]
        begin = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(self)))])
        ids = np.concatenate([self.id, id])[order]
        return type(self)(begin, ids, None if (values == 1.0).all() else values)

    def renumbered(self, new_ids: NDArray[np.int32]) -> Self:
        """Return the rows with ``new_ids[id]`` in place of id; entries with -1 are dropped."""
        ids = new_ids[self.id]
        is_kept = ids >= 0
        counts = (
            np.add.reduceat(np.append(is_kept, False), self.begin[:-1]) if len(self) else is_kept
        )
        # For an empty row, reduceat returns the first element of the next row, not 0.
        counts = np.where(np.diff(self.begin) == 0, 0, counts)
        begin = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        value = None if self.value is None else self.value[is_kept]
        return type(self)(begin, ids[is_kept], value)


@dataclass(frozen=True, eq=False)
class FeatureBatch:
    """The attributes of all positions of a batch, and of the transitions into the positions."""

    lengths: Integers  # (sequences,)
    rows: SparseRows
    edges: SparseRows | None = None
    joint: JointCells | None = None

    @property
    def row_begin(self) -> Integers:
        """(sequences + 1,): the first row of each sequence, then the number of rows."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    def rows_of(self, sequences: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the indices of the rows of these sequences."""
        begin = self.row_begin
        return np.concatenate([np.arange(begin[i], begin[i + 1]) for i in sequences])

    def select(self, sequences: NDArray[np.int64]) -> Self:
        """Return the batch of the sequences with these indices, in this order.

        >>> rows = SparseRows(np.array([0, 2, 2, 3]), np.array([5, 6, 7], dtype=np.int32))
        >>> chosen = FeatureBatch(np.array([2, 1]), rows).select(np.array([1, 0]))
        >>> chosen.lengths.tolist(), chosen.rows.begin.tolist(), chosen.rows.id.tolist()
        ([1, 2], [0, 1, 3, 3], [7, 5, 6])
        """
        rows = self.rows_of(sequences)
        edges = None if self.edges is None else self.edges.select(rows)
        return type(self)(self.lengths[sequences], self.rows.select(rows), edges)

    def arrays(self) -> list[NDArray[Any] | None]:
        """Return all arrays of the batch, for example to compute its size."""
        rows, edges = self.rows, self.edges
        arrays: list[NDArray[Any] | None] = [self.lengths, rows.begin, rows.id, rows.value]
        if edges is not None:
            arrays += [edges.begin, edges.id]
            if edges.value is not None:
                arrays.append(edges.value)
        return arrays if self.joint is None else [*arrays, *self.joint.arrays()]


class FeatureMap(Protocol):
    """Maps sequences to sparse rows; learns the attributes from the training data."""

    kind: str

    @property
    def has_edges(self) -> bool: ...  # noqa: D102
    @property
    def edges(self) -> int: ...  # noqa: D102
    def learn(self, X: Any) -> FeatureBatch: ...  # noqa: D102
    def find(self, X: Any, threads: int = 1) -> FeatureBatch: ...  # noqa: D102
    def names(self, edge: bool = False) -> list[str]: ...  # noqa: D102
    def keep(self, ids: NDArray[np.int32], edge_ids: NDArray[np.int32]) -> None: ...  # noqa: D102
    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]: ...  # noqa: D102
    def __len__(self) -> int: ...


def lengths_of(X: Any, allow_str_or_dict: bool = False) -> Integers:
    """Return the lengths, shape (sequences,). A str or dict is a sequence only if allowed."""
    if isinstance(X, str | bytes) or not hasattr(X, "__len__"):
        raise InputError(f"X must be a list of sequences, not {type(X).__name__}")
    if {*map(type, X)} <= {list, tuple}:
        return np.fromiter(map(len, X), dtype=np.int64, count=len(X))
    for i, x in enumerate(X):
        is_refused = isinstance(x, str | bytes | dict) and not allow_str_or_dict
        if is_refused or not hasattr(x, "__len__"):
            raise InputError(
                f"sequence {{sequence}} must be a list of tokens, not {type(x).__name__}",
                sequence=i,
            )
    return np.fromiter(map(len, X), dtype=np.int64, count=len(X))


def core_error(error: ValueError) -> InputError:
    """Convert an error of the core to an InputError that contains the index of the sequence.

    >>> core_error(ValueError("sequence 3, position 0: a token is empty")).sequence
    3
    """
    message = str(error)
    first_word, _, later_words = message.partition(" ")
    digits = later_words[: len(later_words) - len(later_words.lstrip("0123456789"))]
    if first_word != "sequence" or not digits:
        return InputError(message)
    return InputError("sequence {sequence}" + later_words[len(digits) :], sequence=int(digits))
