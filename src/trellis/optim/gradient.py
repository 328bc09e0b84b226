"""Plain gradient steps: the algorithm that every other one here improves on."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis.checks import as_integer, number_at_least
from trellis.errors import InputError, OptimizationError
from trellis.optim.linesearch import armijo
from trellis.optim.result import (
    Callback,
    Evaluations,
    Objective,
    Point,
    Progress,
    Result,
    Vector,
    first_weights,
    read_only,
)

_MOST_TRIALS = 60
_ROUNDING = 8.0 * float(np.finfo(np.float64).eps)  # relative: the loss does not show less


@dataclass(frozen=True, eq=False)
class GradientState:
    """What plain steps need to go on: after it, the same bits as if they had not stopped."""

    w: Vector
    step: float
    iteration: int
    evaluations: int

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays, to be stored."""
        counts = np.array([self.iteration, self.evaluations], dtype=np.int64)
        return {"w": self.w, "step": np.array([self.step]), "counts": counts}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "GradientState":
        """The state that `to_arrays` was called on."""
        try:
            w = first_weights(arrays["w"])
            step, (iteration, evaluations) = float(arrays["step"][0]), map(int, arrays["counts"])
            if not (np.isfinite(step) and 0 <= iteration < 2**53 and 0 <= evaluations < 2**53):
                raise ValueError("a step or a count is out of range")
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise InputError(f"not a state of gradient steps: {error}") from None
        return cls(w, step, iteration, evaluations)

    def check(self, w0: Any) -> None:
        """Whether the weights that a run is given are as many."""
        if w0 is not None and np.shape(w0) != self.w.shape:
            raise InputError(f"w0 has shape {np.shape(w0)}, but the state has {self.w.shape}")


def gradient_ascent(
    objective: Objective,
    w0: Any,
    *,
    step: float | None = None,
    max_iter: int = 1000,
    tolerance: float = 1e-5,
    callback: Callback | None = None,
    state: GradientState | None = None,
) -> Result[GradientState]:
    """Repeat w ← w - t ∇loss(w): ascent on the log-likelihood, where the loss is its negative.

    ``step`` is t. With None, each iteration tries twice the last t and halves it until the loss
    falls by 10⁻⁴ of what the slope promises. Converged when ‖∇‖ ≤ tolerance · max(1, ‖w‖), or when
    the loss has no digits left to show another step.

    >>> def bowl(w, gradient):
    ...     gradient[:] = 2 * (w - [3, -1])
    ...     return ((w - [3, -1]) ** 2).sum()
    >>> gradient_ascent(bowl, [0, 0], step=0.25).w.round(4).tolist()
    [3.0, -1.0]
    """
    if step is None:
        search = _Backtracking(state.step if state and state.iteration else 0.5)
        return descend(objective, w0, search, max_iter, tolerance, callback, state)
    fixed = number_at_least(step, 0.0, "step")
    if fixed == 0.0:
        raise InputError("step must be more than 0")

    def advance(evaluate: Evaluations, here: Point) -> Moved:
        there = point_at(evaluate, here.w - fixed * here.gradient)
        if not math.isfinite(there.loss):
            raise OptimizationError(f"the loss is {there.loss}: a step of {fixed} is too long")
        return Moved(there, fixed)

    return descend(objective, w0, advance, max_iter, tolerance, callback, state)


class Moved(NamedTuple):
    """A step that was made, and why it is the last one, if it is."""

    there: Point
    step: float
    last: tuple[bool, str] | None = None
    """Whether that means convergence, and a message."""


Advance: TypeAlias = Callable[[Evaluations, Point], Moved]


def descend(
    objective: Objective,
    w0: Any,
    advance: Advance,
    max_iter: int,
    tolerance: float,
    callback: Callback | None,
    state: GradientState | None = None,
    resumable: bool = True,
) -> Result[Any]:
    """Advance until the gradient is small: the loop of gradient_ascent and newton."""
    limit = as_integer(max_iter, "max_iter")
    if limit < 0:
        raise InputError(f"max_iter must be at least 0, not {limit}")
    tolerance = number_at_least(tolerance, 0.0, "tolerance")
    if state is None:
        state = GradientState(first_weights(w0), 0.0, 0, 0)
    else:
        state.check(w0)
    evaluate = Evaluations(objective, max(0, state.evaluations - 1))  # the first one repeats
    here = _first(evaluate, state.w.copy())
    began = time.perf_counter()
    iteration, step, last = state.iteration, state.step, None
    while last is None:
        norm = float(np.linalg.norm(here.gradient))
        if norm <= tolerance * max(1.0, float(np.linalg.norm(here.w))):
            last = True, f"the norm of the gradient is at most {tolerance:g} of the weights'"
        elif iteration == limit:
            last = False, f"the limit of {limit} iterations"
        else:
            there, step, last = advance(evaluate, here)
            iteration += there is not here
            here = there
            state = GradientState(here.w, step, iteration, evaluate.count)
            seconds = time.perf_counter() - began
            if callback and callback(_progress(here, state, seconds, resumable and last is None)):
                last = False, "stopped by the callback"
    converged, message = last
    ended = GradientState(here.w.copy(), step, iteration, evaluate.count) if resumable else None
    return Result(here.w, here.loss, iteration, converged, message, ended, evaluate.count)


class _Backtracking:
    """Steps that begin with twice the last one."""

    def __init__(self, last: float) -> None:
        self._step = last

    def __call__(self, evaluate: Evaluations, here: Point) -> Moved:
        slope = -float(here.gradient @ here.gradient)
        moved = search_along(evaluate, here, -here.gradient, slope, 2.0 * self._step)
        self._step = moved.step
        return moved


def search_along(evaluate: Evaluations, here: Point, d: Vector, slope: float, step: float) -> Moved:
    """To w + t d with the first of t, t/2, t/4 ... that lowers the loss enough; else nowhere."""
    if -step * slope <= _ROUNDING * abs(here.loss):
        return _last(evaluate, here, d, step)
    there = here

    def along(t: float) -> tuple[float, float]:
        nonlocal there
        there = point_at(evaluate, here.w + t * d)
        return there.loss, t * slope

    search = armijo(along, here.loss, step, _MOST_TRIALS)
    if search.failure is not None:
        return Moved(here, search.step, (False, search.failure))
    return Moved(there, search.step)


def _last(evaluate: Evaluations, here: Point, d: Vector, step: float) -> Moved:
    """A step that is too small for the loss to show: taken if the gradient shows it."""
    there = point_at(evaluate, here.w + step * d)
    better = np.linalg.norm(there.gradient) < np.linalg.norm(here.gradient)
    return Moved(there if better else here, step, (True, "the loss has no digits left to fall"))


def _first(evaluate: Evaluations, w: Vector) -> Point:
    gradient = np.empty_like(w)
    return Point(w, gradient, gradient, evaluate.first(w, gradient))


def point_at(evaluate: Evaluations, w: Vector) -> Point:
    """The loss and its gradient at w."""
    gradient = np.empty_like(w)
    return Point(w, gradient, gradient, evaluate(w, gradient))


def _progress(at: Point, state: GradientState, seconds: float, goes_on: bool) -> Progress:
    return Progress(
        state.iteration,
        at.loss,
        float(np.linalg.norm(at.gradient)),
        int(np.count_nonzero(at.w)),
        state.step,
        state.evaluations,
        seconds,
        read_only(at.w),
        (lambda: state) if goes_on else None,
    )
