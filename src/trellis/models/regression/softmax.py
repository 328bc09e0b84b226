"""Softmax regression: several classes, with features of x or joint features of x and the class.

    p(y | x) = exp(w · φ(x, y)) / Σ_y' exp(w · φ(x, y'))

If each class y has its own weights, and φ(x, y) is x at these weights and 0 elsewhere, this is
multinomial logistic regression.
"""

from collections.abc import Callable
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, column_or_1d

from trellis.checks import number_at_least
from trellis.errors import InputError
from trellis.estimator import names_arguments
from trellis.formats.native import Tensors
from trellis.formats.parts import Parts
from trellis.models.regression.base import (
    Matrix,
    Problem,
    Regression,
    log_sum_exp,
    sample_weights,
    weighted_gram,
)
from trellis.models.regression.joint import (
    CandidateFeatures,
    Candidates,
    candidate_problem,
    check_candidates,
    check_samples,
    find_right,
    offsets_of,
)
from trellis.optim.gradient import StepSize
from trellis.optim.result import Callback, Vector

__all__ = ["SoftmaxRegression"]


class SoftmaxRegression(Regression):
    """p(y|x) ∝ exp(w_y · x + b_y), or ∝ exp(w · φ(x, y)) with ``features=φ``.

    ``l2``, ``l1``
        Strengths of the penalties (l2/2) ‖w‖² and l1 ‖w‖₁. The intercepts b are not penalised.
    ``solver``
        "lbfgs" (OWL-QN with l1 > 0), "newton" (for few weights) or "gradient" (plain gradient
        ascent).
    ``step``
        The step size of the solver "gradient": a number, or a schedule, a function of the number
        of the iteration (from 1). None: each step is chosen by a line search.
    ``reference``
        A class whose weights stay 0, as in the usual parametrisation of statistics:
        log p(y|x) / p(reference|x) = w_y · x + b_y. With None, all classes have weights.
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
    if there are two classes, and ``losses_`` has the (iteration, loss) of each iteration. With
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

    Candidates may differ from sample to sample, as in re-ranking or entity linking:

    >>> link = SoftmaxRegression(features=lambda mention, entity: {"same": mention == entity})
    >>> link = link.fit(["Ann"], ["Ann"], candidates=[["Ann", "Anne", "Anna"]])
    >>> link.predict(["Bob"], candidates=[["Rob", "Bob"]])
    ['Bob']
    """

    kind = "softmax"

    @names_arguments
    def __init__(
        self,
        *,
        l2: float = 1.0,
        l1: float = 0.0,
        solver: str = "lbfgs",
        step: StepSize | None = None,
        reference: Any = None,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float = 1e-6,
        features: Callable[[Any, Any], Any] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.l2 = l2
        self.l1 = l1
        self.solver = solver
        self.step = step
        self.reference = reference
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.features = features
        self.n_jobs = n_jobs

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        candidates: Any = None,
        *,
        callback: Callback | None = None,
    ) -> Self:
        """Learn from samples X ``(n, features)`` and labels y ``(n,)``.

        With ``features``, X is a list of n arbitrary objects. ``candidates`` then may have, for
        each sample, the list of its candidates 𝒴(x). They may be any objects, and p(y | x) is
        normalised over them. Without ``candidates``, all labels in y are candidates of every
        sample.
        ``callback`` is called after each iteration; a truthy return value stops training.
        """
        l2 = number_at_least(self.l2, 0.0, "l2")
        if self.features is not None:
            return self._fit_joint(X, y, sample_weight, candidates, l2, callback)
        if candidates is not None:
            raise InputError("candidates need features=φ, a function of a sample and a candidate")
        X, class_indices, weights = self._check_data(X, y, sample_weight)
        k, d = len(self.classes_), X.shape[1]
        intercept = bool(self.fit_intercept)
        problem = softmax_problem(X, _one_hot(class_indices, k), weights, l2, intercept)
        free = np.ones((k, d + intercept), dtype=bool)
        if self.reference is not None:
            free[check_reference(self.reference, self.classes_.tolist())] = False
            problem = _with_fixed_zeros(problem, free.ravel())
        table = np.zeros((k, d + intercept))
        table[free] = self._solve(problem, callback)
        self.coef_ = table[:, :d].copy()
        self.intercept_ = table[:, d].copy() if intercept else np.zeros(k)
        return self

    def _fit_joint(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        candidates: Any,
        l2: float,
        callback: Callback | None,
    ) -> Self:
        """Fit a model with the function ``features``."""
        if self.reference is not None:
            raise InputError("reference cannot be combined with features=φ: φ has no class weights")
        if not callable(self.features):
            raise InputError(f"features must be a function of (x, y), not {self.features!r}")
        samples = check_samples(X)
        labels = y if candidates is not None and hasattr(y, "__len__") else column_or_1d(y)
        if len(labels) != len(samples):
            raise InputError(f"X has {len(samples)} samples, y has {len(labels)} labels")
        weights = sample_weights(sample_weight, np.arange(len(samples)))
        if candidates is None:
            class_indices = self._encode_classes(labels)
            candidates = [self.classes_.tolist()] * len(samples)
            right = offsets_of(candidates)[:-1] + class_indices
        else:
            candidates = check_candidates(candidates, len(samples))
            right = find_right(labels, candidates)
            self.__dict__.pop("classes_", None)  # the classes of an earlier fit
        self._joint = CandidateFeatures(self.features)
        rows = self._joint.learn(samples, candidates)
        problem = candidate_problem(rows, offsets_of(candidates), right, weights, l2)
        self.coef_ = self._solve(problem, callback)
        self.intercept_ = np.zeros(len(getattr(self, "classes_", ())))
        self.n_features_in_ = rows.shape[1]
        self.feature_names_ = self._joint.names()
        return self

    # ---- prediction

    def predict(self, X: Any, candidates: Any = None) -> Any:
        """argmax_y p(y | x), ``(n,)``; with ``candidates``, a list of the best candidates.

        The first one is returned if several have the same probability.
        """
        if candidates is None:
            self._check_classes_known()
            return super().predict(X)
        candidates, scores = self._score_candidates(X, candidates)
        return [labels[row.argmax()] for labels, row in zip(candidates, scores, strict=True)]

    def predict_log_proba(self, X: Any, candidates: Any = None) -> Any:
        """log p(y | x), ``(n, classes)``; with ``candidates``, a list with one array per sample."""
        if candidates is None:
            self._check_classes_known()
            return super().predict_log_proba(X)
        log_p = []
        for row in self._score_candidates(X, candidates)[1]:
            shifted = row - row.max()
            log_p.append(shifted - log_sum_exp(shifted[None])[0])
        return log_p

    def predict_proba(self, X: Any, candidates: Any = None) -> Any:
        """p(y | x), ``(n, classes)``; with ``candidates``, a list with one array per sample."""
        if candidates is None:
            self._check_classes_known()
            return super().predict_proba(X)
        return [np.exp(log_p) for log_p in self.predict_log_proba(X, candidates)]

    def decision_function(self, X: Any, candidates: Any = None) -> Any:
        """w · φ(x, y), ``(n, classes)``; with ``candidates``, a list with one array per sample.

        Without ``candidates`` and for two classes, it is the score of the second class minus that
        of the first, ``(n,)``.
        """
        if candidates is None:
            self._check_classes_known()
            return super().decision_function(X)
        return self._score_candidates(X, candidates)[1]

    def score(self, X: Any, y: Any, sample_weight: Any = None, candidates: Any = None) -> float:
        """Return the fraction of samples whose label is predicted."""
        if candidates is None:
            self._check_classes_known()
            return float(super().score(X, y, sample_weight))
        predicted = self.predict(X, candidates)
        if len(y) != len(predicted):
            raise InputError(f"X has {len(predicted)} samples, y has {len(y)} labels")
        is_right = [bool(label == true) for label, true in zip(predicted, y, strict=True)]
        weights = sample_weights(sample_weight, np.arange(len(predicted)))
        return float(np.average(is_right, weights=weights))

    def _check_classes_known(self) -> None:
        """Raise InputError if the model was trained with candidates, so that it has no classes."""
        check_is_fitted(self)
        if not hasattr(self, "classes_"):
            raise InputError(
                "the model was trained with candidates: pass the candidates of each sample"
            )

    def _score_candidates(
        self, X: Any, candidates: Any
    ) -> tuple[Candidates, list[NDArray[np.float64]]]:
        """Return the candidates of each sample, and their scores."""
        check_is_fitted(self)
        if self.features is None:
            raise InputError("candidates need features=φ, a function of a sample and a candidate")
        return self._joint.score(check_samples(X), candidates, self.coef_)

    def to_parts(self) -> Parts:
        """Return the metadata and the tensors of the fitted model."""
        parts = super().to_parts()
        if self.features is not None:
            raise InputError(
                "a model with features=φ cannot be saved: a file cannot contain a function"
            )
        return parts

    @classmethod
    def from_parts(cls, meta: dict[str, Any], tensors: Tensors) -> Self:
        """Return the model with these parts; raise InputError if a part is missing or invalid."""
        model = super().from_parts(meta, tensors)
        if model.reference is not None:
            check_reference(model.reference, model.classes_.tolist())
        return model

    @staticmethod
    def _coef_rows(classes: int) -> int:
        if classes < 2:
            raise InputError("classes has one label: a SoftmaxRegression needs two or more")
        return classes

    def _scores(self, X: Any) -> NDArray[np.float64]:
        if self.features is None:
            return cast(NDArray[np.float64], self._check_rows(X) @ self.coef_.T + self.intercept_)
        check_is_fitted(self)
        samples = check_samples(X)
        candidates = [self.classes_.tolist()] * len(samples)
        scores: NDArray[np.float64] = self._joint.find(samples, candidates) @ self.coef_
        return scores.reshape(-1, len(self.classes_))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.features is None
        tags.input_tags.two_d_array = self.features is None
        return tags


def _one_hot(class_indices: Any, k: int) -> NDArray[np.bool_]:
    """Return True at the class of each sample, ``(n, k)``."""
    return cast(NDArray[np.bool_], class_indices[:, None] == np.arange(k))


def _loss_of_scores(
    scores: NDArray[np.float64], onehot: NDArray[np.bool_], weights: Vector
) -> tuple[float, NDArray[np.float64]]:
    """Return -Σᵢ vᵢ log p(yᵢ | xᵢ), and its derivative by the scores: v (p - y), ``(n, k)``."""
    log_z = log_sum_exp(scores)
    residual = np.exp(scores - log_z[:, None])
    residual -= onehot
    residual *= weights[:, None]
    return float(weights @ (log_z - scores[onehot])), residual


def _margins(scores: NDArray[np.float64], onehot: NDArray[np.bool_]) -> Vector:
    """Return the score of the true class minus the best other score, ``(n,)``."""
    return cast(Vector, scores[onehot] - np.where(onehot, -np.inf, scores).max(axis=1))


def check_reference(reference: Any, classes: list[Any]) -> int:
    """Return the index of the reference class; raise InputError if it is not a class."""
    if reference not in classes:
        raise InputError(f"reference is {reference!r}: must be one of the classes {classes}")
    return classes.index(reference)


def _with_fixed_zeros(problem: Problem, free: NDArray[np.bool_]) -> Problem:
    """Return the problem of the weights where ``free`` is True; the other weights are 0.

    ``free`` has the shape (weights,) of the given problem.
    """

    def expand(w: Vector) -> Vector:
        all_weights = np.zeros(len(free))
        all_weights[free] = w
        return all_weights

    def objective(w: Vector, gradient: Vector) -> float:
        full_gradient = np.empty(len(free))
        loss = problem.objective(expand(w), full_gradient)
        gradient[:] = full_gradient[free]
        return loss

    return Problem(
        objective,
        lambda w: problem.hessian(expand(w))[np.ix_(free, free)],
        problem.penalised[free],
        lambda w: problem.margins(expand(w)),
    )


def softmax_problem(
    X: Matrix, onehot: NDArray[np.bool_], weights: Vector, l2: float, intercept: bool
) -> Problem:
    """-Σᵢ vᵢ log p(yᵢ | xᵢ) + (l2/2) ‖w‖², with the sample weights vᵢ.

    The weight vector contains (w_y, b_y) for each class y. By w_y, ∇ = Xᵀ v (p_y - [yᵢ = y]) +
    l2 w_y.
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
        for first_class in range(k):
            for second_class in range(first_class + 1):
                curvature = (
                    weights
                    * p[:, first_class]
                    * ((first_class == second_class) - p[:, second_class])
                )
                matrix[first_class, :, second_class] = matrix[second_class, :, first_class] = (
                    weighted_gram(X, curvature, intercept)
                )
        square = matrix.reshape(k * size, k * size)
        square[np.diag_indices(k * size)] += l2 * penalised
        return square

    return Problem(
        objective, hessian, penalised, lambda w: _margins(scores(w), onehot)[weights > 0.0]
    )
