"""Features of sequences that are arrays or SciPy sparse matrices: columns are attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.checks import integer_in_range
from trellis.errors import InputError
from trellis.features.rows import FeatureBatch, SparseRows

__all__ = ["ArrayFeatures", "lengths_of_arrays"]

_MAX_COLUMNS = 2**31 - 1  # column numbers are int32


class ArrayFeatures:
    """Features of sequences that are arrays or SciPy sparse matrices of shape (length, d)."""

    kind = "array"
    has_edges = False
    edges = 0

    def __init__(self, columns: int | None = None) -> None:
        self.columns = columns
        self.kept: NDArray[np.int32] | None = None

    def learn(self, X: Any) -> FeatureBatch:
        """Learn the number of columns, and return the nonzero entries; columns are attributes."""
        n_sequences = len(lengths_of_arrays(X))
        if self.kept is None or self.columns is None:
            self.columns = _count_columns(X[0], 0) if n_sequences else 0
            self.kept = np.zeros(0, dtype=np.int32)
        new_columns = np.setdiff1d(np.arange(self.columns, dtype=np.int32), self.kept)
        self.kept = np.concatenate([self.kept, new_columns])
        return self.find(X)

    def find(self, X: Any, threads: int = 1) -> FeatureBatch:
        """Return the nonzero entries of the columns that were not removed by `keep`."""
        from scipy import sparse  # imported here, so that commands that tag text start faster

        if self.kept is None or self.columns is None:
            raise InputError("find() was called before learn()")
        lengths = lengths_of_arrays(X)
        matrices = []
        for i, x in enumerate(X):
            if _count_columns(x, i) != self.columns:
                raise InputError(
                    f"sequence {{sequence}} has {_count_columns(x, i)} columns, "
                    f"expected {self.columns}",
                    sequence=i,
                )
            matrices.append(_to_csr(x, i))
        matrix = sparse.vstack(matrices, format="csr") if matrices else sparse.csr_array((0, 0))
        invalid = ~np.isfinite(matrix.data)
        if invalid.any():
            row = int(np.searchsorted(matrix.indptr, np.argmax(invalid), side="right")) - 1
            ends = np.cumsum(lengths)
            i = int(np.searchsorted(ends, row, side="right"))
            position = row - (int(ends[i - 1]) if i else 0)
            raise InputError(
                f"sequence {{sequence}}, position {position}: a value is not finite",
                sequence=i,
            )
        rows = SparseRows(
            matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data
        )
        new_ids = np.full(self.columns, -1, dtype=np.int32)
        new_ids[self.kept] = np.arange(len(self.kept), dtype=np.int32)
        return FeatureBatch(lengths, rows.renumbered(new_ids))

    def __len__(self) -> int:
        return 0 if self.kept is None else len(self.kept)

    def names(self, edge: bool = False) -> list[str]:
        """Return the column indices as text."""
        return [] if edge or self.kept is None else [str(column) for column in self.kept]

    def keep(self, ids: NDArray[np.int32], edge_ids: NDArray[np.int32]) -> None:
        """Keep only the attributes with the numbers ``ids``, and number them from 0."""
        self.kept = np.asarray(self.kept)[ids]

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return (meta, tensors), from which `from_parts` builds an equal map."""
        return {"columns": self.columns}, {"kept": np.asarray(self.kept, dtype=np.int32)}

    @classmethod
    def from_parts(
        cls,
        meta: Mapping[str, Any],
        tensors: Mapping[str, NDArray[Any]],
        strings: Any,
    ) -> ArrayFeatures:
        """Return the feature map of a model file, given its metadata and tensors."""
        columns = integer_in_range(meta.get("columns"), 0, _MAX_COLUMNS, "array features: columns")
        kept = tensors["kept"]
        if kept.ndim != 1 or kept.dtype != np.int32:
            raise InputError("array features: kept must be a vector of int32")
        if len(np.unique(kept)) != len(kept):
            raise InputError("array features: a column is kept twice")
        if kept.size and not (kept.min() >= 0 and kept.max() < columns):
            raise InputError("array features: a kept column is out of range")
        features = cls(columns)
        features.kept = kept
        return features


def lengths_of_arrays(X: Any) -> NDArray[np.int64]:
    """Return the number of rows of each matrix, (sequences,); sparse matrices have no ``len``."""
    if isinstance(X, str | bytes) or not hasattr(X, "__len__"):
        raise InputError(f"X must be a list of sequences, not {type(X).__name__}")
    for i, x in enumerate(X):
        _count_columns(x, i)
    return np.fromiter((x.shape[0] for x in X), dtype=np.int64, count=len(X))


def _to_csr(x: Any, i: int) -> Any:
    from scipy import sparse

    if x.dtype.kind not in "biuf":
        raise InputError(
            f"sequence {{sequence}} has dtype {x.dtype}: must be a type of real numbers", sequence=i
        )
    # A copy, because eliminate_zeros would change the caller's matrix.
    matrix = sparse.csr_array(x, dtype=np.float64, copy=True)
    matrix.eliminate_zeros()
    return matrix


def _count_columns(x: Any, i: int) -> int:
    if getattr(x, "ndim", 0) != 2:
        raise InputError(
            "sequence {sequence} must be an array of shape (length, d), like the first sequence",
            sequence=i,
        )
    return int(x.shape[1])
