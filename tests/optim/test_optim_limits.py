"""Stored states and stopping rules of the solvers at their exact limits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from trellis.errors import InputError
from trellis.optim import block_frank_wolfe, gradient_ascent, lbfgs, newton
from trellis.optim.linesearch import _cubic_minimum_beyond, _Trial, armijo
from trellis.optim.online import OnlineState
from trellis.optim.sgd import SampleLosses, sgd


def square(w: Any, gradient: Any) -> float:
    gradient[:] = w - 1.0
    return float((w - 1.0) @ (w - 1.0)) / 2


def sample_square(i: int, w: Any, gradient: Any) -> float:
    gradient[:] = w - i
    return float((w[0] - i) ** 2) / 2


def sgd_state() -> dict[str, Any]:
    result = sgd(
        SampleLosses(sample_square), 2, np.zeros(1), l2=1.0, max_iter=2, period=0, random_state=0
    )
    assert result.state is not None
    return result.state.to_arrays()


def test_numbers_of_a_stored_state() -> None:
    arrays = sgd_state()
    assert OnlineState.from_arrays(arrays).epoch == 2
    for name in ("vector.w", "number.scale"):
        for value in (math.nextafter(1e300, 0.0), -math.nextafter(1e300, 0.0)):
            OnlineState.from_arrays(arrays | {name: np.array([value])})
        for value in (1e300, -1e300, math.inf, math.nan):
            with pytest.raises(InputError, match=f"{name} is out of range"):
                OnlineState.from_arrays(arrays | {name: np.array([value])})
        for array in (np.ones(1, np.float32), np.ones((1, 1)), np.ones(1, np.int64)):
            with pytest.raises(InputError, match=f"{name} is .* of shape"):
                OnlineState.from_arrays(arrays | {name: array})
    with pytest.raises(InputError, match=r"number.scale is float64 of shape \(2,\)"):
        OnlineState.from_arrays(arrays | {"number.scale": np.ones(2)})
    with pytest.raises(InputError, match=r"unknown prefixes .*'other'"):
        OnlineState.from_arrays(arrays | {"other.x": np.ones(1)})
    with pytest.raises(InputError, match="2 epochs and 1 losses"):
        OnlineState.from_arrays(arrays | {"losses": np.ones(1)})


@pytest.mark.parametrize(("steps", "is_valid"), [(0, True), (2**53, True), (-1, False)])
def test_steps_of_a_stored_state(steps: float, is_valid: bool) -> None:
    vectors = {"w": np.zeros(3), "total": np.zeros(3)}
    state = OnlineState(vectors, {"steps": float(steps)}, 0, [], {})
    if is_valid:
        state.check("perceptron", 3)
        state.numbers["steps"] = float(steps) + 2.0 if steps else -1.0
    with pytest.raises(InputError, match=r"steps of the state is .*: out of range"):
        state.check("perceptron", 3)


def test_states_in_the_progress_of_a_run() -> None:
    """Newton's method cannot be resumed; the last step of a run that has ended needs no state."""
    seen: list[Any] = []
    newton(square, lambda w: np.eye(2), np.zeros(2), callback=lambda p: seen.append(p.state))
    assert seen == [None] * len(seen) != []
    seen.clear()
    result = gradient_ascent(square, np.zeros(2), callback=lambda p: seen.append(p.state))
    assert result.converged
    assert all(state is not None for state in seen[:-1])


def test_the_period_of_lbfgs() -> None:
    """With period 2, the losses of two iterations are compared: delta = 1 always ends then."""
    rosenbrock_steps: list[int] = []

    def rosenbrock(w: Any, gradient: Any) -> float:
        x, y = w
        gradient[:] = -2 * (1 - x) - 400 * x * (y - x * x), 200 * (y - x * x)
        return float((1 - x) ** 2 + 100 * (y - x * x) ** 2)

    for period in (1, 2, 5):
        result = lbfgs(rosenbrock, np.array([-1.2, 1.0]), period=period, delta=1e9)
        assert result.converged
        assert result.message == f"the loss fell by less than 1e+09 in {period} iterations"
        rosenbrock_steps.append(result.n_iter)
    assert rosenbrock_steps == [1, 2, 5]
    assert lbfgs(square, np.zeros(2), period=0, delta=1e9, epsilon=0.0, max_iter=4).n_iter <= 4


@pytest.mark.parametrize("epochs", [1, 2, 5])
def test_the_epochs_of_the_frank_wolfe_method(epochs: int) -> None:
    def oracle(i: int, w: Any) -> tuple[Any, float]:
        psi = np.array([2.0, i])
        return (psi, 1.0) if 1.0 - w @ psi > 0 else (np.zeros(2), 0.0)

    result = block_frank_wolfe(oracle, 3, 2, tolerance=0.0, max_iter=epochs, random_state=0)
    assert result.n_iter == epochs
    assert result.message == f"{epochs} epochs"
    assert not result.converged
    # With an infinite tolerance of the gap, one epoch is enough.
    loose = block_frank_wolfe(oracle, 3, 2, tolerance=1e9, max_iter=9, random_state=0)
    assert (loose.n_iter, loose.converged) == (1, True)


def test_a_cubic_without_a_minimum_beyond() -> None:
    """A line has no minimum: the step is the limit on the side of the second trial."""
    low, trial = _Trial(1.0, -1.0, -1.0), _Trial(2.0, -2.0, -1.0)
    assert _cubic_minimum_beyond(low, trial, (0.5, 8.0)) == 8.0
    assert _cubic_minimum_beyond(trial, low, (0.5, 8.0)) == 0.5


def test_the_first_step_of_backtracking_that_lowers_the_loss() -> None:
    tried: list[float] = []

    def evaluate(t: float) -> tuple[float, float]:
        tried.append(t)
        return (t - 1.0) ** 2 if t < 3 else math.nan, -2.0 * t

    assert armijo(evaluate, 1.0, 8.0, 20).step == tried[-1] == 1.0
    assert tried == [8.0, 4.0, 2.0, 1.0]


def test_a_loss_that_no_longer_falls() -> None:
    """A loss that is constant by rounding ends the run after ten iterations."""

    def constant(w: Any, gradient: Any) -> float:
        gradient[:] = np.sign(np.sin(1e3 * w) + 0.1) * (1 + abs(np.sin(w)))
        return 1e16

    losses: list[float] = []
    result = lbfgs(
        constant,
        np.ones(2),
        period=0,
        epsilon=0.0,
        linesearch="backtracking",
        max_iter=30,
        callback=lambda progress: losses.append(progress.loss),
    )
    assert (result.n_iter, len(losses), result.converged) == (10, 10, True)
    assert result.message.startswith("the loss no longer falls")
