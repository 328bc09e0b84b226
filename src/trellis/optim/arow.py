"""AROW, adaptive regularisation of weights (Crammer, Kulesza, Dredze 2009; Mejer, Crammer 2010)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.checks import number_at_least
from trellis.optim.online import (
    Epochs,
    Learner,
    OnlineState,
    UpdateRule,
    register_state,
    run_epochs,
)
from trellis.optim.result import Callback, Result, Vector

__all__ = ["arow"]

register_state("arow", vectors={"variance"}, numbers=set())


def arow(
    learner: Learner,
    sequences: int,
    w0: Vector,
    *,
    variance: float = 1.0,
    gamma: float = 1.0,
    max_iter: int = 100,
    delta: float = 0.0,
    callback: Callback | None = None,
    random_state: Any = None,
    state: OnlineState | None = None,
) -> Result[OnlineState]:
    """w ← w + α Σ d,  Σ⁻¹ ← Σ⁻¹ + diag(d²) / γ: weights that were updated often move less.

    d = φ(x, y) - φ(x, ŷ),  α = ℓ / (dᵀ Σ d + γ),  ℓ = score(ŷ) - score(y) + number of wrong labels.
    ŷ is the best labelling under w. Σ is diagonal and starts as ``variance`` times the identity.
    """
    number_at_least(variance, 1e-300, "variance")
    number_at_least(gamma, 1e-300, "gamma")

    def start(current: OnlineState) -> None:
        current.vectors["variance"] = np.full_like(w0, variance)

    def epoch(current: OnlineState, order: NDArray[np.int64]) -> float:
        return learner.arow(order, gamma, current.vectors["w"], current.vectors["variance"])

    rule = UpdateRule("arow", start, epoch, lambda current: current.vectors["w"])
    settings = Epochs(max_iter, int(delta != 0.0), delta, callback, random_state, state)
    return run_epochs(rule, sequences, w0, settings)
