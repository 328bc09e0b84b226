"""Softmax regression: several classes, with features of x or joint features of x and the class.

    p(y | x) = exp(w · φ(x, y)) / Σ_y' exp(w · φ(x, y'))

If φ(x, y) is x at the weights of y and 0 elsewhere, this is multinomial logistic regression.
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
    log_sum_exp,
    sample_weights,
    weighted_gram,
)
from trellis.optim.result import Vector

__all__ = ["SoftmaxRegression"]


class SoftmaxRegression(Regression):
    """p(y|x) ∝ exp(w_y · x + b_y), or ∝ exp(w · φ(x, y)) with ``features=φ``.

    ``l2``, ``l1``
        Strengths of the penalties (l2/2) ‖w‖² and l1 ‖w‖₁. The intercepts b are not penalised.
    ``solver``
        "lbfgs" (OWL-QN with l1 > 0), "newton" (for few weights) or "gradient" (plain gradient
        ascent).
    ``fit_intercept``
        Whether to fit b. With ``features`` there is no b, because φ can contain a constant.
    ``max_iter``, ``tol``
        The solver stops when ‖gradient‖ ≤ tol · max(1, ‖w‖), or after max_iter iterations.
    ``features``
        None, or a function φ(x, y) of a sample and a candidate label. It returns a dict, a list of
        names or a vector. X is then a list of arbitrary objects.
    ``n_jobs``
        Number of threads of the optimiser. Results do not depend on it.

    The attributes have the same names as in scikit-learn's LogisticRegression. In addition,
    ``objective_`` is the final loss with its penalties. ``coef_`` has one row for each class, also
    if there are two classes. With
    ``features``, ``coef_`` is ``(features,)``, and ``feature_names_`` has their names. X is a dense
    array or a sparse matrix.

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
        """Learn from samples X ``(n, features)`` and labels y ``(n,)``.

        With ``features``, X is a list of n arbitrary objects.
        """
        l2 = number_at_least(self.l2, 0.0, "l2")
        if self.features is not None:
            return self._fit_joint(X, y, sample_weight, l2)
        X, numbers, weights = self._check_data(X, y, sample_weight)
        k, d = len(self.classes_), X.shape[1]
        intercept = bool(self.fit_intercept)
        w = self._solve(softmax_problem(X, _one_hot(numbers, k), weights, l2, intercept))
        table = w.reshape(k, d + intercept)
        self.coef_ = table[:, :d].copy()
        self.intercept_ = table[:, d].copy() if intercept else np.zeros(k)
        return self

    def _fit_joint(self, X: Any, y: Any, sample_weight: Any, l2: float) -> Self:
        """Fit a model with the function ``features``."""
        if not callable(self.features):
            raise InputError(f"features must be a function of (x, y), not {self.features!r}")
        samples = _check_samples(X)
        labels = column_or_1d(y)
        if len(labels) != len(samples):
            raise InputError(f"X has {len(samples)} samples, y has {len(labels)} labels")
        numbers = self._check_classes(labels)
        weights = sample_weights(sample_weight, labels)
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
            raise InputError(
                "a model with features=φ cannot be saved: a file cannot contain a function"
            )
        return parts

    @staticmethod
    def _coef_rows(classes: int) -> int:
        return classes

    def _scores(self, X: Any) -> NDArray[np.float64]:
        if self.features is None:
            return cast(NDArray[np.float64], self._check_rows(X) @ self.coef_.T + self.intercept_)
        check_is_fitted(self)
        scores: NDArray[np.float64] = self._joint.find(_check_samples(X)) @ self.coef_
        return scores.reshape(-1, len(self.classes_))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.features is None
        tags.input_tags.two_d_array = self.features is None
        return tags


class _JointFeatures:
    """φ(x, y) of each sample and class, as rows ``(n · classes, features)``, sorted by sample."""

    def __init__(self, features: Callable[[Any, Any], Any], labels: list[Any]) -> None:
        self._features, self._labels = features, labels
        self._table: ReadyFeatures | None = (
            None  # maps names of features to columns; None if φ returns vectors
        )
        self._columns = 0  # the length of φ(x, y), if φ returns vectors

    def learn(self, samples: Any) -> Matrix:
        """Learn the columns from the training samples, and return the rows of these samples."""
        values = self._compute(samples)
        if _is_vector(values[0][0]):
            self._columns = len(values[0][0])
            return self._stack_vectors(values)
        self._table = ReadyFeatures()
        return self._build_sparse(self._table.learn(values))

    def find(self, samples: Any) -> Matrix:
        """Return the rows of new samples; unknown features are ignored."""
        values = self._compute(samples)
        if self._table is None:
            return self._stack_vectors(values)
        return self._build_sparse(self._table.find(values))

    def names(self) -> list[str]:
        """Return the names of the features. The names of vector entries are their indices."""
        return list(map(str, range(self._columns))) if self._table is None else self._table.names()

    def _compute(self, samples: Any) -> list[list[Any]]:
        """Return φ(x, y) for every sample and every label."""
        return [[self._features(x, y) for y in self._labels] for x in samples]

    def _build_sparse(self, batch: Any) -> Matrix:
        rows, columns = batch.rows, len(cast(ReadyFeatures, self._table))
        if columns == 0:
            raise InputError("features returned no feature for any sample and label")
        value = np.ones(len(rows.id)) if rows.value is None else rows.value
        return sparse.csr_matrix((value, rows.id, rows.begin), shape=(len(rows), columns))

    def _stack_vectors(self, vectors: list[list[Any]]) -> Matrix:
        """Return vectors as rows. Raise InputError if one has a wrong length or is not finite."""
        for i, candidates in enumerate(vectors):
            for y, vector in zip(self._labels, candidates, strict=True):
                if np.shape(vector) != (self._columns,) or not np.isfinite(vector).all():
                    raise InputError(
                        f"features of sample {i} with label {y!r} must be {self._columns} finite "
                        f"numbers, not {vector!r}"
                    )
        return np.array(vectors, dtype=np.float64).reshape(-1, self._columns)


def _is_vector(value: Any) -> bool:
    """Return True if φ(x, y) is a vector, and not a dict or a list of names."""
    return isinstance(value, np.ndarray) or (
        isinstance(value, list | tuple) and len(value) > 0 and isinstance(value[0], Real)
    )


def _check_samples(X: Any) -> Any:
    """Return X. Raise InputError unless it is a list of at least one sample."""
    if isinstance(X, str) or not hasattr(X, "__len__"):
        raise InputError(f"X must be a list of samples, not {type(X).__name__}")
    if len(X) == 0:
        raise InputError("X is empty: at least one sample is needed")
    return X


def _one_hot(numbers: Any, k: int) -> NDArray[np.bool_]:
    """Return True at the class of each sample, ``(n, k)``."""
    return cast(NDArray[np.bool_], numbers[:, None] == np.arange(k))


def _loss_of_scores(
    scores: NDArray[np.float64], onehot: NDArray[np.bool_], weights: Vector
) -> tuple[float, NDArray[np.float64]]:
    """Return -Σᵢ vᵢ log p(yᵢ | xᵢ), and its derivative by the scores: v (p - y), ``(n, k)``."""
    log_z = log_sum_exp(scores)
    residual = np.exp(scores - log_z[:, None])
    residual -= onehot
    residual *= weights[:, None]
    return float(weights @ (log_z - scores[onehot])), residual


def softmax_problem(
    X: Matrix, onehot: NDArray[np.bool_], weights: Vector, l2: float, intercept: bool
) -> Problem:
    """-Σᵢ vᵢ log p(yᵢ | xᵢ) + (l2/2) ‖w‖², with ∇_y = Xᵀ v (p_y - [yᵢ = y]).

    The weight vector contains (w_y, b_y) for each class y.
    """
    k, d = onehot.shape[1], X.shape[1]
    penalised = np.tile(np.arange(d + intercept) < d, k)

    def scores(w: Vector) -> Any:
        table = w.reshape(k, d + intercept)
        product = X @ table[:, :d].T
        return product + table[:, d] if intercept else product

    def objective(w: Vector, gradient: Vector) -> float:
        loss, residual = _loss_of_scores(scores(w), onehot, weights)
        table = gradient.reshape(k, d + intercept)
        table[:, :d] = (X.T @ residual).T
        if intercept:
            table[:, d] = residual.sum(axis=0)
        without_intercepts = np.where(penalised, w, 0.0)
        gradient += l2 * without_intercepts
        return loss + 0.5 * l2 * float(without_intercepts @ without_intercepts)

    def hessian(w: Vector) -> NDArray[np.float64]:
        log_p = scores(w)
        p = np.exp(log_p - log_sum_exp(log_p)[:, None])
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
    """-Σᵢ vᵢ log p(yᵢ | xᵢ) + (l2/2) ‖w‖² for any φ(x, y).

    ∇ = Σᵢ vᵢ (E[φ(xᵢ, y)] - φ(xᵢ, yᵢ)) + l2 w.
    """
    n, k = onehot.shape

    def objective(w: Vector, gradient: Vector) -> float:
        loss, residual = _loss_of_scores((rows @ w).reshape(n, k), onehot, weights)
        gradient[:] = rows.T @ residual.ravel() + l2 * w
        return loss + 0.5 * l2 * float(w @ w)

    def hessian(w: Vector) -> NDArray[np.float64]:
        scores = (rows @ w).reshape(n, k)
        p = np.exp(scores - log_sum_exp(scores)[:, None])
        second_moment = weighted_gram(rows, (weights[:, None] * p).ravel(), False)
        # Row i of expectation @ rows is E[φ(xᵢ, y)]: the k rows of sample i, weighted by p.
        expectation = sparse.csr_matrix((p.ravel(), np.arange(n * k), np.arange(0, n * k + 1, k)))
        matrix = second_moment - weighted_gram(expectation @ rows, weights, False)
        matrix[np.diag_indices(len(w))] += l2
        return matrix

    return Problem(objective, hessian, np.ones(rows.shape[1], dtype=bool))
