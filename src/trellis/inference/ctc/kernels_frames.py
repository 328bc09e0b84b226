"""Kernels that are parallel over frames or rows: the scores of the walks, the gradient, checks."""

# ruff: noqa: N803
# mypy: allow-untyped-decorators, allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

import triton
import triton.language as tl

__all__ = [
    "LN2",
    "VARYING",
    "length",
    "look_at_targets",
    "score_frames",
    "write_gradient",
]

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)
LEAST = tl.constexpr(-(2.0**28))  # a log2 score below this is that of a forbidden label

# new values of these must not compile a kernel again
VARYING = [
    *("T", "B", "S", "blank"),
    *("stride_t", "stride_b", "gradient_t", "gradient_b", "weight_b"),
]


@triton.jit
def length(lengths, b, most):
    """A length of row b; wrong ones are cut, so that nothing outside of a tensor is touched."""
    return tl.minimum(tl.maximum(tl.load(lengths + b), 0), most).to(tl.int32)


@triton.jit
def _frames(input_lengths, T, B, ROWS: tl.constexpr):
    """Batch row of this program, its frames as a column, and which of them are in its length."""
    b = (tl.program_id(0) % B).to(tl.int64)
    t = tl.program_id(0) // B * ROWS + tl.arange(0, ROWS)[:, None]
    return b, t, t < length(input_lengths, b, T)


@triton.jit
def _start(x, t, b, stride_t, stride_b, ALIGN: tl.constexpr):
    """Where frames begin: so written that the compiler sees that ALIGN divides the strides."""
    return x + (t.to(tl.int64) * (stride_t // ALIGN) + b * (stride_b // ALIGN)) * ALIGN


@triton.jit
def _log_norm(row, live, like: tl.constexpr, V: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    """log Σᵥ exp(row[v]) of R frames in float64; each lane keeps a maximum and a sum of its own."""
    v = tl.arange(0, C)[None, :]
    top = tl.full([R, C], float("-inf"), like)
    total = tl.zeros([R, C], like)
    for start in range(0, V, C):
        x = tl.load(row + start + v, mask=live & (start + v < V), other=float("-inf")).to(like)
        higher = tl.maximum(top, x)
        shift = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp2((top - shift) * LOG2E) + tl.exp2((x - shift) * LOG2E)
        top = higher
    highest = tl.max(top, 1)[:, None]
    total = tl.sum(total * tl.exp2((top - highest) * LOG2E), 1)[:, None]
    return highest.to(tl.float64) + tl.log2(total).to(tl.float64) * LN2


@triton.jit
def _look(
    targets, input_lengths, target_lengths, wrong, links, b, T, S, V, blank,
    P: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """`look_at_targets` of row b."""
    frames = tl.load(input_lengths + b)
    labels = tl.load(target_lengths + b)
    bad = ((frames < 0) | (frames > T) | (labels < 0) | (labels > S)).to(tl.int32)
    s = length(target_lengths, b, S)
    targets += b * S
    links += b * 2 * (S + 1)
    i = tl.arange(0, P)[:, None]
    own = tl.load(targets + i, mask=i < s, other=-1)
    amiss = (i < s) & ((own < 0) | (own >= V) | (own == blank))
    bad = tl.maximum(bad, tl.max(tl.max(amiss.to(tl.int32), 1), 0))
    tl.store(wrong + b, bad, cache_modifier=".wt")  # it may be memory of the host
    following = tl.full([P], S, tl.int32)
    earlier = tl.zeros([P], tl.int32)
    count = tl.zeros([P], tl.int32)
    for start in range(0, s, BLOCK):
        j = start + tl.arange(0, BLOCK)[None, :]
        same = (own == tl.load(targets + j, mask=j < s, other=-2)) & (j < s)
        following = tl.minimum(following, tl.min(tl.where(same & (j > i), j, S), 1))
        earlier += tl.sum((same & (j < i)).to(tl.int32), 1)
        count += tl.sum(same.to(tl.int32), 1)
    i = tl.arange(0, P)
    tl.store(links + i, tl.where((earlier == 0) & (i < s), i, -1), mask=i < S)
    tl.store(links + S + 1 + i, tl.where(following < S, following, -1), mask=i < S)
    tl.store(links + S, tl.max(count, 0))


@triton.jit(do_not_specialize=VARYING)
def score_frames(
    x,  # (T, B, V)
    targets,  # (B, S)
    input_lengths,
    target_lengths,
    wrong,
    links,
    log_norm,  # (T, B) float64
    scores,  # (B, T, S + 1): log2 p of each label of the target, then of the blank
    states,  # (B, T + 2, 2, S + 1), of which the frames behind the length become 0
    stride_t,
    stride_b,
    T,
    B,
    S,
    blank,
    V: tl.constexpr,
    LOGITS: tl.constexpr,
    KEEP: tl.constexpr,
    ALIGN: tl.constexpr,
    P: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    LABELS: tl.constexpr,
):
    """log_norm, and from the same read of the frames the scores that the walks need.

    With lanes to do so, P, also `look_at_targets`.
    """
    b, t, live = _frames(input_lengths, T, B, ROWS)
    if P:  # noqa: SIM102 (known when it is compiled, unlike the other)
        if tl.program_id(0) < B:
            _look(targets, input_lengths, target_lengths, wrong, links, b, T, S, V, blank, P, BLOCK)
    s = length(target_lengths, b, S)
    like: tl.constexpr = scores.dtype.element_ty
    row = _start(x, t, b, stride_t, stride_b, ALIGN)
    high = tl.zeros([ROWS, 1], like)
    low = high
    if LOGITS:
        norm = tl.where(live, _log_norm(row, live, like, V, ROWS, COLUMNS), 0.0)
        tl.store(log_norm + t.to(tl.int64) * B + b, norm, mask=t < T)
        high = norm.to(like)
        low = (norm - high).to(like)
    out = scores + (b * T + t) * (S + 1)
    lane = tl.arange(0, LABELS)[None, :]
    for start in range(0, S + 1, LABELS):
        i = start + lane
        label = tl.load(targets + b * S + i, mask=i < s, other=0)
        label = tl.minimum(tl.maximum(tl.where(i == S, blank, label), 0), V - 1)
        used = live & ((i < s) | (i == S))
        y = (tl.load(row + label, mask=used, other=0.0).to(like) - high - low) * LOG2E
        # not a maximum: that would hide a NaN
        tl.store(out + i, tl.where(y < LEAST, LEAST, y), mask=used)
    if KEEP:
        width = 2 * (S + 1)
        behind = states + (b * (T + 2) + t) * width
        for start in range(0, width, LABELS):
            empty = (t < T) & (live == 0) & (start + lane < width)
            tl.store(behind + start + lane, tl.zeros([ROWS, LABELS], like), mask=empty)


@triton.jit(do_not_specialize=[*VARYING, "V"])
def look_at_targets(
    targets,  # (B, S)
    input_lengths,
    target_lengths,
    wrong,  # (B): 1 where a length or a label of a row is impossible, else 0
    links,  # (B, 2, S + 1)
    T,
    S,
    V,
    blank,
    P: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Mistakes, and chains of equal labels, so that their occupations are summed in one order.

    ``links[b, 0, i]`` is i where label i comes first, else -1; ``links[b, 1, i]`` the next place of
    the same label, or -1. ``links[b, 0, S]`` is the length of the longest chain.
    """
    b = tl.program_id(0).to(tl.int64)
    _look(targets, input_lengths, target_lengths, wrong, links, b, T, S, V, blank, P, BLOCK)


@triton.jit
def _softmax(row, column, mask, high, low, LOGITS: tl.constexpr):
    """exp(x - log_norm) of chosen columns; 0 where the input is log-probabilities."""
    x = tl.load(row + column, mask=mask & LOGITS, other=0.0).to(high.dtype)
    return tl.exp2((x - high - low) * LOG2E) if LOGITS else x


@triton.jit
def _share(target_lengths, b, mask, B, S):
    """What row b is of the mean over rows of the losses a label."""
    labels = tl.load(target_lengths + b, mask=mask, other=1)
    return 1.0 / (tl.maximum(tl.minimum(labels, S), 1) * B).to(tl.float64)


@triton.jit
def _sum_losses(loss, target_lengths, total, B, S, MEAN: tl.constexpr):
    """Σ_b loss_b, or their mean a label, always in one order."""
    row = tl.arange(0, 256)
    part = tl.zeros([256], tl.float64)
    for start in range(0, B, 256):
        b = start + row
        x = tl.load(loss + b, mask=b < B, other=0.0).to(tl.float64)
        part += x * _share(target_lengths, b, b < B, B, S) if MEAN else x
    tl.store(total, tl.sum(part, 0).to(total.dtype.element_ty))


@triton.jit(do_not_specialize=VARYING)
def write_gradient(
    x,  # (T, B, V)
    targets,
    input_lengths,
    target_lengths,
    links,
    log_norm,
    occupied,  # (B, T + 2, 2, S + 1)
    loss,
    weight,  # (B)
    weight_b,
    gradient,  # (T, B, V)
    total,  # (): what is differentiated, if it is of all rows
    stride_t,
    stride_b,
    gradient_t,
    gradient_b,
    T,
    B,
    S,
    blank,
    V: tl.constexpr,
    LOGITS: tl.constexpr,
    WEIGHTED: tl.constexpr,
    SUMMED: tl.constexpr,
    MEAN: tl.constexpr,
    ALIGN: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    LABELS: tl.constexpr,
):
    """weight · (softmax - occupation): first the softmax, then the columns with an occupation.

    The weights of a MEAN are the shares of the rows in it. SUMMED writes the loss of all rows too.
    """
    b, t, live = _frames(input_lengths, T, B, ROWS)
    s = length(target_lengths, b, S)
    live = live & (t < tl.where(tl.load(loss + b) == float("inf"), 0, T))
    like: tl.constexpr = occupied.dtype.element_ty
    w = tl.full([], 1.0, like)
    if WEIGHTED:
        w = tl.load(weight + b * weight_b).to(like)
    if MEAN:
        w = _share(target_lengths, b, True, B, S).to(like)
    if SUMMED:  # noqa: SIM102
        if tl.program_id(0) == 0:
            _sum_losses(loss, target_lengths, total, B, S, MEAN)
    row = _start(x, t, b, stride_t, stride_b, ALIGN)
    out = _start(gradient, t, b, gradient_t, gradient_b, ALIGN)
    high = tl.zeros([ROWS, 1], like)
    low = high
    if LOGITS:
        norm = tl.load(log_norm + t.to(tl.int64) * B + b, mask=live, other=0.0)
        high = norm.to(like)
        low = (norm - high).to(like)
    for start in range(0, V, COLUMNS):
        v = start + tl.arange(0, COLUMNS)[None, :]
        g = w * _softmax(row, v, live & (v < V), high, low, LOGITS)
        tl.store(out + v, tl.where(live, g, 0.0), mask=(t < T) & (v < V))
    tl.debug_barrier()  # the same elements again, by other threads
    blanks = occupied + (b * (T + 2) + t) * (2 * (S + 1))
    lane = tl.arange(0, LABELS)[None, :]
    share = tl.zeros([ROWS, 1], like)
    for start in range(0, S + 1, LABELS):
        i = start + lane
        share += tl.sum(tl.load(blanks + i, mask=live & (i <= s), other=0.0), 1)[:, None]
    tl.store(out + blank, w * (_softmax(row, blank, live, high, low, LOGITS) - share), mask=live)
    links += b * 2 * (S + 1)
    longest = tl.load(links + S)
    for start in range(0, s, LABELS):
        i = start + lane
        place = tl.load(links + i, mask=i < s, other=-1)
        there = live & (place >= 0)
        label = tl.load(targets + b * S + i, mask=i < s, other=0)
        label = tl.minimum(tl.maximum(label, 0), V - 1)
        shares = tl.zeros([ROWS, LABELS], like)
        for _ in range(longest):
            shares += tl.load(blanks + S + 1 + place, mask=live & (place >= 0), other=0.0)
            place = tl.load(links + S + 1 + place, mask=place >= 0, other=-1)
        tl.store(
            out + label, w * (_softmax(row, label, there, high, low, LOGITS) - shares), mask=there
        )
