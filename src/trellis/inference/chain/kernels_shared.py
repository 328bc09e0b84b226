"""The kernels of the chain, and the functions that log space and scaled probabilities share.

One program works on one row of the batch. Arguments of all kernels of the chain:

    emissions    (B, T, L), strides e_row, e_step, e_label
    transitions  (L, L) with a_row = a_step = 0, or (B, T-1, L, L); strides a_row, a_step, a_from,
                 a_to, where "from" is the earlier label and "to" the later one
    start, end   (L,)
    lengths      (B,) int64;   mask (B, T), strides m_row, m_step
    tags         (B, T) int64, strides t_row, t_step
    order        (B, T) int32: order[b, t] is the position of the t-th unmasked step of row b
    alpha        (B, T, L): the forward scores of each step, scaled or in log space
    steps, labels are T and L;  length is the number of unmasked steps of the row
    block, tile  constants: L rounded up to a power of two, and the width of a tile of labels
"""

# mypy: allow-untyped-decorators, allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

import triton
import triton.language as tl

from trellis.inference.chain.kernels_log import NEVER, backward_log, finite, forward_log
from trellis.inference.chain.kernels_scaled import (
    backward_scaled,
    best_scores,
    forward_scaled,
    load_if,
)

__all__ = [
    "backward_kernel",
    "forward_kernel",
    "sum_kernel",
    "trace_kernel",
    "validate_kernel",
    "viterbi_kernel",
]

# With these settings, new sizes do not compile a kernel again, and alignments do not change its
# register layout.
_kernel = triton.jit(
    do_not_specialize=["rows", "steps", "labels"],
    do_not_specialize_on_alignment=[
        *("emissions", "transitions", "start", "end", "lengths", "mask", "tags", "order"),
        *("packed", "packed_tags", "packed_gradient", "lengths_out", "status", "value", "alpha"),
        *("transposed", "d_emissions", "d_transitions", "sums", "scratch", "best", "path", "total"),
        *("e_row", "e_step", "e_label", "a_row", "a_step", "a_from", "a_to"),
        *("m_row", "m_step", "t_row", "t_step"),
    ],
)


@triton.jit
def clip_length(length, steps):
    """Return the length clipped to 1 … steps, so that no access is out of bounds."""
    return tl.minimum(tl.maximum(length, 1), steps).to(tl.int32)


@triton.jit
def load_tags(tags, t_step, t, length, labels):
    """Load the tags at positions t, 0 outside the row. Invalid tags are clipped to 0 … L-1."""
    tag = tl.load(tags + t * t_step, (t >= 0) & (t < length), 0)
    return tl.minimum(tl.maximum(tag, 0), labels - 1)


@triton.jit
def fill(pointer, begin, stop, value):
    """pointer[begin:stop] = value."""
    i = tl.arange(0, 1024)
    for base in range(begin, stop, 1024):
        tl.store(pointer + base + i, value, base + i < stop)


@triton.jit
def validate_row(
    mask, m_step, lengths, tags, t_step, order, length_out, status, steps, labels,
    masked: tl.constexpr, counted: tl.constexpr, tagged: tl.constexpr,
):  # fmt: skip
    """Return the length of a row. Store the length, the status and (if masked) the order.

    The pointers are those of the row. Without a mask and without lengths (`counted`), all steps are
    used.
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
            on = (t < steps) & (t < end)
            if masked:
                on = tl.load(mask + t.to(tl.int64) * m_step, on, 0) != 0
                rank = length + tl.cumsum(on.to(tl.int32), 0) - 1  # of each unmasked step
                holes += tl.sum((on & (rank != t)).to(tl.int32), 0)
                tl.store(order + rank, t, on)
            if tagged:
                tag = tl.load(tags + t.to(tl.int64) * t_step, on, 0)
                bad_tags += tl.sum(((tag < 0) | (tag >= labels)).to(tl.int32), 0)
            length += tl.sum(on.to(tl.int32), 0)
    if masked:
        # An empty row is treated as a row of length 1, which reads order[0].
        tl.store(order, 0, length == 0)
    else:
        length = end
    flags = tl.where(holes > 0, 1, 0) + tl.where(bad_tags > 0, 4, 0)
    flags += tl.where((length < 1) | (length > steps), 2, 0)
    tl.store(length_out, length)
    # Write through the caches: the status may be in host memory, where the host polls it.
    tl.store(status, flags, cache_modifier=".wt")
    return length


@triton.jit
def has_hole(order, length):
    """Return True if the mask has a hole. Positions increase, so the last one shows it."""
    return tl.load(order + length - 1) != length - 1


@triton.jit
def copy_steps(
    source, target, order, by_step, by_label, length, labels,
    tile: tl.constexpr, scatter: tl.constexpr,
):  # fmt: skip
    """target[t] = source[order[t]] for t < length, or target[order[t]] = source[t] (`scatter`).

    Both have the strides by_step and by_label.
    """
    rows: tl.constexpr = (
        1024 // tile
    )  # 1024 elements at a time: 32 registers per thread with one warp
    for base in range(0, length, rows):
        t = base + tl.arange(0, rows)
        position = tl.load(order + t, t < length, 0).to(tl.int64)
        read = t.to(tl.int64) if scatter else position
        write = position if scatter else t.to(tl.int64)
        for first in range(0, labels, tile):
            j = first + tl.arange(0, tile)
            inside = (t < length)[:, None] & (j < labels)[None, :]
            label = j.to(tl.int64)[None, :] * by_label
            x = tl.load(source + read[:, None] * by_step + label, inside)
            tl.store(target + write[:, None] * by_step + label, x, inside)


@triton.jit
def transpose_share(transitions, a_from, a_to, transposed, rows, labels):
    """Copy this program's share of the transitions, with the later label first, for backward."""
    share = (labels * labels + rows - 1) // rows
    begin = tl.program_id(0) * share
    stop = tl.minimum(begin + share, labels * labels)
    i = tl.arange(0, 128)
    for base in range(begin, stop, 128):
        cell = base + i
        before = cell // labels
        after = cell % labels
        x = tl.load(transitions + before * a_from + after * a_to, cell < stop)
        tl.store(transposed + after * labels + before, x, cell < stop)


@triton.jit
def score_tags(
    emissions, e_step, e_label, transitions, a_step, a_from, a_to, start, end, tags, t_step, order,
    length, labels, indexed: tl.constexpr,
):  # fmt: skip
    """start[y₀] + Σₜ u[t, yₜ] + Σₜ A[yₜ₋₁, yₜ] + end[y_T₋₁]; 256 steps at once, in float64."""
    i = tl.arange(0, 256)
    total = tl.zeros([256], tl.float64)
    for base in range(0, length, 256):
        t = (base + i).to(tl.int64)
        after = load_tags(tags, t_step, t, length, labels)
        before = load_tags(tags, t_step, t - 1, length, labels)
        pair = t - 1
        if indexed:
            pair = tl.load(order + t, t < length, 0).to(tl.int64) - 1
        cell = transitions + pair * a_step + before * a_from + after * a_to
        total += tl.load(emissions + t * e_step + after * e_label, t < length, 0.0).to(tl.float64)
        total += tl.load(cell, (t > 0) & (t < length), 0.0).to(tl.float64)
        total += tl.load(start + after, t == 0, 0.0).to(tl.float64)
        total += tl.load(end + after, t == length - 1, 0.0).to(tl.float64)
    return tl.sum(total, 0)


@triton.jit
def count_tags(counts, tags, t_step, length, labels):
    """Add the number of occurrences of each pair of tags to counts (L, L), later label first.

    The counts are integers, so the order of the atomic additions does not change the sum.
    """
    i = tl.arange(0, 256)
    for base in range(1, length, 256):
        t = (base + i).to(tl.int64)
        before = load_tags(tags, t_step, t - 1, length, labels)
        cell = counts + load_tags(tags, t_step, t, length, labels) * labels + before
        tl.atomic_add(cell, 1.0, t < length, sem="relaxed")


# ---- entry points


@_kernel
def forward_kernel(
    emissions, e_row, e_step, e_label, transitions, a_row, a_step, a_from, a_to, start, end,
    lengths, mask, m_row, m_step, tags, t_row, t_step,
    order, packed, packed_tags, lengths_out, status, value, alpha, transposed, rows, steps, labels,
    dtype: tl.constexpr, block: tl.constexpr, tile: tl.constexpr, held: tl.constexpr,
    masked: tl.constexpr, counted: tl.constexpr, tagged: tl.constexpr, shared: tl.constexpr,
):  # fmt: skip
    """Validate a row, store α, and store log Z, or log p of the tags if `tagged`, in value (B,).

    If the mask of the row has a hole, its unmasked steps are first copied to `packed` and
    `packed_tags`, which have the strides of emissions and tags. `shared` transitions are also
    stored with the later label first, in `transposed` (L, L).
    """
    row = tl.program_id(0).to(tl.int64)
    tags += row * t_row
    order += row * steps
    length = clip_length(
        validate_row(
            mask + row * m_row, m_step, lengths + row, tags, t_step, order, lengths_out + row,
            status + row, steps, labels, masked, counted, tagged,
        ),
        steps,
    )  # fmt: skip
    emissions += row * e_row
    transitions += row * a_row
    alpha += row * steps * labels
    if masked:
        tl.debug_barrier()  # other threads have stored the order
        if has_hole(order, length):
            packed += row * e_row
            copy_steps(emissions, packed, order, e_step, e_label, length, labels, tile, False)
            emissions = packed
            if tagged:
                packed_tags += row * t_row
                copy_steps(tags, packed_tags, order, t_step, 0, length, 1, 1, False)
                tags = packed_tags
            tl.debug_barrier()
    if shared:
        transpose_share(transitions, a_from, a_to, transposed, rows, labels)
    log_z = tl.full([], 0.0, tl.float64)
    exact = False
    if held:
        log_z, exact = forward_scaled(
            emissions, e_step, e_label, transitions, a_from, a_to, start, end, alpha,
            length, labels, dtype, block,
        )  # fmt: skip
    if not exact:
        log_z = forward_log(
            emissions, e_step, e_label, transitions, a_step, a_from, a_to, start, end, order, alpha,
            length, labels, dtype, tile, False, masked & (not shared),
        )  # fmt: skip
    if tagged:
        score = score_tags(
            emissions, e_step, e_label, transitions, a_step, a_from, a_to, start, end,
            tags, t_step, order, length, labels, masked & (not shared),
        )  # fmt: skip
        log_z = tl.where(score == NEVER, NEVER, finite(score) - log_z)
    tl.store(value + row, log_z)
    fill(alpha, length.to(tl.int64) * labels, steps.to(tl.int64) * labels, 0.0)


@_kernel
def backward_kernel(
    emissions, e_row, e_step, e_label, transitions, a_row, a_step, a_from, a_to, end,
    lengths, tags, t_row, t_step, order, packed, packed_tags, packed_gradient, alpha, value,
    d_emissions, d_transitions, sums, scratch, steps, labels,
    dtype: tl.constexpr, block: tl.constexpr, tile: tl.constexpr, held: tl.constexpr,
    masked: tl.constexpr, tagged: tl.constexpr, shared: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of the value of a row.

    d_emissions (B, T, L), d_transitions (B, T-1, L, L) if not `shared`, and a block of `sums` for
    each row: start (L), end (L), shared transitions (L, L) with the later label first, and the
    value of the row. `lengths` are the lengths_out of the forward kernel; scratch is (B, 3, L).
    """
    row = tl.program_id(0).to(tl.int64)
    length = clip_length(tl.load(lengths + row), steps)
    weight = tl.full([], 1.0, dtype)
    if tagged:
        weight = -weight  # the code below computes the gradient of log Z minus the tags' score
    emissions += row * e_row
    transitions += row * a_row
    tags += row * t_row
    order += row * steps
    scratch += row * 3 * labels
    width = (2 + (labels if shared else 0)) * labels
    sums += row * (width + 1)
    d_transitions += row * (steps - 1) * labels * labels
    d_emissions += row * steps * labels
    alpha += row * steps * labels
    area = labels.to(tl.int64) * labels
    gradient = d_emissions
    if masked:  # noqa: SIM102 (this condition is a constant, the next one is not)
        if has_hole(order, length):
            emissions = packed + row * e_row
            if tagged:
                tags = packed_tags + row * t_row
            gradient = packed_gradient + row * steps * labels
            fill(d_emissions, 0, steps.to(tl.int64) * labels, 0.0)
            if not shared:
                fill(d_transitions, 0, (steps - 1) * area, 0.0)
                tl.debug_barrier()
    tl.store(sums + width, tl.load(value + row).to(dtype))
    if shared:
        fill(sums, 2 * labels, (2 + labels) * labels, 0.0)
        tl.debug_barrier()
    if shared & tagged:
        count_tags(sums + 2 * labels, tags, t_step, length, labels)
    scaled = False
    if held:
        j = tl.arange(0, block)
        scaled = tl.max(tl.load(alpha + j, j < labels, NEVER), 0) > 0.0
        if scaled:
            backward_scaled(
                emissions, e_step, e_label, transitions, a_from, a_to, end, tags, t_step, alpha,
                weight, gradient, sums, length, labels, dtype, block, tagged,
            )  # fmt: skip
    if not scaled:
        backward_log(
            transitions, a_step, a_from, a_to, end, tags, t_step, order, alpha, weight, gradient,
            d_transitions, sums, scratch, length, labels, dtype, tile, shared, tagged,
            masked & (not shared),
        )  # fmt: skip
    hole = False
    if masked:
        hole = has_hole(order, length)
        if hole:
            tl.debug_barrier()  # other threads have stored the packed gradient
            copy_steps(gradient, d_emissions, order, labels, 1, length, labels, tile, True)
    if not hole:
        fill(d_emissions, length.to(tl.int64) * labels, steps.to(tl.int64) * labels, 0.0)
        if not shared:
            fill(d_transitions, (length - 1) * area, (steps - 1) * area, 0.0)


@_kernel
def sum_kernel(sums, total, value, rows, labels, block: tl.constexpr, shared: tl.constexpr):
    """total = Σ_b sums[b] in a fixed order, earlier label first; value = Σ_b of their last entry.

    sums (B, W + 1), total (W,): start, end and shared transitions; W = (2 + L) L, or 2 L.
    """
    width = (2 + (labels if shared else 0)) * labels + 1
    column = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    lane = tl.arange(0, 32)
    part = tl.zeros([block], tl.float64)
    for base in range(0, rows, 32):
        row = base + lane
        inside = (row < rows)[:, None] & (column < width)[None, :]
        x = tl.load(sums + row.to(tl.int64)[:, None] * width + column[None, :], inside, 0.0)
        part += tl.sum(x.to(tl.float64), 0)
    part = part.to(total.dtype.element_ty)
    pair = column - 2 * labels
    place = tl.where(pair < 0, column, 2 * labels + pair % labels * labels + pair // labels)
    tl.store(total + place, part, column < width - 1)
    tl.store(value + tl.zeros_like(column), part, column == width - 1)


@_kernel
def validate_kernel(
    lengths, mask, m_row, m_step, tags, t_row, t_step, order, lengths_out, status, steps, labels,
    masked: tl.constexpr, counted: tl.constexpr, tagged: tl.constexpr,
):  # fmt: skip
    """Run `validate_row` for all rows, without a recursion."""
    row = tl.program_id(0).to(tl.int64)
    validate_row(
        mask + row * m_row, m_step, lengths + row, tags + row * t_row, t_step, order + row * steps,
        lengths_out + row, status + row, steps, labels, masked, counted, tagged,
    )  # fmt: skip


@_kernel
def viterbi_kernel(
    emissions, e_row, e_step, e_label, transitions, a_row, a_step, a_from, a_to, start, end,
    lengths, value, best, steps, labels,
    dtype: tl.constexpr, block: tl.constexpr, tile: tl.constexpr, held: tl.constexpr,
):  # fmt: skip
    """Store the best path's score in value (B,), and the best score up to each label in best."""
    row = tl.program_id(0).to(tl.int64)
    length = clip_length(tl.load(lengths + row), steps)
    emissions += row * e_row
    transitions += row * a_row
    best += row * steps * labels
    if held:
        score = best_scores(
            emissions, e_step, e_label, transitions, a_from, a_to, start, end, best,
            length, labels, dtype, block,
        )  # fmt: skip
    else:
        score = forward_log(
            emissions, e_step, e_label, transitions, a_step, a_from, a_to, start, end, lengths,
            best, length, labels, dtype, tile, True, False,
        )  # fmt: skip
    tl.store(value + row, score)


@triton.jit
def _first_maximum(x, j, block: tl.constexpr):
    """Return the first label j with the largest x."""
    return tl.min(tl.where(x == tl.max(x, 0), j, block), 0)


@_kernel
def trace_kernel(
    best, transitions, a_row, a_step, a_from, a_to, end, lengths, path, steps, labels,
    block: tl.constexpr,
):  # fmt: skip
    """Store the best path in path (B, T), from its last label to its first; 0 after the length.

    The best predecessor is computed again, but only for the label on the path. Storing all
    predecessors in the forward pass would triple the instructions of all L² pairs.
    """
    row = tl.program_id(0).to(tl.int64)
    length = clip_length(tl.load(lengths + row), steps).to(tl.int64)
    j = tl.arange(0, block)
    best += (row * steps + length - 1) * labels + j
    transitions += row * a_row + (length - 2) * a_step + j.to(tl.int64) * a_from
    path += row * steps
    x = tl.load(best, j < labels, NEVER)
    y = _first_maximum(x + tl.load(end + j, j < labels, NEVER).to(x.dtype), j, block)
    tl.store(path + length - 1, y)
    best -= labels
    x1 = load_if(length > 1, best, j, labels, NEVER)
    best -= labels
    x2 = load_if(length > 2, best, j, labels, NEVER)
    best -= labels
    x3 = load_if(length > 3, best, j, labels, NEVER)
    for back in tl.range(1, length.to(tl.int32), loop_unroll_factor=4):
        best -= labels
        x4 = load_if(back + 3 < length, best, j, labels, NEVER)
        x = x1 + tl.load(transitions + y * a_to, j < labels, NEVER).to(x1.dtype)
        y = _first_maximum(x, j, block)
        tl.store(path + length - 1 - back, y)
        transitions -= a_step
        x1 = x2
        x2 = x3
        x3 = x4
    fill(path, length, steps, 0)
