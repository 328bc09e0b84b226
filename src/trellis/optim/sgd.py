"""Stochastic gradient descent for a loss with an L2 term, with a calibrated step size."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.checks import number_at_least
from trellis.errors import InputError
from trellis.optim.online import Learner, OnlineState, first_state, run_epochs
from trellis.optim.result import Callback, Result, Vector

__all__ = ["sgd"]


def sgd(
    learner: Learner,
    sequences: int,
    w0: Vector,
    *,
    l2: float,
    max_iter: int = 100,
    period: int = 10,
    delta: float = 1e-5,
    eta: float = 0.1,
    sample: int = 1000,
    callback: Callback | None = None,
    random_state: Any = None,
    state: OnlineState | None = None,
) -> Result[OnlineState]:
    """wₜ₊₁ = v - ηₜ ∇lossᵢ(v),  v = (1 - ηₜ λ) wₜ,  ηₜ = 1 / (λ (t₀ + t)),  λ = l2 / sequences.

    The first step η₀ = 1 / (λ t₀) is found by trial, beginning with ``eta``: the one that lowers
    the loss of ``sample`` sequences most in one pass. w is kept as a scale times a vector, so that
    the L2 term costs one multiplication a step.
    """
    if number_at_least(l2, 0.0, "l2") == 0.0:
        raise InputError("sgd needs l2 > 0: its step size follows from it")
    number_at_least(eta, 1e-12, "eta")
    lam = l2 / sequences
    if state is None:
        state = first_state(w0, random_state)
        t0 = _calibrate(learner, sequences, state, lam, eta, sample)
        state.numbers |= {"t0": t0, "scale": 1.0}
    state.check("sgd", len(w0))

    def epoch(s: OnlineState, order: NDArray[np.int64]) -> float:
        loss, scale = learner.sgd(
            order, lam, s.numbers["t0"], s.epoch * sequences, s.vectors["w"], s.numbers["scale"]
        )
        s.numbers["scale"] = scale
        w = s.vectors["w"]
        return loss + 0.5 * l2 * scale * scale * float(w @ w)

    def weights(s: OnlineState) -> Vector:
        return s.vectors["w"] * s.numbers["scale"]

    return run_epochs(
        epoch,
        weights,
        sequences,
        state,
        max_iter=max_iter,
        period=period,
        delta=delta,
        callback=callback,
    )


def _calibrate(
    learner: Learner, sequences: int, state: OnlineState, lam: float, eta: float, sample: int
) -> float:
    """t₀ of the best of several first steps, each half or twice as long as another."""
    order = np.random.default_rng(0).permutation(sequences)[:sample].astype(np.int64)

    def loss_after(step: float) -> float:
        v = state.vectors["w"].copy()
        _, scale = learner.sgd(order, lam, 1.0 / (lam * step), 0, v, 1.0)
        if not (np.isfinite(v).all() and np.isfinite(scale)):
            return np.inf
        # with steps of next to nothing, the losses before each step are those of the weights
        after, scale = learner.sgd(order, lam, 1e300, 0, v, scale)
        loss = after + 0.5 * lam * len(order) * scale * scale * float(v @ v)
        return loss if np.isfinite(loss) else np.inf

    tried = {step: loss_after(step) for step in (eta / 2, eta, eta * 2)}
    for factor in (0.5, 2.0):
        step = min(tried) if factor < 1 else max(tried)
        while min(tried, key=tried.__getitem__) == step and 1e-9 < step < 1e9:
            step *= factor
            tried[step] = loss_after(step)
    return 1.0 / (lam * min(tried, key=tried.__getitem__))
