"""Exact search for the rows of largest cosine: argmax_i q · xᵢ / ‖xᵢ‖, on all cores.

The matrix may be a mapped file, so its rows are not normalised in a copy. Instead 1 / ‖xᵢ‖ is
stored in a second array. A search with few queries reads the whole matrix, and memory bandwidth
limits its speed. So the second such search creates a copy of the rows in bytes (a quarter of the
size). If y is the copy of row x, then q·x ≤ q·y + ‖q‖ ‖x − y‖: most rows are excluded by this bound
without reading x. The other rows are read as floats, so the results are the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.checks import as_integer
from trellis.errors import InputError

__all__ = ["RowSearch", "check_k", "query_rows", "unit_rows"]

Floats: TypeAlias = NDArray[np.float32]

_CHUNK = 1 << 14  # rows whose lengths are computed at a time, to limit temporary memory
_EXTREME = 1e30  # float32 products overflow for row lengths above this or below its inverse
# With fewer queries, memory bandwidth limits the speed; with more queries, arithmetic does.
_FEW_QUERIES = 6
# Bytes. A smaller matrix stays in the cache, so a copy of its rows in bytes is not faster.
_LARGE = 1 << 22


class CoarseRows(NamedTuple):
    """Rows in bytes, with a bound on their error."""

    codes: NDArray[np.int8]
    """(N, D rounded up to 16, the size of a SIMD register)"""
    step: Floats
    """(N,): row i is about ``codes[i] * step[i]``."""
    error: Floats
    """(N,): upper bound of ‖x − y‖."""


class RowSearch:
    """Searches the rows of a matrix (N, D), and caches their lengths and their copy in bytes.

    ``words`` are the names of the rows in error messages. If the matrix changes, create a new
    object.
    """

    def __init__(self, matrix: Floats, words: Sequence[str]) -> None:
        self._matrix, self._words = matrix, words
        self._scaled: tuple[Floats, Floats] | None = None
        self._coarse: CoarseRows | None = None
        self._single_queries = 0  # searches with fewer than `_FEW_QUERIES` queries so far

    def scaled_rows(self) -> tuple[Floats, Floats]:
        """Return rows (N, D) and factors (N,), so that ``rows * factors`` have length one.

        The rows are the matrix itself, except where its products would overflow float32.
        """
        if self._scaled is None:
            norms = self._compute_norms()
            factors = np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)
            if max(norms.max(), factors.max()) < _EXTREME:
                self._scaled = self._matrix, factors.astype(np.float32)
            else:
                self._scaled = unit_rows(self._matrix), np.ones(len(norms), np.float32)
        return self._scaled

    def best(
        self, queries: Floats, k: int, rows: range, threads: int
    ) -> tuple[Floats, NDArray[np.int64]]:
        """Return scores and row numbers of the best k of ``rows``, each of shape (queries, k).

        Scores are cosines if the queries have length one.
        """
        first, last = rows.start, rows.stop
        k = min(check_k(k), last - first)
        queries = query_rows(queries, self._matrix.shape[1])
        scores = np.empty((len(queries), k), np.float32)
        ids = np.empty((len(queries), k), np.int64)
        matrix_rows, factors = (array[first:last] for array in self.scaled_rows())
        coarse = self._get_coarse_rows(threads) if len(queries) < _FEW_QUERIES else None
        if coarse is not None:
            codes, step, error = coarse
            coarse = CoarseRows(codes[first:last], step[first:last], error[first:last])
        _core.nearest(matrix_rows, factors, queries, threads, scores, ids, coarse)
        return scores, np.where(ids < 0, ids, ids + first)  # -1: fewer than k rows were found

    def _compute_norms(self) -> NDArray[np.float64]:
        """Return the length of each row, (N,). Raise InputError if a row is not finite."""
        norms = np.empty(len(self._matrix))
        for begin in range(0, len(norms), _CHUNK):
            rows = self._matrix[begin : begin + _CHUNK]
            squares = norms[begin : begin + len(rows)]
            np.einsum("ij,ij->i", rows, rows, dtype=np.float64, out=squares)
        if not np.isfinite(norms).all():
            word = self._words[int(np.argmin(np.isfinite(norms)))]
            raise InputError(f"the vector of {word!r} contains NaN or infinity: must be finite")
        return np.sqrt(norms, out=norms)

    def _get_coarse_rows(self, threads: int) -> CoarseRows | None:
        """Return the rows in bytes; None in the first search, because the copy takes longer."""
        self._single_queries += 1
        if self._coarse is None and self._single_queries > 1 and self._matrix.nbytes >= _LARGE:
            rows, factors = self.scaled_rows()
            width = (rows.shape[1] + 15) // 16 * 16
            codes = np.empty((len(rows), width), np.int8)
            coarse = CoarseRows(codes, np.empty_like(factors), np.empty_like(factors))
            _core.coarse_rows(rows, factors, threads, *coarse)
            self._coarse = coarse
        return self._coarse


def unit_rows(rows: NDArray[Any]) -> Floats:
    """Return each row divided by its Euclidean length; rows of zeros stay zero.

    Lengths are computed in float64, because the squares of large float32 numbers overflow.
    """
    norms = np.linalg.norm(rows.astype(np.float64), axis=-1, keepdims=True)
    unit_vectors: Floats = (rows / np.where(norms > 0, norms, 1)).astype(np.float32)
    return unit_vectors


def query_rows(queries: NDArray[Any], dim: int) -> Floats:
    """Return query vectors as float32 rows, (queries, dim). Raise InputError if invalid."""
    try:
        rows = np.require(queries, np.float32, ["C", "A"])
    except (TypeError, ValueError) as error:
        raise InputError(f"queries must be an array of numbers: {error}") from None
    if rows.ndim != 2 or rows.shape[1] != dim:
        raise InputError(f"queries have shape {rows.shape}: must be (queries, {dim})")
    if not np.isfinite(rows).all():
        raise InputError("queries contain NaN or infinity: must be finite")
    return rows


def check_k(k: int) -> int:
    """Return k; raise InputError unless it is a positive integer."""
    if as_integer(k, "k") < 1:
        raise InputError(f"k is {k}: must be at least 1")
    return k
