"""Collects the features of all positions and pairs of labels as the parts of `JointCells`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis.errors import InputError
from trellis.features.cells.entries import Entries, JointCells, mark_changes
from trellis.features.rows import SparseRows

__all__ = ["CellCollector", "ReadNames", "read_cells", "unpack"]

ReadNames: TypeAlias = Callable[[list[list[Any]]], SparseRows]
"""Looks up the names of features. The argument has a list of cells for each sequence; a cell is the
value that a function returned for one label or pair of labels. The result has a row for each cell.
"""


def read_cells(
    read: ReadNames,
    cells: list[list[Any]],
    first: int | None,
    where: Callable[[int, int], str],
) -> SparseRows:
    """Look up the names of features; ``cells`` has a list of cells for each sequence.

    ``first`` is the index in X of the first of these sequences; None for features of
    (previous, label), which belong to no sequence. ``where(sequence, cell)`` describes a cell in an
    error.
    """
    try:
        return read(cells)
    except InputError as error:
        match = re.fullmatch(r"sequence \{sequence\}, position (\d+): (.*)", error.template, re.S)
        if match is None or error.sequence is None:
            raise
        text = f"{where(error.sequence, int(match[1]))}: joint: {match[2]}"
        if first is None:
            raise InputError(text) from None
        raise InputError(
            f"sequence {{sequence}}, {text}", sequence=first + error.sequence
        ) from None


class CellCollector:
    """Collects the entries of blocks of sequences, and finds those that are constant.

    An entry is constant if it is the same at all positions except the first of each sequence.
    """

    def __init__(self, labels: int, lengths: NDArray[np.int64]) -> None:
        self.labels = labels
        begins = np.cumsum(lengths) - lengths
        self._is_first = np.zeros(int(lengths.sum()), dtype=np.bool_)
        self._is_first[begins[lengths > 0]] = True
        # Features of functions of (previous, label): with y₀ as previous label, and with others.
        self._start: list[Entries] = []
        self._later: list[Entries] = []
        # The entries of the current block, then those of all earlier blocks.
        self._block_state: list[Entries] = []
        self._block_pairs: list[Entries] = []
        self._state: list[Entries] = []
        self._pairs: list[Entries] = []
        # The entries that are constant so far; None before the first position that can have them.
        self._constant: Entries | None = None

    def add_label_pairs(self, cells: SparseRows) -> None:
        """Add features of (previous, label).

        ``cells`` has a row for each pair: first those of y₀, then those of each previous label.
        """
        cell, id, value = unpack(cells)
        row, is_start = np.zeros_like(cell), cell < self.labels
        entries = Entries(row, np.where(is_start, cell, cell - self.labels), id, value)
        self._start.append(entries.select(is_start))
        self._later.append(entries.select(~is_start))

    def add_labels(self, rows: slice, cells: SparseRows) -> None:
        """Add features of labels at some rows."""
        cell, id, value = unpack(cells)
        row, label = np.divmod(cell, self.labels)
        self._block_state.append(Entries(row + rows.start, label, id, value))

    def add_pairs(self, rows: slice, cells: SparseRows) -> None:
        """Add features of pairs of labels at some rows.

        The first row of a sequence has one cell for each label, other rows one for each pair.
        """
        cell, id, value = unpack(cells)
        is_first = self._is_first[rows]
        counts = np.where(is_first, self.labels, self.labels**2)
        ends = np.cumsum(counts)
        row = np.searchsorted(ends, cell, side="right")
        at_start = is_first[row]
        entries = Entries(row + rows.start, cell - (ends - counts)[row], id, value)
        self._block_state.append(entries.select(at_start))
        self._block_pairs.append(entries.select(~at_start))

    def finish_block(self, rows: slice, features: int) -> None:
        """Divide the entries added since the last call into state, pairs and constant entries."""
        first_rows = np.flatnonzero(self._is_first[rows]) + rows.start
        self._block_state += [entries.repeat(first_rows) for entries in self._start]
        if self._block_pairs:
            pairs = Entries.join(self._block_pairs)
            state, pairs = _split_by_previous(pairs, self.labels)
            self._block_state.append(state)
            self._pairs.append(self._split_constant(pairs, rows, features))
        self._state.append(Entries.join(self._block_state))
        self._block_state, self._block_pairs = [], []

    def cells(self) -> JointCells:
        """Return all entries."""
        constants = [] if self._constant is None else [self._constant]
        return JointCells(
            self.labels,
            Entries.concatenate(self._state),  # blocks are in order, and each is sorted
            Entries.join(self._pairs),
            Entries.join([*self._later, *constants]),
        )

    def _split_constant(self, pairs: Entries, rows: slice, features: int) -> Entries:
        """Return the entries that are not constant. `_constant` stores the constant ones once."""
        later_rows = np.flatnonzero(~self._is_first[rows]) + rows.start
        if not len(later_rows):
            return pairs
        columns, index, inverse, counts = np.unique(
            pairs.key(features), return_index=True, return_inverse=True, return_counts=True
        )
        value = pairs.value[index]
        differs = np.bincount(inverse, pairs.value != value[inverse], minlength=len(columns)) > 0
        is_constant = (counts == len(later_rows)) & ~differs
        if self._constant is None:
            first_entries = np.zeros(len(pairs), dtype=np.bool_)
            first_entries[index[is_constant]] = True
            constant = pairs.select(first_entries)
            self._constant = replace(constant, row=np.zeros_like(constant.row))
        else:
            # An entry that was constant until now, but is absent or different in this block,
            # becomes an entry of each earlier row.
            earlier = self._constant
            candidates = dict(
                zip(columns[is_constant].tolist(), value[is_constant].tolist(), strict=True)
            )
            keys = earlier.key(features)
            stays = np.array(
                [candidates.get(k) == v for k, v in zip(keys.tolist(), earlier.value, strict=True)],
                dtype=np.bool_,
            )
            earlier_rows = np.flatnonzero(~self._is_first[: rows.start])
            self._pairs.append(earlier.select(~stays).repeat(earlier_rows))
            self._constant = earlier.select(stays)
            is_constant = np.isin(columns, keys[stays])
        return pairs.select(~is_constant[inverse])


def unpack(rows: SparseRows) -> tuple[Any, Any, Any]:
    """Return (row, id, value) of the entries."""
    row = np.repeat(np.arange(len(rows)), np.diff(rows.begin))
    return row, rows.id, np.ones(len(rows.id)) if rows.value is None else rows.value


def _split_by_previous(pairs: Entries, labels: int) -> tuple[Entries, Entries]:
    """Return (state, pairs): features that are equal for all previous labels, and all others.

    A feature in ``state`` is stored once for its label, without a previous label.
    """
    if not len(pairs):
        return pairs, pairs
    label = pairs.cell % labels
    order = np.lexsort((pairs.id, label, pairs.row))
    by_label = replace(pairs, cell=label).reorder(order)
    begins = np.flatnonzero(mark_changes(by_label.row, by_label.cell, by_label.id))
    counts = np.diff(np.append(begins, len(pairs)))
    is_common = counts == labels
    is_common &= np.minimum.reduceat(by_label.value, begins) == np.maximum.reduceat(
        by_label.value, begins
    )
    in_state = np.zeros(len(pairs), dtype=np.bool_)
    in_state[order] = np.repeat(is_common, counts)
    return by_label.reorder(begins[is_common]), pairs.select(~in_state)
