"""AROW, adaptive regularisation of weights (Crammer, Kulesza, Dredze 2009; Mejer, Crammer 2010)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.checks import number_at_least
from trellis.optim.online import Learner, OnlineState, first_state, run_epochs
from trellis.optim.result import Callback, Result, Vector

__all__ = ["arow"]


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
    """W ← w + α Σ d,  Σ⁻¹ ← Σ⁻¹ + diag(d²) / γ: weights that were seen often move less.

    d = φ(x, y) - φ(x, ŷ),  α = ℓ / (dᵀ Σ d + γ),  ℓ = score(ŷ) - score(y) + wrong labels. Σ is
    diagonal and begins as ``variance`` times the identity.
    """
    number_at_least(variance, 1e-300, "variance")
    number_at_least(gamma, 1e-300, "gamma")
    if state is None:
        state = first_state(w0, random_state, variance=np.full_like(w0, variance))
    state.check("arow", len(w0))

    def epoch(s: OnlineState, order: NDArray[np.int64]) -> float:
        return learner.arow(order, gamma, s.vectors["w"], s.vectors["variance"])

    return run_epochs(
        epoch,
        lambda s: s.vectors["w"],
        sequences,
        state,
        max_iter=max_iter,
        period=0 if delta == 0.0 else 1,
        delta=delta,
        callback=callback,
    )
