"""Edge features of templates, arrays and functions, and their weights at position 0."""

from __future__ import annotations

import pickle
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trellis
from trellis.errors import InputError
from trellis.features import Window, named
from trellis.features.arrays import ArrayFeatures
from trellis.features.edges import EdgeFeatures
from trellis.features.ready import ReadyFeatures
from trellis.formats.native import Tensors
from trellis.models.chain.storage import read_features

WORDS = [["ann", "at", "bob"], ["bob"], ["at", "ann"], ["ann", "bob", "at", "bob"]]
TAGS = [["P", "O", "P"], ["P"], ["O", "P"], ["P", "P", "O", "O"]]
ARRAYS = [np.random.default_rng(n).normal(size=(len(x), 3)) for n, x in enumerate(WORDS)]


def first_letters(x: Any) -> list[list[str]]:
    return [[f"e={word[0]}"] for word in x]


def two_columns(x: Any) -> Any:
    return x[:, :2]


CASES: dict[str, tuple[dict[str, Any], Any, Any]] = {
    # parameters, X, and {name: value} of the edge features at a position
    "function": (
        {"features": lambda x: [[w] for w in x], "edge_features": first_letters},
        WORDS,
        lambda x, t: {f"e={x[t][0]}": 1.0},
    ),
    "function beside templates": (
        {"features": named(["w[0]"]), "edge_features": first_letters},
        WORDS,
        lambda x, t: {f"e={x[t][0]}": 1.0},
    ),
    "function on words": (
        {"edge_features": first_letters},
        WORDS,
        lambda x, t: {f"e={x[t][0]}": 1.0},
    ),
    "templates": (
        {"features": named(["w[0]"]), "edge_features": named(["w[0]", "w[1]"])},
        WORDS,
        lambda x, t: {f"w[0]={x[t]}": 1.0} | ({f"w[1]={x[t + 1]}": 1.0} if t + 1 < len(x) else {}),
    ),
    "arrays": (
        {"edge_features": two_columns},
        ARRAYS,
        lambda x, t: {"0": float(x[t, 0]), "1": float(x[t, 1])},
    ),
    "arrays beside words": (
        {"edge_features": lambda x: np.array([[len(w), 1.0] for w in x])},
        WORDS,
        lambda x, t: {"0": float(len(x[t])), "1": 1.0},
    ),
}


def edge_weights(model: Any) -> dict[Any, float]:
    """Return the weights of edge features: {(name, previous label or None, label): w}."""
    layout, classes = model.layout_, model.classes_.tolist()
    names, edge_names = model.features_.names(), model.features_.names(edge=True)
    states, _, edges, _ = layout.split(model.coef_)
    weights: dict[Any, float] = {}
    for a, label, w in zip(layout.state_attribute, layout.state_label, states, strict=True):
        if names[a].startswith("start:"):
            weights[names[a].removeprefix("start:"), None, classes[label]] = w
    for a, cell, w in zip(layout.edge_attribute, layout.edge_bigram, edges, strict=True):
        weights[edge_names[a], classes[cell // len(classes)], classes[cell % len(classes)]] = w
    return weights


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("model_class", [trellis.CRF, trellis.MEMM])
def test_scores_and_likelihoods_by_enumeration(case: str, model_class: Any) -> None:
    parameters, X, features = CASES[case]
    model = model_class(**parameters, l2=0.2).fit(X, TAGS)
    weights, classes = edge_weights(model), model.classes_.tolist()
    assert any(before is None for _, before, _ in weights)
    assert any(before is not None for _, before, _ in weights)
    states, bigrams, edges, _ = model.layout_.split(model.coef_.copy())
    # the model without edge features, at the same weights
    is_start = [name.startswith("start:") for name in model.features_.names()]
    states[np.array(is_start)[model.layout_.state_attribute]] = 0.0
    plain = pickle.loads(pickle.dumps(trellis.CRF().fit(WORDS, TAGS)))
    plain.features_, plain.layout_ = model.features_, model.layout_
    plain.set_weights(np.concatenate([states, bigrams, np.zeros_like(edges)]))
    for i, x in enumerate(X):
        plain._check_fitted()
        base = plain._compute_scores([x])
        scores, paths = [], list(product(range(len(classes)), repeat=len(x)))
        tables = []
        for t in range(len(x)):
            table = {}
            for a, b in product(range(len(classes)) if t else [None], range(len(classes))):
                before = None if a is None else classes[a]
                table[a, b] = base.unary[0][t, b] + sum(
                    value * weights.get((name, before, classes[b]), 0.0)
                    for name, value in features(x, t).items()
                )
                if a is not None:
                    table[a, b] += base.transition[0][t - 1, a, b]
            if model_class is trellis.MEMM:
                for a in {a for a, _ in table}:
                    row = np.array([table[a, b] for b in range(len(classes))])
                    for b in range(len(classes)):
                        table[a, b] -= np.log(np.exp(row).sum())
            tables.append(table)
        for path in paths:
            scores.append(
                sum(tables[t][path[t - 1] if t else None, path[t]] for t in range(len(x)))
            )
        log_p = np.array(scores) - np.log(np.exp(scores).sum())
        expected = log_p[paths.index(tuple(classes.index(label) for label in TAGS[i]))]
        assert model.log_likelihood([x], [TAGS[i]])[0] == pytest.approx(expected, abs=1e-10)
        assert model.predict([x])[0] == [classes[n] for n in paths[int(np.argmax(log_p))]]


def test_the_start_symbol_has_an_effect() -> None:
    """Without weights at position 0, sequences of length 1 would have equal probabilities."""
    X, y = [["a"], ["b"]] * 4, [["P"], ["Q"]] * 4
    model = trellis.CRF(lambda x: [[] for _ in x], edge_features=lambda x: [[w] for w in x])
    model.fit([*X, ["a", "b"]], [*y, ["P", "Q"]])
    assert model.predict([["a"], ["b"]]) == [["P"], ["Q"]]
    assert model.features_.names() == ["start:a", "start:b"]
    assert model.features_.names(edge=True) == ["b"]
    names = [c.feature for c in model.explain(["a", "b"])[1].contributions]
    assert sorted(names) == ["into:b", "transition:into P"]
    assert model.explain(["a"])[0].contributions[0].feature == "start:a"


@pytest.mark.parametrize("case", CASES)
def test_files_warm_start_and_pruning(case: str, tmp_path: Path) -> None:
    parameters, X, _ = CASES[case]
    path = tmp_path / "edges.trellis"
    model = trellis.CRF(**parameters, l1=0.1, l2=0.1).fit(X, TAGS)
    everything = trellis.CRF(**parameters, l2=0.1).fit(X, TAGS)
    assert len(model.coef_) < len(everything.coef_)
    assert len(model.features_) < len(everything.features_)
    functions = {name: f for name, f in parameters.items() if type(f).__name__ == "function"}
    for fitted in (model, everything):
        fitted.save(path)
        loaded = trellis.load(path, **functions)
        assert loaded.features_.names() == fitted.features_.names()
        assert loaded.features_.names(edge=True) == fitted.features_.names(edge=True)
        assert all(map(np.array_equal, loaded.predict_marginals(X), fitted.predict_marginals(X)))
        for name, f in functions.items():
            assert getattr(loaded, name) is f
    continued = trellis.CRF(**parameters, l2=0.1, warm_start=True).fit(X[:2], TAGS[:2])
    names = continued.features_.names()
    continued.fit(X, TAGS)
    assert continued.features_.names()[: len(names)] == names
    assert continued.objective_ == pytest.approx(everything.objective_, rel=1e-4)


def test_a_file_without_its_function(tmp_path: Path) -> None:
    model = trellis.CRF(edge_features=first_letters).fit(WORDS, TAGS)
    model.save(tmp_path / "m")
    loaded = trellis.load(tmp_path / "m")
    with pytest.raises(
        InputError, match=r"^this model was trained with a function as edge_features"
    ):
        loaded.predict(WORDS)
    loaded.set_feature_functions(edge_features=first_letters)
    assert loaded.predict(WORDS) == model.predict(WORDS)
    templates = trellis.CRF(edge_features=Window()).fit(WORDS, TAGS)
    templates.save(tmp_path / "m")
    loaded = trellis.load(tmp_path / "m", edge_features=first_letters)  # has no function
    assert loaded.edge_features is None
    assert loaded.predict(WORDS) == templates.predict(WORDS)


def test_numbers_of_attributes_stay_when_features_are_learned_and_removed() -> None:
    features = EdgeFeatures(ReadyFeatures(), make=lambda x: [[f"e{t[0]}"] for t in x])
    features.learn([[["a"], ["b"]]])
    assert (features.names(), features.names(edge=True)) == (["a", "b", "start:ea"], ["eb"])
    features.learn([[["c"], ["a"]], [["b"], ["b"]]])
    assert features.names() == ["a", "b", "start:ea", "c", "start:ec", "start:eb"]
    assert features.names(edge=True) == ["eb", "ea"]
    assert (len(features), features.edges) == (6, 2)
    features.keep(np.array([1, 2, 5], np.int32), np.array([0], np.int32))
    assert (features.names(), features.names(edge=True)) == (["b", "start:ea", "start:eb"], ["eb"])
    batch = features.find([[["b"], ["a"], ["b"]], [["c"], ["c"]]])
    assert batch.rows.begin.tolist() == [0, 2, 2, 3, 3, 3]
    assert batch.rows.id.tolist() == [0, 2, 0]
    assert batch.edges is not None
    assert batch.edges.begin.tolist() == [0, 0, 0, 1, 1, 1]
    assert batch.edges.id.tolist() == [0]


def test_a_damaged_map_is_refused() -> None:
    features = EdgeFeatures(ReadyFeatures(), make=first_letters)
    features.learn([[["a"], ["b"]], [["b"], ["b"]]])
    assert isinstance(features.edge_map, ReadyFeatures)

    def read(**changes: Any) -> Any:
        meta, tensors = features.to_parts()
        meta = {"kind": "edges", **meta}
        meta["states"], meta["edges"] = dict(meta["states"]), dict(meta["edges"])
        stored = {f"features.{name}": array for name, array in (tensors | changes).items()}
        return read_features({"features": meta}, Tensors(Path("m"), stored))

    assert read().names() == features.names()
    assert read().names(edge=True) == features.names(edge=True)
    edges, states = len(features.edge_map), len(features.states)
    assert read(source=np.array([-edges, states - 1], np.int32)).names()[1] == "b"
    for changes, message in [
        ({"source": np.array([states], np.int32)}, "source has an attribute out of range"),
        ({"source": np.array([-edges - 1], np.int32)}, "source has an attribute out of range"),
        ({"edge_source": np.array([edges], np.int32)}, "edge_source has an attribute out of range"),
        ({"edge_source": np.array([-1], np.int32)}, "edge_source has an attribute out of range"),
        ({"source": np.array([0, 0], np.int32)}, "source has an attribute twice"),
        ({"source": np.array([0])}, "source must be a vector of int32"),
        ({"edge_source": np.zeros((1, 1), np.int32)}, "edge_source must be a vector of int32"),
    ]:
        with pytest.raises(InputError, match=f"edge features: {message}"):
            read(**changes)


def test_bad_edge_features() -> None:
    for edge_features, message in [
        (7, "edge_features must be None, a Spec, a Window or a function of a sequence, not int"),
        (lambda x, i, a, b: [], "edge_features must be a function of a sequence.*is joint="),
        (
            lambda x: ["e"] * len(x),
            "^edge_features: sequence 0, position 0: ready features expected",
        ),
        (lambda x: [["e"]], "^edge_features: the function returned features of 1 positions for"),
        (
            lambda x: np.ones((1, 2)),
            "^edge_features: the function returned features of 1 positions",
        ),
        (lambda x: np.float64(1.0), "^edge_features: features of sequence 0 must be a list"),
        (lambda x: np.full((len(x), 2), np.nan), "^edge_features: sequence 0, position 0: a value"),
    ]:
        with pytest.raises(InputError, match=message):
            trellis.CRF(edge_features=edge_features).fit(WORDS, TAGS)
    with pytest.raises(InputError, match="before learn"):
        EdgeFeatures(ArrayFeatures(), make=two_columns).find(ARRAYS)
