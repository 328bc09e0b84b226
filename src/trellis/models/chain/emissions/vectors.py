"""Sequences of numbers and vectors as one array of shape (positions, dimensions)."""

from typing import Any

import numpy as np

from trellis.checks import check_not_empty
from trellis.errors import InputError
from trellis.models.chain.emissions.base import Observations

__all__ = ["read_vectors"]


def read_vectors(X: list[Any], n_dimensions: int | None) -> Observations:
    """Return sequences of finite vectors, concatenated; a sequence of numbers has one dimension.

    ``n_dimensions`` is that of the training data. With None, the first sequence decides it.

    >>> read_vectors([np.array([[1.0, 2.0]]), [[3, 4], [5, 6]]], None).values.tolist()
    [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    >>> read_vectors([[1.5, 2.5]], None).values.shape
    (2, 1)
    """
    lengths = np.array([len(x) if hasattr(x, "__len__") else 1 for x in X], dtype=np.int64)
    check_not_empty(lengths)
    arrays = []
    for i, x in enumerate(X):
        arrays.append(_as_rows(x, i))
        n_dimensions = arrays[-1].shape[1] if n_dimensions is None else n_dimensions
        if arrays[-1].shape[1] != n_dimensions:
            raise InputError(
                f"sequence {{sequence}} has vectors of {arrays[-1].shape[1]} dimensions, "
                f"expected {n_dimensions}",
                sequence=i,
            )
    return Observations(lengths, np.concatenate(arrays))


def _as_rows(x: Any, i: int) -> Any:
    """Return one sequence as an array (length, dimensions) of finite numbers."""
    try:
        rows = np.array(x, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            "sequence {sequence} must be numbers or vectors of one length, such as an array of "
            "shape (length, dimensions)",
            sequence=i,
        ) from None
    if rows.ndim == 1:
        rows = rows[:, None]
    if rows.ndim != 2 or not rows.shape[1]:
        raise InputError(
            f"sequence {{sequence}} has shape {rows.shape}: must be (length, dimensions)",
            sequence=i,
        )
    if not np.isfinite(rows).all():
        t, n = np.argwhere(~np.isfinite(rows))[0]
        raise InputError(
            f"sequence {{sequence}}, position {t}: dimension {n} is {rows[t, n]}: must be finite",
            sequence=i,
        )
    return rows
