"""Emissions of bags of features: p(x | y) = Π_f p(f | y)^count, as in naive Bayes."""

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.checks import check_not_empty
from trellis.errors import InputError
from trellis.features.rows import FeatureBatch
from trellis.features.vectorizer import FeatureMap, choose
from trellis.features.window import named
from trellis.models.chain.emissions.base import Floats, Observations
from trellis.models.chain.emissions.table import TableEmission

__all__ = ["Features"]


class _Values(NamedTuple):
    symbols: Any
    """(positions, symbols) Counts as a sparse matrix."""
    is_unknown: NDArray[np.bool_]
    """(positions,) True if all features of the position are unknown."""


class Features(TableEmission):
    """Bags of features, which a feature map computes, as for `CRF`, from tokens of any type."""

    kind: ClassVar[str] = "features"
    no_samples: ClassVar[str] = 'tokens have features here; write HMM(emissions="categorical")'

    def __init__(self, features: Any = None, smoothing: float = 0.1) -> None:
        super().__init__(smoothing)
        self.features = features
        self.map: FeatureMap

    def learn(self, X: list[Any], n_jobs: int) -> Observations:
        """Choose the feature map and learn its features."""
        first = next((x for x in X if isinstance(x, list | tuple) and x), [None])[0]
        chosen = named(["w[0]"]) if self.features is None and isinstance(first, str) else None
        self.map = choose(self.features if chosen is None else chosen, None, X)
        batch = self.map.learn(X)
        check_not_empty(batch.lengths)
        if batch.rows.value is not None and (batch.rows.value < 0).any():
            raise InputError(
                "X has a negative feature value: in an HMM, values are counts; for real numbers, "
                'write HMM(emissions="gaussian")'
            )
        # In training, a position without features says nothing about its label.
        return self._values(batch, np.zeros(len(batch.rows), dtype=np.bool_))

    def read(self, X: list[Any], n_jobs: int) -> Observations:
        """Look up the features."""
        batch = self.map.find(X, n_jobs)
        return self._values(batch, np.diff(batch.rows.begin) == 0)

    def names(self) -> list[str]:
        """Return the names of the features."""
        return self.map.names()

    def _values(self, batch: FeatureBatch, is_unknown: NDArray[np.bool_]) -> Observations:
        from scipy import sparse  # imported only here, because it takes 0.1 s

        rows = batch.rows
        counts = np.ones(len(rows.id)) if rows.value is None else rows.value
        shape = (len(rows), len(self.map))
        matrix = sparse.csr_array((counts, rows.id, rows.begin), shape=shape)
        return Observations(batch.lengths, _Values(matrix, is_unknown))

    def start(
        self,
        values: Any,
        allowed: NDArray[np.bool_],
        weight: Floats,
        generator: np.random.Generator,
    ) -> Floats:
        """Give each symbol a random preference for states.

        If all states were equal, they would get the same expected counts in every iteration. The
        1e-3 makes every allowed state possible, also at positions without a known symbol.
        """
        preferences = generator.exponential(size=(values.symbols.shape[1], allowed.shape[1]))
        p: Floats = allowed * (values.symbols @ preferences + 1e-3)
        p *= weight[:, None] / p.sum(axis=1, keepdims=True)
        self.maximise(self.statistics(values, p))
        return p

    def log_likelihood(self, values: Any) -> Floats:
        """Σ_f count log p(f | y); the score of an unknown symbol if all features are unknown."""
        scores: Floats = np.asarray(values.symbols @ self.log_probabilities[:-1])
        scores[values.is_unknown] += self.unknown_scores
        return scores

    def statistics(self, values: Any, p: Floats) -> Any:
        """Return the expected counts, shape (symbols, states)."""
        return np.asarray(values.symbols.T @ p)
