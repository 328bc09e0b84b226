"""Passive-aggressive learning (Crammer et al. 2006) for label sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.checks import number_at_least
from trellis.errors import InputError
from trellis.optim.online import (
    Epochs,
    Learner,
    OnlineState,
    UpdateRule,
    register_state,
    run_epochs,
)
from trellis.optim.perceptron import average_weights, start_average
from trellis.optim.result import Callback, Result, Vector

__all__ = ["passive_aggressive"]

register_state("passive-aggressive", vectors={"total"}, numbers={"steps"})


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
    """w ← w + τ d,  d = φ(x, y) - φ(x, ŷ): the smallest change after which y wins by a margin.

    ŷ is the best labelling under w, and τ = ℓ / ‖d‖² with ℓ = score(ŷ) - score(y) + margin.
    ``variant`` 1 limits τ to ``aggressiveness``, variant 2 divides by
    ‖d‖² + 1 / (2 · aggressiveness) instead, variant 0 has no limit. The margin is the square root
    of the number of wrong labels, or 1 with ``count_errors=False``. With ``average=False`` the
    result is the last w, not the average.
    """
    if variant not in (0, 1, 2):
        raise InputError(f"variant must be 0, 1 or 2, not {variant!r}")
    number_at_least(aggressiveness, 1e-300, "aggressiveness")

    def epoch(current: OnlineState, order: NDArray[np.int64]) -> float:
        loss, steps = learner.passive_aggressive(
            order,
            variant,
            aggressiveness,
            count_errors,
            current.vectors["w"],
            current.vectors["total"],
            int(current.numbers["steps"]),
        )
        current.numbers["steps"] = steps
        return loss

    weights = average_weights if average else lambda current: current.vectors["w"]
    rule = UpdateRule("passive-aggressive", start_average, epoch, weights)
    settings = Epochs(max_iter, int(delta != 0.0), delta, callback, random_state, state)
    return run_epochs(rule, sequences, w0, settings)
