"""hmmlearn.stats: the log-density of Gaussians."""

from typing import Any

import numpy as np

from trellis.models.chain.emissions.density import log_density

__all__ = ["log_multivariate_normal_density"]

_MIN_COVAR = 1e-7  # added to the diagonal of a matrix that is not positive definite


def log_multivariate_normal_density(
    X: Any, means: Any, covars: Any, covariance_type: str = "diag"
) -> Any:
    """Return log N(xₜ; μⱼ, Σⱼ), shape (n_samples, n_components).

    >>> X, means = np.array([[0.0], [1.0]]), np.array([[0.0]])
    >>> log_multivariate_normal_density(X, means, np.array([[1.0]])).round(4).tolist()
    [[-0.9189], [-1.4189]]
    """
    X, means, covars = (np.asarray(array, dtype=np.float64) for array in (X, means, covars))
    if covariance_type in ("tied", "full"):
        matrices = np.broadcast_to(covars, (len(means), *covars.shape[-2:]))
        matrices = np.array([_make_definite(matrix) for matrix in matrices])
        return log_density(X, means, matrices, "full")
    if covariance_type == "spherical" and covars.ndim == 1:
        covars = covars[:, None]
    variances = np.maximum(np.broadcast_to(covars, means.shape), np.finfo(float).tiny)
    with np.errstate(over="ignore"):
        return log_density(X, means, variances, "diagonal")


def _make_definite(matrix: Any) -> Any:
    """Return the matrix if it is positive definite; else add `_MIN_COVAR` to its diagonal."""
    for candidate in (matrix, matrix + _MIN_COVAR * np.eye(len(matrix))):
        try:
            np.linalg.cholesky(candidate)
        except np.linalg.LinAlgError:
            continue
        return candidate
    raise ValueError("'covars' must be symmetric, positive-definite")
