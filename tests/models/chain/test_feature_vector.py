"""Φ(x, y) and its expectation: names, values, products with the weights, moments at the optimum."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from labellings import (
    all_paths,
    central_differences,
    edge_part,
    nll,
    probabilities,
    random_data,
    score,
    state_part,
    weights_by_name,
)
from sklearn.exceptions import NotFittedError

import trellis
from trellis.errors import InputError
from trellis.features import named

PRECISE = {"epsilon": 1e-10, "period": 0}


@pytest.fixture(scope="module", params=[0, 3], ids=["plain", "edges"])
def fitted(request: pytest.FixtureRequest) -> tuple[Any, Any, Any]:
    X, y = random_data(7, 3, [4, 1, 5, 2], edge_attributes=request.param)
    edges = edge_part if request.param else None
    crf = trellis.CRF(state_part, edge_features=edges, l2=0.3, solver_options=PRECISE)
    return crf.fit(X, y), X, y


def expected_entries(model: Any, x: Any, path: list[str]) -> dict[str, float]:
    """Φ(x, y) written out from the definition, {name: value}."""
    state, bigram, edge = weights_by_name(model, model.coef_)
    entries: dict[str, float] = {}

    def add(name: str, value: float) -> None:
        entries[name] = entries.get(name, 0.0) + value

    for t, (features, into) in enumerate(x):
        for name, value in features.items():
            if path[t] in state.get(name, {}):
                add(f"{name} → {path[t]}", value)
        if t == 0:
            for name, value in into.items():
                if path[0] in state.get(f"start:{name}", {}):
                    add(f"start:{name} → {path[0]}", value)
            continue
        pair = (path[t - 1], path[t])
        if pair in bigram:
            add(f"transition: {pair[0]} → {pair[1]}", 1.0)
        for name, value in into.items():
            if pair in edge.get(name, {}):
                add(f"{name}: {pair[0]} → {pair[1]}", value)
    return entries


def test_entries_have_the_values_of_the_definition(fitted: Any) -> None:
    model, X, y = fitted
    for x, labels in zip(X, y, strict=True):
        phi = model.joint_features(x, labels)
        assert len(phi) == len(phi.index) == len(phi.values) == len(phi.names)
        assert phi.size == len(model.coef_)
        assert (np.diff(phi.index) > 0).all()
        got = dict(zip(phi.names, phi.values, strict=True))
        assert got == pytest.approx(expected_entries(model, x, labels))
        assert len(got) == len(phi)


def test_the_product_with_the_weights_is_the_score_of_every_labelling(fitted: Any) -> None:
    model, X, _ = fitted
    classes = model.classes_
    for x in X:
        scores = score(model, model.coef_, x)
        for path, value in zip(all_paths(len(x), 3), scores.of_all(), strict=True):
            phi = model.joint_features(x, classes[path].tolist())
            assert phi.dot(model.coef_) == pytest.approx(value, abs=1e-10)
            assert phi.to_array() @ model.coef_ == pytest.approx(value, abs=1e-10)


def test_the_expectation_is_the_mean_over_all_labellings(fitted: Any) -> None:
    model, X, y = fitted
    classes = model.classes_.tolist()
    for x, labels in zip(X, y, strict=True):
        p = probabilities(score(model, model.coef_, x), classes)
        vectors = [
            model.joint_features(x, model.classes_[path].tolist()).to_array()
            for path in all_paths(len(x), 3)
        ]
        np.testing.assert_allclose(
            model.expected_features(x).to_array(), p @ np.array(vectors), atol=1e-10
        )
        known = [labels[0], *[None] * (len(x) - 1)]
        agrees = all_paths(len(x), 3)[:, 0] == classes.index(labels[0])
        p = np.where(agrees, p, 0.0) / p[agrees].sum()
        np.testing.assert_allclose(
            model.expected_features(x, known).to_array(), p @ np.array(vectors), atol=1e-10
        )
        one = model.expected_features(x, labels).to_array()
        np.testing.assert_allclose(one, model.joint_features(x, labels).to_array(), atol=1e-10)


def test_moments_match_at_the_optimum(fitted: Any) -> None:
    """Σ (Φ - EΦ) - λ w = 0."""
    model, X, y = fitted
    gradient = -0.3 * model.coef_
    for x, labels in zip(X, y, strict=True):
        gradient += model.joint_features(x, labels).to_array()
        gradient -= model.expected_features(x).to_array()
    np.testing.assert_allclose(gradient, 0.0, atol=1e-6)


def test_the_difference_is_the_gradient_of_the_log_likelihood(fitted: Any) -> None:
    model, X, y = fitted
    difference = model.joint_features(X[2], y[2]).to_array()
    difference -= model.expected_features(X[2]).to_array()
    got = central_differences(
        lambda w: -nll(model, w, X[2:3], y[2:3]), model.coef_, range(len(model.coef_))
    )
    np.testing.assert_allclose(difference, got, atol=1e-8)


def test_moments_match_with_partial_labels() -> None:
    X, y = random_data(8, 3, [4, 3, 5])
    y[0][1], y[2][0] = None, {"L000", "L001"}
    model = trellis.CRF(state_part, l2=0.3, solver_options=PRECISE).fit(X, y)
    gradient = -0.3 * model.coef_
    for x, labels in zip(X, y, strict=True):
        gradient += model.expected_features(x, labels).to_array()
        gradient -= model.expected_features(x).to_array()
    np.testing.assert_allclose(gradient, 0.0, atol=1e-6)


def test_templates_with_edges() -> None:
    X, y = [["a", "b", "a"], ["b", "b"]], [["A", "B", "A"], ["B", "B"]]
    crf = trellis.CRF(named(["w[0]"], edges=["w[0]"])).fit(X, y)
    assert "w[0]=b: A → B" in crf.joint_features(X[0], y[0]).names
    for x, labels in zip(X, y, strict=True):
        value = crf.joint_features(x, labels).dot(crf.coef_)
        want = crf.log_likelihood([x], [labels])[0] + crf.log_partition([x])[0]
        assert value == pytest.approx(want, abs=1e-10)


def test_a_memm_has_scores_before_it_normalises() -> None:
    X, y = [["a", "b", "a"], ["b", "b"]], [["A", "B", "A"], ["B", "B"]]
    memm = trellis.MEMM(named(["w[0]"])).fit(X, y)
    weights = {(f.label, f.feature): f.weight for f in memm.top_features(None)}
    steps = memm.transition_scores()
    want = weights["A", "w[0]=a"] + weights["B", "w[0]=b"] + steps[0, 1]
    assert memm.joint_features(["a", "b"], ["A", "B"]).dot(memm.coef_) == pytest.approx(want)


def test_unknown_features_and_empty_sequences() -> None:
    crf = trellis.CRF(named(["w[0]"])).fit([["a", "b"]], [["A", "B"]])
    phi = crf.joint_features(["never", "seen"], ["A", "A"])
    assert phi.names == ["transition: A → A"]
    assert len(crf.joint_features([], [])) == len(crf.expected_features([])) == 0
    assert crf.joint_features([], []).dot(crf.coef_) == 0.0
    assert len(crf.joint_features(["never"], ["A"])) == 0
    without = trellis.CRF(named(["w[0]"]), transitions="none").fit([["a", "b"]], [["A", "B"]])
    assert without.joint_features(["a", "b"], ["A", "B"]).names == ["w[0]=a → A", "w[0]=b → B"]


def test_print_shows_the_largest_entries() -> None:
    X = [[{f"f{i}": float(i) for i in range(1, 26)}], [{"f1": 1.0}]]
    crf = trellis.CRF().fit(X, [["A"], ["B"]])
    lines = str(crf.joint_features(X[0], ["A"])).split("\n")
    assert lines[0] == f"25 of {len(crf.coef_)} coordinates are not 0"
    assert lines[1] == "         6  f6 → A"
    assert lines[20] == "        25  f25 → A"
    assert lines[21] == "5 smaller entries"
    assert len(lines) == 22
    small = str(crf.joint_features(X[1], ["B"]))
    assert small == f"1 of {len(crf.coef_)} coordinates are not 0\n         1  f1 → B"


def test_a_vector_can_be_pickled() -> None:
    crf = trellis.CRF(named(["w[0]"])).fit([["a", "b"]], [["A", "B"]])
    phi = crf.joint_features(["a"], ["A"])
    again = pickle.loads(pickle.dumps(phi))
    assert again.names == phi.names == ["w[0]=a → A"]


def test_invalid_arguments() -> None:
    X, y = [["a", "b"]], [["A", "B"]]
    crf = trellis.CRF(named(["w[0]"])).fit(X, y)
    with pytest.raises(InputError, match="position 1 is not known: expected_features"):
        crf.joint_features(X[0], ["A", None])
    with pytest.raises(InputError, match="position 0 is not known"):
        crf.joint_features(X[0], [{"A", "B"}, None])
    with pytest.raises(InputError, match="'C' is not one of the 2 labels"):
        crf.joint_features(X[0], ["A", "C"])
    with pytest.raises(InputError, match="2 positions and 1 label"):
        crf.joint_features(X[0], ["A"])
    with pytest.raises(InputError, match="joint_features needs one of them, such as X"):
        crf.joint_features(X, y)
    with pytest.raises(InputError, match="expected_features needs one of them, such as X"):
        crf.expected_features(X)
    phi = crf.joint_features(X[0], y[0])
    with pytest.raises(
        InputError, match=r"w is float64 \(2,\): must be numbers \(6,\), like coef_"
    ):
        phi.dot(np.zeros(2))
    with pytest.raises(InputError, match=r"must be numbers \(6,\)"):
        phi.dot(["a"] * 6)
    assert phi.dot(np.ones(6, dtype=int)) == 3.0
    for method in ("joint_features", "expected_features"):
        with pytest.raises(NotFittedError):
            getattr(trellis.CRF(), method)(X[0], y[0])


# ---- the table of weights of edge features


def test_edge_weights_are_sorted_by_size() -> None:
    X, y = random_data(7, 3, [4, 1, 5, 2], edge_attributes=3)
    model = trellis.CRF(state_part, edge_features=edge_part, l2=0.3).fit(X, y)
    edge = weights_by_name(model, model.coef_)[2]
    table = model.top_edge_features(None)
    got = {(f.feature, f.before, f.after): f.weight for f in table}
    want = {(name, *pair): w for name, pairs in edge.items() for pair, w in pairs.items()}
    assert got == want
    sizes = [abs(f.weight) for f in table]
    assert sizes == sorted(sizes, reverse=True)
    assert len(table) == len(model.layout_.edge_bigram) > 20
    assert model.top_edge_features() == table[:20]
    assert model.top_edge_features(0) == []
    for n in (2, None):
        into = [f for f in table if f.after == "L001"]
        assert model.top_edge_features(n, after="L001") == into[:n]
        both = [f for f in into if f.before == "L002"]
        assert model.top_edge_features(n, before="L002", after="L001") == both[:n]
        assert model.top_edge_features(n, before="L002")[0].before == "L002"
    with pytest.raises(InputError, match="before is 'X': must be one of"):
        model.top_edge_features(before="X")
    with pytest.raises(InputError, match="after is 'X': must be one of"):
        model.top_edge_features(after="X")
    with pytest.raises(InputError, match="n must be at least 0, not -1"):
        model.top_edge_features(-1)
    with pytest.raises(NotFittedError):
        trellis.CRF().top_edge_features()


def test_a_model_without_edge_features_has_an_empty_table() -> None:
    crf = trellis.CRF().fit([["a", "b"]], [["A", "B"]])
    assert crf.top_edge_features() == []
    with pytest.raises(InputError, match="after is 'X'"):
        crf.top_edge_features(after="X")


# ---- joint features


def joint_part(x: Any, i: int, previous: Any, label: Any) -> dict[str, float]:
    """Return features of a label, of the start, of a pair, and of a pair at some positions."""
    features = {f"label {label}": 1.0, f"x {x[i]} {label == 'A'}": 0.5}
    if previous is None:
        features[f"start {label}"] = 2.0
    else:
        features[f"same {previous == label}"] = 1.0
        if x[i] == "b":
            features[f"b {previous} {label}"] = 1.5
    return features


@pytest.mark.parametrize("with_words", [False, True])
@pytest.mark.parametrize("kind", [trellis.CRF, trellis.MEMM])
def test_joint_features_are_entries(kind: Any, with_words: bool) -> None:
    X, y = [["a", "b", "a"], ["b", "a"], ["b"]], [["A", "B", "A"], ["B", "B"], ["A"]]
    features = (lambda x: [[f"word {word}"] for word in x]) if with_words else None
    model = kind(features, joint=joint_part, l2=0.3, solver_options=PRECISE).fit(X, y)
    for x, labels in zip(X, y, strict=True):
        phi = model.joint_features(x, labels)
        expected: dict[str, float] = {}
        for i, label in enumerate(labels):
            cell = joint_part(x, i, labels[i - 1] if i else None, label)
            for name, value in cell.items():
                expected[name] = expected.get(name, 0.0) + value
        entries = dict(zip(phi.names, phi.values.tolist(), strict=True))
        assert {n: v for n, v in entries.items() if n in expected} == pytest.approx(expected)
        assert (len(entries) > len(expected)) == with_words
    if kind is trellis.MEMM:
        return
    for x, labels in zip(X, y, strict=True):
        score = model.joint_features(x, labels).dot(model.coef_)
        log_p = float(model.log_likelihood([x], [labels])[0])
        assert score - float(model.log_partition([x])[0]) == pytest.approx(log_p, abs=1e-10)
    gradient = sum(
        model.joint_features(x, labels).to_array() - model.expected_features(x).to_array()
        for x, labels in zip(X, y, strict=True)
    )
    np.testing.assert_allclose(gradient, 0.3 * model.coef_, atol=1e-6)
