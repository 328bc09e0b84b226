"""L-BFGS: minimise loss(w) + l1 · ‖w‖₁ from values and gradients alone.

    dₖ = -Hₖ ∇loss(wₖ),   wₖ₊₁ = wₖ + tₖ dₖ

Hₖ, which stands for the inverse of the matrix of second derivatives, is known only by what the last
few steps did to the gradient (Nocedal 1980); tₖ comes from a line search. With l1 > 0 the same is
done in one orthant at a time (see owlqn.py). Constants and tests of convergence are those of
liblbfgs, so that a run takes the same steps as CRFsuite's.
"""

import math
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.checks import as_integer, number_at_least
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

_MOST_STALLED = 10
_SEARCHES = ("more-thuente", "backtracking", "strong-backtracking")


@dataclass(frozen=True, eq=False)
class LbfgsState:
    """All that a run of L-BFGS needs to go on: after it, the same bits as if it had not stopped."""

    w: Vector
    gradient: Vector
    losses: Vector
    """Of the last iterations, this one the last: what the test of slow progress looks at."""
    lowest: float
    """Of all losses so far."""
    iteration: int
    evaluations: int
    stalled: int
    """Iterations since the lowest loss."""
    pairs: tuple[tuple[Vector, Vector], ...]
    """Changes of the weights and of the gradient, the oldest first: views, not copies."""

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays, to be stored: ``LbfgsState.from_arrays`` takes them back."""
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
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "LbfgsState":
        """The state that ``to_arrays`` was called on."""
        names = ("w", "gradient", "losses", "lowest", "s", "y")
        missing = {*names, "counts"} - set(arrays)
        if missing:
            raise InputError(f"a state of L-BFGS has no {', '.join(sorted(missing))}")
        try:
            found = [np.array(arrays[name], dtype=np.float64) for name in names]
            counts = np.array(arrays["counts"], dtype=np.int64)
        except (TypeError, ValueError) as error:
            raise InputError(f"a state of L-BFGS is not made of numbers: {error}") from None
        w, gradient, losses, lowest, s, y = found
        n = w.size
        shapes = [a.shape for a in (*found, counts)]
        k, periods = len(np.atleast_1d(s)), losses.size
        due = [(n,), (n,), (periods,), (1,), (k, n), (k, n), (3,)]
        if shapes != due or not (n and periods):
            raise InputError(f"the arrays of a state of L-BFGS do not fit each other: {shapes}")
        for name, array in zip(names, found, strict=True):
            if not np.isfinite(array).all():
                raise InputError(f"{name} of a state of L-BFGS is not finite")
        pairs = tuple(zip(s, y, strict=True))
        iteration, evaluations, stalled = counts.tolist()
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
    iterations lowered the loss by less than ``delta`` of it (``period=0``: no such test).
    ``max_iter=None`` sets no limit. ``linesearch`` is "more-thuente" by default, "backtracking" or
    "strong-backtracking"; with l1 > 0 always "backtracking". ``penalised`` is a mask, None for all.

    With ``state`` from an earlier result, that run goes on and w0 may be None; ``max_iter`` then
    counts its iterations as well. Results are the same bits for every ``n_jobs``.

    >>> def bowl(w, gradient):
    ...     gradient[:] = 2 * (w - [3, -0.2])
    ...     return ((w - [3, -0.2]) ** 2).sum()
    >>> lbfgs(bowl, [0, 0]).w.round(6).tolist()
    [3.0, -0.2]
    >>> lbfgs(bowl, [0, 0], l1=1.0).w.round(6).tolist()
    [2.5, 0.0]
    """
    threads = resolve_jobs(n_jobs)
    stop = _checked_stop(max_iter, epsilon, period, delta)
    memory = _positive(memory, "memory")
    most = _positive(max_linesearch, "max_linesearch")
    l1 = number_at_least(l1, 0.0, "l1")
    search = _checked_search(linesearch, l1)
    w = _checked_start(w0, state, memory)
    evaluate = Evaluations(objective, 0 if state is None else state.evaluations)
    descent: Descent = (
        Orthantwise(evaluate, penalties(l1, penalised, len(w)), most, threads)
        if l1 > 0
        else Smooth(evaluate, search, most, threads)
    )
    run = _Run(descent, w, memory, period, threads)
    if state is not None:
        run.resume(state)
    else:
        run.begin()
    return _loop(run, stop, callback)


class Descent(Protocol):
    """What differs between a smooth loss and one with an L1 term."""

    evaluate: Evaluations

    def point(self, w: Vector) -> Point:
        """Room for a point."""

    def finish(self, point: Point, loss: float) -> None:
        """Fill slope and loss of a point whose own loss and gradient are known."""

    def direction(self, memory: _core.LbfgsMemory, here: Point, out: Vector) -> float:
        """Fill ``out`` with d; its slope."""

    def move(self, here: Point, d: Vector, slope: float, step: float, there: Point) -> Search:
        """Search along d; ``there`` becomes the accepted point."""


class Smooth:
    """A loss that is differentiable everywhere."""

    def __init__(self, evaluate: Evaluations, search: str, most: int, threads: int) -> None:
        self.evaluate = evaluate
        self._search, self._most, self._threads = search, most, threads

    def point(self, w: Vector) -> Point:
        """Room for a point: here the slope is the gradient."""
        gradient = np.empty_like(w)
        return Point(w, gradient, gradient)

    def finish(self, point: Point, loss: float) -> None:
        """The loss is all there is to know."""
        point.loss = loss

    def direction(self, memory: _core.LbfgsMemory, here: Point, out: Vector) -> float:
        """Fill out with d = -H ∇loss; its slope."""
        return memory.direction(here.slope, out, self._threads)

    def move(self, here: Point, d: Vector, slope: float, step: float, there: Point) -> Search:
        """Go to w + t d for the t of a line search."""

        def along(t: float) -> tuple[float, float]:
            _core.step(here.w, d, t, there.w, self._threads)
            there.loss = self.evaluate(there.w, there.gradient)
            return there.loss, _core.dot(there.gradient, d, self._threads)

        if self._search == "more-thuente":
            return more_thuente(along, here.loss, slope, step, self._most)
        strong = self._search == "strong-backtracking"
        return backtracking(along, here.loss, slope, step, self._most, strong=strong)


class _Run:
    """Two points, between which the steps go to and fro, and the memory of the last steps."""

    def __init__(self, descent: Descent, w: Vector, memory: int, period: int, threads: int) -> None:
        self.descent = descent
        self.threads = threads
        self.memory = _core.LbfgsMemory(len(w), memory)
        self.here, self.there = descent.point(w), descent.point(np.empty_like(w))
        self.d = np.empty_like(w)
        self.losses: deque[float] = deque(maxlen=period + 1)
        self.lowest, self.stalled = math.inf, 0
        self.iteration = 0
        self.step = 0.0
        self.norms = (0.0, 0.0)  # of the weights and of the slope

    def begin(self) -> None:
        """Evaluate the first weights."""
        loss = self.descent.evaluate.first(self.here.w, self.here.gradient)
        self.descent.finish(self.here, loss)
        self.losses.append(self.here.loss)
        self.lowest = self.here.loss
        self._measure()

    def resume(self, state: LbfgsState) -> None:
        """Go on where another run ended."""
        self.here.gradient[:] = state.gradient
        self.descent.finish(self.here, 0.0)
        self.here.loss = float(state.losses[-1])
        self.losses.extend(state.losses.tolist())
        self.lowest, self.stalled = state.lowest, state.stalled
        self.iteration = state.iteration
        for s, y in state.pairs:
            self.memory.append(s, y, self.threads)
        self.memory.project(self.here.slope, self.threads)
        self._measure()

    def _measure(self) -> None:
        w, slope = self.here.w, self.here.slope
        self._take_norms(_core.dot(w, w, self.threads), _core.dot(slope, slope, self.threads))

    def _take_norms(self, weights: float, slope: float) -> None:
        if not (math.isfinite(weights) and math.isfinite(slope)):
            raise OptimizationError(
                f"iteration {self.iteration}: the gradient or the weights are not finite, "
                f"with squared norms {slope} and {weights}"
            )
        self.norms = weights**0.5, slope**0.5

    def advance(self, reach: float = 1.0) -> str | None:
        """One iteration; why it failed, if it did, and then nothing has changed but the memory.

        Where nothing is remembered, d is the slope, and the first step to try has length ``reach``.
        """
        slope = self.descent.direction(self.memory, self.here, self.d)
        if not slope < 0.0 and len(self.memory):
            return self._start_again()
        step = 1.0 if len(self.memory) else reach * _core.dot(self.d, self.d, self.threads) ** -0.5
        search = self.descent.move(self.here, self.d, slope, step, self.there)
        if search.failure is not None:
            return self._start_again() if len(self.memory) else search.failure
        self._arrive(search.step)
        return None

    def _start_again(self) -> str | None:
        """The remembered curvature misleads: straight downhill, no further than the last step."""
        last, _ = self.memory.pairs()[-1]
        reach = min(1.0, _core.dot(last, last, self.threads) ** 0.5)
        self.memory.clear()
        return self.advance(reach)

    def _arrive(self, step: float) -> None:
        self.step = step
        self.iteration += 1
        self.here, self.there = self.there, self.here
        here, before = self.here, self.there
        weights, slope, _ = self.memory.push(
            here.w, before.w, here.gradient, before.gradient, here.slope, self.threads
        )
        self._take_norms(weights, slope)
        self.losses.append(here.loss)
        self.stalled = 0 if here.loss < self.lowest else self.stalled + 1
        self.lowest = min(self.lowest, here.loss)

    def progress(self, seconds: float) -> Progress:
        """The last iteration, for a callback."""
        return Progress(
            self.iteration,
            self.here.loss,
            self.norms[1],
            int(np.count_nonzero(self.here.w)),
            self.step,
            self.descent.evaluate.count,
            seconds,
            read_only(self.here.w),
            self.state,
        )

    def state(self) -> LbfgsState:
        """What a later run needs to go on: views of what this one overwrites."""
        return LbfgsState(
            self.here.w,
            self.here.gradient,
            np.array(self.losses),
            self.lowest,
            self.iteration,
            self.descent.evaluate.count,
            self.stalled,
            tuple(self.memory.pairs()),
        )

    def result(self, converged: bool, message: str) -> Result[LbfgsState]:
        """Where the run is now."""
        state = replace(self.state(), w=self.here.w.copy())  # w itself is the caller's now
        return Result(
            self.here.w,
            self.here.loss,
            self.iteration,
            converged,
            message,
            state,
            state.evaluations,
        )


class _Stop(NamedTuple):
    """When to stop."""

    max_iter: int | None
    epsilon: float
    period: int
    delta: float

    def reason(self, run: _Run) -> tuple[bool, str] | None:
        """Whether the run has converged and why it ends; None if it goes on."""
        weights, slope = run.norms
        if slope <= self.epsilon * max(1.0, weights):
            return True, f"the norm of the gradient is at most {self.epsilon:g} of the weights'"
        if 0 < self.period < len(run.losses):
            before, now = run.losses[0], run.losses[-1]
            if before - now < self.delta * abs(now):
                return (
                    True,
                    f"the loss fell by less than {self.delta:g} in {self.period} iterations",
                )
        if run.stalled >= _MOST_STALLED:
            return True, "the loss no longer falls: it has no digits left"
        if self.max_iter is not None and run.iteration >= self.max_iter:
            return False, f"the limit of {self.max_iter} iterations"
        return None


def _loop(run: _Run, stop: _Stop, callback: Callback | None) -> Result[LbfgsState]:
    began = time.perf_counter()
    while (reason := stop.reason(run)) is None:
        failure = run.advance()
        if failure is not None:
            return run.result(False, f"the line search failed: {failure}")
        if callback is not None and callback(run.progress(time.perf_counter() - began)):
            return run.result(False, "stopped by the callback")
    return run.result(*reason)


def _checked_stop(max_iter: Any, epsilon: Any, period: Any, delta: Any) -> _Stop:
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


def _positive(value: Any, name: str) -> int:
    number = as_integer(value, name)
    if not 1 <= number <= 10_000:
        raise InputError(f"{name} must be from 1 to 10000, not {number}")
    return number


def _checked_search(linesearch: Any, l1: float) -> str:
    if linesearch is None:
        return _SEARCHES[0] if l1 == 0 else "backtracking"
    if linesearch not in _SEARCHES:
        raise InputError(f"linesearch must be one of {', '.join(_SEARCHES)}, not {linesearch!r}")
    if l1 > 0 and linesearch != "backtracking":
        raise InputError(f"linesearch must be backtracking with l1 > 0, not {linesearch}")
    return str(linesearch)


def _checked_start(w0: Any, state: LbfgsState | None, memory: int) -> Vector:
    """The first weights, those of the state if there is one."""
    if state is None:
        return first_weights(w0)
    if not isinstance(state, LbfgsState):
        raise InputError(f"state must be an LbfgsState, not {state!r}")
    if w0 is not None and np.shape(w0) != state.w.shape:
        raise InputError(f"w0 has shape {np.shape(w0)}, but the state has {state.w.shape}")
    if len(state.pairs) > memory:
        raise InputError(f"memory is {memory}, but the state has {len(state.pairs)} pairs")
    return first_weights(state.w)
