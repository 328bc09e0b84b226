"""Factors of three and more variables: merging, and the tree-reweighted bound."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from graph_cases import Factors, assert_truth, enumerate_all
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples

from trellis.errors import InfeasibleError
from trellis.inference import graph
from trellis.inference.graph import FactorGraph, reference
from trellis.inference.graph.belief import propagate, spanning_forests
from trellis.inference.graph.nesting import Merged, find_nested


def random_cliques(
    rng: np.random.Generator, cards: list[int], sizes: tuple[int, ...], scale: float = 1.0
) -> Factors:
    """Return a factor for each variable, and one on random variables for each of the sizes."""
    factors: Factors = [((v,), scale * rng.normal(size=c)) for v, c in enumerate(cards)]
    for size in sizes:
        scope = tuple(rng.permutation(len(cards))[:size].tolist())
        factors.append((scope, scale * rng.normal(size=[cards[v] for v in scope])))
    return factors


def clique_tree(rng: np.random.Generator, cards: list[int]) -> Factors:
    """Return cliques of 3, 4 and 2 of nine variables, a tree, with other factors inside them."""
    scopes = [(0, 1, 2), (2, 3, 4, 5), (5, 6), (4, 8, 7), (1, 0), (5, 2, 4), (3, 5), (2, 1, 0)]
    factors: Factors = [((v,), rng.normal(size=c)) for v, c in enumerate(cards)]
    return factors + [(scope, rng.normal(size=[cards[v] for v in scope])) for scope in scopes]


MIXED = [2, 3, 2, 2, 3, 2, 4, 2, 2]


def test_a_merged_graph_has_the_same_scores(rng: np.random.Generator) -> None:
    for sizes in ((3, 2, 2, 2), (4, 3, 3, 2, 2, 2, 1), (2, 2, 2, 2, 2, 2, 2, 2), (1, 1), ()):
        cards = [2, 3, 2, 2, 3]
        g = FactorGraph(cards, random_cliques(rng, cards, sizes))
        merged = Merged(g).rescored(g)
        assert not find_nested(merged)
        for labels in itertools.product(*map(range, cards)):
            assert merged.score(labels) == pytest.approx(g.score(labels), abs=1e-12)


def test_entries_of_many_factors_and_shared_tables(rng: np.random.Generator) -> None:
    """Shared tables, equal factors in both orders, and an entry whose factors are all nested."""
    pairs, triples = [[0, 1], [1, 0], [1, 2], [3, 4]], [[0, 1, 2], [2, 1, 0], [3, 2, 1]]
    factors: Factors = [
        (pairs, rng.normal(size=(2, 2))),
        (triples, rng.normal(size=(2, 2, 2))),
        ([[2, 0], [3, 1]], rng.normal(size=(2, 2, 2))),
        (np.arange(5)[:, None], rng.normal(size=(5, 2))),
        ((2, 3), rng.normal(size=(2, 2))),
    ]
    g = FactorGraph([2] * 5, factors)
    merge = Merged(g)
    merged = merge.rescored(g)
    scopes = [tuple(row) for entry in merged.entries for row in entry.variables.tolist()]
    assert scopes == [(3, 4), (0, 1, 2), (3, 2, 1), *((v,) for v in range(5))]
    truth = enumerate_all([2] * 5, factors)
    exact = graph.marginals(merged)
    assert exact.log_partition == pytest.approx(truth.log_z, rel=1e-12)
    flat = np.concatenate([table.ravel() for table in exact.factors])
    ours = g.split(merge.unmerged(flat))
    for p, q in zip(ours, truth.factors, strict=True):
        np.testing.assert_allclose(p, q, rtol=0, atol=1e-12)
    other = g.rescored(rng.normal(size=g.tables.shape))
    assert merge.rescored(other).score([1, 0, 1, 1, 0]) == pytest.approx(
        other.score([1, 0, 1, 1, 0])
    )


def test_graphs_without_nested_factors_stay_as_they_are(rng: np.random.Generator) -> None:
    ring = [[i, (i + 1) % 6] for i in range(6)]
    g = FactorGraph([2] * 6, [(ring, rng.normal(size=(6, 2, 2))), ((0, 2, 4), np.zeros((2, 2, 2)))])
    merge = Merged(g)
    assert merge.rescored(g) is g
    beliefs = rng.random(32)
    assert merge.unmerged(beliefs) is beliefs


@settings(max_examples=examples(40), deadline=None)
@given(
    st.integers(0, 2**32),
    st.lists(st.integers(2, 4), max_size=7),
    st.sampled_from([0.3, 1.0, 4.0, 100.0]),
    st.sampled_from([0, 1, 3, 300]),
)
def test_the_bound_is_above_log_z(
    seed: int, sizes: list[int], scale: float, iterations: int
) -> None:
    """With and without convergence."""
    rng = np.random.default_rng(seed)
    cards = rng.integers(1, 4, size=5).tolist()
    factors = random_cliques(rng, cards, tuple(sizes), scale)
    log_z = enumerate_all(cards, factors).log_z
    upper = graph.marginals(FactorGraph(cards, factors), "trw", max_iter=iterations)
    assert upper.kind == "upper bound"
    assert upper.log_partition >= log_z - 1e-9 * max(1.0, abs(log_z))


def test_the_bound_is_tight_on_trees_of_cliques(rng: np.random.Generator) -> None:
    for cards in ([2] * 9, MIXED):
        factors = clique_tree(rng, cards)
        upper = graph.marginals(FactorGraph(cards, factors), "trw", tolerance=1e-13, max_iter=5000)
        assert upper.converged
        assert_truth(upper, enumerate_all(cards, factors), 1e-9)


@pytest.mark.parametrize("schedule", ["parallel", "residual"])
def test_a_tree_of_cliques_in_both_schedules(schedule: str, rng: np.random.Generator) -> None:
    for forbidden in (0.0, 0.2):
        factors = clique_tree(rng, MIXED)[:-4]
        for scope, table in factors:
            table[rng.random(table.shape) < forbidden] = -np.inf if len(scope) > 2 else 0.0
        p = graph.marginals(FactorGraph(MIXED, factors), "bp", schedule=schedule)
        assert_truth(p, enumerate_all(MIXED, factors), 1e-7)


@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0, 1e4])
def test_messages_are_those_of_the_reference(scale: float, rng: np.random.Generator) -> None:
    """With large scores, terms of a sum underflow, and it is computed again in log space."""
    cards = [2, 3, 1, 2, 3]
    g = FactorGraph(cards, random_cliques(rng, cards, (3, 3, 4, 2, 5), scale))
    weights = spanning_forests(g).mean(axis=0)
    for iterations in (1, 2, 7):
        ours = propagate(g, maximise=False, weights=weights, max_iter=iterations)
        theirs = reference.propagate(g, iterations, weights=weights)
        begin = 0
        for belief in theirs:
            p = np.exp(belief - np.logaddexp.reduce(belief))
            np.testing.assert_allclose(ours.variables[begin : begin + len(p)], p, atol=1e-12)
            begin += len(p)


def test_the_derivative_of_the_bound_is_the_beliefs(rng: np.random.Generator) -> None:
    cards = [2, 2, 3, 2]
    factors = random_cliques(rng, cards, (3, 3, 2, 2), 0.7)
    options: dict[str, Any] = {"tolerance": 1e-13, "max_iter": 20_000}
    p = graph.marginals(FactorGraph(cards, factors), "trw", **options)
    assert p.converged
    h = 1e-5
    for f, (scope, table) in enumerate(factors):
        for at in np.ndindex(table.shape):
            values = []
            for sign in (1, -1):
                moved = table.copy()
                moved[at] += sign * h
                changed = [*factors[:f], (scope, moved), *factors[f + 1 :]]
                values.append(graph.log_partition(FactorGraph(cards, changed), "trw", **options))
            slope = (values[0] - values[1]) / (2 * h)
            assert slope == pytest.approx(p.factors[f][at], abs=1e-7)


def test_forests_of_cliques(rng: np.random.Generator) -> None:
    """Every factor is in a forest. A forest with k - 1 links for each factor of k has no loop."""
    cards = [2] * 8
    g = FactorGraph(cards, random_cliques(rng, cards, (3, 3, 3, 4, 4, 2, 2)))
    forests = spanning_forests(g)
    sizes = np.array([len(row) for e in g.entries for row in e.variables.tolist()])
    assert forests[:, sizes == 1].all()
    assert forests.any(axis=0).all()
    scopes = [row for e in g.entries for row in e.variables.tolist()]
    for forest in forests:
        chosen = [set(scopes[f]) for f in np.flatnonzero(forest & (sizes > 1))]
        n_parts, parts = len(cards), [{v} for v in range(len(cards))]
        for scope in chosen:
            touched = [part for part in parts if part & scope]
            parts = [part for part in parts if not part & scope] + [set().union(*touched)]
            n_parts -= len(scope) - 1
        assert len(parts) == n_parts


def test_forbidden_labels_in_cliques(rng: np.random.Generator) -> None:
    for _ in range(5):
        factors = random_cliques(rng, [2, 3, 2, 3], (3, 3, 2))
        for scope, table in factors:
            table[rng.random(table.shape) < 0.15] = -np.inf if len(scope) > 1 else 0.0
        truth = enumerate_all([2, 3, 2, 3], factors)
        upper = graph.marginals(FactorGraph([2, 3, 2, 3], factors), "trw")
        assert truth.log_z - 1e-9 <= upper.log_partition < np.inf
        for p, (_, table) in zip(upper.factors, factors, strict=True):
            assert (p[np.isneginf(table)] == 0.0).all()
    nothing = [((0, 1, 2), np.full((2, 2, 2), -np.inf)), ((0, 1), np.zeros((2, 2)))]
    with pytest.raises(InfeasibleError, match="no labelling is allowed"):
        graph.marginals(FactorGraph([2] * 3, nothing), "trw")


def test_convergence_and_damping(rng: np.random.Generator) -> None:
    cards = [2] * 6
    g = FactorGraph(cards, random_cliques(rng, cards, (3, 3, 3, 4)))
    few = graph.marginals(g, "trw", max_iter=1)
    assert (few.converged, few.iterations) == (False, 1)
    assert few.residual > 1e-6
    results = [graph.marginals(g, "trw", damping=d, max_iter=5000) for d in (0.3, 0.5, 0.8)]
    for p in results:
        assert p.converged
        assert p.residual <= 1e-6
        assert p.log_partition == pytest.approx(results[0].log_partition, abs=1e-6)
        assert p.log_partition < few.log_partition


def test_the_same_bits_for_every_number_of_threads(rng: np.random.Generator) -> None:
    cards = [4] * 60
    triples = np.stack([np.arange(58), np.arange(1, 59), np.arange(2, 60)], axis=1)
    factors: Factors = [
        (triples, rng.normal(size=(58, 4, 4, 4))),
        (triples[:, [1, 0]], rng.normal(size=(4, 4))),
        (np.arange(60)[:, None], rng.normal(size=(60, 4))),
    ]
    results = [
        graph.marginals(FactorGraph(cards, factors), "trw", max_iter=20, n_jobs=n) for n in (1, 3)
    ]
    assert results[0].log_partition == results[1].log_partition
    assert (results[0].variables == results[1].variables).all()
    assert (results[0].factors[0] == results[1].factors[0]).all()
