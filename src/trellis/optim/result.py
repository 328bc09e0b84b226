"""What every optimiser takes and gives back."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from trellis.errors import InputError, OptimizationError

Vector: TypeAlias = NDArray[np.float64]
Objective: TypeAlias = Callable[[Vector, Vector], float]
"""``objective(w, gradient) -> loss``: fills ``gradient`` with ∂loss/∂w and leaves ``w`` alone."""

StateT = TypeVar("StateT")


class Progress(NamedTuple):
    """One iteration, as a callback sees it."""

    iteration: int
    """From 1 on; a resumed run counts on."""
    loss: float
    """With all penalties."""
    gradient_norm: float
    """‖∇loss‖₂, with an L1 term that of the pseudo-gradient."""
    active: int
    """Weights that are not zero."""
    step: float
    """The length of the step along the direction."""
    evaluations: int
    """How often the objective has been asked."""
    seconds: float
    """Since this call began."""
    w: Vector
    """The weights: a read-only view that the next iterations overwrite, so copy it to keep it."""
    state: Callable[[], Any] | None = None
    """Makes what the optimiser needs to go on from here, to the same bits as without a stop; the
    next iterations overwrite it. None after a last step."""


Callback: TypeAlias = Callable[[Progress], object]
"""Called after each iteration; what is true stops the run."""


@dataclass(frozen=True, eq=False)
class Result(Generic[StateT]):
    """Where an optimiser ended, and why."""

    w: Vector
    loss: float
    n_iter: int
    converged: bool
    """Whether a test of convergence ended the run, not a limit, a callback or a failure."""
    message: str
    state: StateT
    """What the optimiser needs to go on from here, or None."""
    n_evaluations: int


@dataclass(eq=False)
class Point:
    """Weights, and what is known there."""

    w: Vector
    gradient: Vector
    """Of the smooth part of the loss."""
    slope: Vector
    """Of the whole loss: the gradient itself, or the pseudo-gradient."""
    loss: float = 0.0


class Evaluations:
    """The objective, counted: ``evaluate(w, gradient) -> loss``."""

    def __init__(self, objective: Objective, count: int = 0) -> None:
        if not callable(objective):
            raise InputError(f"objective must be a function of (w, gradient), not {objective!r}")
        self._objective = objective
        self.count = count

    def __call__(self, w: Vector, gradient: Vector) -> float:
        """The loss at w; fills its gradient."""
        self.count += 1
        loss = self._objective(w, gradient)
        try:
            return float(loss)
        except (TypeError, ValueError):
            raise InputError(f"the objective must return a number, not {loss!r}") from None

    def first(self, w: Vector, gradient: Vector) -> float:
        """The loss where a run begins, which must be finite, as its gradient must."""
        loss = self(w, gradient)
        if not np.isfinite(loss):
            raise OptimizationError(f"the loss at the first weights is {loss}")
        bad = np.flatnonzero(~np.isfinite(gradient))
        if bad.size:
            raise OptimizationError(
                f"the gradient at the first weights is {gradient[bad[0]]} at position {bad[0]}"
            )
        return loss


def first_weights(w0: Any) -> Vector:
    """A copy of w0 as a vector of finite doubles."""
    try:
        w = np.array(w0, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        raise InputError(f"w0 must be a vector of numbers, not {w0!r}") from None
    if w.ndim != 1 or w.size == 0:
        raise InputError(f"w0 must be a vector of at least one weight, not of shape {w.shape}")
    bad = np.flatnonzero(~np.isfinite(w))
    if bad.size:
        raise InputError(f"w0 is {w[bad[0]]} at position {bad[0]}")
    return w


def read_only(w: Vector) -> Vector:
    """A view of w through which it cannot be changed."""
    view = w.view()
    view.flags.writeable = False
    return view
