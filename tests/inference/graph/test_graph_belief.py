"""Belief propagation is exact on trees. Upper bounds are above log Z, lower bounds below it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_cases import Factors, assert_truth, enumerate_all, random_factors, random_tree
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples

from trellis.errors import InfeasibleError
from trellis.inference import graph
from trellis.inference.graph import FactorGraph, reference
from trellis.inference.graph.belief import propagate, spanning_forests


@pytest.mark.parametrize("schedule", ["parallel", "residual"])
@pytest.mark.parametrize("damping", [0.0, 0.3])
@pytest.mark.parametrize("parts", [1, 3])
def test_trees_are_exact(
    schedule: str, damping: float, parts: int, rng: np.random.Generator
) -> None:
    cards = [2, 3, 2, 4, 2, 3, 2, 2]
    factors = random_tree(rng, cards, parts)
    p = graph.marginals(
        FactorGraph(cards, factors), "bp", schedule=schedule, damping=damping, tolerance=1e-13
    )
    assert p.converged
    assert p.kind == "Bethe"
    assert_truth(p, enumerate_all(cards, factors))


def test_a_tree_of_triples_is_exact(rng: np.random.Generator) -> None:
    cards = [2, 2, 3, 2, 2]
    factors: Factors = [
        ((0, 1, 2), rng.normal(size=(2, 2, 3))),
        ((2, 3, 4), rng.normal(size=(3, 2, 2))),
        ((3,), [0.5, -0.5]),
    ]
    assert_truth(
        graph.marginals(FactorGraph(cards, factors), "bp"), enumerate_all(cards, factors), 1e-8
    )


@pytest.mark.parametrize("schedule", ["parallel", "residual"])
def test_max_product_on_trees_is_the_best(schedule: str, rng: np.random.Generator) -> None:
    cards = [2, 3, 2, 4, 2, 3, 2]
    for _ in range(5):
        factors = random_tree(rng, cards)
        truth = enumerate_all(cards, factors)
        best = graph.best(FactorGraph(cards, factors), "max-product", schedule=schedule)
        np.testing.assert_array_equal(best.labels, truth.best)
        assert best.score == pytest.approx(truth.best_score)
        assert not best.optimal  # max-product does not prove optimality, even on a tree


def test_forbidden_labels_on_trees(rng: np.random.Generator) -> None:
    cards = [3, 3, 3, 3]
    factors: Factors = [(v, np.array(t)) for v, t in random_tree(rng, cards)]
    factors[4][1][0, 1:] = -np.inf
    factors[5][1][2] = -np.inf
    factors[0][1][1] = -np.inf
    truth = enumerate_all(cards, factors)
    for schedule in ("parallel", "residual"):
        for damping in (0.0, 0.5):
            p = graph.marginals(
                FactorGraph(cards, factors),
                "bp",
                schedule=schedule,
                damping=damping,
                tolerance=1e-13,
            )
            assert_truth(p, truth)


@pytest.mark.parametrize("iterations", [1, 2, 7])
@pytest.mark.parametrize("add", ["sum", "max"])
def test_loops_against_the_reference(iterations: int, add: str, rng: np.random.Generator) -> None:
    cards = [2, 3, 2, 2, 3]
    g = FactorGraph(cards, random_factors(rng, cards, edges=0.8, triples=1))
    beliefs = propagate(g, maximise=add == "max", max_iter=iterations, tolerance=0.0)
    option = {"add": np.max} if add == "max" else {}
    want = np.concatenate(
        [np.exp(b - np.logaddexp.reduce(b)) for b in reference.propagate(g, iterations, **option)]
    )
    np.testing.assert_allclose(beliefs.variables, want, atol=1e-12)


def test_schedules_and_damping_reach_the_same_fixed_point(rng: np.random.Generator) -> None:
    cards = [2] * 8
    g = FactorGraph(cards, random_factors(rng, cards, edges=0.5, scale=0.4))
    results = [
        graph.marginals(g, "bp", schedule=s, damping=d, tolerance=1e-12, max_iter=2000)
        for s in ("parallel", "residual")
        for d in (0.0, 0.5)
    ]
    for other in results[1:]:
        assert other.converged
        np.testing.assert_allclose(other.variables, results[0].variables, atol=1e-9)
        assert other.log_partition == pytest.approx(results[0].log_partition, abs=1e-9)


def test_the_gradient_of_the_bethe_estimate_is_the_beliefs(rng: np.random.Generator) -> None:
    cards = [2, 3, 2, 3]
    factors = random_factors(rng, cards, edges=1.0, triples=1, scale=0.3)

    def run(factors_: Factors) -> Any:
        return graph.marginals(FactorGraph(cards, factors_), "bp", tolerance=1e-14, max_iter=5000)

    p, h = run(factors), 1e-5
    for f, (_, table) in enumerate(factors):
        for at in np.ndindex(*np.shape(table)):
            values = []
            for sign in (1, -1):
                moved = [(u, np.array(t)) for u, t in factors]
                moved[f][1][at] += sign * h
                values.append(run(moved).log_partition)
            slope = (values[0] - values[1]) / (2 * h)
            assert slope == pytest.approx(p.factors[f][at], abs=1e-7)


@settings(max_examples=examples(40), deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(1, 7),
    st.floats(0, 1),
    st.sampled_from([0.3, 1.0, 4.0, 100.0]),
    st.sampled_from([0, 1, 3, 300]),
)
def test_bounds_are_on_the_right_side(
    seed: int, n: int, edges: float, scale: float, iterations: int
) -> None:
    """The bounds hold with and without convergence."""
    rng = np.random.default_rng(seed)
    cards = rng.integers(1, 4, size=n).tolist()
    factors = random_factors(rng, cards, edges, scale=scale)
    log_z = enumerate_all(cards, factors).log_z
    g = FactorGraph(cards, factors)
    slack = 1e-9 * max(1.0, abs(log_z))
    upper = graph.marginals(g, "trw", max_iter=iterations)
    lower = graph.marginals(g, "mean-field", max_iter=iterations)
    assert upper.kind == "upper bound"
    assert lower.kind == "lower bound"
    assert lower.log_partition <= log_z + slack
    assert upper.log_partition >= log_z - slack


def test_bounds_are_tight_on_trees(rng: np.random.Generator) -> None:
    cards = [2, 3, 2, 2, 3]
    tree = FactorGraph(cards, random_tree(rng, cards))
    exact = graph.marginals(tree)
    upper = graph.marginals(tree, "trw", tolerance=1e-12, max_iter=3000)
    assert upper.log_partition == pytest.approx(exact.log_partition, abs=1e-8)
    np.testing.assert_allclose(upper.variables, exact.variables, atol=1e-8)
    alone = FactorGraph(cards, [((v,), rng.normal(size=c)) for v, c in enumerate(cards)])
    lower = graph.marginals(alone, "mean-field")
    assert lower.log_partition == pytest.approx(graph.log_partition(alone))
    np.testing.assert_allclose(lower.variables, graph.marginals(alone).variables, atol=1e-12)


def test_bounds_with_forbidden_labellings(rng: np.random.Generator) -> None:
    ring = [[i, (i + 1) % 5] for i in range(5)]
    table = np.array([[0.3, -np.inf, 0.2], [0.1, 0.0, 0.4], [-np.inf, 0.5, 0.0]])
    factors: Factors = [(ring, table), (np.arange(5)[:, None], rng.normal(size=(5, 3)))]
    g = FactorGraph([3] * 5, factors)
    log_z = enumerate_all([3] * 5, factors).log_z
    upper, lower = graph.marginals(g, "trw"), graph.marginals(g, "mean-field")
    assert -np.inf < lower.log_partition <= log_z <= upper.log_partition < np.inf


def test_spanning_forests_cover_every_pair(rng: np.random.Generator) -> None:
    cards = [2] * 7
    g = FactorGraph(cards, random_factors(rng, cards, edges=1.0))
    trees = spanning_forests(g)
    assert trees[:, :7].all()
    assert trees[:, 7:].any(axis=0).all()
    assert (trees[:, 7:].sum(axis=1) == 6).all()


def test_convergence_is_reported(rng: np.random.Generator) -> None:
    cards = [2] * 6
    g = FactorGraph(cards, random_factors(rng, cards, edges=1.0))
    few = graph.marginals(g, "bp", max_iter=1)
    assert (few.converged, few.iterations) == (False, 1)
    assert few.residual > 1e-8
    many = graph.marginals(g, "bp", max_iter=5000, damping=0.5)
    assert many.converged
    assert many.residual <= 1e-8
    assert graph.marginals(g, "mean-field").converged


def test_scores_of_any_size(rng: np.random.Generator) -> None:
    cards = [2, 3, 2, 3]
    factors = [(v, 1e4 * np.asarray(t)) for v, t in random_tree(rng, cards)]
    assert_truth(graph.marginals(FactorGraph(cards, factors), "bp"), enumerate_all(cards, factors))


def test_no_allowed_labelling_is_an_error() -> None:
    infeasible = FactorGraph([2, 2], [((0, 1), [[0.0, -np.inf]] * 2), ((1,), [-np.inf, 0.0])])
    for schedule in ("parallel", "residual"):
        with pytest.raises(InfeasibleError, match="no labelling"):
            graph.marginals(infeasible, "bp", schedule=schedule)
    with pytest.raises(InfeasibleError, match="no labelling"):
        graph.best(infeasible, "max-product")
