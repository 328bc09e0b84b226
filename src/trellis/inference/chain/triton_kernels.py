"""The walks over time: a program of the card for each row of the batch, all steps in one launch.

README.md beside this file has the recursions, docs/kernels.md what a step costs. Two forms of α:

scaled
    ψ = exp(A - column maxima) stays in registers, and a step is α ψ: no exponential waits for the
    step before. α₀ is as it is; later rows hold mₜ = αₜ₋₁ ψ, scaled, from which αₜ = mₜ ∘ wₜ.
log
    Any scores, any number of labels, transitions of each position. Tiles of A come from memory, and
    α goes through memory between steps. α₀ < 0 says that a row is of this form.

Way back: p(yₜ₋₁ = a, yₜ = b) = p(yₜ = b) αₜ₋₁(a) ψ(a, b) / mₜ(b). No β, so nothing to guard.
"""

# mypy: allow-untyped-decorators, allow-untyped-defs, allow-untyped-calls

import triton
import triton.language as tl

_NEVER = tl.constexpr(float("-inf"))


@triton.jit
def _finite(x):
    """x, or 0 where it is -inf: what to subtract when -inf minus -inf must stay -inf."""
    return tl.where(x == _NEVER, 0.0, x)


@triton.jit
def _fill(pointer, begin, stop, value):
    """All that is written behind the end of a row."""
    at = tl.arange(0, 1024)
    for base in range(begin, stop, 1024):
        tl.store(pointer + base + at, value, mask=base + at < stop)


@triton.jit
def _exponentials(scores, axis: tl.constexpr):
    """exp(A - maxima along `axis`), the maxima less the largest, that one, the least exponent."""
    best = tl.max(scores, axis)
    inner = scores - tl.expand_dims(_finite(best), axis)
    most = _finite(tl.max(best, 0))
    least = tl.min(tl.min(tl.where(scores > _NEVER, inner, 0.0), 1), 0)
    return tl.exp(inner), best - most, most, least


@triton.jit
def _sure(total, least, low, wide, dtype: tl.constexpr):
    """Whether nothing that matters has underflowed; docs/kernels.md has the proof.

    Either every label that can be used was reached with far more than what can have been lost, or
    all scores lie so close that nothing was lost, and 0 means that no path is allowed.
    """
    if dtype == tl.float64:
        floor, small, span = 1e-280, 1e-130, -170.0
    else:
        floor, small, span = 1e-27, 1e-13, -25.0
    return (total >= floor) & ((least >= floor) | ((low >= small) & (wide >= span)))


@triton.jit
def _path_score(
    emissions, e_step, e_label, transitions, a_step, a_from, a_to, start, end, tags, length
):
    """start[y₀] + Σₜ u[t, yₜ] + Σₜ A[yₜ₋₁, yₜ] + end[y_T₋₁]; all steps at once, in float64."""
    at = tl.arange(0, 256)
    total = tl.zeros([256], tl.float64)
    for base in range(0, length, 256):
        t = (base + at).to(tl.int64)
        here = tl.load(tags + t, mask=t < length, other=0)
        before = tl.load(tags + t - 1, mask=(t > 0) & (t < length), other=0)
        unary = tl.load(emissions + t * e_step + here * e_label, mask=t < length, other=0.0)
        cell = transitions + (t - 1) * a_step + before * a_from + here * a_to
        pair = tl.load(cell, mask=(t > 0) & (t < length), other=0.0)
        total += unary.to(tl.float64) + pair.to(tl.float64)
    first = tl.load(start + tl.load(tags)).to(tl.float64)
    last = tl.load(end + tl.load(tags + length - 1)).to(tl.float64)
    return tl.sum(total, 0) + first + last


@triton.jit
def _forward_scaled(
    emissions, e_step, e_label, transitions, a_from, a_to, start, end, alpha, length, labels,
    dtype: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Log Z, and whether it and the scaled α that were written can be trusted."""
    j = tl.arange(0, block)
    inside = j < labels
    square = inside[:, None] & inside[None, :]
    cells = transitions + j[:, None] * a_from + j[None, :] * a_to
    scores = tl.load(cells, mask=square, other=_NEVER).to(dtype)
    psi, shift, most, wide = _exponentials(scores, 0)
    unary = emissions + j * e_label
    x = tl.load(start + j, mask=inside, other=_NEVER).to(dtype)
    x += tl.load(unary, mask=inside, other=_NEVER).to(dtype)
    top = _finite(tl.max(x, 0))
    p = tl.exp(x - top)
    tl.store(alpha + j, p, mask=inside)
    offset = top.to(tl.float64) + (length - 1) * most.to(tl.float64)
    wides = tl.where(x > _NEVER, x - top, 0.0)
    least = tl.full([block], 1.0, dtype)
    low = least
    # Three rows ahead, so that a step never waits for memory.
    unary += e_step
    e1 = tl.load(unary, mask=inside & (length > 1), other=_NEVER)
    unary += e_step
    e2 = tl.load(unary, mask=inside & (length > 2), other=_NEVER)
    unary += e_step
    e3 = tl.load(unary, mask=inside & (length > 3), other=_NEVER)
    for t in tl.range(1, length, loop_unroll_factor=4):
        unary += e_step
        alpha += labels
        e4 = tl.load(unary, mask=inside & (t + 3 < length), other=_NEVER)
        e = e1.to(dtype)
        top = _finite(tl.max(e, 0))
        x = (e - top) + shift
        w = tl.exp(x)
        scale = 1.0 / tl.maximum(tl.max(p, 0), 1e-37)  # of the step before: ready in time
        m = tl.sum(p[:, None] * psi, 0)
        used = tl.where(w > 0.0, m, 1.0)
        least = tl.minimum(least, used)
        low = tl.minimum(low, tl.where(m > 0.0, used, 1.0))
        wides = tl.minimum(wides, tl.where(x > _NEVER, x, 0.0))
        tl.store(alpha + j, m * scale, mask=inside)
        p = m * (w * scale)
        offset += (top - tl.log(scale)).to(tl.float64)
        e1 = e2
        e2 = e3
        e3 = e4
    x = tl.load(end + j, mask=inside, other=_NEVER).to(dtype)
    top = _finite(tl.max(x, 0))
    total = tl.sum(p * tl.exp(x - top), 0)
    wide = tl.minimum(wide, tl.min(wides, 0))
    sure = _sure(total, tl.min(least, 0), tl.min(low, 0), wide, dtype)
    return offset + (top + tl.log(total)).to(tl.float64), sure


@triton.jit
def _top(pointer, stride, labels, dtype: tl.constexpr, tile: tl.constexpr):
    """The largest score of a row, 0 if all are -inf."""
    at = tl.arange(0, tile)
    most = tl.full([tile], _NEVER, dtype)
    for base in range(0, labels, tile):
        j = base + at
        most = tl.maximum(most, tl.load(pointer + j * stride, j < labels, _NEVER).to(dtype))
    return _finite(tl.max(most, 0))


@triton.jit
def _column(
    alpha, transitions, a_from, a_to, j, labels,
    dtype: tl.constexpr, tile: tl.constexpr, best: tl.constexpr,
):  # fmt: skip
    """max over a of x(a) = α(a) + A(a, j), and, unless only the `best` counts, Σₐ exp(x - max)."""
    at = tl.arange(0, tile)
    most = tl.full([tile], _NEVER, dtype)
    total = tl.zeros([tile], dtype)
    for base in range(0, labels, tile):
        i = base + at
        square = (i < labels)[:, None] & (j < labels)[None, :]
        cells = transitions + i[:, None] * a_from + j[None, :] * a_to
        x = tl.load(alpha + i, i < labels, _NEVER)[:, None]
        x += tl.load(cells, square, _NEVER).to(dtype)
        more = tl.maximum(most, tl.max(x, 0))
        if not best:
            total *= tl.exp(most - _finite(more))
            total += tl.sum(tl.exp(x - _finite(more)[None, :]), 0)
        most = more
    return most, total


@triton.jit
def _finish(alpha, end, labels, dtype: tl.constexpr, tile: tl.constexpr):
    """max over b of x(b) = α(b) + end(b), and Σ exp(x - max)."""
    at = tl.arange(0, tile)
    most = tl.full([tile], _NEVER, dtype)
    total = tl.zeros([tile], dtype)
    for base in range(0, labels, tile):
        j = base + at
        x = tl.load(alpha + j, j < labels, _NEVER) + tl.load(end + j, j < labels, _NEVER).to(dtype)
        more = tl.maximum(most, x)
        total = total * tl.exp(most - _finite(more)) + tl.exp(x - _finite(more))
        most = more
    top = tl.max(most, 0)
    return top, tl.sum(total * tl.exp(most - _finite(top)), 0)


@triton.jit
def _walk(
    emissions, e_step, e_label, transitions, a_step, a_from, a_to, start, end, alpha, length,
    labels, dtype: tl.constexpr, tile: tl.constexpr, best: tl.constexpr,
):  # fmt: skip
    """log Z, and log α in memory; with max in place of log Σ exp if only the `best` counts."""
    at = tl.arange(0, tile)
    top = _top(emissions, e_label, labels, dtype, tile)
    first = _top(start, 1, labels, dtype, tile)
    offset = first.to(tl.float64) + top.to(tl.float64) + 1.0
    most = tl.full([tile], _NEVER, dtype)
    for base in range(0, labels, tile):
        j = base + at
        x = tl.load(emissions + j * e_label, j < labels, _NEVER).to(dtype) - top
        x += tl.load(start + j, j < labels, _NEVER).to(dtype) - first
        tl.store(alpha + j, x - 1.0, j < labels)  # below 0: this row is in log space
        most = tl.maximum(most, x - 1.0)
    for _ in range(1, length):
        tl.debug_barrier()  # the row that the step before has written is whole
        emissions += e_step
        top = _top(emissions, e_label, labels, dtype, tile)
        lag = _finite(tl.max(most, 0))
        offset += top.to(tl.float64) + lag.to(tl.float64)
        most = tl.full([tile], _NEVER, dtype)
        for base in range(0, labels, tile):
            j = base + at
            x, total = _column(alpha, transitions, a_from, a_to, j, labels, dtype, tile, best)
            if not best:
                x += tl.log(total)
            e = tl.load(emissions + j * e_label, j < labels, _NEVER).to(dtype)
            x += (e - top) - lag
            tl.store(alpha + labels + j, x, j < labels)
            most = tl.maximum(most, x)
        alpha += labels
        transitions += a_step
    tl.debug_barrier()
    last, mass = _finish(alpha, end, labels, dtype, tile)
    offset += last.to(tl.float64)
    if not best:
        offset += tl.log(mass).to(tl.float64)
    return offset


@triton.jit
def forward_kernel(
    emissions, e_row, e_step, e_label, transitions, a_row, a_step, a_from, a_to, start, end,
    lengths, tags, value, alpha, steps, labels,
    dtype: tl.constexpr, block: tl.constexpr, tile: tl.constexpr,
    held: tl.constexpr, tagged: tl.constexpr,
):  # fmt: skip
    """log Z, less the score of the tags if there are any; α in either form."""
    row = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + row).to(tl.int32)
    emissions += row * e_row
    transitions += row * a_row
    alpha += row * steps * labels
    sure = False
    log_z = tl.full([], 0.0, tl.float64)
    if held:
        log_z, sure = _forward_scaled(
            emissions, e_step, e_label, transitions, a_from, a_to, start, end, alpha,
            length, labels, dtype, block,
        )  # fmt: skip
    if not sure:
        log_z = _walk(
            emissions, e_step, e_label, transitions, a_step, a_from, a_to, start, end, alpha,
            length, labels, dtype, tile, False,
        )  # fmt: skip
    if tagged:
        used = _path_score(
            emissions, e_step, e_label, transitions, a_step, a_from, a_to, start, end,
            tags + row * steps, length,
        )  # fmt: skip
        log_z = tl.where(used == _NEVER, float("inf"), log_z - _finite(used))
    tl.store(value + row, log_z)
    _fill(alpha, length.to(tl.int64) * labels, steps.to(tl.int64) * labels, 0.0)


@triton.jit
def _count_tags(sums, tags, length, labels):
    """How often each pair of tags occurs: whole numbers, so the order of adding does not matter."""
    at = tl.arange(0, 256)
    for base in range(1, length, 256):
        t = base + at
        before = tl.load(tags + t - 1, t < length, 0)
        here = tl.load(tags + t, t < length, 0)
        tl.atomic_add(sums + here * labels + before, 1.0, t < length, sem="relaxed")


@triton.jit
def _backward_scaled(
    emissions, e_step, e_label, transitions, a_from, a_to, end, tags, alpha, weight,
    d_emissions, sums, length, labels,
    dtype: tl.constexpr, block: tl.constexpr, tagged: tl.constexpr,
):  # fmt: skip
    """Gradients from scaled α; ψ is held with the later label first, so sums run the same way."""
    j = tl.arange(0, block)
    inside = j < labels
    square = inside[:, None] & inside[None, :]
    cells = transitions + j[:, None] * a_from + j[None, :] * a_to
    _, shift, _, _ = _exponentials(tl.load(cells, square, _NEVER).to(dtype), 0)
    cells = transitions + j[:, None] * a_to + j[None, :] * a_from
    psi, _, _, _ = _exponentials(tl.load(cells, square, _NEVER).to(dtype), 1)
    last = (length - 1).to(tl.int64)
    unary = emissions + last * e_step + j * e_label
    ahead = alpha + last * labels + j
    d_emissions += last * labels + j
    tags += last
    e = tl.load(unary, inside, _NEVER).to(dtype)
    m = tl.load(ahead, inside, 0.0)
    w = tl.exp((e - _finite(tl.max(e, 0))) + shift)
    x = tl.load(end + j, inside, _NEVER).to(dtype)
    p = m * tl.where(length > 1, w, 1.0) * tl.exp(x - _finite(tl.max(x, 0)))
    post = p / tl.sum(p, 0)
    y = post
    if tagged:
        y -= tl.where(j == tl.load(tags), 1.0, 0.0)
    tl.store(d_emissions, y * weight, inside)
    tl.store(sums + labels + j, y * weight, inside)
    total = tl.sum(post, 0)
    q = post * tl.where(m > 0.0, 1.0 / m, 0.0)
    counts = tl.zeros([block, block], dtype)
    unary -= e_step
    ahead -= labels
    e1 = tl.load(unary, inside & (length > 1), _NEVER)
    m1 = tl.load(ahead, inside & (length > 1), 0.0)
    unary -= e_step
    ahead -= labels
    e2 = tl.load(unary, inside & (length > 2), _NEVER)
    m2 = tl.load(ahead, inside & (length > 2), 0.0)
    for back in tl.range(1, length, loop_unroll_factor=4):
        unary -= e_step
        ahead -= labels
        d_emissions -= labels
        tags -= 1
        e3 = tl.load(unary, inside & (back + 2 < length), _NEVER)
        m3 = tl.load(ahead, inside & (back + 2 < length), 0.0)
        e = e1.to(dtype)
        w = tl.exp((e - _finite(tl.max(e, 0))) + shift)
        p = m1 * tl.where(back + 1 < length, w, 1.0)  # α₀ is kept as it is
        share = p / (tl.max(p, 0) * total)
        post = tl.sum(q[:, None] * psi, 0) * share
        counts += q[:, None] * share[None, :]
        total = tl.sum(post, 0)
        q = post * tl.where(m1 > 0.0, 1.0 / m1, 0.0)
        y = post
        if tagged:
            y -= tl.where(j == tl.load(tags), 1.0, 0.0)
        tl.store(d_emissions, y * weight, inside)
        e1 = e2
        m1 = m2
        e2 = e3
        m2 = m3
    tl.store(sums + j, y * weight, inside)
    counts *= psi
    cells = sums + (2 + j)[:, None] * labels + j[None, :]
    if tagged:
        tl.debug_barrier()
        counts -= tl.load(cells, square, 0.0, cache_modifier=".cg")
    tl.store(cells, counts * weight, square)


@triton.jit
def _negate(counts, weight, labels):
    """The counts of the tags as what they add to the gradient."""
    at = tl.arange(0, 1024)
    for base in range(0, labels * labels, 1024):
        cell = base + at
        x = tl.load(counts + cell, cell < labels * labels, 0.0, cache_modifier=".cg")
        tl.store(counts + cell, -weight * x, cell < labels * labels)


@triton.jit
def _backward_log(
    transitions, a_step, a_from, a_to, end, tags, alpha, weight, d_emissions, d_transitions, sums,
    scratch, length, labels,
    dtype: tl.constexpr, tile: tl.constexpr, shared: tl.constexpr, tagged: tl.constexpr,
):  # fmt: skip
    """Gradients from log α, column by column: p(yₜ₋₁ | yₜ) is divided by its own sum."""
    at = tl.arange(0, tile)
    last = (length - 1).to(tl.int64)
    alpha += last * labels
    d_emissions += last * labels
    tags += last
    transitions += last * a_step
    d_transitions += last * labels * labels
    most = scratch + labels
    quotient = most + labels
    if shared & tagged:
        tl.debug_barrier()
        _negate(sums + 2 * labels, weight, labels)
    top, mass = _finish(alpha, end, labels, dtype, tile)
    weight = tl.where(mass > 0.0, weight, 0.0)  # no path: no gradient, of the tags neither
    for base in range(0, labels, tile):
        j = base + at
        x = tl.load(alpha + j, j < labels, _NEVER) + tl.load(end + j, j < labels, _NEVER).to(dtype)
        post = tl.exp(x - _finite(top)) / tl.where(mass > 0.0, mass, 1.0)
        tl.store(scratch + j, post, j < labels)
        if tagged:
            post -= tl.where(j == tl.load(tags), 1.0, 0.0)
        tl.store(d_emissions + j, post * weight, j < labels)
        tl.store(sums + labels + j, post * weight, j < labels)
        tl.store(sums + j, post * weight, (j < labels) & (length == 1))
    for back in range(1, length):
        tl.debug_barrier()
        alpha -= labels
        transitions -= a_step
        d_emissions -= labels
        d_transitions -= labels * labels
        tags -= 1
        for base in range(0, labels, tile):
            j = base + at
            x, total = _column(alpha, transitions, a_from, a_to, j, labels, dtype, tile, False)
            post = tl.load(scratch + j, j < labels, 0.0)
            tl.store(most + j, _finite(x), j < labels)
            tl.store(quotient + j, tl.where(total > 0.0, post / total, 0.0), j < labels)
        tl.debug_barrier()
        for base in range(0, labels, tile):
            i = base + at
            x = tl.load(alpha + i, i < labels, _NEVER)
            post = tl.zeros([tile], dtype)
            for other in range(0, labels, tile):
                j = other + at
                square = (i < labels)[:, None] & (j < labels)[None, :]
                cells = transitions + i[:, None] * a_from + j[None, :] * a_to
                pair = x[:, None] + tl.load(cells, square, _NEVER).to(dtype)
                pair = tl.exp(pair - tl.load(most + j, j < labels, 0.0)[None, :])
                pair *= tl.load(quotient + j, j < labels, 0.0)[None, :]
                post += tl.sum(pair, 1)
                if shared:
                    cells = sums + (2 + j)[None, :] * labels + i[:, None]
                    pair = pair * weight + tl.load(cells, square, 0.0)
                    tl.store(cells, pair, square)
                else:
                    if tagged:
                        both = (i == tl.load(tags))[:, None] & (j == tl.load(tags + 1))[None, :]
                        pair -= tl.where(both, 1.0, 0.0)
                    cells = d_transitions + i[:, None] * labels + j[None, :]
                    tl.store(cells, pair * weight, square)
            tl.store(scratch + i, post, i < labels)
            if tagged:
                post -= tl.where(i == tl.load(tags), 1.0, 0.0)
            tl.store(d_emissions + i, post * weight, i < labels)
            tl.store(sums + i, post * weight, (i < labels) & (back + 1 == length))


@triton.jit
def backward_kernel(
    emissions, e_row, e_step, e_label, transitions, a_row, a_step, a_from, a_to, end,
    lengths, tags, alpha, weights, d_emissions, d_transitions, sums, scratch, steps, labels,
    dtype: tl.constexpr, block: tl.constexpr, tile: tl.constexpr,
    held: tl.constexpr, shared: tl.constexpr, tagged: tl.constexpr,
):  # fmt: skip
    """weight · ∂ value of a row: of emissions (and transitions of positions) in place, rest in sums.

    A block of `sums` holds start, end and, if all positions share them, transitions.
    """
    row = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + row).to(tl.int32)
    weight = tl.load(weights + row).to(dtype)
    begin = row * steps * labels
    emissions += row * e_row
    transitions += row * a_row
    tags += row * steps
    scratch += row * 3 * labels
    sums += row * (2 + (labels if shared else 0)) * labels
    d_transitions += row * (steps - 1) * labels * labels
    d_emissions += begin
    alpha += begin
    if shared & tagged:
        _count_tags(sums + 2 * labels, tags, length, labels)
    scaled = False
    if held:
        j = tl.arange(0, block)
        scaled = tl.max(tl.load(alpha + j, j < labels, _NEVER), 0) > 0.0
        if scaled:
            _backward_scaled(
                emissions, e_step, e_label, transitions, a_from, a_to, end, tags, alpha, weight,
                d_emissions, sums, length, labels, dtype, block, tagged,
            )  # fmt: skip
    if not scaled:
        _backward_log(
            transitions, a_step, a_from, a_to, end, tags, alpha, weight, d_emissions,
            d_transitions, sums, scratch, length, labels, dtype, tile, shared, tagged,
        )  # fmt: skip
    length = length.to(tl.int64)
    _fill(d_emissions, length * labels, steps.to(tl.int64) * labels, 0.0)
    if not shared:
        area = labels.to(tl.int64) * labels
        _fill(d_transitions, (length - 1) * area, (steps - 1) * area, 0.0)


@triton.jit
def _best_held(
    emissions, e_step, e_label, transitions, a_from, a_to, start, end, best, length, labels,
    dtype: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """The recursion of `_walk` for the best path, with the transitions in registers."""
    j = tl.arange(0, block)
    inside = j < labels
    square = inside[:, None] & inside[None, :]
    cells = transitions + j[:, None] * a_from + j[None, :] * a_to
    scores = tl.load(cells, square, _NEVER).to(dtype)
    unary = emissions + j * e_label
    best += j
    e = tl.load(unary, inside, _NEVER).to(dtype)
    top = _finite(tl.max(e, 0))
    x = tl.load(start + j, inside, _NEVER).to(dtype) + (e - top)
    tl.store(best, x, inside)
    offset = top.to(tl.float64)
    unary += e_step
    e1 = tl.load(unary, inside & (length > 1), _NEVER)
    unary += e_step
    e2 = tl.load(unary, inside & (length > 2), _NEVER)
    unary += e_step
    e3 = tl.load(unary, inside & (length > 3), _NEVER)
    for t in tl.range(1, length, loop_unroll_factor=4):
        unary += e_step
        best += labels
        e4 = tl.load(unary, inside & (t + 3 < length), _NEVER)
        e = e1.to(dtype)
        top = _finite(tl.max(e, 0))
        lag = _finite(tl.max(x, 0))
        x = tl.max(x[:, None] + scores, 0) + ((e - top) - lag)
        tl.store(best, x, inside)
        offset += top.to(tl.float64) + lag.to(tl.float64)
        e1 = e2
        e2 = e3
        e3 = e4
    x += tl.load(end + j, inside, _NEVER).to(dtype)
    return offset + tl.max(x, 0).to(tl.float64)


@triton.jit
def viterbi_kernel(
    emissions, e_row, e_step, e_label, transitions, a_row, a_step, a_from, a_to, start, end,
    lengths, value, best, steps, labels,
    dtype: tl.constexpr, block: tl.constexpr, tile: tl.constexpr, held: tl.constexpr,
):  # fmt: skip
    """The score of the best path, and that of the best beginnings up to every label."""
    row = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + row).to(tl.int32)
    emissions += row * e_row
    transitions += row * a_row
    best += row * steps * labels
    if held:
        score = _best_held(
            emissions, e_step, e_label, transitions, a_from, a_to, start, end, best,
            length, labels, dtype, block,
        )  # fmt: skip
    else:
        score = _walk(
            emissions, e_step, e_label, transitions, a_step, a_from, a_to, start, end, best,
            length, labels, dtype, tile, True,
        )  # fmt: skip
    tl.store(value + row, score)


@triton.jit
def _first(x, j, block: tl.constexpr):
    """The first label of the largest x."""
    return tl.min(tl.where(x == tl.max(x, 0), j, block), 0)


@triton.jit
def trace_kernel(
    best, transitions, a_row, a_step, a_from, a_to, end, lengths, path, steps, labels,
    block: tl.constexpr,
):  # fmt: skip
    """From the last label back: the predecessor is searched again, for the one label on the path."""
    row = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + row)
    j = tl.arange(0, block)
    inside = j < labels
    best += (row * steps + length - 1) * labels + j
    transitions += row * a_row + (length - 2) * a_step + j * a_from
    path += row * steps
    x = tl.load(best, inside, _NEVER)
    y = _first(x + tl.load(end + j, inside, _NEVER).to(x.dtype), j, block)
    tl.store(path + length - 1, y)
    best -= labels
    x1 = tl.load(best, inside & (length > 1), _NEVER)
    best -= labels
    x2 = tl.load(best, inside & (length > 2), _NEVER)
    best -= labels
    x3 = tl.load(best, inside & (length > 3), _NEVER)
    for back in tl.range(1, length.to(tl.int32), loop_unroll_factor=4):
        best -= labels
        x4 = tl.load(best, inside & (back + 3 < length), _NEVER)
        y = _first(x1 + tl.load(transitions + y * a_to, inside, _NEVER).to(x1.dtype), j, block)
        tl.store(path + length - 1 - back, y)
        transitions -= a_step
        x1 = x2
        x2 = x3
        x3 = x4
    _fill(path, length, steps, 0)
