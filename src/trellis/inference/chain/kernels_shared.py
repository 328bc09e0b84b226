"""The kernels of the chain: a program for each row of the batch, all of its steps in one launch.

README.md beside this file has the recursions, docs/kernels.md what a step costs. Where the
transitions fit into the registers of a program (`held`) it walks with scaled probabilities, and
only rows of which too much would underflow go again in log space.
"""

# mypy: allow-untyped-decorators, allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

import triton
import triton.language as tl

from trellis.inference.chain.kernels_log import backward_log, forward_log
from trellis.inference.chain.kernels_scaled import backward_scaled, best_held, forward_scaled
from trellis.inference.chain.triton_parts import (
    NEVER,
    count_tags,
    fill,
    finite,
    flip_share,
    load_if,
    path_score,
    row_length,
)
from trellis.inference.chain.triton_steps import look_at_row

__all__ = ["backward_kernel", "forward_kernel", "sum_kernel", "trace_kernel", "viterbi_kernel"]

# Sizes do not compile a kernel again, and registers are laid out alike for all alignments.
_SIZES = ["rows", "steps", "labels"]
_OTHERS = [
    *("emissions", "transitions", "start", "end", "lengths", "mask", "tags", "found", "marks"),
    *("value", "alpha", "flipped", "weights", "d_emissions", "d_transitions", "sums", "scratch"),
    *("best", "path", "total"),
    *("m_row", "m_step", "t_row", "t_step"),
    *("e_row", "e_step", "e_label", "a_row", "a_step", "a_from", "a_to", "w_row"),
]
_kernel = triton.jit(do_not_specialize=_SIZES, do_not_specialize_on_alignment=_OTHERS)


@_kernel
def forward_kernel(
    emissions, e_row, e_step, e_label, transitions, a_row, a_step, a_from, a_to, start, end,
    lengths, mask, m_row, m_step, tags, t_row, t_step, found, marks, value, alpha, flipped, rows,
    steps, labels,
    dtype: tl.constexpr, block: tl.constexpr, tile: tl.constexpr, held: tl.constexpr,
    masked: tl.constexpr, tagged: tl.constexpr, flip: tl.constexpr,
):  # fmt: skip
    """Log Z, or log p of the tags if there are any; α in one of two forms.

    With `flip`, the transitions are also written with the later label first, for the way back.
    """
    row = tl.program_id(0).to(tl.int64)
    tags += row * t_row
    there = look_at_row(
        mask + row * m_row, m_step, lengths + row, tags, t_step, found + row, marks + row, steps,
        labels, masked, tagged,
    )  # fmt: skip
    length = tl.minimum(tl.maximum(there, 1), steps).to(tl.int32)  # nothing outside is touched
    emissions += row * e_row
    transitions += row * a_row
    alpha += row * steps * labels
    if flip:
        flip_share(transitions, a_from, a_to, flipped, rows, labels)
    log_z = tl.full([], 0.0, tl.float64)
    sure = False
    if held:
        log_z, sure = forward_scaled(
            emissions, e_step, e_label, transitions, a_from, a_to, start, end, alpha,
            length, labels, dtype, block,
        )  # fmt: skip
    if not sure:
        log_z = forward_log(
            emissions, e_step, e_label, transitions, a_step, a_from, a_to, start, end, alpha,
            length, labels, dtype, tile, False,
        )  # fmt: skip
    if tagged:
        used = path_score(
            emissions, e_step, e_label, transitions, a_step, a_from, a_to, start, end,
            tags, t_step, length, labels,
        )  # fmt: skip
        log_z = tl.where(used == NEVER, NEVER, finite(used) - log_z)
    tl.store(value + row, log_z)
    fill(alpha, length.to(tl.int64) * labels, steps.to(tl.int64) * labels, 0.0)


@_kernel
def backward_kernel(
    emissions, e_row, e_step, e_label, transitions, a_row, a_step, a_from, a_to, end,
    lengths, tags, t_row, t_step, alpha, weights, w_row, d_emissions, d_transitions, sums, scratch,
    steps, labels,
    dtype: tl.constexpr, block: tl.constexpr, tile: tl.constexpr,
    held: tl.constexpr, shared: tl.constexpr, tagged: tl.constexpr, weighted: tl.constexpr,
):  # fmt: skip
    """The gradient of a row, times its weight.

    What is of the row alone goes to its place, the rest into its block of `sums`: start, end and,
    if all positions share them, transitions, of which the later label comes first. Without weights
    the values of the rows take their place, and each is put behind the sums of its row.
    """
    row = tl.program_id(0).to(tl.int64)
    length = row_length(lengths, row, steps)
    given = tl.load(weights + row * w_row).to(dtype)
    weight = given if weighted else tl.full([], 1.0, dtype)
    if tagged:  # from here on it is the gradient of -log p
        weight = -weight
    emissions += row * e_row
    transitions += row * a_row
    tags += row * t_row
    scratch += row * 3 * labels
    width = (2 + (labels if shared else 0)) * labels
    sums += row * (width if weighted else width + 1)
    d_transitions += row * (steps - 1) * labels * labels
    d_emissions += row * steps * labels
    alpha += row * steps * labels
    if not weighted:
        tl.store(sums + width, given)
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
                weight, d_emissions, sums, length, labels, dtype, block, tagged,
            )  # fmt: skip
    if not scaled:
        backward_log(
            transitions, a_step, a_from, a_to, end, tags, t_step, alpha, weight, d_emissions,
            d_transitions, sums, scratch, length, labels, dtype, tile, shared, tagged,
        )  # fmt: skip
    behind = length.to(tl.int64)
    fill(d_emissions, behind * labels, steps.to(tl.int64) * labels, 0.0)
    if not shared:
        area = labels.to(tl.int64) * labels
        fill(d_transitions, (behind - 1) * area, (steps - 1) * area, 0.0)


@_kernel
def sum_kernel(sums, total, value, rows, labels, block: tl.constexpr):
    """The sums of all rows, always in one order, earlier label first, and of the values."""
    width = (labels + 1) * (labels + 1)
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    own = tl.arange(0, 32)
    part = tl.zeros([block], tl.float64)
    for base in range(0, rows, 32):
        row = base + own
        there = (row < rows)[:, None] & (at < width)[None, :]
        x = tl.load(sums + row.to(tl.int64)[:, None] * width + at[None, :], there, 0.0)
        part += tl.sum(x.to(tl.float64), 0)
    part = part.to(total.dtype.element_ty)
    pair = at - 2 * labels
    place = tl.where(pair < 0, at, 2 * labels + pair % labels * labels + pair // labels)
    tl.store(total + place, part, at < width - 1)
    tl.store(value + tl.zeros_like(at), part, at == width - 1)


@_kernel
def viterbi_kernel(
    emissions, e_row, e_step, e_label, transitions, a_row, a_step, a_from, a_to, start, end,
    lengths, value, best, steps, labels,
    dtype: tl.constexpr, block: tl.constexpr, tile: tl.constexpr, held: tl.constexpr,
):  # fmt: skip
    """The score of the best path, and that of the best beginnings up to every label."""
    row = tl.program_id(0).to(tl.int64)
    length = row_length(lengths, row, steps)
    emissions += row * e_row
    transitions += row * a_row
    best += row * steps * labels
    if held:
        score = best_held(
            emissions, e_step, e_label, transitions, a_from, a_to, start, end, best,
            length, labels, dtype, block,
        )  # fmt: skip
    else:
        score = forward_log(
            emissions, e_step, e_label, transitions, a_step, a_from, a_to, start, end, best,
            length, labels, dtype, tile, True,
        )  # fmt: skip
    tl.store(value + row, score)


@triton.jit
def _first_best(x, j, block: tl.constexpr):
    """The first label of the largest x."""
    return tl.min(tl.where(x == tl.max(x, 0), j, block), 0)


@_kernel
def trace_kernel(
    best, transitions, a_row, a_step, a_from, a_to, end, lengths, path, steps, labels,
    block: tl.constexpr,
):  # fmt: skip
    """Back from the last label: the one before is searched again, for the path's label alone."""
    row = tl.program_id(0).to(tl.int64)
    length = row_length(lengths, row, steps).to(tl.int64)
    j = tl.arange(0, block)
    best += (row * steps + length - 1) * labels + j
    transitions += row * a_row + (length - 2) * a_step + j.to(tl.int64) * a_from
    path += row * steps
    x = tl.load(best, j < labels, NEVER)
    y = _first_best(x + tl.load(end + j, j < labels, NEVER).to(x.dtype), j, block)
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
        y = _first_best(x, j, block)
        tl.store(path + length - 1 - back, y)
        transitions -= a_step
        x1 = x2
        x2 = x3
        x3 = x4
    fill(path, length, steps, 0)
