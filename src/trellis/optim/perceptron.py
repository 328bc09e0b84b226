"""The averaged perceptron (Collins 2002)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.optim.online import (
    Epochs,
    Learner,
    OnlineState,
    UpdateRule,
    register_state,
    run_epochs,
)
from trellis.optim.result import Callback, Result, Vector

__all__ = ["average_weights", "perceptron", "start_average"]

register_state("perceptron", vectors={"total"}, numbers={"steps"})


def perceptron(
    learner: Learner,
    sequences: int,
    w0: Vector,
    *,
    max_iter: int = 100,
    delta: float = 0.0,
    callback: Callback | None = None,
    random_state: Any = None,
    state: OnlineState | None = None,
) -> Result[OnlineState]:
    """w ← w + φ(x, y) - φ(x, ŷ), ŷ the best labelling under w; the result is the average of all w.

    The update of a sequence with weight v is multiplied by v. The run ends after an epoch without
    mistakes. The loss is the number of wrong labels.
    """

    def epoch(current: OnlineState, order: NDArray[np.int64]) -> float:
        errors, steps = learner.perceptron(
            order, current.vectors["w"], current.vectors["total"], int(current.numbers["steps"])
        )
        current.numbers["steps"] = steps
        return float(errors)

    rule = UpdateRule("perceptron", start_average, epoch, average_weights)
    settings = Epochs(max_iter, int(delta != 0.0), delta, callback, random_state, state)
    return run_epochs(rule, sequences, w0, settings)


def start_average(state: OnlineState) -> None:
    """Add the sum and the number of steps of an average. The first weights count as one step."""
    state.vectors["total"] = np.zeros_like(state.vectors["w"])
    state.numbers["steps"] = 1


def average_weights(state: OnlineState) -> Vector:
    """Return the mean of w before the first step and after each step: w - total / steps.

    ``total`` is Σ s · (change in step s), because the change in step s is missing from the first s
    of the vectors that are averaged. To add up w itself would touch all weights in every step.
    """
    return state.vectors["w"] - state.vectors["total"] / state.numbers["steps"]
