"""L-BFGS: minimise loss(w) + l1 · ‖w‖₁ from values and gradients alone.

    dₖ = -Hₖ ∇loss(wₖ),   wₖ₊₁ = wₖ + tₖ dₖ

Hₖ approximates the inverse of the matrix of second derivatives. It is built from the changes of the
weights and of the gradient in the last few steps (Nocedal 1980). tₖ comes from a line search. With
l1 > 0, each step stays inside one orthant (see owlqn.py). Constants and convergence tests are
those of liblbfgs, so that a run takes the same steps as CRFsuite.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.checks import as_integer, number_at_least, one_of, read_counts
from trellis.errors import InputError, OptimizationError
from trellis.native import resolve_jobs
from trellis.optim.linesearch import Search, backtracking, more_thuente
from trellis.optim.owlqn import Orthantwise, penalties
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

__all__ = ["LbfgsState", "lbfgs"]

# The run ends after this number of iterations without a new lowest loss. A few such iterations are
# normal close to the optimum, where changes of the loss are as small as its rounding errors.
_MAX_STALLED = 10
_SEARCHES = ("more-thuente", "backtracking", "strong-backtracking")


@dataclass(frozen=True, eq=False)
class LbfgsState:
    """The state from which L-BFGS resumes. The result has the bits of an unbroken run."""

    w: Vector
    gradient: Vector
    losses: Vector
    """Losses of the last ``period + 1`` iterations, oldest first: the test with ``delta`` reads
    them."""
    lowest: float
    """The lowest loss so far."""
    iteration: int
    evaluations: int
    stalled: int
    """The number of iterations since the lowest loss."""
    pairs: tuple[tuple[Vector, Vector], ...]
    """Changes of the weights and of the gradient, oldest first: views, not copies."""

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as plain arrays, for storage. ``from_arrays`` reads them."""
        n = len(self.w)
        return {
            "w": self.w,
            "gradient": self.gradient,
            "losses": self.losses,
            "lowest": np.array([self.lowest]),
            "counts": np.array([self.iteration, self.evaluations, self.stalled], dtype=np.int64),
            "s": np.array([s for s, _ in self.pairs]).reshape(-1, n),
            "y": np.array([y for _, y in self.pairs]).reshape(-1, n),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> LbfgsState:
        """Return the state from the arrays of ``to_arrays``; raise InputError if invalid."""
        names = ("w", "gradient", "losses", "lowest", "s", "y")
        missing_names = {*names, "counts"} - set(arrays)
        if missing_names:
            raise InputError(f"a state of L-BFGS has no {', '.join(sorted(missing_names))}")
        try:
            values = [np.array(arrays[name], dtype=np.float64) for name in names]
            counters = np.array(arrays["counts"], dtype=np.int64)
        except (TypeError, ValueError) as error:
            raise InputError(f"a state of L-BFGS must contain only numbers: {error}") from None
        w, gradient, losses, lowest, s, y = values
        n_weights, n_losses, n_pairs = w.size, losses.size, len(np.atleast_1d(s))
        shapes = [array.shape for array in (*values, counters)]
        vector, pair_rows = (n_weights,), (n_pairs, n_weights)
        expected = [vector, vector, (n_losses,), (1,), pair_rows, pair_rows, (3,)]
        if shapes != expected or not (n_weights and n_losses):
            raise InputError(
                f"the arrays of a state of L-BFGS have shapes {shapes}: must be {expected}, "
                "with at least one weight and one loss"
            )
        for name, array in zip(names, values, strict=True):
            if not np.isfinite(array).all():
                raise InputError(f"{name} of a state of L-BFGS is not finite")
        pairs = tuple(zip(s, y, strict=True))
        iteration, evaluations, stalled = read_counts(counters, "counts of a state of L-BFGS")
        return cls(w, gradient, losses, float(lowest[0]), iteration, evaluations, stalled, pairs)


def lbfgs(
    objective: Objective,
    w0: Any,
    *,
    l1: float = 0.0,
    memory: int = 6,
    max_iter: int | None = None,
    epsilon: float = 1e-5,
    period: int = 10,
    delta: float = 1e-5,
    max_linesearch: int = 20,
    linesearch: str | None = None,
    penalised: Any = None,
    callback: Callback | None = None,
    n_jobs: int | None = None,
    state: LbfgsState | None = None,
) -> Result[LbfgsState]:
    """argmin_w loss(w) + l1 · Σ |wᵢ|, the sum over the ``penalised`` weights.

    The run has converged when ‖∇‖ ≤ ``epsilon`` · max(1, ‖w‖), or when the last ``period``
    iterations lowered the loss by less than ``delta`` times the loss (``period=0``: no such test).
    ``max_iter=None`` sets no limit. ``linesearch`` is "more-thuente" (default), "backtracking" or
    "strong-backtracking"; with l1 > 0 it is always "backtracking". ``penalised`` is a boolean mask;
    None means all weights.

    With ``state`` from an earlier result, that run is resumed, and w0 may be None. ``max_iter``
    then includes the iterations of the earlier run. Results are the same bits for every ``n_jobs``.

    >>> def bowl(w, gradient):
    ...     gradient[:] = 2 * (w - [3, -0.2])
    ...     return ((w - [3, -0.2]) ** 2).sum()
    >>> lbfgs(bowl, [0, 0]).w.round(6).tolist()
    [3.0, -0.2]
    >>> lbfgs(bowl, [0, 0], l1=1.0).w.round(6).tolist()
    [2.5, 0.0]
    """
    threads = resolve_jobs(n_jobs)
    stop = _validate_stop(max_iter, epsilon, period, delta)
    memory = _validate_count(memory, "memory")
    max_trials = _validate_count(max_linesearch, "max_linesearch")
    l1 = number_at_least(l1, 0.0, "l1")
    search = _validate_search(linesearch, l1)
    w = _first_weights(w0, state, memory)
    evaluate = Evaluations(objective, 0 if state is None else state.evaluations)
    descent: Descent = (
        Orthantwise(evaluate, penalties(l1, penalised, len(w)), max_trials, threads)
        if l1 > 0
        else Smooth(evaluate, search, max_trials, threads)
    )
    run = _Run(descent, w, memory, period, threads)
    if state is not None:
        run.resume(state)
    else:
        run.start()
    return _iterate(run, stop, callback)


class Descent(Protocol):
    """The operations that differ between a smooth loss and a loss with an L1 term."""

    evaluate: Evaluations

    def point(self, w: Vector) -> Point:
        """Return a point at w with new buffers."""

    def finish(self, point: Point, loss: float) -> None:
        """Set slope and loss of a point. ``loss`` is its smooth loss, without the L1 term."""

    def direction(self, memory: _core.LbfgsMemory, current: Point, out: Vector) -> float:
        """Fill ``out`` with d; return the slope along d."""

    def move(self, current: Point, d: Vector, slope: float, step: float, target: Point) -> Search:
        """Search along d. Overwrite ``target`` with the accepted point."""


class Smooth:
    """A loss that is differentiable everywhere."""

    def __init__(self, evaluate: Evaluations, search: str, max_trials: int, threads: int) -> None:
        self.evaluate = evaluate
        self._search, self._max_trials, self._threads = search, max_trials, threads

    def point(self, w: Vector) -> Point:
        """Return a point at w with new buffers. Its slope is its gradient."""
        gradient = np.empty_like(w)
        return Point(w, gradient, gradient)

    def finish(self, point: Point, loss: float) -> None:
        """Set the loss. The slope needs no change: it is the gradient itself."""
        point.loss = loss

    def direction(self, memory: _core.LbfgsMemory, current: Point, out: Vector) -> float:
        """Fill ``out`` with d = -H ∇loss; return the slope along d."""
        return memory.direction(current.slope, out, self._threads)

    def move(self, current: Point, d: Vector, slope: float, step: float, target: Point) -> Search:
        """Move to w + t d for the t of a line search."""

        def evaluate_step(t: float) -> tuple[float, float]:
            _core.step(current.w, d, t, target.w, self._threads)
            target.loss = self.evaluate(target.w, target.gradient)
            return target.loss, _core.dot(target.gradient, d, self._threads)

        if self._search == "more-thuente":
            return more_thuente(evaluate_step, current.loss, slope, step, self._max_trials)
        strong = self._search == "strong-backtracking"
        return backtracking(
            evaluate_step, current.loss, slope, step, self._max_trials, strong=strong
        )


class _Run:
    """The current point, a buffer for the next one, and the memory of the last steps."""

    def __init__(self, descent: Descent, w: Vector, memory: int, period: int, threads: int) -> None:
        self.descent = descent
        self.threads = threads
        self.memory = _core.LbfgsMemory(len(w), memory)
        # The two points swap roles after each step, so no vector is allocated or copied.
        self.current, self.target = descent.point(w), descent.point(np.empty_like(w))
        self.d = np.empty_like(w)
        self.losses: deque[float] = deque(maxlen=period + 1)
        self.lowest, self.stalled = math.inf, 0
        self.iteration = 0
        self.step = 0.0
        self.norms = (0.0, 0.0)  # norm of the weights, norm of the slope

    def start(self) -> None:
        """Evaluate the loss at the first weights."""
        loss = self.descent.evaluate.at_first_weights(self.current.w, self.current.gradient)
        self.descent.finish(self.current, loss)
        self.losses.append(self.current.loss)
        self.lowest = self.current.loss
        self._compute_norms()

    def resume(self, state: LbfgsState) -> None:
        """Continue from the state of an earlier run."""
        self.current.gradient[:] = state.gradient
        self.descent.finish(self.current, 0.0)
        self.current.loss = float(state.losses[-1])
        self.losses.extend(state.losses.tolist())
        self.lowest, self.stalled = state.lowest, state.stalled
        self.iteration = state.iteration
        for s, y in state.pairs:
            self.memory.append(s, y, self.threads)
        self.memory.project(self.current.slope, self.threads)
        self._compute_norms()

    def _compute_norms(self) -> None:
        w, slope = self.current.w, self.current.slope
        self._set_norms(_core.dot(w, w, self.threads), _core.dot(slope, slope, self.threads))

    def _set_norms(self, squared_weights: float, squared_slope: float) -> None:
        if not (math.isfinite(squared_weights) and math.isfinite(squared_slope)):
            raise OptimizationError(
                f"iteration {self.iteration}: the gradient or the weights are not finite, "
                f"with squared norms {squared_slope} and {squared_weights}"
            )
        self.norms = squared_weights**0.5, squared_slope**0.5

    def advance(self, first_length: float = 1.0) -> str | None:
        """Run one iteration; return the message of a failure, or None.

        After a failure only the memory has changed. With an empty memory, d is the negative slope,
        and the first step to try has length ``first_length``.
        """
        slope = self.descent.direction(self.memory, self.current, self.d)
        if not slope < 0.0 and len(self.memory):
            return self._restart()
        step = (
            1.0
            if len(self.memory)
            else first_length * _core.dot(self.d, self.d, self.threads) ** -0.5
        )
        search = self.descent.move(self.current, self.d, slope, step, self.target)
        if search.failure is not None:
            return self._restart() if len(self.memory) else search.failure
        self._accept(search.step)
        return None

    def _restart(self) -> str | None:
        """Clear the memory, whose curvature is misleading, and take a gradient step instead.

        The step is at most as long as the last one.
        """
        last_change, _ = self.memory.pairs()[-1]
        # The last step of a run is not 0, but a checkpoint that was changed or damaged can have 0.
        first_length = min(1.0, _core.dot(last_change, last_change, self.threads) ** 0.5) or 1.0
        self.memory.clear()
        return self.advance(first_length)

    def _accept(self, step: float) -> None:
        self.step = step
        self.iteration += 1
        self.current, self.target = self.target, self.current
        current, previous = self.current, self.target
        squared_weights, squared_slope, _ = self.memory.push(
            current.w, previous.w, current.gradient, previous.gradient, current.slope, self.threads
        )
        self._set_norms(squared_weights, squared_slope)
        self.losses.append(current.loss)
        self.stalled = 0 if current.loss < self.lowest else self.stalled + 1
        self.lowest = min(self.lowest, current.loss)

    def progress(self, seconds: float) -> Progress:
        """Return the values of the current iteration for a callback."""
        return Progress(
            self.iteration,
            self.current.loss,
            self.norms[1],
            int(np.count_nonzero(self.current.w)),
            self.step,
            self.descent.evaluate.count,
            seconds,
            read_only(self.current.w),
            self.state,
        )

    def state(self) -> LbfgsState:
        """Return the state for a later run. The next iteration overwrites its arrays."""
        return LbfgsState(
            self.current.w,
            self.current.gradient,
            np.array(self.losses),
            self.lowest,
            self.iteration,
            self.descent.evaluate.count,
            self.stalled,
            tuple(self.memory.pairs()),
        )

    def result(self, converged: bool, message: str) -> Result[LbfgsState]:
        """Return the result at the current point."""
        # The caller owns Result.w and may change it: the state needs a copy.
        state = replace(self.state(), w=self.current.w.copy())
        return Result(
            self.current.w,
            self.current.loss,
            self.iteration,
            converged,
            message,
            state,
            state.evaluations,
        )


class _Stop(NamedTuple):
    """The settings of the convergence tests and the limit of iterations."""

    max_iter: int | None
    epsilon: float
    period: int
    delta: float

    def reason(self, run: _Run) -> tuple[bool, str] | None:
        """Return (converged, message) if the run ends here, otherwise None."""
        weights, slope = run.norms
        if slope <= self.epsilon * max(1.0, weights):
            return True, f"the norm of the gradient is at most {self.epsilon:g} of the weights'"
        if 0 < self.period < len(run.losses):
            earlier_loss, loss = run.losses[0], run.losses[-1]
            if earlier_loss - loss < self.delta * abs(loss):
                return (
                    True,
                    f"the loss fell by less than {self.delta:g} in {self.period} iterations",
                )
        if run.stalled >= _MAX_STALLED:
            return True, "the loss no longer falls: a further step is below its rounding error"
        if self.max_iter is not None and run.iteration >= self.max_iter:
            return False, f"the limit of {self.max_iter} iterations"
        return None


def _iterate(run: _Run, stop: _Stop, callback: Callback | None) -> Result[LbfgsState]:
    start_time = time.perf_counter()
    while (reason := stop.reason(run)) is None:
        failure = run.advance()
        if failure is not None:
            return run.result(False, f"the line search failed: {failure}")
        if callback is not None and callback(run.progress(time.perf_counter() - start_time)):
            return run.result(False, "stopped by the callback")
    return run.result(*reason)


def _validate_stop(max_iter: Any, epsilon: Any, period: Any, delta: Any) -> _Stop:
    limit = None if max_iter is None else as_integer(max_iter, "max_iter")
    if limit is not None and limit < 0:
        raise InputError(f"max_iter must be at least 0, or None for no limit, not {limit}")
    period = as_integer(period, "period")
    if period < 0:
        raise InputError(f"period must be at least 0, not {period}")
    return _Stop(
        limit,
        number_at_least(epsilon, 0.0, "epsilon"),
        period,
        number_at_least(delta, 0.0, "delta"),
    )


def _validate_count(value: Any, name: str) -> int:
    count = as_integer(value, name)
    if not 1 <= count <= 10_000:
        raise InputError(f"{name} must be from 1 to 10000, not {count}")
    return count


def _validate_search(linesearch: Any, l1: float) -> str:
    if linesearch is None:
        return _SEARCHES[0] if l1 == 0 else "backtracking"
    one_of(linesearch, _SEARCHES, "linesearch")
    if l1 > 0 and linesearch != "backtracking":
        raise InputError(f"linesearch must be backtracking with l1 > 0, not {linesearch}")
    return str(linesearch)


def _first_weights(w0: Any, state: LbfgsState | None, memory: int) -> Vector:
    """Return a copy of the first weights: those of the state if there is one, otherwise w0."""
    if state is None:
        return first_weights(w0)
    if not isinstance(state, LbfgsState):
        raise InputError(f"state must be an LbfgsState, not {state!r}")
    if w0 is not None and np.shape(w0) != state.w.shape:
        raise InputError(f"w0 has shape {np.shape(w0)}, but the state has {state.w.shape}")
    if len(state.pairs) > memory:
        raise InputError(
            f"memory is {memory}: must be at least the state's {len(state.pairs)} pairs"
        )
    return first_weights(state.w)
