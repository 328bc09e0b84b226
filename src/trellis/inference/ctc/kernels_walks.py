"""The two walks of CTC, from the left and from the right.

A probability is a pair: m · 2^k with a float m ≥ 1 and an integer k. A step of the walk is then
a few products and sums: nothing underflows, no logarithm is taken, and all that is lost is one
rounding a step. An impossible state is one whose k is near IMPOSSIBLE or below.

A row of the lattice is two vectors that share an index: blanks ``b[0 … s]`` and labels
``l[0 … s-1]``, where blank i stands before label i. One step in time is

    b'[i] = (b[i] + l[i-1]) · p(blank)        l'[i] = (l[i] + b[i] + skip[i] l[i-1]) · p(label i)

so that ``l`` shifted by one is all that a lane needs from another lane. The walk from the right is
the same walk over reversed time and labels.

With ENTROPY a state also has h, the entropy in bits of the paths that lead to it. Where paths of
weights wᵢ and entropies hᵢ meet in W = Σ wᵢ, h = Σ wᵢ/W (hᵢ - log2 wᵢ) + log2 W.
"""

# ruff: noqa: N803
# mypy: allow-untyped-decorators, allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

import triton
import triton.language as tl

from trellis.inference.ctc.kernels_frames import LN2, VARYING, length

__all__ = ["walk_in", "walk_out"]

IMPOSSIBLE = tl.constexpr(-(2**28))  # what a forbidden frame adds to the k of a path
LOWEST = tl.constexpr(-(2**29))  # no k is below this, so that sums of two fit 32 bits
NEVER = tl.constexpr(-(2**27))  # a sum of paths with a k below this holds no allowed path


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
    """The same number with m in [1, 2); NaN stays."""
    if m.dtype == tl.float64:
        bits = m.to(tl.int64, bitcast=True)
        found = ((bits & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000).to(tl.float64, bitcast=True)
        more = ((bits >> 52) - 1023).to(tl.int32)
    else:
        bits = m.to(tl.int32, bitcast=True)
        found = ((bits & 0x7FFFFF) | 0x3F800000).to(tl.float32, bitcast=True)
        more = (bits >> 23) - 127
    return tl.where(m == m, found, m), k + more


@triton.jit
def _before(m, k, i):
    """m and k of the lane before; in float32 they travel as one word: one exchange a step."""
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
def _spread(w, h):
    return w * (h - tl.log2(tl.maximum(w, 1e-37)))


@triton.jit
def _arrive(state, i, skip, ENTROPY: tl.constexpr):
    """Sums over what leads to each blank and label, before the frame's own probability."""
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
        hll = _spread(l_to_l, hl) + _spread(b_to_l, hb) + _spread(p_to_l, hp)
        hb = (_spread(b_to_b, hb) + _spread(p_to_b, hp)) / mbb + tl.log2(mbb)
        hl = hll / mll + tl.log2(mll)
    return mbb, kbb, hb, mll, kll, hl


@triton.jit
def _times_score(m, k, y):
    """(m, k) · 2^y."""
    whole = tl.floor(y)
    return m * tl.exp2(y - whole), tl.maximum(k + whole.to(tl.int32), LOWEST)


@triton.jit
def _emit(state, c, y):
    """The state after a frame whose blank scores c and whose labels score y."""
    mb, kb, hb, ml, kl, hl = state
    mb, kb = _times_score(mb, kb, c)
    ml, kl = _times_score(ml, kl, y)
    return mb, kb, hb, ml, kl, hl


@triton.jit
def _choose(go, new, old):
    mb = tl.where(go, new[0], old[0])
    kb = tl.where(go, new[1], old[1])
    hb = tl.where(go, new[2], old[2])
    ml = tl.where(go, new[3], old[3])
    kl = tl.where(go, new[4], old[4])
    hl = tl.where(go, new[5], old[5])
    return mb, kb, hb, ml, kl, hl


@triton.jit
def _route(targets, input_lengths, target_lengths, T, S, P: tl.constexpr):
    """Where program 2b (from the left) or 2b + 1 (from the right) walks, and how far.

    Frame ``first + way · t`` comes t-th; the two meet after `half` frames. Lane i works on blank
    and label number ``blank[i]``, ``label[i]`` of the target; lanes behind it have no use.
    """
    b = (tl.program_id(0) // 2).to(tl.int64)
    back = tl.program_id(0) % 2
    n = length(input_lengths, b, T)
    s = length(target_lengths, b, S)
    i = tl.arange(0, P)
    blank = tl.where((back == 1) & (i <= s), s - i, i)
    label = tl.where((back == 1) & (i < s), s - 1 - i, i)
    inner = (i > 0) & (i < s)
    own = tl.load(targets + b * S + label, mask=inner, other=0)
    before = tl.load(targets + b * S + label + 2 * back - 1, mask=inner, other=0)
    first = (back * (n - 1)).to(tl.int64)
    half = (n + 1 - back) // 2
    return b, back, n, s, i, blank, label, inner & (own != before), first, 1 - 2 * back, half


@triton.jit
def _scores(scores, frame, way, s, label, S, left):
    """log2 p of the blank and of each lane's label in the next four frames, if so many are left."""
    at = scores + frame * (S + 1)
    by = (S + 1) * way
    c0 = tl.load(at + S, mask=left > 0, other=0.0)
    y0 = tl.load(at + label, mask=label < tl.where(left > 0, s, 0), other=IMPOSSIBLE)
    c1 = tl.load(at + by + S, mask=left > 1, other=0.0)
    y1 = tl.load(at + by + label, mask=label < tl.where(left > 1, s, 0), other=IMPOSSIBLE)
    c2 = tl.load(at + by * 2 + S, mask=left > 2, other=0.0)
    y2 = tl.load(at + by * 2 + label, mask=label < tl.where(left > 2, s, 0), other=IMPOSSIBLE)
    c3 = tl.load(at + by * 3 + S, mask=left > 3, other=0.0)
    y3 = tl.load(at + by * 3 + label, mask=label < tl.where(left > 3, s, 0), other=IMPOSSIBLE)
    return c0, y0, c1, y1, c2, y2, c3, y3


@triton.jit
def _keep(kept, row, blank, label, S, xb, xl, wanted):
    """Store a number of each blank, and one of each label, in a row."""
    at = kept + row * (2 * (S + 1))
    most = tl.where(wanted, S, -1)
    tl.store(at + blank, xb, mask=blank <= most)
    tl.store(at + S + 1 + label, xl, mask=label <= most)


@triton.jit
def _keep_state(kept, row, blank, label, S, state, wanted, ENTROPY: tl.constexpr):
    mb, kb, hb, ml, kl, hl = state
    _keep(kept[0], row, blank, label, S, mb, ml, wanted)
    _keep(kept[1], row, blank, label, S, kb, kl, wanted)
    if ENTROPY:
        _keep(kept[2], row, blank, label, S, hb, hl, wanted)


@triton.jit
def _state(kept, row, blank, label, S, wanted, ENTROPY: tl.constexpr):
    """The state that a row keeps."""
    at_b = row * (2 * (S + 1)) + blank
    at_l = row * (2 * (S + 1)) + S + 1 + label
    most = tl.where(wanted, S, -1)
    mb = tl.load(kept[0] + at_b, mask=blank <= most, other=1.0)
    kb = tl.load(kept[1] + at_b, mask=blank <= most, other=IMPOSSIBLE)
    ml = tl.load(kept[0] + at_l, mask=label <= most, other=1.0)
    kl = tl.load(kept[1] + at_l, mask=label <= most, other=IMPOSSIBLE)
    hb = tl.zeros_like(mb)
    hl = hb
    if ENTROPY:
        hb = tl.load(kept[2] + at_b, mask=blank <= most, other=0.0)
        hl = tl.load(kept[2] + at_l, mask=label <= most, other=0.0)
    return mb, kb, hb, ml, kl, hl


@triton.jit(do_not_specialize=VARYING)
def walk_in(
    scores,  # (B, T, S + 1)
    targets,
    input_lengths,
    target_lengths,
    states,  # (B, T + 2, 2, S + 1): m of all states; the last two rows: where the walks ended
    powers,  # the same of k
    heats,  # the same of h
    T,
    S,
    P: tl.constexpr,
    KEEP: tl.constexpr,
    ENTROPY: tl.constexpr,
):
    """Both walks up to the middle, one program each. Scores are read four frames ahead."""
    b, back, _, s, i, blank, label, skip, first, way, half = _route(
        targets, input_lengths, target_lengths, T, S, P
    )
    scores += b * T * (S + 1)
    row = b * (T + 2) if KEEP else b * 2
    kept = (states, powers, heats)
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
                at = row + frame + way * u
                _keep_state(kept, at, blank, label, S, state, t + u < half, ENTROPY)
        mb, kb = _normal(state[0], state[1])
        ml, kl = _normal(state[3], state[4])
        hb = state[2]
        hl = state[5]
        c0, y0, c1, y1, c2, y2, c3, y3 = ahead
    last = row + (T if KEEP else 0) + back
    _keep_state(kept, last, blank, label, S, (mb, kb, hb, ml, kl, hl), True, ENTROPY)


@triton.jit
def _occupation(arrived, other, zk, inverse, ENTROPY: tl.constexpr):
    """p(a path of the target goes here) of blanks and labels, and what ENTROPY adds of each."""
    mb, kb, hb, ml, kl, hl = arrived
    ob = _times(mb * other[0] * inverse, kb + other[1] - zk)
    ol = _times(ml * other[3] * inverse, kl + other[4] - zk)
    if ENTROPY:
        hb = _spread(ob, hb + other[2])
        hl = _spread(ol, hl + other[5])
    return ob, hb, ol, hl


@triton.jit(do_not_specialize=VARYING)
def walk_out(
    scores,
    targets,
    input_lengths,
    target_lengths,
    states,  # occupations take the place of the states
    powers,
    heats,
    loss,  # (B)
    entropy,  # (1) float64: what the entropy weighs
    T,
    S,
    P: tl.constexpr,
    KEEP: tl.constexpr,
    ENTROPY: tl.constexpr,
):
    """Where the walks meet, the loss; then each goes on over what the other has kept."""
    b, back, n, s, i, blank, label, skip, first, way, half = _route(
        targets, input_lengths, target_lengths, T, S, P
    )
    scores += b * T * (S + 1)
    row = b * (T + 2) if KEEP else b * 2
    kept = (states, powers, heats)
    last = row + (T if KEEP else 0)
    state = _state(kept, last + back, blank, label, S, True, ENTROPY)
    other = _state(kept, last + 1 - back, blank, label, S, True, ENTROPY)
    arrived = _arrive(state, i, skip, ENTROPY)
    zk = tl.max(tl.maximum(arrived[1] + other[1], arrived[4] + other[4]), 0)
    ob, _, ol, _ = _occupation(arrived, other, zk, 1.0, False)
    z = tl.sum(ob + ol, 0)
    _, hb, _, hl = _occupation(arrived, other, zk, 1.0 / z, ENTROPY)
    log_z = zk.to(tl.float64) + tl.log2(z).to(tl.float64)
    if ENTROPY:
        weight = tl.load(entropy)
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
            # read before the four steps, used after them: the steps hide the way to memory
            at = row + frame
            o0 = _state(kept, at, blank, label, S, True, ENTROPY)
            o1 = _state(kept, at + way, blank, label, S, t + 1 < end, ENTROPY)
            o2 = _state(kept, at + way * 2, blank, label, S, t + 2 < end, ENTROPY)
            o3 = _state(kept, at + way * 3, blank, label, S, t + 3 < end, ENTROPY)
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
                _keep(states, at + way * u, blank, label, S, ob, ol, t + u < end)
            c0, y0, c1, y1, c2, y2, c3, y3 = ahead
