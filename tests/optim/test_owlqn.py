"""OWL-QN finds the optimum of an independent method, and sparse weights."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import logistic, loss_and_gradient, quadratic
from scale import examples

from trellis.optim import Objective, lbfgs

EXACT: dict[str, Any] = {"epsilon": 1e-9, "period": 0, "max_iter": 20_000}


def proximal_gradient(objective: Objective, n: int, c: Any) -> np.ndarray:
    """Minimise by FISTA with restarts. The step is halved until the loss falls enough."""
    w, v, t, momentum = np.zeros(n), np.zeros(n), 1.0, 1.0
    for _ in range(20_000):
        loss, gradient = loss_and_gradient(objective, v)
        while True:
            moved = v - t * gradient
            new = np.sign(moved) * np.maximum(np.abs(moved) - t * c, 0.0)
            step = new - v
            bound = loss + gradient @ step + step @ step / (2 * t)
            if loss_and_gradient(objective, new)[0] <= bound + 1e-12 * abs(loss):
                break
            t *= 0.5
        if np.abs(new - v).max() < 1e-12 * max(1.0, t):
            return new
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        if (v - new) @ (new - w) > 0:  # the step went too far: restart the momentum
            following, v = 1.0, new
        else:
            v = new + (momentum - 1) / following * (new - w)
        w, momentum = new, following
    raise AssertionError("the reference did not converge")


def violation(objective: Objective, w: Any, c: Any) -> float:
    """Return the violation of optimality: the gradient must be -c sign(w), within ±c at zero."""
    _, gradient = loss_and_gradient(objective, w)
    at_zero = np.maximum(np.abs(gradient) - c, 0.0)
    return float(np.where(w == 0, at_zero, np.abs(gradient + c * np.sign(w))).max())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("l1", [0.1, 3.0, 20.0])
def test_against_proximal_gradient(seed: int, l1: float) -> None:
    objective, _ = logistic(seed=seed, l2=0.1)
    result = lbfgs(objective, np.zeros(20), l1=l1, **EXACT)
    want = proximal_gradient(objective, 20, l1)
    np.testing.assert_allclose(result.w, want, rtol=0, atol=1e-6)
    assert result.loss == pytest.approx(
        loss_and_gradient(objective, result.w)[0] + l1 * np.abs(result.w).sum(), rel=1e-12
    )
    assert result.loss <= loss_and_gradient(objective, want)[0] + l1 * np.abs(want).sum() + 1e-9
    assert violation(objective, result.w, l1) < 1e-6
    np.testing.assert_array_equal(result.w == 0, want == 0)


def test_a_large_penalty_gives_zero_weights() -> None:
    objective, _ = logistic()
    _, gradient = loss_and_gradient(objective, np.zeros(20))
    result = lbfgs(objective, np.full(20, 0.1), l1=1.01 * np.abs(gradient).max(), **EXACT)
    assert not result.w.any()
    assert result.converged
    fewer = lbfgs(objective, np.zeros(20), l1=0.5 * np.abs(gradient).max(), **EXACT)
    assert 0 < np.count_nonzero(fewer.w) < 20


@settings(max_examples=examples(20), deadline=None)
@given(seed=st.integers(0, 10_000), l1=st.floats(0.01, 30.0), n_free=st.integers(0, 12))
def test_optimal_with_some_weights_free(seed: int, l1: float, n_free: int) -> None:
    objective, _ = logistic(rows=60, n=12, l2=0.5, seed=seed)
    penalised = np.arange(12) >= n_free
    result = lbfgs(objective, np.zeros(12), l1=l1, penalised=penalised, **EXACT)
    c = np.where(penalised, l1, 0.0)
    assert violation(objective, result.w, c) < 1e-5


def test_nothing_penalised_is_plain_lbfgs() -> None:
    objective, best = quadratic(n=10, condition=50.0)
    nothing = np.zeros(10, dtype=bool)
    result = lbfgs(objective, np.zeros(10), l1=7.0, penalised=nothing, **EXACT)
    np.testing.assert_allclose(result.w, best, atol=1e-8)


def test_soft_threshold() -> None:
    target = np.array([3.0, -2.0, 0.5, -0.5, 0.0, 1.0])

    def objective(w: Any, gradient: Any) -> float:
        gradient[:] = w - target
        return float(((w - target) ** 2).sum() / 2)

    result = lbfgs(objective, np.zeros(6), l1=1.0, **EXACT)
    np.testing.assert_allclose(result.w, [2.0, -1.0, 0.0, 0.0, 0.0, 0.0], atol=1e-9)
    assert np.count_nonzero(result.w) == 2
