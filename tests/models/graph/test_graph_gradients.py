"""Gradients of all objectives of graph models, compared with central differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_data import OBJECTIVES, clique_graphs, graphs, images

from trellis import GraphCRF, GridCRF
from trellis.models.chain.labels import encode
from trellis.models.graph.samples import Shape
from trellis.models.graph.targets import check_targets, encode_targets


def objective_of(model: Any, X: Any, y: Any, weights: Any = None) -> tuple[Any, int]:
    """Return objective(w, gradient) and the number of weights."""
    samples = model._collect(X)
    v = np.ones(len(samples)) if weights is None else weights
    classes, model.allowed_, targets = encode_targets(model._flatten(y), samples, v)
    check_targets(model.objective, samples, targets)
    widths = samples.nodes.shape[1], samples.edge_features.shape[1]
    shape = Shape(len(classes), *widths, samples.clique_shapes)
    return model._objective_of(samples, targets, shape, model.objective), shape.size


def assert_gradient(
    objective: Any, w: np.ndarray, tolerance: float = 2e-6, entries: Any = None
) -> None:
    """Compare the gradient with central differences, at all weights or at ``entries``."""
    gradient, other = np.empty_like(w), np.empty_like(w)
    objective(w, gradient)
    h = 1e-5
    for i in range(len(w)) if entries is None else entries:
        step = np.zeros_like(w)
        step[i] = h
        slope = (objective(w + step, other) - objective(w - step, other)) / (2 * h)
        assert slope == pytest.approx(gradient[i], rel=tolerance, abs=tolerance)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("symmetric", [False, True])
def test_graph_objectives(objective: str, symmetric: bool, rng: np.random.Generator) -> None:
    X, y = graphs(rng, 4, edge_features=2)
    model = GraphCRF(objective, l2=0.3, symmetric=symmetric, max_sweeps=3000)
    f, size = objective_of(model, X, y, np.array([1.0, 0.5, 2.0, 1.0]))
    assert_gradient(f, 0.3 * rng.normal(size=size))


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_graph_objectives_with_types(objective: str, rng: np.random.Generator) -> None:
    X, y = graphs(rng, 4, types=True)
    f, size = objective_of(GraphCRF(objective, l2=0.0, fit_intercept=False), X, y)
    assert_gradient(f, 0.3 * rng.normal(size=size))


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("symmetric", [False, True])
def test_objectives_with_cliques(objective: str, symmetric: bool, rng: np.random.Generator) -> None:
    X, y = clique_graphs(rng, 3)
    model = GraphCRF(objective, l2=0.3, symmetric=symmetric, max_sweeps=5000, damping=0.4)
    f, size = objective_of(model, X, y, np.array([1.0, 0.5, 2.0]))
    entries = rng.permutation(size)[:80]
    assert_gradient(f, 0.3 * rng.normal(size=size), entries=entries)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("contrast", [False, True])
def test_grid_objectives(objective: str, contrast: bool, rng: np.random.Generator) -> None:
    X, y = images(rng, 2, 4)
    model = GridCRF(objective, l2=0.2, contrast=contrast, max_sweeps=2000)
    f, size = objective_of(model, X, y)
    assert_gradient(f, 0.2 * rng.normal(size=size))


def test_the_likelihood_of_chains_is_that_of_the_chain_engine(rng: np.random.Generator) -> None:
    from trellis.inference import chain

    X = [(rng.normal(size=(n, 3)), [[i, i + 1] for i in range(n - 1)]) for n in (1, 4, 7)]
    y = [rng.integers(3, size=len(nodes)) for nodes, _ in X]
    y[2][:3] = [0, 1, 2]
    model = GraphCRF(l2=0.0, fit_intercept=False)
    f, size = objective_of(model, X, y)
    w = rng.normal(size=size)
    node_weights, pairs = Shape(3, 3, 1).split(w)
    expected = -sum(
        chain.log_prob(nodes @ node_weights.T, pairs[0], labels=labels)
        for (nodes, _), labels in zip(X, y, strict=True)
    )
    assert f(w, np.empty(size)) == pytest.approx(expected)


def test_pseudolikelihood_is_the_sum_of_conditionals(rng: np.random.Generator) -> None:
    """The expected conditionals enumerate the labels of one node."""
    X, y = graphs(rng, 1)
    model = GraphCRF("pseudolikelihood", l2=0.0)
    f, size = objective_of(model, X, y)
    w = rng.normal(size=size)
    samples = model._collect(X)
    labels = encode(y, np.diff(samples.node_begin)).label.astype(np.int64)
    unary, (tables,) = samples.scores(w, Shape(len(set(y[0])), 5, 1), None)

    def score(labelling: np.ndarray) -> float:
        pairs = sum(tables[e, labelling[a], labelling[b]] for e, (a, b) in enumerate(samples.edges))
        return float(unary[np.arange(len(labelling)), labelling].sum() + pairs)

    expected = 0.0
    for v in range(len(labels)):
        scores = []
        for label in range(unary.shape[1]):
            changed = labels.copy()
            changed[v] = label
            scores.append(score(changed))
        expected -= score(labels) - np.logaddexp.reduce(scores)
    assert f(w, np.empty(size)) == pytest.approx(expected)
