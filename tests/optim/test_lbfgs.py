"""L-BFGS: optima of other programs, the steps of CRFsuite, reproducible bits."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from problems import logistic, loss_and_gradient, quadratic, rosenbrock
from scipy.optimize import minimize

from trellis.errors import OptimizationError
from trellis.optim import LbfgsState, Objective, Progress, lbfgs

EXACT: dict[str, Any] = {"epsilon": 1e-10, "period": 0}
SEARCHES = ["more-thuente", "backtracking", "strong-backtracking"]


def scipy_optimum(objective: Objective, n: int) -> Any:
    options = {"ftol": 0.0, "gtol": 1e-11, "maxiter": 10_000, "maxfun": 100_000}
    return minimize(
        lambda w: loss_and_gradient(objective, w),
        np.zeros(n),
        jac=True,
        method="L-BFGS-B",
        options=options,
    )


@pytest.mark.parametrize("linesearch", SEARCHES)
@pytest.mark.parametrize("seed", range(3))
def test_logistic_loss_as_scipy(linesearch: str, seed: int) -> None:
    objective, _ = logistic(seed=seed)
    result = lbfgs(objective, np.zeros(20), linesearch=linesearch, **EXACT)
    best = scipy_optimum(objective, 20)
    assert result.loss == pytest.approx(best.fun, rel=1e-13)
    np.testing.assert_allclose(result.w, best.x, rtol=0, atol=1e-8)


@pytest.mark.parametrize("linesearch", SEARCHES)
@pytest.mark.parametrize("n", [2, 5, 20])
def test_rosenbrock(linesearch: str, n: int) -> None:
    result = lbfgs(rosenbrock, np.full(n, -0.5), linesearch=linesearch, **EXACT)
    np.testing.assert_allclose(result.w, 1.0, rtol=0, atol=1e-8)
    assert result.converged
    assert result.n_evaluations < 300


@pytest.mark.parametrize("memory", [1, 3, 6, 40])
def test_ill_conditioned_quadratic(memory: int) -> None:
    objective, best = quadratic()
    result = lbfgs(objective, np.zeros(30), memory=memory, epsilon=1e-9, period=0)
    np.testing.assert_allclose(result.w, best, rtol=0, atol=1e-8)
    if memory == 6:
        assert result.n_iter < 1.3 * scipy_optimum(objective, 30).nit
    if memory == 40:  # the memory can hold all directions of the 30 weights
        assert result.n_iter < 300


# The log of CRFsuite 0.12 (python-crfsuite 0.9): loss, norm of the gradient and trials. The
# sequences have one token with the attributes below, so the model is a softmax over three labels.
CRFSUITE: dict[tuple[float, float, str], tuple[int, dict[int, tuple[float, float, int]]]] = {
    (0.0, 1.0, "MoreThuente"): (
        43,
        {
            1: (350.075937, 338.500139, 1),
            2: (292.416427, 90.857259, 1),
            3: (264.824318, 68.755008, 2),
            4: (225.594525, 29.271269, 1),
            43: (210.116851, 0.00018, 1),
        },
    ),
    (0.0, 0.01, "Backtracking"): (
        60,
        {
            1: (349.085937, 337.760449, 1),
            3: (278.085275, 74.877519, 2),
            4: (223.571669, 39.07257, 1),
            60: (197.386973, 0.000606, 1),
        },
    ),
    (3.0, 0.1, "Backtracking"): (
        218,
        {
            1: (365.372821, 343.154572, 1),
            2: (306.283617, 80.595548, 1),
            3: (299.803508, 80.08384, 1),
            4: (268.527877, 42.31857, 1),
            218: (238.995053, 0.002913, 2),
        },
    ),
}


def crfsuite_objective(c2: float) -> Objective:
    rng = np.random.default_rng(1)
    x = np.abs(rng.normal(size=(400, 12)))
    labels = (x @ rng.normal(size=(3, 12)).T + rng.gumbel(size=(400, 3))).argmax(axis=1)
    onehot = np.eye(3)[labels]

    def objective(w: Any, gradient: Any) -> float:
        scores = x @ w.reshape(3, 12).T
        scores -= scores.max(axis=1, keepdims=True)
        log_z = np.log(np.exp(scores).sum(axis=1, keepdims=True))
        gradient[:] = ((np.exp(scores - log_z) - onehot).T @ x).ravel() + 2 * c2 * w
        return float((log_z - scores)[onehot == 1].sum() + c2 * w @ w)

    return objective


@pytest.mark.parametrize(("c1", "c2", "search"), CRFSUITE)
def test_the_steps_of_crfsuite(c1: float, c2: float, search: str) -> None:
    iterations, log = CRFSUITE[c1, c2, search]
    seen: list[Progress] = []
    result = lbfgs(
        crfsuite_objective(c2),
        np.zeros(36),
        l1=c1,
        epsilon=1e-7,
        delta=1e-9,
        linesearch={"MoreThuente": "more-thuente", "Backtracking": "backtracking"}[search],
        callback=seen.append,
    )
    assert result.n_iter == iterations
    for i, (loss, norm, trials) in log.items():
        before = seen[i - 2].evaluations if i > 1 else 1
        assert seen[i - 1].loss == pytest.approx(loss, abs=1e-6)
        assert seen[i - 1].gradient_norm == pytest.approx(norm, rel=1e-3, abs=1e-6)
        assert seen[i - 1].evaluations - before == trials


# --- the same bits ------------------------------------------------------------------------------


def wide_objective(n: int = 20_000) -> Objective:
    """Return a loss of many weights. Its sums have a fixed order."""
    rng = np.random.default_rng(0)
    target, curvature = rng.normal(size=n), rng.uniform(0.1, 10.0, size=n)

    def objective(w: Any, gradient: Any) -> float:
        gradient[:] = curvature * (w - target) + 0.1 * np.sin(3 * w)
        return float((0.5 * curvature * (w - target) ** 2 - np.cos(3 * w) / 30).sum())

    return objective


@pytest.mark.parametrize("l1", [0.0, 0.5])
def test_every_number_of_threads(l1: float) -> None:
    results = [
        lbfgs(wide_objective(), np.zeros(20_000), l1=l1, max_iter=15, n_jobs=n_jobs, epsilon=0)
        for n_jobs in (1, 2, 3, 1)
    ]
    for other in results[1:]:
        np.testing.assert_array_equal(other.w, results[0].w)
        assert other.loss == results[0].loss
    assert results[0].n_iter == 15


@pytest.mark.parametrize("l1", [0.0, 0.5])
@pytest.mark.parametrize("stop", [0, 1, 4, 11])
@pytest.mark.parametrize("stored", [False, True])
def test_resume(l1: float, stop: int, stored: bool) -> None:
    objective = wide_objective()
    keywords: dict[str, Any] = {"l1": l1, "epsilon": 0.0, "n_jobs": 2}
    uninterrupted = lbfgs(objective, np.zeros(20_000), max_iter=14, **keywords)
    first = lbfgs(objective, np.zeros(20_000), max_iter=stop, **keywords)
    state = LbfgsState.from_arrays(first.state.to_arrays()) if stored else first.state
    for _ in range(2):  # a state may be used more than once
        second = lbfgs(objective, None, max_iter=14, state=state, **keywords)
        np.testing.assert_array_equal(second.w, uninterrupted.w)
        assert (second.loss, second.n_iter) == (uninterrupted.loss, uninterrupted.n_iter)
        assert second.n_evaluations == uninterrupted.n_evaluations
        assert second.state.losses.tolist() == uninterrupted.state.losses.tolist()
    assert first.n_iter == stop


def test_resume_after_the_callback_has_stopped() -> None:
    objective, _ = logistic()
    uninterrupted = lbfgs(objective, np.zeros(20))
    first = lbfgs(objective, np.zeros(20), callback=lambda p: p.iteration == 3)
    assert (first.n_iter, first.converged) == (3, False)
    assert "callback" in first.message
    second = lbfgs(objective, None, state=first.state)
    np.testing.assert_array_equal(second.w, uninterrupted.w)
    assert second.message == uninterrupted.message


def test_resume_after_convergence() -> None:
    objective, _ = logistic()
    done = lbfgs(objective, np.zeros(20), period=0)
    again = lbfgs(objective, None, period=0, state=done.state)
    assert (again.n_iter, again.n_evaluations) == (done.n_iter, done.n_evaluations)


# --- reasons to stop, and progress --------------------------------------------------------------


def test_already_at_the_optimum() -> None:
    objective, best = quadratic()
    result = lbfgs(objective, best)
    assert (result.n_iter, result.n_evaluations, result.converged) == (0, 1, True)
    np.testing.assert_array_equal(result.w, best)


def test_small_gradient_ends_the_run() -> None:
    objective, _ = logistic()
    result = lbfgs(objective, np.zeros(20), epsilon=1e-3, period=0)
    _, gradient = loss_and_gradient(objective, result.w)
    assert result.converged
    assert np.linalg.norm(gradient) <= 1e-3 * max(1.0, np.linalg.norm(result.w))


def test_slow_progress_ends_the_run() -> None:
    objective, _ = logistic()
    losses = [loss_and_gradient(objective, np.zeros(20))[0]]
    result = lbfgs(
        objective,
        np.zeros(20),
        epsilon=0.0,
        period=5,
        delta=1e-3,
        callback=lambda p: losses.append(p.loss),
    )
    falls = [(losses[k - 5] - losses[k]) / losses[k] for k in range(5, len(losses))]
    assert result.converged
    assert falls[-1] < 1e-3 <= min(falls[:-1])


@pytest.mark.parametrize("limit", [0, 1, 7])
def test_limit(limit: int) -> None:
    result = lbfgs(rosenbrock, np.zeros(5), max_iter=limit)
    assert (result.n_iter, result.converged) == (limit, False)
    assert str(limit) in result.message


def test_progress() -> None:
    objective, _ = logistic()
    seen: list[Progress] = []
    copies = []

    def callback(progress: Progress) -> None:
        seen.append(progress)
        copies.append(progress.w.copy())
        with pytest.raises(ValueError, match="read-only"):
            progress.w[0] = 1.0

    w0 = np.zeros(20)
    result = lbfgs(objective, w0, l1=2.0, callback=callback)
    assert not w0.any()
    assert [p.iteration for p in seen] == list(range(1, result.n_iter + 1))
    assert seen[-1].loss == result.loss
    assert seen[-1].evaluations == result.n_evaluations
    assert [p.active for p in seen] == [np.count_nonzero(w) for w in copies]
    assert all(a.seconds <= b.seconds for a, b in itertools.pairwise(seen))
    assert all(a.loss > b.loss for a, b in itertools.pairwise(seen))
    np.testing.assert_array_equal(copies[-1], result.w)


def test_an_error_in_the_objective_is_raised() -> None:
    def objective(w: Any, gradient: Any) -> float:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        lbfgs(objective, np.zeros(3))


# --- hard losses --------------------------------------------------------------------------------


@pytest.mark.parametrize("linesearch", SEARCHES)
def test_a_loss_that_is_nan_beyond_a_limit(linesearch: str) -> None:
    def objective(w: Any, gradient: Any) -> float:
        with np.errstate(invalid="ignore", divide="ignore"):
            gradient[:] = 100.0 - 1.0 / w
            return float((100.0 * w - np.log(w)).sum())  # NaN for w < 0

    result = lbfgs(objective, np.ones(3), linesearch=linesearch, epsilon=1e-6, period=0)
    np.testing.assert_allclose(result.w, 0.01, rtol=1e-6)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("l1", [0.0, 1.0])
def test_a_loss_that_is_finite_only_at_the_first_weights(value: float, l1: float) -> None:
    def objective(w: Any, gradient: Any) -> float:
        gradient[:] = 2.0
        return value if w.any() else 1.0

    result = lbfgs(objective, np.zeros(3), l1=l1)
    assert not result.converged
    assert "line search" in result.message
    np.testing.assert_array_equal(result.w, np.zeros(3))
    assert result.n_evaluations <= 21


@pytest.mark.parametrize("l1", [0.0, 0.1])
def test_a_wrong_gradient(l1: float) -> None:
    objective, _ = logistic()

    def wrong_gradient(w: Any, gradient: Any) -> float:
        loss = objective(w, gradient)
        gradient *= -1.0
        return loss

    w0 = np.full(20, 0.3)
    result = lbfgs(wrong_gradient, w0, l1=l1)
    assert not result.converged
    assert result.loss <= loss_and_gradient(objective, w0)[0] + l1 * np.abs(w0).sum()


def test_unbounded_loss_ends() -> None:
    def objective(w: Any, gradient: Any) -> float:
        gradient[:] = -1.0
        return float(-w.sum())

    result = lbfgs(objective, np.zeros(2), epsilon=1e-3, period=0, max_iter=100)
    assert result.n_iter <= 100
    assert math.isfinite(result.loss)


def test_first_loss_is_not_finite() -> None:
    def loss_nan(w: Any, gradient: Any) -> float:
        gradient[:] = 0.0
        return math.nan

    def gradient_nan(w: Any, gradient: Any) -> float:
        gradient[:] = 0.0
        gradient[2] = math.nan
        return 1.0

    with pytest.raises(OptimizationError, match="loss at the first weights is nan"):
        lbfgs(loss_nan, np.zeros(3))
    with pytest.raises(OptimizationError, match="nan at position 2"):
        lbfgs(gradient_nan, np.zeros(3))


def test_gradient_that_becomes_nan() -> None:
    def objective(w: Any, gradient: Any) -> float:
        gradient[:] = np.nan if w[0] > 0.5 else w - 1.0
        return float(((w - 1.0) ** 2).sum() / 2)

    with pytest.raises(OptimizationError, match="iteration 1"):
        lbfgs(objective, np.zeros(3), l1=1e-9)
    assert (
        lbfgs(objective, np.zeros(3)).w[0] <= 0.5
    )  # for the search, NaN means that the step is too long
