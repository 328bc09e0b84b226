"""Softmax regression: one of several labels, by features of x or of x and the label together.

    p(y | x) = exp(w · φ(x, y)) / Σ_y' exp(w · φ(x, y'))

With φ(x, y) = x at the place of y, and zeros elsewhere, this is multinomial logistic regression.
"""

from collections.abc import Callable
from numbers import Real
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, column_or_1d

from trellis.checks import number_at_least
from trellis.errors import InputError
from trellis.features.vectorizer import ReadyFeatures
from trellis.formats.parts import Parts
from trellis.models.regression.base import (
    Matrix,
    Problem,
    Regression,
    checked_weights,
    log_sum_exp,
    weighted_gram,
)
from trellis.optim.result import Vector

__all__ = ["SoftmaxRegression"]


class SoftmaxRegression(Regression):
    """p(y|x) ∝ exp(w_y · x + b_y), or ∝ exp(w · φ(x, y)) with ``features=φ``.

    ``l2``, ``l1``
        strengths of the penalties (l2/2) ‖w‖² and l1 ‖w‖₁; the intercepts b have none.
    ``solver``
        "lbfgs" (OWL-QN with l1 > 0), "newton" (for few weights) or "gradient" (plain ascent).
    ``fit_intercept``
        whether there are b; with ``features`` there are none, as φ can hold them.
    ``max_iter``, ``tol``
        the solver stops when ‖gradient‖ ≤ tol · max(1, ‖w‖).
    ``features``
        None, or a function φ(x, y) that returns a dict, a list of names or a vector for a sample
        and a candidate label. X is then a list of anything.
    ``n_jobs``
        threads of the optimiser; results do not depend on it.

    Attributes are those of scikit-learn's LogisticRegression, but ``coef_`` has one row a class
    also when there are two of them; and ``objective_``, the loss that was reached, with its
    penalties. With ``features``, ``coef_`` is ``(features,)``, named by ``feature_names_``.
    X is dense or a sparse matrix.

    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]]), ["a", "b", "c"]
    >>> SoftmaxRegression().fit(X, y).predict(X).tolist()
    ['a', 'b', 'c']
    >>> ends = SoftmaxRegression(features=lambda word, tag: [f"{word[-2:]}/{tag}", tag])
    >>> ends.fit(["walking", "seen", "going", "been"], ["VBG", "VBN", "VBG", "VBN"])
    ... # doctest: +ELLIPSIS
    SoftmaxRegression(...)
    >>> ends.predict(["running"]).tolist()
    ['VBG']
    """

    kind = "softmax"

    def __init__(
        self,
        *,
        l2: float = 1.0,
        l1: float = 0.0,
        solver: str = "lbfgs",
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float = 1e-6,
        features: Callable[[Any, Any], Any] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.l2 = l2
        self.l1 = l1
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.features = features
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from samples X ``(n, features)``, or anything with ``features``, and labels."""
        l2 = number_at_least(self.l2, 0.0, "l2")
        if self.features is not None:
            return self._fit_joint(X, y, sample_weight, l2)
        X, numbers, weights = self._checked_data(X, y, sample_weight)
        k, d = len(self.classes_), X.shape[1]
        intercept = bool(self.fit_intercept)
        w = self._solve(softmax_problem(X, _one_hot(numbers, k), weights, l2, intercept))
        table = w.reshape(k, d + intercept)
        self.coef_ = table[:, :d].copy()
        self.intercept_ = table[:, d].copy() if intercept else np.zeros(k)
        return self

    def _fit_joint(self, X: Any, y: Any, sample_weight: Any, l2: float) -> Self:
        if not callable(self.features):
            raise InputError(f"features must be a function of (x, y), not {self.features!r}")
        samples = _samples(X)
        labels = column_or_1d(y)
        if len(labels) != len(samples):
            raise InputError(f"X has {len(samples)} samples, y has {len(labels)} labels")
        numbers = self._checked_classes(labels)
        weights = checked_weights(sample_weight, labels)
        self._joint = _JointFeatures(self.features, self.classes_.tolist())
        rows = self._joint.learn(samples)
        k = len(self.classes_)
        self.coef_ = self._solve(joint_problem(rows, _one_hot(numbers, k), weights, l2))
        self.intercept_ = np.zeros(k)
        self.n_features_in_ = rows.shape[1]
        self.feature_names_ = self._joint.names()
        return self

    def to_parts(self) -> Parts:
        """Return the metadata and the tensors of the fitted model."""
        parts = super().to_parts()
        if self.features is not None:
            raise InputError("a model with joint features cannot be saved: features is a function")
        return parts

    @staticmethod
    def _coef_rows(classes: int) -> int:
        return classes

    def _scores(self, X: Any) -> NDArray[np.float64]:
        if self.features is None:
            return cast(NDArray[np.float64], self._checked_rows(X) @ self.coef_.T + self.intercept_)
        check_is_fitted(self)
        scores: NDArray[np.float64] = self._joint.find(_samples(X)) @ self.coef_
        return scores.reshape(-1, len(self.classes_))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.features is None
        tags.input_tags.two_d_array = self.features is None
        return tags


class _JointFeatures:
    """φ(x, y) for every candidate y: rows ``(n · classes, features)``, a sample's together."""

    def __init__(self, features: Callable[[Any, Any], Any], labels: list[Any]) -> None:
        self._features, self._labels = features, labels
        self._table: ReadyFeatures | None = None
        self._columns = 0

    def learn(self, samples: Any) -> Matrix:
        """The rows of the training samples, which say what features there are."""
        made = self._make(samples)
        if _is_vector(made[0][0]):
            self._columns = len(made[0][0])
            return self._stack(made)
        self._table = ReadyFeatures()
        return self._sparse(self._table.learn(made))

    def find(self, samples: Any) -> Matrix:
        """The rows of other samples: features that were not learnt are left out."""
        made = self._make(samples)
        return self._stack(made) if self._table is None else self._sparse(self._table.find(made))

    def names(self) -> list[str]:
        """What each feature is called: vectors have numbers only."""
        return list(map(str, range(self._columns))) if self._table is None else self._table.names()

    def _make(self, samples: Any) -> list[list[Any]]:
        return [[self._features(x, y) for y in self._labels] for x in samples]

    def _sparse(self, batch: Any) -> Matrix:
        rows, columns = batch.rows, len(cast(ReadyFeatures, self._table))
        if columns == 0:
            raise InputError("features gave no feature for any sample and label")
        value = np.ones(len(rows.id)) if rows.value is None else rows.value
        return sparse.csr_matrix((value, rows.id, rows.begin), shape=(len(rows), columns))

    def _stack(self, made: list[list[Any]]) -> Matrix:
        for i, candidates in enumerate(made):
            for y, vector in zip(self._labels, candidates, strict=True):
                if np.shape(vector) != (self._columns,) or not np.isfinite(vector).all():
                    raise InputError(
                        f"features of sample {i} with label {y!r} must be {self._columns} finite "
                        f"numbers, not {vector!r}"
                    )
        return np.array(made, dtype=np.float64).reshape(-1, self._columns)


def _is_vector(made: Any) -> bool:
    return isinstance(made, np.ndarray) or (
        isinstance(made, list | tuple) and len(made) > 0 and isinstance(made[0], Real)
    )


def _samples(X: Any) -> Any:
    if isinstance(X, str) or not hasattr(X, "__len__"):
        raise InputError(f"X must be a list of samples, not {type(X).__name__}")
    if len(X) == 0:
        raise InputError("X has no samples")
    return X


def _one_hot(numbers: Any, k: int) -> NDArray[np.bool_]:
    return cast(NDArray[np.bool_], numbers[:, None] == np.arange(k))


def _loss_of_scores(
    scores: NDArray[np.float64], onehot: NDArray[np.bool_], weights: Vector
) -> tuple[float, NDArray[np.float64]]:
    """-Σᵢ vᵢ log p(yᵢ | xᵢ), and its derivative by the scores, v (p - y)."""
    log_z = log_sum_exp(scores)
    rest = np.exp(scores - log_z[:, None])
    rest -= onehot
    rest *= weights[:, None]
    return float(weights @ (log_z - scores[onehot])), rest


def softmax_problem(
    X: Matrix, onehot: NDArray[np.bool_], weights: Vector, l2: float, intercept: bool
) -> Problem:
    """-Σᵢ vᵢ log p(yᵢ | xᵢ) + (l2/2) ‖w‖², with ∇_y = Xᵀ v (p_y - [yᵢ = y]).

    The weights are w_y, then b_y, for each label y.
    """
    k, d = onehot.shape[1], X.shape[1]
    penalised = np.tile(np.arange(d + intercept) < d, k)

    def scores(w: Vector) -> Any:
        table = w.reshape(k, d + intercept)
        product = X @ table[:, :d].T
        return product + table[:, d] if intercept else product

    def objective(w: Vector, gradient: Vector) -> float:
        loss, rest = _loss_of_scores(scores(w), onehot, weights)
        table = gradient.reshape(k, d + intercept)
        table[:, :d] = (X.T @ rest).T
        if intercept:
            table[:, d] = rest.sum(axis=0)
        kept = np.where(penalised, w, 0.0)
        gradient += l2 * kept
        return loss + 0.5 * l2 * float(kept @ kept)

    def hessian(w: Vector) -> NDArray[np.float64]:
        made = scores(w)
        p = np.exp(made - log_sum_exp(made)[:, None])
        size = d + intercept
        matrix = np.empty((k, size, k, size))
        for a in range(k):
            for b in range(a + 1):
                curvature = weights * p[:, a] * ((a == b) - p[:, b])
                matrix[a, :, b] = matrix[b, :, a] = weighted_gram(X, curvature, intercept)
        square = matrix.reshape(k * size, k * size)
        square[np.diag_indices(k * size)] += l2 * penalised
        return square

    return Problem(objective, hessian, penalised)


def joint_problem(rows: Matrix, onehot: NDArray[np.bool_], weights: Vector, l2: float) -> Problem:
    """The same for any φ(x, y): ∇ = Σᵢ vᵢ (E[φ(xᵢ, y)] - φ(xᵢ, yᵢ)) + l2 w."""
    n, k = onehot.shape

    def objective(w: Vector, gradient: Vector) -> float:
        loss, rest = _loss_of_scores((rows @ w).reshape(n, k), onehot, weights)
        gradient[:] = rows.T @ rest.ravel() + l2 * w
        return loss + 0.5 * l2 * float(w @ w)

    def hessian(w: Vector) -> NDArray[np.float64]:
        scores = (rows @ w).reshape(n, k)
        p = np.exp(scores - log_sum_exp(scores)[:, None])
        second = weighted_gram(rows, (weights[:, None] * p).ravel(), False)
        # E[φ] of each sample: sums of its k rows, weighted by p
        pick = sparse.csr_matrix((p.ravel(), np.arange(n * k), np.arange(0, n * k + 1, k)))
        matrix = second - weighted_gram(pick @ rows, weights, False)
        matrix[np.diag_indices(len(w))] += l2
        return matrix

    return Problem(objective, hessian, np.ones(rows.shape[1], dtype=bool))
