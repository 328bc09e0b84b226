"""Sparse rows, which store the attributes of each position of a batch of sequences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.errors import InputError

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

    def renumbered(self, new: NDArray[np.int32]) -> Self:
        """Return the rows with ``new[id]`` instead of id; entries that become -1 are dropped."""
        ids = new[self.id]
        known = ids >= 0
        counts = np.add.reduceat(np.append(known, False), self.begin[:-1]) if len(self) else known
        counts = np.where(
            np.diff(self.begin) == 0, 0, counts
        )  # for empty rows, reduceat does not return 0
        begin = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        value = None if self.value is None else self.value[known]
        return type(self)(begin, ids[known], value)


@dataclass(frozen=True, eq=False)
class FeatureBatch:
    """The attributes of all positions of a batch, and of the transitions into the positions."""

    lengths: Integers  # (sequences,)
    rows: SparseRows
    edges: SparseRows | None = None

    @property
    def row_begin(self) -> Integers:
        """(sequences + 1,): the first row of each sequence, then the number of rows."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    def arrays(self) -> list[NDArray[Any] | None]:
        """Return all arrays of the batch, for example to compute its size."""
        arrays = [self.lengths, self.rows.begin, self.rows.id, self.rows.value]
        return [*arrays, *(() if self.edges is None else (self.edges.begin, self.edges.id))]


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
    """Convert an error of the core to an InputError that knows the index of the sequence.

    >>> core_error(ValueError("sequence 3, position 0: a token is empty")).sequence
    3
    """
    message = str(error)
    head, _, tail = message.partition(" ")
    digits = tail[: len(tail) - len(tail.lstrip("0123456789"))]
    if head != "sequence" or not digits:
        return InputError(message)
    return InputError("sequence {sequence}" + tail[len(digits) :], sequence=int(digits))
