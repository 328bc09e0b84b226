"""Probabilities of spans.

A path is read as spans by rules on pairs of neighbours: a span starts at each label b that is not
outside and does not continue the label before it, and goes on as long as labels continue it. With
the marginals p(yₜ) and p(yₜ₋₁, yₜ), the probability of exactly the span (x, i, j) is a sum over all
its label strings, computed from left to right:

    Fᵢ(b)    = Σ_{a : b does not continue a} p(yᵢ₋₁ = a, yᵢ = b)            b has the span label x
    Fₜ(b)    = Σ_{a : b continues a} Fₜ₋₁(a) p(yₜ = b | yₜ₋₁ = a)
    p(x,i,j) = Σ_a Fⱼ₋₁(a) Σ_{b : b does not continue a} p(yⱼ = b | yⱼ₋₁ = a)

In the last formula, the sum over b is 1 at the end of the sequence. All terms are probabilities, so
no logarithms are needed. A longer span with the same start is never more probable than Σ_b Fₜ(b),
so the loop ends when this sum is below the smallest probability of interest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from trellis.inference.chain.cpu import marginals
from trellis.inference.chain.layout import Floats, Integers
from trellis.inference.chain.scores import Scores

__all__ = [
    "ReadingRules",
    "SpanTable",
    "select_sequences",
    "span_probabilities",
    "span_table",
    "split_blocks",
]

# The number of pairwise marginals in one block of sequences: 64 MB of float64.
_BLOCK_NUMBERS = 1 << 23


class ReadingRules(Protocol):
    """The rules by which paths are read as spans: see `trellis.data.tags.Reading`."""

    @property
    def span_label(self) -> Integers:
        """(L,) The number of the span label of each label; -1 outside."""

    @property
    def continues(self) -> NDArray[np.bool_]:
        """(L, L) ``[a, b]`` is True if b after a continues its span; both have one span label."""


class SpanTable(NamedTuple):
    """Some spans of one sequence, ordered by start, end and label."""

    label: Integers
    start: Integers
    end: Integers
    probability: Floats
    expected: float
    """The expected number of all spans of the sequence: the sum of all probabilities."""


def span_table(
    scores: Scores, rules: ReadingRules, min_probability: float, *, n_jobs: int | None = None
) -> list[SpanTable]:
    """Return the spans with at least this probability, for each sequence of a list.

    >>> class Rules:  # label 0 is outside; label 2 continues 1 and 2
    ...     span_label = np.array([-1, 0, 0])
    ...     continues = np.array([[0, 0, 0], [0, 0, 1], [0, 0, 1]], dtype=bool)
    >>> table = span_table(Scores([np.zeros((2, 3))], np.zeros((3, 3))), Rules, 0.3)[0]
    >>> table.start, table.end, table.probability.round(3)  # 4 and 3 of 9 paths have these spans
    (array([0, 1]), array([1, 2]), array([0.444, 0.444]))
    >>> round(table.expected, 3)
    1.111
    """
    tables: list[SpanTable] = []
    for block, _ in split_blocks(scores):
        walk = _Walk(block, rules, n_jobs)
        hits = [np.empty((0, 3), np.int64)]
        values = [np.empty(0)]
        rows, mass = np.arange(len(walk.first)), walk.first
        length = 1
        while True:
            total = mass.sum(axis=1)
            is_open = (total > 0.0) & (total >= min_probability)
            rows, mass = rows[is_open], mass[is_open]
            if not len(rows):
                break
            p = walk.finish(rows + length - 1, mass)
            index, label = np.nonzero((p > 0.0) & (p >= min_probability))
            hits.append(np.stack([rows[index], np.full(len(index), length), label], axis=1))
            values.append(p[index, label])
            rows, mass = walk.extend(rows, mass, length)
            length += 1
        tables += _split_table(walk, np.concatenate(hits), np.concatenate(values))
    return tables


def _split_table(walk: _Walk, hits: Integers, values: Floats) -> list[SpanTable]:
    """Return one table per sequence, from (row, length, label) of the spans of a block."""
    order = np.lexsort((hits[:, 2], hits[:, 1], hits[:, 0]))
    row, length, label = hits[order].T
    values = values[order]
    bounds = np.searchsorted(row, walk.begins)
    expected = np.add.reduceat(walk.first.sum(axis=1), walk.begins[:-1])
    tables = []
    for i, (begin, end) in enumerate(pairwise(bounds.tolist())):
        start = row[begin:end] - walk.begins[i]
        tables.append(
            SpanTable(
                label[begin:end],
                start,
                start + length[begin:end],
                values[begin:end],
                float(expected[i]),
            )
        )
    return tables


def span_probabilities(
    scores: Scores,
    rules: ReadingRules,
    spans: Sequence[Sequence[tuple[int, int, int]]],
    *,
    n_jobs: int | None = None,
) -> list[Floats]:
    """Return the probability of each span (label, start, end), for each sequence of a list."""
    results: list[Floats] = []
    for block, first in split_blocks(scores):
        walk = _Walk(block, rules, n_jobs)
        n_sequences = len(walk.begins) - 1
        wanted = spans[first : first + n_sequences]
        counts = [len(spans_of_sequence) for spans_of_sequence in wanted]
        table = np.array([span for row in wanted for span in row], np.int64).reshape(-1, 3)
        rows = table[:, 1] + np.repeat(walk.begins[:-1], counts)
        lengths = table[:, 2] - table[:, 1]
        mass = walk.first[rows] * (walk.span_label == table[:, :1])
        p, index, length = np.zeros(len(table)), np.arange(len(table)), 1
        while len(index):
            ends_here = lengths[index] == length
            done = index[ends_here]
            at_end = walk.finish(rows[done] + length - 1, mass[ends_here])
            p[done] = at_end[np.arange(len(done)), table[done, 0]]
            index, mass = index[~ends_here], mass[~ends_here]
            mass = walk.extend(rows[index], mass, length)[1]
            length += 1
        results += np.split(p, np.cumsum(counts)[:-1])
    return results


class _Walk:
    """The probabilities by which spans start, go on and end, for all positions of a block."""

    def __init__(self, block: Scores, rules: ReadingRules, n_jobs: int | None) -> None:
        result = marginals(block, n_jobs=n_jobs)
        unary = cast(list[Floats], result.unary)
        lengths = np.array([len(p) for p in unary])
        p = np.concatenate(unary)
        pairs = np.concatenate(cast(list[Floats], result.pairwise))
        self.begins = np.concatenate([[0], np.cumsum(lengths)])
        """(sequences + 1,) The first row of each sequence among all positions."""
        self.span_label = rules.span_label
        is_first, is_last = np.zeros(len(p), bool), np.zeros(len(p), bool)
        is_first[self.begins[:-1]], is_last[self.begins[1:] - 1] = True, True
        breaks = (~rules.continues).astype(float)
        self.first = p.copy()
        """(rows, L) p(a span starts here, and its first label is b)."""
        self.first[~is_first] = np.einsum("tab,ab->tb", pairs, breaks)
        self.first[:, rules.span_label < 0] = 0.0
        # A label with the probability 0 has no successors: 1 / inf makes its scale 0.
        scale = 1.0 / np.where(p[~is_last] > 0.0, p[~is_last], np.inf)
        self.stops = np.ones_like(p)
        """(rows, L) p(the next label does not continue b | the label here is b)."""
        self.stops[~is_last] = np.einsum("tab,ab->ta", pairs, breaks) * scale
        # The pairs are sorted by the second label, for sums over the first one.
        after, before = np.nonzero(rules.continues.T)
        self._before = before
        self._after, self._groups = np.unique(after, return_index=True)
        self._goes_on = np.zeros((len(p), len(before)))
        self._goes_on[~is_first] = pairs[:, before, after] * scale[:, before]
        self._end_of_row = np.repeat(self.begins[1:], lengths)
        n_span_labels = max(int(rules.span_label.max()) + 1, 1)
        self._columns = rules.span_label[:, None] == np.arange(n_span_labels)

    def finish(self, rows: Integers, mass: Floats) -> Floats:
        """Return the probability of spans that end at these rows, (spans, span labels)."""
        p = (mass * self.stops[rows]) @ self._columns.astype(float)
        # By rounding, a sum of probabilities can be larger than 1.
        return cast(Floats, np.minimum(p, 1.0))

    def extend(self, rows: Integers, mass: Floats, length: int) -> tuple[Integers, Floats]:
        """Return the spans that go on after ``length`` positions, and their new probabilities."""
        has_next = rows + length < self._end_of_row[rows]
        rows, mass = rows[has_next], mass[has_next]
        longer = np.zeros_like(mass)
        if len(rows) and len(self._before):
            products = mass[:, self._before] * self._goes_on[rows + length]
            longer[:, self._after] = np.add.reduceat(products, self._groups, axis=1)
        return rows, longer


def split_blocks(scores: Scores) -> Iterator[tuple[Scores, int]]:
    """Yield blocks of the sequences of a list, and the index of the first sequence of each."""
    arrays = cast(Any, scores)
    n_labels = arrays.unary[0].shape[1]
    ends = np.cumsum([len(u) * n_labels * n_labels for u in arrays.unary])
    begin = 0
    while begin < len(ends):
        before = int(ends[begin - 1]) if begin else 0
        end = max(int(np.searchsorted(ends, before + _BLOCK_NUMBERS, side="right")), begin + 1)
        yield select_sequences(scores, range(begin, end)), begin
        begin = end


def select_sequences(scores: Scores, indices: Sequence[int]) -> Scores:
    """Return the scores of some sequences of a list."""
    arrays = cast(Any, scores)
    transition, mask = arrays.transition, arrays.mask
    return scores._replace(
        unary=[arrays.unary[i] for i in indices],
        transition=[transition[i] for i in indices] if isinstance(transition, list) else transition,
        mask=None if mask is None else [mask[i] for i in indices],
    )
