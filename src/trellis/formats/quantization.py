"""Product quantisation: row_i ≈ norm_i · (c₁[code_i1], …, c_m[code_im]).

The columns are divided into m groups of ``dsub`` columns (the last may be narrower). Each group has
256 centroids, and a row is stored as one byte for each group. With `norms`, rows are first scaled
to length one, and their lengths are quantised to one byte each.
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

CENTROIDS = 256  # the number of values of a byte
_MAX_SAMPLE = 256 * CENTROIDS  # number of rows to which the centroids are fitted, as in fastText
_ITERATIONS = 25  # of k-means, as in fastText
_MAX_CANDIDATES = 1 << 14  # points from which the first centroids are drawn

Floats = NDArray[np.float32]
Codes = NDArray[np.uint8]


@dataclass(frozen=True)
class ProductQuantizer:
    """The centroids of all groups of columns: one (256, width) array after the other.

    >>> quantizer = ProductQuantizer(3, 2, np.arange(3 * 256, dtype=np.float32))
    >>> [table.shape for table in quantizer.tables()]
    [(256, 2), (256, 1)]
    """

    dim: int
    dsub: int
    centroids: Floats
    """``(dim * 256,)``"""

    @property
    def groups(self) -> int:
        """Number of groups, and of bytes in a row."""
        return -(-self.dim // self.dsub)

    def columns(self) -> Iterator[tuple[int, int]]:
        """Yield the first and the last column (exclusive) of each group."""
        return pairwise([*range(0, self.dim, self.dsub), self.dim])

    def tables(self) -> list[Floats]:
        """Return the centroids of each group: ``(256, width)``."""
        return [
            self.centroids[begin * CENTROIDS : end * CENTROIDS].reshape(CENTROIDS, end - begin)
            for begin, end in self.columns()
        ]


@dataclass(frozen=True)
class QuantizedMatrix:
    """A quantised matrix: codes and centroids."""

    codes: Codes
    """``(rows, groups)``"""
    quantizer: ProductQuantizer
    norm_codes: Codes | None = None
    """``(rows,)``"""
    norm_quantizer: ProductQuantizer | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix that it approximates."""
        return len(self.codes), self.quantizer.dim

    def norms(self, ids: NDArray[Any] | slice = slice(None)) -> Floats | None:
        """Return the norms of some rows, or None if they are not stored."""
        if self.norm_codes is None or self.norm_quantizer is None:
            return None
        return self.norm_quantizer.centroids[self.norm_codes[ids]]

    def rows(self, ids: NDArray[Any] | slice = slice(None)) -> Floats:
        """Return some rows, or all, as floats: ``(len(ids), columns)``.

        >>> matrix = quantize(np.repeat(np.eye(4, dtype=np.float32), 64, axis=0), random_state=0)
        >>> matrix.rows(np.array([0, 64]))
        array([[1., 0., 0., 0.],
               [0., 1., 0., 0.]], dtype=float32)
        """
        codes, quantizer = self.codes[ids], self.quantizer
        if quantizer.dim % quantizer.dsub == 0:  # all groups have the same width: one table
            tables = quantizer.centroids.reshape(-1, CENTROIDS, quantizer.dsub)
            rows = tables[np.arange(len(tables)), codes].reshape(len(codes), quantizer.dim)
        else:
            rows = np.empty((len(codes), quantizer.dim), np.float32)
            groups = zip(quantizer.tables(), quantizer.columns(), codes.T, strict=True)
            for table, (begin, end), group_codes in groups:
                rows[:, begin:end] = table[group_codes]
        norms = self.norms(ids)
        if norms is not None:
            with np.errstate(over="ignore"):  # values of an invalid file may overflow to infinity
                rows *= norms[:, None]
        return rows

    def dot(self, vector: Floats) -> Floats:
        """Return the product of all rows with a vector, ``(rows,)``.

        The centroids of each group are multiplied once; then every code is one lookup.
        """
        products = np.zeros(len(self.codes), np.float32)
        tables = self.quantizer.tables()
        for group, (begin, end) in enumerate(self.quantizer.columns()):
            products += (tables[group] @ vector[begin:end])[self.codes[:, group]]
        norms = self.norms()
        return products if norms is None else products * norms


def quantize(
    matrix: NDArray[np.float32],
    dsub: int = 2,
    *,
    norms: bool = False,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> QuantizedMatrix:
    """Quantise a matrix to ``ceil(columns / dsub)`` bytes per row (one more with ``norms``).

    The centroids of each group are fitted by k-means to at most 65,536 rows. As in fastText, at
    least 256 rows are needed. The same ``random_state`` gives the same bytes for every ``n_jobs``.

    >>> rows = np.random.default_rng(0).normal(size=(1000, 4)).astype(np.float32)
    >>> small = quantize(rows, norms=True, random_state=0)
    >>> small.codes.shape, bool(abs(small.rows() - rows).mean() < 0.1)
    ((1000, 2), True)
    """
    rows = np.ascontiguousarray(matrix, dtype=np.float32)
    dsub = as_integer(dsub, "dsub")
    if rows.ndim != 2 or len(rows) < CENTROIDS or rows.shape[1] < 1:
        raise InputError(
            f"matrix has shape {rows.shape}: must have at least {CENTROIDS} rows and 1 column"
        )
    if not 1 <= dsub <= rows.shape[1]:
        raise InputError(f"dsub is {dsub}: must be in 1..{rows.shape[1]}")
    if not np.isfinite(rows).all():
        raise InputError("matrix contains NaN or infinity: all values must be finite")
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
    """Fit the centroids of each group of columns; return all codes, and the centroids."""
    dim = rows.shape[1]
    uses_all_rows = len(rows) <= _MAX_SAMPLE
    sample = (
        rows if uses_all_rows else rows[np.sort(rng.choice(len(rows), _MAX_SAMPLE, replace=False))]
    )
    quantizer = ProductQuantizer(dim, dsub, np.empty(dim * CENTROIDS, np.float32))
    codes = np.empty((len(rows), quantizer.groups), np.uint8)
    for group, (begin, end) in enumerate(quantizer.columns()):
        centroids = _fit_centroids(sample, begin, end, rng, jobs)
        quantizer.centroids[begin * CENTROIDS : end * CENTROIDS] = centroids.reshape(-1)
        _assign(rows, begin, centroids, codes, group, jobs)
    return codes, quantizer


def _fit_centroids(
    sample: Floats, begin: int, end: int, rng: np.random.Generator, jobs: int
) -> Floats:
    """Return the centroids of k-means, ``(256, end - begin)``, by Lloyd's algorithm."""
    points = sample[:, begin:end]
    centroids = _draw_centroids(points, rng)
    codes = np.empty((len(points), 1), np.uint8)
    old_codes = np.empty_like(codes)
    for iteration in range(_ITERATIONS):
        old_codes, codes = codes, old_codes
        _assign(sample, begin, centroids, codes, 0, jobs)
        if iteration and np.array_equal(old_codes, codes):
            break
        centroids = _compute_means(points, codes[:, 0], centroids)
    return centroids


def _draw_centroids(points: Floats, rng: np.random.Generator) -> Floats:
    """Return the centroids of k-means++: P(next) ∝ squared distance to the chosen centroids."""
    candidates = points[rng.permutation(len(points))[:_MAX_CANDIDATES]].astype(np.float64)
    drawn_points = np.empty((CENTROIDS, points.shape[1]))
    drawn_points[0] = candidates[0]
    distance = np.full(len(candidates), np.inf)
    for i in range(1, CENTROIDS):
        np.minimum(distance, ((candidates - drawn_points[i - 1]) ** 2).sum(axis=1), out=distance)
        cumulative = np.cumsum(distance)
        index = int(np.searchsorted(cumulative, rng.random() * cumulative[-1]))
        drawn_points[i] = candidates[min(index, len(candidates) - 1)]
    centroids: Floats = drawn_points.astype(np.float32)
    return centroids


def _compute_means(points: Floats, codes: Codes, old_centroids: Floats) -> Floats:
    """Return the mean of the points of each code; an unused code gets a point with large error."""
    sizes = np.bincount(codes, minlength=CENTROIDS)
    sums = [np.bincount(codes, column, minlength=CENTROIDS) for column in points.T]
    centroids: Floats = (np.stack(sums, axis=1) / np.maximum(sizes, 1)[:, None]).astype(np.float32)
    empty = np.flatnonzero(sizes == 0)
    if len(empty):
        error = ((points - old_centroids[codes]) ** 2).sum(axis=1)
        centroids[empty] = points[np.argsort(-error, kind="stable")[: len(empty)]]
    return centroids


def _assign(
    points: Floats, begin: int, centroids: Floats, codes: Codes, group: int, jobs: int
) -> None:
    """Write the code of each point x, argmin_c ‖x − c‖, into column ``group`` of ``codes``."""
    _core.assign(points, begin, np.ascontiguousarray(centroids.T), group, codes, jobs)
