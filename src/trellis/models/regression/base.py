"""The base class of logistic and softmax regression: validation, solvers, prediction, files.

Both minimise this loss over weights w and intercepts; the intercepts are not penalised:

    -Σᵢ vᵢ log p(yᵢ | xᵢ) + (l2/2) ‖w‖² + l1 ‖w‖₁

The vᵢ are sample weights. The loss is a sum over samples, not a mean. So scikit-learn's C is
1 / l2.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from trellis.checks import MAX_SCORE, as_integer, is_text, number_at_least, one_of
from trellis.errors import InputError
from trellis.formats.native import Tensors, expect, finite
from trellis.formats.parts import (
    Parts,
    Saved,
    read_classes,
    read_parameters,
    read_training,
    stored_labels,
    stored_parameters,
    training_record,
)
from trellis.native import isa
from trellis.optim import Callback, Objective, Progress, Result, gradient_ascent, lbfgs, newton
from trellis.optim.gradient import StepSize, check_step
from trellis.optim.result import Vector

__all__ = ["Matrix", "Problem", "Regression", "log_sum_exp", "sample_weights", "weighted_gram"]

# Functions cannot be stored, and the number of threads depends on the machine.
_NOT_STORED = ("features", "n_jobs")
_HISTORIES = ("losses",)
_SOLVERS = ("lbfgs", "newton", "gradient")
_MAX_NEWTON_WEIGHTS = 10_000  # Newton's method stores the Hessian: 800 MB for 10,000 weights
_BLOCK_ROWS = (
    4096  # number of rows of X that are scaled at a time: a copy of all rows needs more memory
)

Matrix: TypeAlias = Any  # a dense array or a sparse matrix: both have @ and .T


@dataclass(frozen=True)
class Problem:
    """A loss with the L2 penalty. The solver adds the L1 penalty, which has no gradient at 0."""

    objective: Objective
    """``objective(w, gradient) -> loss``; it writes the gradient into its second argument."""
    hessian: Callable[[Vector], NDArray[np.float64]]
    penalised: NDArray[np.bool_]
    """``(weights,)``: True for all weights except the intercepts."""
    margins: Callable[[Vector], Vector]
    """The score of the true class minus the best other score, for each sample of positive weight.

    If all margins are positive for some w, multiples of w make the likelihood as close to 1 as
    desired.
    """


class Regression(Saved, ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A scikit-learn classifier whose log-probabilities are linear in the features."""

    added_parameters = frozenset({"step", "reference"})

    l2: float
    l1: float
    solver: str
    fit_intercept: bool
    max_iter: int
    tol: float
    step: StepSize | None
    n_jobs: int | None
    # set by fit
    classes_: NDArray[Any]
    n_features_in_: int
    coef_: NDArray[np.float64]
    """``(1, features)`` for the logistic regression, ``(classes, features)`` for softmax."""
    intercept_: NDArray[np.float64]
    """``(1,)`` or ``(classes,)``"""
    n_iter_: int
    objective_: float
    losses_: list[tuple[int, float]]
    """(iteration, loss) of each iteration, penalties included."""
    converged_: bool

    # ---- files

    def to_parts(self) -> Parts:
        """Return the metadata and the tensors of the fitted model."""
        check_is_fitted(self)
        left_out = (*_NOT_STORED, "step") if callable(self.step) else _NOT_STORED
        meta = {
            "parameters": stored_parameters(self, left_out),
            "classes": stored_labels(self.classes_.tolist()),
            "training": training_record(self, _HISTORIES if self.losses_ else ()),
        }
        return meta, {"coef": self.coef_, "intercept": self.intercept_}

    @classmethod
    def from_parts(cls, meta: dict[str, Any], tensors: Tensors) -> Self:
        """Return the model with these parts; raise InputError if a part is missing or invalid."""
        model = cls(**read_parameters(cls, meta, ("features",)))
        model._check_parameters()
        classes = read_classes(meta)
        n_rows = cls._coef_rows(len(classes))
        if expect(tensors, "coef", np.float64, (n_rows, None)).shape[1] == 0:
            raise InputError("coef has no columns: the model needs at least one feature")
        expect(tensors, "intercept", np.float64, (n_rows,))
        model.classes_ = np.array(classes)
        model.coef_, model.intercept_ = finite(tensors, "coef"), finite(tensors, "intercept")
        model.n_features_in_ = model.coef_.shape[1]
        read_training(model, meta, _HISTORIES)
        return model

    @staticmethod
    @abstractmethod
    def _coef_rows(classes: int) -> int:
        """Return the number of rows of ``coef_`` for a number of classes."""

    # ---- prediction

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the scores ``(n, classes)``; for two classes their difference, second - first."""
        scores = self._finite_scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """log p(y | x), ``(n, classes)``."""
        # Relative to the best score, log Z is exact for scores of any size.
        scores = self._finite_scores(X)
        scores -= scores.max(axis=1, keepdims=True)
        return scores - log_sum_exp(scores)[:, None]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """p(y | x), ``(n, classes)``."""
        return cast(NDArray[np.float64], np.exp(self.predict_log_proba(X)))

    def predict(self, X: Any) -> NDArray[Any]:
        """argmax_y p(y | x), ``(n,)``; the first class if several have the same probability."""
        best_classes = self._finite_scores(X).argmax(axis=1)
        return cast(NDArray[Any], self.classes_[best_classes])

    def _finite_scores(self, X: Any) -> NDArray[np.float64]:
        """Return the scores; raise InputError if the product of weights and features overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            scores = self._scores(X)
        # The range check also excludes overflow in differences of scores.
        invalid = ~(np.abs(scores) <= MAX_SCORE)
        if invalid.any():
            i, y = np.argwhere(invalid)[0]
            label = self.classes_.tolist()[y]  # a str rather than NumPy's
            raise InputError(
                f"scores of sample {i} overflow: the score of class {label!r} is "
                f"{scores[i, y]}, but scores must be within ±{MAX_SCORE:g}"
            )
        return scores

    @abstractmethod
    def _scores(self, X: Any) -> NDArray[np.float64]:
        """Return one score for each class, ``(n, classes)``."""

    def _check_rows(self, X: Any) -> Matrix:
        """Return new samples. Raise unless they have the features of the training samples."""
        check_is_fitted(self)
        return validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)

    def _check_data(self, X: Any, y: Any, sample_weight: Any) -> tuple[Matrix, Any, Vector]:
        """Return the validated samples, the indices of their classes, and the sample weights."""
        if isinstance(X, list) and X and isinstance(X[0], list) and is_text(next(iter(X[0]), None)):
            raise InputError(
                f"X has lists of words: a {type(self).__name__} needs a row of numbers for each "
                "sample; to label each word of a sequence, use CRF, MEMM or HMM"
            )
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        return X, self._encode_classes(y), sample_weights(sample_weight, X)

    def _encode_classes(self, y: Any) -> Any:
        """Set ``classes_`` and return the index of each label in it, ``(n,)``."""
        check_classification_targets(y)
        self.classes_, class_indices = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            only_class = self.classes_.tolist()[0]  # a Python value rather than NumPy's
            raise InputError(f"y has only one class, {only_class!r}: training needs two")
        return class_indices

    def _check_parameters(self) -> None:
        """Raise InputError if a parameter is invalid."""
        for name in ("l2", "l1", "tol"):
            number_at_least(getattr(self, name), 0.0, name)
        as_integer(self.max_iter, "max_iter")
        solver = one_of(self.solver, _SOLVERS, "solver")
        if self.l1 > 0.0 and solver != "lbfgs":
            raise InputError(f"solver must be 'lbfgs' if l1 > 0, not {solver!r}")
        check_step(self.step)
        if self.step is not None and solver != "gradient":
            raise InputError(f"step needs solver='gradient': {solver} chooses its steps itself")

    def _solve(self, problem: Problem, callback: Callback | None) -> Vector:
        """Minimise the loss from weights of zero, and return the weights."""
        self._check_parameters()
        self.losses_ = []

        def record(progress: Progress) -> bool:
            self.losses_.append((progress.iteration, progress.loss))
            return callback is not None and bool(callback(progress))

        result = self._minimise(problem, record)
        self.n_iter_, self.objective_ = result.n_iter, result.loss
        self.converged_, self.isa_ = result.converged, isa()
        message = None if result.converged else result.message
        if self.l2 == self.l1 == 0.0 and (problem.margins(result.w) > 0.0).all():
            self.converged_ = False
            message = (
                "a linear function separates the classes, so without a penalty the likelihood has "
                "no maximum, and the weights grow until the solver stops; set l2 > 0"
            )
        if message is not None:
            message = f"{type(self).__name__} did not converge: {message}"
            warnings.warn(message, ConvergenceWarning, stacklevel=3)
        return result.w

    def _minimise(self, problem: Problem, callback: Callback) -> Result[Any]:
        """Run the solver, and return its result."""
        l1, max_iter, tol = float(self.l1), int(self.max_iter), float(self.tol)
        w0 = np.zeros(len(problem.penalised))
        limits: dict[str, Any] = {"max_iter": max_iter, "callback": callback}
        if self.solver == "lbfgs":
            return lbfgs(
                problem.objective,
                w0,
                l1=l1,
                penalised=problem.penalised,
                epsilon=tol,
                # OWL-QN ends with many small steps, so it also stops when the loss hardly changes.
                period=10 if l1 > 0.0 else 0,
                delta=1e-13,
                n_jobs=self.n_jobs,
                **limits,
            )
        if self.solver == "gradient":
            return gradient_ascent(problem.objective, w0, step=self.step, tolerance=tol, **limits)
        if len(w0) > _MAX_NEWTON_WEIGHTS:
            raise InputError(
                f"solver='newton' supports at most {_MAX_NEWTON_WEIGHTS} weights, "
                f"not {len(w0)}: use 'lbfgs'"
            )
        return newton(problem.objective, problem.hessian, w0, tolerance=tol, **limits)


def sample_weights(sample_weight: Any, X: Any) -> Vector:
    """Return one weight for each sample, 1 by default. Raise if a weight is negative."""
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    return cast(Vector, weights)


def log_sum_exp(scores: NDArray[np.float64]) -> Vector:
    """log Σ_y exp(score) of each row, without overflow.

    >>> log_sum_exp(np.array([[1e4, 1e4], [0.0, -1e4]])).round(6).tolist()
    [10000.693147, 0.0]
    """
    maximum = scores.max(axis=1)
    exponentials = np.exp(scores - maximum[:, None])
    return cast(Vector, maximum + np.log(exponentials.sum(axis=1)))


def weighted_gram(X: Matrix, weights: Vector, intercept: bool) -> NDArray[np.float64]:
    """Xᵀ diag(weights) X; with an intercept, X has an additional last column of ones.

    All weights must have the same sign. Then the rows can be scaled by the square roots of the
    weights. BLAS computes the product of the result with itself in half the time.

    >>> weighted_gram(np.array([[1.0], [2.0]]), np.array([1.0, 4.0]), True).tolist()
    [[17.0, 9.0], [9.0, 5.0]]
    """
    d = X.shape[1]
    gram = np.zeros((d + intercept, d + intercept))
    roots, sign = np.sqrt(np.abs(weights))[:, None], -1.0 if weights.sum() < 0.0 else 1.0
    if sparse.issparse(X):
        gram[:d, :d] = (X.T @ X.multiply(weights[:, None])).toarray()
    else:
        for begin in range(0, len(X), _BLOCK_ROWS):
            rows = X[begin : begin + _BLOCK_ROWS] * roots[begin : begin + _BLOCK_ROWS]
            gram[:d, :d] += rows.T @ rows
        gram *= sign
    if intercept:
        gram[:d, d] = gram[d, :d] = X.T @ weights
        gram[d, d] = weights.sum()
    return gram
