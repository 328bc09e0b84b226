"""OWL-QN: L-BFGS for loss(w) + Σ cᵢ |wᵢ|, which has a kink wherever a weight is zero.

Inside an orthant the sum is smooth. So (Andrew and Gao 2007): take the pseudo-gradient ◇, the slope
towards the side where the sum falls, in place of the gradient; let d = -H ◇ keep only the
coordinates that descend; and let a step end where it would leave the orthant, at zero. H comes from
the gradients of the loss alone, as the L1 term has no curvature.
"""

from typing import Any

import numpy as np

from trellis import _core
from trellis.errors import InputError
from trellis.optim.linesearch import Search, armijo
from trellis.optim.result import Evaluations, Point, Vector

__all__ = ["Orthantwise", "penalties"]


class Orthantwise:
    """A smooth loss with an L1 term of strength ``l1`` (one number a weight)."""

    def __init__(self, evaluate: Evaluations, l1: Vector, most: int, threads: int) -> None:
        self.evaluate = evaluate
        self._l1, self._most, self._threads = l1, most, threads

    def point(self, w: Vector) -> Point:
        """Room for a point, its slope the pseudo-gradient."""
        return Point(w, np.empty_like(w), np.empty_like(w))

    def finish(self, point: Point, loss: float) -> None:
        """The pseudo-gradient of a point, and its loss with the L1 term."""
        point.loss = loss + _core.pseudo_gradient(
            point.w, point.gradient, self._l1, point.slope, self._threads
        )

    def direction(self, memory: _core.LbfgsMemory, here: Point, out: Vector) -> float:
        """Fill out with d = -H ◇ where that descends, else 0; its slope."""
        memory.direction(here.slope, out, self._threads)
        return _core.project_direction(here.slope, self._l1, out, self._threads)

    def move(self, here: Point, d: Vector, slope: float, step: float, there: Point) -> Search:
        """Halve t until the sum falls by 10⁻⁴ of what ◇ promises for the projected step."""

        def along(t: float) -> tuple[float, float]:
            penalty, promised = _core.orthant_step(
                here.w, d, t, here.slope, self._l1, there.w, self._threads
            )
            there.loss = self.evaluate(there.w, there.gradient)
            return there.loss + penalty, promised

        search = armijo(along, here.loss, step, self._most)
        if search.failure is None:
            self.finish(there, there.loss)
        return search


def penalties(l1: float, penalised: Any, n: int) -> Vector:
    """The strength of the L1 term for each weight: l1 where the mask says so, else 0.

    >>> penalties(0.5, [True, False], 2).tolist()
    [0.5, 0.0]
    """
    if penalised is None:
        return np.full(n, l1)
    mask = np.asarray(penalised)
    if mask.dtype != np.bool_ or mask.shape != (n,):
        raise InputError(
            f"penalised must be a mask of {n} weights, not {mask.dtype} of shape {mask.shape}"
        )
    return np.where(mask, l1, 0.0)
