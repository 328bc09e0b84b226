"""OWL-QN: L-BFGS for loss(w) + Σ cᵢ |wᵢ|, which has a kink wherever a weight is zero.

Inside an orthant the sum is smooth. So the algorithm (Andrew and Gao 2007) changes L-BFGS in three
places. The pseudo-gradient ◇, the slope on the side where the sum falls, replaces the gradient. The
direction d = -H ◇ keeps only the coordinates that descend. A weight that a step would move out of
the orthant is set to zero. H uses only the gradients of the loss, because the L1 term has no
curvature.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trellis import _core
from trellis.errors import InputError
from trellis.optim.linesearch import Search, armijo
from trellis.optim.result import Evaluations, Point, Vector

__all__ = ["Orthantwise", "penalties"]


class Orthantwise:
    """A smooth loss with an L1 term of strength ``l1``, shape (weights,)."""

    def __init__(self, evaluate: Evaluations, l1: Vector, max_trials: int, threads: int) -> None:
        self.evaluate = evaluate
        self._l1, self._max_trials, self._threads = l1, max_trials, threads

    def point(self, w: Vector) -> Point:
        """Return a point at w with new buffers. Its slope is its pseudo-gradient."""
        return Point(w, np.empty_like(w), np.empty_like(w))

    def finish(self, point: Point, loss: float) -> None:
        """Set the slope of a point to its pseudo-gradient, and add the L1 term to its loss."""
        point.loss = loss + _core.pseudo_gradient(
            point.w, point.gradient, self._l1, point.slope, self._threads
        )

    def direction(self, memory: _core.LbfgsMemory, current: Point, out: Vector) -> float:
        """Fill ``out`` with d = -H ◇, with 0 where a coordinate does not descend. Return d · ◇."""
        memory.direction(current.slope, out, self._threads)
        return _core.project_direction(current.slope, self._l1, out, self._threads)

    def move(self, current: Point, d: Vector, slope: float, step: float, target: Point) -> Search:
        """Halve t until the sum falls by 10⁻⁴ of the decrease that ◇ predicts for the step."""

        def evaluate_step(t: float) -> tuple[float, float]:
            penalty, predicted = _core.orthant_step(
                current.w, d, t, current.slope, self._l1, target.w, self._threads
            )
            target.loss = self.evaluate(target.w, target.gradient)
            return target.loss + penalty, predicted

        search = armijo(evaluate_step, current.loss, step, self._max_trials)
        if search.failure is None:
            self.finish(target, target.loss)
        return search


def penalties(l1: float, penalised: Any, n: int) -> Vector:
    """Return the strength of the L1 term of each weight: l1 where ``penalised`` is True, else 0.

    >>> penalties(0.5, [True, False], 2).tolist()
    [0.5, 0.0]
    """
    if penalised is None:
        return np.full(n, l1)
    mask = np.asarray(penalised)
    if mask.dtype != np.bool_ or mask.shape != (n,):
        raise InputError(
            f"penalised must be a bool array of shape ({n},), "
            f"not {mask.dtype} of shape {mask.shape}"
        )
    return np.where(mask, l1, 0.0)
