"""The steps that each line search tries, against a recorded table.

The sum of the steps depends on every constant and on every case of a search. For the first steps of
real runs, test_lbfgs.py compares them with those of CRFsuite.
"""

import math
import sys
from collections.abc import Callable

import pytest
from test_linesearch import SEARCHES, Recorded, paper_1, paper_2, paper_3

from trellis.optim.linesearch import (
    EvaluateStep,
    Search,
    _accept_lowest,
    _cubic_minimum,
    _cubic_minimum_beyond,
    _cubic_terms,
    _highest_loss,
    _is_exhausted,
    _shrink,
    _Trial,
    armijo,
    more_thuente,
)

TRIALS = 25


def barrier(t: float) -> tuple[float, float]:
    """Return a loss that is NaN at 1 and beyond."""
    if t >= 1.0:
        return math.nan, math.nan
    return -math.log(1.0 - t) - 3.0 * t, 1.0 / (1.0 - t) - 3.0


def quartic(t: float) -> tuple[float, float]:
    return (t - 7) ** 4 + 0.3 * (t - 7) ** 2, 4 * (t - 7) ** 3 + 0.6 * (t - 7)


def wavy(t: float) -> tuple[float, float]:
    """Return a loss with many minima."""
    loss = -0.1 * t + math.cos(3 * t) - 0.5 * math.sin(t)
    return loss, -0.1 - 3 * math.sin(3 * t) - 0.5 * math.cos(t)


def steep(t: float) -> tuple[float, float]:
    """Return a loss that falls faster and faster, up to 50, and is infinite beyond."""
    return (-(t**3) - 0.1 * t, -3 * t * t - 0.1) if t < 50 else (math.inf, math.nan)


def rising(t: float) -> tuple[float, float]:
    """Return a loss that rises, although the slope at 0 is said to be negative."""
    return 1.0 + t, 1.0


def large(t: float) -> tuple[float, float]:
    """Return a loss whose changes are near its rounding error."""
    return 1e12 - t + 0.5 * t * t, t - 1.0


def unbounded(t: float) -> tuple[float, float]:
    return -t, -1.0


# The first step, then for each search the number of trials and the sum of their steps.
Row = tuple[float, *tuple[tuple[int, float], ...]]
STEPS: dict[EvaluateStep, list[Row]] = {
    paper_1: [
        (0.001, (5, 0.453), (9, 0.721163679), (9, 0.721163679)),
        (0.1, (2, 0.6), (3, 0.751), (3, 0.751)),
        (10.0, (1, 10.0), (1, 10.0), (1, 10.0)),
        (1000.0, (3, 1444.36834), (4, 1875.0), (4, 1875.0)),
    ],
    paper_2: [
        (0.001, (12, 15.7271616), (11, 3.18343182), (26, 25.9016184)),
        (0.1, (8, 10.2113841), (5, 3.62191), (26, 43.0459266)),
        (10.0, (8, 20.9598601), (16, 45.5325317), (26, 59.3369035)),
        (1000.0, (11, 1293.86922), (10, 1998.04688), (26, 2025.44378)),
    ],
    paper_3: [
        (0.001, (12, 10.811479), (11, 3.18343182), (26, 20.1341265)),
        (0.1, (10, 9.87781839), (5, 3.62191), (26, 24.5449916)),
        (10.0, (10, 17.3073708), (4, 18.75), (26, 45.1557851)),
        (1000.0, (13, 1015.73129), (10, 1998.04688), (26, 2013.88683)),
    ],
    barrier: [
        (0.001, (5, 0.453), (8, 0.342935085), (8, 0.342935085)),
        (0.1, (2, 0.6), (2, 0.31), (2, 0.31)),
        (10.0, (3, 13.125), (5, 19.375), (5, 19.375)),
        (1000.0, (7, 1333.4934), (12, 1999.51172), (12, 1999.51172)),
    ],
    quartic: [
        (0.001, (5, 0.453), (9, 0.721163679), (9, 0.721163679)),
        (0.1, (2, 0.6), (3, 0.751), (3, 0.751)),
        (10.0, (1, 10.0), (1, 10.0), (1, 10.0)),
        (1000.0, (4, 1207.24797), (8, 1992.1875), (8, 1992.1875)),
    ],
    wavy: [
        (0.001, (8, 3.85480917), (11, 3.18343182), (21, 17.4692969)),
        (0.1, (3, 2.7), (5, 3.62191), (9, 9.80154378)),
        (10.0, (4, 13.1779817), (1, 10.0), (3, 25.5)),
        (1000.0, (6, 76858.6501), (2, 3100.0), (6, 9772.75)),
    ],
    steep: [
        (0.001, (26, 966.2865), (26, 667.958242), (26, 667.958242)),
        (0.1, (26, 1207.68911), (26, 1091.83809), (26, 1091.83809)),
        (10.0, (26, 1142.53411), (26, 1317.26559), (26, 1317.26559)),
        (1000.0, (26, 2448.18378), (26, 3204.46235), (26, 3204.46235)),
    ],
    rising: [
        (0.001, (25, 0.00116227766), (25, 0.00199999994), (25, 0.00199999994)),
        (0.1, (25, 0.116227766), (25, 0.199999994), (25, 0.199999994)),
        (10.0, (25, 11.6227766), (25, 19.9999994), (25, 19.9999994)),
        (1000.0, (25, 1162.27766), (25, 1999.99994), (25, 1999.99994)),
    ],
    large: [
        (0.001, (5, 0.453), (8, 0.342935085), (8, 0.342935085)),
        (0.1, (1, 0.1), (1, 0.1), (1, 0.1)),
        (10.0, (2, 11.0), (4, 18.75), (4, 18.75)),
        (1000.0, (2, 1001.0), (10, 1998.04688), (11, 1999.02344)),
    ],
    unbounded: [
        (0.001, (26, 875699928000.0), (26, 157405.667), (26, 157405.667)),
        (0.1, (26, 87569992800000.0), (26, 15740566.7), (26, 15740566.7)),
        (10.0, (26, 8756999280000000.0), (26, 1574056670.0), (26, 1574056670.0)),
        (1000.0, (26, 8.75699928e17), (26, 157405667000.0), (26, 157405667000.0)),
    ],
}


@pytest.mark.parametrize("phi", STEPS)
def test_steps_as_recorded(phi: EvaluateStep) -> None:
    loss, slope = phi(0.0)
    for first, *expected in STEPS[phi]:
        for search, (trials, total) in zip(SEARCHES.values(), expected, strict=True):
            recorded = Recorded(phi)
            search(recorded, loss, -abs(slope), first, TRIALS)
            assert len(recorded.steps) == trials
            assert sum(recorded.steps) == pytest.approx(total, rel=1e-7)


# --- the limits of each condition ---------------------------------------------------------------

UP, DOWN = math.inf, -math.inf
BACKTRACKING = [search for name, search in SEARCHES.items() if name != "more-thuente"]


def test_armijo_accepts_up_to_its_bound() -> None:
    for loss, expected in ((-1e-4, 1.0), (math.nextafter(-1e-4, UP), 0.5)):
        assert armijo(lambda t, loss=loss: (loss if t == 1.0 else -1.0, -1.0), 0.0, 1.0, 9) == (
            expected,
            None,
        )


@pytest.mark.parametrize("search", SEARCHES.values())
def test_losses_and_slopes_at_the_bounds(search: Callable[..., Search]) -> None:
    """φ(0) is 0 and φ′(0) is -1, so the bounds at t = 1 are -1e-4 and ±0.9."""

    def is_accepted(loss: float, slope: float) -> bool:
        recorded = Recorded(lambda t: (loss, slope))
        return search(recorded, 0.0, -1.0, 1.0, 2).step == 1.0 and len(recorded.steps) == 1

    assert is_accepted(-1e-4, 0.0)
    assert not is_accepted(math.nextafter(-1e-4, UP), 0.0)
    assert is_accepted(-0.5, -0.9)
    assert not is_accepted(-0.5, math.nextafter(-0.9, DOWN))
    assert is_accepted(-0.5, 0.9)
    is_weak = search is SEARCHES["backtracking"]
    assert is_accepted(-0.5, math.nextafter(0.9, UP)) == is_weak
    assert not is_accepted(-0.5, math.nan)
    assert not is_accepted(math.nan, 0.0)


def test_rounding_errors_of_the_loss_are_accepted() -> None:
    rounding = 4.0 * sys.float_info.epsilon
    assert _highest_loss(0.0, -2.0, 3.0) == pytest.approx(-6e-4, rel=1e-15)
    assert _highest_loss(100.0, -1.0, 1.0) == 100.0 - 1e-4
    assert _highest_loss(1e6, -1e-9, 1.0) == 1e6 + rounding * 1e6 > 1e6
    assert _highest_loss(-1e6, -1e-9, 1.0) == -1e6 + rounding * 1e6
    loss = 1e-4 / rounding  # the required change is as large as the rounding error
    assert _highest_loss(loss, -1.0, 1.0) == loss + 1e-4
    assert _highest_loss(loss, -1.0, 1.0000001) < loss


@pytest.mark.parametrize("search", [armijo, *BACKTRACKING])
def test_the_shortest_step(search: Callable[..., Search]) -> None:
    recorded = Recorded(lambda t: (1.0, -t))
    slope = [] if search is armijo else [-1.0]
    assert search(recorded, 0.0, *slope, 2e-20, 50).failure is not None
    assert recorded.steps == [2e-20, 1e-20]


@pytest.mark.parametrize("search", BACKTRACKING)
def test_the_longest_step(search: Callable[..., Search]) -> None:
    first = 1e20 / 2.1
    assert first * 2.1 == 1e20
    recorded = Recorded(lambda t: (-t, -1.0))
    assert search(recorded, 0.0, -1.0, first, 50) == Search(1e20)
    assert recorded.steps == [first, 1e20, 1e20]


@pytest.mark.parametrize("search", BACKTRACKING)
def test_of_equal_losses_the_first_is_accepted(search: Callable[..., Search]) -> None:
    recorded = Recorded(lambda t: (-1.0, -5.0))
    assert search(recorded, 0.0, -1.0, 1.0, 3) == Search(1.0)
    assert recorded.steps == pytest.approx([1.0, 2.1, 4.41, 1.0])


def test_a_search_ends_when_its_interval_is_empty() -> None:
    recorded = Recorded(lambda t: (-t, -1.0) if t < 1.0 else (9.0, 1.0))  # no slope is flat
    assert more_thuente(recorded, 0.0, -1.0, 3.0, 500).step == pytest.approx(1.0, rel=1e-7)
    assert len(recorded.steps) == 80
    # The loss always rises: the steps shrink to the shortest one, and then there is no other.
    recorded = Recorded(lambda t: (1.0 + t, 1.0))
    assert more_thuente(recorded, 1.0, -1.0, 1.0, 500).failure is not None
    assert min(recorded.steps) == 1e-20
    assert len(recorded.steps) == 33


@pytest.mark.parametrize(
    ("low", "high", "step", "expected"),
    [(0, 1, 0.5, False), (1, 0, 0.5, False), (0, 1, 1, True), (0, 1, 0, True), (1, 0, 2, True)],
)
def test_exhausted_intervals(low: float, high: float, step: float, expected: bool) -> None:
    ends = _Trial(low, 0.0, 0.0), _Trial(high, 0.0, 0.0)
    assert _is_exhausted(*ends, step, True) is expected
    assert _is_exhausted(*ends, step, False) is False


def test_the_lowest_trial_is_accepted_if_its_loss_is_low_enough() -> None:
    last = _Trial(9.0, 5.0, 0.0)
    for loss, accepted in ((-1e-4, True), (math.nextafter(-1e-4, UP), False), (0.0, False)):
        recorded = Recorded(lambda t: (0.0, 0.0))
        search = _accept_lowest(recorded, _Trial(1.0, loss, 0.0), 0.0, -1.0, last)
        assert recorded.steps == ([1.0] if accepted else [])
        assert (search.step, search.failure is None) == ((1.0, True) if accepted else (9.0, False))


def test_the_interval_after_a_trial() -> None:
    low, high = _Trial(1.0, -1.0, -1.0), _Trial(3.0, 2.0, 1.0)

    def shrink(loss: float, slope: float, tilt: float = 0.0) -> tuple[_Trial, _Trial, bool]:
        trial = _Trial(2.0, loss, slope)
        start, end, is_bounded = _shrink(low, high, trial, False, tilt)
        assert _shrink(low, high, trial, True, tilt) == (start, end, True)
        return start, end, is_bounded

    higher, equal = _Trial(2.0, -0.5, 1.0), _Trial(2.0, -1.0, 1.0)
    assert shrink(-0.5, 1.0) == (low, higher, True)
    assert shrink(-1.0, 1.0) == (equal, low, True)
    assert shrink(-1.0, -1.0) == (equal._replace(slope=-1.0), high, False)
    assert shrink(-1.0, 0.0) == (equal._replace(slope=0.0), high, False)
    # The tilt is subtracted from both slopes, and tilt times the step from both losses.
    trial = _Trial(2.0, -1.5, -0.5)
    assert shrink(-1.5, -0.5, -0.75) == (low, trial, True)  # -1.5 + 1.5 > -1 + 0.75
    assert shrink(-1.75, -0.5, -0.75) == (trial._replace(loss=-1.75), low, True)
    assert shrink(-1.75, -0.5, -0.25) == (trial._replace(loss=-1.75), high, False)
    assert shrink(-1.75, -0.5, 0.75) == (trial._replace(loss=-1.75), high, False)


@pytest.mark.parametrize(
    ("a", "b", "minimum"),
    [
        # losses and slopes of t³ - 3t, whose minimum is at 1
        ((0.0, 0.0, -3.0), (2.0, 2.0, 9.0), 1.0),
        ((2.0, 2.0, 9.0), (0.0, 0.0, -3.0), 1.0),
        ((0.0, 0.0, -3.0), (0.5, -1.375, -2.25), 1.0),
        ((0.0, 1.0, 0.0), (2.0, 1.0, 0.0), 1.0),  # a constant: the middle
        ((0.0, 0.0, -1.0), (1.0, -0.75, -0.5), 2.0),  # a parabola; the denominator is 1
    ],
)
def test_minima_of_cubics(a: tuple[float, ...], b: tuple[float, ...], minimum: float) -> None:
    assert _cubic_minimum(_Trial(*a), _Trial(*b)) == pytest.approx(minimum, rel=1e-14)


def test_minima_of_cubics_beyond_a_trial() -> None:
    limits = (0.25, 8.0)
    a, b = _Trial(0.0, 0.0, -3.0), _Trial(0.5, -1.375, -2.25)
    assert _cubic_minimum_beyond(a, b, limits) == pytest.approx(1.0)
    # t³ + 3t and its mirror image have no minimum; a constant has no slope
    assert _cubic_minimum_beyond(_Trial(0, 0, 3), _Trial(1, 4, 6), limits) == 8.0
    assert _cubic_minimum_beyond(_Trial(1, 4, 6), _Trial(0, 0, 3), limits) == 0.25
    assert _cubic_minimum_beyond(_Trial(0, 1, 0), _Trial(2, 1, 0), limits) == 8.0
    assert _cubic_minimum_beyond(_Trial(2, 1, 0), _Trial(0, 1, 0), limits) == 0.25
    # the minimum of t³ - 3t is between the trials, not beyond
    assert _cubic_minimum_beyond(_Trial(0.0, 0.0, -3.0), _Trial(2.0, 2.0, 9.0), limits) == 8.0
    assert _cubic_terms(_Trial(0, 1, 0), _Trial(2, 1, 0)) == (0.0, 0.0)


@pytest.mark.parametrize("scale", [0.01, 0.1, 1.0, 100.0])
def test_exact_minima_of_cubics(scale: float) -> None:
    def trial(step: float, sign: float) -> _Trial:
        """f(s) = sign · s³ / 3 − s has its minimum at 1, or falls everywhere."""
        loss, slope = sign * step**3 / 3.0 - step, sign * step**2 - 1.0
        return _Trial(step, scale * loss, scale * slope)

    limits = (0.05, 9.0)
    assert _cubic_minimum_beyond(trial(0.0, 1), trial(0.5, 1), limits) == pytest.approx(1.0)
    assert _cubic_minimum_beyond(trial(2.0, 1), trial(1.5, 1), limits) == pytest.approx(1.0)
    assert _cubic_minimum_beyond(trial(0.0, -1), trial(0.5, -1), limits) == 9.0
    assert _cubic_minimum_beyond(trial(0.5, -1), trial(0.25, -1), limits) == 0.05
    assert _cubic_minimum(trial(0.5, 1), trial(2.0, 1)) == pytest.approx(1.0)
