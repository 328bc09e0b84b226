"""The kernels of the chain: a program for each row of the batch, all of its steps in one launch.

README.md beside this file has the recursions, docs/kernels.md what a step costs. Where the
transitions fit into the registers of a program (`held`) it walks with scaled probabilities, and
only rows of which too much would underflow go again in log space.
"""

# mypy: allow-untyped-decorators, allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

import triton
import triton.language as tl

from trellis.inference.chain.triton_log import backward_log, forward_log
from trellis.inference.chain.triton_parts import (
    NEVER,
    count_tags,
    fill,
    finite,
    load_if,
    path_score,
    row_length,
)
from trellis.inference.chain.triton_scaled import backward_scaled, best_held, forward_scaled

__all__ = ["trace_kernel", "viterbi_kernel", "walk_kernel"]

# Sizes do not compile a kernel again, and registers are laid out alike for all alignments.
_SIZES = ["steps", "labels"]
_OTHERS = [
    *("emissions", "transitions", "start", "end", "lengths", "tags", "value", "alpha", "unary"),
    *("pairs", "scratch", "best", "path", "t_row", "t_step"),
    *("e_row", "e_step", "e_label", "a_row", "a_step", "a_from", "a_to"),
]
_kernel = triton.jit(do_not_specialize=_SIZES, do_not_specialize_on_alignment=_OTHERS)


@_kernel
def walk_kernel(
    emissions, e_row, e_step, e_label, transitions, a_row, a_step, a_from, a_to, start, end,
    lengths, tags, t_row, t_step, value, alpha, unary, pairs, scratch, steps, labels,
    dtype: tl.constexpr, block: tl.constexpr, tile: tl.constexpr, held: tl.constexpr,
    shared: tl.constexpr, tagged: tl.constexpr, wanted: tl.constexpr,
):  # fmt: skip
    """Log Z, or log p of the tags if there are any; and if `wanted` the way back: its gradient."""
    row = tl.program_id(0).to(tl.int64)
    length = row_length(lengths, row, steps)
    tags += row * t_row
    emissions += row * e_row
    transitions += row * a_row
    alpha += row * steps * labels
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
    if wanted:
        _back(
            emissions, e_step, e_label, transitions, a_step, a_from, a_to, end, tags, t_step, alpha,
            unary + row * steps * labels, pairs + row * (labels if shared else (steps - 1) * labels)
            * labels, scratch + row * 3 * labels, sure, length, steps, labels,
            dtype, block, tile, held, shared, tagged,
        )  # fmt: skip


@triton.jit
def _back(
    emissions, e_step, e_label, transitions, a_step, a_from, a_to, end, tags, t_step, alpha,
    unary, pairs, scratch, sure, length, steps, labels,
    dtype: tl.constexpr, block: tl.constexpr, tile: tl.constexpr, held: tl.constexpr,
    shared: tl.constexpr, tagged: tl.constexpr,
):  # fmt: skip
    """The gradient of a row: of its emissions, and of its transitions, summed if it shares them."""
    sign: tl.constexpr = -1.0 if tagged else 1.0
    if shared:
        fill(pairs, 0, labels * labels, 0.0)
    tl.debug_barrier()  # α and the zeros are written
    if shared & tagged:
        count_tags(pairs, tags, t_step, length, labels)
    if held:  # noqa: SIM102 (one is known when it is compiled, the other is not)
        if sure:
            backward_scaled(
                emissions, e_step, e_label, transitions, a_from, a_to, end, tags, t_step, alpha,
                unary, pairs, length, labels, dtype, block, tagged, sign,
            )  # fmt: skip
    if not sure:
        backward_log(
            transitions, a_step, a_from, a_to, end, tags, t_step, alpha, unary, pairs, scratch,
            length, labels, dtype, tile, shared, tagged, sign,
        )  # fmt: skip
    behind = length.to(tl.int64)
    fill(unary, behind * labels, steps.to(tl.int64) * labels, 0.0)
    if not shared:
        area = labels.to(tl.int64) * labels
        fill(pairs, (behind - 1) * area, (steps - 1) * area, 0.0)


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
