"""Forward and backward recursion in log space.

They work for any scores, any number of labels and position-dependent transitions, but need L²
exponentials per step. Each step reads tiles of A and the previous α from memory. log α is stored
minus an offset for each step. All stored log α₀ are negative. From this the backward kernel knows
that the row is in log space, because scaled α₀ has a positive maximum.
"""

# mypy: allow-untyped-decorators, allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

import triton
import triton.language as tl

NEVER = tl.constexpr(float("-inf"))


@triton.jit
def finite(x):
    """Return x, or 0 where x is -inf. Subtracting the result from -inf gives -inf, not NaN."""
    return tl.where(x == NEVER, 0.0, x)


@triton.jit
def positive(x):
    """Return x, or 1 where x is 0. As a divisor it gives 0 / 0 = 0; its logarithm is finite."""
    return tl.where(x > 0.0, x, 1.0)


@triton.jit
def subtract_tag(post, j, tags, tagged: tl.constexpr):
    """Return p(yₜ = j), minus 1 if j is the tag of this step."""
    if tagged:
        post -= tl.where(j == tl.load(tags), 1.0, 0.0)
    return post


@triton.jit
def pair_index(order, t, indexed: tl.constexpr):
    """Return the index in (T-1, L, L) of the transition into the t-th unmasked step."""
    position = tl.full([], 0, tl.int64) + t
    if indexed:
        position = tl.load(order + t).to(tl.int64)
    return position - 1


@triton.jit
def _max_score(pointer, stride, labels, dtype: tl.constexpr, tile: tl.constexpr):
    """Return the maximum of L scores, or 0 if all are -inf."""
    i = tl.arange(0, tile).to(tl.int64)
    top = tl.full([tile], NEVER, dtype)
    for base in range(0, labels, tile):
        j = base + i
        top = tl.maximum(top, tl.load(pointer + j * stride, j < labels, NEVER).to(dtype))
    return finite(tl.max(top, 0))


@triton.jit
def _scores(alpha, i, transitions, a_from, a_to, j, labels, dtype: tl.constexpr):
    """Load α(i) + A(i, j) as a (tile, tile) matrix, padded with -inf."""
    square = (i < labels)[:, None] & (j < labels)[None, :]
    cells = transitions + i[:, None] * a_from + j[None, :] * a_to
    x = tl.load(alpha + i, i < labels, NEVER)[:, None]
    return x + tl.load(cells, square, NEVER).to(dtype)


@triton.jit
def _reduce_column(
    alpha, transitions, a_from, a_to, j, labels,
    dtype: tl.constexpr, tile: tl.constexpr, best: tl.constexpr,
):  # fmt: skip
    """maxᵢ x(i) of x(i) = α(i) + A(i, j) and Σᵢ exp(x(i) - max); the sum is 0 with `best`."""
    i = tl.arange(0, tile).to(tl.int64)
    top = tl.full([tile], NEVER, dtype)
    total = tl.zeros([tile], dtype)
    for base in range(0, labels, tile):
        x = _scores(alpha, base + i, transitions, a_from, a_to, j, labels, dtype)
        new_top = tl.maximum(top, tl.max(x, 0))
        if not best:
            total *= tl.exp(top - finite(new_top))
            total += tl.sum(tl.exp(x - finite(new_top)[None, :]), 0)
        top = new_top
    return top, total


@triton.jit
def _reduce_end(alpha, end, labels, dtype: tl.constexpr, tile: tl.constexpr):
    """maxⱼ x(j) of x(j) = α(j) + end(j), and Σⱼ exp(x(j) - max)."""
    i = tl.arange(0, tile).to(tl.int64)
    tops = tl.full([tile], NEVER, dtype)
    total = tl.zeros([tile], dtype)
    for base in range(0, labels, tile):
        j = base + i
        x = tl.load(alpha + j, j < labels, NEVER) + tl.load(end + j, j < labels, NEVER).to(dtype)
        new_tops = tl.maximum(tops, x)
        total = total * tl.exp(tops - finite(new_tops)) + tl.exp(x - finite(new_tops))
        tops = new_tops
    top = tl.max(tops, 0)
    return top, tl.sum(total * tl.exp(tops - finite(top)), 0)


@triton.jit
def forward_log(
    emissions, e_step, e_label, transitions, a_step, a_from, a_to, start, end, order, alpha, length,
    labels, dtype: tl.constexpr, tile: tl.constexpr, best: tl.constexpr, indexed: tl.constexpr,
):  # fmt: skip
    """Store log α and return log Z. With `best`, max replaces log Σ exp: return the best score.

    `indexed` transitions depend on the position, which `order` gives for each unmasked step.
    """
    i = tl.arange(0, tile).to(tl.int64)
    tl.debug_barrier()  # a scaled walk may still be writing to alpha
    top = _max_score(emissions, e_label, labels, dtype, tile)
    first = _max_score(start, 1, labels, dtype, tile)
    offset = first.to(tl.float64) + top.to(tl.float64) + 1.0
    tops = tl.full([tile], NEVER, dtype)
    for base in range(0, labels, tile):
        j = base + i
        x = tl.load(emissions + j * e_label, j < labels, NEVER).to(dtype) - top
        # The 1 makes all stored log α₀ negative, which marks the row as being in log space.
        x += tl.load(start + j, j < labels, NEVER).to(dtype) - first - 1.0
        tl.store(alpha + j, x, j < labels)
        tops = tl.maximum(tops, x)
    for t in range(1, length):
        tl.debug_barrier()  # all threads have stored the previous row of alpha
        emissions += e_step
        pairs = transitions + pair_index(order, t, indexed) * a_step
        top = _max_score(emissions, e_label, labels, dtype, tile)
        lag = finite(tl.max(tops, 0))
        offset += top.to(tl.float64) + lag.to(tl.float64)
        tops = tl.full([tile], NEVER, dtype)
        for base in range(0, labels, tile):
            j = base + i
            x, total = _reduce_column(alpha, pairs, a_from, a_to, j, labels, dtype, tile, best)
            if not best:
                x += tl.log(positive(total))
            e = tl.load(emissions + j * e_label, j < labels, NEVER).to(dtype)
            x += (e - top) - lag
            tl.store(alpha + labels + j, x, j < labels)
            tops = tl.maximum(tops, x)
        alpha += labels
    tl.debug_barrier()
    last, mass = _reduce_end(alpha, end, labels, dtype, tile)
    offset += last.to(tl.float64)
    if not best:
        offset += tl.log(positive(mass)).to(tl.float64)
    return offset


@triton.jit
def _negate(counts, weight, labels):
    """counts = -weight · counts, (L, L): the part of the gradient that the tags contribute."""
    i = tl.arange(0, 1024)
    tl.debug_barrier()
    for base in range(0, labels * labels, 1024):
        cell = base + i
        # .cg bypasses the L1 cache, which does not contain the atomic additions of count_tags.
        x = tl.load(counts + cell, cell < labels * labels, 0.0, cache_modifier=".cg")
        tl.store(counts + cell, -weight * x, cell < labels * labels)


@triton.jit
def _add_pairs(
    alpha, transitions, a_from, a_to, tags, t_step, weight, d_transitions, sums, tops, quotients, i,
    labels, dtype: tl.constexpr, tile: tl.constexpr, shared: tl.constexpr, tagged: tl.constexpr,
):  # fmt: skip
    """p(yₜ₋₁ = i) = Σⱼ p(yₜ₋₁ = i | yₜ = j) p(yₜ = j). Add the terms to the transitions' gradient.

    tops, quotients (L,): for each j, maxᵢ x(i, j) and p(yₜ = j) / Σᵢ exp(x(i, j) - max).
    """
    k = tl.arange(0, tile).to(tl.int64)
    post = tl.zeros([tile], dtype)
    for base in range(0, labels, tile):
        j = base + k
        square = (i < labels)[:, None] & (j < labels)[None, :]
        pair = _scores(alpha, i, transitions, a_from, a_to, j, labels, dtype)
        pair = tl.exp(pair - tl.load(tops + j, j < labels, 0.0)[None, :])
        pair *= tl.load(quotients + j, j < labels, 0.0)[None, :]
        post += tl.sum(pair, 1)
        if shared:
            cells = sums + (2 + j)[None, :] * labels + i[:, None]
            tl.store(cells, pair * weight + tl.load(cells, square, 0.0), square)
        else:
            if tagged:
                hit = (i == tl.load(tags))[:, None] & (j == tl.load(tags + t_step))[None, :]
                pair -= tl.where(hit, 1.0, 0.0)
            cells = d_transitions + i[:, None] * labels + j[None, :]
            tl.store(cells, pair * weight, square)
    return post


@triton.jit
def backward_log(
    transitions, a_step, a_from, a_to, end, tags, t_step, order, alpha, weight, d_emissions,
    d_transitions, sums, scratch, length, labels, dtype: tl.constexpr, tile: tl.constexpr,
    shared: tl.constexpr, tagged: tl.constexpr, indexed: tl.constexpr,
):  # fmt: skip
    """Compute gradients from log α. Each column of p(yₜ₋₁ | yₜ) is divided by its sum.

    d_emissions (T, L), d_transitions (T-1, L, L) if not `shared`, sums (2 + L, L): the gradients of
    start, end and the shared transitions; scratch (3, L).
    """
    i = tl.arange(0, tile).to(tl.int64)
    last = (length - 1).to(tl.int64)
    alpha += last * labels
    d_emissions += last * labels
    tags += last * t_step
    tops = scratch + labels
    quotients = tops + labels
    top, mass = _reduce_end(alpha, end, labels, dtype, tile)
    weight = tl.where(mass > 0.0, weight, 0.0)  # no path: no gradient, not even of the tags
    if shared & tagged:
        _negate(sums + 2 * labels, weight, labels)
    for base in range(0, labels, tile):
        j = base + i
        x = tl.load(alpha + j, j < labels, NEVER) + tl.load(end + j, j < labels, NEVER).to(dtype)
        post = tl.exp(x - finite(top)) / positive(mass)
        tl.store(scratch + j, post, j < labels)
        y = subtract_tag(post, j, tags, tagged) * weight
        tl.store(d_emissions + j, y, j < labels)
        tl.store(sums + labels + j, y, j < labels)
        tl.store(sums + j, y, j < tl.where(length == 1, labels, 0))
    for back in range(1, length):
        tl.debug_barrier()
        alpha -= labels
        d_emissions -= labels
        tags -= t_step
        pair = pair_index(order, length - back, indexed)
        pairs = transitions + pair * a_step
        for base in range(0, labels, tile):
            j = base + i
            x, total = _reduce_column(alpha, pairs, a_from, a_to, j, labels, dtype, tile, False)
            post = tl.load(scratch + j, j < labels, 0.0)
            tl.store(tops + j, finite(x), j < labels)
            tl.store(quotients + j, post / positive(total), j < labels)
        tl.debug_barrier()
        for base in range(0, labels, tile):
            k = base + i
            post = _add_pairs(
                alpha, pairs, a_from, a_to, tags, t_step, weight,
                d_transitions + pair * labels * labels, sums, tops, quotients, k, labels, dtype,
                tile, shared, tagged,
            )  # fmt: skip
            tl.store(scratch + k, post, k < labels)
            y = subtract_tag(post, k, tags, tagged) * weight
            tl.store(d_emissions + k, y, k < labels)
            tl.store(sums + k, y, k < tl.where(back + 1 == length, labels, 0))
