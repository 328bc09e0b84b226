"""Spans with exact probabilities, for every sequence model with tagged labels."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from trellis.checks import number_in_range
from trellis.data import tags
from trellis.inference import chain
from trellis.inference.chain import Scores
from trellis.inference.chain.span_choice import (
    best_f1,
    heaviest_labelling,
    heaviest_spans,
    paths_with_spans,
    read_path,
)
from trellis.inference.chain.spans import SpanTable, span_probabilities, span_table

__all__ = ["SpanChance", "SpanDecoding", "predict_best_spans"]

# The set with the largest expected F1 contains only spans with p > F1 / 2. The first search reads
# spans with at least the first probability. If its F1 / 2 is below that probability, spans that it
# did not read may belong to the set, and a second search reads spans with at least the second
# probability. Spans below it are as small as rounding errors.
_MIN_PROBABILITIES = (1e-2, 1e-12)


class SpanChance(NamedTuple):
    """A predicted span and the probability that the sequence has exactly this span."""

    label: str
    start: int
    end: int
    probability: float


class SpanDecoding:
    """Mixin for subclasses of `Decoding`: spans and their probabilities."""

    def predict_spans(
        self, X: Any, scheme: str | None = None, *, min_probability: float | None = None
    ) -> list[list[SpanChance]]:
        """Return the spans of each sequence, each with p(this span | x).

        The probability is the sum over all labellings that have exactly this span: the same label,
        start and end, as `trellis.data.tags.spans` reads it. The spans are those of the best
        labelling. With ``min_probability``, they are instead all spans with at least this
        probability; of spans that overlap, only the most probable one. A larger number gives higher
        precision, a smaller one higher recall; `trellis.metrics.choose_threshold` chooses it.
        ``scheme`` is a tagging scheme of `trellis.data.tags`; with None, it is detected from the
        labels.
        """
        model: Any = self
        model._check_fitted()
        rules = _read_rules(model._column_labels, scheme)
        if min_probability is None:
            return _find_best_labelling(model, X, rules)
        floor = number_in_range(min_probability, 0.0, 1.0, "min_probability")

        def choose(scores: Scores) -> list[Any]:
            tables = span_table(
                scores, rules, max(floor, _MIN_PROBABILITIES[-1]), n_jobs=model.n_jobs
            )
            return [_most_probable(table, rules) for table in tables]

        return cast(list[list[SpanChance]], model._map_slices(X, None, choose, list))


def _read_rules(classes: NDArray[Any], scheme: str | None) -> tags.Reading:
    labels = [str(label) for label in classes.tolist()]
    return tags.reading(labels, scheme or tags.detect(labels))


def _find_best_labelling(model: Any, X: Any, rules: tags.Reading) -> list[list[SpanChance]]:
    """Return the spans of the best labelling of each sequence."""

    def find(scores: Scores) -> list[Any]:
        paths = cast(Any, chain.viterbi(scores, n_jobs=model.n_jobs).labels)
        spans = [read_path(path, rules) for path in paths]
        chances = span_probabilities(scores, rules, spans, n_jobs=model.n_jobs)
        return [
            [
                SpanChance(rules.labels[label], start, end, p)
                for (label, start, end), p in zip(row, p_of_row.tolist(), strict=True)
            ]
            for row, p_of_row in zip(spans, chances, strict=True)
        ]

    return cast(list[list[SpanChance]], model._map_slices(X, None, find, list))


def _most_probable(table: SpanTable, rules: tags.Reading) -> list[SpanChance]:
    """Return spans without overlap: of spans that overlap, the most probable one."""
    # If every pair of tags of a label continues a span, as in the plain scheme, two spans of that
    # label that touch would be read as one, so only one is chosen.
    same_label = rules.span_label[:, None] == rules.span_label
    joined = {
        label
        for label in range(len(rules.labels))
        if rules.continues[same_label & (rules.span_label == label)].all()
    }
    label_at = np.full(int(table.end.max(initial=0)) + 2, -1)  # one more position at each end
    chosen = []
    for n in np.argsort(-table.probability, kind="stable").tolist():
        label, start, end = (int(column[n]) for column in table[:3])
        touches = label in joined and label in (label_at[start], label_at[end + 1])
        if touches or (label_at[start + 1 : end + 1] >= 0).any():
            continue
        label_at[start + 1 : end + 1] = label
        p = float(table.probability[n])
        chosen.append(SpanChance(rules.labels[label], start, end, p))
    return sorted(chosen, key=lambda span: span.start)


# ---- the largest expected F1


class _Candidates(NamedTuple):
    """The spans of one sequence from which the search chooses, and its best labelling."""

    table: SpanTable
    path: NDArray[np.int64]
    """The best labelling."""


def predict_best_spans(model: Any, X: list[Any], known: list[Any] | None) -> list[list[int]]:
    """Return the labelling of each sequence whose spans have the largest expected F1 in all of X.

    A labelling is a list of columns of scores. Of all labellings with the chosen spans, the most
    probable one is returned. `trellis.inference.chain.span_choice` explains criterion and method.
    """
    rules = _read_rules(model._column_labels, None)
    paths: list[list[int]] = []
    for floor in _MIN_PROBABILITIES:
        paths, f1 = _Search(model, X, known, rules, floor).run()
        if f1 / 2.0 >= floor:  # the best set has no span with p < f1 / 2
            break
    return paths


class _Search:
    """The search for the best spans of some sequences, among those with p >= floor."""

    def __init__(
        self, model: Any, X: list[Any], known: list[Any] | None, rules: tags.Reading, floor: float
    ) -> None:
        self.model, self.X, self.known, self.rules, self.floor = model, X, known, rules, floor

    def run(self) -> tuple[list[list[int]], float]:
        """Return the columns of scores of each sequence, and the expected F1 of their spans."""
        everything = range(len(self.X))
        candidates = self._map(
            everything, self._collect, _Candidates(_EMPTY, np.empty(0, np.int64))
        )
        tables = [candidate.table for candidate in candidates]
        choices = [partial(heaviest_spans, table) for table in tables]
        paths = [candidate.path.tolist() for candidate in candidates]
        read = [read_path(path, self.rules) for path in paths]
        while True:
            f1, spans = best_f1(choices, tables)
            changed = [i for i in everything if spans[i] != read[i]]
            wanted = iter([spans[i] for i in changed])
            new_paths = self._map(changed, partial(self._find_paths, wanted), [])
            impossible = [i for i, p in zip(changed, new_paths, strict=True) if p is None]
            if not impossible:
                for i, path in zip(changed, new_paths, strict=True):
                    paths[i] = path.tolist()
                return paths, f1
            # No allowed labelling of these sequences has the chosen spans: for example, two spans
            # touch, which the plain scheme cannot express. The exact search finds spans that are
            # possible. It is slow, so only these sequences use it.
            restricted = self._map(impossible, self._restrict, None)
            for i, (table, choose) in zip(impossible, restricted, strict=True):
                tables[i], choices[i] = table, choose

    def _map(self, indices: Sequence[int], function: Any, empty: Any) -> list[Any]:
        known = None if self.known is None else [self.known[i] for i in indices]
        X = [self.X[i] for i in indices]
        return cast(list[Any], self.model._map_slices(X, known, function, lambda: empty))

    def _collect(self, scores: Scores) -> list[Any]:
        n_jobs = self.model.n_jobs
        paths = cast(Any, chain.viterbi(scores, n_jobs=n_jobs).labels)
        tables = span_table(scores, self.rules, self.floor, n_jobs=n_jobs)
        return list(map(_Candidates, tables, paths))

    def _find_paths(self, spans: Any, scores: Scores) -> list[Any]:
        wanted = [next(spans) for _ in cast(list[Any], scores.unary)]
        return paths_with_spans(scores, self.rules, wanted, n_jobs=self.model.n_jobs)

    def _restrict(self, scores: Scores) -> list[Any]:
        tables = span_table(scores, self.rules, _MIN_PROBABILITIES[-1], n_jobs=self.model.n_jobs)
        restricted = []
        for i, table in enumerate(tables):
            one = Scores(*(_item(part, i) for part in scores[:5]))
            restricted.append((table, partial(heaviest_labelling, one, self.rules, table)))
        return restricted


def _item(part: Any, i: int) -> Any:
    """Return the part of the scores that belongs to sequence i."""
    return part[i] if isinstance(part, list) else part


_NOTHING = np.empty(0, np.int64)
_EMPTY = SpanTable(_NOTHING, _NOTHING, _NOTHING, np.empty(0), 0.0)
