"""How many steps of each row count, and whether its tags and length are possible."""

# mypy: allow-untyped-decorators, allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

import triton
import triton.language as tl

__all__ = ["look_at_row", "steps_kernel"]


@triton.jit
def look_at_row(
    mask, m_step, lengths, tags, t_step, found, mark, steps, labels,
    masked: tl.constexpr, tagged: tl.constexpr,
):  # fmt: skip
    """The length of a row, which goes to `found`, and what is wrong with it, which is its mark.

    1: steps between others do not count. 2: the length is impossible. 4: a tag is.
    """
    at = tl.arange(0, 256)
    end = steps.to(tl.int64)
    if not masked:
        end = tl.load(lengths)
    length = tl.full([], 0, tl.int64)
    gaps = tl.full([], 0, tl.int32)
    wrong = tl.full([], 0, tl.int32)
    if masked | tagged:
        for base in range(0, steps, 256):
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
    tl.store(found, length)
    tl.store(mark, status, cache_modifier=".wt")  # it may be memory of the host
    return length


@triton.jit(do_not_specialize=["m_row", "m_step", "t_row", "t_step", "steps", "labels"])
def steps_kernel(
    lengths, mask, m_row, m_step, tags, t_row, t_step, found, marks, steps, labels,
    masked: tl.constexpr, tagged: tl.constexpr,
):  # fmt: skip
    """`look_at_row` of each row, where nothing else is to be done with it."""
    row = tl.program_id(0).to(tl.int64)
    look_at_row(
        mask + row * m_row, m_step, lengths + row, tags + row * t_row, t_step, found + row,
        marks + row, steps, labels, masked, tagged,
    )  # fmt: skip
