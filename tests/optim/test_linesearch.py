"""Line searches: an accepted step satisfies both conditions, and every search ends."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples

from trellis.optim.linesearch import EvaluateStep, Search, armijo, backtracking, more_thuente

SEARCHES: dict[str, Callable[..., Search]] = {
    "more-thuente": more_thuente,
    "backtracking": backtracking,
    "strong": lambda *args: backtracking(*args, strong=True),
}
every_search = pytest.mark.parametrize("name", SEARCHES)


class Recorded:
    """The function φ, and a list of the steps at which it was evaluated."""

    def __init__(self, phi: EvaluateStep) -> None:
        self.phi = phi
        self.steps: list[float] = []

    def __call__(self, t: float) -> tuple[float, float]:
        self.steps.append(t)
        return self.phi(t)


# The first three functions of Moré and Thuente (1994), section 5; all slope down at 0.
def paper_1(t: float, beta: float = 2.0) -> tuple[float, float]:
    return -t / (t * t + beta), (t * t - beta) / (t * t + beta) ** 2


def paper_2(t: float, beta: float = 0.004) -> tuple[float, float]:
    return (t + beta) ** 5 - 2 * (t + beta) ** 4, 5 * (t + beta) ** 4 - 8 * (t + beta) ** 3


def paper_3(t: float, beta: float = 0.01, waves: int = 39) -> tuple[float, float]:
    if t <= 1 - beta:
        base, slope = 1 - t, -1.0
    elif t >= 1 + beta:
        base, slope = t - 1, 1.0
    else:
        base, slope = (t - 1) ** 2 / (2 * beta) + beta / 2, (t - 1) / beta
    turn = waves * math.pi / 2
    wave = 2 * (1 - beta) / (waves * math.pi) * math.sin(turn * t)
    return base + wave, slope + (1 - beta) * math.cos(turn * t)


@pytest.mark.parametrize("phi", [paper_1, paper_2, paper_3])
@pytest.mark.parametrize("first", [1e-3, 1e-1, 1e1, 1e3])
def test_functions_of_the_paper(phi: EvaluateStep, first: float) -> None:
    loss, slope = phi(0.0)
    recorded = Recorded(phi)
    search = more_thuente(recorded, loss, slope, first, 40)
    assert search.failure is None
    assert recorded.steps[-1] == search.step
    got, got_slope = phi(search.step)
    assert got <= loss + 1e-4 * search.step * slope
    assert abs(got_slope) <= 0.9 * abs(slope)
    assert len(recorded.steps) <= 20


@every_search
@settings(max_examples=examples(60), deadline=None)
@given(
    minimum=st.floats(1e-3, 1e3),
    curvature=st.floats(1e-3, 1e3),
    quartic=st.floats(0.0, 10.0),
    first=st.floats(1e-3, 1e3),
)
def test_convex(name: str, minimum: float, curvature: float, quartic: float, first: float) -> None:
    def phi(t: float) -> tuple[float, float]:
        u = t - minimum
        loss = 0.5 * curvature * u**2 + quartic * u**4
        return loss, curvature * u + 4 * quartic * u**3

    loss, slope = phi(0.0)
    recorded = Recorded(phi)
    search = SEARCHES[name](recorded, loss, slope, first, 100)
    assert len(recorded.steps) <= 101
    if search.failure is not None:
        assert name == "strong"  # halving and lengthening may repeat forever: the search fails
        return
    got, got_slope = phi(search.step)
    assert recorded.steps[-1] == search.step
    assert got <= loss + 1e-4 * search.step * slope
    assert got_slope >= 0.9 * slope or name == "more-thuente"
    if name != "backtracking":
        assert abs(got_slope) <= 0.9 * abs(slope) * (1 + 1e-9)


@every_search
def test_loss_that_is_not_finite_for_long_steps(name: str) -> None:
    def phi(t: float) -> tuple[float, float]:
        if t >= 1.0:
            return math.nan, math.nan
        return -math.log(1.0 - t) - 3.0 * t, 1.0 / (1.0 - t) - 3.0

    search = SEARCHES[name](phi, 0.0, -2.0, 50.0, 30)
    assert search.failure is None
    assert 0.0 < search.step < 1.0


@every_search
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_loss_that_is_never_finite(name: str, value: float) -> None:
    recorded = Recorded(lambda t: (value, math.nan))
    search = SEARCHES[name](recorded, 1.0, -1.0, 1.0, 15)
    assert search.failure is not None
    assert str(value) in search.failure
    assert len(recorded.steps) == 15


@every_search
def test_loss_that_never_falls(name: str) -> None:
    recorded = Recorded(lambda t: (1.0 + t, 1.0))  # the slope at 0 is wrong
    search = SEARCHES[name](recorded, 1.0, -1.0, 1.0, 25)
    assert search.failure is not None
    assert len(recorded.steps) <= 26


@every_search
def test_unbounded_descent(name: str) -> None:
    recorded = Recorded(lambda t: (-t, -1.0))
    search = SEARCHES[name](recorded, 0.0, -1.0, 1.0, 200)
    assert len(recorded.steps) <= 202
    assert search.failure is not None or search.step > 1e15


def test_armijo_halves() -> None:
    recorded = Recorded(lambda t: ((t - 0.1) ** 2, -0.2 * t))
    search = armijo(recorded, 0.01, 1.0, 20)
    assert search == Search(0.125)
    np.testing.assert_array_equal(recorded.steps, [1.0, 0.5, 0.25, 0.125])
    assert armijo(lambda t: (math.nan, -t), 0.01, 1.0, 20).failure is not None
    assert armijo(lambda t: (0.0, 0.0), 0.01, 1.0, 20).failure is not None
    assert armijo(lambda t: (1.0, -t), 0.01, 1.0, 1000).failure is not None
