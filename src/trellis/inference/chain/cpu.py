"""The fast path: the functions of reference.py for batches, in the native core.

The first arguments of every function are `Scores`, or the arrays of a `Scores`, which documents
their shapes. ``n_jobs`` is the number of threads; None means all cores. The results are the same
bits for any number.

The functions are fastest if all finite scores lie within 170 of each other. Ctrl-C takes effect
only after a call has returned.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from trellis.checks import as_integer, integer_at_least
from trellis.errors import InputError
from trellis.inference.chain.batch import ValidatedScores, flat_labels
from trellis.inference.chain.layout import Array, Floats, Integers
from trellis.inference.chain.results import (
    ArrayOrList,
    Counts,
    FloatOrArray,
    KBest,
    Marginals,
    Path,
)
from trellis.inference.chain.signature import takes_scores

# The limit of kbest and sample: 2**36 labels are 0.5 TiB. Without it, NumPy would raise a
# MemoryError that does not name the argument.
_MAX_PATH_LABELS = 2**36
# If k paths have more labels than this (8 MiB), kbest counts the allowed paths first and lowers k
# to their number, so that no memory is taken for paths that do not exist. Counting them always
# would slow small calls down.
_MAX_UNCOUNTED_LABELS = 2**20


@takes_scores
def score(scores: ValidatedScores, *, labels: ArrayLike) -> FloatOrArray:
    """start[y₀] + Σₜ unary[t, yₜ] + Σₜ transition[yₜ₋₁, yₜ] + end[y_T₋₁]; -inf if forbidden.

    ``labels`` is one path per sequence: (T,), (B, T), or a list of (Tᵢ,) arrays.

    >>> score(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[0.0, 0.5], [0.0, 0.0]]), labels=[0, 1])
    5.5
    """
    return _score(scores, labels)


def _score(scores: ValidatedScores, labels: ArrayLike) -> FloatOrArray:
    paths = flat_labels(labels, scores)
    values, outcomes = np.zeros(len(scores.layout.starts)), scores.new_outcomes()
    scores.core().score(paths, values, outcomes)
    scores.raise_for_labels(outcomes, paths)
    scores.raise_for(outcomes, values)
    return scores.layout.per_sequence(values)


@takes_scores
def log_partition(scores: ValidatedScores) -> FloatOrArray:
    """Log Z = log Σ_y exp(score(y)); -inf if no path is allowed.

    >>> round(np.exp(log_partition(np.zeros((3, 2)), np.zeros((2, 2)))))  # zero scores: 2³ paths
    8
    """
    log_z, outcomes = _log_partition(scores)
    scores.raise_for(outcomes, log_z, infeasible=False)
    return scores.layout.per_sequence(log_z)


def _log_partition(scores: ValidatedScores) -> tuple[Floats, Integers]:
    """Compute log Z, shape (B,), and the status of each sequence. No error is raised."""
    log_z, outcomes = np.zeros(len(scores.layout.starts)), scores.new_outcomes()
    scores.core().log_partition(log_z, outcomes)
    log_z[outcomes[:, 0] != 0] = -np.inf
    return log_z, outcomes


@takes_scores
def log_prob(scores: ValidatedScores, *, labels: ArrayLike) -> FloatOrArray:
    """Log p(y) = score(y) - log Z, for one path y per sequence (``labels``).

    >>> round(log_prob(np.zeros((2, 2)), np.zeros((2, 2)), labels=[0, 1]), 4)  # one of four
    -1.3863
    """
    log_z, outcomes = _log_partition(scores)
    scores.raise_for(outcomes, log_z)
    # Rounding errors of the two large numbers could make their difference positive.
    return _at_most_zero(_score(scores, labels) - scores.layout.per_sequence(log_z))


def _at_most_zero(log_p: FloatOrArray) -> FloatOrArray:
    return min(log_p, 0.0) if isinstance(log_p, float) else np.minimum(log_p, 0.0)


@takes_scores
def marginals(scores: ValidatedScores) -> Marginals:
    """Compute the marginals p(yₜ) and p(yₜ₋₁, yₜ) by the forward-backward algorithm.

    >>> p = marginals(np.log([[0.9, 0.1], [0.5, 0.5]]), np.log([[0.8, 0.2], [0.2, 0.8]]))
    >>> p.unary.round(2).tolist()
    [[0.9, 0.1], [0.74, 0.26]]
    >>> p.pairwise.round(2).tolist()
    [[[0.72, 0.18], [0.02, 0.08]]]
    """
    p = _forward_backward(scores)
    log_z = scores.layout.per_sequence(p.log_z)
    return Marginals(p.unary, log_z, partial(_pairwise, scores, p.flat))


def _pairwise(scores: ValidatedScores, flat: Array) -> ArrayOrList:
    """Compute the pairwise marginals. `flat`, (rows, L): the unary marginals of the first run."""
    pairs = scores.new_pairs()
    second_run = _forward_backward(scores, pairs=pairs)
    if not np.allclose(second_run.flat, flat, rtol=0.0, atol=1e-6):
        raise InputError(
            "the scores or the unary marginals have changed since the call of marginals()"
        )
    return scores.layout.per_pair(pairs)


class _ForwardBackward(NamedTuple):
    flat: Array  # (rows, L): unary marginals
    unary: ArrayOrList  # the same in the caller's layout
    log_z: Floats  # (B,): log Z, or -log p of the labels


def _forward_backward(
    scores: ValidatedScores,
    pairs: Array | None = None,
    counts: Floats | None = None,
    weights: Floats | None = None,
    labels: Integers | None = None,
) -> _ForwardBackward:
    """Run forward-backward; also fill the buffers `pairs` (matrices) and `counts` (L, L).

    With labels, subtract the counts of their paths from the marginals, `pairs` and `counts`.
    """
    unary_rows = scores.new_rows((scores.n_labels,), scores.dtype, 0.0)
    log_z, outcomes = np.zeros(len(scores.layout.starts)), scores.new_outcomes()
    pair_starts = None if pairs is None else scores.layout.pair_starts()
    core = scores.core()
    unary_arrays = core.marginals(unary_rows, pairs, pair_starts, counts, log_z, outcomes, weights)
    scores.raise_for(outcomes, log_z)
    if labels is not None:
        core.subtract_paths(
            labels, unary_rows, pairs, pair_starts, counts, log_z, outcomes, weights
        )
        scores.raise_for_labels(outcomes, labels)
    return _ForwardBackward(unary_rows, scores.layout.per_position(unary_rows, unary_arrays), log_z)


@takes_scores
def expected_counts(
    scores: ValidatedScores, *, labels: ArrayLike | None = None, weights: ArrayLike | None = None
) -> Counts:
    """∂ log Z / ∂ each array, in its shape: the expected number of uses of each score.

    The counts of an array that all sequences share are summed over the sequences.

    With ``labels``, one path per sequence, the result is the gradient of -log p(labels): the
    expected counts minus the counts of that path. The field ``log_partition`` is then
    -log p(labels), inf if they are forbidden. ``weights``, one positive number per sequence,
    multiply all counts of the sequence.

    >>> expected_counts(np.zeros((3, 2)), np.zeros((2, 2))).transition
    array([[0.5, 0.5],
           [0.5, 0.5]])
    >>> expected_counts(np.zeros((3, 2)), np.zeros((2, 2)), labels=[0, 0, 1]).transition
    array([[-0.5, -0.5],
           [ 0.5,  0.5]])
    """
    layout = scores.layout
    checked_weights = None if weights is None else _validate_weights(weights, len(layout.starts))
    paths = None if labels is None else flat_labels(labels, scores)
    transition: ArrayOrList
    if scores.transition is not None:
        transition = np.empty(scores.transition.shape)
        p = _forward_backward(scores, counts=transition, weights=checked_weights, labels=paths)
    else:
        pairs = scores.new_pairs()
        p = _forward_backward(scores, pairs=pairs, weights=checked_weights, labels=paths)
        transition = layout.per_pair(pairs)
        if scores.transitions_shared:
            transition = cast(Array, transition).sum(axis=0, dtype=np.float64)
    return Counts(
        p.unary,
        transition,
        p.flat[layout.starts].sum(axis=0, dtype=np.float64),
        p.flat[layout.starts + layout.lengths - 1].sum(axis=0, dtype=np.float64),
        layout.per_sequence(p.log_z),
    )


def _validate_weights(weights: ArrayLike, count: int) -> Floats:
    """Return the weights as an array of `count` finite positive numbers."""
    try:
        checked_weights = np.ascontiguousarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"weights must be numbers, not {weights!r:.60}") from None
    if checked_weights.shape != (count,):
        raise InputError(
            f"weights have shape {checked_weights.shape}, but there are {count} sequences"
        )
    invalid = np.flatnonzero(~((checked_weights > 0) & (checked_weights < np.inf)))
    if invalid.size:
        i = int(invalid[0])
        raise InputError(
            f"the weight of sequence {{sequence}} is {checked_weights[i]}: "
            "must be positive and finite",
            sequence=i,
        )
    return checked_weights


@takes_scores
def viterbi(scores: ValidatedScores) -> Path:
    """argmax_y score(y). Of several best labels at a position, the first is taken.

    >>> best = viterbi(np.array([[0.0, 1.0], [0.9, 0.0]]), np.array([[0.0, 0.0], [0.0, 1.0]]))
    >>> best.labels.tolist(), best.score
    ([1, 1], 2.0)
    """
    labels = scores.new_rows((), np.int64, -1)
    best_scores, outcomes = np.zeros(len(scores.layout.starts)), scores.new_outcomes()
    label_arrays = scores.core().viterbi(labels, best_scores, outcomes)
    scores.raise_for(outcomes, best_scores)
    return Path(
        scores.layout.per_position(labels, label_arrays), scores.layout.per_sequence(best_scores)
    )


@takes_scores
def kbest(scores: ValidatedScores, *, k: int) -> KBest:
    """Return the k best distinct paths and their scores, best first; fewer if fewer are allowed.

    In a padded batch, missing paths have labels -1 and score -inf. If no sequence has k paths, the
    axis of the paths is only as long as the largest number of paths.

    >>> best = kbest(np.array([[0.0, 2.0], [1.0, 0.0]]), np.zeros((2, 2)), k=2)
    >>> best.labels.tolist(), best.score.tolist()
    ([[1, 0], [1, 1]], [3.0, 2.0])
    """
    k = integer_at_least(k, 1, "k")
    log_z, outcomes = _log_partition(scores)
    scores.raise_for(outcomes, log_z)
    k = _validate_path_count(_limit_paths(scores, k), "k", scores)
    layout = scores.layout
    n_sequences = len(layout.starts)
    path_labels = np.full(k * int(layout.lengths.sum()), -1, dtype=np.int64)
    best_scores, path_counts = (
        np.full((n_sequences, k), -np.inf),
        np.empty(n_sequences, dtype=np.int64),
    )
    scores.core().kbest(k, layout.rows_before, path_labels, best_scores, path_counts)
    labels = layout.paths(path_labels, k)
    if layout.padded:
        return KBest(labels, best_scores)
    if layout.shape is not None:
        return KBest(cast(Array, labels)[: path_counts[0]], best_scores[0, : path_counts[0]])
    return KBest(
        [paths[:count] for paths, count in zip(labels, path_counts, strict=True)],
        [values[:count] for values, count in zip(best_scores, path_counts, strict=True)],
    )


@takes_scores
def sample(
    scores: ValidatedScores, *, n: int = 1, random_state: int | np.random.Generator | None = None
) -> ArrayOrList:
    """Draw n independent paths y ~ p(y), shape (n, T).

    First α is computed from left to right. Then labels are drawn from right to left.

    >>> sample(np.array([[0.0, -np.inf], [-np.inf, 0.0]]), np.zeros((2, 2)), n=2, random_state=0)
    array([[0, 1],
           [0, 1]])
    """
    n = _validate_path_count(n, "n", scores)
    uniforms = _validate_generator(random_state).random(n * int(scores.layout.lengths.sum()))
    labels, outcomes = np.empty(len(uniforms), dtype=np.int64), scores.new_outcomes()
    scores.core().sample(scores.layout.rows_before, uniforms, labels, outcomes)
    scores.raise_for(outcomes, np.zeros(len(outcomes)))
    return scores.layout.paths(labels, n)


@takes_scores
def entropy(scores: ValidatedScores) -> FloatOrArray:
    """-Σ_y p(y) log p(y), in nats.

    >>> round(entropy(np.zeros((3, 2)), np.zeros((2, 2))), 4)  # three fair coins: 3 log 2
    2.0794
    """
    values, outcomes = np.zeros(len(scores.layout.starts)), scores.new_outcomes()
    scores.core().entropy(values, outcomes)
    scores.raise_for(outcomes, values)
    return scores.layout.per_sequence(values)


@takes_scores
def max_marginals(scores: ValidatedScores) -> ArrayOrList:
    """``[t, y]`` = the score of the best path with yₜ = y; -inf if there is no such path.

    >>> max_marginals(np.array([[0.0, 2.0], [1.0, 0.0]]), np.zeros((2, 2))).tolist()
    [[1.0, 3.0], [3.0, 2.0]]
    """
    score_rows = scores.new_rows((scores.n_labels,), scores.dtype, -np.inf)
    outcomes = scores.new_outcomes()
    score_arrays = scores.core().max_marginals(score_rows, outcomes)
    best_scores = np.maximum.reduceat(
        score_rows.max(axis=1), scores.layout.starts, dtype=np.float64
    )
    scores.raise_for(outcomes, best_scores)
    return scores.layout.per_position(score_rows, score_arrays)


def _limit_paths(scores: ValidatedScores, k: int) -> int:
    """Return k, or the largest number of paths of any sequence, if that is smaller."""
    max_length = int(scores.layout.lengths.max())
    # Compares logarithms first: L**T can be a huge integer, and is only needed if it is near k.
    if max_length * math.log2(scores.n_labels) < math.log2(k) + 1.0:
        k = min(k, scores.n_labels**max_length)
    if k * scores.layout.rows > _MAX_UNCOUNTED_LABELS:
        limit = min(k, _MAX_PATH_LABELS)
        counts = np.empty(len(scores.layout.starts), dtype=np.int64)
        scores.core().count_paths(limit, counts)
        k = int(counts.max()) if counts.max() < limit else k
    return k


def _validate_path_count(value: Any, name: str, scores: ValidatedScores) -> int:
    """Validate a number of paths per sequence: at least 1, and small enough for the memory."""
    count = as_integer(value, name)
    if count < 1:
        raise InputError(f"{name} must be at least 1, not {count}")
    if count * scores.layout.rows > _MAX_PATH_LABELS:
        raise InputError(
            f"{name} is {count}: {count} paths of {scores.layout.rows} positions do not fit "
            "into memory"
        )
    return count


def _validate_generator(random_state: Any) -> np.random.Generator:
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
