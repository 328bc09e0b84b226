"""Forward and backward recursion in log space.

They work for any scores, any number of labels and position-dependent transitions, but need L²
exponentials per step. A program holds all earlier labels i, and takes the later labels j in tiles.
log α is stored minus an offset for each step. All stored log α₀ are negative. From this the
backward kernel knows that the row is in log space, because scaled α₀ has a positive maximum.
"""

from typing import Any, NamedTuple

import triton
import triton.language as tl

NEVER = tl.constexpr(float("-inf"))


class Row(NamedTuple):
    """One row of the batch: its unmasked steps and its forward scores."""

    order: Any  # (T,) positions of the unmasked steps, or None without a mask
    alpha: Any  # (T, L)
    length: Any  # the number of unmasked steps
    labels: Any  # L


class Scores(NamedTuple):
    """The scores of a row, or their gradients."""

    emissions: Any  # (T, L)
    e_step: Any  # the stride of a step of the emissions
    transitions: Any  # (L, L), or (T-1, L, L) by position
    a_step: Any  # the stride of a position, or None if the transitions are shared
    a_from: Any  # the stride of the earlier label
    a_to: Any  # the stride of the later label
    start: Any  # (L,)
    end: Any  # (L,)


@triton.jit
def finite(x):
    """Return x, or 0 where x is -inf. Subtracting the result from -inf gives -inf, not NaN."""
    return tl.where(x == NEVER, 0.0, x)


@triton.jit
def positive(x):
    """Return x, or 1 where x is 0. As a divisor it gives 0 / 0 = 0; its logarithm is finite."""
    return tl.where(x > 0.0, x, 1.0)


@triton.jit
def step_position(row, t):
    """Return the position (int64) of the t-th unmasked step; t may be a block."""
    position = tl.full([], 0, tl.int64) + t
    if row.order is not None:
        position = tl.load(row.order + t, t < row.length, 0).to(tl.int64)
    return position


@triton.jit
def pair_offset(row, scores, t):
    """Return the offset of the transitions into the t-th unmasked step; 0 if they are shared."""
    return 0 if scores.a_step is None else (step_position(row, t) - 1) * scores.a_step


@triton.jit
def _locate_pairs(row, scores, j, block: tl.constexpr):
    """Return the offsets of the transitions (i, j), with i in rows, and which of them exist."""
    i = tl.arange(0, block).to(tl.int64)
    cells = i[:, None] * scores.a_from + j[None, :] * scores.a_to
    return cells, (i < row.labels)[:, None] & (j < row.labels)[None, :]


@triton.jit
def forward_log(row, scores, block: tl.constexpr, tile: tl.constexpr, best: tl.constexpr):
    """Store log α and return log Z. With `best`, max replaces log Σ exp: return the best score."""
    labels = row.labels
    alpha = row.alpha
    emissions = scores.emissions
    dtype: tl.constexpr = alpha.dtype.element_ty
    i = tl.arange(0, block)
    inside = i < labels
    tl.debug_barrier()  # threads may still be writing α of the scaled recursion
    x = tl.load(emissions + i, inside, NEVER).to(dtype)
    start = tl.load(scores.start + i, inside, NEVER).to(dtype)
    top = finite(tl.max(x, 0))
    first = finite(tl.max(start, 0))
    offset = first.to(tl.float64) + top.to(tl.float64) + 1.0
    # The 1 makes all stored log α₀ negative, which marks the row as being in log space.
    tl.store(alpha + i, (x - top) + (start - first - 1.0), inside)
    for t in range(1, row.length):
        tl.debug_barrier()  # all threads have stored the previous row of alpha
        x = tl.load(alpha + i, inside, NEVER)
        alpha += labels
        emissions += scores.e_step
        top = finite(tl.max(tl.load(emissions + i, inside, NEVER).to(dtype), 0))
        lag = finite(tl.max(x, 0))
        offset += top.to(tl.float64) + lag.to(tl.float64)
        pairs = scores.transitions + pair_offset(row, scores, t)
        for base in range(0, labels, tile):
            j = base + tl.arange(0, tile).to(tl.int64)
            cells, exists = _locate_pairs(row, scores, j, block)
            y = x[:, None] + tl.load(pairs + cells, exists, NEVER).to(dtype)
            sums = tl.max(y, 0)
            if not best:
                sums += tl.log(positive(tl.sum(tl.exp(y - finite(sums)[None, :]), 0)))
            e = tl.load(emissions + j, j < labels, NEVER).to(dtype)
            tl.store(alpha + j, sums + ((e - top) - lag), j < labels)
    tl.debug_barrier()
    x = tl.load(alpha + i, inside, NEVER) + tl.load(scores.end + i, inside, NEVER).to(dtype)
    last = tl.max(x, 0)
    offset += last.to(tl.float64)
    if not best:
        offset += tl.log(positive(tl.sum(tl.exp(x - finite(last)), 0))).to(tl.float64)
    return offset


@triton.jit
def backward_log(row, scores, gradients, weight, block: tl.constexpr, tile: tl.constexpr):
    """Compute weighted gradients from log α; return the weight, or 0 if the row has no path.

    p(yₜ₋₁ = i) = Σⱼ p(yₜ₋₁ = i | yₜ = j) p(yₜ = j). Each column of p(yₜ₋₁ | yₜ) is divided by its
    sum. The strides of the transitions and of their gradients are equal.
    """
    labels = row.labels
    dtype: tl.constexpr = row.alpha.dtype.element_ty
    i = tl.arange(0, block)
    inside = i < labels
    last = row.length - 1
    alpha = row.alpha + last.to(tl.int64) * labels
    place = gradients.emissions + step_position(row, last) * labels
    x = tl.load(alpha + i, inside, NEVER) + tl.load(scores.end + i, inside, NEVER).to(dtype)
    post = tl.exp(x - finite(tl.max(x, 0)))
    mass = tl.sum(post, 0)
    weight = tl.where(mass > 0.0, weight, 0.0)  # without a path, all gradients are 0
    post = post / positive(mass) * weight
    tl.store(gradients.end + i, post, inside)
    for back in range(1, row.length):
        tl.store(place + i, post, inside)
        tl.debug_barrier()  # other threads load this row of the gradient
        alpha -= labels
        x = tl.load(alpha + i, inside, NEVER)
        post = tl.zeros([block], dtype)
        offset = pair_offset(row, scores, row.length - back)
        pairs = scores.transitions + offset
        d_pairs = gradients.transitions + offset
        for base in range(0, labels, tile):
            j = base + tl.arange(0, tile).to(tl.int64)
            cells, exists = _locate_pairs(row, scores, j, block)
            y = x[:, None] + tl.load(pairs + cells, exists, NEVER).to(dtype)
            y = tl.exp(y - finite(tl.max(y, 0))[None, :])
            y *= (tl.load(place + j, j < labels, 0.0) / positive(tl.sum(y, 0)))[None, :]
            post += tl.sum(y, 1)
            if scores.a_step is None:
                y += tl.load(d_pairs + cells, exists, 0.0)
            tl.store(d_pairs + cells, y, exists)
        place = gradients.emissions + step_position(row, last - back) * labels
    tl.store(place + i, post, inside)
    tl.store(gradients.start + i, post, inside)
    return weight
