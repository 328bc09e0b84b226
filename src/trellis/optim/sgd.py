"""Stochastic gradient descent for a loss with an L2 term, with a calibrated step size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis.checks import as_integer, number_at_least
from trellis.errors import InputError
from trellis.optim.online import (
    Epochs,
    OnlineState,
    SgdLearner,
    UpdateRule,
    register_state,
    run_epochs,
)
from trellis.optim.result import Callback, Result, Vector

__all__ = ["SampleLosses", "sgd"]

register_state("sgd", vectors=set(), numbers={"t0", "scale"})

# Limits of the search for the first step size. If the loss still falls at a limit, there is no
# useful step size.
_MIN_STEP, _MAX_STEP = 1e-9, 1e9
_NO_STEP = 1e300  # a value of t₀ that makes the steps too short to change the weights


def sgd(
    learner: SgdLearner,
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

    The first step η₀ = 1 / (λ t₀) is found by trial, starting with ``eta``: the step that lowers
    the loss of ``sample`` sequences most in one pass. w is stored as a number times a vector, so
    that the L2 term costs one multiplication per step. For losses in Python, ``learner`` is a
    `SampleLosses`. The loss of an epoch is the L2 term plus the losses of all samples, each
    measured just before the step of that sample.
    """
    if number_at_least(l2, 0.0, "l2") == 0.0:
        raise InputError("sgd needs l2 > 0: its step size depends on l2")
    if as_integer(sequences, "sequences") < 1:
        raise InputError(f"sequences is {sequences}: at least one is needed")
    number_at_least(eta, 1e-12, "eta")
    lam = l2 / sequences

    def start(current: OnlineState) -> None:
        # The sample is always the same, so the step size does not depend on random_state.
        order = np.random.default_rng(0).permutation(sequences)[:sample].astype(np.int64)
        step = _best_step(learner, order, current.vectors["w"], lam, eta)
        current.numbers |= {"t0": 1.0 / (lam * step), "scale": 1.0}

    def epoch(current: OnlineState, order: NDArray[np.int64]) -> float:
        loss, scale = learner.sgd(
            order,
            lam,
            current.numbers["t0"],
            current.epoch * sequences,
            current.vectors["w"],
            current.numbers["scale"],
        )
        current.numbers["scale"] = scale
        w = current.vectors["w"]
        return loss + 0.5 * l2 * scale * scale * float(w @ w)

    def weights(current: OnlineState) -> Vector:
        return current.vectors["w"] * current.numbers["scale"]

    rule = UpdateRule("sgd", start, epoch, weights)
    settings = Epochs(max_iter, period, delta, callback, random_state, state)
    return run_epochs(rule, sequences, w0, settings)


SampleLoss: TypeAlias = Callable[[int, Vector, Vector], float]
"""``loss(i, w, gradient) -> loss`` of sample i. It fills ``gradient`` and does not change w."""


class SampleLosses:
    """A learner for `sgd` whose samples have losses that are computed in Python.

    >>> points = np.array([1.0, 2.0, 6.0])
    >>> def loss(i, w, gradient):
    ...     gradient[:] = w - points[i]
    ...     return float((w[0] - points[i]) ** 2) / 2
    >>> result = sgd(SampleLosses(loss), 3, np.zeros(1), l2=0.3, period=0, random_state=0)
    >>> result.w.round(1).tolist()
    [2.7]
    """

    def __init__(self, loss: SampleLoss) -> None:
        if not callable(loss):
            raise InputError(f"loss must be a function of (i, w, gradient), not {loss!r}")
        self._loss = loss

    def sgd(
        self, order: NDArray[np.int64], lam: float, t0: float, done: int, v: Vector, scale: float
    ) -> tuple[float, float]:
        """Run one epoch, as `SgdLearner.sgd` describes."""
        total, gradient = 0.0, np.empty_like(v)
        v *= scale
        # From here on v is w, without a separate scale: multiplying all of it in each step costs
        # little compared with the loss.
        for k, i in enumerate(order.tolist()):
            step = 1.0 / (lam * (t0 + done + k))
            v *= 1.0 - step * lam
            total += float(self._loss(i, v, gradient))
            v -= step * gradient
        return total, 1.0


def _best_step(
    learner: SgdLearner, order: NDArray[np.int64], w: Vector, lam: float, eta: float
) -> float:
    """Return the initial step size, among eta · 2ᵏ, with the lowest loss after one pass."""

    def loss_after(step: float) -> float:
        trial_w = w.copy()
        _, scale = learner.sgd(order, lam, 1.0 / (lam * step), 0, trial_w, 1.0)
        if not (np.isfinite(trial_w).all() and np.isfinite(scale)):
            return np.inf
        # A second pass does not change the weights: the sum of its losses is their loss.
        total_loss, scale = learner.sgd(order, lam, _NO_STEP, 0, trial_w, scale)
        loss = total_loss + 0.5 * lam * len(order) * scale * scale * float(trial_w @ trial_w)
        return loss if np.isfinite(loss) else np.inf

    losses = {step: loss_after(step) for step in (eta / 2, eta, eta * 2)}
    # While the shortest step is the best one, try a shorter one. Then do the same for longer steps.
    for factor in (0.5, 2.0):
        step = min(losses) if factor < 1 else max(losses)
        while min(losses, key=losses.__getitem__) == step and _MIN_STEP < step < _MAX_STEP:
            step *= factor
            losses[step] = loss_after(step)
    return min(losses, key=losses.__getitem__)
