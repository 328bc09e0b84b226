"""Passive-aggressive learning (Crammer et al. 2006) for label sequences."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.checks import number_at_least
from trellis.errors import InputError
from trellis.optim.online import Learner, OnlineState, first_state, run_epochs
from trellis.optim.perceptron import averaged
from trellis.optim.result import Callback, Result, Vector

__all__ = ["passive_aggressive"]


def passive_aggressive(
    learner: Learner,
    sequences: int,
    w0: Vector,
    *,
    variant: int = 1,
    aggressiveness: float = 1.0,
    count_errors: bool = True,
    average: bool = True,
    max_iter: int = 100,
    delta: float = 0.0,
    callback: Callback | None = None,
    random_state: Any = None,
    state: OnlineState | None = None,
) -> Result[OnlineState]:
    """W ← w + τ d,  d = φ(x, y) - φ(x, ŷ): the smallest change after which y wins by a margin.

    τ = ℓ / ‖d‖² with ℓ = score(ŷ) - score(y) + margin; ``variant`` 1 allows at most
    ``aggressiveness``, 2 divides by ‖d‖² + 1 / (2 · aggressiveness) instead, 0 has no such limit.
    The margin is the square root of the number of wrong labels, or 1.
    """
    if variant not in (0, 1, 2):
        raise InputError(f"variant must be 0, 1 or 2, not {variant!r}")
    number_at_least(aggressiveness, 1e-300, "aggressiveness")
    if state is None:
        state = first_state(w0, random_state, total=np.zeros_like(w0))
        state.numbers["steps"] = 1
    state.check("passive-aggressive", len(w0))

    def epoch(s: OnlineState, order: NDArray[np.int64]) -> float:
        loss, steps = learner.passive_aggressive(
            order,
            variant,
            aggressiveness,
            count_errors,
            s.vectors["w"],
            s.vectors["total"],
            int(s.numbers["steps"]),
        )
        s.numbers["steps"] = steps
        return loss

    return run_epochs(
        epoch,
        averaged if average else lambda s: s.vectors["w"],
        sequences,
        state,
        max_iter=max_iter,
        period=0 if delta == 0.0 else 1,
        delta=delta,
        callback=callback,
    )
