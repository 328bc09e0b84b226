"""The results of a joint model p(x, y): log p(x), log p(x, y), and new sequences."""

from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from trellis.checks import check_random_state, integer_at_least, sample_weights
from trellis.inference import chain
from trellis.inference.chain import Scores
from trellis.models.chain.decoding import Decoding
from trellis.models.chain.emissions.base import Emission
from trellis.sequences import split_sequences

__all__ = ["BestPath", "JointDecoding"]


class BestPath(NamedTuple):
    """The most probable labels of a sequence."""

    labels: list[Any]
    log_probability: float
    """log p(x, y) of the observations and these labels."""


class JointDecoding(Decoding):
    """Mixin for a model whose scores are logarithms of the probabilities of x and y."""

    emission_: Emission
    start_: NDArray[np.float64]
    transitions_: NDArray[np.float64]

    def predict(self, X: Any, known: Any = None, *, lengths: Any = None, **options: Any) -> Any:
        """argmax_y p(y | x) for each sequence, as `Decoding.predict`.

        With ``lengths``, X is one array of the positions of all sequences.
        """
        return super().predict(split_sequences(X, lengths), known, **options)

    def predict_marginals(
        self, X: Any, known: Any = None, *, lengths: Any = None
    ) -> list[NDArray[np.float64]]:
        """p(yₜ | x) for each sequence, as `Decoding.predict_marginals`."""
        return super().predict_marginals(split_sequences(X, lengths), known)

    def log_probability(self, X: Any, lengths: Any = None) -> NDArray[np.float64]:
        """log p(x) = log Σ_y p(x, y) of each sequence, shape (sequences,)."""

        def totals(scores: Scores) -> list[Any]:
            return list(cast(Any, chain.log_partition(scores, n_jobs=self.n_jobs)))

        return np.array(self._map_slices(split_sequences(X, lengths), None, totals, float))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the fraction of correct labels; without y, Σ log p(x) of all sequences."""
        if y is not None:
            return super().score(X, y, sample_weight)
        totals = self.log_probability(X)
        weights = sample_weights(sample_weight, len(totals))
        return float(totals.sum() if weights is None else weights @ totals)

    def decode(self, X: Any, known: Any = None) -> list[BestPath]:
        """argmax_y p(x, y) of each sequence, and its log p(x, y).

        >>> from trellis import HMM
        >>> hmm = HMM(smoothing=0, transition_smoothing=0).fit([[1, 1], [2]], [["a", "a"], ["b"]])
        >>> labels, log_p = hmm.decode([[1, 1]])[0]
        >>> labels, round(log_p, 4)  # p(a) = 1/2, and everything else is certain
        (['a', 'a'], -0.6931)
        """

        def best_paths(scores: Scores) -> list[Any]:
            path = chain.viterbi(scores, n_jobs=self.n_jobs)
            pairs = zip(path.labels, cast(Any, path.score).tolist(), strict=True)
            return [BestPath(self.classes_[labels].tolist(), score) for labels, score in pairs]

        return self._map_slices(X, known, best_paths, lambda: BestPath([], 0.0))

    def generate(
        self, length: int, n: int = 1, random_state: Any = None
    ) -> tuple[list[Any], list[list[Any]]]:
        """Draw n sequences (x, y) ~ p(x, y) of a length; return X and y.

        >>> from trellis import HMM
        >>> hmm = HMM(transition_smoothing=0).fit([[7, 8, 7]], [["a", "b", "a"]])
        >>> hmm.generate(4, random_state=0)[1]
        [['a', 'b', 'a', 'b']]
        """
        self._check_fitted()
        length, n = integer_at_least(length, 1, "length"), integer_at_least(n, 1, "n")
        check_random_state(random_state)
        generator = np.random.default_rng(random_state)
        states = np.empty((n, length), dtype=np.int64)
        states[:, 0] = generator.choice(len(self.start_), size=n, p=self.start_)
        limits = np.cumsum(self.transitions_, axis=1)
        limits[:, -1] = np.inf  # the sum of a row may be rounded to less than 1
        for t in range(1, length):
            uniforms = generator.random(n)
            states[:, t] = (limits[states[:, t - 1]] <= uniforms[:, None]).sum(axis=1)
        observations = self.emission_.sample(states.ravel(), generator)
        X = [observations[i * length : (i + 1) * length] for i in range(n)]
        return X, self.classes_[states].tolist()
