"""The fast path for grids equals belief propagation, and is exact on lines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trellis.errors import InfeasibleError, InputError
from trellis.inference import chain, graph
from trellis.inference.graph.belief import bethe_terms, propagate
from trellis.inference.graph.grid import tree_weights


def grid(
    rng: np.random.Generator, height: int, width: int, labels: int, scale: float, per_edge: bool
) -> tuple[Any, Any, Any]:
    """Return unary scores and tables, one per edge or shared."""
    square = (labels, labels)
    across = (height, width - 1, *square) if per_edge else square
    down = (height - 1, width, *square) if per_edge else square
    tables = [scale * rng.normal(size=shape) for shape in (across, down)]
    return rng.normal(size=(height, width, labels)), *tables


@pytest.mark.usefixtures("isa")
@pytest.mark.parametrize("per_edge", [False, True])
@pytest.mark.parametrize("labels", [1, 2, 3, 7])
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (10, 1), (5, 7), (9, 17)])
def test_fixed_points_are_those_of_the_general_engine(
    shape: tuple[int, int], labels: int, per_edge: bool, rng: np.random.Generator
) -> None:
    scores = grid(rng, *shape, labels, 0.3, per_edge)
    ours = graph.grid_marginals(*scores, tolerance=1e-13, max_iter=500)
    theirs = graph.marginals(graph.grid_graph(*scores), "bp", tolerance=1e-13, max_iter=2000)
    assert ours.converged
    assert ours.kind == "Bethe"
    np.testing.assert_allclose(ours.unary.reshape(-1, labels), theirs.variables, atol=1e-10)
    assert ours.log_partition == pytest.approx(theirs.log_partition, abs=1e-9)
    pairs = [p for p in (ours.horizontal, ours.vertical) if p.size]
    for mine, other in zip(pairs, theirs.factors[1:], strict=True):
        np.testing.assert_allclose(mine.reshape(other.shape), other, atol=1e-10)


@pytest.mark.usefixtures("isa")
@pytest.mark.parametrize("labels", [2, 5])
@pytest.mark.parametrize("scale", [1.0, 1e4])
@pytest.mark.parametrize("forbidden", [0.0, 0.15])
def test_lines_are_exact_chains(
    labels: int, scale: float, forbidden: float, rng: np.random.Generator
) -> None:
    unary, table = scale * rng.normal(size=(40, labels)), scale * rng.normal(size=(labels, labels))
    table[rng.random(table.shape) < forbidden] = -np.inf
    np.fill_diagonal(table, 0.0)
    want = chain.marginals(unary, table)
    best = chain.viterbi(unary, table)
    for column in (False, True):
        u = unary[:, None] if column else unary[None]
        other = np.zeros((labels, labels))
        scores = (u, other, table) if column else (u, table, other)
        p = graph.grid_marginals(*scores, max_iter=3)
        np.testing.assert_allclose(p.unary.reshape(want.unary.shape), want.unary, atol=1e-9)
        assert p.log_partition == pytest.approx(want.log_partition, rel=1e-12)
        top = graph.grid_best(*scores, max_iter=3)
        np.testing.assert_array_equal(top.labels.ravel(), best.labels)
        assert top.score == pytest.approx(best.score, rel=1e-12)


@pytest.mark.usefixtures("isa")
@pytest.mark.parametrize("per_edge", [False, True])
def test_forbidden_pairs_and_large_scores(per_edge: bool, rng: np.random.Generator) -> None:
    unary, across, down = grid(rng, 4, 5, 3, 1.0, per_edge)
    for table in (across, down):
        table[..., 0, 2] = -np.inf
    unary[1, 1, 1] = -np.inf
    unary[2, 3] *= 1e4
    ours = graph.grid_marginals(unary, across, down, tolerance=1e-12, max_iter=1000, damping=0.3)
    g = graph.grid_graph(unary, across, down)
    theirs = graph.marginals(g, "bp", tolerance=1e-12, max_iter=5000, damping=0.3)
    assert ours.converged
    assert theirs.converged
    np.testing.assert_allclose(ours.unary.reshape(-1, 3), theirs.variables, atol=1e-8)
    assert ours.unary[1, 1, 1] == 0.0
    assert (ours.horizontal[..., 0, 2] == 0.0).all()


def test_a_small_grid_is_near_the_exact_marginals(rng: np.random.Generator) -> None:
    scores = grid(rng, 4, 6, 2, 0.2, True)
    exact = graph.marginals(graph.grid_graph(*scores))
    p = graph.grid_marginals(*scores)
    np.testing.assert_allclose(p.unary.reshape(-1, 2), exact.variables, atol=0.01)
    assert p.log_partition == pytest.approx(exact.log_partition, abs=0.05)


@pytest.mark.usefixtures("isa")
@pytest.mark.parametrize("labels", [2, 4])
def test_max_product_agrees_with_cuts(labels: int, rng: np.random.Generator) -> None:
    unary = rng.normal(size=(12, 15, labels))
    scores = (unary, 0.4 * np.eye(labels), 0.4 * np.eye(labels))
    best = graph.grid_best(*scores, max_iter=300, damping=0.2)
    rival = graph.best(graph.grid_graph(*scores), "cut" if labels == 2 else "expansion")
    assert best.score >= rival.score - 0.02 * abs(rival.score)
    assert best.score == pytest.approx(graph.grid_score(*scores, best.labels))
    assert best.score == pytest.approx(graph.grid_graph(*scores).score(best.labels.ravel()))


@pytest.mark.usefixtures("isa")
@pytest.mark.parametrize("per_edge", [False, True])
@pytest.mark.parametrize("labels", [2, 3])
def test_the_same_bits_for_every_number_of_threads(
    labels: int, per_edge: bool, rng: np.random.Generator
) -> None:
    scores = grid(rng, 70, 130, labels, 0.5, per_edge)
    results = [graph.grid_marginals(*scores, max_iter=6, n_jobs=jobs) for jobs in (1, 2, 5)]
    for other in results[1:]:
        assert (other.unary == results[0].unary).all()
        assert other.log_partition == results[0].log_partition
        assert other.residual == results[0].residual


def test_instruction_sets_agree(rng: np.random.Generator) -> None:
    from trellis import native

    scores = grid(rng, 33, 18, 2, 0.8, False)
    before, results = native.isa(), []
    try:
        for name in native.available_isas():
            native.use_isa(name)
            results.append(graph.grid_marginals(*scores, max_iter=20).unary)
    finally:
        native.use_isa(before)
    for other in results[1:]:
        np.testing.assert_allclose(other, results[0], atol=1e-11)


def test_convergence_report(rng: np.random.Generator) -> None:
    scores = grid(rng, 6, 6, 2, 0.3, False)
    none = graph.grid_marginals(*scores, max_iter=0)
    assert (none.iterations, none.converged) == (0, False)
    few = graph.grid_marginals(*scores, max_iter=2, tolerance=0.0)
    assert (few.iterations, few.converged) == (2, False)
    assert few.residual > 0
    many = graph.grid_marginals(*scores)
    assert many.converged
    assert many.residual <= 1e-6


def test_no_allowed_labelling() -> None:
    forbidden = np.full((2, 2), -np.inf)
    with pytest.raises(InfeasibleError, match="forbid all labels of a pixel"):
        graph.grid_marginals(np.zeros((3, 3, 2)), forbidden, np.zeros((2, 2)))


BAD = {
    "unary of two axes": ((np.zeros((3, 2)), np.eye(2), np.eye(2)), "height, width, labels"),
    "no pixel": ((np.zeros((0, 3, 2)), np.eye(2), np.eye(2)), "all at least 1"),
    "horizontal": ((np.zeros((3, 3, 2)), np.eye(3), np.eye(2)), r"horizontal has shape \(3, 3\)"),
    "vertical": (
        (np.zeros((3, 3, 2)), np.eye(2), np.zeros((3, 3, 2, 2))),
        r"vertical has shape \(3, 3, 2, 2\)",
    ),
    "nan": ((np.full((2, 2, 2), np.nan), np.eye(2), np.eye(2)), r"unary is nan at \[0, 0, 0\]"),
    "inf": ((np.zeros((2, 2, 2)), np.eye(2), np.diag([0, np.inf])), r"vertical is inf at \[1, 1\]"),
    "text": (("grid", np.eye(2), np.eye(2)), "arrays of numbers"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_grids(name: str) -> None:
    scores, message = BAD[name]
    for call in (graph.grid_marginals, graph.grid_best, graph.grid_graph):
        with pytest.raises(InputError, match=message):
            call(*scores)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"damping": 1.0}, "damping"),
        ({"damping": -0.1}, "damping"),
        ({"damping": np.nan}, "damping"),
        ({"max_iter": -1}, "max_iter"),
        ({"max_iter": 1.5}, "max_iter"),
        ({"tolerance": -1.0}, "tolerance"),
        ({"tolerance": "small"}, "tolerance"),
        ({"n_jobs": 0}, "n_jobs"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    for call in (graph.grid_marginals, graph.grid_best):
        with pytest.raises(InputError, match=message):
            call(np.zeros((2, 2, 2)), np.eye(2), np.eye(2), **options)


def test_bad_labels_of_a_grid() -> None:
    scores = (np.zeros((2, 2, 2)), np.eye(2), np.eye(2))
    with pytest.raises(InputError, match="shape"):
        graph.grid_score(*scores, [0, 1])
    with pytest.raises(InputError, match=r"pixel \[1, 0\] has label 2"):
        graph.grid_score(*scores, [[0, 1], [2, 0]])


# ---- tree-reweighted


def reweighted(scores: Any) -> tuple[Any, np.ndarray, float]:
    """Compute beliefs and the bound with the general engine and the same weights of edges."""
    g = graph.grid_graph(*scores)
    across, down = tree_weights(*scores[0].shape[:2])
    sides = [len(e.variables) for e in g.entries[1:]]
    shares = [across, down] if len(sides) == 2 else [across if scores[0].shape[1] > 1 else down]
    weights = np.concatenate([np.ones(len(g)), *map(np.full, sides, shares)])
    beliefs = propagate(
        g, maximise=False, weights=weights, damping=0.3, tolerance=1e-13, max_iter=5000
    )
    assert beliefs.converged
    return g, beliefs.variables, float(bethe_terms(g, beliefs, weights).sum())


@pytest.mark.usefixtures("isa")
@pytest.mark.parametrize("per_edge", [False, True])
@pytest.mark.parametrize("labels", [2, 3, 7])
@pytest.mark.parametrize("shape", [(1, 9), (10, 1), (3, 4), (5, 7), (9, 17)])
def test_reweighted_fixed_points_are_those_of_the_general_engine(
    shape: tuple[int, int], labels: int, per_edge: bool, rng: np.random.Generator
) -> None:
    scores = grid(rng, *shape, labels, 0.6, per_edge)
    ours = graph.grid_marginals(*scores, method="trw", tolerance=1e-13, max_iter=2000)
    assert ours.converged
    assert ours.kind == "upper bound"
    g, beliefs, bound = reweighted(scores)
    np.testing.assert_allclose(ours.unary.ravel(), beliefs, atol=1e-10)
    assert ours.log_partition == pytest.approx(bound, abs=1e-9)
    for pairs, ends in ((ours.horizontal, ours.unary[:, :-1]), (ours.vertical, ours.unary[:-1])):
        np.testing.assert_allclose(pairs.sum(axis=-1), ends, atol=1e-9)  # beliefs agree
    if labels ** min(shape) <= 3**5:
        exact = graph.marginals(g, "exact")
        assert ours.log_partition >= exact.log_partition - 1e-9
        if 1 in shape:  # a line is a tree, so the bound is exact
            assert ours.log_partition == pytest.approx(exact.log_partition, abs=1e-9)
            np.testing.assert_allclose(ours.unary.ravel(), exact.variables.ravel(), atol=1e-9)


@pytest.mark.usefixtures("isa")
@pytest.mark.parametrize("per_edge", [False, True])
def test_reweighted_with_forbidden_labels_and_pairs(
    per_edge: bool, rng: np.random.Generator
) -> None:
    unary, across, down = grid(rng, 4, 5, 3, 1.0, per_edge)
    for table in (across, down):
        table[..., 0, 2] = -np.inf
    unary[1, 1, 1] = -np.inf
    scores = unary, across, down
    ours = graph.grid_marginals(*scores, method="trw", tolerance=1e-13, max_iter=5000)
    g, beliefs, bound = reweighted(scores)
    np.testing.assert_allclose(ours.unary.ravel(), beliefs, atol=1e-9)
    assert ours.log_partition == pytest.approx(bound, abs=1e-8)
    assert ours.log_partition >= graph.log_partition(g) - 1e-9
    assert (ours.horizontal[..., 0, 2] == 0.0).all()


def test_strong_pairs_have_one_reweighted_fixed_point(rng: np.random.Generator) -> None:
    """Here belief propagation has two fixed points: all labels 0, and all labels 1."""
    unary, table = 0.01 * rng.normal(size=(12, 12, 2)), 2.0 * np.eye(2)
    p = graph.grid_marginals(unary, table, table, method="trw", max_iter=5000)
    turned = graph.grid_marginals(unary[:, ::-1], table, table, method="trw", max_iter=5000)
    assert p.converged
    np.testing.assert_allclose(p.unary, turned.unary[:, ::-1], atol=1e-3)
    exact = graph.log_partition(graph.grid_graph(unary, table, table))
    assert p.log_partition >= exact


def test_weights_are_those_of_spanning_trees() -> None:
    for height, width in ((1, 1), (1, 6), (7, 1), (3, 4), (64, 48)):
        across, down = tree_weights(height, width)
        edges = height * (width - 1) * across + (height - 1) * width * down
        assert edges == pytest.approx(height * width - 1)


def test_unknown_method_of_a_grid() -> None:
    with pytest.raises(InputError, match="method must be one of bp, trw, not 'best'"):
        graph.grid_marginals(np.zeros((2, 2, 2)), np.eye(2), np.eye(2), method="best")
