"""Gradient descent: the plain algorithm, without curvature."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis.checks import as_integer, number_at_least, read_counts
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

_MAX_TRIALS = 60  # halvings of the step: 2⁻⁶⁰ is below the rounding error of the weights
StepSize: TypeAlias = float | Callable[[int], float]
"""The length of a step, or a schedule: ``step(iteration) -> length``, with iterations from 1."""
# A smaller relative change of the loss may be a rounding error. Then the loss does not show whether
# a step is good.
_ROUNDING = 8.0 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class GradientState:
    """The state from which gradient descent resumes. The result has the bits of an unbroken run."""

    w: Vector
    step: float
    iteration: int
    evaluations: int

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as plain arrays, for storage."""
        counts = np.array([self.iteration, self.evaluations], dtype=np.int64)
        return {"w": self.w, "step": np.array([self.step]), "counts": counts}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> GradientState:
        """Return the state from the arrays of `to_arrays`; raise InputError for invalid arrays."""
        try:
            w = first_weights(arrays["w"])
            step, (iteration, evaluations) = float(arrays["step"][0]), arrays["counts"]
            if not np.isfinite(step):
                raise ValueError(f"the step is {step}")
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise InputError(f"not a state of gradient descent: {error}") from None
        name = "counts of a state of gradient descent"
        return cls(w, step, *read_counts([iteration, evaluations], name))

    def check(self, w0: Any) -> None:
        """Raise InputError if the shape of w0 is not the shape of the state's weights."""
        if w0 is not None and np.shape(w0) != self.w.shape:
            raise InputError(f"w0 has shape {np.shape(w0)}, but the state has {self.w.shape}")


def gradient_ascent(
    objective: Objective,
    w0: Any,
    *,
    step: StepSize | None = None,
    max_iter: int = 1000,
    tolerance: float = 1e-5,
    callback: Callback | None = None,
    state: GradientState | None = None,
) -> Result[GradientState]:
    """Repeat w ← w - t ∇loss(w): ascent on the log-likelihood, if the loss is its negative.

    ``step`` is t: a number, or a schedule, a function of the number of the iteration, from 1. With
    None, each iteration first tries twice the last t and halves it until the loss falls by 10⁻⁴ of
    the decrease that the slope predicts. The run has converged when
    ‖∇‖ ≤ tolerance · max(1, ‖w‖), or when a further step changes the loss by less than its
    rounding error.

    >>> def bowl(w, gradient):
    ...     gradient[:] = 2 * (w - [3, -1])
    ...     return ((w - [3, -1]) ** 2).sum()
    >>> gradient_ascent(bowl, [0, 0], step=0.25).w.round(4).tolist()
    [3.0, -1.0]
    >>> gradient_ascent(bowl, [0, 0], step=lambda k: 1 / (k + 1), max_iter=3).w.round(4).tolist()
    [3.0, -1.0]
    """
    advance: Advance
    if step is None:
        # Each iteration starts with twice the last step: 0.5 makes the first trial 1.
        advance = _Backtracking(state.step if state and state.iteration else 0.5)
    else:
        check_step(step)
        advance = _Schedule(step, state.iteration if state else 0)
    return descend(objective, w0, advance, max_iter, tolerance, callback, state)


def check_step(step: Any) -> None:
    """Raise InputError unless a step size is a positive number, a function, or None."""
    if step is not None and not callable(step) and number_at_least(step, 0.0, "step") == 0.0:
        raise InputError("step is 0: must be more than 0")


class Move(NamedTuple):
    """The result of one iteration: the next point and the step that led to it."""

    point: Point
    """The new point, or the old one if no step was possible."""
    step: float
    last: tuple[bool, str] | None = None
    """(converged, message) if this was the last iteration."""


Advance: TypeAlias = Callable[[Evaluations, Point], Move]


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
    """Call ``advance`` until the gradient is small. gradient_ascent and newton share this loop."""
    limit = as_integer(max_iter, "max_iter")
    if limit < 0:
        raise InputError(f"max_iter must be at least 0, not {limit}")
    tolerance = number_at_least(tolerance, 0.0, "tolerance")
    if state is None:
        state = GradientState(first_weights(w0), 0.0, 0, 0)
    else:
        state.check(w0)
    # A resumed run evaluates its first point again. The earlier run has already counted it.
    evaluate = Evaluations(objective, max(0, state.evaluations - 1))
    current = _first_point(evaluate, state.w.copy())
    start_time = time.perf_counter()
    iteration, step, stop_reason = state.iteration, state.step, None
    while stop_reason is None:
        gradient_norm = float(np.linalg.norm(current.gradient))
        if gradient_norm <= tolerance * max(1.0, float(np.linalg.norm(current.w))):
            stop_reason = True, f"the norm of the gradient is at most {tolerance:g} of the weights'"
        elif iteration == limit:
            stop_reason = False, f"the limit of {limit} iterations"
        else:
            point, step, stop_reason = advance(evaluate, current)
            iteration += point is not current
            current = point
            state = GradientState(current.w, step, iteration, evaluate.count)
            seconds = time.perf_counter() - start_time
            if callback and callback(
                _progress(current, state, seconds, resumable and stop_reason is None)
            ):
                stop_reason = False, "stopped by the callback"
    converged, message = stop_reason
    final_state = (
        GradientState(current.w.copy(), step, iteration, evaluate.count) if resumable else None
    )
    return Result(
        current.w, current.loss, iteration, converged, message, final_state, evaluate.count
    )


class _Schedule:
    """Gradient steps of given lengths: a constant, or a function of the number of the iteration."""

    def __init__(self, step: StepSize, iteration: int) -> None:
        self._step, self._iteration = step, iteration

    def __call__(self, evaluate: Evaluations, current: Point) -> Move:
        self._iteration += 1
        step = self._step
        if callable(step):
            name = f"step({self._iteration})"
            step = number_at_least(step(self._iteration), 0.0, name)
            if step == 0.0:
                raise InputError(f"{name} is 0: must be more than 0")
        step = float(step)
        point = point_at(evaluate, current.w - step * current.gradient)
        if not math.isfinite(point.loss):
            raise OptimizationError(
                f"the loss is {point.loss} after iteration {self._iteration}: a step of {step} is "
                "too long"
            )
        return Move(point, step)


class _Backtracking:
    """Gradient steps that start with twice the last step length."""

    def __init__(self, last_step: float) -> None:
        self._step = last_step

    def __call__(self, evaluate: Evaluations, current: Point) -> Move:
        slope = -float(current.gradient @ current.gradient)
        move = search_along(evaluate, current, -current.gradient, slope, 2.0 * self._step)
        self._step = move.step
        return move


def search_along(
    evaluate: Evaluations, current: Point, d: Vector, slope: float, step: float
) -> Move:
    """Move to w + t d with the first of t, t/2, t/4 ... that lowers the loss enough."""
    if -step * slope <= _ROUNDING * abs(current.loss):
        return _last_move(evaluate, current, d, step)
    point = current

    def evaluate_step(t: float) -> tuple[float, float]:
        nonlocal point
        point = point_at(evaluate, current.w + t * d)
        return point.loss, t * slope

    search = armijo(evaluate_step, current.loss, step, _MAX_TRIALS)
    if search.failure is not None:
        return Move(current, search.step, (False, search.failure))
    return Move(point, search.step)


def _last_move(evaluate: Evaluations, current: Point, d: Vector, step: float) -> Move:
    """Take a step whose effect on the loss is below rounding, if it shrinks the gradient."""
    point = point_at(evaluate, current.w + step * d)
    is_better = np.linalg.norm(point.gradient) < np.linalg.norm(current.gradient)
    message = "a further step is below the rounding error of the loss"
    return Move(point if is_better else current, step, (True, message))


def _first_point(evaluate: Evaluations, w: Vector) -> Point:
    gradient = np.empty_like(w)
    return Point(w, gradient, gradient, evaluate.at_first_weights(w, gradient))


def point_at(evaluate: Evaluations, w: Vector) -> Point:
    """Evaluate the loss and its gradient at w."""
    gradient = np.empty_like(w)
    return Point(w, gradient, gradient, evaluate(w, gradient))


def _progress(point: Point, state: GradientState, seconds: float, resumable: bool) -> Progress:
    return Progress(
        state.iteration,
        point.loss,
        float(np.linalg.norm(point.gradient)),
        int(np.count_nonzero(point.w)),
        state.step,
        state.evaluations,
        seconds,
        read_only(point.w),
        (lambda: state) if resumable else None,
    )
