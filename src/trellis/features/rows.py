"""Sparse rows: the attributes of each position, and the sequences that the positions belong to."""

from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.errors import InputError

Integers: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Row r has attributes ``id[begin[r]:begin[r + 1]]`` with those ``value`` (None: all 1)."""

    begin: Integers
    id: NDArray[np.int32]
    value: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.begin) - 1

    def native(self) -> _core.SparseRows:
        """The same arrays, as the core takes them."""
        return _core.SparseRows(self.begin, self.id, self.value)

    def renumbered(self, new: NDArray[np.int32]) -> Self:
        """With ``new[id]`` for each id; those that become -1 are dropped."""
        ids = new[self.id]
        kept = ids >= 0
        counts = np.add.reduceat(np.append(kept, False), self.begin[:-1]) if len(self) else kept
        counts = np.where(np.diff(self.begin) == 0, 0, counts)  # reduceat is wrong for empty rows
        begin = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        value = None if self.value is None else self.value[kept]
        return type(self)(begin, ids[kept], value)


@dataclass(frozen=True, eq=False)
class Batch:
    """The attributes of all positions of some sequences, and of the transitions into them."""

    lengths: Integers
    rows: SparseRows
    edges: SparseRows | None = None

    @property
    def row_begin(self) -> Integers:
        """The first row of each sequence, and the number of rows."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    def arrays(self) -> list[NDArray[Any] | None]:
        """All that it holds."""
        own = [self.lengths, self.rows.begin, self.rows.id, self.rows.value]
        return [*own, *(() if self.edges is None else (self.edges.begin, self.edges.id))]


def lengths_of(X: Any, anything: bool = False) -> Integers:
    """How many positions each sequence has; with ``anything``, a str or dict may be a sequence."""
    if isinstance(X, str | bytes) or not hasattr(X, "__len__"):
        raise InputError(f"X must be a list of sequences, not {type(X).__name__}")
    if {*map(type, X)} <= {list, tuple}:
        return np.fromiter(map(len, X), dtype=np.int64, count=len(X))
    for i, x in enumerate(X):
        odd = isinstance(x, str | bytes | dict) and not anything
        if odd or not hasattr(x, "__len__"):
            raise InputError(f"sequence {i} must be a list of tokens, not {type(x).__name__}")
    return np.fromiter(map(len, X), dtype=np.int64, count=len(X))
