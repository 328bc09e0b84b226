"""One sequence, a padded batch or a list of sequences: the same rows, given back as they came."""

from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.inference.chain.results import Numbers, Rows

Array: TypeAlias = NDArray[Any]
Integers: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Layout:
    """Where the positions of each sequence lie among flat rows, and how to give them back."""

    starts: Integers
    lengths: Integers
    shape: tuple[int, ...] | None  # of the positions: (T,), (B, T), or None for a list of sequences

    @property
    def rows(self) -> int:
        """All rows of the flat array, padding included."""
        return int(np.prod(self.shape)) if self.shape else int(self.lengths.sum())

    @property
    def padded(self) -> bool:
        """Whether some rows may be padding."""
        return self.shape is not None and len(self.shape) == 2

    @property
    def rows_before(self) -> Integers:
        """How many positions the sequences before each one have."""
        return np.cumsum(self.lengths) - self.lengths

    def per_position(self, flat: Array, pieces: list[Array] | None) -> Rows:
        """Flat rows in the caller's layout; `pieces` are those of a list of sequences."""
        if self.shape is None:
            return cast(Rows, pieces)
        return flat.reshape(*self.shape, *flat.shape[1:])

    def per_sequence(self, values: NDArray[np.float64]) -> Numbers:
        """One number a sequence in the caller's layout."""
        return float(values[0]) if self.shape is not None and len(self.shape) == 1 else values

    def paths(self, flat: Integers, n: int) -> Rows:
        """N paths a sequence, packed one sequence after the other, in the caller's layout."""
        split = [
            flat[n * before : n * (before + length)].reshape(n, length)
            for before, length in zip(self.rows_before, self.lengths, strict=True)
        ]
        if self.shape is None:
            return cast(Rows, split)
        if not self.padded:
            return split[0]
        out = np.full((self.shape[0], n, self.shape[1]), -1, dtype=np.int64)
        for row, paths in zip(out, split, strict=True):
            row[:, : paths.shape[1]] = paths
        return out

    def pair_starts(self) -> Integers:
        """The first transition matrix of each sequence among all of them."""
        if self.shape is None:
            return self.starts - np.arange(len(self.starts))
        return np.arange(len(self.starts)) * (self.shape[-1] - 1)

    def per_pair(self, flat: Array) -> Rows:
        """Flat matrices in the caller's layout."""
        if self.shape is None:
            return _core.split_rows(flat, self.lengths - 1)
        return flat.reshape(*self.shape[:-1], self.shape[-1] - 1, *flat.shape[1:])
