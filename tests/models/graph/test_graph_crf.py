"""GraphCRF and GridCRF: every objective, scikit-learn conventions, files, invalid input."""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graph_data import OBJECTIVES, graphs, images
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

import trellis
from trellis import CRF, GraphCRF, GridCRF
from trellis.errors import FormatError, InputError
from trellis.formats import native
from trellis.models.graph.graph_crf import Graph


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_graphs_are_learnt(objective: str, rng: np.random.Generator) -> None:
    X, y = graphs(rng, 60)
    model = GraphCRF(objective, l2=2.0 if objective == "ssvm" else 0.5, random_state=0).fit(
        X[:30], y[:30]
    )
    alone = [(nodes, ()) for nodes, _ in X]
    without = GraphCRF("likelihood", l2=0.5).fit(alone[:30], y[:30])
    assert model.score(X[30:], y[30:]) > without.score(alone[30:], y[30:])
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert list(map(len, model.predict(X))) == list(map(len, y))
    assert model.losses_
    for p, labels in zip(model.predict_marginals(X), y, strict=True):
        assert p.shape == (len(labels), 3)
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert (model.log_likelihood(X, y) < 0).all()


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_grids_are_learnt(objective: str, rng: np.random.Generator) -> None:
    # With noisy pixels, the pseudolikelihood makes the pair weights too large.
    X, y = images(rng, 8, 12, noise=0.2 if objective == "pseudolikelihood" else 0.8)
    model = GridCRF(objective, l2=1.0, inference="auto", random_state=0)
    if objective == "likelihood":
        X, y = [x[:, :5] for x in X], [labels[:, :5] for labels in y]
    model.fit(X[:6], y[:6])
    assert model.score(X[6:], y[6:]) > 0.75
    assert model.predict(X)[0].shape == y[0].shape
    assert model.predict_marginals(X)[0].shape == (*y[0].shape, 2)
    assert model.log_likelihood(X, y).shape == (8,)


def test_a_chain_as_graph_is_the_chain_model(rng: np.random.Generator) -> None:
    """Both models have the same objective, so they learn the same weights."""
    rows = [rng.normal(size=(int(n), 3)) for n in rng.integers(2, 7, size=12)]
    y = [rng.integers(3, size=len(x)) for x in rows]
    X = [(x, [[i, i + 1] for i in range(len(x) - 1)]) for x in rows]
    ours = GraphCRF(l2=0.7, fit_intercept=False, tol=1e-9).fit(X, y)
    theirs = CRF(l2=0.7, states="all", solver_options={"epsilon": 1e-9, "delta": 1e-14}).fit(
        rows, [labels.tolist() for labels in y]
    )
    assert ours.objective_ == pytest.approx(theirs.objective_, rel=1e-6)
    for a, b in zip(ours.predict_marginals(X), theirs.predict_marginals(rows), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-3)


def test_inference_methods_agree_where_they_are_exact(rng: np.random.Generator) -> None:
    X, y = graphs(rng, 12)
    base = GraphCRF(symmetric=True).fit(X, y)
    exact = base.predict(X)
    for method in ("exact", "bp", "expansion", "icm"):
        other = base.__class__(**{**base.get_params(), "inference": method})
        other.__dict__.update({k: v for k, v in vars(base).items() if k.endswith("_")})
        same = np.mean([np.mean(a == b) for a, b in zip(other.predict(X), exact, strict=True)])
        assert same > 0.9, method
        if method == "bp":
            for p, q in zip(other.predict_marginals(X), base.predict_marginals(X), strict=True):
                np.testing.assert_allclose(p, q, atol=0.1)


def test_likelihoods_sum_to_one(rng: np.random.Generator) -> None:
    X, y = graphs(rng, 5)
    model = GraphCRF().fit(X, y)
    x = (X[0][0][:4], [[0, 1], [1, 2], [2, 3], [3, 0]])
    ways = [np.array(way) for way in itertools.product(model.classes_, repeat=4)]
    total = np.exp(model.log_likelihood([x] * len(ways), ways)).sum()
    assert total == pytest.approx(1.0)
    best = ways[int(np.argmax(model.log_likelihood([x] * len(ways), ways)))]
    assert model.predict([x])[0].tolist() == best.tolist()


def test_each_type_has_its_own_labels(rng: np.random.Generator) -> None:
    X, y = graphs(rng, 10, types=True)
    for objective in OBJECTIVES:
        model = GraphCRF(objective, random_state=0).fit(X, y)
        for x, labels, p in zip(X, model.predict(X), model.predict_marginals(X), strict=True):
            assert {label in "def" for label in labels[x[3] == 1]} == {True}
            assert {label in "abc" for label in labels[x[3] == 0]} == {True}
            assert (p[x[3] == 1, :3] == 0.0).all()
    with pytest.raises(InputError, match="node_types"):
        model.predict([x[:3] for x in X])
    with pytest.raises(InputError, match="type 7"):
        model.predict([(*X[0][:3], np.full(len(X[0][0]), 7))])


def test_sparse_features_are_the_same(rng: np.random.Generator) -> None:
    X, y = graphs(rng, 8)
    thin = [Graph(sparse.csr_matrix(nodes), edges) for nodes, edges in X]
    for objective in ("likelihood", "ssvm"):
        dense = GraphCRF(objective, random_state=0).fit(X, y)
        other = GraphCRF(objective, random_state=0).fit(thin, y)
        np.testing.assert_allclose(dense.coef_, other.coef_, atol=1e-8)
        assert [a.tolist() for a in dense.predict(X)] == [a.tolist() for a in other.predict(thin)]


def test_symmetric_models_have_edges_without_direction(rng: np.random.Generator) -> None:
    X, y = graphs(rng, 10)
    turned = [(nodes, edges[:, ::-1]) for nodes, edges in X]
    for objective in ("likelihood", "ssvm", "perceptron"):
        model = GraphCRF(objective, symmetric=True, random_state=0).fit(X, y)
        np.testing.assert_allclose(model.pair_coef_, model.pair_coef_.transpose(0, 2, 1))
        a, b = model.log_likelihood(X, y), model.log_likelihood(turned, y)
        np.testing.assert_allclose(a, b)


def test_sample_weights_repeat_samples(rng: np.random.Generator) -> None:
    X, y = graphs(rng, 4)
    twice = GraphCRF(tol=1e-9).fit([*X, X[0]], [*y, y[0]])
    weighted = GraphCRF(tol=1e-9).fit(X, y, sample_weight=[2, 1, 1, 1])
    np.testing.assert_allclose(twice.coef_, weighted.coef_, atol=1e-4)


def test_l1_makes_weights_zero(rng: np.random.Generator) -> None:
    X, y = graphs(rng, 10)
    assert (GraphCRF(l1=3.0).fit(X, y).coef_ == 0.0).any()
    with pytest.raises(InputError, match="l1"):
        GraphCRF("ssvm", l1=1.0).fit(X, y)


def test_scikit_learn_conventions(rng: np.random.Generator) -> None:
    X, y = graphs(rng, 10)
    with pytest.raises(NotFittedError):
        GraphCRF().predict(X)
    with pytest.raises(NotFittedError):
        GridCRF().log_likelihood(X, y)
    model = clone(GraphCRF(l2=0.2)).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert [a.tolist() for a in again.predict(X)] == [a.tolist() for a in model.predict(X)]
    search = GridSearchCV(GraphCRF(), {"l2": [0.1, 1.0]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.35
    grids = GridCRF(directed=False, contrast=True)
    assert clone(grids).get_params() == grids.get_params()
    seen: list[Any] = []
    GraphCRF().fit(X, y, callback=lambda p: seen.append(p.iteration) or len(seen) == 2)
    assert seen == [1, 2]


def test_a_failed_fit_does_not_change_the_model(rng: np.random.Generator) -> None:
    X, y = graphs(rng, 5)
    model = GraphCRF().fit(X, y)
    with pytest.raises(InputError):
        model.fit(X, y[:3])
    assert len(model.predict(X)) == 5


def test_the_same_bits_for_every_number_of_threads(rng: np.random.Generator) -> None:
    X, y = graphs(rng, 12)
    for objective in ("likelihood", "bethe", "ssvm"):
        one, three = (GraphCRF(objective, random_state=0, n_jobs=n).fit(X, y) for n in (1, 3))
        assert (one.coef_ == three.coef_).all()


# ---- files


@pytest.mark.parametrize("types", [False, True])
def test_graph_files(types: bool, tmp_path: Path, rng: np.random.Generator) -> None:
    X, y = graphs(rng, 6, edge_features=1, types=types)
    model = GraphCRF("bethe", l2=0.4, max_iter=5).fit(X, y)
    path = tmp_path / "model.trellis"
    model.save(path)
    again = trellis.load(path)
    assert type(again) is GraphCRF
    assert again.get_params() == model.get_params()
    assert again.losses_ == model.losses_
    assert (again.log_likelihood(X, y) == model.log_likelihood(X, y)).all()
    assert [a.tolist() for a in again.predict(X)] == [a.tolist() for a in model.predict(X)]
    again.save(tmp_path / "other.trellis")
    assert path.read_bytes() == (tmp_path / "other.trellis").read_bytes()


def test_grid_files(tmp_path: Path, rng: np.random.Generator) -> None:
    X, y = images(rng, 2)
    model = GridCRF(contrast=True, max_iter=3).fit(X, y)
    model.save(tmp_path / "model.trellis")
    again = trellis.load(tmp_path / "model.trellis")
    assert type(again) is GridCRF
    assert (again.predict(X)[0] == model.predict(X)[0]).all()
    with pytest.raises(NotFittedError):
        GridCRF().save(tmp_path / "none.trellis")


FORGERIES: dict[str, Any] = {
    "no coef": lambda meta, t: t.pop("coef"),
    "no pairs": lambda meta, t: t.pop("pairs"),
    "no intercept": lambda meta, t: t.pop("intercept"),
    "pairs of other labels": lambda meta, t: t.update(pairs=np.zeros((1, 2, 2))),
    "no pair at all": lambda meta, t: t.update(pairs=np.zeros((0, 3, 3))),
    "coef of other labels": lambda meta, t: t.update(coef=np.zeros((4, 4))),
    "coef of a vector": lambda meta, t: t.update(coef=np.zeros(4)),
    "float32": lambda meta, t: t.update(coef=t["coef"].astype(np.float32)),
    "nan": lambda meta, t: t["coef"].__setitem__((0, 0), np.nan),
    "inf": lambda meta, t: t["pairs"].__setitem__((0, 0, 0), np.inf),
    "allowed of other labels": lambda meta, t: t.update(allowed=np.ones((2, 2), dtype=bool)),
    "an unknown objective": lambda meta, t: meta["parameters"].update(objective="guess"),
    "an unknown inference": lambda meta, t: meta["parameters"].update(inference=7),
    "negative l2": lambda meta, t: meta["parameters"].update(l2=-1.0),
    "an unknown parameter": lambda meta, t: meta["parameters"].update(colour="red"),
    "damping of text": lambda meta, t: meta["parameters"].update(damping="much"),
    "classes twice": lambda meta, t: meta.update(classes=["a", "a", "b"]),
    "no training": lambda meta, t: meta.pop("training"),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_forged_files(forgery: str, tmp_path: Path, rng: np.random.Generator) -> None:
    path = tmp_path / "model.trellis"
    GraphCRF(max_iter=2).fit(*graphs(rng, 6)).save(path)
    contents = native.read(path)
    tensors = {name: array.copy() for name, array in contents.tensors.items()}
    FORGERIES[forgery](contents.meta, tensors)
    native.write(path, "graph-crf", contents.meta, tensors)
    with pytest.raises(FormatError, match=r"model\.trellis"):
        trellis.load(path)


# ---- bad input

NODES = np.zeros((3, 2))
BAD_X: dict[str, tuple[Any, str]] = {
    "text": ("graphs", "list of graphs"),
    "a number": (7, "list of graphs"),
    "nothing": ([], "empty"),
    "an array": ([NODES], "graph 0 must be a tuple"),
    "seven parts": ([(NODES, (), None, None, None, None, 1)], "graph 0 must be a tuple"),
    "nodes of one axis": ([(np.zeros(3), ())], "nodes has shape"),
    "no nodes": ([(np.zeros((0, 2)), ())], "nodes has shape"),
    "nodes of text": ([("abc", ())], "array of numbers"),
    "nan": ([(np.full((3, 2), np.nan), ())], "nodes: feature 0 of node 0 is nan"),
    "sparse nan": ([(sparse.csr_matrix(np.full((1, 2), np.inf)), ())], "finite"),
    "a missing node": ([(NODES, [[0, 3]])], "graph 0: edge 0 has node 3: must be 0 to 2"),
    "a negative node": ([(NODES, [[0, 1], [-1, 0]])], "edge 1 has node -1"),
    "a loop": ([(NODES, [[1, 1]])], "joins node 1 to itself"),
    "edges of three": ([(NODES, [[0, 1, 2]])], "edges has dtype"),
    "edges that are not whole": ([(NODES, [[0.0, 1.0]])], "edges has dtype"),
    "ragged edges": ([(NODES, [[0, 1], [2]])], "edges must be"),
    "edge features too few": ([(NODES, [[0, 1]], np.zeros((2, 1)))], r"must be \(1, features\)"),
    "edge features of nan": (
        [(NODES, [[0, 1]], [[np.nan]])],
        "feature 0 of edge 0 is nan",
    ),
    "other widths": ([(NODES, ()), (np.zeros((3, 5)), ())], "graph 1 has 5 node features"),
    "other edge widths": (
        [(NODES, [[0, 1]]), (NODES, [[0, 1]], [[1.0]])],
        "graph 1 has 1 edge features",
    ),
    "types of text": ([(NODES, (), None, ["a"] * 3)], "node_types"),
    "types too few": ([(NODES, (), None, [0])], "node_types"),
    "types in some": ([(NODES, (), None, [0] * 3), (NODES, ())], "node_types"),
}


@pytest.mark.parametrize("name", BAD_X)
def test_bad_graphs(name: str, rng: np.random.Generator) -> None:
    X, message = BAD_X[name]
    y = [[0, 1, 0]] * (len(X) if isinstance(X, list) else 1)
    with pytest.raises(InputError, match=message):
        GraphCRF().fit(X, y)
    model = GraphCRF(max_iter=1).fit([(NODES, [[0, 1]])], [[0, 1, 0]])
    with pytest.raises(InputError, match=message):
        model.predict(X)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([[0, 1]], "sequence 0 has 3 positions and 2 labels"),
        ([[0, 1, 0]] * 2, "X has 1 sequences, y has 2"),
        ([[None, None, None]], "no label is known at any position"),
        ([[0, set(), 1]], "sequence 0, position 1: set"),
        ([[0, np.nan, 1]], "nan cannot be a label"),
        ("abc", "list"),
        ([7], "list"),
    ],
)
def test_bad_labels(y: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        GraphCRF().fit([(NODES, [[0, 1]])], y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "magic"}, "objective must be one of likelihood"),
        ({"inference": "magic"}, "inference must be one of auto"),
        ({"l2": -1}, "l2"),
        ({"l1": "x"}, "l1"),
        ({"tol": np.nan}, "tol"),
        ({"max_iter": 0}, "max_iter"),
        ({"damping": 1.0}, "damping"),
        ({"max_sweeps": 0}, "max_sweeps"),
        ({"n_jobs": 0}, "n_jobs"),
    ],
)
@pytest.mark.parametrize("kind", [GraphCRF, GridCRF])
def test_bad_parameters(kind: Any, options: dict[str, Any], message: str) -> None:
    X = [(NODES, [[0, 1]])] if kind is GraphCRF else [np.zeros((1, 3))]
    with pytest.raises(InputError, match=message):
        kind(**options).fit(X, [[0, 1, 0]] if kind is GraphCRF else [[[0, 1, 0]]])


def test_data_that_do_not_fit_the_model(rng: np.random.Generator) -> None:
    X, y = graphs(rng, 4)
    model = GraphCRF(max_iter=1).fit(X, y)
    with pytest.raises(InputError, match="X has 2 node features and 0 edge"):
        model.predict([(np.zeros((3, 2)), [[0, 1]])])
    with pytest.raises(InputError, match="3 edge features"):
        model.predict([(np.zeros((3, 4)), [[0, 1]], np.zeros((1, 3)))])
    with pytest.raises(InputError, match="not one of the 3 labels"):
        model.log_likelihood(X, [["z"] * len(labels) for labels in y])
    with pytest.raises(InputError, match="y has 3"):
        model.score(X, y[:3])
    wide = [[i, j] for i in range(40) for j in range(i)]
    with pytest.raises(InputError, match="induced width"):
        GraphCRF("likelihood").fit([(np.zeros((40, 1)), wide)], [[0, 1] * 20])


BAD_IMAGES: dict[str, tuple[Any, Any, str]] = {
    "text": ("images", [[[0]]], "list of images"),
    "nothing": ([], [], "empty"),
    "one axis": ([np.zeros(3)], [[[0]]], "image 0 has shape"),
    "no pixel": ([np.zeros((0, 3))], [[[0]]], "image 0 has shape"),
    "nan": (
        [np.full((2, 2), np.nan)],
        [[[0, 1], [1, 0]]],
        r"image 0: feature 0 of pixel \(0, 0\) is nan",
    ),
    "words": ([[["a", "b"]]], [[[0, 1]]], "array of numbers"),
    "other depths": (
        [np.zeros((2, 2)), np.zeros((2, 2, 3))],
        [[[0]]] * 2,
        "image 1 has 3 features",
    ),
    "labels of one axis": ([np.zeros((2, 2))], [[0, 1, 0, 1]], "labels of image 0"),
    "labels too few": (
        [np.zeros((2, 2))],
        [[[0, 1]]],
        r"image 0 have shape \(1, 2\): must be \(2, 2\)",
    ),
    "labels of text": ([np.zeros((2, 2))], "ab", "list of label arrays"),
}


@pytest.mark.parametrize("name", BAD_IMAGES)
def test_bad_images(name: str) -> None:
    X, y, message = BAD_IMAGES[name]
    with pytest.raises(InputError, match=message):
        GridCRF().fit(X, y)


def test_samples_that_do_not_fit_into_memory_together(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trellis.models.graph import inference

    X, y = graphs(rng, 9)
    model = GraphCRF(tol=1e-9).fit(X, y)
    expected, marginals = model.predict(X), model.predict_marginals(X)
    monkeypatch.setattr(inference, "MAX_TABLE_ENTRIES", 300)
    small = GraphCRF(tol=1e-9).fit(X, y)
    np.testing.assert_allclose(small.coef_, model.coef_, atol=1e-6)
    assert [a.tolist() for a in small.predict(X)] == [a.tolist() for a in expected]
    for p, q in zip(small.predict_marginals(X), marginals, strict=True):
        np.testing.assert_allclose(p, q, atol=1e-5)
    monkeypatch.setattr(inference, "MAX_TABLE_ENTRIES", 10)  # no sample fits: belief propagation
    assert model.predict_marginals(X)[0].shape == marginals[0].shape
    with pytest.raises(InputError, match="induced width"):
        GraphCRF().fit(X, y)
