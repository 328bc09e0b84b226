"""Newton's method with a line search. It needs few iterations, but only suits few weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from trellis.errors import InputError, OptimizationError
from trellis.optim.gradient import Move, descend, search_along
from trellis.optim.result import Callback, Evaluations, Objective, Point, Result, Vector

_EPSILON = float(np.finfo(np.float64).eps)


def newton(
    objective: Objective,
    hessian: Callable[[Vector], Any],
    w0: Any,
    *,
    max_iter: int = 100,
    tolerance: float = 1e-8,
    callback: Callback | None = None,
) -> Result[None]:
    """Repeat w ← w - t (∇²loss)⁻¹ ∇loss, with t = 1 halved until the loss falls.

    ``hessian(w)`` is the matrix of second derivatives, ``(n, n)``; it need not be positive
    definite. The run has converged when ‖∇‖ ≤ tolerance · max(1, ‖w‖), or when a further step
    changes the loss by less than its rounding error.

    >>> def cosh(w, gradient):
    ...     gradient[:] = np.sinh(w - 2)
    ...     return np.cosh(w - 2).sum()
    >>> result = newton(cosh, lambda w: np.diag(np.cosh(w - 2)), [0.0])
    >>> result.w.round(8).tolist(), result.n_iter
    ([2.0], 5)
    """
    if not callable(hessian):
        raise InputError(f"hessian must be a function of w, not {hessian!r}")

    def advance(evaluate: Evaluations, current: Point) -> Move:
        d = newton_direction(hessian(current.w), current.gradient)
        return search_along(evaluate, current, d, float(d @ current.gradient), 1.0)

    return descend(objective, w0, advance, max_iter, tolerance, callback, resumable=False)


def newton_direction(hessian: Any, gradient: Vector) -> Vector:
    """d = -H⁻¹ g, where |λ| replaces each eigenvalue λ of H, so that d is a direction of descent.

    If λ ≈ 0, the largest |λ| replaces it instead, so that the step along its eigenvector is short.

    >>> newton_direction(np.diag([4.0, 16.0]), np.array([4.0, 8.0])).tolist()
    [-1.0, -0.5]
    """
    # This import takes 0.2 s: a command that only loads a model does not need it.
    from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh

    n = len(gradient)
    matrix = np.asarray(hessian, dtype=np.float64)
    if matrix.shape != (n, n):
        raise InputError(f"the Hessian must have shape {(n, n)}, not {matrix.shape}")
    for name, array in {"Hessian": matrix, "gradient": gradient}.items():
        if not np.isfinite(array).all():
            index = tuple(np.argwhere(~np.isfinite(array))[0].tolist())
            raise OptimizationError(f"the {name} is not finite: it is {array[index]} at {index}")
    min_curvature = n * _EPSILON * float(np.abs(matrix).max())
    try:
        factor = cho_factor(matrix, lower=True)
        # Most losses here are convex, and Cholesky is much faster than eigenvalues.
        if factor[0].diagonal().min() ** 2 > min_curvature:
            solution: Vector = cho_solve(factor, gradient)
            return -solution
    except LinAlgError:
        pass  # not positive definite
    eigenvalues, basis = eigh(matrix)
    magnitudes = np.abs(eigenvalues)
    magnitudes[magnitudes <= min_curvature] = magnitudes.max() or 1.0
    return cast(Vector, -basis @ ((basis.T @ gradient) / magnitudes))
