"""Walks in log space: any scores, any number of labels, transitions of each position.

Tiles of A come from memory, and a row of α goes through memory from step to step. L² exponentials
a step; log α is kept, less a number for each step. log α₀ < 0 tells it from the scaled form.
"""

# mypy: allow-untyped-decorators, allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

import triton
import triton.language as tl

from trellis.inference.chain.triton_parts import NEVER, finite, less_tag, positive


@triton.jit
def _top(pointer, stride, labels, dtype: tl.constexpr, tile: tl.constexpr):
    """The largest score of a row, 0 if all are -inf."""
    at = tl.arange(0, tile).to(tl.int64)
    most = tl.full([tile], NEVER, dtype)
    for base in range(0, labels, tile):
        j = base + at
        most = tl.maximum(most, tl.load(pointer + j * stride, j < labels, NEVER).to(dtype))
    return finite(tl.max(most, 0))


@triton.jit
def _add(alpha, i, transitions, a_from, a_to, j, labels, dtype: tl.constexpr):
    """α(i) + A(i, j), -inf around them."""
    square = (i < labels)[:, None] & (j < labels)[None, :]
    cells = transitions + i[:, None] * a_from + j[None, :] * a_to
    x = tl.load(alpha + i, i < labels, NEVER)[:, None]
    return x + tl.load(cells, square, NEVER).to(dtype)


@triton.jit
def _column(
    alpha, transitions, a_from, a_to, j, labels,
    dtype: tl.constexpr, tile: tl.constexpr, best: tl.constexpr,
):  # fmt: skip
    """Max x(i) of x(i) = α(i) + A(i, j), and Σᵢ exp(x(i) - max), unless only the `best` counts."""
    at = tl.arange(0, tile).to(tl.int64)
    most = tl.full([tile], NEVER, dtype)
    total = tl.zeros([tile], dtype)
    for base in range(0, labels, tile):
        x = _add(alpha, base + at, transitions, a_from, a_to, j, labels, dtype)
        more = tl.maximum(most, tl.max(x, 0))
        if not best:
            total *= tl.exp(most - finite(more))
            total += tl.sum(tl.exp(x - finite(more)[None, :]), 0)
        most = more
    return most, total


@triton.jit
def _finish(alpha, end, labels, dtype: tl.constexpr, tile: tl.constexpr):
    """Max x(j) of x(j) = α(j) + end(j), and Σⱼ exp(x(j) - max)."""
    at = tl.arange(0, tile).to(tl.int64)
    most = tl.full([tile], NEVER, dtype)
    total = tl.zeros([tile], dtype)
    for base in range(0, labels, tile):
        j = base + at
        x = tl.load(alpha + j, j < labels, NEVER) + tl.load(end + j, j < labels, NEVER).to(dtype)
        more = tl.maximum(most, x)
        total = total * tl.exp(most - finite(more)) + tl.exp(x - finite(more))
        most = more
    top = tl.max(most, 0)
    return top, tl.sum(total * tl.exp(most - finite(top)), 0)


@triton.jit
def forward_log(
    emissions, e_step, e_label, transitions, a_step, a_from, a_to, start, end, alpha, length,
    labels, dtype: tl.constexpr, tile: tl.constexpr, best: tl.constexpr,
):  # fmt: skip
    """Log Z, and log α in memory; with max in place of log Σ exp if only the `best` counts."""
    at = tl.arange(0, tile).to(tl.int64)
    tl.debug_barrier()  # what a scaled walk has written there before is written
    top = _top(emissions, e_label, labels, dtype, tile)
    first = _top(start, 1, labels, dtype, tile)
    offset = first.to(tl.float64) + top.to(tl.float64) + 1.0
    most = tl.full([tile], NEVER, dtype)
    for base in range(0, labels, tile):
        j = base + at
        x = tl.load(emissions + j * e_label, j < labels, NEVER).to(dtype) - top
        x += tl.load(start + j, j < labels, NEVER).to(dtype) - first - 1.0
        tl.store(alpha + j, x, j < labels)
        most = tl.maximum(most, x)
    for _ in range(1, length):
        tl.debug_barrier()  # the row that the step before has written is whole
        emissions += e_step
        top = _top(emissions, e_label, labels, dtype, tile)
        lag = finite(tl.max(most, 0))
        offset += top.to(tl.float64) + lag.to(tl.float64)
        most = tl.full([tile], NEVER, dtype)
        for base in range(0, labels, tile):
            j = base + at
            x, total = _column(alpha, transitions, a_from, a_to, j, labels, dtype, tile, best)
            if not best:
                x += tl.log(positive(total))
            e = tl.load(emissions + j * e_label, j < labels, NEVER).to(dtype)
            x += (e - top) - lag
            tl.store(alpha + labels + j, x, j < labels)
            most = tl.maximum(most, x)
        alpha += labels
        transitions += a_step
    tl.debug_barrier()
    last, mass = _finish(alpha, end, labels, dtype, tile)
    offset += last.to(tl.float64)
    if not best:
        offset += tl.log(positive(mass)).to(tl.float64)
    return offset


@triton.jit
def _negate(counts, weight, labels):
    """The counts of the tags become what they add to the gradient."""
    at = tl.arange(0, 1024)
    tl.debug_barrier()
    for base in range(0, labels * labels, 1024):
        cell = base + at
        x = tl.load(counts + cell, cell < labels * labels, 0.0, cache_modifier=".cg")
        tl.store(counts + cell, -weight * x, cell < labels * labels)


@triton.jit
def _pairs(
    alpha, transitions, a_from, a_to, tags, t_step, weight, d_transitions, sums, most, quotient, i,
    labels, dtype: tl.constexpr, tile: tl.constexpr, shared: tl.constexpr, tagged: tl.constexpr,
):  # fmt: skip
    """p(yₜ₋₁ = i) = Σⱼ p(yₜ₋₁ = i | yₜ = j) p(yₜ = j); the parts go to the transitions."""
    at = tl.arange(0, tile).to(tl.int64)
    post = tl.zeros([tile], dtype)
    for base in range(0, labels, tile):
        j = base + at
        square = (i < labels)[:, None] & (j < labels)[None, :]
        pair = _add(alpha, i, transitions, a_from, a_to, j, labels, dtype)
        pair = tl.exp(pair - tl.load(most + j, j < labels, 0.0)[None, :])
        pair *= tl.load(quotient + j, j < labels, 0.0)[None, :]
        post += tl.sum(pair, 1)
        if shared:
            cells = sums + (2 + j)[None, :] * labels + i[:, None]
            tl.store(cells, pair * weight + tl.load(cells, square, 0.0), square)
        else:
            if tagged:
                both = (i == tl.load(tags))[:, None] & (j == tl.load(tags + t_step))[None, :]
                pair -= tl.where(both, 1.0, 0.0)
            cells = d_transitions + i[:, None] * labels + j[None, :]
            tl.store(cells, pair * weight, square)
    return post


@triton.jit
def backward_log(
    transitions, a_step, a_from, a_to, end, tags, t_step, alpha, weight, d_emissions,
    d_transitions, sums, scratch, length, labels,
    dtype: tl.constexpr, tile: tl.constexpr, shared: tl.constexpr, tagged: tl.constexpr,
):  # fmt: skip
    """Gradients from log α, column by column: each p(yₜ₋₁ | yₜ) is divided by its own sum."""
    at = tl.arange(0, tile).to(tl.int64)
    last = (length - 1).to(tl.int64)
    alpha += last * labels
    d_emissions += last * labels
    tags += last * t_step
    transitions += last * a_step
    d_transitions += last * labels * labels
    most = scratch + labels
    quotient = most + labels
    top, mass = _finish(alpha, end, labels, dtype, tile)
    weight = tl.where(mass > 0.0, weight, 0.0)  # no path: no gradient, not of the tags either
    if shared & tagged:
        _negate(sums + 2 * labels, weight, labels)
    for base in range(0, labels, tile):
        j = base + at
        x = tl.load(alpha + j, j < labels, NEVER) + tl.load(end + j, j < labels, NEVER).to(dtype)
        post = tl.exp(x - finite(top)) / positive(mass)
        tl.store(scratch + j, post, j < labels)
        y = less_tag(post, j, tags, tagged) * weight
        tl.store(d_emissions + j, y, j < labels)
        tl.store(sums + labels + j, y, j < labels)
        tl.store(sums + j, y, j < tl.where(length == 1, labels, 0))
    for back in range(1, length):
        tl.debug_barrier()
        alpha -= labels
        transitions -= a_step
        d_emissions -= labels
        d_transitions -= labels * labels
        tags -= t_step
        for base in range(0, labels, tile):
            j = base + at
            x, total = _column(alpha, transitions, a_from, a_to, j, labels, dtype, tile, False)
            post = tl.load(scratch + j, j < labels, 0.0)
            tl.store(most + j, finite(x), j < labels)
            tl.store(quotient + j, post / positive(total), j < labels)
        tl.debug_barrier()
        for base in range(0, labels, tile):
            i = base + at
            post = _pairs(
                alpha, transitions, a_from, a_to, tags, t_step, weight, d_transitions, sums,
                most, quotient, i, labels, dtype, tile, shared, tagged,
            )  # fmt: skip
            tl.store(scratch + i, post, i < labels)
            y = less_tag(post, i, tags, tagged) * weight
            tl.store(d_emissions + i, y, i < labels)
            tl.store(sums + i, y, i < tl.where(back + 1 == length, labels, 0))
