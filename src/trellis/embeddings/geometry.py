"""Operations on the rows of a matrix: scale to length one, project to two dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.errors import InputError

__all__ = ["plane", "unit_rows"]


def unit_rows(rows: NDArray[Any]) -> NDArray[np.float32]:
    """Return each row divided by its Euclidean length; rows of zeros stay zero.

    Lengths are computed in float64: squares of large float32 numbers overflow.
    """
    norms = np.linalg.norm(rows.astype(np.float64), axis=-1, keepdims=True)
    units: NDArray[np.float32] = (rows / np.where(norms > 0, norms, 1)).astype(np.float32)
    return units


def plane(rows: NDArray[Any]) -> NDArray[np.float64]:
    """Project rows (N, D) to their two principal components, (N, 2).

    An eigenvector has no natural sign. The sign is chosen so that the entry of largest absolute
    value is positive: the same rows always give the same picture.

    >>> plane(np.array([[0.0, 0.0, 1.0], [4.0, 0.0, 1.0], [2.0, 1.0, 1.0]])).round(6).tolist()
    [[-2.0, -0.333333], [2.0, -0.333333], [0.0, 0.666667]]
    """
    centred = np.asarray(rows, dtype=np.float64)
    if centred.ndim != 2 or len(centred) < 1:
        raise InputError(f"rows of shape {centred.shape} cannot be projected: must be (N, D)")
    centred = centred - centred.mean(axis=0)
    covariance = centred.T @ centred
    _, directions = np.linalg.eigh(covariance)  # columns, by ascending variance
    components = directions[:, :-3:-1]  # (D, 2), or (1, 1) if D is 1
    largest = components[np.abs(components).argmax(axis=0), np.arange(components.shape[1])]
    points = centred @ (components * np.sign(largest))
    return points if points.shape[1] == 2 else np.hstack([points, np.zeros_like(points)])
