"""Forward and backward recursion in log space.

They work for any scores, any number of labels and position-dependent transitions, but need L²
exponentials per step. Each step reads tiles of A and the previous α from memory. log α is stored
minus an offset for each step. All stored log α₀ are negative. From this the backward kernel knows
that the row is in log space, because scaled α₀ has a positive maximum.
"""

# mypy: allow-untyped-decorators, allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from typing import Any, NamedTuple

import triton
import triton.language as tl

NEVER = tl.constexpr(float("-inf"))


class Row(NamedTuple):
    """One row of the batch: what is known of its steps."""

    order: Any  # (T,) positions of the unmasked steps, if there is a mask
    alpha: Any  # (T, L)
    length: Any  # the number of unmasked steps
    labels: Any  # L


class Scores(NamedTuple):
    """The scores of a row, or their gradients."""

    emissions: Any  # (T, L)
    e_step: Any  # the stride of a step of the emissions
    transitions: Any  # (L, L), or (T-1, L, L) by position
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
def step_position(row, t, masked: tl.constexpr):
    """Return the position (int64) of the t-th unmasked step; t may be a block."""
    position = tl.full([], 0, tl.int64) + t
    if masked:
        position = tl.load(row.order + t, t < row.length, 0).to(tl.int64)
    return position


@triton.jit
def pair_offset(row, t, masked: tl.constexpr, shared: tl.constexpr):
    """Return the offset of the transitions into the t-th unmasked step; 0 if they are shared."""
    return 0 if shared else (step_position(row, t, masked) - 1) * row.labels * row.labels


@triton.jit
def _max_score(pointer, labels, dtype: tl.constexpr, tile: tl.constexpr):
    """Return the maximum of L scores, or 0 if all are -inf."""
    i = tl.arange(0, tile).to(tl.int64)
    top = tl.full([tile], NEVER, dtype)
    for base in range(0, labels, tile):
        j = base + i
        top = tl.maximum(top, tl.load(pointer + j, j < labels, NEVER).to(dtype))
    return finite(tl.max(top, 0))


@triton.jit
def _load_scores(row, scores, alpha, i, pairs, j):
    """Load α(i) + A(i, j) as a (tile, tile) matrix, padded with -inf."""
    square = (i < row.labels)[:, None] & (j < row.labels)[None, :]
    x = tl.load(alpha + i, i < row.labels, NEVER)[:, None]
    cells = pairs + i[:, None] * scores.a_from + j[None, :] * scores.a_to
    return x + tl.load(cells, square, NEVER).to(x.dtype)


@triton.jit
def _reduce_column(row, scores, alpha, pairs, j, tile: tl.constexpr, best: tl.constexpr):
    """maxᵢ x(i) of x(i) = α(i) + A(i, j) and Σᵢ exp(x(i) - max); the sum is 0 with `best`."""
    i = tl.arange(0, tile).to(tl.int64)
    top = tl.full([tile], NEVER, alpha.dtype.element_ty)
    total = tl.zeros([tile], alpha.dtype.element_ty)
    for base in range(0, row.labels, tile):
        x = _load_scores(row, scores, alpha, base + i, pairs, j)
        new_top = tl.maximum(top, tl.max(x, 0))
        if not best:
            total *= tl.exp(top - finite(new_top))
            total += tl.sum(tl.exp(x - finite(new_top)[None, :]), 0)
        top = new_top
    return top, total


@triton.jit
def _load_end(row, scores, alpha, j):
    """Load α(j) + end(j), padded with -inf."""
    x = tl.load(alpha + j, j < row.labels, NEVER)
    return x + tl.load(scores.end + j, j < row.labels, NEVER).to(x.dtype)


@triton.jit
def _reduce_end(row, scores, alpha, tile: tl.constexpr):
    """maxⱼ x(j) of x(j) = α(j) + end(j), and Σⱼ exp(x(j) - max)."""
    i = tl.arange(0, tile).to(tl.int64)
    tops = tl.full([tile], NEVER, alpha.dtype.element_ty)
    total = tl.zeros([tile], alpha.dtype.element_ty)
    for base in range(0, row.labels, tile):
        x = _load_end(row, scores, alpha, base + i)
        new_tops = tl.maximum(tops, x)
        total = total * tl.exp(tops - finite(new_tops)) + tl.exp(x - finite(new_tops))
        tops = new_tops
    top = tl.max(tops, 0)
    return top, tl.sum(total * tl.exp(tops - finite(top)), 0)


@triton.jit
def forward_log(
    row, scores, tile: tl.constexpr, best: tl.constexpr, masked: tl.constexpr, shared: tl.constexpr
):  # fmt: skip
    """Store log α and return log Z. With `best`, max replaces log Σ exp: return the best score."""
    labels = row.labels
    alpha = row.alpha
    dtype: tl.constexpr = alpha.dtype.element_ty
    emissions = scores.emissions
    i = tl.arange(0, tile).to(tl.int64)
    tl.debug_barrier()  # a scaled walk may still be writing to alpha
    top = _max_score(emissions, labels, dtype, tile)
    first = _max_score(scores.start, labels, dtype, tile)
    offset = first.to(tl.float64) + top.to(tl.float64) + 1.0
    tops = tl.full([tile], NEVER, dtype)
    for base in range(0, labels, tile):
        j = base + i
        x = tl.load(emissions + j, j < labels, NEVER).to(dtype) - top
        # The 1 makes all stored log α₀ negative, which marks the row as being in log space.
        x += tl.load(scores.start + j, j < labels, NEVER).to(dtype) - first - 1.0
        tl.store(alpha + j, x, j < labels)
        tops = tl.maximum(tops, x)
    for t in range(1, row.length):
        tl.debug_barrier()  # all threads have stored the previous row of alpha
        emissions += scores.e_step
        pairs = scores.transitions + pair_offset(row, t, masked, shared)
        top = _max_score(emissions, labels, dtype, tile)
        lag = finite(tl.max(tops, 0))
        offset += top.to(tl.float64) + lag.to(tl.float64)
        tops = tl.full([tile], NEVER, dtype)
        for base in range(0, labels, tile):
            j = base + i
            x, total = _reduce_column(row, scores, alpha, pairs, j, tile, best)
            if not best:
                x += tl.log(positive(total))
            e = tl.load(emissions + j, j < labels, NEVER).to(dtype)
            x += (e - top) - lag
            tl.store(alpha + labels + j, x, j < labels)
            tops = tl.maximum(tops, x)
        alpha += labels
    tl.debug_barrier()
    last, mass = _reduce_end(row, scores, alpha, tile)
    offset += last.to(tl.float64)
    if not best:
        offset += tl.log(positive(mass)).to(tl.float64)
    return offset


@triton.jit
def _add_pairs(
    row, scores, alpha, pairs, i, weight, d_pairs, scratch, tile: tl.constexpr, shared: tl.constexpr
):  # fmt: skip
    """p(yₜ₋₁ = i) = Σⱼ p(yₜ₋₁ = i | yₜ = j) p(yₜ = j). Add the terms to the gradient d_pairs.

    scratch (3, L): p(yₜ = j); for each j, maxᵢ x(i, j) and p(yₜ = j) / Σᵢ exp(x(i, j) - max).
    """
    n_labels = row.labels
    k = tl.arange(0, tile).to(tl.int64)
    post = tl.zeros([tile], alpha.dtype.element_ty)
    for base in range(0, n_labels, tile):
        j = base + k
        square = (i < n_labels)[:, None] & (j < n_labels)[None, :]
        pair = _load_scores(row, scores, alpha, i, pairs, j)
        pair = tl.exp(pair - tl.load(scratch + n_labels + j, j < n_labels, 0.0)[None, :])
        pair *= tl.load(scratch + 2 * n_labels + j, j < n_labels, 0.0)[None, :]
        post += tl.sum(pair, 1)
        cells = d_pairs + i[:, None] * scores.a_from + j[None, :] * scores.a_to
        total = pair * weight
        if shared:
            total += tl.load(cells, square, 0.0)
        tl.store(cells, total, square)
    return post


@triton.jit
def backward_log(
    row, scores, gradients, weight, scratch,
    tile: tl.constexpr, masked: tl.constexpr, shared: tl.constexpr,
):  # fmt: skip
    """Compute weighted gradients from log α; return the weight, or 0 if the row has no path.

    Each column of p(yₜ₋₁ | yₜ) is divided by its sum. The strides of the transitions and of their
    gradients are equal. scratch is (3, L), see `_add_pairs`.
    """
    labels = row.labels
    i = tl.arange(0, tile).to(tl.int64)
    last = row.length - 1
    alpha = row.alpha + last.to(tl.int64) * labels
    place = gradients.emissions + step_position(row, last, masked) * labels
    top, mass = _reduce_end(row, scores, alpha, tile)
    weight = tl.where(mass > 0.0, weight, 0.0)  # no path: no gradient, not even of the tags
    for base in range(0, labels, tile):
        j = base + i
        post = tl.exp(_load_end(row, scores, alpha, j) - finite(top)) / positive(mass)
        tl.store(scratch + j, post, j < labels)
        tl.store(place + j, post * weight, j < labels)
        tl.store(gradients.end + j, post * weight, j < labels)
        tl.store(gradients.start + j, post * weight, j < labels)  # the first step overwrites it
    for back in range(1, row.length):
        tl.debug_barrier()
        alpha -= labels
        place = gradients.emissions + step_position(row, last - back, masked) * labels
        offset = pair_offset(row, row.length - back, masked, shared)
        pairs = scores.transitions + offset
        for base in range(0, labels, tile):
            j = base + i
            x, total = _reduce_column(row, scores, alpha, pairs, j, tile, False)
            post = tl.load(scratch + j, j < labels, 0.0)
            tl.store(scratch + labels + j, finite(x), j < labels)
            tl.store(scratch + 2 * labels + j, post / positive(total), j < labels)
        tl.debug_barrier()
        d_pairs = gradients.transitions + offset
        for base in range(0, labels, tile):
            j = base + i
            post = _add_pairs(row, scores, alpha, pairs, j, weight, d_pairs, scratch, tile, shared)
            tl.store(scratch + j, post, j < labels)
            tl.store(place + j, post * weight, j < labels)
            tl.store(gradients.start + j, post * weight, j < labels)
    return weight
