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

from trellis import _core
from trellis.checks import as_integer
from trellis.errors import InputError
from trellis.native import resolve_jobs

__all__ = ["CENTROIDS", "ProductQuantizer", "QuantizedMatrix", "quantize"]

CENTROIDS = 256  # what a byte can tell apart
_SAMPLE = 256 * CENTROIDS  # rows that the centroids are fitted to, as fastText has it
_ITERATIONS = 25
_START = 1 << 14  # points that the first centroids are drawn from

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
        """Of the matrix that it stands for."""
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
        codes, quantizer = self.codes[ids], self.quantizer
        if quantizer.dim % quantizer.dsub == 0:  # groups of one width are one table
            tables = quantizer.centroids.reshape(-1, CENTROIDS, quantizer.dsub)
            found = tables[np.arange(len(tables)), codes].reshape(len(codes), quantizer.dim)
        else:
            found = np.empty((len(codes), quantizer.dim), np.float32)
            for table, (begin, end), own in zip(
                quantizer.tables(), quantizer.columns(), codes.T, strict=True
            ):
                found[:, begin:end] = table[own]
        norms = self.norms(ids)
        if norms is not None:
            with np.errstate(over="ignore"):  # a forged file's: infinite then
                found *= norms[:, None]
        return found

    def dot(self, vector: Floats) -> Floats:
        """All rows times a vector: one small table a group, then one look-up a code."""
        total = np.zeros(len(self.codes), np.float32)
        tables = self.quantizer.tables()
        for g, (begin, end) in enumerate(self.quantizer.columns()):
            total += (tables[g] @ vector[begin:end])[self.codes[:, g]]
        norms = self.norms()
        return total if norms is None else total * norms


def quantize(
    matrix: NDArray[np.float32],
    dsub: int = 2,
    *,
    norms: bool = False,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> QuantizedMatrix:
    """The matrix in ``ceil(columns / dsub)`` bytes a row (one more with ``norms``).

    The centroids of each group are fitted by k-means to at most 65,536 rows. As in fastText, there
    must be at least 256. The same ``random_state`` gives the same bytes for every ``n_jobs``.

    >>> rows = np.random.default_rng(0).normal(size=(1000, 4)).astype(np.float32)
    >>> small = quantize(rows, norms=True, random_state=0)
    >>> small.codes.shape, bool(abs(small.rows() - rows).mean() < 0.1)
    ((1000, 2), True)
    """
    rows = np.ascontiguousarray(matrix, dtype=np.float32)
    dsub = as_integer(dsub, "dsub")
    if rows.ndim != 2 or len(rows) < CENTROIDS or rows.shape[1] < 1:
        raise InputError(f"a matrix of shape {rows.shape} has fewer than {CENTROIDS} rows")
    if not 1 <= dsub <= rows.shape[1]:
        raise InputError(f"dsub is {dsub}: must be in 1..{rows.shape[1]}")
    if not np.isfinite(rows).all():
        raise InputError("a matrix with NaN or infinities cannot be quantised")
    rng, jobs = np.random.default_rng(random_state), resolve_jobs(n_jobs)
    if not norms:
        return QuantizedMatrix(*_fit(rows, dsub, rng, jobs))
    lengths = np.linalg.norm(rows, axis=1, keepdims=True).astype(np.float32)
    rows = (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    codes, quantizer = _fit(rows, dsub, rng, jobs)
    norm_codes, norm_quantizer = _fit(lengths, 1, rng, jobs)
    return QuantizedMatrix(codes, quantizer, norm_codes[:, 0], norm_quantizer)


def _fit(
    rows: Floats, dsub: int, rng: np.random.Generator, jobs: int
) -> tuple[Codes, ProductQuantizer]:
    """Centroids of each group of columns, and the code of each row in them."""
    dim = rows.shape[1]
    few = len(rows) <= _SAMPLE
    sample = rows if few else rows[np.sort(rng.choice(len(rows), _SAMPLE, replace=False))]
    quantizer = ProductQuantizer(dim, dsub, np.empty(dim * CENTROIDS, np.float32))
    codes = np.empty((len(rows), quantizer.groups), np.uint8)
    for g, (begin, end) in enumerate(quantizer.columns()):
        centroids = _k_means(sample, begin, end, rng, jobs)
        quantizer.centroids[begin * CENTROIDS : end * CENTROIDS] = centroids.reshape(-1)
        _assign(rows, begin, centroids, codes, g, jobs)
    return codes, quantizer


def _k_means(sample: Floats, begin: int, end: int, rng: np.random.Generator, jobs: int) -> Floats:
    """Lloyd's iteration from 256 points that lie apart: (256, end - begin)."""
    points = sample[:, begin:end]
    centroids = _apart(points, rng)
    codes = np.empty((len(points), 1), np.uint8)
    before = np.empty_like(codes)
    for iteration in range(_ITERATIONS):
        before, codes = codes, before
        _assign(sample, begin, centroids, codes, 0, jobs)
        if iteration and np.array_equal(before, codes):
            break
        centroids = _means(points, codes[:, 0], centroids)
    return centroids


def _apart(points: Floats, rng: np.random.Generator) -> Floats:
    """k-means++: each next one is drawn by its squared distance to those before."""
    some = points[rng.permutation(len(points))[:_START]].astype(np.float64)
    chosen = np.empty((CENTROIDS, points.shape[1]))
    chosen[0] = some[0]
    distance = np.full(len(some), np.inf)
    for i in range(1, CENTROIDS):
        np.minimum(distance, ((some - chosen[i - 1]) ** 2).sum(axis=1), out=distance)
        reach = np.cumsum(distance)
        chosen[i] = some[min(int(np.searchsorted(reach, rng.random() * reach[-1])), len(some) - 1)]
    found: Floats = chosen.astype(np.float32)
    return found


def _means(points: Floats, codes: Codes, before: Floats) -> Floats:
    """The centre of each code's points; a code without points takes the worst placed one."""
    sizes = np.bincount(codes, minlength=CENTROIDS)
    sums = [np.bincount(codes, column, minlength=CENTROIDS) for column in points.T]
    centroids: Floats = (np.stack(sums, axis=1) / np.maximum(sizes, 1)[:, None]).astype(np.float32)
    empty = np.flatnonzero(sizes == 0)
    if len(empty):
        error = ((points - before[codes]) ** 2).sum(axis=1)
        centroids[empty] = points[np.argsort(-error, kind="stable")[: len(empty)]]
    return centroids


def _assign(
    points: Floats, begin: int, centroids: Floats, codes: Codes, group: int, jobs: int
) -> None:
    """The code of a point x is argmin_c ‖x − c‖."""
    _core.assign(points, begin, np.ascontiguousarray(centroids.T), group, codes, jobs)
