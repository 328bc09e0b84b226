"""Gaussian emissions: p(x | y) = N(x; μ_y, Σ_y)."""

from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from trellis.checks import number_at_least, one_of
from trellis.errors import InputError
from trellis.formats.native import Tensors, expect, finite
from trellis.formats.parts import Parts
from trellis.models.chain.emissions.base import MIN_VARIANCE, Emission, Floats, Observations
from trellis.models.chain.emissions.clusters import soft_clusters
from trellis.models.chain.emissions.density import (
    COVARIANCES,
    cholesky,
    covariance_shape,
    full_matrices,
    log_density,
)
from trellis.models.chain.emissions.vectors import read_vectors

__all__ = ["Gaussian", "Moments"]

# The variance is the difference E[(x - c)²] - (E[x] - c)². If it is a smaller part of the first
# term than this, the difference has lost digits.
_MIN_SHARE = 1e-4
# An eigenvalue that is a smaller part of the largest one can be only a rounding error.
_MIN_RATIO = 1e-12


class Moments(NamedTuple):
    """The sufficient statistics of Gaussians."""

    weight: Floats
    """(states,) Σₜ pₜⱼ."""
    mean: Floats
    """(states, d) Σₜ pₜⱼ xₜ / weight; 0 for a state of weight 0."""
    scatter: Floats
    """Σₜ pₜⱼ (xₜ - mean)(xₜ - mean)ᵀ, (states, d, d), or its diagonal, (states, d)."""


class Gaussian(Emission):
    """One Gaussian for each state.

    ``covariance`` is "diagonal", "full" (a matrix for each state), "tied" (one matrix for all
    states) or "spherical" (one variance for each state). No variance, and no eigenvalue of a
    matrix, falls below ``min_variance``.

    >>> emission = Gaussian(covariance="spherical")
    >>> values = emission.learn([np.array([[0.0], [2.0], [10.0]])], n_jobs=1).values
    >>> p = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> emission.maximise(emission.statistics(values, p))
    >>> emission.means.tolist(), emission.covariances.tolist()
    ([[1.0], [10.0]], [1.0, 0.001])
    """

    kind: ClassVar[str] = "gaussian"
    means: Floats
    """(states, dimensions)."""
    covariances: Floats
    """The shape depends on ``covariance``: `density.covariance_shape`."""

    def __init__(self, covariance: str = "diagonal", min_variance: float = 1e-3) -> None:
        self.covariance = one_of(covariance, COVARIANCES, "covariance")
        self.min_variance = number_at_least(min_variance, MIN_VARIANCE, "min_variance")
        self.n_dimensions: int | None = None

    def learn(self, X: list[Any], n_jobs: int) -> Observations:
        """Store the dimension of the vectors."""
        observations = read_vectors(X, None)
        self.n_dimensions = observations.values.shape[1]
        return observations

    def read(self, X: list[Any], n_jobs: int) -> Observations:
        """Return vectors of the dimension of the training data."""
        return read_vectors(X, self.n_dimensions)

    def start(
        self,
        values: Any,
        allowed: NDArray[np.bool_],
        weight: Floats,
        generator: np.random.Generator,
    ) -> Floats:
        """Start from the clusters of k-means."""
        p = soft_clusters(values, allowed, weight, generator)
        self.maximise(self.statistics(values, p))
        return p

    def log_likelihood(self, values: Any) -> Floats:
        """log N(x; μⱼ, Σⱼ)."""
        return log_density(values, self.means, self.covariances, self.covariance)

    def statistics(self, values: Any, p: Floats) -> Moments:
        """Return the weights, the means and the scatter of each state."""
        weight = p.sum(axis=0)
        centre = values.mean(axis=0)  # differences to it are small: less is lost by rounding
        centred = values - centre
        offset = p.T @ centred / np.where(weight > 0, weight, 1.0)[:, None]
        mean = np.where(weight[:, None] > 0, centre + offset, 0.0)
        if self.covariance in ("full", "tied"):
            return Moments(weight, mean, _matrix_scatter(values, p, mean))
        return Moments(weight, mean, _diagonal_scatter(centred, p, weight, offset))

    def maximise(self, statistics: Any) -> None:
        """Set μⱼ = mean, Σⱼ = scatter / weight. A state of weight 0 keeps its parameters."""
        weight, mean, scatter = statistics
        count, d = mean.shape
        used = weight > 0
        if not hasattr(self, "means"):
            self.means = np.zeros((count, d))
            shape = covariance_shape(self.covariance, count, d)
            ones = np.eye(d) if self.covariance in ("full", "tied") else np.ones(1)
            self.covariances = np.broadcast_to(ones, shape)
        self.means = np.where(used[:, None], mean, self.means)
        if self.covariance == "tied":
            self.covariances = self._bounded(scatter.sum(axis=0) / max(weight.sum(), 1e-300))
            return
        safe = np.where(used, weight, 1.0).reshape(-1, *[1] * (scatter.ndim - 1))
        covariances = self._bounded(scatter / safe)
        kept = used.reshape(-1, *[1] * (covariances.ndim - 1))
        self.covariances = np.where(kept, covariances, self.covariances)

    def _bounded(self, covariances: Floats) -> Floats:
        """Return the Σⱼ of largest likelihood among those without an eigenvalue below the limit.

        Given the scatter S, it has the eigenvectors of S, and the eigenvalues of S or, where they
        are smaller, the limit.
        """
        limit = self.min_variance
        if self.covariance == "spherical":
            covariances = covariances.mean(axis=1)
        if self.covariance in ("diagonal", "spherical"):
            return np.maximum(covariances, limit)
        values, vectors = np.linalg.eigh(covariances)
        limits = np.maximum(limit, _MIN_RATIO * values[..., -1:])
        if (values >= limits).all():
            return covariances
        scaled = vectors * np.maximum(values, limits)[..., None, :]
        return np.asarray(scaled @ np.swapaxes(vectors, -1, -2))

    def sample(self, states: NDArray[np.int64], generator: np.random.Generator) -> Floats:
        """Draw x = μ + L z with z ~ N(0, I) and Σ = LLᵀ; the result is (positions, d)."""
        count, d = self.means.shape
        draws = generator.standard_normal((len(states), d))
        matrices = full_matrices(self.covariances, self.covariance, count, d)
        for j in np.unique(states):
            rows = states == j
            draws[rows] = self.means[j] + draws[rows] @ cholesky(matrices[j], j).T
        return draws

    def to_parts(self) -> Parts:
        """Return the settings, the means and the covariances."""
        meta = {"covariance": self.covariance, "min_variance": float(self.min_variance)}
        return meta, {"means": self.means, "covariances": self.covariances}

    @classmethod
    def from_parts(cls, meta: dict[str, Any], tensors: Tensors, n_states: int) -> Self:
        """Return the distribution with these parts."""
        emission = cls(meta["covariance"], meta["min_variance"])
        expect(tensors, "means", np.float64, (n_states, None))
        emission.means = finite(tensors, "means")
        d = emission.n_dimensions = emission.means.shape[1]
        if d == 0:
            raise InputError("means must have at least one dimension")
        shape = covariance_shape(emission.covariance, n_states, d)
        expect(tensors, "covariances", np.float64, shape)
        emission.covariances = finite(tensors, "covariances")
        _check_covariances(emission.covariances, emission.covariance)
        return emission


def _diagonal_scatter(centred: Floats, p: Floats, weight: Floats, offset: Floats) -> Floats:
    """Return Σₜ pₜⱼ (xₜ - mean)², shape (states, d); centred is x - c, offset is mean - c.

    One matrix product computes it as weight · (E[(x - c)²] - offset²). Where this difference has
    lost digits, the squares of the definition are summed.
    """
    squares = p.T @ np.square(centred)
    scatter: Floats = squares - weight[:, None] * np.square(offset)
    for j in np.flatnonzero((scatter < _MIN_SHARE * squares).any(axis=1)):
        scatter[j] = p[:, j] @ np.square(centred - offset[j])
    return scatter


def _matrix_scatter(values: Floats, p: Floats, mean: Floats) -> Floats:
    """Return Σₜ pₜⱼ (xₜ - mean)(xₜ - mean)ᵀ, shape (states, d, d)."""
    scatter = np.empty((len(mean), values.shape[1], values.shape[1]))
    for j in range(len(mean)):
        difference = values - mean[j]
        scatter[j] = (difference * p[:, j, None]).T @ difference
    # The two factors differ, so rounding makes the product slightly asymmetric.
    return (scatter + np.swapaxes(scatter, 1, 2)) / 2.0


def _check_covariances(covariances: Floats, covariance: str) -> None:
    """Raise InputError unless all covariances are positive definite."""
    if covariance in ("diagonal", "spherical"):
        if (covariances < MIN_VARIANCE).any():
            raise InputError(f"covariances must be at least {MIN_VARIANCE:g}")
        return
    matrices = covariances if covariance == "full" else covariances[None]
    for j, matrix in enumerate(matrices):
        if not np.allclose(matrix, matrix.T, rtol=1e-9, atol=0.0):
            raise InputError(f"covariance {j} is not symmetric")
        cholesky(matrix, j)
        if np.linalg.eigvalsh(matrix)[0] < MIN_VARIANCE / 2:  # half, because of rounding
            raise InputError(f"covariance {j} has an eigenvalue below {MIN_VARIANCE:g}")
