"""Recursions with the transitions in registers: scaled probabilities, and the best path.

ψ = exp(A - max A) is computed once. A step is a product of a vector and a matrix, and none of its
exponentials depends on the previous step. Emissions are loaded three steps ahead. A step takes
about 200 cycles, so this hides the 600 cycles of a load.

    mₜ = αₜ₋₁ ψ / max αₜ₋₁        αₜ = mₜ ∘ wₜ        wₜ = exp(uₜ - max uₜ)

The kernel stores α₀ and, for t > 0, mₜ. The backward pass

    p(yₜ₋₁ = a, yₜ = b) = p(yₜ = b) αₜ₋₁(a) ψ(a, b) / (max αₜ₋₁ · mₜ(b))

needs no β. It cannot overflow, because it splits p(yₜ) ≤ 1 into parts.
"""

import triton
import triton.language as tl

from trellis.inference.chain.kernels_log import NEVER, finite, positive, step_position


@triton.jit
def load_if(condition, pointers, j, labels, other):
    """Load the values of the labels j, or return `other` if the condition is false."""
    return tl.load(pointers, j < tl.where(condition, labels, 0), other)


@triton.jit
def load_ahead(pointers, stride, length, j, labels, other):
    """Load the values of steps 1, 2 and 3, and return them with the pointers of step 3.

    A value after the length is `other`.
    """
    pointers += stride
    x1 = load_if(length > 1, pointers, j, labels, other)
    pointers += stride
    x2 = load_if(length > 2, pointers, j, labels, other)
    pointers += stride
    return x1, x2, load_if(length > 3, pointers, j, labels, other), pointers


@triton.jit
def _load_square(row, pairs, by_row, by_column, block: tl.constexpr):
    """Load all transitions as a (block, block) matrix, padded with -inf."""
    dtype: tl.constexpr = row.alpha.dtype.element_ty
    j = tl.arange(0, block)
    inside = (j < row.labels)[:, None] & (j < row.labels)[None, :]
    cells = pairs + j[:, None] * by_row + j[None, :] * by_column
    return tl.load(cells, inside, NEVER).to(dtype)


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
def _psi(scores):
    """Return ψ = exp(A - max A), max A, labels that no transition enters, and min A - max A."""
    # exp of a score just below `depth` would be close to the smallest normal number.
    depth: tl.constexpr = -700.0 if scores.dtype == tl.float64 else -84.0
    best = tl.max(scores, 0)
    top = finite(tl.max(best, 0))
    unreachable = best - top < depth
    psi = tl.where(unreachable[None, :], 0.0, tl.exp(scores - top))
    return psi, top, unreachable, tl.min(tl.where(scores > NEVER, scores - top, 0.0), 0)


@triton.jit
def forward_held(row, scores, block: tl.constexpr, best: tl.constexpr):
    """Return log Z and whether it is exact (see `_is_exact`); store α₀ and mₜ.

    With `best`, return the score of the best path, which is always exact, and store the best score
    up to each label, minus an offset.
    """
    dtype: tl.constexpr = row.alpha.dtype.element_ty
    length = row.length
    labels = row.labels
    j = tl.arange(0, block)
    inside = j < labels
    pairs = _load_square(row, scores.transitions, scores.a_from, scores.a_to, block)
    unary = scores.emissions + j
    alpha = row.alpha + j
    e = tl.load(unary, inside, NEVER).to(dtype)
    top = finite(tl.max(e, 0))
    x = (e - top) + tl.load(scores.start + j, inside, NEVER).to(dtype)
    offset = top.to(tl.float64)
    if not best:
        psi, top_pair, unreachable, range_ = _psi(pairs)
        first = finite(tl.max(x, 0))
        range_ = tl.minimum(range_, tl.where(x > NEVER, x - first, 0.0))
        x = tl.exp(x - first)
        offset = offset + first.to(tl.float64) + (length - 1) * top_pair.to(tl.float64)
        least = tl.full([block], 1.0, dtype)
        low = least
    tl.store(alpha, x, inside)
    e1, e2, e3, unary = load_ahead(unary, scores.e_step, length, j, labels, NEVER)
    for t in tl.range(1, length, loop_unroll_factor=4):
        unary += scores.e_step
        alpha += labels
        e4 = load_if(t + 3 < length, unary, j, labels, NEVER)
        e = e1.to(dtype)
        top = finite(tl.max(e, 0))
        # The step is scaled by the maximum of the previous step, which is computed at the same time
        # as this step's product. The maximum of this step would have to wait for the product.
        if best:
            lag = finite(tl.max(x, 0))
            x = tl.max(x[:, None] + pairs, 0) + ((e - top) - lag)
            tl.store(alpha, x, inside)
            offset += top.to(tl.float64) + lag.to(tl.float64)
        else:
            w = tl.where(unreachable, 0.0, tl.exp(e - top))  # so that `least` ignores m = 0
            scale = 1.0 / positive(tl.max(x, 0))
            m = tl.sum(x[:, None] * psi, 0)
            used = tl.where(w > 0.0, m, 1.0)
            least = tl.minimum(least, used)
            low = tl.minimum(low, tl.where(m > 0.0, used, 1.0))
            range_ = tl.minimum(range_, tl.where(e > NEVER, e - top, 0.0))
            tl.store(alpha, m * scale, inside)
            x = m * (w * scale)
            offset += (top - tl.log(scale)).to(tl.float64)
        e1, e2, e3 = e2, e3, e4
    end = tl.load(scores.end + j, inside, NEVER).to(dtype)
    if best:
        offset += tl.max(x + end, 0).to(tl.float64)
        exact = True
    else:
        top = finite(tl.max(end, 0))
        total = tl.sum(x * tl.exp(end - top), 0)
        offset += (top + tl.log(positive(total))).to(tl.float64)
        exact = _is_exact(total, tl.min(least, 0), tl.min(low, 0), tl.min(range_, 0), dtype)
    return offset, exact


@triton.jit
def _alpha(m, e, later):
    """αₜ = mₜ ∘ wₜ. For the first step, m is α₀ itself."""
    return m * tl.where(later, tl.exp(e - finite(tl.max(e, 0))), 1.0)


@triton.jit
def backward_scaled(row, scores, gradients, weight, block: tl.constexpr):
    """Compute weighted gradients from scaled α. The gradients have the strides of the scores.

    ψ is held with the later label first, so that sums run over the same axis as in the forward
    pass.
    """
    dtype: tl.constexpr = row.alpha.dtype.element_ty
    tiny: tl.constexpr = 1e-300 if dtype == tl.float64 else 1e-37  # so that 0 / m is 0 for m = 0
    length = row.length
    labels = row.labels
    j = tl.arange(0, block)
    inside = j < labels
    pairs = _load_square(row, scores.transitions, scores.a_to, scores.a_from, block)
    psi = tl.exp(pairs - finite(tl.max(tl.max(pairs, 1), 0)))
    last = length - 1
    unary = scores.emissions + last.to(tl.int64) * scores.e_step + j
    ahead = row.alpha + last.to(tl.int64) * labels + j
    e = tl.load(unary, inside, NEVER).to(dtype)
    m = tl.load(ahead, inside, 0.0)
    x = tl.load(scores.end + j, inside, NEVER).to(dtype)
    post = _alpha(m, e, length > 1) * tl.exp(x - finite(tl.max(x, 0)))
    post = post / tl.sum(post, 0)
    total = tl.sum(post, 0)
    q = post * (1.0 / tl.maximum(m, tiny))
    place = gradients.emissions + step_position(row, last) * labels
    tl.store(place + j, post * weight, inside)
    tl.store(gradients.end + j, post * weight, inside)
    counts = tl.zeros([block, block], dtype)
    e1, e2, e3, unary = load_ahead(unary, -scores.e_step, length, j, labels, NEVER)
    m1, m2, m3, ahead = load_ahead(ahead, -labels, length, j, labels, 0.0)
    for back in tl.range(1, length, loop_unroll_factor=4):
        unary -= scores.e_step
        ahead -= labels
        e4 = load_if(back + 3 < length, unary, j, labels, NEVER)
        m4 = load_if(back + 3 < length, ahead, j, labels, 0.0)
        p = _alpha(m1, e1.to(dtype), back + 1 < length)
        # total is 1 except for rounding. Without the division, the rounding would accumulate.
        share = p / (tl.max(p, 0) * total)
        post = tl.sum(q[:, None] * psi, 0) * share
        counts += q[:, None] * share[None, :]
        total = tl.sum(post, 0)
        q = post * (1.0 / tl.maximum(m1, tiny))
        place = gradients.emissions + step_position(row, last - back) * labels
        tl.store(place + j, post * weight, inside)
        e1, e2, e3 = e2, e3, e4
        m1, m2, m3 = m2, m3, m4
    tl.store(gradients.start + j, post * weight, inside)
    cells = gradients.transitions + j[:, None] * scores.a_to + j[None, :] * scores.a_from
    tl.store(cells, counts * psi * weight, inside[:, None] & inside[None, :])
