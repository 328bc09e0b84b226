"""Rows of length one, and rows in the plane."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.errors import InputError

__all__ = ["plane", "unit_rows"]


def unit_rows(rows: NDArray[Any]) -> NDArray[np.float32]:
    """Each row divided by its length; rows of zeros stay."""
    norms = np.linalg.norm(rows.astype(np.float64), axis=-1, keepdims=True)
    units: NDArray[np.float32] = (rows / np.where(norms > 0, norms, 1)).astype(np.float32)
    return units


def plane(rows: NDArray[Any]) -> NDArray[np.float64]:
    """X V₂: the rows, less their mean, along the two directions of largest variance: (rows, 2).

    Of the two ways to point a direction, the one is taken in which its largest number is positive.

    >>> plane(np.array([[0.0, 0.0, 1.0], [4.0, 0.0, 1.0], [2.0, 1.0, 1.0]])).round(6).tolist()
    [[-2.0, -0.333333], [2.0, -0.333333], [0.0, 0.666667]]
    """
    centred = np.asarray(rows, dtype=np.float64)
    if centred.ndim != 2 or len(centred) < 1:
        raise InputError(f"rows of shape {centred.shape} cannot be drawn")
    centred = centred - centred.mean(axis=0)
    covariance = centred.T @ centred
    _, directions = np.linalg.eigh(covariance)  # ascending
    found = directions[:, :-3:-1]
    largest = found[np.abs(found).argmax(axis=0), np.arange(found.shape[1])]
    places = centred @ (found * np.sign(largest))
    return places if places.shape[1] == 2 else np.hstack([places, np.zeros_like(places)])
