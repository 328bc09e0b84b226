"""hmmlearn.utils: normalisation in place, and covariances as full matrices."""

from typing import Any

import numpy as np

__all__ = ["fill_covars", "log_normalize", "normalize"]


def normalize(a: Any, axis: int | None = None) -> None:
    """Divide an array by its sum along an axis, in place. Rows with the sum 0 are not changed.

    >>> a = np.array([[1.0, 3.0], [0.0, 0.0]])
    >>> normalize(a, axis=1)
    >>> a.tolist()
    [[0.25, 0.75], [0.0, 0.0]]
    """
    if axis is None or a.ndim == 1:
        a /= a.sum()
        return
    sums = a.sum(axis=axis, keepdims=True)
    a /= np.where(sums == 0, 1.0, sums)


def log_normalize(a: Any, axis: int | None = None) -> None:
    """Subtract log Σ exp(a) along an axis, in place.

    >>> a = np.log([[1.0, 3.0]])
    >>> log_normalize(a, axis=1)
    >>> np.exp(a).round(2).tolist()
    [[0.25, 0.75]]
    """
    if axis is not None and a.shape[axis] == 1:
        a[...] = 0.0  # log 1, also if the only value is -inf
        return
    largest = a.max(axis=axis, keepdims=True)
    with np.errstate(under="ignore"):
        a -= largest + np.log(np.exp(a - largest).sum(axis=axis, keepdims=True))


def fill_covars(
    covars: Any, covariance_type: str = "full", n_components: int = 1, n_features: int = 1
) -> Any:
    """Return covariances as matrices, (n_components, n_features, n_features).

    >>> fill_covars(np.array([2, 3]), "spherical", 2, 1).tolist()
    [[[2.0]], [[3.0]]]
    """
    covars = np.asarray(covars)
    if covariance_type == "tied":
        return np.tile(covars, (n_components, 1, 1))
    if covariance_type == "full":
        return covars
    variances = np.ravel(covars)[:, None] if covariance_type == "spherical" else covars
    return variances[:, :, None] * np.eye(n_features)
