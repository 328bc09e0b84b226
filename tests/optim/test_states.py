"""`Progress.state` of every solver: a run resumed from any iteration gives the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import logistic, quadratic, rosenbrock
from scale import examples
from test_online import SOLVERS, Toy

from trellis.errors import InputError
from trellis.optim import LbfgsState, gradient_ascent, lbfgs
from trellis.optim.gradient import GradientState
from trellis.optim.online import OnlineState
from trellis.optim.result import Progress, Result

TOY = Toy(3, n=12)
START = np.linspace(-1.0, 2.0, 8)

# A function that runs a solver with more options. RUNS: name -> (runner, class of its states).
Runner = Callable[..., Result[Any]]


def batch(solve: Any, objective: Any, w0: Any, **options: Any) -> Runner:
    return lambda **more: solve(objective, w0, **options, **more)


def online(name: str, **options: Any) -> Runner:
    solve, settings = SOLVERS[name]
    w0 = np.zeros(TOY.size)
    return lambda **more: solve(
        TOY.learner, 12, w0, **{"random_state": 3, "max_iter": 8, **settings, **options, **more}
    )


RUNS: dict[str, tuple[Runner, Any]] = {
    "lbfgs": (batch(lbfgs, rosenbrock, START, max_iter=40), LbfgsState),
    "lbfgs, to the end": (batch(lbfgs, quadratic()[0], np.zeros(30)), LbfgsState),
    "lbfgs, short memory": (batch(lbfgs, rosenbrock, START, memory=1, max_iter=30), LbfgsState),
    "lbfgs, no period": (batch(lbfgs, rosenbrock, START, period=0), LbfgsState),
    "lbfgs, backtracking": (
        batch(lbfgs, rosenbrock, START, linesearch="backtracking", max_iter=30),
        LbfgsState,
    ),
    "lbfgs with l1": (batch(lbfgs, logistic()[0], np.zeros(20), l1=3.0), LbfgsState),
    "lbfgs with some l1": (
        batch(lbfgs, logistic()[0], np.ones(20), l1=3.0, penalised=np.arange(20) % 2 == 0),
        LbfgsState,
    ),
    "gradient": (batch(gradient_ascent, logistic()[0], np.zeros(20), max_iter=25), GradientState),
    "gradient, to the end": (
        batch(gradient_ascent, quadratic(4, 3.0)[0], np.zeros(4)),
        GradientState,
    ),
    "gradient, to the last digit": (
        batch(gradient_ascent, quadratic(4, 3.0)[0], np.zeros(4), tolerance=0.0),
        GradientState,
    ),
    "gradient, fixed step": (
        batch(gradient_ascent, logistic()[0], np.zeros(20), step=0.01, max_iter=10),
        GradientState,
    ),
    **{name: (online(name), OnlineState) for name in SOLVERS},
    "perceptron, to the end": (online("perceptron", max_iter=60), OnlineState),
    "passive-aggressive, variants": (
        online("passive-aggressive", variant=2, average=False),
        OnlineState,
    ),
}


def run_and_record(runner: Runner, **more: Any) -> tuple[Result[Any], list[Progress], list[Any]]:
    """Return the result, and the progress and the arrays of the state after each iteration."""
    steps: list[Progress] = []
    states: list[Any] = []

    def callback(progress: Progress) -> None:
        steps.append(progress._replace(w=progress.w.copy(), seconds=0.0, state=None))
        arrays = progress.state().to_arrays() if progress.state else None
        states.append(arrays and {name: array.copy() for name, array in arrays.items()})

    return runner(callback=callback, **more), steps, states


def assert_same_steps(actual: list[Progress], expected: list[Progress]) -> None:
    assert len(actual) == len(expected)
    for step, other in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(step.w, other.w)
        np.testing.assert_equal(step._replace(w=None), other._replace(w=None))


def assert_same_result(actual: Result[Any], expected: Result[Any]) -> None:
    np.testing.assert_array_equal(actual.w, expected.w)
    assert (actual.loss, actual.n_iter) == (expected.loss, expected.n_iter)
    assert (actual.converged, actual.message) == (expected.converged, expected.message)
    assert actual.n_evaluations == expected.n_evaluations


@pytest.mark.parametrize("name", RUNS)
def test_resume_from_any_iteration(name: str) -> None:
    runner, kind = RUNS[name]
    uninterrupted, steps, states = run_and_record(runner)
    assert len(steps) > 3
    assert [step.iteration for step in steps] == [*range(1, uninterrupted.n_iter + 1)]
    last = len(states)
    assert None not in states[:-1]  # only the last step has no state
    for at in sorted({1, 2, 3, 5, 8, 13, 21, last - 1, last} & {*range(last + 1)}):
        if (arrays := states[at - 1]) is None:
            continue
        for _ in range(2 if at < 3 else 1):  # arrays may be used more than once
            result, rest, _ = run_and_record(runner, state=kind.from_arrays(arrays))
            assert_same_steps(rest, steps[at:])
            assert_same_result(result, uninterrupted)


@pytest.mark.parametrize("name", RUNS)
def test_states_of_a_resumed_run(name: str) -> None:
    """The states of a resumed run equal those of the uninterrupted run."""
    runner, kind = RUNS[name]
    _, _, states = run_and_record(runner)
    _, _, later = run_and_record(runner, state=kind.from_arrays(states[1]))
    for state, other in zip(later, states[2:], strict=True):
        assert (state is None) == (other is None)
        for key in state or ():
            np.testing.assert_array_equal(state[key], other[key])


@pytest.mark.parametrize("name", RUNS)
def test_reading_the_state_does_not_change_the_run(name: str) -> None:
    runner, _ = RUNS[name]
    asked, steps, _ = run_and_record(runner)
    assert_same_result(runner(), asked)
    silent: list[float] = []
    runner(callback=lambda progress: silent.append(progress.loss))
    assert silent == [step.loss for step in steps]


@pytest.mark.parametrize("name", RUNS)
def test_arrays_are_plain(name: str) -> None:
    """A file can store them: contiguous arrays of numbers, at least one-dimensional."""
    _, _, states = run_and_record(RUNS[name][0])
    for arrays in filter(None, states):
        for key, array in arrays.items():
            assert isinstance(key, str)
            assert array.dtype in (np.float64, np.int64, np.uint64), key
            assert array.ndim >= 1


@pytest.mark.parametrize("name", RUNS)
def test_an_intermediate_state_equals_that_of_a_shorter_run(name: str) -> None:
    runner, _ = RUNS[name]
    _, _, states = run_and_record(runner)
    stops: list[int] = []
    stopped = runner(callback=lambda progress: stops.append(progress.iteration) or len(stops) == 2)
    assert (stopped.n_iter, stopped.converged) == (2, False)
    arrays = stopped.state.to_arrays()
    assert arrays.keys() == states[1].keys()
    for key, array in arrays.items():
        np.testing.assert_array_equal(array, states[1][key])


@given(
    seed=st.integers(0, 10**6),
    size=st.integers(1, 12),
    memory=st.integers(1, 8),
    l1=st.sampled_from([0.0, 0.5, 5.0]),
    at=st.integers(1, 30),
)
@settings(max_examples=examples(60), deadline=None)
def test_any_problem_of_lbfgs(seed: int, size: int, memory: int, l1: float, at: int) -> None:
    objective, _ = logistic(rows=30, n=size, l2=0.1, seed=seed)
    runner = batch(lbfgs, objective, np.zeros(size), memory=memory, l1=l1, max_iter=40)
    uninterrupted, steps, states = run_and_record(runner)
    if states:
        at = min(at, len(states))
        result, rest, _ = run_and_record(runner, state=LbfgsState.from_arrays(states[at - 1]))
        assert_same_steps(rest, steps[at:])
        assert_same_result(result, uninterrupted)


# ---- invalid states


@pytest.mark.parametrize("name", ["lbfgs", "gradient", "sgd", "perceptron", "arow"])
def test_a_state_with_a_missing_array(name: str) -> None:
    runner, kind = RUNS[name]
    _, _, states = run_and_record(runner)
    for key in states[1]:
        arrays = {k: v for k, v in states[1].items() if k != key}
        with pytest.raises(InputError):
            runner(state=kind.from_arrays(arrays))


@pytest.mark.parametrize("name", ["lbfgs", "gradient"])
@pytest.mark.parametrize("count", [-1, 2**53 + 1, 2**63 - 1])
def test_a_count_out_of_range(name: str, count: int) -> None:
    """A count of 2**63 - 1 would overflow after the next iteration."""
    _, _, states = run_and_record(RUNS[name][0])
    for position in range(len(states[1]["counts"])):
        counts = states[1]["counts"].copy()
        counts[position] = count
        with pytest.raises(InputError, match=rf"counts .* must be 0 to 2\*\*53, not {count}"):
            RUNS[name][1].from_arrays(states[1] | {"counts": counts})


@pytest.mark.parametrize("name", ["lbfgs", "gradient", "sgd", "perceptron", "arow"])
def test_a_state_of_another_problem(name: str) -> None:
    _, kind = RUNS[name]
    _, _, states = run_and_record(RUNS[name][0])
    if kind is OnlineState:
        other = Toy(4, n=12, labels="PQRST")
        solve, settings = SOLVERS[name]
        state = kind.from_arrays(states[1])
        with pytest.raises(InputError):
            solve(other.learner, 12, np.zeros(other.size), state=state, **settings)
    else:
        solve = lbfgs if kind is LbfgsState else gradient_ascent
        with pytest.raises(InputError):
            solve(rosenbrock, np.zeros(3), state=kind.from_arrays(states[1]))


@pytest.mark.parametrize("name", ["lbfgs", "gradient", "sgd"])
@pytest.mark.parametrize("other", ["lbfgs", "gradient", "sgd"])
def test_a_state_of_another_solver(name: str, other: str) -> None:
    if name != other:
        _, _, states = run_and_record(RUNS[other][0])
        with pytest.raises(InputError):
            RUNS[name][1].from_arrays(states[1])
