"""Inspection: contributions that add up, tables of weights, probabilities of spans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from labellings import (
    all_paths,
    edge_part,
    probabilities,
    random_data,
    score,
    state_part,
    weights_by_name,
)
from sklearn.exceptions import NotFittedError

import trellis
from trellis.data import tags
from trellis.errors import InputError


@pytest.fixture(scope="module", params=[0, 3], ids=["plain", "edges"])
def fitted(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    X, y = random_data(11, 4, [4, 2, 5, 1, 3], edge_attributes=request.param)
    edges = edge_part if request.param else None
    return trellis.CRF(state_part, edge_features=edges, l2=0.2).fit(X, y), X


# ---- explain


def test_contributions_sum_to_the_difference_of_the_scores(fitted: Any) -> None:
    model, X = fitted
    classes = model.classes_.tolist()
    for x in X:
        scores, chosen = score(model, model.coef_, x), model.predict([x])[0]
        path = [classes.index(label) for label in chosen]
        for t, explanation in enumerate(model.explain(x)):
            assert (explanation.position, explanation.label) == (t, chosen[t])
            runner_up = [*path[:t], classes.index(explanation.runner_up), *path[t + 1 :]]
            expected = scores.of(path) - scores.of(runner_up)
            assert sum(c.difference for c in explanation.contributions) == pytest.approx(expected)


def test_probabilities_are_the_marginals(fitted: Any) -> None:
    model, X = fitted
    classes = model.classes_.tolist()
    for x, table in zip(X, model.predict_marginals(X), strict=True):
        for explanation, row in zip(model.explain(x), table, strict=True):
            chosen, runner_up = (
                classes.index(explanation.label),
                classes.index(explanation.runner_up),
            )
            assert explanation.probability == pytest.approx(row[chosen])
            assert explanation.runner_up_probability == pytest.approx(np.delete(row, chosen).max())
            assert chosen != runner_up


def test_each_contribution_is_value_times_weight(fitted: Any) -> None:
    model, X = fitted
    state, _, edge = weights_by_name(model, model.coef_)
    x = X[2]
    for t, explanation in enumerate(model.explain(x)):
        contributions = {c.feature: c for c in explanation.contributions}
        assert len(contributions) == len(explanation.contributions)
        for name, value in x[t][0].items():
            assert contributions[name].value == pytest.approx(value)
            assert contributions[name].chosen == pytest.approx(
                value * state[name].get(explanation.label, 0.0)
            )
            runner_up = value * state[name].get(explanation.runner_up, 0.0)
            assert contributions[name].runner_up == pytest.approx(runner_up)
        for name in x[t][1] if t and edge else ():
            assert f"into:{name}" in contributions
        sizes = [abs(c.difference) for c in explanation.contributions]
        assert sizes == sorted(sizes, reverse=True)


def test_explain_a_sequence_of_strings() -> None:
    X = [["the", "dog", "barks"], ["a", "cat", "sleeps"]]
    model = trellis.CRF(l2=0.1).fit(X, [["DET", "NOUN", "VERB"]] * 2)
    explanation = model.explain(["the", "cat", "barks"])[1]
    assert explanation.label == "NOUN"
    assert any("cat" in c.feature for c in explanation.contributions)
    assert any(c.feature.startswith("transition:") for c in explanation.contributions)


def test_explain_arrays() -> None:
    X = [np.eye(3)] * 2
    model = trellis.CRF(l2=0.1).fit(X, [["P", "Q", "R"]] * 2)
    assert model.explain(np.eye(3))[2].contributions[0].feature in {"2", "transition:into Q"}


def test_explain_an_empty_sequence(fitted: Any) -> None:
    model, _ = fitted
    assert model.explain([]) == []


def test_explain_with_a_single_label() -> None:
    model = trellis.CRF().fit([["a", "b"]], [["P", "P"]])
    explanation = model.explain(["a"])[0]
    assert explanation.probability == pytest.approx(1.0)
    assert sum(c.difference for c in explanation.contributions) == 0.0


def test_explain_a_memm() -> None:
    X, y = random_data(11, 4, [4, 2, 5])
    model = trellis.MEMM(state_part).fit(X, y)
    assert [explanation.label for explanation in model.explain(X[0])] == model.predict([X[0]])[0]


# ---- tables


def test_transitions_are_all_bigrams_sorted_by_weight(fitted: Any) -> None:
    model, _ = fitted
    weights = {(t.before, t.after): t.weight for t in model.transitions_}
    assert weights == weights_by_name(model, model.coef_)[1]
    weights = [t.weight for t in model.transitions_]
    assert weights == sorted(weights, reverse=True)


def test_top_features_of_each_label(fitted: Any) -> None:
    model, _ = fitted
    state = weights_by_name(model, model.coef_)[0]
    for label in model.classes_:
        weights = {name: weights[label] for name, weights in state.items() if label in weights}
        rows = model.top_features(n=3, label=label)
        assert [row.label for row in rows] == [label] * min(3, len(weights))
        best = sorted(map(abs, weights.values()), reverse=True)[:3]
        assert [abs(row.weight) for row in rows] == best
        assert all(weights[row.feature] == row.weight for row in rows)
    everything = model.top_features(n=None)
    assert len(everything) == sum(map(len, state.values()))


def test_an_unknown_label_has_no_top_features(fitted: Any) -> None:
    with pytest.raises(InputError, match="nope"):
        fitted[0].top_features(label="nope")


@pytest.mark.parametrize("cls", [trellis.CRF, trellis.MEMM])
def test_inspection_needs_a_fitted_model(cls: Any) -> None:
    for inspect in (
        lambda m: m.transitions_,
        lambda m: m.top_features(),
        lambda m: m.explain(["a"]),
        lambda m: m.predict_spans([["a"]]),
    ):
        with pytest.raises(NotFittedError):
            inspect(cls())


# ---- spans


def span_chance(model: Any, x: Any, span: Any, scheme: str) -> float:
    """p of all labellings that have exactly this span."""
    scores, classes = score(model, model.coef_, x), model.classes_.tolist()
    p, total = probabilities(scores, classes), 0.0
    for chance, path in zip(p, all_paths(len(x), len(classes)), strict=True):
        labelling = [classes[n] for n in path]
        if span in tags.spans(labelling, scheme):
            total += chance
    return total


@pytest.mark.parametrize(
    ("scheme", "classes"),
    [
        ("BIO", ["B-X", "I-X", "O"]),
        ("BIO", ["B-X", "B-Y", "I-X", "I-Y"]),
        ("IOB1", ["B-X", "I-X", "O"]),
        ("BILOU", ["B-X", "I-X", "L-X", "O", "U-X"]),
        ("BIOES", ["B-X", "E-X", "O", "S-X"]),
        ("plain", ["X", "Y", "O"]),
    ],
)
def test_span_probabilities_by_enumeration(scheme: str, classes: list[str]) -> None:
    rng = np.random.default_rng(4)
    X, _ = random_data(4, 2, [4, 3, 4, 2, 4, 1, 4])
    y = [[classes[n] for n in rng.integers(len(classes), size=len(x))] for x in X]
    y[0][: len(classes)] = classes[: len(y[0])]
    y[2][:1] = classes[-1:]
    model = trellis.CRF(state_part, l2=0.2).fit(X, y)
    assert set(model.classes_) == set(classes)
    count = 0
    predicted, all_spans = model.predict(X), model.predict_spans(X, scheme=scheme)
    for x, labels, spans in zip(X, predicted, all_spans, strict=True):
        assert [tags.Span(*span[:3]) for span in spans] == tags.spans(labels, scheme)
        for span in spans:
            expected = span_chance(model, x, tags.Span(*span[:3]), scheme)
            assert span.probability == pytest.approx(expected, abs=1e-10)
            count += 1
    assert count > 3


def test_a_longer_span_to_the_left_does_not_count() -> None:
    """I-X at 1 after I-X at 0 is another span: such labellings must not count."""
    X = [[({"a": 1.0}, {}), ({"b": 1.0}, {})]] * 4
    y = [["O", "I-X"]] * 3 + [["I-X", "I-X"]]
    model = trellis.CRF(state_part, l2=0.5).fit(X, y)
    (span,) = model.predict_spans(X[:1], scheme="IOB1")[0]
    assert span[:3] == ("X", 1, 2)
    paths = [["O", "I-X"], ["I-X", "I-X"]]
    alone, longer = np.exp(model.log_likelihood(X[:2], paths))
    assert longer > 0.05
    assert span.probability == pytest.approx(alone)


def test_the_scheme_is_detected_from_the_labels() -> None:
    X, y = [["a", "b", "c"]] * 3, [["B-X", "I-X", "O"]] * 3
    model = trellis.CRF(l2=0.1, constraints="BIO").fit(X, y)
    detected = model.predict_spans(X)
    assert detected == model.predict_spans(X, scheme="BIO")
    assert detected[0][0][:3] == ("X", 0, 2)


def test_spans_with_edge_features_and_empty_sequences(fitted: Any) -> None:
    model, X = fitted
    all_spans = model.predict_spans([X[0], [], X[1]], scheme="plain")
    assert all_spans[1] == []
    assert all_spans[0] == model.predict_spans([X[0]], scheme="plain")[0]
    for x, spans in zip([X[0], X[1]], [all_spans[0], all_spans[2]], strict=True):
        for span in spans:
            expected = span_chance(model, x, tags.Span(*span[:3]), "plain")
            assert span.probability == pytest.approx(expected, abs=1e-10)


def test_an_unknown_scheme(fitted: Any) -> None:
    with pytest.raises(InputError):
        fitted[0].predict_spans(fitted[1], scheme="nonsense")
