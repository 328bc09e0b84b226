"""Newton's method and plain gradient steps."""

from typing import Any

import numpy as np
import pytest
from problems import logistic, loss_and_gradient, quadratic, rosenbrock, rosenbrock_hessian

from trellis.errors import OptimizationError
from trellis.optim import Progress, gradient_ascent, lbfgs, newton
from trellis.optim.newton import newton_direction


@pytest.mark.parametrize("seed", range(3))
def test_newton_agrees_with_lbfgs(seed: int) -> None:
    objective, hessian = logistic(seed=seed)
    result = newton(objective, hessian, np.zeros(20))
    other = lbfgs(objective, np.zeros(20), epsilon=1e-10, period=0)
    assert result.converged
    assert result.n_iter <= 8
    np.testing.assert_allclose(result.w, other.w, atol=1e-9)


def test_newton_hessian_is_the_derivative_of_the_gradient() -> None:
    objective, hessian = logistic()
    w = np.random.default_rng(0).normal(size=20)
    step = 1e-6 * np.eye(20)
    differences = [
        loss_and_gradient(objective, w + e)[1] - loss_and_gradient(objective, w - e)[1]
        for e in step
    ]
    np.testing.assert_allclose(hessian(w), np.array(differences) / 2e-6, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n", [2, 6])
def test_newton_where_the_hessian_is_indefinite(n: int) -> None:
    w0 = np.ones(n)
    w0[0] = 0.0
    assert np.linalg.eigvalsh(rosenbrock_hessian(w0)).min() < 0
    result = newton(rosenbrock, rosenbrock_hessian, w0)
    np.testing.assert_allclose(result.w, 1.0, atol=1e-8)


def test_newton_with_redundant_weights() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 3))
    x = np.hstack([x, x])
    target = x @ rng.normal(size=6)

    def objective(w: Any, gradient: Any) -> float:
        rest = x @ w - target
        gradient[:] = x.T @ rest
        return float(rest @ rest / 2)

    result = newton(objective, lambda w: x.T @ x, np.zeros(6))
    np.testing.assert_allclose(x @ result.w, target, atol=1e-6)
    np.testing.assert_allclose(
        result.w[:3], result.w[3:], atol=1e-9
    )  # both copies of a weight are equal


def test_newton_quadratic_takes_one_step() -> None:
    objective, best = quadratic()
    matrix = np.array([loss_and_gradient(objective, best + e)[1] for e in np.eye(30)])
    result = newton(objective, lambda w: matrix, np.zeros(30), tolerance=1e-7)
    assert result.n_iter <= 2
    np.testing.assert_allclose(result.w, best, atol=1e-8)


def test_newton_direction_without_curvature() -> None:
    np.testing.assert_array_equal(newton_direction(np.zeros((2, 2)), np.ones(2)), [-1.0, -1.0])
    assert (
        newton_direction(-np.eye(2), np.array([1.0, -1.0])) @ [1.0, -1.0] < 0
    )  # d is a direction of descent
    with pytest.raises(OptimizationError, match="gradient is not finite"):
        newton_direction(np.eye(2), np.array([1.0, np.nan]))
    with pytest.raises(OptimizationError, match="not finite"):
        newton_direction(np.full((2, 2), np.nan), np.ones(2))


@pytest.mark.parametrize("step", [None, 0.02])
def test_gradient_ascent(step: float | None) -> None:
    objective, _ = logistic(rows=60, n=5)
    result = gradient_ascent(objective, np.zeros(5), step=step, tolerance=1e-7, max_iter=5000)
    other = lbfgs(objective, np.zeros(5), epsilon=1e-10, period=0)
    assert result.converged
    np.testing.assert_allclose(result.w, other.w, atol=1e-6)


def test_gradient_ascent_with_a_fixed_step() -> None:
    objective, _ = logistic(rows=60, n=5)
    w = np.zeros(5)
    for _ in range(3):
        w -= 0.01 * loss_and_gradient(objective, w)[1]
    result = gradient_ascent(objective, np.zeros(5), step=0.01, max_iter=3)
    np.testing.assert_allclose(result.w, w, rtol=1e-14)
    assert (result.n_iter, result.n_evaluations, result.converged) == (3, 4, False)


def test_gradient_ascent_with_a_schedule() -> None:
    objective, _ = logistic(rows=60, n=5)
    w, numbers = np.zeros(5), []
    for k in (1, 2, 3):
        w -= 0.02 / k * loss_and_gradient(objective, w)[1]

    def step(k: int) -> float:
        numbers.append(k)
        return 0.02 / k

    result = gradient_ascent(objective, np.zeros(5), step=step, max_iter=3)
    np.testing.assert_allclose(result.w, w, rtol=1e-14)
    assert numbers == [1, 2, 3]


def test_gradient_ascent_with_a_step_that_is_too_long() -> None:
    objective, _ = quadratic()
    with (
        np.errstate(over="ignore", invalid="ignore"),
        pytest.raises(OptimizationError, match=r"1\.0 is too long"),
    ):
        gradient_ascent(objective, np.zeros(30), step=1.0, max_iter=10_000)


@pytest.mark.parametrize("name", ["gradient", "newton"])
def test_no_step_lowers_the_loss(name: str) -> None:
    def objective(w: Any, gradient: Any) -> float:
        gradient[:] = 1.0
        return float(np.abs(w).sum())

    if name == "gradient":
        result = gradient_ascent(objective, np.zeros(2))
    else:
        result = newton(objective, lambda w: np.eye(2), np.zeros(2))
    assert (result.converged, result.n_iter) == (False, 0)
    assert "no step" in result.message
    np.testing.assert_array_equal(result.w, 0.0)


@pytest.mark.parametrize("name", ["gradient", "newton"])
def test_callback_and_limit(name: str) -> None:
    objective, hessian = logistic()
    seen: list[Progress] = []

    def run(**keywords: Any) -> Any:
        if name == "gradient":
            return gradient_ascent(objective, np.zeros(20), **keywords)
        return newton(objective, hessian, np.zeros(20), **keywords)

    result = run(callback=lambda p: seen.append(p) or p.iteration == 2)
    assert (result.n_iter, result.converged, len(seen)) == (2, False, 2)
    assert seen[-1].loss == result.loss
    assert seen[-1].active == 20
    np.testing.assert_array_equal(seen[-1].w, result.w)
    assert not seen[-1].w.flags.writeable
    assert run(max_iter=1).n_iter == 1
    assert run(max_iter=0).n_iter == 0
