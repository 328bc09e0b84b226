"""log N(x; μ, Σ) of many points under many Gaussians, for four kinds of covariance."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from trellis.errors import InputError

__all__ = ["COVARIANCES", "covariance_shape", "full_matrices", "log_density"]

Floats = NDArray[np.float64]

COVARIANCES = ("diagonal", "full", "tied", "spherical")
"""The kinds of covariance. Each Gaussian has its own variances (diagonal), its own matrix (full) or
one variance (spherical); with "tied", all Gaussians have the same matrix."""
# Larger terms of expanded squares would have rounding errors above 1e-10.
_MAX_TERM = 1e4
# Rows that are computed at a time. Their temporary arrays (rows, Gaussians) stay in the L2 cache.
_BLOCK = 1024


def covariance_shape(covariance: str, count: int, dimensions: int) -> tuple[int, ...]:
    """Return the shape of the covariances of ``count`` Gaussians.

    >>> [covariance_shape(kind, 3, 2) for kind in COVARIANCES]
    [(3, 2), (3, 2, 2), (2, 2), (3,)]
    """
    shapes: dict[str, tuple[int, ...]] = {
        "diagonal": (count, dimensions),
        "full": (count, dimensions, dimensions),
        "tied": (dimensions, dimensions),
        "spherical": (count,),
    }
    return shapes[covariance]


def full_matrices(covariances: Floats, covariance: str, count: int, dimensions: int) -> Floats:
    """Return the covariances of all Gaussians as matrices, (count, dimensions, dimensions).

    >>> full_matrices(np.array([[1.0, 2.0]]), "diagonal", 1, 2).tolist()
    [[[1.0, 0.0], [0.0, 2.0]]]
    """
    shape = (count, dimensions, dimensions)
    if covariance in ("full", "tied"):
        return np.broadcast_to(covariances, shape).copy()
    variances = covariances if covariance == "diagonal" else covariances[:, None]
    return np.broadcast_to(variances, shape[:2])[:, :, None] * np.eye(dimensions)


def log_density(X: Floats, means: Floats, covariances: Floats, covariance: str) -> Floats:
    """-½ (d log 2π + log |Σⱼ| + (x - μⱼ)ᵀ Σⱼ⁻¹ (x - μⱼ)), shape (positions, Gaussians).

    X is (positions, d), means (Gaussians, d).

    >>> X, mean = np.array([[0.0], [1.0]]), np.array([[0.0]])
    >>> log_density(X, mean, np.array([[1.0]]), "diagonal").round(4).tolist()
    [[-0.9189], [-1.4189]]
    """
    count, dimensions = means.shape
    if covariance in ("full", "tied"):
        matrices = full_matrices(covariances, covariance, count, dimensions)
        return _log_density_full(X, means, matrices)
    variances = covariances if covariance == "diagonal" else covariances[:, None]
    variances = np.broadcast_to(variances, means.shape)
    constant = dimensions * np.log(2.0 * np.pi) + np.log(variances).sum(axis=1)
    out = np.empty((len(X), count))
    compute = _choose_squares(X, means, 1.0 / variances, constant)
    for begin in range(0, len(X), _BLOCK):
        compute(X[begin : begin + _BLOCK], out[begin : begin + _BLOCK])
    return out


def _choose_squares(
    X: Floats, means: Floats, precisions: Floats, constant: Floats
) -> Callable[[Floats, Floats], None]:
    """Return a function that sets an array to -½ (constantⱼ + Σ_f (x_f - μ_jf)² π_jf).

    π_jf is the precision of dimension f of Gaussian j. The array is (positions, Gaussians), with at
    most _BLOCK rows. If no term of the expanded square is large, a matrix product computes it, with
    a rounding error below 1e-10. Large terms could lose all digits, so then the differences are
    squared.
    """
    d = means.shape[1]
    centre = means.mean(axis=0)
    centred = means - centre
    # The maximum of each row of this copy takes a tenth of the time of that of each column of X.
    columns = np.ascontiguousarray(X.T)
    largest = np.maximum(columns.max(axis=1) - centre, centre - columns.min(axis=1))
    largest = np.maximum(largest, np.abs(centred).max(axis=0))
    constants = constant + (np.square(centred) * precisions).sum(axis=1)
    # Σ (x - μ)² π = [x², x, 1] · [π, -2μπ, Σ μ²π]: one product takes half the time of two.
    weights = -0.5 * np.vstack([precisions.T, (-2.0 * centred * precisions).T, constants])
    terms = np.ones((min(_BLOCK, len(X)), 2 * d + 1))

    def expand(x: Floats, out: Floats) -> None:
        rows = terms[: len(x)]
        np.subtract(x, centre, out=rows[:, d:-1])
        np.square(rows[:, d:-1], out=rows[:, :d])
        np.matmul(rows, weights, out=out)

    def square_differences(x: Floats, out: Floats) -> None:
        out[:] = constant
        for column, mean, precision in zip(x.T, means.T, precisions.T, strict=True):
            square = column[:, None] - mean
            square *= square
            square *= precision
            out += square
        out *= -0.5

    is_small = (np.square(largest) @ precisions.T).max() <= _MAX_TERM
    return expand if is_small else square_differences


def _log_density_full(X: Floats, means: Floats, matrices: Floats) -> Floats:
    """Return log densities with Σⱼ = LLᵀ and (x - μ)ᵀ Σ⁻¹ (x - μ) = ‖L⁻¹ (x - μ)‖²."""
    from scipy import linalg  # imported only here, because it takes 0.1 s

    count, dimensions = means.shape
    out = np.empty((len(X), count))
    for j in range(count):
        lower = cholesky(matrices[j], j)
        scaled = linalg.solve_triangular(lower, (X - means[j]).T, lower=True, check_finite=False)
        log_determinant = 2.0 * np.log(np.diagonal(lower)).sum()
        out[:, j] = np.einsum("ij,ij->j", scaled, scaled) + log_determinant
    out += dimensions * np.log(2.0 * np.pi)
    out *= -0.5
    return out


def cholesky(matrix: Floats, index: int) -> Floats:
    """Return lower-triangular L with LLᵀ = matrix; InputError if it is not positive definite."""
    try:
        return np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)
    except np.linalg.LinAlgError:
        raise InputError(f"covariance {index} is not positive definite") from None
