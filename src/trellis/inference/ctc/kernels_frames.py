"""Kernels of CTC that are parallel over frames: scores and gradient.

Arguments of all kernels of CTC:

    x                (T, B, V) input, strides stride_t, stride_b, 1
    gradient         (T, B, V), strides gradient_t, gradient_b, 1
    targets          (B, S) int64;  input_lengths, target_lengths (B,) int64
    status           (B,) int32: 1 where a length or a label of a row is invalid, else 0
    links            (B, 2, S + 1) int32: chains of equal labels, see kernels_walks.py
    log_norm         (T, B) float64: log Σᵥ exp x[t, b, v];  only with LOGITS
    scores           (B, T, S + 1): log2 p of each label of the target, then of the blank
    states           (B, T + 2, 2, S + 1), or (B, 2, 2, S + 1) without KEEP: m of blanks and labels;
                     the last two rows are the states at the ends of the two walks. walk_out
                     replaces the states by occupation probabilities
    powers, entropies  k and h of the same states, see kernels_walks.py
    loss             (B,)
    P, BLOCK         constants: lanes for the labels of a target, and labels compared at once
    ROWS, COLUMNS, LABELS  constants: frames, classes and labels in a tile
    LOGITS, KEEP, ENTROPY  constants: x are unnormalised scores; the states of all frames are
                     stored, for the gradient; entropies are computed
"""

# ruff: noqa: N803

import triton
import triton.language as tl

__all__ = [
    "LN2",
    "VARYING",
    "length",
    "score_frames",
    "write_gradient",
]

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)
LEAST = tl.constexpr(-(2.0**28))  # a label with a log2 score below this is forbidden

# Triton must not specialise on these integers: each new value would compile a kernel again.
VARYING = [
    *("T", "B", "S", "blank"),
    *("stride_t", "stride_b", "gradient_t", "gradient_b", "weight_b"),
]


@triton.jit
def length(lengths, b, longest):
    """Return the length of row b, clipped so that no access is out of bounds."""
    return tl.minimum(tl.maximum(tl.load(lengths + b), 0), longest).to(tl.int32)


@triton.jit
def _frames(input_lengths, T, B, ROWS: tl.constexpr):
    """Return this program's batch row, its frames (ROWS, 1), and which are inside the length."""
    b = (tl.program_id(0) % B).to(tl.int64)
    t = tl.program_id(0) // B * ROWS + tl.arange(0, ROWS)[:, None]
    return b, t, t < length(input_lengths, b, T)


@triton.jit
def _start(x, t, b, stride_t, stride_b, ALIGN: tl.constexpr):
    """Return pointers to frames. The formula shows the compiler that ALIGN divides the strides.

    Then a thread can load ALIGN elements at once.
    """
    return x + (t.to(tl.int64) * (stride_t // ALIGN) + b * (stride_b // ALIGN)) * ALIGN


@triton.jit
def _log_norm(row, live, like: tl.constexpr, V: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    """log Σᵥ exp(row[v]) of R frames in float64. Each lane has a separate maximum and sum."""
    v = tl.arange(0, C)[None, :]
    top = tl.full([R, C], float("-inf"), like)
    total = tl.zeros([R, C], like)
    for start in range(0, V, C):
        x = tl.load(row + start + v, mask=live & (start + v < V), other=float("-inf")).to(like)
        new_top = tl.maximum(top, x)
        shift = tl.where(new_top == float("-inf"), 0.0, new_top)
        total = total * tl.exp2((top - shift) * LOG2E) + tl.exp2((x - shift) * LOG2E)
        top = new_top
    row_top = tl.max(top, 1)[:, None]
    total = tl.sum(total * tl.exp2((top - row_top) * LOG2E), 1)[:, None]
    return row_top.to(tl.float64) + tl.log2(total).to(tl.float64) * LN2


@triton.jit(do_not_specialize=VARYING)
def score_frames(
    x, targets, input_lengths, target_lengths, log_norm, scores, states,
    stride_t, stride_b, T, B, S, blank,
    V: tl.constexpr, LOGITS: tl.constexpr, KEEP: tl.constexpr, ALIGN: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, LABELS: tl.constexpr,
):  # fmt: skip
    """Compute log_norm and scores, reading the frames once. Set states after the length to 0."""
    b, t, live = _frames(input_lengths, T, B, ROWS)
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
        # tl.where keeps NaN; tl.maximum would replace NaN by LEAST.
        tl.store(out + i, tl.where(y < LEAST, LEAST, y), mask=used)
    if KEEP:
        width = 2 * (S + 1)
        row_states = states + (b * (T + 2) + t) * width
        for start in range(0, width, LABELS):
            empty = (t < T) & (live == 0) & (start + lane < width)
            tl.store(row_states + start + lane, tl.zeros([ROWS, LABELS], like), mask=empty)


@triton.jit
def _softmax(row, column, mask, high, low, LOGITS: tl.constexpr):
    """exp(x - log_norm) of some columns; 0 without LOGITS: the gradient has no softmax then."""
    x = tl.load(row + column, mask=mask & LOGITS, other=0.0).to(high.dtype)
    return tl.exp2((x - high - low) * LOG2E) if LOGITS else x


@triton.jit
def _share(target_lengths, b, mask, B, S):
    """Return the weight of row b in the mean over rows of the loss per label: 1 / (labels · B)."""
    labels = tl.load(target_lengths + b, mask=mask, other=1)
    return 1.0 / (tl.maximum(tl.minimum(labels, S), 1) * B).to(tl.float64)


@triton.jit
def _sum_losses(loss, target_lengths, total, B, S, MEAN: tl.constexpr):
    """total () = Σ_b loss_b, or with MEAN Σ_b loss_b / (labels_b · B), in a fixed order."""
    row = tl.arange(0, 256)
    part = tl.zeros([256], tl.float64)
    for start in range(0, B, 256):
        b = start + row
        x = tl.load(loss + b, mask=b < B, other=0.0).to(tl.float64)
        part += x * _share(target_lengths, b, b < B, B, S) if MEAN else x
    tl.store(total, tl.sum(part, 0).to(total.dtype.element_ty))


@triton.jit(do_not_specialize=VARYING)
def write_gradient(
    x, targets, input_lengths, target_lengths, links, log_norm, states, loss, weight, weight_b,
    gradient, total, stride_t, stride_b, gradient_t, gradient_b, T, B, S, blank,
    V: tl.constexpr, LOGITS: tl.constexpr, WEIGHTED: tl.constexpr, SUMMED: tl.constexpr,
    MEAN: tl.constexpr, ALIGN: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, LABELS: tl.constexpr,
):  # fmt: skip
    """gradient (T, B, V) = weight · (softmax - occupation).

    The softmax is written first; then the labels of the target are overwritten. `states` are those
    after walk_out. The weights are weight (B,) with stride weight_b if WEIGHTED, the weights
    of a mean if MEAN, otherwise 1. With SUMMED, the sum of the losses is stored in total ().
    """
    b, t, live = _frames(input_lengths, T, B, ROWS)
    s = length(target_lengths, b, S)
    live = live & (t < tl.where(tl.load(loss + b) == float("inf"), 0, T))
    like: tl.constexpr = states.dtype.element_ty
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
    tl.debug_barrier()  # below, other threads write to the same elements
    blanks = states + (b * (T + 2) + t) * (2 * (S + 1))
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
        used = live & (place >= 0)
        label = tl.load(targets + b * S + i, mask=i < s, other=0)
        label = tl.minimum(tl.maximum(label, 0), V - 1)
        shares = tl.zeros([ROWS, LABELS], like)
        for _ in range(longest):
            shares += tl.load(blanks + S + 1 + place, mask=live & (place >= 0), other=0.0)
            place = tl.load(links + S + 1 + place, mask=place >= 0, other=-1)
        tl.store(
            out + label, w * (_softmax(row, label, used, high, low, LOGITS) - shares), mask=used
        )
