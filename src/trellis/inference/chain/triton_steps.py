"""Which steps of a padded batch count, and whether its tags and lengths are possible."""

# mypy: allow-untyped-decorators, allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

import triton
import triton.language as tl

__all__ = ["steps_kernel"]

_VARYING = ["m_row", "m_step", "t_row", "t_step", "steps", "labels"]


@triton.jit
def _counts(mask, m_step, t, steps, length, masked: tl.constexpr):
    """1 for steps that count, else 0."""
    on = (t < steps) & ((t < length) | masked)
    if masked:
        on = tl.load(mask + t.to(tl.int64) * m_step, on, 0) != 0
    return on.to(tl.int32)


@triton.jit(do_not_specialize=_VARYING)
def steps_kernel(
    mask, m_row, m_step, lengths, order, tags, t_row, t_step, status, steps, labels,
    masked: tl.constexpr, tagged: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Of a row: its length, where its steps come from, those that count first, what is wrong."""
    row = tl.program_id(0).to(tl.int64)
    mask += row * m_row
    tags += row * t_row
    order += row * steps
    at = tl.arange(0, block)
    length = tl.full([], 0, tl.int64)
    if masked:
        for base in range(0, steps, block):
            length += tl.sum(_counts(mask, m_step, base + at, steps, 0, masked), 0)
        tl.store(lengths + row, length)
    else:
        length = tl.load(lengths + row)
    seen = tl.full([], 0, tl.int32)
    gaps = tl.full([], 0, tl.int32)
    wrong = tl.full([], 0, tl.int32)
    for base in range(0, steps, block):
        t = base + at
        on = _counts(mask, m_step, t, steps, length, masked)
        before = seen + tl.cumsum(on, 0) - on
        if masked:
            place = tl.where(on > 0, before, length + t - before)
            tl.store(order + place, t, t < steps)
            gaps += tl.sum((on > 0) & (before != t), 0).to(tl.int32)
        if tagged:
            tag = tl.load(tags + t.to(tl.int64) * t_step, on > 0, 0)
            wrong += tl.sum((tag < 0) | (tag >= labels), 0).to(tl.int32)
        seen += tl.sum(on, 0)
    found = tl.where(gaps > 0, 1, 0) + tl.where(wrong > 0, 4, 0)
    found += tl.where((length < 1) | (length > steps), 2, 0)
    tl.store(status + row, found)
