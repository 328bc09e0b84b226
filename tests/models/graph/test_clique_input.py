"""Cliques: invalid input, files and forged files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graph_data import clique_graphs, images

import trellis
from trellis import GraphCRF, GridCRF
from trellis.errors import FormatError, InputError
from trellis.formats import native
from trellis.models.graph import cliques as clique_module
from trellis.models.graph.graph_crf import Graph

NODES = np.zeros((4, 2))


def graph_with(cliques: Any, features: Any = None) -> list[Any]:
    """Return one graph of four nodes with these cliques."""
    return [Graph(NODES, [[0, 1]], cliques=cliques, clique_features=features)]


BAD_CLIQUES: dict[str, tuple[Any, str]] = {
    "a number": (graph_with(7), r"graph 0: cliques 'cliques' has dtype int64 and shape \(\)"),
    "text": (graph_with("abc"), "cliques 'cliques' has dtype <U3"),
    "one axis": (graph_with([0, 1, 2]), r"shape \(3,\): must be integers of shape \(cliques"),
    "three axes": (graph_with([[[0, 1, 2]]]), r"shape \(1, 1, 3\)"),
    "one node": (graph_with([[0], [1]]), r"with 2 to 32 nodes"),
    "33 nodes": (graph_with([list(range(33))]), r"shape \(1, 33\)"),
    "floats": (graph_with([[0.0, 1.0, 2.0]]), "dtype float64"),
    "flags": (graph_with([[True, False, True]]), "dtype bool"),
    "several sizes": (graph_with([[0, 1, 2], [0, 1]]), "must have the same number of nodes"),
    "a missing node": (
        graph_with({"x": [[0, 1, 2], [1, 2, 4]]}),
        "graph 0: cliques 'x': clique 1 has node 4: must be 0 to 3",
    ),
    "a negative node": (graph_with([[0, -1, 2]]), "clique 0 has node -1"),
    "a node twice": (graph_with([[0, 1, 2], [3, 1, 3]]), "clique 1 has node 3 twice"),
    "a name that is not text": (graph_with({3: [[0, 1, 2]]}), "graph 0: 3 is not a name of cl"),
    "an empty name": (graph_with({"": [[0, 1, 2]]}), "'' is not a name of cliques"),
    "features alone": (graph_with(None, {"x": [[1.0]]}), "'x' is not a name of cliques"),
    "features of another name": (
        graph_with({"x": [[0, 1, 2]]}, {"z": [[1.0]]}),
        "'z' is not a name of cliques",
    ),
    "features without names": (
        graph_with({"x": [[0, 1, 2]]}, [[1.0]]),
        "clique_features must be a dict with the names of cliques, not list",
    ),
    "features alone in an array": (graph_with(None, [[1.0]]), "clique_features must be a dict"),
    "features too few": (
        graph_with([[0, 1, 2], [1, 2, 3]], [[1.0]]),
        r"clique_features 'cliques' has shape \(1, 1\): must be \(2, features\), one row per cl",
    ),
    "features of one axis": (graph_with([[0, 1, 2]], [1.0]), r"must be \(1, features\)"),
    "features of nan": (
        graph_with([[0, 1, 2], [1, 2, 3]], [[0.0, 1.0], [0.0, np.nan]]),
        "graph 0: clique_features 'cliques': feature 1 of clique 1 is nan: must be finite",
    ),
    "features of infinity": (graph_with([[0, 1, 2]], [[np.inf]]), "is inf: must be finite"),
    "features of text": (graph_with([[0, 1, 2]], [["a"]]), "must be an array of numbers"),
    "features without cliques": (
        graph_with({"x": []}, {"x": [[1.0]]}),
        r"clique_features 'x' has shape \(1, 1\): must be \(0, features\)",
    ),
    "other sizes": (
        [*graph_with({"x": [[0, 1, 2]]}), *graph_with({"x": [[0, 1, 2, 3]]})],
        "graph 1: cliques 'x' have 4 nodes, those of graph 0 have 3",
    ),
    "other widths": (
        [*graph_with([[0, 1, 2]]), *graph_with(None), *graph_with([[0, 1, 2]], [[1.0]])],
        "graph 2: cliques 'cliques' have 1 features, those of graph 0 have 0",
    ),
}


@pytest.mark.parametrize("name", BAD_CLIQUES)
def test_bad_cliques(name: str) -> None:
    X, message = BAD_CLIQUES[name]
    with pytest.raises(InputError, match=message):
        GraphCRF().fit(X, [[0, 1, 0, 1]] * len(X))
    model = GraphCRF(max_iter=1).fit(graph_with([[0, 1, 2]]), [[0, 1, 0, 1]])
    for call in (
        model.predict,
        model.predict_marginals,
        model.factor_graphs,
        lambda X: model.log_likelihood(X, [[0, 1, 0, 1]] * len(X)),
        lambda X: model.score(X, [[0, 1, 0, 1]] * len(X)),
    ):
        with pytest.raises(InputError, match=message):
            call(X)


def test_cliques_that_the_model_does_not_have() -> None:
    y = [[0, 1, 0, 1]]
    model = GraphCRF(max_iter=1).fit(graph_with({"x": [[0, 1, 2]]}, {"x": [[1.0]]}), y)
    for X, message in (
        (graph_with({"z": [[0, 1, 2]]}), "X has cliques 'z': the model was trained with 'x'"),
        (graph_with([[0, 1, 2]]), "X has cliques 'cliques': the model was trained with 'x'"),
        (graph_with({"x": [[0, 1, 2]]}), "'x' of 3 nodes and 0 features; the model has 3 and 1"),
        (graph_with({"x": [[0, 1]]}, {"x": [[1.0]]}), "'x' of 2 nodes and 1 features; the model"),
    ):
        with pytest.raises(InputError, match=message):
            model.predict(X)
    edges = GraphCRF(max_iter=1).fit([(NODES, [[0, 1]])], y)
    with pytest.raises(InputError, match="'x': the model was trained with no cliques"):
        edges.predict(graph_with({"x": [[0, 1, 2]]}))


def test_tables_that_are_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    X: Any = [(np.zeros((31, 1)), (), None, None, {"all": [np.arange(31)]})]
    with pytest.raises(InputError, match=r"cliques 'all' have 31 nodes of 2 labels: 2.15e\+09 co"):
        GraphCRF("pseudolikelihood").fit(X, [[0, 1] * 15 + [0]])
    monkeypatch.setattr(clique_module, "MAX_COMBINATIONS", 27)
    three = [(NODES, (), None, None, [[0, 1, 2]])]
    assert GraphCRF(max_iter=1).fit(three, [[0, 1, 2, 0]]).clique_coef_["cliques"].size == 27
    monkeypatch.setattr(clique_module, "MAX_COMBINATIONS", 26)
    with pytest.raises(InputError, match="27 combinations, and at most 26 are supported"):
        GraphCRF(max_iter=1).fit(three, [[0, 1, 2, 0]])


def test_cliques_that_are_too_wide_for_exact_inference() -> None:
    triples = [[a, b, c] for a in range(25) for b in range(a) for c in range(b)]
    X: Any = [(np.zeros((25, 1)), (), None, None, triples)]
    with pytest.raises(InputError, match="induced width"):
        GraphCRF().fit(X, [[0, 1] * 12 + [0]])


# ---- files


@pytest.mark.parametrize("types", [False, True])
def test_files(types: bool, tmp_path: Path, rng: np.random.Generator) -> None:
    X, y = clique_graphs(rng, 6, types=types, partial=True)
    model = GraphCRF("trw", l2=0.4, max_iter=5).fit(X, y)
    path = tmp_path / "model.trellis"
    model.save(path)
    again = trellis.load(path)
    assert type(again) is GraphCRF
    assert list(again.clique_coef_) == ["four", "three"]
    for name, weights in model.clique_coef_.items():
        assert (again.clique_coef_[name] == weights).all()
    assert (again.log_likelihood(X, y) == model.log_likelihood(X, y)).all()
    assert [a.tolist() for a in again.predict(X)] == [a.tolist() for a in model.predict(X)]
    again.save(tmp_path / "other.trellis")
    assert path.read_bytes() == (tmp_path / "other.trellis").read_bytes()


def test_a_file_with_cliques_of_two_nodes(tmp_path: Path) -> None:
    X = graph_with({"far": [[0, 2], [1, 3]]})
    model = GraphCRF(max_iter=3).fit(X, [[0, 1, 0, 1]])
    model.save(tmp_path / "model.trellis")
    again = trellis.load(tmp_path / "model.trellis")
    assert (again.clique_coef_["far"] == model.clique_coef_["far"]).all()
    assert again.clique_coef_["far"].shape == (1, 2, 2)


def test_models_without_cliques_have_no_part_of_them(rng: np.random.Generator) -> None:
    X, y = clique_graphs(rng, 3)
    meta, tensors = GraphCRF(max_iter=1).fit([x[:2] for x in X], y).to_parts()
    assert "cliques" not in meta
    assert sorted(tensors) == ["coef", "intercept", "pairs"]


FORGERIES: dict[str, Any] = {
    "no names": lambda meta, t: meta.pop("cliques"),
    "names as text": lambda meta, t: meta.update(cliques="ab"),
    "names as an object": lambda meta, t: meta.update(cliques={"four": 0, "three": 1}),
    "a number as a name": lambda meta, t: meta.update(cliques=[4, "three"]),
    "an empty name": lambda meta, t: meta.update(cliques=["", "three"]),
    "a name twice": lambda meta, t: meta.update(cliques=["three", "three"]),
    "names in another order": lambda meta, t: meta.update(cliques=["three", "four"]),
    "a name too few": lambda meta, t: meta.update(cliques=["three"]),
    "a name too many": lambda meta, t: meta.update(cliques=["four", "three", "two"]),
    "no tensor": lambda meta, t: t.pop("cliques.0"),
    "a tensor too many": lambda meta, t: t.update({"cliques.2": t["cliques.0"]}),
    "a tensor of another number": lambda meta, t: t.update({"cliques.7": t.pop("cliques.0")}),
    "nan": lambda meta, t: t["cliques.0"].__setitem__((0, 0, 0, 0, 0), np.nan),
    "infinity": lambda meta, t: t["cliques.1"].__setitem__((0, 0, 0, 0), -np.inf),
    "float32": lambda meta, t: t.update({"cliques.0": t["cliques.0"].astype(np.float32)}),
    "other labels": lambda meta, t: t.update({"cliques.0": np.zeros((1, 2, 2, 2, 2))}),
    "one axis of other labels": lambda meta, t: t.update({"cliques.1": np.zeros((1, 3, 3, 4))}),
    "a matrix of no type": lambda meta, t: t.update({"cliques.0": np.zeros((2, 3))}),
    "a matrix": lambda meta, t: t.update({"cliques.0": np.zeros((3, 3))}),
    "no axis": lambda meta, t: t.update({"cliques.0": np.zeros(())}),
    "no feature": lambda meta, t: t.update({"cliques.1": np.zeros((0, 3, 3, 3))}),
    "too many axes": lambda meta, t: t.update({"cliques.1": np.zeros((0, *(3,) * 20))}),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_forged_files(forgery: str, tmp_path: Path, rng: np.random.Generator) -> None:
    path = tmp_path / "model.trellis"
    GraphCRF(max_iter=2).fit(*clique_graphs(rng, 4)).save(path)
    contents = native.read(path)
    tensors = {name: array.copy() for name, array in contents.tensors.items()}
    assert tensors["cliques.0"].shape == (1, 3, 3, 3, 3)
    FORGERIES[forgery](contents.meta, tensors)
    native.write(path, "graph-crf", contents.meta, tensors)
    with pytest.raises(FormatError, match=r"model\.trellis"):
        trellis.load(path)


def test_files_with_large_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X = graph_with([[0, 1, 2]])
    GraphCRF(max_iter=1).fit(X, [[0, 1, 2, 0]]).save(tmp_path / "model.trellis")
    monkeypatch.setattr(clique_module, "MAX_COMBINATIONS", 27)
    assert len(trellis.load(tmp_path / "model.trellis").predict(X)) == 1
    monkeypatch.setattr(clique_module, "MAX_COMBINATIONS", 26)
    with pytest.raises(FormatError, match="27 combinations, and at most 26 are supported"):
        trellis.load(tmp_path / "model.trellis")


def test_images_have_no_cliques(tmp_path: Path, rng: np.random.Generator) -> None:
    path = tmp_path / "model.trellis"
    GridCRF(max_iter=2).fit(*images(rng, 2)).save(path)
    contents = native.read(path)
    tensors = {**contents.tensors, "cliques.0": np.zeros((1, 2, 2, 2))}
    native.write(path, "grid-crf", {**contents.meta, "cliques": ["x"]}, tensors)
    with pytest.raises(FormatError, match="cliques are only possible in a GraphCRF"):
        trellis.load(path)
