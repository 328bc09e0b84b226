"""How one sequence, a padded batch or a list of sequences maps to flat rows, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.inference.chain.results import ArrayOrList, FloatOrArray

Array: TypeAlias = NDArray[Any]
Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class BatchLayout:
    """Where each sequence lies among flat rows, one row per position; B sequences.

    The kernels read and write flat rows, whichever of the three layouts the caller chose.
    """

    starts: Integers  # (B,): the first row of each sequence
    lengths: Integers  # (B,)
    shape: tuple[int, ...] | None  # of the positions: (T,), (B, T), or None for a list of sequences

    @property
    def rows(self) -> int:
        """The number of flat rows, padding included."""
        return int(np.prod(self.shape)) if self.shape else int(self.lengths.sum())

    @property
    def padded(self) -> bool:
        """True if some rows may be padding."""
        return self.shape is not None and len(self.shape) == 2

    @property
    def rows_before(self) -> Integers:
        """(B,): the number of positions in all sequences before each one, without padding."""
        return np.cumsum(self.lengths) - self.lengths

    def per_position(self, flat: Array, pieces: list[Array] | None) -> ArrayOrList:
        """Flat rows in the caller's layout; for a list of sequences, the core made `pieces`."""
        if self.shape is None:
            return cast(ArrayOrList, pieces)
        return flat.reshape(*self.shape, *flat.shape[1:])

    def per_sequence(self, values: Floats) -> FloatOrArray:
        """One number per sequence, shape (B,); a float for a single (T, L) sequence."""
        return float(values[0]) if self.shape is not None and len(self.shape) == 1 else values

    def paths(self, flat: Integers, n: int) -> ArrayOrList:
        """Unpack n paths per sequence into the caller's layout: (n, T), (B, n, T) or a list."""
        split = [
            flat[n * before : n * (before + length)].reshape(n, length)
            for before, length in zip(self.rows_before, self.lengths, strict=True)
        ]
        if self.shape is None:
            return cast(ArrayOrList, split)
        if not self.padded:
            return split[0]
        out = np.full((self.shape[0], n, self.shape[1]), -1, dtype=np.int64)
        for row, paths in zip(out, split, strict=True):
            row[:, : paths.shape[1]] = paths
        return out

    def pair_starts(self) -> Integers:
        """(B,): the index of each sequence's first matrix among all pairwise matrices.

        A sequence of T positions has T - 1 matrices, so a list of sequences has one matrix less
        than rows for each earlier sequence.
        """
        if self.shape is None:
            return self.starts - np.arange(len(self.starts))
        return np.arange(len(self.starts)) * (self.shape[-1] - 1)

    def per_pair(self, flat: Array) -> ArrayOrList:
        """Flat (L, L) matrices, one per pair of neighbours, in the caller's layout."""
        if self.shape is None:
            return _core.split_rows(flat, self.lengths - 1)
        return flat.reshape(*self.shape[:-1], self.shape[-1] - 1, *flat.shape[1:])
