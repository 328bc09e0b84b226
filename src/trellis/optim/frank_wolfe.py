"""Block-coordinate Frank–Wolfe for structured support vector machines (Lacoste-Julien et al. 2013).

    min_w l2/2 ‖w‖² + Σᵢ max_y (Δᵢ(y) - w · ψᵢ(y)),   ψᵢ(y) = φ(xᵢ, yᵢ) - φ(xᵢ, y)

φ are the features, and Δᵢ(y) is the cost of predicting y for sample i. w is stored as a sum of
blocks, one per sample. Each block is a weighted mean of the vectors ψᵢ(y) / l2 of all y; the
weights are the variables of the dual problem. A step finds the worst y of one sample and moves its
block towards ψᵢ(y) / l2. The step length maximises the dual objective, so there is no step size to
choose. The duality gap bounds the distance to the optimum.
"""

from __future__ import annotations

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
    """Run epochs over all samples, in random order, until gap ≤ ``tolerance`` · max(1, |loss|).

    The gap is summed over the steps of an epoch. The memory is ``blocks · size`` numbers.

    >>> def oracle(i, w):  # two points on a line, +1 and -1: ψ is 2 x, Δ is 1
    ...     psi = np.array([2.0])
    ...     return (psi, 1.0) if 1.0 - w @ psi > 0 else (np.zeros(1), 0.0)
    >>> block_frank_wolfe(oracle, 2, 1, l2=1.0, random_state=0).w
    array([0.5])
    """
    l2_strength = number_at_least(l2, 0.0, "l2")
    if l2_strength == 0.0:
        raise InputError("l2 is 0: must be positive for a support vector machine")
    limit = as_integer(max_iter, "max_iter")
    if limit < 1:
        raise InputError(f"max_iter must be at least 1, not {max_iter}")
    number_at_least(tolerance, 0.0, "tolerance")
    generator, start_time = np.random.default_rng(random_state), time.perf_counter()
    # `blocks_of_w` are the blocks, one per sample; `dual` are their terms of the dual objective.
    w, blocks_of_w, dual = np.zeros(size), np.zeros((blocks, size)), np.zeros(blocks)
    loss, converged, message, epoch = np.nan, False, f"{limit} epochs", 0
    while epoch < limit and not converged:
        gap = 0.0
        for i in generator.permutation(blocks):
            gap += _step(oracle, int(i), w, blocks_of_w, dual, l2_strength)
        epoch += 1
        # Loss = dual + gap. Each gap was measured when its sample was visited, so this loss is an
        # estimate. The exact loss would need another pass over the samples.
        loss = float(dual.sum() - 0.5 * l2_strength * (w @ w) + gap)
        if gap <= tolerance * max(1.0, abs(loss)):
            converged, message = True, "the duality gap is small"
        if callback is not None and callback(
            _progress(epoch, loss, gap, w, epoch * blocks, start_time)
        ):
            message = "stopped by the callback"
            break
    return Result(w, loss, epoch, converged, message, None, epoch * blocks)


def _step(oracle: Oracle, i: int, w: Vector, blocks_of_w: Any, dual: Vector, l2: float) -> float:
    """Move block i and w; return the duality gap of the block before the step."""
    psi, delta = oracle(i, w)
    change = psi / l2 - blocks_of_w[i]
    gap = float(delta - dual[i] - l2 * (change @ w))
    squared_length = l2 * float(change @ change)
    step = 0.0 if gap <= 0.0 else 1.0 if squared_length <= gap else gap / squared_length
    change *= step
    blocks_of_w[i] += change
    w += change
    dual[i] += step * (delta - dual[i])
    return gap


def _progress(
    epoch: int, loss: float, gap: float, w: Vector, evaluations: int, start_time: float
) -> Progress:
    return Progress(
        epoch,
        loss,
        gap,
        int(np.count_nonzero(w)),
        float("nan"),
        evaluations,
        time.perf_counter() - start_time,
        read_only(w),
    )
