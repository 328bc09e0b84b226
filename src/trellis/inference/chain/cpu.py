"""The fast path: the functions of reference.py for whole batches, in the native core.

All take the same scores:

``unary``
    ``(T, L)`` for one sequence; ``(B, T, L)`` for a padded batch, with ``lengths``; or a list of
    ``(Tᵢ, L)`` arrays. float32 or float64, which arrays of results then have as well (float64 if
    transitions that depend on the position have it).
``transition``
    ``(L, L)``: ``[a, b]`` scores label a followed by b. Or one matrix a step, ``(T-1, L, L)``: for
    a padded batch ``(B, T-1, L, L)`` (or one ``(T-1, L, L)`` for all), for a list a list.
``start``, ``end``
    ``(L,)`` scores of the first and last label.
``mask``
    bool, shaped as ``unary``: False forbids a label at a position. With the observed labels alone
    allowed where they are known, log Z sums over what is consistent with a partial labelling. What
    the unary score is there, even NaN, does not matter.
``n_jobs``
    threads; None is all cores. Results are the same bits for any number.

A score of -inf forbids; NaN and +inf are errors. Scores within 170 of each other are the fastest. A
call runs to its end: Ctrl-C waits for it.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from trellis.checks import as_integer
from trellis.errors import InputError
from trellis.inference.chain.batch import Arrays, Scores, flat_labels, prepare
from trellis.inference.chain.layout import Array, Integers
from trellis.inference.chain.results import Counts, KBest, Marginals, Numbers, Path, Rows

_MOST_NUMBERS = 2**36  # half a tebibyte of labels


def score(
    unary: Arrays,
    transition: Arrays,
    start: Array | None = None,
    end: Array | None = None,
    *,
    labels: Arrays,
    mask: Arrays | None = None,
    lengths: Array | Sequence[int] | None = None,
    n_jobs: int | None = None,
) -> Numbers:
    """start[y₀] + Σₜ unary[t, yₜ] + Σₜ transition[yₜ₋₁, yₜ] + end[y_T₋₁]; -inf if forbidden.

    >>> score(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[0.0, 0.5], [0.0, 0.0]]), labels=[0, 1])
    5.5
    """
    return _score(prepare(unary, transition, start, end, mask, lengths, n_jobs), labels)


def _score(s: Scores, labels: Arrays) -> Numbers:
    paths = flat_labels(labels, s)
    out, outcomes = np.zeros(len(s.layout.starts)), s.new_outcomes()
    s.core().score(paths, out, outcomes)
    s.raise_for_labels(outcomes, paths)
    s.raise_for(outcomes, out)
    return s.layout.per_sequence(out)


def log_partition(
    unary: Arrays,
    transition: Arrays,
    start: Array | None = None,
    end: Array | None = None,
    *,
    mask: Arrays | None = None,
    lengths: Array | Sequence[int] | None = None,
    n_jobs: int | None = None,
) -> Numbers:
    """Log Z = log Σ_y exp(score(y)); -inf if no path is allowed.

    >>> round(np.exp(log_partition(np.zeros((3, 2)), np.zeros((2, 2)))))  # zero scores: it counts
    8
    """
    s = prepare(unary, transition, start, end, mask, lengths, n_jobs)
    log_z, outcomes = _log_partition(s)
    s.raise_for(outcomes, log_z, infeasible=False)
    return s.layout.per_sequence(log_z)


def _log_partition(s: Scores) -> tuple[NDArray[np.float64], Integers]:
    log_z, outcomes = np.zeros(len(s.layout.starts)), s.new_outcomes()
    s.core().log_partition(log_z, outcomes)
    log_z[outcomes[:, 0] != 0] = -np.inf
    return log_z, outcomes


def log_prob(
    unary: Arrays,
    transition: Arrays,
    start: Array | None = None,
    end: Array | None = None,
    *,
    labels: Arrays,
    mask: Arrays | None = None,
    lengths: Array | Sequence[int] | None = None,
    n_jobs: int | None = None,
) -> Numbers:
    """Log p(y) = score(y) - log Z.

    >>> round(log_prob(np.zeros((2, 2)), np.zeros((2, 2)), labels=[0, 1]), 4)  # one of four
    -1.3863
    """
    s = prepare(unary, transition, start, end, mask, lengths, n_jobs)
    log_z, outcomes = _log_partition(s)
    s.raise_for(outcomes, log_z)
    return _score(s, labels) - s.layout.per_sequence(log_z)


def marginals(
    unary: Arrays,
    transition: Arrays,
    start: Array | None = None,
    end: Array | None = None,
    *,
    mask: Arrays | None = None,
    lengths: Array | Sequence[int] | None = None,
    n_jobs: int | None = None,
) -> Marginals:
    """p(yₜ) and p(yₜ₋₁, yₜ), by forward-backward.

    >>> p = marginals(np.log([[0.9, 0.1], [0.5, 0.5]]), np.log([[0.8, 0.2], [0.2, 0.8]]))
    >>> p.unary.round(2).tolist()
    [[0.9, 0.1], [0.74, 0.26]]
    >>> p.pairwise.round(2).tolist()
    [[[0.72, 0.18], [0.02, 0.08]]]
    """
    s = prepare(unary, transition, start, end, mask, lengths, n_jobs)
    flat, unary_marginals, log_z = _forward_backward(s)
    return Marginals(unary_marginals, s.layout.per_sequence(log_z), partial(_pairwise, s, flat))


def _pairwise(s: Scores, flat: Array) -> Rows:
    """Pairwise marginals of the scores whose unary marginals were `flat`."""
    pairs = s.new_pairs()
    again, _, _ = _forward_backward(s, pairs=pairs)
    if not np.allclose(again, flat, rtol=0.0, atol=1e-6):
        raise InputError("the scores, or the unary marginals, have changed since marginals()")
    return s.layout.per_pair(pairs)


def _forward_backward(
    s: Scores,
    pairs: Array | None = None,
    counts: NDArray[np.float64] | None = None,
    weights: NDArray[np.float64] | None = None,
    labels: Integers | None = None,
) -> tuple[Array, Rows, NDArray[np.float64]]:
    """Unary marginals as flat rows and in the caller's layout, log Z; others where given room.

    With labels, what these use is taken off all of them.
    """
    flat = s.new_rows((s.labels,), s.dtype, 0.0)
    log_z, outcomes = np.zeros(len(s.layout.starts)), s.new_outcomes()
    pair_starts = None if pairs is None else s.layout.pair_starts()
    core = s.core()
    pieces = core.marginals(flat, pairs, pair_starts, counts, log_z, outcomes, weights)
    s.raise_for(outcomes, log_z)
    if labels is not None:
        core.subtract_paths(labels, flat, pairs, pair_starts, counts, log_z, outcomes, weights)
        s.raise_for_labels(outcomes, labels)
    return flat, s.layout.per_position(flat, pieces), log_z


def expected_counts(
    unary: Arrays,
    transition: Arrays,
    start: Array | None = None,
    end: Array | None = None,
    *,
    mask: Arrays | None = None,
    lengths: Array | Sequence[int] | None = None,
    labels: Arrays | None = None,
    weights: Array | Sequence[float] | None = None,
    n_jobs: int | None = None,
) -> Counts:
    """∂ log Z / ∂ each argument, in its shape: how often the model expects to use each score.

    Sums over the batch where an argument is shared by it. With ``labels``, less what they use
    themselves: the gradient of -log p(labels), which then takes the place of log Z (inf if they are
    forbidden). ``weights``, one positive number a sequence, multiply all counts that come from it.

    >>> expected_counts(np.zeros((3, 2)), np.zeros((2, 2))).transition
    array([[0.5, 0.5],
           [0.5, 0.5]])
    >>> expected_counts(np.zeros((3, 2)), np.zeros((2, 2)), labels=[0, 0, 1]).transition
    array([[-0.5, -0.5],
           [ 0.5,  0.5]])
    """
    s = prepare(unary, transition, start, end, mask, lengths, n_jobs)
    w = None if weights is None else _weights(weights, len(s.layout.starts))
    y = None if labels is None else flat_labels(labels, s)
    used: Rows
    if s.transition is not None:
        used = np.empty(s.transition.shape)
        flat, unary_counts, log_z = _forward_backward(s, counts=used, weights=w, labels=y)
    else:
        pairs = s.new_pairs()
        flat, unary_counts, log_z = _forward_backward(s, pairs=pairs, weights=w, labels=y)
        used = s.layout.per_pair(pairs)
        if s.layout.padded and np.ndim(cast(Array, transition)) == 3:
            used = cast(Array, used).sum(axis=0, dtype=np.float64)
    first = s.layout.starts
    last = first + s.layout.lengths - 1
    return Counts(
        unary_counts,
        used,
        flat[first].sum(axis=0, dtype=np.float64),
        flat[last].sum(axis=0, dtype=np.float64),
        s.layout.per_sequence(log_z),
    )


def _weights(weights: Array | Sequence[float], count: int) -> NDArray[np.float64]:
    try:
        found = np.ascontiguousarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"weights must be numbers, not {weights!r:.60}") from None
    if found.shape != (count,):
        raise InputError(f"weights have shape {found.shape}, but there are {count} sequences")
    bad = np.flatnonzero(~((found > 0) & (found < np.inf)))
    if bad.size:
        raise InputError(f"the weight of sequence {bad[0]} is {found[bad[0]]}: must be positive")
    return found


def viterbi(
    unary: Arrays,
    transition: Arrays,
    start: Array | None = None,
    end: Array | None = None,
    *,
    mask: Arrays | None = None,
    lengths: Array | Sequence[int] | None = None,
    n_jobs: int | None = None,
) -> Path:
    """argmax_y score(y); of several best labels at a position, the first.

    >>> best = viterbi(np.array([[0.0, 1.0], [0.9, 0.0]]), np.array([[0.0, 0.0], [0.0, 1.0]]))
    >>> best.labels.tolist(), best.score
    ([1, 1], 2.0)
    """
    s = prepare(unary, transition, start, end, mask, lengths, n_jobs)
    labels = s.new_rows((), np.int64, -1)
    best, outcomes = np.zeros(len(s.layout.starts)), s.new_outcomes()
    pieces = s.core().viterbi(labels, best, outcomes)
    s.raise_for(outcomes, best)
    return Path(s.layout.per_position(labels, pieces), s.layout.per_sequence(best))


def kbest(
    unary: Arrays,
    transition: Arrays,
    start: Array | None = None,
    end: Array | None = None,
    *,
    k: int,
    mask: Arrays | None = None,
    lengths: Array | Sequence[int] | None = None,
    n_jobs: int | None = None,
) -> KBest:
    """The k best distinct paths and their scores, best first; fewer if fewer are allowed.

    In a padded batch, paths that do not exist have labels -1 and score -inf.

    >>> best = kbest(np.array([[0.0, 2.0], [1.0, 0.0]]), np.zeros((2, 2)), k=2)
    >>> best.labels.tolist(), best.score.tolist()
    ([[1, 0], [1, 1]], [3.0, 2.0])
    """
    s = prepare(unary, transition, start, end, mask, lengths, n_jobs)
    k = _count(k, "k", s)
    log_z, outcomes = _log_partition(s)
    s.raise_for(outcomes, log_z)
    count = len(s.layout.starts)
    paths = np.full(k * int(s.layout.lengths.sum()), -1, dtype=np.int64)
    scores, found = np.full((count, k), -np.inf), np.empty(count, dtype=np.int64)
    s.core().kbest(k, s.layout.rows_before, paths, scores, found)
    labels = s.layout.paths(paths, k)
    if s.layout.padded:
        return KBest(labels, scores)
    if s.layout.shape is not None:
        return KBest(cast(Array, labels)[: found[0]], scores[0, : found[0]])
    return KBest(
        [own[:n] for own, n in zip(labels, found, strict=True)],
        [own[:n] for own, n in zip(scores, found, strict=True)],
    )


def sample(
    unary: Arrays,
    transition: Arrays,
    start: Array | None = None,
    end: Array | None = None,
    *,
    n: int = 1,
    random_state: int | np.random.Generator | None = None,
    mask: Arrays | None = None,
    lengths: Array | Sequence[int] | None = None,
    n_jobs: int | None = None,
) -> Rows:
    """N independent paths y ~ p(y), by forward filtering and backward sampling: ``(n, T)`` labels.

    >>> sample(np.array([[0.0, -np.inf], [-np.inf, 0.0]]), np.zeros((2, 2)), n=2, random_state=0)
    array([[0, 1],
           [0, 1]])
    """
    s = prepare(unary, transition, start, end, mask, lengths, n_jobs)
    n = _count(n, "n", s)
    uniforms = _generator(random_state).random(n * int(s.layout.lengths.sum()))
    labels, outcomes = np.empty(len(uniforms), dtype=np.int64), s.new_outcomes()
    s.core().sample(s.layout.rows_before, uniforms, labels, outcomes)
    s.raise_for(outcomes, np.zeros(len(outcomes)))
    return s.layout.paths(labels, n)


def entropy(
    unary: Arrays,
    transition: Arrays,
    start: Array | None = None,
    end: Array | None = None,
    *,
    mask: Arrays | None = None,
    lengths: Array | Sequence[int] | None = None,
    n_jobs: int | None = None,
) -> Numbers:
    """-Σ_y p(y) log p(y), in nats.

    >>> round(entropy(np.zeros((3, 2)), np.zeros((2, 2))), 4)  # three fair coins: 3 log 2
    2.0794
    """
    s = prepare(unary, transition, start, end, mask, lengths, n_jobs)
    out, outcomes = np.zeros(len(s.layout.starts)), s.new_outcomes()
    s.core().entropy(out, outcomes)
    s.raise_for(outcomes, out)
    return s.layout.per_sequence(out)


def max_marginals(
    unary: Arrays,
    transition: Arrays,
    start: Array | None = None,
    end: Array | None = None,
    *,
    mask: Arrays | None = None,
    lengths: Array | Sequence[int] | None = None,
    n_jobs: int | None = None,
) -> Rows:
    """``[t, y]`` = the score of the best path with yₜ = y; -inf where there is none.

    >>> max_marginals(np.array([[0.0, 2.0], [1.0, 0.0]]), np.zeros((2, 2))).tolist()
    [[1.0, 3.0], [3.0, 2.0]]
    """
    s = prepare(unary, transition, start, end, mask, lengths, n_jobs)
    flat = s.new_rows((s.labels,), s.dtype, -np.inf)
    outcomes = s.new_outcomes()
    pieces = s.core().max_marginals(flat, outcomes)
    s.raise_for(outcomes, np.maximum.reduceat(flat.max(axis=1), s.layout.starts, dtype=np.float64))
    return s.layout.per_position(flat, pieces)


def _count(value: Any, name: str, s: Scores) -> int:
    """A number of paths to give for each sequence; so many must fit into memory."""
    count = as_integer(value, name)
    if count < 1:
        raise InputError(f"{name} must be at least 1, not {count}")
    if count * s.layout.rows > _MOST_NUMBERS:
        raise InputError(
            f"{name} is {count}: so many paths of {s.layout.rows} positions do not fit"
        )
    return count


def _generator(random_state: Any) -> np.random.Generator:
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None or (
        isinstance(random_state, int | np.integer)
        and not isinstance(random_state, bool)
        and random_state >= 0
    ):
        return np.random.default_rng(random_state)
    raise InputError(
        f"random_state must be None, a non-negative integer or a Generator, not {random_state!r}"
    )
