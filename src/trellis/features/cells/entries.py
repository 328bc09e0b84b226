"""Joint features of all positions and pairs of labels, as sparse arrays.

Most features do not depend on the whole triple of position, previous label and label. So features
with the same value for all previous labels are stored once for each label, and pairs of labels with
the same features at all positions are stored once. The two parts cost as much as the features and
label bigrams of other models; only the rest needs a matrix of transitions for each position.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Entries", "JointCells", "mark_changes"]


@dataclass(frozen=True, eq=False)
class Entries:
    """Nonzero values of features, sorted by row, cell and id: all arrays are (entries,)."""

    row: NDArray[np.int32]
    """The position, counted over all sequences."""
    cell: NDArray[np.int32]
    """The label; for a pair of labels, previous label · number of labels + label."""
    id: NDArray[np.int32]
    """The number of the joint feature."""
    value: NDArray[np.float64]

    def __post_init__(self) -> None:
        for name in ("row", "cell", "id"):  # can take most of the memory of a fit
            object.__setattr__(self, name, getattr(self, name).astype(np.int32, copy=False))

    def __len__(self) -> int:
        return len(self.row)

    @classmethod
    def concatenate(cls, parts: list[Entries]) -> Entries:
        """Return the entries of all parts, in this order."""
        names = ("row", "cell", "id", "value")
        if not parts:
            none: Any = np.zeros(0)
            return cls(none, none, none, none)
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    @classmethod
    def join(cls, parts: list[Entries]) -> Entries:
        """Return the entries of all parts, sorted.

        Values of the same row, cell and id are added; entries with the sum 0 are left out.
        """
        entries = cls.concatenate(parts)
        if not len(entries):
            return entries
        entries = entries.reorder(np.lexsort((entries.id, entries.cell, entries.row)))
        is_first = mark_changes(entries.row, entries.cell, entries.id)
        value = np.add.reduceat(entries.value, np.flatnonzero(is_first))
        joined = replace(entries.select(is_first), value=value)
        return joined.select(value != 0)

    def reorder(self, order: NDArray[Any]) -> Entries:
        """Return the entries with these indices."""
        return Entries(self.row[order], self.cell[order], self.id[order], self.value[order])

    def select(self, selected: NDArray[np.bool_]) -> Entries:
        """Return the entries where ``selected`` is True."""
        return self if selected.all() else self.reorder(np.flatnonzero(selected))

    def repeat(self, rows: NDArray[Any]) -> Entries:
        """Return the same entries at each of the rows."""
        repeated = self.reorder(np.tile(np.arange(len(self)), len(rows)))
        return replace(repeated, row=np.repeat(rows, len(self)))

    def key(self, features: int) -> NDArray[np.int64]:
        """Return one integer for each entry, which is equal for entries of the same cell and id.

        ``features`` is the number of joint features.
        """
        return self.cell.astype(np.int64) * features + self.id

    def sum_cells(self, w: NDArray[np.float64], rows: int, cells: int) -> NDArray[np.float64]:
        """Σ value · w[id] in each cell of each row, (rows, cells)."""
        index = self.row.astype(np.int64) * cells + self.cell
        sums: NDArray[Any] = np.bincount(
            index, weights=self.value * w[self.id], minlength=rows * cells
        )
        return sums.reshape(rows, cells)


@dataclass(frozen=True, eq=False)
class JointCells:
    """The joint features of all positions and pairs of labels."""

    labels: int
    state: Entries
    """Features of a label, for any previous label. Cells are labels."""
    pairs: Entries
    """Other features of pairs of labels, at positions after the first. Cells are pairs."""
    constant: Entries
    """Features of pairs of labels at every position after the first; all rows are 0."""

    def arrays(self) -> list[NDArray[Any]]:
        """Return all arrays."""
        parts = (self.state, self.pairs, self.constant)
        return [getattr(part, name) for part in parts for name in ("row", "cell", "id", "value")]

    def add_scores(
        self, w: NDArray[np.float64], unary: NDArray[np.float64], matrices: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return ``unary`` and ``matrices``, with the scores of joint features added.

        ``unary`` is (rows, labels), ``matrices`` (1, labels, labels) or (rows, labels, labels). If
        features of pairs depend on the position, the resulting matrices are one for each row;
        otherwise, they have the shape of ``matrices``.
        """
        labels = self.labels
        square = (labels, labels)
        matrices = matrices + self.constant.sum_cells(w, 1, labels**2).reshape(1, *square)
        if len(self.pairs):
            pairs = self.pairs.sum_cells(w, len(unary), labels**2)
            matrices = matrices + pairs.reshape(-1, *square)
        return unary + self.state.sum_cells(w, len(unary), labels), matrices

    def sum_features(
        self, p: NDArray[np.float64], p_into: NDArray[np.float64], features: int
    ) -> NDArray[np.float64]:
        """Σ value · p(cell) of each joint feature, shape (features,).

        ``p`` is p(yₜ), (rows, labels), and ``p_into`` is p(yₜ₋₁, yₜ), (rows, labels²), with zeros
        at first positions.
        """
        terms = [
            (self.state, p[self.state.row, self.state.cell]),
            (self.pairs, p_into[self.pairs.row, self.pairs.cell]),
            (self.constant, p_into.sum(axis=0)[self.constant.cell]),
        ]
        sums: NDArray[Any] = np.zeros(features)
        for entries, probability in terms:
            sums += np.bincount(entries.id, entries.value * probability, minlength=features)
        return sums


def mark_changes(*arrays: NDArray[Any]) -> NDArray[np.bool_]:
    """Return True where an element of any array differs from the element before, and at index 0.

    >>> mark_changes(np.array([3, 3, 3, 4]), np.array([0, 0, 1, 1])).tolist()
    [True, False, True, True]
    """
    changes = np.ones(len(arrays[0]), dtype=np.bool_)
    changes[1:] = np.any([array[1:] != array[:-1] for array in arrays], axis=0)
    return changes
