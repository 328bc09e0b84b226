"""The oracle: every one of the L**T label sequences of one chain, written out and added up.

score(y) = start[y_0] + sum_t unary[t, y_t] + sum_t transition[t-1][y_{t-1}, y_t] + end[y_{T-1}]

Nothing here uses a recursion over sums or maxima, and nothing here imports the library.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np


@cache
def all_labels(length: int, n_labels: int) -> np.ndarray:
    """(L**T, T): all label sequences in lexicographic order (last position changes fastest)."""
    labels = np.indices((n_labels,) * length).reshape(length, -1).T.copy()
    labels.flags.writeable = False  # all callers get the same array from the cache
    return labels


def path_scores(
    unary: np.ndarray,
    transition: np.ndarray,
    start: np.ndarray | None = None,
    end: np.ndarray | None = None,
    mask: np.ndarray | None = None,
) -> np.ndarray:
    """(L**T,): the score of each row of ``all_labels``."""
    length, n_labels = unary.shape
    if mask is not None:
        unary = np.where(mask, unary, -np.inf)
    scores = unary[0] if start is None else start + unary[0]
    for t in range(1, length):
        step = transition if transition.ndim == 2 else transition[t - 1]
        # Each prefix (its last label is the row of `step`) grows by each of the L labels.
        grown = scores.reshape(-1, n_labels, 1) + (step + unary[t])
        scores = grown.reshape(-1)
    if end is not None:
        scores = (scores.reshape(-1, n_labels) + end).reshape(-1)
    return np.array(scores, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Enumeration:
    """All path scores of one chain, and the results computed from them."""

    length: int
    n_labels: int
    scores: np.ndarray  # (L**T,) in the order of all_labels
    best_score: float
    n_allowed: int
    log_partition: float
    probabilities: np.ndarray | None  # (L**T,), None when no path is allowed
    entropy: float | None

    @property
    def feasible(self) -> bool:
        return self.n_allowed > 0

    def index(self, labels: np.ndarray) -> np.ndarray:
        """Return the index of label sequences (..., T) in the enumeration."""
        powers = self.n_labels ** np.arange(self.length - 1, -1, -1)
        return np.asarray(labels) @ powers

    def score(self, labels: np.ndarray) -> np.ndarray:
        return self.scores[self.index(labels)]

    def log_prob(self, labels: np.ndarray) -> np.ndarray:
        # The best score is subtracted first, because log Z itself is rounded at a larger digit.
        return (self.score(labels) - self.best_score) - self._log_mass

    @property
    def _log_mass(self) -> float:
        return float(np.log(np.exp(self.scores - self.best_score).sum()))

    def unary_marginals(self) -> np.ndarray:
        """(T, L): p(y_t = a)."""
        return np.stack([self._at(self.probabilities, t).sum((0, 2)) for t in range(self.length)])

    def pairwise_marginals(self) -> np.ndarray:
        """(T-1, L, L): p(y_{t-1} = a, y_t = b)."""
        n = self.n_labels
        pairs = np.empty((self.length - 1, n, n))
        for t in range(1, self.length):
            pairs[t - 1] = self.probabilities.reshape(n ** (t - 1), n, n, -1).sum((0, 3))
        return pairs

    def max_marginals(self) -> np.ndarray:
        """(T, L): the best score of any path with label a at t."""
        return np.stack([self._at(self.scores, t).max((0, 2)) for t in range(self.length)])

    def kbest_scores(self, k: int) -> np.ndarray:
        """Return the k highest scores of allowed paths, best first; fewer if there are fewer."""
        return np.sort(self.scores)[::-1][: min(k, self.n_allowed)]

    def _at(self, values: np.ndarray, t: int) -> np.ndarray:
        """View the paths as (labels before t, label at t, labels after t)."""
        return values.reshape(self.n_labels**t, self.n_labels, -1)


def enumerate_chain(
    unary: np.ndarray,
    transition: np.ndarray,
    start: np.ndarray | None = None,
    end: np.ndarray | None = None,
    mask: np.ndarray | None = None,
) -> Enumeration:
    """Log Z = log sum_y exp score(y), p(y) = exp(score(y)) / Z, H = -sum_y p(y) log p(y)."""
    length, n_labels = unary.shape
    scores = path_scores(unary, transition, start, end, mask)
    best = float(scores.max())
    n_allowed = int((scores > -np.inf).sum())
    if n_allowed == 0:
        return Enumeration(length, n_labels, scores, best, 0, -np.inf, None, None)
    # Relative to the best path nothing overflows. A term that underflows is below 1e-300 of Z.
    weights = np.exp(scores - best)
    mass = weights.sum()
    log_mass = np.log(mass)
    probabilities = weights / mass
    seen = probabilities > 0  # 0 log 0 = 0
    surprise = log_mass - (scores[seen] - best)
    entropy = float(probabilities[seen] @ surprise)
    log_partition = float(best + log_mass)
    return Enumeration(
        length, n_labels, scores, best, n_allowed, log_partition, probabilities, entropy
    )
