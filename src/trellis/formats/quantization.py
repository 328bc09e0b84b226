"""A matrix in few bytes: row_i ≈ norm_i · (c₁[code_i1], …, c_m[code_im]), product quantisation.

The columns are cut into m groups of ``dsub`` (the last may be narrower); each group has 256
centroids of its own, and a row keeps one byte a group. With `norms`, rows are scaled to length one
before, and their lengths are quantised likewise, into a byte each.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray


__all__ = ["CENTROIDS", "ProductQuantizer", "QuantizedMatrix"]

CENTROIDS = 256  # what a byte can tell apart
_SAMPLE = 256 * CENTROIDS  # rows that the centroids are fitted to, as fastText has it
_ITERATIONS = 25
_CHUNK = 1 << 16

Floats = NDArray[np.float32]
Codes = NDArray[np.uint8]


@dataclass(frozen=True)
class ProductQuantizer:
    """The centroids of each group of columns, group after group, each (256, width) in C order.

    >>> quantizer = ProductQuantizer(3, 2, np.arange(3 * 256, dtype=np.float32))
    >>> [table.shape for table in quantizer.tables()]
    [(256, 2), (256, 1)]
    """

    dim: int
    dsub: int
    centroids: Floats
    """1-D, ``dim * 256`` numbers."""

    @property
    def groups(self) -> int:
        """Bytes that a row takes."""
        return -(-self.dim // self.dsub)

    def columns(self) -> Iterator[tuple[int, int]]:
        """Where each group begins and ends."""
        return pairwise([*range(0, self.dim, self.dsub), self.dim])

    def tables(self) -> list[Floats]:
        """The centroids of each group: (256, width)."""
        return [
            self.centroids[begin * CENTROIDS : end * CENTROIDS].reshape(CENTROIDS, end - begin)
            for begin, end in self.columns()
        ]


@dataclass(frozen=True)
class QuantizedMatrix:
    """Rows as codes; it looks like a matrix: ``shape``, `rows`, `dot`."""

    codes: Codes
    """(rows, groups)"""
    quantizer: ProductQuantizer
    norm_codes: Codes | None = None
    norm_quantizer: ProductQuantizer | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.codes), self.quantizer.dim

    def norms(self, ids: NDArray[Any] | slice = slice(None)) -> Floats | None:
        """The factor of each row; None where there are none."""
        if self.norm_codes is None or self.norm_quantizer is None:
            return None
        return self.norm_quantizer.centroids[self.norm_codes[ids]]

    def rows(self, ids: NDArray[Any] | slice = slice(None)) -> Floats:
        """These rows, or all, as floats: (len(ids), columns).

        >>> matrix = quantize(np.repeat(np.eye(4, dtype=np.float32), 64, axis=0), random_state=0)
        >>> matrix.rows(np.array([0, 64]))
        array([[1., 0., 0., 0.],
               [0., 1., 0., 0.]], dtype=float32)
        """
        codes = self.codes[ids]
        tables = self.quantizer.tables()
        found = np.empty((len(codes), self.quantizer.dim), np.float32)
        for g, (begin, end) in enumerate(self.quantizer.columns()):
            found[:, begin:end] = tables[g][codes[:, g]]
        norms = self.norms(ids)
        return found if norms is None else found * norms[:, None]

    def dot(self, vector: Floats) -> Floats:
        """All rows times a vector: one small table a group, then one look-up a code."""
        total = np.zeros(len(self.codes), np.float32)
        tables = self.quantizer.tables()
        for g, (begin, end) in enumerate(self.quantizer.columns()):
            total += (tables[g] @ vector[begin:end])[self.codes[:, g]]
        norms = self.norms()
        return total if norms is None else total * norms
