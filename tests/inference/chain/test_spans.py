"""Probabilities of spans and the choice of spans agree with the enumeration of all labellings."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from brute import all_labels, enumerate_chain

from trellis.data import tags
from trellis.inference import chain
from trellis.inference.chain import reference, span_choice, spans
from trellis.inference.chain.posterior import posterior_path

SCHEMES = [
    ("IOB1", ["B-X", "I-X", "I-Y", "O"]),
    ("BIO", ["B-X", "I-X", "O"]),
    ("BIO", ["B-X", "B-Y", "I-X", "I-Y"]),
    ("IOE1", ["E-X", "I-X", "O"]),
    ("IOE2", ["E-X", "I-X", "O", "E-Y"]),
    ("BIOES", ["B-X", "E-X", "I-X", "O", "S-X"]),
    ("BILOU", ["B-X", "I-X", "L-X", "O", "U-X"]),
    ("plain", ["X", "Y", "O"]),
    ("plain", ["X", "Y"]),
    ("BIO", ["O"]),
]
IDS = [f"{scheme} {' '.join(labels)}" for scheme, labels in SCHEMES]


def make_scores(
    seed: int, labels: list[str], scheme: str, constrained: bool, lengths: Any = (4, 1, 3)
) -> chain.Scores:
    """Return random scores of a list of sequences; the second variants forbid transitions."""
    rng = np.random.default_rng(seed)
    n = len(labels)
    unary = [rng.normal(0.0, 2.0, (length, n)) for length in lengths]
    start, end = rng.normal(size=(2, n))
    if not constrained:
        by_step = [rng.normal(0.0, 2.0, (length - 1, n, n)) for length in lengths]
        return chain.Scores(unary, by_step, start, end)
    allowed = tags.allowed_transitions(labels, scheme)
    return chain.Scores(
        unary,
        np.where(allowed.matrix, rng.normal(0.0, 2.0, (n, n)), -np.inf),
        np.where(allowed.start, start, -np.inf),
        np.where(allowed.end, end, -np.inf),
    )


def one(scores: chain.Scores, i: int) -> tuple[Any, ...]:
    """Return unary, transition, start and end of sequence i."""
    return tuple(part[i] if isinstance(part, list) else part for part in scores[:4])


def enumerate_spans(
    scores: chain.Scores, i: int, labels: list[str], scheme: str
) -> tuple[dict[tuple[str, int, int], float], list[tuple[float, list[tags.Span]]]]:
    """Return p of each span of sequence i, and (p, spans) of each labelling."""
    truth = enumerate_chain(*one(scores, i))
    assert truth.probabilities is not None
    p_of_span: Counter[Any] = Counter()
    readings = []
    for p, path in zip(truth.probabilities, all_labels(truth.length, len(labels)), strict=True):
        read = tags.spans([labels[n] for n in path], scheme)
        readings.append((float(p), read))
        for span in read:
            p_of_span[tuple(span)] += p
    return dict(p_of_span), readings


def as_dict(table: spans.SpanTable, rules: tags.Reading) -> dict[tuple[str, int, int], float]:
    columns = (column.tolist() for column in table[:4])
    return {(rules.labels[x], i, j): p for x, i, j, p in zip(*columns, strict=True)}


@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize(("scheme", "labels"), SCHEMES, ids=IDS)
def test_probabilities_of_all_spans(scheme: str, labels: list[str], constrained: bool) -> None:
    rules = tags.reading(labels, scheme)
    scores = make_scores(3, labels, scheme, constrained)
    tables = spans.span_table(scores, rules, 0.0)
    pruned = spans.span_table(scores, rules, 0.05)
    assert len(tables) == len(pruned) == 3
    for i, table in enumerate(tables):
        expected = {s: p for s, p in enumerate_spans(scores, i, labels, scheme)[0].items() if p}
        assert as_dict(table, rules) == pytest.approx(expected, abs=1e-10)
        assert table.expected == pytest.approx(sum(expected.values()), abs=1e-10)
        assert pruned[i].expected == table.expected
        likely = {s: p for s, p in as_dict(table, rules).items() if p >= 0.05}
        assert as_dict(pruned[i], rules) == likely
        keys = list(zip(table.start, table.end, table.label, strict=True))
        assert keys == sorted(keys)
        index = [(rules.labels.index(x), *bounds) for x, *bounds in expected]
        chances = spans.span_probabilities(
            scores, rules, [index if k == i else [] for k in range(3)]
        )
        assert [len(p) for p in chances] == [len(index) if k == i else 0 for k in range(3)]
        np.testing.assert_allclose(chances[i], list(expected.values()), atol=1e-10)
        for span, p in zip(index, chances[i], strict=True):
            slow = reference.span_probability(
                *one(scores, i), span=span, span_label=rules.span_label, continues=rules.continues
            )
            assert p == pytest.approx(float(slow), abs=1e-10)


@pytest.mark.parametrize(("scheme", "labels"), SCHEMES, ids=IDS)
def test_the_reading_of_paths(scheme: str, labels: list[str]) -> None:
    rules = tags.reading(labels, scheme)
    for path in all_labels(4, len(labels)):
        read = span_choice.read_path(path, rules)
        expected = tags.spans([labels[n] for n in path], scheme)
        assert [(rules.labels[x], i, j) for x, i, j in read] == expected


def test_blocks_do_not_change_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    scheme, labels = SCHEMES[2]
    rules = tags.reading(labels, scheme)
    scores = make_scores(5, labels, scheme, False, [3, 1, 4, 2, 5, 1, 1, 3])
    mask = [np.random.default_rng(6).random(u.shape) < 0.9 for u in scores.unary]  # type: ignore[union-attr]
    scores = scores._replace(mask=mask)  # type: ignore[arg-type]
    together = spans.span_table(scores, rules, 0.01)
    wanted = [span_choice.heaviest_spans(table, 0.1) for table in together]
    paths = span_choice.paths_with_spans(scores, rules, wanted)
    chances = spans.span_probabilities(scores, rules, wanted)
    for limit in (1, 7 * 16):
        monkeypatch.setattr(spans, "_BLOCK_NUMBERS", limit)
        blocks = [len(block.unary) for block, _ in spans.split_blocks(scores)]  # type: ignore[arg-type]
        assert blocks == ([1] * 8 if limit == 1 else [2, 2, 3, 1])
        for a, b in zip(together, spans.span_table(scores, rules, 0.01), strict=True):
            for left, right in zip(a, b, strict=True):
                np.testing.assert_allclose(left, right, rtol=1e-12)
        for a, b in zip(chances, spans.span_probabilities(scores, rules, wanted), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
        for left, right in zip(
            paths, span_choice.paths_with_spans(scores, rules, wanted), strict=True
        ):
            np.testing.assert_array_equal(left, right)


def test_long_sequences_keep_all_digits() -> None:
    """One label string only: a span of 3,000 positions with p = 1/2, and 3,000 without it."""
    rules = tags.reading(["O", "I-X"], "BIO")
    stay = np.where(np.eye(2, dtype=bool), 0.0, -np.inf)
    scores = chain.Scores([np.zeros((3000, 2))], stay)
    (table,) = spans.span_table(scores, rules, 1e-6)
    assert (table.start.tolist(), table.end.tolist()) == ([0], [3000])
    assert table.probability == pytest.approx([0.5], abs=1e-10)
    assert spans.span_probabilities(scores, rules, [[(0, 0, 3000), (0, 0, 2999)]])[0] == (
        pytest.approx([0.5, 0.0], abs=1e-10)
    )


# ---- the choice of spans


def expected_f1(chosen: Any, p_of_span: list[Any]) -> float:
    """2 Σ p / (|S| + N) for one list of spans per sequence."""
    n_true = sum(sum(p.values()) for p in p_of_span)
    p = sum(p.get(tuple(s), 0.0) for p, row in zip(p_of_span, chosen, strict=True) for s in row)
    total = sum(map(len, chosen)) + n_true
    return float(2 * p / total) if total else 0.0


@pytest.mark.parametrize("threshold", [0.0, 0.1, 0.25, 0.6])
def test_the_heaviest_spans_by_enumeration(threshold: float) -> None:
    rng = np.random.default_rng(8)
    for _ in range(40):
        start = rng.integers(0, 5, size=6)
        end = start + rng.integers(1, 4, size=6)
        table = spans.SpanTable(np.arange(6), start, end, rng.random(6), 2.0)
        best = 0.0
        for subset in (c for k in range(7) for c in combinations(range(6), k)):
            ordered = sorted(subset, key=lambda n: start[n])
            if all(end[a] <= start[b] for a, b in pairwise(ordered)):
                best = max(best, sum(table.probability[n] - threshold for n in subset))
        chosen = span_choice.heaviest_spans(table, threshold)
        assert chosen == sorted(chosen, key=lambda span: span[1])
        assert sum(table.probability[n] - threshold for n, _, _ in chosen) == pytest.approx(
            best, abs=1e-12
        )


@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize(("scheme", "labels"), SCHEMES, ids=IDS)
def test_the_heaviest_labelling_by_enumeration(
    scheme: str, labels: list[str], constrained: bool
) -> None:
    rules = tags.reading(labels, scheme)
    scores = make_scores(12, labels, scheme, constrained)
    rng = np.random.default_rng(1)
    if not constrained:  # other forbidden transitions at each position
        steps = [np.where(rng.random(a.shape) < 0.8, a, -np.inf) for a in scores.transition]  # type: ignore[union-attr]
        scores = scores._replace(transition=steps)
    mask = [rng.random(u.shape) < 0.8 for u in scores.unary]  # type: ignore[union-attr]
    for masked in (scores, scores._replace(mask=mask)):  # type: ignore[arg-type]
        for i in range(3):
            arrays = chain.Scores(
                *(part[i] if isinstance(part, list) else part for part in masked[:5])
            )
            truth = enumerate_chain(*one(masked, i), mask=arrays.mask)  # type: ignore[arg-type]
            if not truth.feasible:
                continue
            (table,) = spans.span_table(
                masked._replace(
                    **{  # type: ignore[arg-type]
                        name: None
                        if part is None
                        else [part[i]]
                        if isinstance(part, list)
                        else part
                        for name, part in zip(masked._fields, masked, strict=True)
                    }
                ),
                rules,
                0.0,
            )
            weight = as_dict(table, rules)
            for threshold in (0.0, 0.2, 0.7):
                best = -np.inf
                for value, path in zip(
                    truth.scores, all_labels(truth.length, len(labels)), strict=True
                ):
                    if value > -np.inf:
                        read = tags.spans([labels[n] for n in path], scheme)
                        best = max(best, sum(weight[tuple(s)] - threshold for s in read))
                chosen = span_choice.heaviest_labelling(arrays, rules, table, threshold)
                names = [(rules.labels[x], first, end) for x, first, end in chosen]
                total = sum(weight[s] - threshold for s in names)
                assert total == pytest.approx(best, abs=1e-10)


def test_spans_that_are_not_in_the_table_cost_the_threshold() -> None:
    rules = tags.reading(["X", "Y"], "plain")  # every labelling has spans
    empty = np.empty(0, np.int64)
    table = spans.SpanTable(empty, empty, empty, np.empty(0), 1.0)
    scores = chain.Scores(np.zeros((3, 2)), np.zeros((2, 2)))
    assert span_choice.heaviest_labelling(scores, rules, table, 0.3) == [(0, 0, 3)]
    one_span = spans.SpanTable(*np.array([[1], [1], [2]]), np.array([0.7]), 1.0)
    # X, Y, X costs 0.6 and gains 0.4; one long span costs 0.3.
    assert span_choice.heaviest_labelling(scores, rules, one_span, 0.3) == [
        (0, 0, 1),
        (1, 1, 2),
        (0, 2, 3),
    ]
    assert span_choice.heaviest_labelling(scores, rules, one_span, 0.36) == [(0, 0, 3)]


@pytest.mark.parametrize(("scheme", "labels"), SCHEMES, ids=IDS)
def test_paths_with_spans_by_enumeration(scheme: str, labels: list[str]) -> None:
    rules = tags.reading(labels, scheme)
    scores = make_scores(21, labels, scheme, True)
    best: list[dict[Any, Any]] = []
    for i in range(3):
        truth = enumerate_chain(*one(scores, i))
        best_of: dict[Any, Any] = {}
        for value, path in zip(truth.scores, all_labels(truth.length, len(labels)), strict=True):
            key = tuple(span_choice.read_path(path, rules))
            if value > best_of.get(key, (-np.inf, None))[0]:
                best_of[key] = value, path.tolist()
            best_of.setdefault(key, (-np.inf, None))
        best.append(best_of)
    for key, (_, path) in best[0].items():
        for other, (_, second) in list(best[2].items())[:3]:
            one_label = next(iter(best[1]))
            result = span_choice.paths_with_spans(
                scores, rules, [list(key), list(one_label), list(other)]
            )
            paths = [None if p is None else p.tolist() for p in result]
            assert paths == [path, best[1][one_label][1], second]


def test_no_spans_at_all() -> None:
    rules = tags.reading(["O"], "BIO")
    scores = chain.Scores([np.zeros((2, 1))], np.zeros((1, 1)))
    (table,) = spans.span_table(scores, rules, 0.1)
    assert (len(table.label), table.expected) == (0, 0.0)
    choices = [lambda threshold: span_choice.heaviest_spans(table, threshold)]
    assert span_choice.best_f1(choices, [table]) == (0.0, [[]])


def test_best_f1_by_enumeration() -> None:
    """The best of all sets of spans without overlap, over two sequences together."""
    scheme, labels = "BIO", ["B-X", "I-X", "O"]
    rules = tags.reading(labels, scheme)
    for seed in range(8):
        scores = make_scores(seed, labels, scheme, False, [3, 2])
        tables = spans.span_table(scores, rules, 0.0)
        p_of_span = [enumerate_spans(scores, i, labels, scheme)[0] for i in range(2)]
        sets = [
            {tuple(tags.spans([labels[n] for n in path])) for path in all_labels(length, 3)}
            for length in (3, 2)
        ]
        best = max(expected_f1([a, b], p_of_span) for a in sets[0] for b in sets[1])
        choices = [
            lambda threshold, table=table: span_choice.heaviest_spans(table, threshold)
            for table in tables
        ]
        value, chosen = span_choice.best_f1(choices, tables)
        assert value == pytest.approx(best, abs=1e-10)
        names = [[(rules.labels[x], i, j) for x, i, j in row] for row in chosen]
        assert expected_f1(names, p_of_span) == pytest.approx(best, abs=1e-10)


# ---- posterior decoding


@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("layout", ["list", "one", "batch"])
def test_the_posterior_path_by_enumeration(layout: str, constrained: bool) -> None:
    scheme, labels = SCHEMES[5]
    lengths = (4, 4, 4) if layout == "batch" else (4, 1, 3)
    for seed in range(5):
        scores = make_scores(seed, labels, scheme, constrained, lengths)
        rng = np.random.default_rng(seed)
        mask = [rng.random(u.shape) < 0.9 for u in scores.unary]  # type: ignore[union-attr]
        for row in mask:
            row[:, 3] = True  # O
        scores = scores._replace(mask=mask)  # type: ignore[arg-type]
        if layout == "list":
            path = posterior_path(scores)
        elif layout == "batch":
            arrays = [np.stack(p) if isinstance(p, list) else p for p in scores[:5]]
            path = posterior_path(chain.Scores(*arrays, lengths=np.array(lengths)))
        for i in range(3):
            parts = (*one(scores, i), mask[i])
            if layout == "one":
                alone = posterior_path(chain.Scores(*parts))
                got, value = alone.labels, alone.score
            else:
                got, value = path.labels[i], path.score[i]  # type: ignore[index]
            truth = enumerate_chain(*parts)
            p = truth.unary_marginals()
            paths = all_labels(truth.length, len(labels))[truth.scores > -np.inf]
            sums = p[np.arange(truth.length), paths].sum(axis=1)
            assert value == pytest.approx(sums.max(), abs=1e-10)
            assert got.tolist() in paths.tolist()
            assert p[np.arange(truth.length), got].sum() == pytest.approx(sums.max(), abs=1e-10)
            slow = reference.posterior_path(*parts[:4], mask=mask[i])
            np.testing.assert_array_equal(got, slow.labels)
            assert value == pytest.approx(float(slow.score), abs=1e-10)
