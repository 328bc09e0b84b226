"""Block-coordinate Frank-Wolfe reaches the optimum of a support vector machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from trellis.errors import InputError
from trellis.optim.frank_wolfe import block_frank_wolfe


def multiclass(rng: np.random.Generator) -> tuple[Any, Any, int, int]:
    """Return the oracle and the primal objective of a machine with three classes, and sizes."""
    n, d, k = 25, 3, 3
    labels = rng.integers(k, size=n)
    x = rng.normal(size=(n, d)) + np.eye(k)[labels]

    def psi(i: int, y: int) -> np.ndarray:
        out = np.zeros((k, d))
        out[labels[i]] += x[i]
        out[y] -= x[i]
        return out.ravel()

    def violations(i: int, w: np.ndarray) -> list[float]:
        return [float(y != labels[i]) - float(w @ psi(i, y)) for y in range(k)]

    def oracle(i: int, w: np.ndarray) -> tuple[np.ndarray, float]:
        y = int(np.argmax(violations(i, w)))
        return psi(i, y), float(y != labels[i])

    def primal(w: np.ndarray) -> float:
        return 0.25 * float(w @ w) + sum(max(violations(i, w)) for i in range(n))

    return oracle, primal, n, k * d


def test_the_optimum_is_reached() -> None:
    oracle, primal, n, size = multiclass(np.random.default_rng(0))
    result = block_frank_wolfe(
        oracle, n, size, l2=0.5, max_iter=2000, tolerance=1e-3, random_state=0
    )
    assert result.converged
    # A direct search comes close to the optimum, but never below it.
    other = minimize(primal, result.w, method="Powell", options={"maxiter": 20_000, "ftol": 1e-10})
    assert primal(result.w) <= other.fun * (1 + 3e-3)
    assert result.loss == pytest.approx(primal(result.w), rel=1e-2)


def test_callback_stops_the_run_and_seed_fixes_the_result() -> None:
    oracle, _, n, size = multiclass(np.random.default_rng(1))
    seen: list[Any] = []
    result = block_frank_wolfe(
        oracle,
        n,
        size,
        max_iter=50,
        callback=lambda p: seen.append(p.loss) or len(seen) == 3,
        random_state=0,
    )
    assert (result.n_iter, len(seen), result.converged) == (3, 3, False)
    again = block_frank_wolfe(oracle, n, size, max_iter=3, random_state=0)
    assert (result.w == again.w).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"l2": 0.0}, "l2"),
        ({"l2": -1.0}, "l2"),
        ({"l2": "much"}, "l2"),
        ({"max_iter": 0}, "max_iter"),
        ({"tolerance": -1.0}, "tolerance"),
    ],
)
def test_bad_input(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        block_frank_wolfe(lambda i, w: (w, 0.0), 1, 1, **options)


def test_the_number_of_evaluations() -> None:
    oracle, _, n, size = multiclass(np.random.default_rng(1))
    result = block_frank_wolfe(oracle, n, size, max_iter=3, tolerance=0.0, random_state=0)
    assert (result.n_iter, result.n_evaluations) == (3, 3 * n)
