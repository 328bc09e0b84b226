"""Joint features φ(x, y) of a sample and a candidate, and their loss.

    p(y | x) = exp(w · φ(x, y)) / Σ_{y' ∈ 𝒴(x)} exp(w · φ(x, y'))

The candidates 𝒴(x) are the classes, or a set that differs from sample to sample. All candidates of
all samples are rows of one matrix: those of sample i are rows ``begin[i]`` to ``begin[i + 1]``.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from numbers import Real
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from trellis.checks import MAX_SCORE
from trellis.errors import InputError
from trellis.features.vectorizer import ReadyFeatures
from trellis.models.regression.base import Matrix, Problem, weighted_gram
from trellis.optim.result import Vector

__all__ = [
    "CandidateFeatures",
    "Candidates",
    "candidate_problem",
    "check_candidates",
    "check_samples",
    "find_right",
    "offsets_of",
]

Candidates = Sequence[Sequence[Any]]
"""The candidates of each sample."""


class CandidateFeatures:
    """φ(x, y) of each sample and candidate, as rows ``(candidates, features)``."""

    def __init__(self, features: Callable[[Any, Any], Any]) -> None:
        self._features = features
        # Maps names of features to columns; None if φ returns vectors.
        self._table: ReadyFeatures | None = None
        self._columns = 0  # the length of φ(x, y), if φ returns vectors

    def learn(self, samples: Any, candidates: Candidates) -> Matrix:
        """Learn the columns from the training samples, and return the rows of these samples."""
        values = self._compute_features(samples, candidates)
        if _is_vector(values[0][0]):
            self._columns = len(values[0][0])
            return self._stack_vectors(values, candidates)
        self._table = ReadyFeatures()
        return self._build_sparse(self._table.learn(values))

    def find(self, samples: Any, candidates: Candidates) -> Matrix:
        """Return the rows of new samples; unknown features are ignored."""
        values = self._compute_features(samples, candidates)
        if self._table is None:
            return self._stack_vectors(values, candidates)
        return self._build_sparse(self._table.find(values))

    def score(
        self, samples: Any, candidates: Any, w: Vector
    ) -> tuple[Candidates, list[NDArray[np.float64]]]:
        """Return the candidates of each sample, and their scores w · φ(x, y)."""
        candidates = check_candidates(candidates, len(samples))
        scores: NDArray[np.float64] = self.find(samples, candidates) @ w
        begin = offsets_of(candidates)
        invalid = np.flatnonzero(~(np.abs(scores) <= MAX_SCORE))
        if len(invalid):
            i = int(np.searchsorted(begin, invalid[0], side="right")) - 1
            label = candidates[i][int(invalid[0] - begin[i])]
            raise InputError(
                f"scores of sample {i} overflow: the score of candidate {label!r:.60} is "
                f"{scores[invalid[0]]}, but scores must be within ±{MAX_SCORE:g}"
            )
        return candidates, np.split(scores, begin[1:-1])

    def names(self) -> list[str]:
        """Return the names of the features. The names of vector entries are their indices."""
        return list(map(str, range(self._columns))) if self._table is None else self._table.names()

    def _compute_features(self, samples: Any, candidates: Candidates) -> list[list[Any]]:
        """Return φ(x, y) for every sample and every candidate."""
        return [
            [self._features(x, y) for y in labels]
            for x, labels in zip(samples, candidates, strict=True)
        ]

    def _build_sparse(self, batch: Any) -> Matrix:
        rows, n_columns = batch.rows, len(cast(ReadyFeatures, self._table))
        if n_columns == 0:
            raise InputError("features returned no feature for any sample and label")
        values = np.ones(len(rows.id)) if rows.value is None else rows.value
        return sparse.csr_matrix((values, rows.id, rows.begin), shape=(len(rows), n_columns))

    def _stack_vectors(self, vectors: list[list[Any]], candidates: Candidates) -> Matrix:
        """Return vectors as rows. Raise InputError if one has a wrong length or is not finite."""
        for i, (sample_vectors, labels) in enumerate(zip(vectors, candidates, strict=True)):
            for y, vector in zip(labels, sample_vectors, strict=True):
                if np.shape(vector) != (self._columns,) or not np.isfinite(vector).all():
                    raise InputError(
                        f"features of sample {i} with label {y!r} must be {self._columns} finite "
                        f"numbers, not {vector!r}"
                    )
        return np.array(list(chain(*vectors)), dtype=np.float64).reshape(-1, self._columns)


def _is_vector(value: Any) -> bool:
    """Return True if φ(x, y) is a vector, and not a dict or a list of names."""
    return isinstance(value, np.ndarray) or (
        isinstance(value, list | tuple) and len(value) > 0 and isinstance(value[0], Real)
    )


def check_samples(X: Any) -> Any:
    """Return X. Raise InputError unless it is a list of at least one sample."""
    if isinstance(X, str) or not hasattr(X, "__len__"):
        raise InputError(f"X must be a list of samples, not {type(X).__name__}")
    if len(X) == 0:
        raise InputError("X is empty: at least one sample is needed")
    return X


def check_candidates(candidates: Any, count: int) -> Candidates:
    """Return the candidates of each of ``count`` samples as lists; raise if one has none."""
    if isinstance(candidates, str) or not hasattr(candidates, "__len__"):
        raise InputError(
            "candidates must be a list with the candidates of each sample, "
            f"not {type(candidates).__name__}"
        )
    if len(candidates) != count:
        raise InputError(f"X has {count} samples, candidates has {len(candidates)} lists")
    for i, labels in enumerate(candidates):
        if isinstance(labels, str | dict | set) or not hasattr(labels, "__len__"):
            raise InputError(
                f"candidates of sample {i} must be a list, not {type(labels).__name__}"
            )
        if len(labels) == 0:
            raise InputError(f"sample {i} has no candidates: at least one is needed")
    return [list(labels) for labels in candidates]


def find_right(y: Any, candidates: Candidates) -> NDArray[np.int64]:
    """Return the row of the label of each sample, ``(n,)``; raise if it is not a candidate."""
    begin = offsets_of(candidates)
    right = begin[:-1].copy()
    for i, (label, labels) in enumerate(zip(y, candidates, strict=True)):
        matches = [n for n, candidate in enumerate(labels) if candidate == label]
        if len(matches) != 1:
            problem = "is not among its candidates" if not matches else "is a candidate twice"
            raise InputError(f"the label {label!r:.60} of sample {i} {problem}")
        right[i] += matches[0]
    return right


def offsets_of(candidates: Candidates) -> NDArray[np.int64]:
    """Return the first row of each sample, then the number of rows: ``(n + 1,)``.

    >>> offsets_of([["a", "b"], ["c"]]).tolist()
    [0, 2, 3]
    """
    return np.cumsum([0, *map(len, candidates)], dtype=np.int64)


def candidate_problem(
    rows: Matrix, begin: NDArray[np.int64], right: NDArray[np.int64], weights: Vector, l2: float
) -> Problem:
    """-Σᵢ vᵢ log p(yᵢ | xᵢ) + (l2/2) ‖w‖² for any φ(x, y).

    ∇ = Σᵢ vᵢ (E[φ(xᵢ, y)] - φ(xᵢ, yᵢ)) + l2 w. ``weights`` are the vᵢ, and ``right`` ``(n,)`` are
    the indices of the rows φ(xᵢ, yᵢ).
    """
    first, counts = begin[:-1], np.diff(begin)
    row_weights = np.repeat(weights, counts)

    def log_p(w: Vector) -> Vector:
        """Return log p of each row."""
        scores = rows @ w
        scores -= np.repeat(np.maximum.reduceat(scores, first), counts)
        log_z = np.log(np.add.reduceat(np.exp(scores), first))
        normalised: Vector = scores - np.repeat(log_z, counts)
        return normalised

    def objective(w: Vector, gradient: Vector) -> float:
        log_probabilities = log_p(w)
        residual = row_weights * np.exp(log_probabilities)
        residual[right] -= weights
        gradient[:] = rows.T @ residual + l2 * w
        return float(0.5 * l2 * (w @ w) - weights @ log_probabilities[right])

    def hessian(w: Vector) -> NDArray[np.float64]:
        p = np.exp(log_p(w))
        second_moment = weighted_gram(rows, row_weights * p, False)
        # Row i of expectation @ rows is E[φ(xᵢ, y)]: the rows of sample i, weighted by p.
        expectation = sparse.csr_matrix((p, np.arange(len(p)), begin))
        matrix = second_moment - weighted_gram(expectation @ rows, weights, False)
        matrix[np.diag_indices(len(w))] += l2
        return matrix

    def margins(w: Vector) -> Vector:
        scores = rows @ w
        right_scores, scores[right] = scores[right], -np.inf
        margin: Vector = right_scores - np.maximum.reduceat(scores, first)
        return margin[weights > 0.0]

    return Problem(objective, hessian, np.ones(rows.shape[1], dtype=bool), margins)
