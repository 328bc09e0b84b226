"""How many steps of each row count, whether its tags and length are possible; weights of rows."""

# mypy: allow-untyped-decorators, allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

import triton
import triton.language as tl

__all__ = ["steps_kernel", "weigh_kernel"]

_VARYING = ["m_row", "m_step", "t_row", "t_step", "w_row", "rows", "steps", "labels", "tiles"]
_kernel = triton.jit(do_not_specialize=_VARYING)


@_kernel
def steps_kernel(
    mask, m_row, m_step, lengths, tags, t_row, t_step, found, rows, steps, labels,
    masked: tl.constexpr, tagged: tl.constexpr,
):  # fmt: skip
    """Of a row: its length goes to ``found[0]``, and what is wrong with it to ``found[1]``."""
    row = tl.program_id(0).to(tl.int64)
    mask += row * m_row
    tags += row * t_row
    at = tl.arange(0, 256)
    end = steps.to(tl.int64)
    if not masked:
        end = tl.load(lengths + row)
    length = tl.full([], 0, tl.int64)
    gaps = tl.full([], 0, tl.int32)
    wrong = tl.full([], 0, tl.int32)
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
    tl.store(found + row, length)
    tl.store(found + rows + row, status)


@triton.jit
def _scale(x, size, weights, w_row, rows, out, first, tile: tl.constexpr):
    """What is of a row, `size` numbers, times its weight."""
    at = first.to(tl.int64) * tile + tl.arange(0, tile)
    there = at < rows * size
    w = tl.load(weights + at // size * w_row, there, 0.0).to(x.dtype.element_ty)
    tl.store(out + at, tl.load(x + at, there, 0.0) * w, there)


@triton.jit
def _total(
    x, stride, lengths, by, weights, w_row, rows, size, out, first, tile: tl.constexpr
):  # fmt: skip
    """Out[c] = Σ_b weight_b x_b[(length_b - 1) · by + c], in one order."""
    column = first * tile + tl.arange(0, tile)[None, :]
    total = tl.zeros([32, tile], x.dtype.element_ty)
    for base in range(0, rows, 32):
        row = (base + tl.arange(0, 32)[:, None]).to(tl.int64)
        w = tl.load(weights + row * w_row, row < rows, 0.0).to(x.dtype.element_ty)
        last = tl.maximum(tl.load(lengths + row, row < rows, 1), 1) - 1
        there = (row < rows) & (column < size)
        total += w * tl.load(x + row * stride + last * by + column, there, 0.0)
    column = first * tile + tl.arange(0, tile)
    tl.store(out + column, tl.sum(total, 0), column < size)


@_kernel
def weigh_kernel(
    unary, pairs, weights, w_row, lengths, d_emissions, d_transitions, sums, rows, steps, labels,
    tiles, shared: tl.constexpr, tile: tl.constexpr, narrow: tl.constexpr,
):  # fmt: skip
    """Gradients of all rows times their weights, summed where rows share what they are of.

    The first `tiles` programs scale emissions, the next sum those of the first and the last step,
    which are the gradients of start and end. The others sum transitions, or scale those of each
    position.
    """
    first = tl.program_id(0)
    size = steps.to(tl.int64) * labels
    ends = (labels + narrow - 1) // narrow
    if first < tiles:
        _scale(unary, size, weights, w_row, rows, d_emissions, first, tile)
    elif first < tiles + ends:
        first -= tiles
        _total(unary, size, lengths, 0, weights, w_row, rows, labels, sums, first, narrow)
    elif first < tiles + 2 * ends:
        first -= tiles + ends
        sums += labels
        _total(unary, size, lengths, labels, weights, w_row, rows, labels, sums, first, narrow)
    else:
        first -= tiles + 2 * ends
        if shared:
            area = labels * labels
            sums += 2 * labels
            _total(pairs, area, lengths, 0, weights, w_row, rows, area, sums, first, narrow)
        else:
            _scale(
                pairs, (size - labels) * labels, weights, w_row, rows, d_transitions, first, tile
            )
