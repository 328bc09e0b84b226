"""Parts of the graph models: features of grids, losses by enumeration, slices of samples."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graph_data import graphs, images
from test_graph_gradients import objective_of

from trellis import GraphCRF, GridCRF
from trellis.errors import InputError
from trellis.formats.native import Tensors
from trellis.models.graph.samples import Samples, Shape, offsets

PATH = Path("a.trellis")
IMAGE = np.array([[[1.0, -2.0], [3.0, 5.0], [-4.0, 0.5]], [[0.0, 1.0], [2.0, -1.0], [6.0, 7.0]]])
# horizontal neighbours of both rows, then vertical ones
PAIRS = [[0, 1], [1, 2], [3, 4], [4, 5], [0, 3], [1, 4], [2, 5]]
CONTRAST = [4.5, 5.75, 2.0, 6.0, 2.0, 3.5, 8.25]
HORIZONTAL, VERTICAL = [1.0] * 4 + [0.0] * 3, [0.0] * 4 + [1.0] * 3


@pytest.mark.parametrize("contrast", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_grids_as_samples(directed: bool, contrast: bool) -> None:
    expected = [HORIZONTAL, VERTICAL] if directed else [[1.0] * 7]
    expected += [CONTRAST] if contrast else []
    model = GridCRF(directed=directed, contrast=contrast)
    samples = model._collect([IMAGE[:1, :1], IMAGE])
    assert samples.edges.tolist() == [[a + 1, b + 1] for a, b in PAIRS]
    assert samples.edge_features.T.tolist() == expected
    pixels = [[1.0, -2.0], *IMAGE.reshape(-1, 2).tolist()]
    assert samples.nodes.tolist() == [[*pixel, 1.0] for pixel in pixels]
    assert (samples.node_begin.tolist(), samples.edge_begin.tolist()) == ([0, 1, 7], [0, 0, 7])
    assert (samples.grids, samples.types) == (((1, 1), (2, 3)), None)
    without = model.set_params(fit_intercept=False)._collect([IMAGE])
    assert without.nodes.tolist() == pixels[1:]
    grey = GridCRF(fit_intercept=False)._collect([IMAGE[..., 0]])
    assert grey.nodes.tolist() == IMAGE[..., :1].reshape(-1, 1).tolist()


def test_the_number_of_tables_depends_on_the_options() -> None:
    X, y = images(np.random.default_rng(0), 1, 3)
    for directed, contrast in product((False, True), repeat=2):
        model = GridCRF("pseudolikelihood", directed=directed, contrast=contrast).fit(X, y)
        count = 1 + directed + contrast
        assert model.pair_coef_.shape == (count, 2, 2)
        meta, tensors = model.to_parts()
        assert GridCRF.from_parts(meta, Tensors(PATH, tensors)).pair_coef_.shape == (count, 2, 2)
        for wrong in (count - 1, count + 1):
            forged = Tensors(PATH, {**tensors, "pairs": np.zeros((wrong, 2, 2))})
            message = f"pairs has {wrong} matrices" if wrong else "pairs is empty"
            with pytest.raises(InputError, match=message):
                GridCRF.from_parts(meta, forged)


def test_graphs_as_samples() -> None:
    nodes = np.arange(6.0).reshape(3, 2)
    X: list[Any] = [(nodes[:1], (), np.zeros((0, 1))), (nodes, [[2, 0], [0, 1]], [[5.0], [7.0]])]
    samples = GraphCRF()._collect(X)
    assert samples.edges.tolist() == [[3, 1], [1, 2]]
    assert samples.edge_features.tolist() == [[1.0, 5.0], [1.0, 7.0]]
    assert samples.nodes.tolist() == [[0, 1, 1], [0, 1, 1], [2, 3, 1], [4, 5, 1]]
    assert (samples.node_begin.tolist(), samples.edge_begin.tolist()) == ([0, 1, 4], [0, 0, 2])
    assert samples.sample_of_nodes().tolist() == [0, 1, 1, 1]
    assert samples.factors[0].samples().tolist() == [1, 1]
    part = samples.part(1, 2)
    assert part.edges.tolist() == [[2, 0], [0, 1]]
    assert (part.node_begin.tolist(), part.edge_begin.tolist()) == ([0, 3], [0, 2])
    assert part.edge_features.tolist() == samples.edge_features.tolist()
    # The nodes alone, as a tuple or a list of one part, are a graph without edges.
    for one in ((nodes,), [nodes]):
        alone = GraphCRF(fit_intercept=False)._collect([one])
        assert (alone.nodes.tolist(), alone.edges.shape) == (nodes.tolist(), (0, 2))
        assert (alone.edge_features.shape, alone.types) == ((0, 1), None)
    typed = GraphCRF()._collect([(nodes, (), None, [0, 2, 0])])
    assert typed.types is not None
    assert typed.types.tolist() == [0, 2, 0]


@pytest.mark.parametrize("types", [[0, -1, 0], [0.0, 1.0, 0.0], [0, 1], [[0, 1, 0]]])
def test_invalid_types(types: Any) -> None:
    with pytest.raises(InputError, match="graph 0: node_types must be 3 integers of at least 0"):
        GraphCRF()._collect([(np.zeros((3, 1)), (), None, types)])


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (1, [(0, 1), (1, 2), (2, 3), (3, 4)]),
        (23, [(0, 1), (1, 2), (2, 3), (3, 4)]),
        (24, [(0, 2), (2, 3), (3, 4)]),
        (27, [(0, 2), (2, 3), (3, 4)]),
        (28, [(0, 2), (2, 4)]),
        (47, [(0, 2), (2, 4)]),
        (48, [(0, 3), (3, 4)]),
        (51, [(0, 3), (3, 4)]),
        (52, [(0, 4)]),
    ],
)
def test_slices_of_samples(limit: int, expected: list[tuple[int, int]]) -> None:
    """The samples have 3 + 1, 1 + 1, 4 + 2 and 1 + 0 nodes and edges, with 4 numbers each."""
    samples = Samples(
        np.zeros((9, 1)), np.zeros((4, 2), np.int64), np.zeros((4, 1)),
        offsets([3, 1, 4, 1]), offsets([1, 1, 2, 0]), None,
    )  # fmt: skip
    assert list(samples.slices(2, limit)) == expected


# ---- losses


def brute_scores(samples: Samples, shape: Shape, w: np.ndarray) -> dict[tuple[int, ...], float]:
    """Return the score of every labelling of one sample."""
    nodes, pairs = shape.split(w)
    unary = samples.nodes @ nodes.T
    tables = np.einsum("ek,kab->eab", samples.edge_features, pairs)
    return {
        labels: sum(unary[v, y] for v, y in enumerate(labels))
        + sum(tables[e, labels[a], labels[b]] for e, (a, b) in enumerate(samples.edges))
        for labels in product(range(shape.n_labels), repeat=len(unary))
    }


@pytest.mark.parametrize("objective", ["likelihood", "perceptron", "ssvm", "pseudolikelihood"])
@pytest.mark.parametrize("l2", [0.0, 0.75])
def test_losses_by_enumeration(objective: str, l2: float, rng: np.random.Generator) -> None:
    X, y = graphs(rng, 3, edge_features=1)
    X, y = [x for x in X if len(x[0]) < 7], [labels for labels in y if len(labels) < 7]
    weights = np.array([1.0, 0.25, 3.0])[: len(X)]
    model = GraphCRF(objective, l2=l2, inference="exact")
    f, size = objective_of(model, X, y, weights)
    w = rng.normal(size=size)
    classes = sorted({label for labels in y for label in labels})
    samples = model._collect(X)
    shape = Shape(len(classes), samples.nodes.shape[1], samples.edge_features.shape[1])
    expected = 0.5 * l2 * float(w @ w)
    for i, weight in enumerate(weights):
        scores = brute_scores(samples.part(i, i + 1), shape, w)
        truth = tuple(classes.index(label) for label in y[i])
        if objective == "likelihood":
            level = np.logaddexp.reduce([*scores.values()])
            expected += weight * (level - scores[truth])
        elif objective == "pseudolikelihood":
            for v in range(len(truth)):
                others = [scores[(*truth[:v], k, *truth[v + 1 :])] for k in range(len(classes))]
                expected += weight * (np.logaddexp.reduce(others) - scores[truth])
        else:
            margin = float(objective == "ssvm")
            level = max(
                score + margin * sum(a != b for a, b in zip(labels, truth, strict=True))
                for labels, score in scores.items()
            )
            expected += weight * (level - scores[truth])
    assert f(w, np.empty(size)) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_likelihoods_by_enumeration(fit_intercept: bool, rng: np.random.Generator) -> None:
    X, y = graphs(rng, 3)
    X, y = [(x[0][:4], x[1][:2]) for x in X], [labels[:4] for labels in y]
    model = GraphCRF(
        "likelihood", l2=0.5, inference="exact", fit_intercept=fit_intercept, max_iter=3
    ).fit(X, y)
    samples = model._collect(X)
    nodes = model.coef_
    if fit_intercept:
        nodes = np.concatenate([nodes, model.intercept_[:, None]], axis=1)
    else:
        assert not model.intercept_.any()
    w = np.concatenate([nodes.ravel(), model.pair_coef_.ravel()])
    shape = Shape(len(model.classes_), nodes.shape[1], 1)
    classes = model.classes_.tolist()
    for i, value in enumerate(model.log_likelihood(X, y)):
        scores = brute_scores(samples.part(i, i + 1), shape, w)
        truth = tuple(classes.index(label) for label in y[i])
        log_z = np.logaddexp.reduce([*scores.values()])
        assert value == pytest.approx(scores[truth] - log_z, rel=1e-9)
    for wrong, count in ((y[:2], 2), ([*y, y[0]], 4)):
        with pytest.raises(InputError, match=f"(X has 3 samples, y has {count}|X has 1 seq|3 seq)"):
            model.log_likelihood(X, wrong)


# ---- predictions


def test_labels_of_several_types_keep_their_types() -> None:
    X = [(np.eye(3), [[0, 1]])] * 2
    for labels in (["a", 1, 2.5], ["a", "a\0", "b"], [True, 2, "x"], [1, 2, 3], ["a", "b", "c"]):
        model = GraphCRF("pseudolikelihood", l2=1e-3).fit(X, [labels, labels])
        for predicted in model.predict(X):
            assert predicted.tolist() == labels
            assert [type(label) for label in predicted.tolist()] == [type(v) for v in labels]


def test_scores_are_weighted_by_sample() -> None:
    X = [(np.eye(3), ()), (np.eye(3)[:1], ())]
    model = GraphCRF("pseudolikelihood", l2=1e-3).fit(X, [[0, 1, 2], [0]])
    y = [[0, 1, 0], [1]]
    assert model.score(X, y) == pytest.approx(2 / 4)
    assert model.score(X, y, [1.0, 3.0]) == pytest.approx(2 / 6)
    assert model.score(X, y, [0.0, 3.0]) == 0.0
    assert model.score(X, y, [0.0, 0.0]) == 0.0
    with pytest.raises(InputError, match=r"labels of sample 1 have shape \(2,\): must be \(1,\)"):
        model.score(X, [[0, 1, 2], [0, 0]])
