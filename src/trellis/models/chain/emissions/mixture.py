"""Mixtures of Gaussians: p(x | y) = Σₘ w_ym N(x; μ_ym, Σ_ym)."""

from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from trellis.checks import integer_at_least
from trellis.errors import InputError
from trellis.formats.native import Tensors, expect, finite
from trellis.formats.parts import Parts
from trellis.models.chain.emissions.base import Emission, Floats, Observations
from trellis.models.chain.emissions.clusters import soft_clusters
from trellis.models.chain.emissions.gaussian import Gaussian, Moments
from trellis.models.chain.emissions.table import log

__all__ = ["Mixture"]


class _Statistics(NamedTuple):
    weights: Floats
    """(states, mixtures) Σₜ pₜⱼ p(m | xₜ, j)."""
    moments: Moments
    """The moments of all Gaussians."""


class Mixture(Emission):
    """``n_mixtures`` weighted Gaussians for each state.

    With ``covariance="tied"``, all Gaussians of all states have one matrix. Which Gaussian an
    observation comes from is never known, so Baum–Welch runs even if all labels are known.
    """

    kind: ClassVar[str] = "mixture"
    is_hidden: ClassVar[bool] = True
    weights: Floats
    """(states, mixtures) Rows sum to 1."""
    gaussians: Gaussian
    """The Gaussians of all states: number j · n_mixtures + m is Gaussian m of state j."""

    def __init__(
        self, n_mixtures: int = 2, covariance: str = "diagonal", min_variance: float = 1e-3
    ) -> None:
        self.n_mixtures = integer_at_least(n_mixtures, 1, "n_mixtures")
        self.gaussians = Gaussian(covariance, min_variance)

    def learn(self, X: list[Any], n_jobs: int) -> Observations:
        """Store the dimension of the vectors."""
        return self.gaussians.learn(X, n_jobs)

    def read(self, X: list[Any], n_jobs: int) -> Observations:
        """Return vectors of the dimension of the training data."""
        return self.gaussians.read(X, n_jobs)

    def start(
        self,
        values: Any,
        allowed: NDArray[np.bool_],
        weight: Floats,
        generator: np.random.Generator,
    ) -> Floats:
        """Start from clusters of the observations, and from clusters within each of them."""
        p = soft_clusters(values, allowed, weight, generator)
        n_states, count = allowed.shape[1], self.n_mixtures
        share = np.full((len(values), n_states, count), 1.0 / count)
        state = p.argmax(axis=1)
        for j in range(n_states):
            rows = np.flatnonzero(state == j)
            if len(rows):
                every = np.ones((len(rows), count), dtype=np.bool_)
                ones = np.ones(len(rows))
                if len(np.unique(values[rows], axis=0)) >= count:
                    share[rows, j] = soft_clusters(values[rows], every, ones, generator)
        self.maximise(self._weigh(values, p, share))
        return p

    def _log_components(self, values: Any) -> Floats:
        """log w_jm + log N(x; μ_jm, Σ_jm), shape (positions, states, mixtures)."""
        logs = self.gaussians.log_likelihood(values)
        return logs.reshape(len(values), *self.weights.shape) + log(self.weights)

    def log_likelihood(self, values: Any) -> Floats:
        """Log Σₘ w_jm N(x; μ_jm, Σ_jm)."""
        return _log_sum(self._log_components(values))

    def statistics(self, values: Any, p: Floats) -> _Statistics:
        """Divide p among the Gaussians of each state, and return their moments."""
        logs = self._log_components(values)
        share = np.exp(logs - _log_sum(logs)[:, :, None])
        return self._weigh(values, p, share)

    def _weigh(self, values: Any, p: Floats, share: Floats) -> _Statistics:
        responsibilities = p[:, :, None] * share
        flat = responsibilities.reshape(len(p), -1)
        return _Statistics(responsibilities.sum(axis=0), self.gaussians.statistics(values, flat))

    def maximise(self, statistics: Any) -> None:
        """Set each weight to its share in its state, and the Gaussians by their moments."""
        totals = statistics.weights.sum(axis=1, keepdims=True)
        uniform = np.full(statistics.weights.shape, 1.0 / self.n_mixtures)
        shares = statistics.weights / np.where(totals > 0, totals, 1.0)
        self.weights = np.where(totals > 0, shares, uniform)
        self.gaussians.maximise(statistics.moments)

    def sample(self, states: NDArray[np.int64], generator: np.random.Generator) -> Floats:
        """Draw the Gaussian, then the observation; the result is (positions, d)."""
        limits = np.cumsum(self.weights, axis=1)[states]
        uniforms = generator.random(len(states)) * limits[:, -1]
        component = (limits <= uniforms[:, None]).sum(axis=1)
        return self.gaussians.sample(states * self.n_mixtures + component, generator)

    def to_parts(self) -> Parts:
        """Return the parts of the Gaussians, and the weights."""
        meta, tensors = self.gaussians.to_parts()
        return {**meta, "n_mixtures": self.n_mixtures}, {**tensors, "weights": self.weights}

    @classmethod
    def from_parts(cls, meta: dict[str, Any], tensors: Tensors, n_states: int) -> Self:
        """Return the distribution with these parts."""
        emission = cls(meta["n_mixtures"], meta["covariance"], meta["min_variance"])
        expect(tensors, "weights", np.float64, (n_states, emission.n_mixtures))
        emission.weights = finite(tensors, "weights")
        sums = emission.weights.sum(axis=1)
        if (emission.weights < 0).any() or not np.allclose(sums, 1.0, atol=1e-6):
            raise InputError("the rows of weights must be probabilities")
        count = n_states * emission.n_mixtures
        emission.gaussians = Gaussian.from_parts(meta, tensors, count)
        return emission


def _log_sum(logs: Floats) -> Floats:
    """log Σₘ exp logs[…, m], finite: one Gaussian at least has a weight above 0."""
    largest = logs.max(axis=2)
    sums = np.exp(logs - largest[:, :, None]).sum(axis=2)
    totals: Floats = largest + np.log(sums)
    return totals
