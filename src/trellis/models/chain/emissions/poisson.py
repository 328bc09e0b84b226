"""Poisson emissions: p(x | y) = Π_f Poisson(x_f; λ_yf), for vectors of counts."""

from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from trellis.checks import number_at_least
from trellis.errors import InputError
from trellis.formats.native import Tensors, expect, finite
from trellis.formats.parts import Parts
from trellis.models.chain.emissions.base import MIN_VARIANCE, Emission, Floats, Observations
from trellis.models.chain.emissions.clusters import soft_clusters
from trellis.models.chain.emissions.vectors import read_vectors

__all__ = ["Poisson"]

# Larger counts are not exact as floats, and a Poisson distribution is no model of them.
_MAX_COUNT = 2.0**53


class _Values(NamedTuple):
    counts: Floats
    """(positions, dimensions)."""
    log_factorials: Floats
    """(positions,) Σ_f log x_f!."""


class Poisson(Emission):
    """One rate for each state and dimension; dimensions are independent given the state.

    No rate falls below ``min_variance``: with a rate of 0, every count above 0 would be impossible.
    (The rate of a Poisson distribution is also its variance.)

    >>> emission = Poisson(min_variance=0.01)
    >>> values = emission.learn([np.array([0, 2, 4])], n_jobs=1).values
    >>> emission.maximise(emission.statistics(values, np.array([[1.0, 0], [0, 1], [0, 1]])))
    >>> emission.rates.tolist()
    [[0.01], [3.0]]
    """

    kind: ClassVar[str] = "poisson"
    rates: Floats
    """(states, dimensions)."""

    def __init__(self, min_variance: float = 1e-3) -> None:
        self.min_variance = number_at_least(min_variance, MIN_VARIANCE, "min_variance")
        self.n_dimensions: int | None = None

    def learn(self, X: list[Any], n_jobs: int) -> Observations:
        """Store the dimension of the vectors."""
        observations = self.read(X, n_jobs)
        self.n_dimensions = observations.values.counts.shape[1]
        return observations

    def read(self, X: list[Any], n_jobs: int) -> Observations:
        """Validate counts: integers of at least 0."""
        from scipy.special import gammaln  # imported only here, because it takes 0.1 s

        lengths, counts = read_vectors(X, self.n_dimensions)
        is_invalid = (counts < 0) | (counts > _MAX_COUNT) | (counts != np.round(counts))
        if is_invalid.any():
            row, f = np.argwhere(is_invalid)[0]
            i = int(np.searchsorted(np.cumsum(lengths), row, side="right"))
            t = int(row - lengths[:i].sum())
            raise InputError(
                f"sequence {{sequence}}, position {t}: dimension {f} is {counts[row, f]:g}: must "
                "be a count, an integer from 0 to 2**53",
                sequence=i,
            )
        return Observations(lengths, _Values(counts, gammaln(counts + 1.0).sum(axis=1)))

    def start(
        self,
        values: Any,
        allowed: NDArray[np.bool_],
        weight: Floats,
        generator: np.random.Generator,
    ) -> Floats:
        """Start from the clusters of √x, whose variance hardly depends on the rate."""
        p = soft_clusters(np.sqrt(values.counts), allowed, weight, generator)
        self.maximise(self.statistics(values, p))
        return p

    def log_likelihood(self, values: Any) -> Floats:
        """Σ_f x_f log λ_jf - λ_jf - log x_f!."""
        logs: Floats = values.counts @ np.log(self.rates).T
        logs -= self.rates.sum(axis=1)
        logs -= values.log_factorials[:, None]
        return logs

    def statistics(self, values: Any, p: Floats) -> tuple[Floats, Floats]:
        """Return Σₜ pₜⱼ, (states,), and Σₜ pₜⱼ xₜ, (states, dimensions)."""
        return p.sum(axis=0), p.T @ values.counts

    def maximise(self, statistics: Any) -> None:
        """Set λⱼ to the mean of the counts. A state of weight 0 keeps its rates."""
        weight, sums = statistics
        if not hasattr(self, "rates"):
            self.rates = np.ones(sums.shape)
        means = sums / np.where(weight > 0, weight, 1.0)[:, None]
        rates = np.maximum(means, self.min_variance)
        self.rates = np.where(weight[:, None] > 0, rates, self.rates)

    def sample(self, states: NDArray[np.int64], generator: np.random.Generator) -> Any:
        """Draw counts, (positions, dimensions)."""
        return generator.poisson(self.rates[states])

    def to_parts(self) -> Parts:
        """Return the settings and the rates."""
        return {"min_variance": float(self.min_variance)}, {"rates": self.rates}

    @classmethod
    def from_parts(cls, meta: dict[str, Any], tensors: Tensors, n_states: int) -> Self:
        """Return the distribution with these parts."""
        emission = cls(meta["min_variance"])
        expect(tensors, "rates", np.float64, (n_states, None))
        emission.rates = finite(tensors, "rates")
        emission.n_dimensions = emission.rates.shape[1]
        if emission.n_dimensions == 0:
            raise InputError("rates must have at least one dimension")
        if (emission.rates <= 0).any() or (emission.rates > _MAX_COUNT).any():
            raise InputError("rates must be above 0 and at most 2**53")
        return emission
