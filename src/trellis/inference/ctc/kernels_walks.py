"""The two recursions of CTC, one from the left and one from the right, which meet in the middle.

The sum over some paths is m · 2^k, a float m ≥ 1 and an integer k. A step is then a few products
and sums: nothing underflows, no logarithm is taken, and each step makes one rounding error. If k is
below NEVER, the sum contains no allowed path.

A state of the recursion in README.md is a pair of `Paths`: after a blank, and after a label. Blank
i stands before label i, so a lane needs only the labels of the previous lane. The walk from the
right is the same walk over reversed time and labels.

With ENTROPY, h is the entropy of the paths in bits. If paths of weights wᵢ and entropies hᵢ meet,
W = Σ wᵢ and h = Σ wᵢ/W (hᵢ - log2 wᵢ) + log2 W.
"""

# ruff: noqa: N803

from typing import Any, NamedTuple

import triton
import triton.language as tl

from trellis.inference.ctc.kernels_frames import LN2, VARYING, length

__all__ = ["walk_in", "walk_out"]

IMPOSSIBLE = tl.constexpr(-(2**28))  # a forbidden frame adds this to the k of a path
LOWEST = tl.constexpr(-(2**29))  # no k is below this, so the sum of two k fits into 32 bits
NEVER = tl.constexpr(-(2**27))  # a sum of paths with a k below this contains no allowed path


class Paths(NamedTuple):
    """Sums over paths, one in each lane."""

    m: Any  # (P,)
    k: Any  # (P,)
    h: Any  # (P,)


class Walk(NamedTuple):
    """The walk of one program over row b: program 2b walks from the left, 2b + 1 from the right.

    The t-th frame is ``first + way · t``. The two programs meet after `half` frames. Lane i works
    on blank number ``blank[i]`` and label number ``label[i]`` of the target. Lanes after the end of
    the target are not used.
    """

    b: Any  # the row of the batch
    back: Any  # 0 from the left, 1 from the right
    n: Any  # the number of frames of the row
    s: Any  # the number of labels of the row
    width: Any  # S + 1
    lane: Any  # (P,)
    blank: Any  # (P,)
    label: Any  # (P,)
    skip: Any  # (P,): the label differs from the previous one
    first: Any
    way: Any  # 1 or -1
    half: Any
    row: Any  # the row of frame 0 in the stored states
    last: Any  # the row with the last state of the left walk; that of the right walk is next


@triton.jit
def _walk(targets, input_lengths, target_lengths, T, S, P: tl.constexpr, KEEP: tl.constexpr):
    b = (tl.program_id(0) // 2).to(tl.int64)
    back = tl.program_id(0) % 2
    n = length(input_lengths, b, T)
    s = length(target_lengths, b, S)
    i = tl.arange(0, P)
    blank = tl.where((back == 1) & (i <= s), s - i, i)
    label = tl.where((back == 1) & (i < s), s - 1 - i, i)
    inner = (i > 0) & (i < s)
    here = tl.load(targets + b * S + label, mask=inner, other=0)
    previous_label = tl.load(targets + b * S + label + 2 * back - 1, mask=inner, other=0)
    skip = inner & (here != previous_label)
    first = (back * (n - 1)).to(tl.int64)
    row = b * (T + 2) if KEEP else b * 2
    last = row + (T if KEEP else 0)
    half = (n + 1 - back) // 2
    return Walk(b, back, n, s, S + 1, i, blank, label, skip, first, 1 - 2 * back, half, row, last)


@triton.jit
def _validate(
    targets, input_lengths, target_lengths, status, links, b, T, S, V, blank,
    P: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Store the status and the links of row b.

    ``links[b, 0, i]`` is i if position i is the first one of its label, otherwise -1.
    ``links[b, 1, i]`` is the next position of the same label, or -1. ``links[b, 0, S]`` is the
    length of the longest chain. The occupations of equal labels are summed along these chains, in a
    fixed order.
    """
    frames = tl.load(input_lengths + b)
    count = tl.load(target_lengths + b)
    invalid = ((frames < 0) | (frames > T) | (count < 0) | (count > S)).to(tl.int32)
    s = length(target_lengths, b, S)
    targets += b * S
    links += b * 2 * (S + 1)
    i = tl.arange(0, P)[:, None]
    label = tl.load(targets + i, mask=i < s, other=-1)
    is_invalid = (i < s) & ((label < 0) | (label >= V) | (label == blank))
    invalid = tl.maximum(invalid, tl.max(tl.max(is_invalid.to(tl.int32), 1), 0))
    # Write through the caches: the status may be in host memory, where the host polls it.
    tl.store(status + b, invalid, cache_modifier=".wt")
    following = tl.full([P], S, tl.int32)
    earlier = tl.zeros([P], tl.int32)
    occurrences = tl.zeros([P], tl.int32)
    for start in range(0, s, BLOCK):
        j = start + tl.arange(0, BLOCK)[None, :]
        same = (label == tl.load(targets + j, mask=j < s, other=-2)) & (j < s)
        following = tl.minimum(following, tl.min(tl.where(same & (j > i), j, S), 1))
        earlier += tl.sum((same & (j < i)).to(tl.int32), 1)
        occurrences += tl.sum(same.to(tl.int32), 1)
    i = tl.arange(0, P)
    tl.store(links + i, tl.where((earlier == 0) & (i < s), i, -1), mask=i < S)
    tl.store(links + S + 1 + i, tl.where(following < S, following, -1), mask=i < S)
    tl.store(links + S, tl.max(occurrences, 0))


@triton.jit
def _times(m, d):
    """m · 2^d for d < 128; 0 where d is below the range of normal numbers."""
    if m.dtype == tl.float64:
        power = ((tl.maximum(d, -1023) + 1023).to(tl.int64) << 52).to(tl.float64, bitcast=True)
    else:
        power = ((tl.maximum(d, -127) + 127) << 23).to(tl.float32, bitcast=True)
    return m * power


@triton.jit
def _normalize(x):
    """Return the same sums with m in [1, 2). NaN stays NaN."""
    if x.m.dtype == tl.float64:
        bits = x.m.to(tl.int64, bitcast=True)
        mantissa = ((bits & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000).to(tl.float64, bitcast=True)
        exponent = ((bits >> 52) - 1023).to(tl.int32)
    else:
        bits = x.m.to(tl.int32, bitcast=True)
        mantissa = ((bits & 0x7FFFFF) | 0x3F800000).to(tl.float32, bitcast=True)
        exponent = (bits >> 23) - 127
    return Paths(tl.where(x.m == x.m, mantissa, x.m), x.k + exponent, x.h)


@triton.jit
def _shift(x, i, ENTROPY: tl.constexpr):
    """Return the sums of the previous lane. In float32, lanes exchange m and k as one word."""
    lane = tl.maximum(i - 1, 0)
    if x.m.dtype == tl.float64:
        m = tl.gather(x.m, lane, 0)
        k = tl.gather(x.k, lane, 0)
    else:
        word = (x.k.to(tl.int64) << 32) | x.m.to(tl.uint32, bitcast=True).to(tl.int64)
        word = tl.gather(word, lane, 0)
        m = word.to(tl.int32).to(tl.float32, bitcast=True)
        k = (word >> 32).to(tl.int32)
    h = tl.gather(x.h, lane, 0) if ENTROPY else x.h
    return Paths(m, tl.where(i == 0, IMPOSSIBLE, k), h)


@triton.jit
def _entropy_term(w, h):
    """w (h - log2 w), 0 for w = 0."""
    return w * (h - tl.log2(tl.maximum(w, 1e-37)))


@triton.jit
def _add(terms, ENTROPY: tl.constexpr):
    """Return the sum of a tuple of `Paths`."""
    k = terms[0].k
    for i in tl.static_range(1, len(terms)):
        k = tl.maximum(k, terms[i].k)
    m = _times(terms[0].m, terms[0].k - k)
    h = _entropy_term(m, terms[0].h) if ENTROPY else m
    for i in tl.static_range(1, len(terms)):
        w = _times(terms[i].m, terms[i].k - k)
        m += w
        if ENTROPY:
            h += _entropy_term(w, terms[i].h)
    return Paths(m, k, h / m + tl.log2(m) if ENTROPY else m)


@triton.jit
def _arrive(walk, state, ENTROPY: tl.constexpr):
    """Return the sums over predecessors: the next state before the probabilities of its frame."""
    blanks, labels = state
    before = _shift(labels, walk.lane, ENTROPY)
    skipping = Paths(before.m, tl.where(walk.skip, before.k, IMPOSSIBLE), before.h)
    return _add((blanks, before), ENTROPY), _add((labels, blanks, skipping), ENTROPY)


@triton.jit
def _times_score(x, y):
    """x · 2^y."""
    integer = tl.floor(y)
    return Paths(x.m * tl.exp2(y - integer), tl.maximum(x.k + integer.to(tl.int32), LOWEST), x.h)


@triton.jit
def _emit(state, score):
    """Return the state after a frame with these scores of the blank and of the labels."""
    return _times_score(state[0], score[0]), _times_score(state[1], score[1])


@triton.jit
def _choose(go, new, old):
    """Return the new paths if `go` is true, otherwise the old ones."""
    return Paths(tl.where(go, new.m, old.m), tl.where(go, new.k, old.k), tl.where(go, new.h, old.h))


@triton.jit
def _load_score(walk, pointer, wanted):
    """Load log2 p of the blank and of each lane's label at a frame, if `wanted` is true."""
    c = tl.load(pointer + walk.width - 1, mask=wanted, other=0.0)
    inside = walk.label < tl.where(wanted, walk.s, 0)
    return c, tl.load(pointer + walk.label, mask=inside, other=IMPOSSIBLE)


@triton.jit
def _load_scores(walk, scores, t, end):
    """Load the scores of the frames t to t + 3 of a walk that has `end` frames."""
    pointer = scores + (walk.first + walk.way * t) * walk.width
    by = walk.width * walk.way
    return (
        _load_score(walk, pointer, t < end),
        _load_score(walk, pointer + by, t + 1 < end),
        _load_score(walk, pointer + by * 2, t + 2 < end),
        _load_score(walk, pointer + by * 3, t + 3 < end),
    )


@triton.jit
def _keep(walk, kept, row, blanks, labels, wanted):
    """Store a number for each blank and label in a row of `kept`, only if `wanted` is true."""
    pointer = kept + row * (2 * walk.width)
    last = tl.where(wanted, walk.width - 1, -1)
    tl.store(pointer + walk.blank, blanks, mask=walk.blank <= last)
    tl.store(pointer + walk.width + walk.label, labels, mask=walk.label <= last)


@triton.jit
def _keep_state(walk, kept, row, state, wanted, ENTROPY: tl.constexpr):
    """Store a state in a row of kept = (states, powers, entropies), only if `wanted` is true."""
    _keep(walk, kept[0], row, state[0].m, state[1].m, wanted)
    _keep(walk, kept[1], row, state[0].k, state[1].k, wanted)
    if ENTROPY:
        _keep(walk, kept[2], row, state[0].h, state[1].h, wanted)


@triton.jit
def _load_kept(walk, kept, row, wanted, other):
    """Load what `_keep` has stored, or return `other` if `wanted` is false."""
    pointer = kept + row * (2 * walk.width)
    last = tl.where(wanted, walk.width - 1, -1)
    blanks = tl.load(pointer + walk.blank, mask=walk.blank <= last, other=other)
    return blanks, tl.load(pointer + walk.width + walk.label, mask=walk.label <= last, other=other)


@triton.jit
def _load_state(walk, kept, row, wanted, ENTROPY: tl.constexpr):
    """Load the state in a row of `kept`; return an impossible state if `wanted` is false."""
    m = _load_kept(walk, kept[0], row, wanted, 1.0)
    k = _load_kept(walk, kept[1], row, wanted, IMPOSSIBLE)
    h = _load_kept(walk, kept[2], row, wanted, 0.0) if ENTROPY else m
    return Paths(m[0], k[0], h[0]), Paths(m[1], k[1], h[1])


@triton.jit(do_not_specialize=VARYING)
def walk_in(
    scores, targets, input_lengths, target_lengths, status, links, states, powers, entropies,
    T, S, blank, V: tl.constexpr,
    P: tl.constexpr, BLOCK: tl.constexpr, KEEP: tl.constexpr, ENTROPY: tl.constexpr,
):  # fmt: skip
    """Run both walks up to the middle, one program for each. Scores are read four frames ahead.

    The programs from the left first validate the rows, which saves a launch.
    """
    walk = _walk(targets, input_lengths, target_lengths, T, S, P, KEEP)
    if walk.back == 0:
        _validate(
            targets, input_lengths, target_lengths, status, links, walk.b, T, S, V, blank, P, BLOCK
        )  # fmt: skip
    scores += walk.b * T * (S + 1)
    kept = (states, powers, entropies)
    m = tl.full([P], 1.0, scores.dtype.element_ty)
    k = tl.full([P], IMPOSSIBLE, tl.int32)
    h = tl.zeros_like(m)
    state = (Paths(m, tl.where(walk.lane == 0, 0, k), h), Paths(m, k, h))
    ahead = _load_scores(walk, scores, 0, walk.half)
    for t in range(0, walk.half, 4):
        now = ahead
        ahead = _load_scores(walk, scores, t + 4, walk.half)
        row = walk.row + walk.first + walk.way * t
        for u in tl.static_range(4):
            go = t + u < walk.half
            new = _emit(_arrive(walk, state, ENTROPY), now[u])
            state = (_choose(go, new[0], state[0]), _choose(go, new[1], state[1]))
            if KEEP:
                _keep_state(walk, kept, row + walk.way * u, state, go, ENTROPY)
        state = (_normalize(state[0]), _normalize(state[1]))
    _keep_state(walk, kept, walk.last + walk.back, state, True, ENTROPY)


@triton.jit
def _occupation(arrived, other, zk, inverse, ENTROPY: tl.constexpr):
    """Compute occupation probabilities of blanks or labels; with ENTROPY, also entropy terms."""
    p = _times(arrived.m * other.m * inverse, arrived.k + other.k - zk)
    return p, _entropy_term(p, arrived.h + other.h) if ENTROPY else p


@triton.jit(do_not_specialize=VARYING)
def walk_out(
    scores, targets, input_lengths, target_lengths, states, powers, entropies, loss, entropy_weight,
    T, S, P: tl.constexpr, KEEP: tl.constexpr, ENTROPY: tl.constexpr,
):  # fmt: skip
    """Compute the loss where the walks meet. Then replace states by occupation probabilities.

    Each walk continues over the frames of the other walk, whose states are stored: a state of each
    walk gives the occupation. entropy_weight (1,) float64 is λ in loss - λ · entropy.
    """
    walk = _walk(targets, input_lengths, target_lengths, T, S, P, KEEP)
    scores += walk.b * T * (S + 1)
    kept = (states, powers, entropies)
    state = _load_state(walk, kept, walk.last + walk.back, True, ENTROPY)
    other = _load_state(walk, kept, walk.last + 1 - walk.back, True, ENTROPY)
    arrived = _arrive(walk, state, ENTROPY)
    zk = tl.max(tl.maximum(arrived[0].k + other[0].k, arrived[1].k + other[1].k), 0)
    blanks, _ = _occupation(arrived[0], other[0], zk, 1.0, False)
    labels, _ = _occupation(arrived[1], other[1], zk, 1.0, False)
    z = tl.sum(blanks + labels, 0)
    log_z = zk.to(tl.float64) + tl.log2(z).to(tl.float64)
    if ENTROPY:
        _, blank_terms = _occupation(arrived[0], other[0], zk, 1.0 / z, True)
        _, label_terms = _occupation(arrived[1], other[1], zk, 1.0 / z, True)
        weight = tl.load(entropy_weight)
        h = tl.sum(blank_terms + label_terms, 0)
        log_z += weight * h
        weight = (weight * LN2).to(z.dtype)
    value = tl.where(zk < NEVER, float("inf"), -log_z * LN2)
    tl.store(loss + walk.b, value.to(loss.dtype.element_ty), mask=walk.back == 1)
    if KEEP:
        end = tl.where(zk < NEVER, 0, walk.n)
        ahead = _load_scores(walk, scores, walk.half, end)
        for t in range(walk.half, end, 4):
            now = ahead
            ahead = _load_scores(walk, scores, t + 4, end)
            # These loads are used after the four steps, which hides the latency of the memory.
            row = walk.row + walk.first + walk.way * t
            o0 = _load_state(walk, kept, row, True, ENTROPY)
            o1 = _load_state(walk, kept, row + walk.way, t + 1 < end, ENTROPY)
            o2 = _load_state(walk, kept, row + walk.way * 2, t + 2 < end, ENTROPY)
            o3 = _load_state(walk, kept, row + walk.way * 3, t + 3 < end, ENTROPY)
            a0 = _arrive(walk, state, ENTROPY)
            a1 = _arrive(walk, _emit(a0, now[0]), ENTROPY)
            a2 = _arrive(walk, _emit(a1, now[1]), ENTROPY)
            a3 = _arrive(walk, _emit(a2, now[2]), ENTROPY)
            state = _emit(a3, now[3])
            state = (_normalize(state[0]), _normalize(state[1]))
            for u in tl.static_range(4):
                a, o = (a0, a1, a2, a3)[u], (o0, o1, o2, o3)[u]
                blanks, blank_terms = _occupation(a[0], o[0], zk, 1.0 / z, ENTROPY)
                labels, label_terms = _occupation(a[1], o[1], zk, 1.0 / z, ENTROPY)
                if ENTROPY:
                    blanks += weight * (blank_terms - blanks * h)
                    labels += weight * (label_terms - labels * h)
                _keep(walk, states, row + walk.way * u, blanks, labels, t + u < end)
