"""The map from one sequence, a padded batch or a list of sequences to flat rows, and back."""

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
    """The place of each of B sequences among flat rows, with one row per position.

    The kernels read and write flat rows for all three layouts of the caller.
    """

    starts: Integers  # (B,): the first row of each sequence
    lengths: Integers  # (B,)
    # The shape of the positions: (T,), (B, T), or None for a list of sequences.
    shape: tuple[int, ...] | None

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
        """Return flat rows in the caller's layout. `pieces` is the core's result for a list."""
        if self.shape is None:
            return cast(ArrayOrList, pieces)
        return flat.reshape(*self.shape, *flat.shape[1:])

    def per_sequence(self, values: Floats) -> FloatOrArray:
        """Return one number per sequence, shape (B,), or a float for a single (T, L) sequence."""
        return float(values[0]) if self.shape is not None and len(self.shape) == 1 else values

    def paths(self, flat: Integers, n: int) -> ArrayOrList:
        """Unpack n paths per sequence into the caller's layout: (n, T), (B, n, T) or a list."""
        sequence_paths = [
            flat[n * position : n * (position + length)].reshape(n, length)
            for position, length in zip(self.rows_before, self.lengths, strict=True)
        ]
        if self.shape is None:
            return cast(ArrayOrList, sequence_paths)
        if not self.padded:
            return sequence_paths[0]
        padded_paths = np.full((self.shape[0], n, self.shape[1]), -1, dtype=np.int64)
        for row, paths in zip(padded_paths, sequence_paths, strict=True):
            row[:, : paths.shape[1]] = paths
        return padded_paths

    def pair_starts(self) -> Integers:
        """Return the index of each sequence's first matrix among all pairwise matrices, (B,).

        A sequence of T positions has T rows, but only T - 1 matrices. So in a list, each earlier
        sequence shifts the index by one.
        """
        if self.shape is None:
            return self.starts - np.arange(len(self.starts))
        return np.arange(len(self.starts)) * (self.shape[-1] - 1)

    def per_pair(self, flat: Array) -> ArrayOrList:
        """Return ``flat``, one (L, L) matrix per pair of positions, in the caller's layout."""
        if self.shape is None:
            return _core.split_rows(flat, self.lengths - 1)
        return flat.reshape(*self.shape[:-1], self.shape[-1] - 1, *flat.shape[1:])
