"""The types that all optimisers share: objective, progress, callback, result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from trellis.errors import InputError, OptimizationError

Vector: TypeAlias = NDArray[np.float64]
Objective: TypeAlias = Callable[[Vector, Vector], float]
"""``objective(w, gradient) -> loss``. It fills ``gradient`` with ∂loss/∂w and does not change w."""

StateT = TypeVar("StateT")


class Progress(NamedTuple):
    """The values of one iteration that a callback receives."""

    iteration: int
    """The number of the iteration, from 1. A resumed run continues the count of the earlier run."""
    loss: float
    """The loss, including all penalties."""
    gradient_norm: float
    """‖∇loss‖₂; with an L1 term, the norm of the pseudo-gradient."""
    active: int
    """The number of weights that are not zero."""
    step: float
    """The length of the step along the direction."""
    evaluations: int
    """The number of calls of the objective so far."""
    seconds: float
    """The time since the start of this call."""
    w: Vector
    """The weights, as a read-only view. The next iteration overwrites them, so copy them."""
    state: Callable[[], Any] | None = None
    """A function that returns the state from which a later run resumes, with the same bits as
    without the interruption. The next iteration overwrites the arrays of the state. After the last
    step, ``state`` is None."""


Callback: TypeAlias = Callable[[Progress], object]
"""A function that is called after each iteration. A truthy return value stops the run."""


@dataclass(frozen=True, eq=False)
class Result(Generic[StateT]):
    """The weights at the end of a run, and the reason why it ended."""

    w: Vector
    loss: float
    n_iter: int
    converged: bool
    """True if a convergence test ended the run; False for a limit, a callback or a failure."""
    message: str
    state: StateT
    """The state from which a later run resumes, or None."""
    n_evaluations: int


@dataclass(eq=False)
class Point:
    """Weights, and the loss and its derivatives at these weights. Vectors are (weights,)."""

    w: Vector
    gradient: Vector
    """The gradient of the smooth part of the loss."""
    slope: Vector
    """The gradient of the total loss: ``gradient`` itself or, with L1, the pseudo-gradient."""
    loss: float = 0.0


class Evaluations:
    """The objective with a counter: ``evaluate(w, gradient) -> loss``."""

    def __init__(self, objective: Objective, count: int = 0) -> None:
        if not callable(objective):
            raise InputError(f"objective must be a function of (w, gradient), not {objective!r}")
        self._objective = objective
        self.count = count

    def __call__(self, w: Vector, gradient: Vector) -> float:
        """Return the loss at w, and fill ``gradient``."""
        self.count += 1
        loss = self._objective(w, gradient)
        try:
            return float(loss)
        except (TypeError, ValueError):
            raise InputError(f"the objective must return a number, not {loss!r}") from None

    def at_first_weights(self, w: Vector, gradient: Vector) -> float:
        """Return the loss at the first weights. Raise if it or its gradient is not finite."""
        loss = self(w, gradient)
        if not np.isfinite(loss):
            raise OptimizationError(f"the loss at the first weights is {loss}: must be finite")
        invalid = np.flatnonzero(~np.isfinite(gradient))
        if invalid.size:
            raise OptimizationError(
                f"the gradient at the first weights is {gradient[invalid[0]]} at "
                f"position {invalid[0]}: must be finite"
            )
        return loss


def first_weights(w0: Any) -> Vector:
    """Return a copy of w0 as a vector of finite float64 numbers."""
    try:
        w = np.array(w0, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        raise InputError(f"w0 must be a vector of numbers, not {w0!r}") from None
    if w.ndim != 1 or w.size == 0:
        raise InputError(f"w0 must be a vector of at least one weight, not of shape {w.shape}")
    invalid = np.flatnonzero(~np.isfinite(w))
    if invalid.size:
        raise InputError(f"w0 is {w[invalid[0]]} at position {invalid[0]}: must be finite")
    return w


def read_only(w: Vector) -> Vector:
    """Return a read-only view of w."""
    view = w.view()
    view.flags.writeable = False
    return view
