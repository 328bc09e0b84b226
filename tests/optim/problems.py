"""Losses for the tests. Each is a function of (w, gradient), as trellis.optim requires."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import rosen, rosen_der, rosen_hess

from trellis.optim import Objective


def rosenbrock(w: Any, gradient: Any) -> float:
    gradient[:] = rosen_der(w)
    return float(rosen(w))


rosenbrock_hessian = rosen_hess


def quadratic(n: int = 30, condition: float = 1e3) -> tuple[Objective, np.ndarray]:
    """Return ½ (w - w*)ᵀ A (w - w*) with eigenvalues from 1 to `condition`, and w*."""
    rng = np.random.default_rng(n)
    basis, _ = np.linalg.qr(rng.normal(size=(n, n)))
    matrix = basis @ np.diag(np.geomspace(1.0, condition, n)) @ basis.T
    best = rng.normal(size=n)

    def objective(w: Any, gradient: Any) -> float:
        gradient[:] = matrix @ (w - best)
        return 0.5 * float((w - best) @ gradient)

    return objective, best


def logistic(
    rows: int = 200, n: int = 20, l2: float = 1.0, seed: int = 0
) -> tuple[Objective, Callable[[Any], Any]]:
    """Return a logistic loss with an L2 term, and its Hessian."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, n))
    y = np.where(x @ rng.normal(size=n) + rng.normal(size=rows) > 0, 1.0, -1.0)

    def objective(w: Any, gradient: Any) -> float:
        margin = y * (x @ w)
        gradient[:] = l2 * w - x.T @ (y / (1.0 + np.exp(margin)))
        return float(np.logaddexp(0.0, -margin).sum() + 0.5 * l2 * w @ w)

    def hessian(w: Any) -> Any:
        p = 1.0 / (1.0 + np.exp(-x @ w))
        return (x.T * (p * (1.0 - p))) @ x + l2 * np.eye(n)

    return objective, hessian


def loss_and_gradient(objective: Objective, w: Any) -> tuple[float, np.ndarray]:
    gradient = np.full(len(w), np.nan)
    return objective(np.asarray(w, dtype=float), gradient), gradient
