"""What the kernels of the chain have in common."""

# mypy: allow-untyped-decorators, allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

import triton
import triton.language as tl

NEVER = tl.constexpr(float("-inf"))


@triton.jit
def finite(x):
    """x, or 0 where it is -inf: what to subtract when -inf minus -inf must stay -inf."""
    return tl.where(x == NEVER, 0.0, x)


@triton.jit
def positive(x):
    """x, or 1 where it is 0: what to divide 0 by."""
    return tl.where(x > 0.0, x, 1.0)


@triton.jit
def row_length(lengths, row, steps):
    """A wrong length is cut, so that nothing outside of a tensor is touched."""
    return tl.minimum(tl.maximum(tl.load(lengths + row), 1), steps).to(tl.int32)


@triton.jit
def tags_at(tags, t_step, t, length, labels):
    """The tags at positions t, 0 outside of the row; a wrong one gives wrong numbers, no more."""
    found = tl.load(tags + t * t_step, (t >= 0) & (t < length), 0)
    return tl.minimum(tl.maximum(found, 0), labels - 1)


@triton.jit
def load_if(condition, pointers, j, labels, other):
    """Numbers of labels j, if there is such a row."""
    return tl.load(pointers, j < tl.where(condition, labels, 0), other)


@triton.jit
def load_square(transitions, by_row, by_column, labels, dtype: tl.constexpr, block: tl.constexpr):
    """All transitions, -inf around them."""
    j = tl.arange(0, block)
    cells = transitions + j[:, None] * by_row + j[None, :] * by_column
    return tl.load(cells, (j < labels)[:, None] & (j < labels)[None, :], NEVER).to(dtype)


@triton.jit
def less_tag(post, j, tags, tagged: tl.constexpr):
    """p(yₜ = j), less 1 for the label that the tags have there."""
    if tagged:
        post -= tl.where(j == tl.load(tags), 1.0, 0.0)
    return post


@triton.jit
def fill(pointer, begin, stop, value):
    """What is written behind the end of a row."""
    at = tl.arange(0, 1024)
    for base in range(begin, stop, 1024):
        tl.store(pointer + base + at, value, base + at < stop)


@triton.jit
def flip_share(transitions, a_from, a_to, flipped, rows, labels):
    """Each row writes its share of the transitions, with the later label first."""
    share = (labels * labels + rows - 1) // rows
    begin = tl.program_id(0) * share
    stop = tl.minimum(begin + share, labels * labels)
    at = tl.arange(0, 128)
    for base in range(begin, stop, 128):
        cell = base + at
        before = cell // labels
        after = cell % labels
        found = tl.load(transitions + before * a_from + after * a_to, cell < stop)
        tl.store(flipped + after * labels + before, found, cell < stop)


@triton.jit
def path_score(
    emissions, e_step, e_label, transitions, a_step, a_from, a_to, start, end, tags, t_step, length,
    labels,
):  # fmt: skip
    """start[y₀] + Σₜ u[t, yₜ] + Σₜ A[yₜ₋₁, yₜ] + end[y_T₋₁]; all steps at once, in float64."""
    at = tl.arange(0, 256)
    total = tl.zeros([256], tl.float64)
    for base in range(0, length, 256):
        t = (base + at).to(tl.int64)
        here = tags_at(tags, t_step, t, length, labels)
        before = tags_at(tags, t_step, t - 1, length, labels)
        cell = transitions + (t - 1) * a_step + before * a_from + here * a_to
        total += tl.load(emissions + t * e_step + here * e_label, t < length, 0.0).to(tl.float64)
        total += tl.load(cell, (t > 0) & (t < length), 0.0).to(tl.float64)
        total += tl.load(start + here, t == 0, 0.0).to(tl.float64)
        total += tl.load(end + here, t == length - 1, 0.0).to(tl.float64)
    return tl.sum(total, 0)


@triton.jit
def count_tags(counts, tags, t_step, length, labels):
    """How often each pair of tags occurs: whole numbers, so the order of adding does not matter."""
    at = tl.arange(0, 256)
    for base in range(1, length, 256):
        t = (base + at).to(tl.int64)
        before = tags_at(tags, t_step, t - 1, length, labels)
        cell = counts + tags_at(tags, t_step, t, length, labels) * labels + before
        tl.atomic_add(cell, 1.0, t < length, sem="relaxed")
