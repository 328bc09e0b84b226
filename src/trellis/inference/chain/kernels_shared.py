"""The kernels of the chain: one program works on one row of the batch.

A kernel gets its arguments by the names of its parameters, which are the same in all kernels:

    emissions    (B, T, L), strides e_row, e_step, 1
    transitions  (L, L), or (B, T-1, L, L); contiguous
    start, end   (L,)
    lengths      (B,) int64;   mask (B, T), strides m_row, m_step
    tags         (B, T) int64, strides t_row, t_step
    d_emissions, d_transitions  gradients, contiguous. Those of shared transitions are in row_sums,
                 and d_transitions is (0,), or (L, L) for the result of sum_kernel
    row_values   (B,): log Z, log p of the tags, or the score of the best path
    row_sums     (B, W + 1): gradients of start (L), end (L) and shared transitions (L, L) with the
                 later label first; then the value of the row. W is (2 + L) L, or 2 L if the
                 transitions are not shared
    row_lengths  (B,) int64: the number of unmasked steps;   status (B,) int32, see `validate_row`
    order        (B, T) int32: order[b, t] is the position of the t-th unmasked step of row b
    packed       (B, T, L): the emissions of the unmasked steps, in rows whose mask has a hole
    alpha        (B, T, L): the forward scores of each step, scaled or in log space
    transposed   (L, L): shared transitions with the later label first
    rows, steps, labels are B, T and L
    block, tile  constants: L rounded up to a power of two, and the width of a tile of labels
    held         constant: the transitions are in registers
    masked, counted, tagged, shared  constants: a mask, lengths or tags were passed; the transitions
                 are shared by all positions
"""

import triton
import triton.language as tl

from trellis.inference.chain.kernels_log import (
    NEVER,
    Row,
    Scores,
    backward_log,
    finite,
    forward_log,
    pair_offset,
    step_position,
)
from trellis.inference.chain.kernels_scaled import (
    backward_scaled,
    forward_held,
    load_ahead,
    load_if,
)

__all__ = ["backward_kernel", "forward_kernel", "sum_kernel", "trace_kernel", "validate_kernel"]

# With these settings, new sizes do not compile a kernel again, and alignments do not change its
# register layout.
_kernel = triton.jit(
    do_not_specialize=["rows", "steps", "labels"],
    do_not_specialize_on_alignment=[
        *("emissions", "transitions", "start", "end", "lengths", "mask", "tags", "order", "packed"),
        *("row_lengths", "status", "row_values", "alpha", "transposed", "d_emissions", "value"),
        *("d_transitions", "row_sums", "path", "d_start", "d_end"),
        *("e_row", "e_step", "m_row", "m_step", "t_row", "t_step"),
    ],
)


@triton.jit
def clip_length(length, steps):
    """Return the length clipped to 1 … steps, so that no access is out of bounds."""
    return tl.minimum(tl.maximum(length, 1), steps).to(tl.int32)


@triton.jit
def fill(pointer, begin, stop, value):
    """pointer[begin:stop] = value."""
    i = tl.arange(0, 1024)
    for base in range(begin, stop, 1024):
        tl.store(pointer + base + i, value, base + i < stop)


@triton.jit
def validate_row(
    mask, m_step, lengths, tags, t_step, order, status, row_lengths, steps, labels,
    masked: tl.constexpr, counted: tl.constexpr, tagged: tl.constexpr,
):  # fmt: skip
    """Return the length of a row. Store the length, the status and (if masked) the order.

    The pointers are those of the row. Without a mask and without lengths (`counted` is False), all
    steps are used.
    Status flags: 1, the mask has a hole; 2, the length is not in 1 … T; 4, a tag is not in 0 … L-1.
    """
    i = tl.arange(0, 256)
    end = steps.to(tl.int64)
    if counted:
        end = tl.load(lengths)
    length = tl.full([], 0, tl.int64)
    holes = tl.full([], 0, tl.int32)
    bad_tags = tl.full([], 0, tl.int32)
    if masked | tagged:
        for base in range(0, steps, 256):
            t = base + i
            is_used = (t < steps) & (t < end)
            if masked:
                is_used = tl.load(mask + t.to(tl.int64) * m_step, is_used, 0) != 0
                rank = length + tl.cumsum(is_used.to(tl.int32), 0) - 1  # of each unmasked step
                holes += tl.sum((is_used & (rank != t)).to(tl.int32), 0)
                tl.store(order + rank, t, is_used)
            if tagged:
                tag = tl.load(tags + t.to(tl.int64) * t_step, is_used, 0)
                bad_tags += tl.sum(((tag < 0) | (tag >= labels)).to(tl.int32), 0)
            length += tl.sum(is_used.to(tl.int32), 0)
    if masked:
        # An empty row is treated as a row of length 1, which reads order[0].
        tl.store(order, 0, length == 0)
    else:
        length = end
    flags = tl.where(holes > 0, 1, 0) + tl.where(bad_tags > 0, 4, 0)
    flags += tl.where((length < 1) | (length > steps), 2, 0)
    tl.store(row_lengths, length)
    # Write through the caches: the status may be in host memory, where the host polls it.
    tl.store(status, flags, cache_modifier=".wt")
    return clip_length(length, steps)


@triton.jit
def has_hole(order, length):
    """Return True if the mask has a hole: the last unmasked position is then not length - 1."""
    return tl.load(order + length - 1) != length - 1


@triton.jit
def _pack_steps(row, scores, packed, tile: tl.constexpr):
    """Copy the emissions of the unmasked steps to packed (T, L)."""
    # 1024 elements at a time: 32 registers per thread with one warp
    steps: tl.constexpr = 1024 // tile
    for base in range(0, row.length, steps):
        t = base + tl.arange(0, steps)
        source = scores.emissions + step_position(row, t)[:, None] * scores.e_step
        target = packed + t.to(tl.int64)[:, None] * row.labels
        for first in range(0, row.labels, tile):
            j = (first + tl.arange(0, tile))[None, :]
            inside = (t < row.length)[:, None] & (j < row.labels)
            tl.store(target + j, tl.load(source + j, inside), inside)
    tl.debug_barrier()


@triton.jit
def _transpose_share(transitions, transposed, rows, labels):
    """Copy this program's share of the transitions, with the later label first, for backward."""
    share = (labels * labels + rows - 1) // rows
    begin = tl.program_id(0) * share
    stop = tl.minimum(begin + share, labels * labels)
    i = tl.arange(0, 128)
    for base in range(begin, stop, 128):
        cell = base + i
        x = tl.load(transitions + cell, cell < stop)
        tl.store(transposed + cell % labels * labels + cell // labels, x, cell < stop)


@triton.jit
def _load_tags(row, tags, t_step, t):
    """Load the tags of the steps t, 0 outside the row. Invalid tags are clipped to 0 … L-1."""
    inside = (t >= 0) & (t < row.length)
    tag = tl.load(tags + step_position(row, tl.maximum(t, 0)) * t_step, inside, 0)
    return tl.minimum(tl.maximum(tag, 0), row.labels - 1)


@triton.jit
def _visit_tags(row, scores, tags, t_step, weight, subtract: tl.constexpr):
    """start[y₀] + Σₜ u[t, yₜ] + Σₜ A[yₜ₋₁, yₜ] + end[y_T₋₁], in float64; 256 steps at once.

    With `subtract`, `scores` are gradients: subtract the weight from the elements of the tags
    instead. All atomic additions to an element add the same number, so their order does not matter.
    """
    total = tl.zeros([256], tl.float64)
    for base in range(0, row.length, 256):
        t = base + tl.arange(0, 256)
        tag = _load_tags(row, tags, t_step, t)
        before = _load_tags(row, tags, t_step, t - 1)
        pair = pair_offset(row, scores, t) + before * scores.a_from + tag * scores.a_to
        unary = step_position(row, t) * scores.e_step + tag
        emissions, pairs = scores.emissions + unary, scores.transitions + pair
        cells = (emissions, pairs, scores.start + tag, scores.end + tag)
        inside = t < row.length
        masks = (inside, inside & (t > 0), t == 0, t == row.length - 1)
        for k in tl.static_range(4):
            if subtract:
                minus = tl.zeros([256], weight.dtype) - weight
                tl.atomic_add(cells[k], minus, masks[k], sem="relaxed")
            else:
                total += tl.load(cells[k], masks[k], 0.0).to(tl.float64)
    return tl.sum(total, 0)


# ---- entry points


@_kernel
def validate_kernel(
    lengths, mask, tags, order, row_lengths, status, m_row, m_step, t_row, t_step, steps, labels,
    masked: tl.constexpr, counted: tl.constexpr, tagged: tl.constexpr,
):  # fmt: skip
    """Run `validate_row` for all rows, without a recursion."""
    row = tl.program_id(0).to(tl.int64)
    validate_row(
        mask + row * m_row, m_step, lengths + row, tags + row * t_row, t_step, order + row * steps,
        status + row, row_lengths + row, steps, labels, masked, counted, tagged,
    )  # fmt: skip


@_kernel
def forward_kernel(
    emissions, transitions, start, end, lengths, mask, tags, order, packed, row_lengths, status,
    row_values, alpha, transposed, e_row, e_step, m_row, m_step, t_row, t_step, rows, steps, labels,
    block: tl.constexpr, tile: tl.constexpr, held: tl.constexpr, masked: tl.constexpr,
    counted: tl.constexpr, tagged: tl.constexpr, shared: tl.constexpr, best: tl.constexpr,
):  # fmt: skip
    """Validate a row; store α, and log Z or log p of the tags. With `best`: the best path's score.

    If the mask of the row has a hole, its unmasked steps are first copied to `packed`. Shared
    transitions are copied to `transposed`.
    """
    b = tl.program_id(0).to(tl.int64)
    emissions += b * e_row
    tags += b * t_row
    order += b * steps
    alpha += b * steps * labels
    length = validate_row(
        mask + b * m_row, m_step, lengths + b, tags, t_step, order, status + b, row_lengths + b,
        steps, labels, masked, counted, tagged,
    )  # fmt: skip
    area = labels.to(tl.int64) * labels
    if shared:
        area = None
        _transpose_share(transitions, transposed, rows, labels)
    else:
        transitions += b * (steps - 1) * area
    row = Row(order if masked else None, alpha, length, labels)
    scores = Scores(emissions, e_step, transitions, area, labels, 1, start, end)
    used = scores
    if masked:
        tl.debug_barrier()  # other threads have stored the order
        packed += b * steps * labels
        hole = has_hole(order, length)
        if hole:
            _pack_steps(row, scores, packed, tile)
        emissions = tl.where(hole, packed, emissions)
        e_step = tl.where(hole, labels, e_step)
        used = Scores(emissions, e_step, transitions, area, labels, 1, start, end)
    value = tl.full([], 0.0, tl.float64)
    exact = False
    if held:
        value, exact = forward_held(row, used, block, best)
    if not exact:
        value = forward_log(row, used, block, tile, best)
    if tagged:
        score = _visit_tags(row, scores, tags, t_step, 0.0, False)
        value = tl.where(score == NEVER, NEVER, finite(score) - value)
    tl.store(row_values + b, value)


@_kernel
def backward_kernel(
    emissions, transitions, end, tags, order, packed, row_lengths, row_values, alpha, transposed,
    d_emissions, d_transitions, row_sums, e_row, e_step, t_row, t_step, steps, labels,
    block: tl.constexpr, tile: tl.constexpr, held: tl.constexpr,
    masked: tl.constexpr, tagged: tl.constexpr, shared: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of the value of a row."""
    b = tl.program_id(0).to(tl.int64)
    length = clip_length(tl.load(row_lengths + b), steps)
    weight = tl.full([], 1.0, alpha.dtype.element_ty)
    if tagged:
        weight = -weight  # the value is log p; below, the gradient of -log p is computed
    emissions += b * e_row
    order += b * steps
    alpha += b * steps * labels
    d_emissions += b * steps * labels
    width = (2 + (labels if shared else 0)) * labels
    sums = row_sums + b * (width + 1)
    tl.store(sums + width, tl.load(row_values + b).to(alpha.dtype.element_ty))
    first = length  # the first step whose gradient is set to 0 here
    if masked:
        hole = has_hole(order, length)
        first = tl.where(hole, 0, length)
        emissions = tl.where(hole, packed + b * steps * labels, emissions)
        e_step = tl.where(hole, labels, e_step)
    fill(d_emissions, first.to(tl.int64) * labels, steps.to(tl.int64) * labels, 0.0)
    area = labels.to(tl.int64) * labels
    a_from = labels
    a_to = 1
    if shared:
        # The later label is first, because the load of the matrix decides the register layout of
        # the backward loop. With the earlier label first, the loop was 20 times slower for L = 128.
        transitions, area, a_from, a_to = transposed, None, 1, labels
        d_transitions = sums + 2 * labels
        fill(d_transitions, 0, labels * labels, 0.0)
    else:
        transitions += b * (steps - 1) * area
        d_transitions += b * (steps - 1) * area
        fill(d_transitions, tl.maximum(first - 1, 0) * area, (steps - 1) * area, 0.0)
    row = Row(order if masked else None, alpha, length, labels)
    scores = Scores(emissions, e_step, transitions, area, a_from, a_to, end, end)
    gradients = Scores(d_emissions, labels, d_transitions, area, a_from, a_to, sums, sums + labels)
    tl.debug_barrier()  # below, other threads write to the same elements
    scaled = False
    if held:
        j = tl.arange(0, block)
        scaled = tl.max(tl.load(alpha + j, j < labels, NEVER), 0) > 0.0
        if scaled:
            backward_scaled(row, scores, gradients, weight, block)
    if not scaled:
        weight = backward_log(row, scores, gradients, weight, block, tile)
    if tagged:
        tl.debug_barrier()  # other threads have stored the expected counts
        _visit_tags(row, gradients, tags + b * t_row, t_step, weight, True)


@_kernel
def sum_kernel(
    row_sums, value, d_start, d_end, d_transitions, rows, labels,
    columns: tl.constexpr, shared: tl.constexpr,
):  # fmt: skip
    """Sum row_sums over the rows in a fixed order. Transitions are stored earlier label first."""
    width = (2 + (labels if shared else 0)) * labels + 1
    column = tl.program_id(0).to(tl.int64) * columns + tl.arange(0, columns)
    lane = tl.arange(0, 32)
    part = tl.zeros([columns], tl.float64)
    for base in range(0, rows, 32):
        row = base + lane
        inside = (row < rows)[:, None] & (column < width)[None, :]
        x = tl.load(row_sums + row.to(tl.int64)[:, None] * width + column[None, :], inside, 0.0)
        part += tl.sum(x.to(tl.float64), 0)
    part = part.to(value.dtype.element_ty)
    end = column - labels
    pair = end - labels
    tl.store(d_start + column, part, end < 0)
    tl.store(d_end + end, part, (end >= 0) & (pair < 0))
    cell = pair % labels * labels + pair // labels
    tl.store(d_transitions + cell, part, (pair >= 0) & (column < width - 1))
    tl.store(value + tl.zeros_like(column), part, column == width - 1)


@triton.jit
def _first_maximum(x, j, block: tl.constexpr):
    """Return the first label j with the largest x."""
    return tl.min(tl.where(x == tl.max(x, 0), j, block), 0)


@_kernel
def trace_kernel(
    alpha, transitions, transposed, end, row_lengths, path, steps, labels,
    block: tl.constexpr, shared: tl.constexpr,
):  # fmt: skip
    """Compute the best path from its last label to its first; store it in path (B, T), padded by 0.

    The best predecessor is computed again, but only for the label on the path. Storing all
    predecessors in the forward pass would triple the instructions of all L² pairs.
    """
    b = tl.program_id(0).to(tl.int64)
    length = clip_length(tl.load(row_lengths + b), steps)
    j = tl.arange(0, block)
    alpha += (b * steps + length - 1) * labels + j
    path += b * steps
    x = tl.load(alpha, j < labels, NEVER)
    y = _first_maximum(x + tl.load(end + j, j < labels, NEVER).to(x.dtype), j, block)
    tl.store(path + length - 1, y)
    x1, x2, x3, alpha = load_ahead(alpha, -labels, length, j, labels, NEVER)
    area = labels.to(tl.int64) * labels
    pairs = transitions + (b * (steps - 1) + length - 1) * area
    for back in tl.range(1, length, loop_unroll_factor=4):
        alpha -= labels
        pairs -= area
        x4 = load_if(back + 3 < length, alpha, j, labels, NEVER)
        cells = transposed + y * labels + j if shared else pairs + j.to(tl.int64) * labels + y
        x = x1 + tl.load(cells, j < labels, NEVER).to(x1.dtype)
        y = _first_maximum(x, j, block)
        tl.store(path + length - 1 - back, y)
        x1, x2, x3 = x2, x3, x4
    fill(path, length, steps, 0)
