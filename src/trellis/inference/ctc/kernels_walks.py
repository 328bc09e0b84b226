"""The two recursions of CTC, one from the left and one from the right, which meet in the middle.

A probability is a pair m · 2^k of a float m ≥ 1 and an integer k. A step is then a few products
and sums: nothing underflows, no logarithm is taken, and each step makes one rounding error. A state
is impossible if its k is near IMPOSSIBLE or below.

A row of the lattice is two vectors: blanks ``b[0 … s]`` and labels ``l[0 … s-1]``, where blank i
stands before label i. One step in time is

    b'[i] = (b[i] + l[i-1]) · p(blank)        l'[i] = (l[i] + b[i] + skip[i] l[i-1]) · p(label i)

so a lane needs only ``l`` of the previous lane. The walk from the right is the same walk over
reversed time and labels.

With ENTROPY a state also has h, the entropy in bits of the paths that lead to it. If paths of
weights wᵢ and entropies hᵢ meet, W = Σ wᵢ and h = Σ wᵢ/W (hᵢ - log2 wᵢ) + log2 W. A state is the
tuple (m, k, h of the blanks, m, k, h of the labels), each (P,).
"""

# ruff: noqa: N803
# mypy: allow-untyped-decorators, allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

import triton
import triton.language as tl

from trellis.inference.ctc.kernels_frames import LN2, VARYING, length

__all__ = ["walk_in", "walk_out"]

IMPOSSIBLE = tl.constexpr(-(2**28))  # a forbidden frame adds this to the k of a path
LOWEST = tl.constexpr(-(2**29))  # no k is below this, so the sum of two k fits into 32 bits
NEVER = tl.constexpr(-(2**27))  # a sum of paths with a k below this contains no allowed path


@triton.jit
def _times(m, d):
    """m · 2^d for d < 128; 0 where d is below the range of normal numbers."""
    if m.dtype == tl.float64:
        power = ((tl.maximum(d, -1023) + 1023).to(tl.int64) << 52).to(tl.float64, bitcast=True)
    else:
        power = ((tl.maximum(d, -127) + 127) << 23).to(tl.float32, bitcast=True)
    return m * power


@triton.jit
def _normal(m, k):
    """Return m and k of the same number with m in [1, 2). NaN stays NaN."""
    if m.dtype == tl.float64:
        bits = m.to(tl.int64, bitcast=True)
        mantissa = ((bits & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000).to(tl.float64, bitcast=True)
        exponent = ((bits >> 52) - 1023).to(tl.int32)
    else:
        bits = m.to(tl.int32, bitcast=True)
        mantissa = ((bits & 0x7FFFFF) | 0x3F800000).to(tl.float32, bitcast=True)
        exponent = (bits >> 23) - 127
    return tl.where(m == m, mantissa, m), k + exponent


@triton.jit
def _before(m, k, i):
    """Return m and k of the previous lane. In float32 one word holds both: one exchange."""
    lane = tl.maximum(i - 1, 0)
    if m.dtype == tl.float64:
        m = tl.gather(m, lane, 0)
        k = tl.gather(k, lane, 0)
    else:
        word = (k.to(tl.int64) << 32) | m.to(tl.uint32, bitcast=True).to(tl.int64)
        word = tl.gather(word, lane, 0)
        m = word.to(tl.int32).to(tl.float32, bitcast=True)
        k = (word >> 32).to(tl.int32)
    return m, tl.where(i == 0, IMPOSSIBLE, k)


@triton.jit
def _entropy_term(w, h):
    """w (h - log2 w), 0 for w = 0."""
    return w * (h - tl.log2(tl.maximum(w, 1e-37)))


@triton.jit
def _arrive(state, i, skip, ENTROPY: tl.constexpr):
    """Return the sums over predecessors: the next state without its frame's probabilities."""
    mb, kb, hb, ml, kl, hl = state
    mp, kp = _before(ml, kl, i)
    kbb = tl.maximum(kb, kp)
    b_to_b = _times(mb, kb - kbb)
    p_to_b = _times(mp, kp - kbb)
    mbb = b_to_b + p_to_b
    kp = tl.where(skip, kp, IMPOSSIBLE)
    kll = tl.maximum(tl.maximum(kl, kb), kp)
    l_to_l = _times(ml, kl - kll)
    b_to_l = _times(mb, kb - kll)
    p_to_l = _times(mp, kp - kll)
    mll = l_to_l + b_to_l + p_to_l
    if ENTROPY:
        hp = tl.gather(hl, tl.maximum(i - 1, 0), 0)
        hll = _entropy_term(l_to_l, hl) + _entropy_term(b_to_l, hb) + _entropy_term(p_to_l, hp)
        hb = (_entropy_term(b_to_b, hb) + _entropy_term(p_to_b, hp)) / mbb + tl.log2(mbb)
        hl = hll / mll + tl.log2(mll)
    return mbb, kbb, hb, mll, kll, hl


@triton.jit
def _times_score(m, k, y):
    """(m, k) · 2^y."""
    integer = tl.floor(y)
    return m * tl.exp2(y - integer), tl.maximum(k + integer.to(tl.int32), LOWEST)


@triton.jit
def _emit(state, c, y):
    """Return the state after a frame with the scores c of the blank and y of the labels."""
    mb, kb, hb, ml, kl, hl = state
    mb, kb = _times_score(mb, kb, c)
    ml, kl = _times_score(ml, kl, y)
    return mb, kb, hb, ml, kl, hl


@triton.jit
def _choose(go, new, old):
    """Return the new state if `go` is true, otherwise the old state."""
    mb = tl.where(go, new[0], old[0])
    kb = tl.where(go, new[1], old[1])
    hb = tl.where(go, new[2], old[2])
    ml = tl.where(go, new[3], old[3])
    kl = tl.where(go, new[4], old[4])
    hl = tl.where(go, new[5], old[5])
    return mb, kb, hb, ml, kl, hl


@triton.jit
def _route(targets, input_lengths, target_lengths, T, S, P: tl.constexpr):
    """Return the route of program 2b (from the left) or 2b + 1 (from the right).

    The t-th frame is ``first + way · t``. The two programs meet after `half` frames. Lane i works
    on blank number ``blank[i]`` and label number ``label[i]`` of the target. Lanes after the end of
    the target are not used.
    """
    b = (tl.program_id(0) // 2).to(tl.int64)
    back = tl.program_id(0) % 2
    n = length(input_lengths, b, T)
    s = length(target_lengths, b, S)
    i = tl.arange(0, P)
    blank = tl.where((back == 1) & (i <= s), s - i, i)
    label = tl.where((back == 1) & (i < s), s - 1 - i, i)
    inner = (i > 0) & (i < s)
    here = tl.load(targets + b * S + label, mask=inner, other=0)
    before = tl.load(targets + b * S + label + 2 * back - 1, mask=inner, other=0)
    first = (back * (n - 1)).to(tl.int64)
    half = (n + 1 - back) // 2
    return b, back, n, s, i, blank, label, inner & (here != before), first, 1 - 2 * back, half


@triton.jit
def _scores(scores, frame, way, s, label, S, left):
    """Load log2 p of the blank (c) and of each lane's label (y) for four frames, at most `left`."""
    pointer = scores + frame * (S + 1)
    by = (S + 1) * way
    c0 = tl.load(pointer + S, mask=left > 0, other=0.0)
    y0 = tl.load(pointer + label, mask=label < tl.where(left > 0, s, 0), other=IMPOSSIBLE)
    c1 = tl.load(pointer + by + S, mask=left > 1, other=0.0)
    y1 = tl.load(pointer + by + label, mask=label < tl.where(left > 1, s, 0), other=IMPOSSIBLE)
    c2 = tl.load(pointer + by * 2 + S, mask=left > 2, other=0.0)
    y2 = tl.load(pointer + by * 2 + label, mask=label < tl.where(left > 2, s, 0), other=IMPOSSIBLE)
    c3 = tl.load(pointer + by * 3 + S, mask=left > 3, other=0.0)
    y3 = tl.load(pointer + by * 3 + label, mask=label < tl.where(left > 3, s, 0), other=IMPOSSIBLE)
    return c0, y0, c1, y1, c2, y2, c3, y3


@triton.jit
def _keep(kept, row, blank, label, S, xb, xl, wanted):
    """Store xb of the blanks and xl of the labels in a row of `kept`, only if `wanted` is true."""
    pointer = kept + row * (2 * (S + 1))
    last = tl.where(wanted, S, -1)
    tl.store(pointer + blank, xb, mask=blank <= last)
    tl.store(pointer + S + 1 + label, xl, mask=label <= last)


@triton.jit
def _keep_state(kept, row, blank, label, S, state, wanted, ENTROPY: tl.constexpr):
    """Store a state in a row of kept = (states, powers, entropies), only if `wanted` is true."""
    mb, kb, hb, ml, kl, hl = state
    _keep(kept[0], row, blank, label, S, mb, ml, wanted)
    _keep(kept[1], row, blank, label, S, kb, kl, wanted)
    if ENTROPY:
        _keep(kept[2], row, blank, label, S, hb, hl, wanted)


@triton.jit
def _load_state(kept, row, blank, label, S, wanted, ENTROPY: tl.constexpr):
    """Load the state in a row of `kept`; return an impossible state if `wanted` is false."""
    at_b = row * (2 * (S + 1)) + blank
    at_l = row * (2 * (S + 1)) + S + 1 + label
    last = tl.where(wanted, S, -1)
    mb = tl.load(kept[0] + at_b, mask=blank <= last, other=1.0)
    kb = tl.load(kept[1] + at_b, mask=blank <= last, other=IMPOSSIBLE)
    ml = tl.load(kept[0] + at_l, mask=label <= last, other=1.0)
    kl = tl.load(kept[1] + at_l, mask=label <= last, other=IMPOSSIBLE)
    hb = tl.zeros_like(mb)
    hl = hb
    if ENTROPY:
        hb = tl.load(kept[2] + at_b, mask=blank <= last, other=0.0)
        hl = tl.load(kept[2] + at_l, mask=label <= last, other=0.0)
    return mb, kb, hb, ml, kl, hl


@triton.jit(do_not_specialize=VARYING)
def walk_in(
    scores, targets, input_lengths, target_lengths, states, powers, entropies, T, S,
    P: tl.constexpr, KEEP: tl.constexpr, ENTROPY: tl.constexpr,
):  # fmt: skip
    """Run both walks up to the middle, one program for each. Scores are read four frames ahead."""
    b, back, _, s, i, blank, label, skip, first, way, half = _route(
        targets, input_lengths, target_lengths, T, S, P
    )
    scores += b * T * (S + 1)
    row = b * (T + 2) if KEEP else b * 2
    kept = (states, powers, entropies)
    mb = tl.full([P], 1.0, scores.dtype.element_ty)
    kb = tl.where(i == 0, 0, IMPOSSIBLE)
    hb = tl.zeros_like(mb)
    ml = mb
    kl = tl.full([P], IMPOSSIBLE, tl.int32)
    hl = hb
    c0, y0, c1, y1, c2, y2, c3, y3 = _scores(scores, first, way, s, label, S, half)
    for t in range(0, half, 4):
        frame = first + way * t
        ahead = _scores(scores, frame + way * 4, way, s, label, S, half - t - 4)
        state = (mb, kb, hb, ml, kl, hl)
        for u in tl.static_range(4):
            new = _emit(_arrive(state, i, skip, ENTROPY), (c0, c1, c2, c3)[u], (y0, y1, y2, y3)[u])
            state = _choose(t + u < half, new, state)
            if KEEP:
                place = row + frame + way * u
                _keep_state(kept, place, blank, label, S, state, t + u < half, ENTROPY)
        mb, kb = _normal(state[0], state[1])
        ml, kl = _normal(state[3], state[4])
        hb = state[2]
        hl = state[5]
        c0, y0, c1, y1, c2, y2, c3, y3 = ahead
    last = row + (T if KEEP else 0) + back
    _keep_state(kept, last, blank, label, S, (mb, kb, hb, ml, kl, hl), True, ENTROPY)


@triton.jit
def _occupation(arrived, other, zk, inverse, ENTROPY: tl.constexpr):
    """Compute occupation probabilities of blanks and labels; with ENTROPY, also entropy terms."""
    mb, kb, hb, ml, kl, hl = arrived
    ob = _times(mb * other[0] * inverse, kb + other[1] - zk)
    ol = _times(ml * other[3] * inverse, kl + other[4] - zk)
    if ENTROPY:
        hb = _entropy_term(ob, hb + other[2])
        hl = _entropy_term(ol, hl + other[5])
    return ob, hb, ol, hl


@triton.jit(do_not_specialize=VARYING)
def walk_out(
    scores, targets, input_lengths, target_lengths, states, powers, entropies, loss, entropy_weight,
    T, S, P: tl.constexpr, KEEP: tl.constexpr, ENTROPY: tl.constexpr,
):  # fmt: skip
    """Compute the loss where the walks meet. Then replace states by occupation probabilities.

    Each walk continues over the states that the other walk has stored. entropy_weight (1,) float64
    is λ in loss - λ · entropy.
    """
    b, back, n, s, i, blank, label, skip, first, way, half = _route(
        targets, input_lengths, target_lengths, T, S, P
    )
    scores += b * T * (S + 1)
    row = b * (T + 2) if KEEP else b * 2
    kept = (states, powers, entropies)
    last = row + (T if KEEP else 0)
    state = _load_state(kept, last + back, blank, label, S, True, ENTROPY)
    other = _load_state(kept, last + 1 - back, blank, label, S, True, ENTROPY)
    arrived = _arrive(state, i, skip, ENTROPY)
    zk = tl.max(tl.maximum(arrived[1] + other[1], arrived[4] + other[4]), 0)
    ob, _, ol, _ = _occupation(arrived, other, zk, 1.0, False)
    z = tl.sum(ob + ol, 0)
    _, hb, _, hl = _occupation(arrived, other, zk, 1.0 / z, ENTROPY)
    log_z = zk.to(tl.float64) + tl.log2(z).to(tl.float64)
    if ENTROPY:
        weight = tl.load(entropy_weight)
        h = tl.sum(hb + hl, 0)
        log_z += weight * h
        weight = (weight * LN2).to(z.dtype)
    value = tl.where(zk < NEVER, float("inf"), -log_z * LN2)
    tl.store(loss + b, value.to(loss.dtype.element_ty), mask=back == 1)
    if KEEP:
        mb, kb, hb, ml, kl, hl = state
        end = tl.where(zk < NEVER, 0, n)
        c0, y0, c1, y1, c2, y2, c3, y3 = _scores(
            scores, first + way * half, way, s, label, S, end - half
        )
        for t in range(half, end, 4):
            frame = first + way * t
            ahead = _scores(scores, frame + way * 4, way, s, label, S, end - t - 4)
            # These loads are used after the four steps, which hides the latency of the memory.
            place = row + frame
            o0 = _load_state(kept, place, blank, label, S, True, ENTROPY)
            o1 = _load_state(kept, place + way, blank, label, S, t + 1 < end, ENTROPY)
            o2 = _load_state(kept, place + way * 2, blank, label, S, t + 2 < end, ENTROPY)
            o3 = _load_state(kept, place + way * 3, blank, label, S, t + 3 < end, ENTROPY)
            a0 = _arrive((mb, kb, hb, ml, kl, hl), i, skip, ENTROPY)
            a1 = _arrive(_emit(a0, c0, y0), i, skip, ENTROPY)
            a2 = _arrive(_emit(a1, c1, y1), i, skip, ENTROPY)
            a3 = _arrive(_emit(a2, c2, y2), i, skip, ENTROPY)
            mb, kb, hb, ml, kl, hl = _emit(a3, c3, y3)
            mb, kb = _normal(mb, kb)
            ml, kl = _normal(ml, kl)
            for u in tl.static_range(4):
                ob, gb, ol, gl = _occupation(
                    (a0, a1, a2, a3)[u], (o0, o1, o2, o3)[u], zk, 1.0 / z, ENTROPY
                )
                if ENTROPY:
                    ob += weight * (gb - ob * h)
                    ol += weight * (gl - ol * h)
                _keep(states, place + way * u, blank, label, S, ob, ol, t + u < end)
            c0, y0, c1, y1, c2, y2, c3, y3 = ahead
