"""Logistic regression: the log-linear model of two classes."""

from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.utils import Tags

from trellis.checks import number_at_least
from trellis.errors import InputError
from trellis.estimator import names_arguments
from trellis.models.regression.base import Matrix, Problem, Regression, weighted_gram
from trellis.optim.gradient import StepSize
from trellis.optim.result import Callback, Vector

__all__ = ["LogisticRegression"]


class LogisticRegression(Regression):
    """log(p(1|x) / p(0|x)) = w · x + b, where 0 and 1 are the first and the second class.

    ``l2``, ``l1``
        Strengths of the penalties (l2/2) ‖w‖² and l1 ‖w‖₁. The intercept b is not penalised.
    ``solver``
        "lbfgs" (OWL-QN with l1 > 0), "newton" (iteratively reweighted least squares: the fewest
        iterations, for up to a few thousand features) or "gradient" (plain gradient ascent).
    ``step``
        The step size of the solver "gradient": a number, or a schedule, a function of the number
        of the iteration (from 1). None: each step is chosen by a line search.
    ``fit_intercept``
        Whether to fit b. If False, b is 0.
    ``max_iter``, ``tol``
        The solver stops when ‖gradient‖ ≤ tol · max(1, ‖w‖), or after max_iter iterations.
    ``n_jobs``
        Number of threads of the optimiser. Results do not depend on it.

    The attributes have the same names as in scikit-learn; ``coef_`` is ``(1, features)``. In
    addition, ``objective_`` is the final loss with its penalties, and ``losses_`` has the
    (iteration, loss) of each iteration. X is a dense array or a sparse matrix.

    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), ["no", "no", "yes", "yes"]
    >>> model = LogisticRegression(l2=0.1).fit(X, y)
    >>> model.predict([[0.4], [2.6]]).tolist()
    ['no', 'yes']
    >>> model.predict_proba([[1.5]]).round(3).tolist()
    [[0.5, 0.5]]
    """

    kind = "logistic"

    @names_arguments
    def __init__(
        self,
        *,
        l2: float = 1.0,
        l1: float = 0.0,
        solver: str = "lbfgs",
        step: StepSize | None = None,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float = 1e-6,
        n_jobs: int | None = None,
    ) -> None:
        self.l2 = l2
        self.l1 = l1
        self.solver = solver
        self.step = step
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, callback: Callback | None = None
    ) -> Self:
        """Learn from samples X ``(n, features)`` and labels y ``(n,)`` of two classes.

        ``callback`` is called after each iteration; a truthy return value stops training.
        """
        X, class_indices, weights = self._check_data(X, y, sample_weight)
        l2 = number_at_least(self.l2, 0.0, "l2")
        problem = logistic_problem(X, class_indices, weights, l2, bool(self.fit_intercept))
        w = self._solve(problem, callback)
        d = X.shape[1]
        self.coef_ = w[None, :d].copy()
        self.intercept_ = w[d:].copy() if self.fit_intercept else np.zeros(1)
        return self

    @staticmethod
    def _coef_rows(classes: int) -> int:
        if classes != 2:
            raise InputError(f"classes has {classes} labels: a LogisticRegression needs two")
        return 1

    def _encode_classes(self, y: Any) -> Any:
        class_indices = super()._encode_classes(y)
        if len(self.classes_) > 2:
            raise InputError(
                "Only binary classification is supported: y has "
                f"{len(self.classes_)} classes; use SoftmaxRegression"
            )
        return class_indices

    def _scores(self, X: Any) -> NDArray[np.float64]:
        log_odds = self._check_rows(X) @ self.coef_[0] + self.intercept_[0]
        return np.stack([np.zeros_like(log_odds), log_odds], axis=1)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags


def logistic_problem(
    X: Matrix, labels: Any, weights: Vector, l2: float, intercept: bool
) -> Problem:
    """Σᵢ vᵢ log(1 + exp(-sᵢ (w · xᵢ + b))) + (l2/2) ‖w‖², with sᵢ = 1 for yᵢ = 1, -1 for yᵢ = 0.

    vᵢ are the sample weights, yᵢ the labels (0 or 1), and p = p(1 | x). By w, ∇ = Xᵀ v (p - y) +
    l2 w and ∇² = Xᵀ v p (1 - p) X + l2 I. The weight vector is (w, b).
    """
    d = X.shape[1]
    sign = np.where(labels == 1, 1.0, -1.0)

    def scores(w: Vector) -> Any:
        log_odds = X @ w[:d]
        return log_odds + w[d] if intercept else log_odds

    def objective(w: Vector, gradient: Vector) -> float:
        margin = sign * scores(w)
        residual = -weights * sign * expit(-margin)
        gradient[:d] = X.T @ residual + l2 * w[:d]
        gradient[d:] = residual.sum()
        return float(weights @ np.logaddexp(0.0, -margin) + 0.5 * l2 * w[:d] @ w[:d])

    def hessian(w: Vector) -> NDArray[np.float64]:
        p = expit(scores(w))
        matrix = weighted_gram(X, weights * p * (1.0 - p), intercept)
        matrix[np.arange(d), np.arange(d)] += l2
        return matrix

    def margins(w: Vector) -> Vector:
        return cast(Vector, (sign * scores(w))[weights > 0.0])

    return Problem(objective, hessian, np.arange(d + intercept) < d, margins)
