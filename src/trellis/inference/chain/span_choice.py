"""The spans with the largest expected F1, and paths that have them.

The criterion for a set S of predicted spans in some sequences is the ratio of the expectations in
F1 = 2 · correct / (predicted + true), with the probability p(s) of each span and the expected
number N of true spans:

    F(S) = 2 Σ_{s ∈ S} p(s) / (|S| + N)

For a number θ, let S(θ) be the set with the largest Σ_{s ∈ S} (p(s) - θ). Dinkelbach's method
repeats θ = F(S(θ)) / 2. F increases in each step. When it no longer increases, 2θ is the maximum:
then F(S(θ)) ≤ 2θ, which means Σ_{s ∈ S(θ)} (p(s) - θ) ≤ θN. A set S with F(S) > 2θ would have
Σ_{s ∈ S} (p(s) - θ) > θN, but no sum is larger than that of S(θ).

The spans of S(θ) must not overlap, and some allowed path must have exactly these spans. The best
set under the first condition alone nearly always satisfies the second one, too. So
`heaviest_spans` computes this set first, and `paths_with_spans` searches for a path that has its
spans. If there is no such path, `heaviest_labelling` computes the best set under both conditions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from trellis.inference.chain.cpu import log_partition, viterbi
from trellis.inference.chain.layout import Floats, Integers
from trellis.inference.chain.scores import Scores
from trellis.inference.chain.spans import (
    ReadingRules,
    SpanTable,
    select_sequences,
    split_blocks,
)

__all__ = ["best_f1", "heaviest_labelling", "heaviest_spans", "paths_with_spans", "read_path"]

Choose: TypeAlias = Callable[[float], list[tuple[int, int, int]]]
"""A function of θ that returns S(θ) of one sequence: spans (label, start, end), in order."""
_FIRST_THRESHOLD = 0.25


def best_f1(choices: Sequence[Choose], tables: Sequence[SpanTable]) -> tuple[float, list[Any]]:
    """Return F and the spans of each sequence, for the sets with the largest F(S).

    >>> table = SpanTable(*np.array([[0, 0], [0, 1], [1, 2]]), np.array([0.9, 0.4]), 1.5)
    >>> best_f1([lambda threshold: heaviest_spans(table, threshold)], [table])
    (0.7428571428571429, [[(0, 0, 1), (0, 1, 2)]])
    """
    n_true = sum(table.expected for table in tables)
    probability = [
        dict(zip(zip(*map(np.ndarray.tolist, table[:3]), strict=True), table[3], strict=True))
        for table in tables
    ]
    best, threshold = -np.inf, _FIRST_THRESHOLD
    best_spans: list[Any] = []
    while True:
        spans = [choose(threshold) for choose in choices]
        n_correct = sum(
            p.get(s, 0.0) for p, row in zip(probability, spans, strict=True) for s in row
        )
        total = sum(map(len, spans)) + n_true
        value = float(2.0 * n_correct / total) if total else 0.0
        if value <= best:
            return best, best_spans
        best, best_spans, threshold = value, spans, value / 2.0


def heaviest_spans(table: SpanTable, threshold: float) -> list[tuple[int, int, int]]:
    """Return the spans (label, start, end) without overlap with the largest Σ (p - threshold).

    >>> columns = np.array([[0, 0, 0], [0, 1, 2], [2, 3, 3]])  # the second overlaps the others
    >>> table = SpanTable(*columns, np.array([0.4, 0.5, 0.3]), 1.2)
    >>> heaviest_spans(table, 0.1), heaviest_spans(table, 0.25)
    ([(0, 0, 2), (0, 2, 3)], [(0, 1, 3)])
    """
    kept = np.flatnonzero(table.probability > threshold)
    kept = kept[np.argsort(table.end[kept], kind="stable")]
    labels, starts, ends, p = (column[kept].tolist() for column in table[:4])
    # best[n] is the largest sum over the first n spans; takes[n] says if it uses the last of them.
    best, takes = [0.0], []
    for n, (start, weight) in enumerate(zip(starts, p, strict=True)):
        with_span = best[bisect_right(ends, start, hi=n)] + weight - threshold
        takes.append(with_span > best[n])
        best.append(max(with_span, best[n]))
    n, chosen = len(p), []
    while n:
        n -= 1
        if takes[n]:
            chosen.append((labels[n], starts[n], ends[n]))
            n = bisect_right(ends, starts[n], hi=n)
    return chosen[::-1]


def heaviest_labelling(
    scores: Scores, rules: ReadingRules, table: SpanTable, threshold: float
) -> list[tuple[int, int, int]]:
    """Return the spans of the allowed path with the largest Σ (p - threshold).

    ``scores`` are those of one sequence (T, L). A span that is not in the table has p = 0.

    For each position t and label y, two best paths of t + 1 labels that end in y are computed. In
    `opened`, the last span is counted with p = 0, and the next label may continue it. In `shut[t]`,
    the last span is one of the table, counted with its p, and the next label must not continue it.
    """
    allowed, steps = _find_allowed(scores)
    continues = rules.continues
    is_outside = rules.span_label < 0
    spans_at: dict[int, list[tuple[int, int, float]]] = {}
    for label, start, end, p in zip(*map(np.ndarray.tolist, table[:4]), strict=True):
        spans_at.setdefault(start, []).append((label, end, p))
    nowhere = np.full(allowed.shape[1], -np.inf)
    paths: list[Any] = [None] * len(nowhere)
    opened, shut = _Ends(nowhere, paths), [_Ends(nowhere, paths) for _ in allowed]
    for t, is_allowed in enumerate(allowed):
        if t == 0:
            entry = goes_on = _Ends(np.where(is_allowed, 0.0, -np.inf), paths)
        else:
            step = steps[t - 1] & is_allowed
            before = opened.larger(shut[t - 1])
            entry, goes_on = before.follow(step & ~continues), opened.follow(step & continues)
        starts = _Ends(entry.value - np.where(is_outside, 0.0, threshold), entry.path)
        for label, end, p in spans_at.get(t, []):
            inside = _Ends(np.where(rules.span_label == label, entry.value, -np.inf), entry.path)
            inside = inside.append()
            for later in range(t + 1, end):
                inside = inside.follow(steps[later - 1] & allowed[later] & continues).append()
            value = _Ends(inside.value + (p - threshold), inside.path)
            shut[end - 1] = shut[end - 1].larger(value)
        opened = starts.append() if t == 0 else starts.larger(goes_on).append()
    last = opened.larger(shut[-1])
    path, cell = [], last.path[int(last.value.argmax())]
    while cell is not None:
        path.append(cell[1])
        cell = cell[0]
    return read_path(path[::-1], rules)


class _Ends:
    """The best paths that end in each label: their values, and their labels as linked lists."""

    def __init__(self, value: Floats, path: list[Any]) -> None:
        self.value, self.path = value, path

    def larger(self, other: _Ends) -> _Ends:
        """Return the better of two paths for each label."""
        is_better = other.value > self.value
        paths = [
            b if better else a
            for better, a, b in zip(is_better.tolist(), self.path, other.path, strict=True)
        ]
        return _Ends(np.where(is_better, other.value, self.value), paths)

    def follow(self, steps: NDArray[np.bool_]) -> _Ends:
        """Return the best predecessor of each label among the allowed steps (L, L)."""
        values = np.where(steps, self.value[:, None], -np.inf)
        best = values.argmax(axis=0)
        return _Ends(values.max(axis=0), [self.path[a] for a in best.tolist()])

    def append(self) -> _Ends:
        """Return the paths with the label itself added to each."""
        return _Ends(self.value, [(path, label) for label, path in enumerate(self.path)])


def _find_allowed(scores: Scores) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the allowed labels (T, L) and steps (T-1, L, L) of one sequence."""
    arrays = cast(Any, scores)
    allowed = ~np.isneginf(arrays.unary)
    if arrays.mask is not None:
        allowed &= arrays.mask
    if arrays.start is not None:
        allowed[0] &= ~np.isneginf(arrays.start)
    if arrays.end is not None:
        allowed[-1] &= ~np.isneginf(arrays.end)
    length, n_labels = allowed.shape
    steps = np.broadcast_to(~np.isneginf(arrays.transition), (length - 1, n_labels, n_labels))
    return allowed, steps


def read_path(path: Sequence[int], rules: ReadingRules) -> list[tuple[int, int, int]]:
    """Return the spans (label, start, end) of a path of labels.

    >>> class Rules:  # label 0 is outside; label 2 continues 1 and 2
    ...     span_label = np.array([-1, 7, 7])
    ...     continues = np.array([[0, 0, 0], [0, 0, 1], [0, 0, 1]], dtype=bool)
    >>> read_path([2, 2, 1, 0], Rules)
    [(7, 0, 2), (7, 2, 3)]
    """
    labels = np.asarray(path, dtype=np.int64)
    span_label = rules.span_label[labels]
    goes_on = np.append(rules.continues[labels[:-1], labels[1:]], False)
    ends = np.flatnonzero(~goes_on & (span_label >= 0)) + 1
    starts = np.flatnonzero(~np.append(False, goes_on[:-1]) & (span_label >= 0))
    return list(zip(span_label[starts].tolist(), starts.tolist(), ends.tolist(), strict=True))


def paths_with_spans(
    scores: Scores,
    rules: ReadingRules,
    spans: Sequence[Sequence[tuple[int, int, int]]],
    *,
    n_jobs: int | None = None,
) -> list[Integers | None]:
    """Return the most probable path that is read as exactly these spans, for each sequence.

    The result of a sequence is None if no allowed path has its spans.
    """
    results: list[Integers | None] = []
    for block, first in split_blocks(scores):
        arrays = cast(Any, block)
        masks, steps = [], []
        for i, unary in enumerate(arrays.unary):
            label, goes_on = np.full(len(unary), -1), np.zeros(len(unary), dtype=np.bool_)
            for span_label, start, end in spans[first + i]:
                label[start:end] = span_label
                goes_on[start + 1 : end] = True
            mask = rules.span_label == label[:, None]
            masks.append(mask if arrays.mask is None else mask & arrays.mask[i])
            transition = arrays.transition
            matrices = transition[i] if isinstance(transition, list) else transition
            fits = rules.continues == goes_on[1:, None, None]
            steps.append(np.where(fits, matrices, -np.inf))
        block = block._replace(transition=steps, mask=cast(Any, masks))
        log_z = cast(Floats, log_partition(block, n_jobs=n_jobs))
        possible = np.flatnonzero(~np.isneginf(log_z)).tolist()
        paths: list[Integers | None] = [None] * len(steps)
        if possible:
            best = viterbi(select_sequences(block, possible), n_jobs=n_jobs).labels
            for i, path in zip(possible, best, strict=True):
                paths[i] = path
        results += paths
    return results
