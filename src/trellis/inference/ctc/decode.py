"""Decoding: find the best path of a target, the best path overall, or the best labellings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis import _core
from trellis.checks import as_positive
from trellis.errors import InfeasibleError, InputError
from trellis.inference.ctc.inputs import FrameBatch, Labels, prepare, prepare_targets
from trellis.native import resolve_jobs


class Alignment(NamedTuple):
    """The best path of a target. It shows which frames belong to which symbol."""

    labels: NDArray[np.int64]  # (T,): a label or the blank at each frame
    starts: NDArray[np.int64]  # (S,): the first frame of each symbol
    ends: NDArray[np.int64]  # (S,): one past the last frame of each symbol
    confidence: NDArray[np.float64]  # (S,): exp of a symbol's mean log-probability over its frames
    score: float  # the log-probability of the path


class Hypothesis(NamedTuple):
    """A labelling that the search found."""

    labels: NDArray[np.int64]  # (S,): without blanks
    log_prob: float
    frames: NDArray[np.int64]  # (S,): the frame of the best path where each symbol is likeliest


def align(
    log_probs: ArrayLike,
    targets: Labels | Sequence[Labels],
    *,
    blank: int = 0,
    lengths: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> Alignment | list[Alignment]:
    """Return the path with the largest Σ log-prob among all paths that collapse to the target.

    The result is an Alignment or, for a batch, a list with one Alignment per row. If a target has
    no path, an InfeasibleError is raised. Of equally good paths, the one that changes symbols
    earliest is returned.

    >>> x = np.log([[0.1, 0.8, 0.1], [0.3, 0.6, 0.1], [0.7, 0.1, 0.2], [0.1, 0.1, 0.8]])
    >>> path = align(x, [1, 2])
    >>> path.labels.tolist(), path.starts.tolist(), path.ends.tolist()
    ([1, 1, 0, 2], [0, 3], [2, 4])
    >>> path.confidence.round(3).tolist()  # the first is the root of 0.8 times 0.6
    [0.693, 0.8]
    """
    batch = prepare(log_probs, blank, lengths)
    padded_targets, target_lengths = prepare_targets(targets, batch)
    n_rows, n_frames = batch.scores.shape[:2]
    labels = np.empty((n_rows, n_frames), dtype=np.int64)
    starts, ends = np.empty_like(padded_targets), np.empty_like(padded_targets)
    confidence = np.empty(padded_targets.shape)
    score = np.empty(n_rows)
    results = (labels, starts, ends, confidence, score)
    _call_core(
        _core.ctc_align,
        batch,
        padded_targets,
        batch.lengths,
        target_lengths,
        batch.blank,
        resolve_jobs(n_jobs),
        *results,
    )
    if np.isneginf(score).any():
        b = int(np.argmax(np.isneginf(score)))
        raise InfeasibleError(
            f"batch row {{sequence}}: a target of {target_lengths[b]} labels cannot fit in "
            f"{batch.lengths[b]} frames",
            sequence=b,
        )
    rows = [
        Alignment(
            labels[b, :length],
            starts[b, :length_of_target],
            ends[b, :length_of_target],
            confidence[b, :length_of_target],
            float(score[b]),
        )
        for b, (length, length_of_target) in enumerate(
            zip(batch.lengths, target_lengths, strict=True)
        )
    ]
    return rows[0] if batch.single else rows


def greedy(
    log_probs: ArrayLike,
    *,
    blank: int = 0,
    lengths: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> Hypothesis | list[Hypothesis]:
    """Return the labelling of the path with the best label at each frame, and its log-prob.

    This is not always the best labelling. In this example the best path is (blank, blank) with
    probability 0.36, but all other paths collapse to [1].

    >>> x = np.log([[0.6, 0.4], [0.6, 0.4]])
    >>> greedy(x).labels.tolist(), beam_search(x)[0].labels.tolist()
    ([], [1])
    """
    batch = prepare(log_probs, blank, lengths)
    rows = list(
        _split_hypotheses(
            _call_core(_core.ctc_greedy, batch, batch.lengths, batch.blank, resolve_jobs(n_jobs))
        )
    )
    for b, (best,) in enumerate(rows):
        if best.log_prob == -math.inf:
            raise _impossible_frame(batch, b)
    return rows[0][0] if batch.single else [best for (best,) in rows]


def beam_search(
    log_probs: ArrayLike,
    *,
    blank: int = 0,
    beam_width: int = 100,
    k: int = 1,
    min_log_prob: float | None = None,
    lengths: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> list[Hypothesis] | list[list[Hypothesis]]:
    """Return the `k` best labellings, best first; log_prob is the log of the sum over their paths.

    After each frame, the `beam_width` best labellings are kept; paths of other labellings are not
    in the sums. At each frame, labels below `min_log_prob` are skipped, except the best one. For a
    batch, the result has one list per row.

    >>> x = np.log([[0.6, 0.4], [0.6, 0.4]])
    >>> [(h.labels.tolist(), round(math.exp(h.log_prob), 2)) for h in beam_search(x, k=2)]
    [([1], 0.64), ([], 0.36)]
    """
    batch = prepare(log_probs, blank, lengths)
    width, n_best = as_positive(beam_width, "beam_width"), as_positive(k, "k")
    threshold = _validate_threshold(min_log_prob)
    threads = resolve_jobs(n_jobs)
    beams = _call_core(
        _core.ctc_beam_search, batch, batch.lengths, batch.blank, width, n_best, threshold, threads
    )
    rows = list(_split_hypotheses(beams))
    for b, row in enumerate(rows):
        if not row:
            raise _impossible_frame(batch, b)
    return rows[0] if batch.single else rows


def _call_core(function: Callable[..., Any], batch: FrameBatch, *args: Any) -> Any:
    """Call the core with the scores of a batch; raise its ValueErrors as InputErrors."""
    is_usable = batch.scores.strides[2] == batch.scores.itemsize and batch.scores.flags.aligned
    scores = batch.scores if is_usable else np.require(batch.scores, requirements=["C", "A"])
    try:
        return function(scores, *args)
    except ValueError as error:
        raise InputError(str(error)) from None


def _split_hypotheses(flat_arrays: tuple[Any, ...]) -> Iterator[list[Hypothesis]]:
    """Yield the hypotheses of each row, from the flat arrays of the core."""
    # The arrays are: hypotheses per row; labels and log-prob per hypothesis; all labels and frames.
    counts, lengths, log_probs, labels, frames = flat_arrays
    ends = np.cumsum(lengths).tolist()
    begins = [0, *ends]
    first = 0
    for count in counts.tolist():
        yield [
            Hypothesis(labels[begin:end], log_prob, frames[begin:end])
            for begin, end, log_prob in zip(
                begins[first : first + count],
                ends[first : first + count],
                log_probs[first : first + count].tolist(),
                strict=True,
            )
        ]
        first += count


def _impossible_frame(batch: FrameBatch, b: int) -> InfeasibleError:
    """Return the error for a row without a path. It names the frame where every label is -inf."""
    t = int(np.argmax(np.isneginf(batch.scores[b, : batch.lengths[b]]).all(axis=1)))
    return InfeasibleError(
        f"batch row {{sequence}}, frame {t}: every label is impossible", sequence=b
    )


def _validate_threshold(min_log_prob: Any) -> float:
    if min_log_prob is None:
        return -math.inf
    try:
        threshold = float(min_log_prob)
    except (TypeError, ValueError):
        raise InputError(f"min_log_prob must be a number, not {min_log_prob!r}") from None
    if math.isnan(threshold):
        raise InputError("min_log_prob is nan: must be a number")
    return threshold
