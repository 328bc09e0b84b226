"""Block-coordinate Frank–Wolfe for structured support vector machines (Lacoste-Julien et al. 2013).

    min_w l2/2 ‖w‖² + Σᵢ max_y (Δᵢ(y) - w · ψᵢ(y)),   ψᵢ(y) = φ(xᵢ, yᵢ) - φ(xᵢ, y)

w is kept as a sum of blocks, one a sample: each a mean of ψᵢ / l2, which makes it a point of the dual.
A step asks for the worst y of one sample and moves its block there as far as the dual gains most. The
gap to the dual bounds the distance to the optimum, and no step size is to be chosen.
"""  # noqa: E501

import time
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from trellis.checks import as_integer, number_at_least
from trellis.errors import InputError
from trellis.optim.result import Callback, Progress, Result, Vector, read_only

__all__ = ["block_frank_wolfe"]

Oracle: TypeAlias = Callable[[int, Vector], tuple[Vector, float]]
"""``oracle(i, w) -> ψᵢ(y), Δᵢ(y)`` for the y that maximises Δᵢ(y) - w · ψᵢ(y)."""


def block_frank_wolfe(
    oracle: Oracle,
    blocks: int,
    size: int,
    *,
    l2: float = 1.0,
    max_iter: int = 100,
    tolerance: float = 1e-3,
    callback: Callback | None = None,
    random_state: Any = None,
) -> Result[None]:
    """Epochs over all samples, in random order, until the gap is within ``tolerance`` of the loss.

    The gap is summed up along the epoch. Takes ``blocks · size`` numbers of memory.

    >>> def oracle(i, w):  # two points, +1 and -1, of a line: ψ is 2 x, Δ is 1
    ...     psi = np.array([2.0])
    ...     return (psi, 1.0) if 1.0 - w @ psi > 0 else (np.zeros(1), 0.0)
    >>> block_frank_wolfe(oracle, 2, 1, l2=1.0, random_state=0).w
    array([0.5])
    """
    strength = number_at_least(l2, 0.0, "l2")
    if strength == 0.0:
        raise InputError("l2 is 0: a support vector machine needs a positive one")
    most = as_integer(max_iter, "max_iter")
    if most < 1:
        raise InputError(f"max_iter must be at least 1, not {max_iter}")
    number_at_least(tolerance, 0.0, "tolerance")
    random, began = np.random.default_rng(random_state), time.perf_counter()
    w, own, dual = np.zeros(size), np.zeros((blocks, size)), np.zeros(blocks)
    loss, converged, message, epoch = np.nan, False, f"{most} epochs", 0
    while epoch < most and not converged:
        gap = 0.0
        for i in random.permutation(blocks):
            gap += _step(oracle, int(i), w, own, dual, strength)
        epoch += 1
        # dual + gap, with the gaps of when the samples were visited
        loss = float(dual.sum() - 0.5 * strength * (w @ w) + gap)
        if gap <= tolerance * max(1.0, abs(loss)):
            converged, message = True, "the duality gap is small"
        if callback is not None and callback(_progress(epoch, loss, gap, w, epoch * blocks, began)):
            message = "stopped by the callback"
            break
    return Result(w, loss, epoch, converged, message, None, epoch * blocks)


def _step(oracle: Oracle, i: int, w: Vector, own: Any, dual: Vector, l2: float) -> float:
    """Move block i and w; the gap that it had."""
    psi, delta = oracle(i, w)
    move = psi / l2 - own[i]
    gap = float(delta - dual[i] - l2 * (move @ w))
    length = l2 * float(move @ move)
    step = 0.0 if gap <= 0.0 else 1.0 if length <= gap else gap / length
    move *= step
    own[i] += move
    w += move
    dual[i] += step * (delta - dual[i])
    return gap


def _progress(
    epoch: int, loss: float, gap: float, w: Vector, evaluations: int, began: float
) -> Progress:
    return Progress(
        epoch,
        loss,
        gap,
        int(np.count_nonzero(w)),
        float("nan"),
        evaluations,
        time.perf_counter() - began,
        read_only(w),
    )
