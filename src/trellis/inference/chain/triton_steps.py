"""How many steps of each row count, and whether its tags and length are possible."""

# mypy: allow-untyped-decorators, allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

import triton
import triton.language as tl

__all__ = ["steps_kernel"]

_VARYING = ["m_row", "m_step", "t_row", "t_step", "rows", "steps", "labels"]


@triton.jit(do_not_specialize=_VARYING)
def steps_kernel(
    mask, m_row, m_step, lengths, tags, t_row, t_step, found, rows, steps, labels,
    masked: tl.constexpr, tagged: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Of a row: its length, and what is wrong with it."""
    row = tl.program_id(0).to(tl.int64)
    mask += row * m_row
    tags += row * t_row
    at = tl.arange(0, block)
    end = steps.to(tl.int64)
    if not masked:
        end = tl.load(lengths + row)
    length = tl.full([], 0, tl.int64)
    gaps = tl.full([], 0, tl.int32)
    wrong = tl.full([], 0, tl.int32)
    for base in range(0, steps, block):
        t = base + at
        on = (t < steps) & (t < end)
        if masked:
            on = tl.load(mask + t.to(tl.int64) * m_step, on, 0) != 0
            before = length + tl.cumsum(on.to(tl.int32), 0) - 1
            gaps += tl.sum((on & (before != t)).to(tl.int32), 0)
        if tagged:
            tag = tl.load(tags + t.to(tl.int64) * t_step, on, 0)
            wrong += tl.sum(((tag < 0) | (tag >= labels)).to(tl.int32), 0)
        length += tl.sum(on.to(tl.int32), 0)
    if not masked:
        length = end
    status = tl.where(gaps > 0, 1, 0) + tl.where(wrong > 0, 4, 0)
    status += tl.where((length < 1) | (length > steps), 2, 0)
    tl.store(found + row, length)
    tl.store(found + rows + row, status)
