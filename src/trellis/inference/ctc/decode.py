"""From scores to labels: the best path of a target, the best path of all, the best labellings."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.checks import as_positive
from trellis.errors import InfeasibleError, InputError
from trellis.inference.ctc.inputs import Array, Batch, Labels, prepare, prepare_targets
from trellis.native import resolve_jobs


class Alignment(NamedTuple):
    """The best path of a target: which frames belong to which symbol."""

    labels: NDArray[np.int64]  # (T,): a label or the blank at each frame
    starts: NDArray[np.int64]  # (S,): the first frame of each symbol
    ends: NDArray[np.int64]  # (S,): the frame behind its last
    confidence: NDArray[np.float64]  # (S,): exp of the mean log-probability over its frames
    score: float  # the log-probability of the path


class Hypothesis(NamedTuple):
    """A labelling that was found."""

    labels: NDArray[np.int64]  # (S,): without blanks
    log_prob: float
    frames: NDArray[np.int64]  # (S,): where its best path has each symbol, at its likeliest frame


def align(
    log_probs: Array,
    targets: Labels | Sequence[Labels],
    *,
    blank: int = 0,
    lengths: Array | Sequence[int] | None = None,
    n_jobs: int | None = None,
) -> Alignment | list[Alignment]:
    """Best path of the target: of all that stand for it, the one with the largest Σ log-prob.

    One Alignment, or a list with one a row of the batch. A target that no path stands for is an
    InfeasibleError. Of equal paths, the one that changes symbol as early as it can is taken.

    >>> x = np.log([[0.1, 0.8, 0.1], [0.3, 0.6, 0.1], [0.7, 0.1, 0.2], [0.1, 0.1, 0.8]])
    >>> path = align(x, [1, 2])
    >>> path.labels.tolist(), path.starts.tolist(), path.ends.tolist()
    ([1, 1, 0, 2], [0, 3], [2, 4])
    >>> path.confidence.round(3).tolist()  # the first is the root of 0.8 times 0.6
    [0.693, 0.8]
    """
    x = prepare(log_probs, blank, lengths)
    padded, counts = prepare_targets(targets, x)
    count, frames = x.scores.shape[:2]
    labels = np.empty((count, frames), dtype=np.int64)
    starts, ends = np.empty_like(padded), np.empty_like(padded)
    confidence = np.empty(padded.shape)
    score = np.empty(count)
    out = (labels, starts, ends, confidence, score)
    _call(_core.ctc_align, x, padded, x.lengths, counts, x.blank, resolve_jobs(n_jobs), *out)
    if np.isneginf(score).any():
        b = int(np.argmax(np.isneginf(score)))
        raise InfeasibleError(
            f"batch row {b}: no path of {x.lengths[b]} frames stands for its target of "
            f"{counts[b]} labels"
        )
    rows = [
        Alignment(labels[b, :t], starts[b, :s], ends[b, :s], confidence[b, :s], float(score[b]))
        for b, (t, s) in enumerate(zip(x.lengths, counts, strict=True))
    ]
    return rows[0] if x.single else rows


def greedy(
    log_probs: Array,
    *,
    blank: int = 0,
    lengths: Array | Sequence[int] | None = None,
    n_jobs: int | None = None,
) -> Hypothesis | list[Hypothesis]:
    """The labelling of the path that takes the best label at each frame, and that path's log-prob.

    It is not always the best labelling, as this one shows: p(blank, blank) = 0.36 is the best
    path, but all the others stand for [1].

    >>> x = np.log([[0.6, 0.4], [0.6, 0.4]])
    >>> greedy(x).labels.tolist(), beam_search(x)[0].labels.tolist()
    ([], [1])
    """
    x = prepare(log_probs, blank, lengths)
    rows = list(_hypotheses(_call(_core.ctc_greedy, x, x.lengths, x.blank, resolve_jobs(n_jobs))))
    for b, (found,) in enumerate(rows):
        if found.log_prob == -math.inf:
            raise _impossible(x, b)
    return rows[0][0] if x.single else [found for (found,) in rows]


def beam_search(
    log_probs: Array,
    *,
    blank: int = 0,
    beam_width: int = 100,
    k: int = 1,
    min_log_prob: float | None = None,
    lengths: Array | Sequence[int] | None = None,
    n_jobs: int | None = None,
) -> list[Hypothesis] | list[list[Hypothesis]]:
    """The `k` best labellings, best first, each with the sum over all of its paths that were found.

    After each frame the `beam_width` best labellings go on. Labels below `min_log_prob` at a frame
    are not tried there, except the best one. A batch gives a list for each row.

    >>> x = np.log([[0.6, 0.4], [0.6, 0.4]])
    >>> [(h.labels.tolist(), round(math.exp(h.log_prob), 2)) for h in beam_search(x, k=2)]
    [([1], 0.64), ([], 0.36)]
    """
    x = prepare(log_probs, blank, lengths)
    width, best = as_positive(beam_width, "beam_width"), as_positive(k, "k")
    least = _least(min_log_prob)
    jobs = resolve_jobs(n_jobs)
    found = _call(_core.ctc_beam_search, x, x.lengths, x.blank, width, best, least, jobs)
    rows = list(_hypotheses(found))
    for b, row in enumerate(rows):
        if not row:
            raise _impossible(x, b)
    return rows[0] if x.single else rows


def _call(function: Callable[..., Any], x: Batch, *args: Any) -> Any:
    usable = x.scores.strides[2] == x.scores.itemsize and x.scores.flags.aligned
    scores = x.scores if usable else np.require(x.scores, requirements=["C", "A"])
    try:
        return function(scores, *args)
    except ValueError as error:  # the core says which batch row is wrong
        raise InputError(str(error)) from None


def _hypotheses(flat: tuple[Any, ...]) -> Iterator[list[Hypothesis]]:
    """The hypotheses of each row."""
    counts, lengths, log_probs, labels, frames = flat
    ends = np.cumsum(lengths).tolist()
    begins = [0, *ends]
    done = 0
    for count in counts.tolist():
        yield [
            Hypothesis(labels[i:j], log_prob, frames[i:j])
            for i, j, log_prob in zip(
                begins[done : done + count],
                ends[done : done + count],
                log_probs[done : done + count].tolist(),
                strict=True,
            )
        ]
        done += count


def _impossible(x: Batch, b: int) -> InfeasibleError:
    t = int(np.argmax(np.isneginf(x.scores[b, : x.lengths[b]]).all(axis=1)))
    return InfeasibleError(f"batch row {b}, frame {t}: every label is impossible")


def _least(min_log_prob: Any) -> float:
    if min_log_prob is None:
        return -math.inf
    try:
        least = float(min_log_prob)
    except (TypeError, ValueError):
        raise InputError(f"min_log_prob must be a number, not {min_log_prob!r}") from None
    if math.isnan(least):
        raise InputError("min_log_prob is nan")
    return least
