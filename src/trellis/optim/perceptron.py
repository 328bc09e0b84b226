"""The averaged perceptron (Collins 2002)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.optim.online import Learner, OnlineState, first_state, run_epochs
from trellis.optim.result import Callback, Result, Vector

__all__ = ["averaged", "perceptron"]


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
    """W ← w + φ(x, y) - φ(x, ŷ), ŷ the best labelling under w; the result is the average of all w.

    A sequence of weight v moves w v times as far. Ends when an epoch makes no mistake. The loss is
    the number of wrong labels.
    """
    if state is None:
        state = first_state(w0, random_state, total=np.zeros_like(w0))
        state.numbers["steps"] = 1
    state.check("perceptron", len(w0))

    def epoch(s: OnlineState, order: NDArray[np.int64]) -> float:
        errors, steps = learner.perceptron(
            order, s.vectors["w"], s.vectors["total"], int(s.numbers["steps"])
        )
        s.numbers["steps"] = steps
        return float(errors)

    return run_epochs(
        epoch,
        averaged,
        sequences,
        state,
        max_iter=max_iter,
        period=0 if delta == 0.0 else 1,
        delta=delta,
        callback=callback,
    )


def averaged(state: OnlineState) -> Vector:
    """The mean of the weights before the first step and after each: w - Σ steps · change / all."""
    return state.vectors["w"] - state.vectors["total"] / state.numbers["steps"]
