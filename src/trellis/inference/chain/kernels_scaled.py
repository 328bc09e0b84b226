"""Recursions with the transitions in registers: scaled probabilities, and the best path.

ψ = exp(A - max A) is computed once. A step is a product of a vector and a matrix, and none of its
exponentials depends on the previous step. Emissions are loaded three steps ahead. A step takes
about 200 cycles, so this hides the 600 cycles of a load.

    mₜ = αₜ₋₁ ψ / max αₜ₋₁        αₜ = mₜ ∘ wₜ        wₜ = exp(uₜ - max uₜ)

The kernel stores α₀ and, for t > 0, mₜ. The backward pass

    p(yₜ₋₁ = a, yₜ = b) = p(yₜ = b) αₜ₋₁(a) ψ(a, b) / (max αₜ₋₁ · mₜ(b))

needs no β. It cannot overflow, because it splits p(yₜ) ≤ 1 into parts.
"""

# mypy: allow-untyped-decorators, allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

import triton
import triton.language as tl

from trellis.inference.chain.kernels_log import NEVER, finite, positive, subtract_tag


@triton.jit
def load_if(condition, pointers, j, labels, other):
    """Load the values of the labels j, or return `other` if the condition is false."""
    return tl.load(pointers, j < tl.where(condition, labels, 0), other)


@triton.jit
def load_square(transitions, by_row, by_column, labels, dtype: tl.constexpr, block: tl.constexpr):
    """Load all transitions as a (block, block) matrix, padded with -inf."""
    j = tl.arange(0, block)
    cells = transitions + j[:, None] * by_row + j[None, :] * by_column
    return tl.load(cells, (j < labels)[:, None] & (j < labels)[None, :], NEVER).to(dtype)


@triton.jit
def _is_exact(total, least, low, range_, dtype: tl.constexpr):
    """Return True if no underflow has changed the result; docs/kernels.md has the proof.

    This holds if each usable label has far more mass than underflow can have removed. It also holds
    if all scores are so close that nothing can underflow: then 0 means that no path is allowed.
    `least` is the smallest m, `low` the smallest m above 0, `range_` the lowest score minus the
    highest.
    """
    floor: tl.constexpr = 1e-280 if dtype == tl.float64 else 1e-27
    small: tl.constexpr = 1e-130 if dtype == tl.float64 else 1e-13
    span: tl.constexpr = -170.0 if dtype == tl.float64 else -25.0
    return (total >= floor) & ((least >= floor) | ((low >= small) & (range_ >= span)))


@triton.jit
def _psi(transitions, a_from, a_to, labels, dtype: tl.constexpr, block: tl.constexpr):
    """Return ψ = exp(A - max A), max A, labels that no transition enters, and min A - max A."""
    depth: tl.constexpr = -700.0 if dtype == tl.float64 else -84.0  # exp(depth) nearly underflows
    scores = load_square(transitions, a_from, a_to, labels, dtype, block)
    best = tl.max(scores, 0)
    top = finite(tl.max(best, 0))
    unreachable = best - top < depth
    psi = tl.where(unreachable[None, :], 0.0, tl.exp(scores - top))
    return psi, top, unreachable, tl.min(tl.where(scores > NEVER, scores - top, 0.0), 0)


@triton.jit
def forward_scaled(
    emissions, e_step, e_label, transitions, a_from, a_to, start, end, alpha, length, labels,
    dtype: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Return log Z and whether it is exact (see `_is_exact`); store α₀ and mₜ."""
    j = tl.arange(0, block)
    inside = j < labels
    psi, top_pair, unreachable, range_ = _psi(transitions, a_from, a_to, labels, dtype, block)
    unary = emissions + j.to(tl.int64) * e_label
    alpha += j
    e = tl.load(unary, inside, NEVER).to(dtype)
    top = finite(tl.max(e, 0))
    x = (e - top) + tl.load(start + j, inside, NEVER).to(dtype)
    first = finite(tl.max(x, 0))
    p = tl.exp(x - first)
    tl.store(alpha, p, inside)
    offset = top.to(tl.float64) + first.to(tl.float64) + (length - 1) * top_pair.to(tl.float64)
    range_ = tl.minimum(range_, tl.where(x > NEVER, x - first, 0.0))
    least = tl.full([block], 1.0, dtype)
    low = least
    unary += e_step
    e1 = load_if(length > 1, unary, j, labels, NEVER)
    unary += e_step
    e2 = load_if(length > 2, unary, j, labels, NEVER)
    unary += e_step
    e3 = load_if(length > 3, unary, j, labels, NEVER)
    for t in tl.range(1, length, loop_unroll_factor=4):
        unary += e_step
        alpha += labels
        e4 = load_if(t + 3 < length, unary, j, labels, NEVER)
        e = e1.to(dtype)
        top = finite(tl.max(e, 0))
        w = tl.where(unreachable, 0.0, tl.exp(e - top))  # their m = 0 must not fail _is_exact
        # The maximum of the previous step does not have to wait for this step's result.
        scale = 1.0 / positive(tl.max(p, 0))
        m = tl.sum(p[:, None] * psi, 0)
        used = tl.where(w > 0.0, m, 1.0)
        least = tl.minimum(least, used)
        low = tl.minimum(low, tl.where(m > 0.0, used, 1.0))
        range_ = tl.minimum(range_, tl.where(e > NEVER, e - top, 0.0))
        tl.store(alpha, m * scale, inside)
        p = m * (w * scale)
        offset += (top - tl.log(scale)).to(tl.float64)
        e1 = e2
        e2 = e3
        e3 = e4
    x = tl.load(end + j, inside, NEVER).to(dtype)
    top = finite(tl.max(x, 0))
    total = tl.sum(p * tl.exp(x - top), 0)
    exact = _is_exact(total, tl.min(least, 0), tl.min(low, 0), tl.min(range_, 0), dtype)
    return offset + (top + tl.log(positive(total))).to(tl.float64), exact


@triton.jit
def _alpha(m, e, later):
    """αₜ = mₜ ∘ wₜ. For the first step, m is α₀ itself."""
    return m * tl.where(later, tl.exp(e - finite(tl.max(e, 0))), 1.0)


@triton.jit
def backward_scaled(
    emissions, e_step, e_label, transitions, a_from, a_to, end, tags, t_step, alpha, weight,
    d_emissions, sums, length, labels,
    dtype: tl.constexpr, block: tl.constexpr, tagged: tl.constexpr,
):  # fmt: skip
    """Compute gradients from scaled α: d_emissions (T, L) and sums (2 + L, L).

    The sums are the gradients of start, end and transitions. ψ is held with the later label first,
    so that sums run over the same axis as in the forward pass.
    """
    tiny: tl.constexpr = 1e-300 if dtype == tl.float64 else 1e-37  # so that 0 / m is 0 for m = 0
    j = tl.arange(0, block)
    inside = j < labels
    scores = load_square(transitions, a_to, a_from, labels, dtype, block)
    psi = tl.exp(scores - finite(tl.max(tl.max(scores, 1), 0)))
    last = (length - 1).to(tl.int64)
    unary = emissions + last * e_step + j.to(tl.int64) * e_label
    ahead = alpha + last * labels + j
    d_emissions += last * labels + j
    tags += last * t_step
    e = tl.load(unary, inside, NEVER).to(dtype)
    m = tl.load(ahead, inside, 0.0)
    x = tl.load(end + j, inside, NEVER).to(dtype)
    post = _alpha(m, e, length > 1) * tl.exp(x - finite(tl.max(x, 0)))
    post = post / tl.sum(post, 0)
    total = tl.sum(post, 0)
    q = post * (1.0 / tl.maximum(m, tiny))
    y = subtract_tag(post, j, tags, tagged) * weight
    tl.store(d_emissions, y, inside)
    tl.store(sums + labels + j, y, inside)
    counts = tl.zeros([block, block], dtype)
    unary -= e_step
    ahead -= labels
    e1 = load_if(length > 1, unary, j, labels, NEVER)
    m1 = load_if(length > 1, ahead, j, labels, 0.0)
    unary -= e_step
    ahead -= labels
    e2 = load_if(length > 2, unary, j, labels, NEVER)
    m2 = load_if(length > 2, ahead, j, labels, 0.0)
    for back in tl.range(1, length, loop_unroll_factor=4):
        unary -= e_step
        ahead -= labels
        d_emissions -= labels
        tags -= t_step
        e3 = load_if(back + 2 < length, unary, j, labels, NEVER)
        m3 = load_if(back + 2 < length, ahead, j, labels, 0.0)
        p = _alpha(m1, e1.to(dtype), back + 1 < length)
        # total is 1 except for rounding. Without the division, the rounding would accumulate.
        share = p / (tl.max(p, 0) * total)
        post = tl.sum(q[:, None] * psi, 0) * share
        counts += q[:, None] * share[None, :]
        total = tl.sum(post, 0)
        q = post * (1.0 / tl.maximum(m1, tiny))
        y = subtract_tag(post, j, tags, tagged) * weight
        tl.store(d_emissions, y, inside)
        e1 = e2
        m1 = m2
        e2 = e3
        m2 = m3
    tl.store(sums + j, y, inside)
    _store_counts(sums + 2 * labels, counts * psi, weight, labels, block, tagged)


@triton.jit
def _store_counts(sums, counts, weight, labels, block: tl.constexpr, tagged: tl.constexpr):
    """sums = weight · (expected - tag counts), (L, L). At first, `sums` are the tag counts."""
    j = tl.arange(0, block)
    square = (j < labels)[:, None] & (j < labels)[None, :]
    cells = sums + j[:, None] * labels + j[None, :]
    if tagged:
        tl.debug_barrier()
        # .cg bypasses the L1 cache, which does not contain the atomic additions of count_tags.
        counts -= tl.load(cells, square, 0.0, cache_modifier=".cg")
    tl.store(cells, counts * weight, square)


@triton.jit
def best_scores(
    emissions, e_step, e_label, transitions, a_from, a_to, start, end, best, length, labels,
    dtype: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Return the best path's score; store the best score up to each label, minus an offset."""
    j = tl.arange(0, block)
    inside = j < labels
    scores = load_square(transitions, a_from, a_to, labels, dtype, block)
    unary = emissions + j.to(tl.int64) * e_label
    best += j
    e = tl.load(unary, inside, NEVER).to(dtype)
    top = finite(tl.max(e, 0))
    x = (e - top) + tl.load(start + j, inside, NEVER).to(dtype)
    tl.store(best, x, inside)
    offset = top.to(tl.float64)
    unary += e_step
    e1 = load_if(length > 1, unary, j, labels, NEVER)
    unary += e_step
    e2 = load_if(length > 2, unary, j, labels, NEVER)
    unary += e_step
    e3 = load_if(length > 3, unary, j, labels, NEVER)
    for t in tl.range(1, length, loop_unroll_factor=4):
        unary += e_step
        best += labels
        e4 = load_if(t + 3 < length, unary, j, labels, NEVER)
        e = e1.to(dtype)
        top = finite(tl.max(e, 0))
        # The maximum of the previous step does not have to wait for this step's result.
        lag = finite(tl.max(x, 0))
        x = tl.max(x[:, None] + scores, 0) + ((e - top) - lag)
        tl.store(best, x, inside)
        offset += top.to(tl.float64) + lag.to(tl.float64)
        e1 = e2
        e2 = e3
        e3 = e4
    x += tl.load(end + j, inside, NEVER).to(dtype)
    return offset + tl.max(x, 0).to(tl.float64)
