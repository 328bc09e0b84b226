"""Exact inference against enumeration, and on chains against the chain engine."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from graph_cases import (
    assert_truth,
    chain_graph,
    enumerate_all,
    random_factors,
    random_tree,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples

from trellis.errors import InfeasibleError, InputError
from trellis.inference import chain, graph
from trellis.inference.graph import FactorGraph, reference
from trellis.inference.graph.exact import log_partition_terms

CASES = {
    "twelve binary": ([2] * 12, {"edges": 0.3}),
    "twelve binary, dense": ([2] * 12, {"edges": 0.9}),
    "eight ternary": ([3] * 8, {"edges": 0.5}),
    "mixed": ([2, 3, 4, 1, 2, 3, 5], {"edges": 0.5, "triples": 3}),
    "triples": ([2] * 9, {"edges": 0.2, "triples": 6}),
    "forbidden": ([3] * 6, {"edges": 0.5, "forbidden": 0.1}),
    "large scores": ([3] * 6, {"edges": 0.5, "scale": 1e4}),
    "no edges": ([3, 2, 4], {"edges": 0.0}),
    "one": ([4], {}),
}


@pytest.mark.parametrize("name", CASES)
def test_marginals_and_best_against_enumeration(name: str, rng: np.random.Generator) -> None:
    cards, options = CASES[name]
    for _ in range(3):
        factors = random_factors(rng, cards, **options)
        truth = enumerate_all(cards, factors)
        g = FactorGraph(cards, factors)
        assert_truth(graph.marginals(g), truth)
        best = graph.best(g)
        np.testing.assert_array_equal(best.labels, truth.best)
        assert best.score == pytest.approx(truth.best_score, rel=1e-12)
        assert best.energy == -best.score
        assert best.optimal
        assert log_partition_terms(g).sum() == pytest.approx(truth.log_z, rel=1e-12)


@pytest.mark.parametrize("name", [name for name in CASES if "twelve" not in name])
def test_the_reference_against_enumeration(name: str, rng: np.random.Generator) -> None:
    cards, options = CASES[name]
    factors = random_factors(rng, cards, **options)
    truth = enumerate_all(cards, factors)
    g = FactorGraph(cards, factors)
    assert_truth(reference.marginals(g), truth)
    assert reference.log_partition(g) == pytest.approx(truth.log_z)
    np.testing.assert_array_equal(reference.best(g).labels, truth.best)


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 7), st.floats(0, 1), st.integers(0, 2))
def test_random_graphs_against_the_reference(seed: int, n: int, edges: float, triples: int) -> None:
    rng = np.random.default_rng(seed)
    cards = rng.integers(1, 4, size=n).tolist()
    g = FactorGraph(cards, random_factors(rng, cards, edges, triples))
    ours, theirs = graph.marginals(g), reference.marginals(g)
    assert ours.log_partition == pytest.approx(theirs.log_partition, abs=1e-10)
    np.testing.assert_allclose(ours.variables, theirs.variables, atol=1e-10)
    for a, b in zip(ours.factors, theirs.factors, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)


def test_zero_scores_count_the_labellings() -> None:
    cards = [2, 3, 4, 5]
    assert graph.log_partition(FactorGraph(cards, [])) == pytest.approx(np.log(120))


@pytest.mark.parametrize(("length", "labels"), [(1, 3), (2, 2), (30, 5), (200, 26)])
def test_chains_agree_with_the_chain_engine(
    length: int, labels: int, rng: np.random.Generator
) -> None:
    unary, transition = rng.normal(size=(length, labels)), rng.normal(size=(labels, labels))
    g = chain_graph(unary, transition)
    ours, theirs = graph.marginals(g), chain.marginals(unary, transition)
    assert ours.log_partition == pytest.approx(theirs.log_partition, rel=1e-13)
    np.testing.assert_allclose(ours.variables, theirs.unary, atol=1e-12)
    if length > 1:
        np.testing.assert_allclose(ours.factors[1], theirs.pairwise, atol=1e-12)
    best = chain.viterbi(unary, transition)
    np.testing.assert_array_equal(graph.best(g).labels, best.labels)
    assert graph.best(g).score == pytest.approx(best.score)
    assert graph.score(g, best.labels) == pytest.approx(best.score)


def test_long_chains_and_stars_are_linear(rng: np.random.Generator) -> None:
    """An algorithm of quadratic time would not finish this test."""
    n = 100_000
    unary = rng.normal(size=(n, 2))
    g = chain_graph(unary, np.eye(2))
    expected = chain.marginals(unary, np.eye(2))
    assert graph.induced_width(g) == 1
    assert graph.log_partition(g) == pytest.approx(expected.log_partition, rel=1e-12)
    spokes = np.stack([np.zeros(n - 1, dtype=int), np.arange(1, n)], axis=1)
    star = FactorGraph.pairwise(unary, spokes, np.eye(2))
    hub = unary[0] + np.logaddexp.reduce(unary[1:, None] + np.eye(2), axis=2).sum(axis=0)
    assert graph.log_partition(star) == pytest.approx(np.logaddexp(*hub), rel=1e-12)


def test_shared_tables_equal_separate_factors(rng: np.random.Generator) -> None:
    edges = np.array([[0, 1], [1, 2], [3, 2], [0, 3]])
    table, tables = rng.normal(size=(3, 3)), rng.normal(size=(4, 3))
    shared = graph.marginals(FactorGraph.pairwise(tables, edges, table))
    apart = graph.marginals(
        FactorGraph(
            [3] * 4, [((v,), t) for v, t in enumerate(tables)] + [(e, table) for e in edges]
        )
    )
    assert shared.log_partition == pytest.approx(apart.log_partition)
    np.testing.assert_allclose(shared.factors[1], np.array(apart.factors[4:]), atol=1e-14)


def test_disconnected_parts_are_independent(rng: np.random.Generator) -> None:
    cards = [2, 3, 2, 2, 4]
    left = [((0, 1), rng.normal(size=(2, 3)))]
    right = [((2, 3), rng.normal(size=(2, 2)))]
    both = FactorGraph(cards, left + right)
    assert_truth(graph.marginals(both), enumerate_all(cards, left + right))
    assert np.count_nonzero(log_partition_terms(both)) == 3


def test_no_variables() -> None:
    empty = FactorGraph([], [])
    assert graph.marginals(empty).log_partition == 0.0
    assert graph.best(empty).labels.shape == (0,)
    assert graph.marginals(empty, "bp").log_partition == 0.0
    assert graph.marginals(empty, "mean-field").log_partition == 0.0
    assert graph.gibbs(empty, n=2).labels.shape == (4, 2, 0)
    assert graph.exact_sample(empty, n=3).shape == (3, 0)


def test_the_induced_width(rng: np.random.Generator) -> None:
    assert graph.induced_width(FactorGraph([2, 2], [])) == 0
    assert graph.induced_width(FactorGraph([2] * 9, random_tree(rng, [2] * 9))) == 1
    ring = [[i, (i + 1) % 10] for i in range(10)]
    assert graph.induced_width(FactorGraph([2] * 10, [(ring, np.eye(2))])) == 2
    edges = [list(p) for p in itertools.combinations(range(7), 2)]
    assert graph.induced_width(FactorGraph([2] * 7, [(edges, np.eye(2))])) == 6
    grid = graph.grid_graph(np.zeros((5, 12, 2)), np.eye(2), np.eye(2))
    assert graph.induced_width(grid) <= 7


def test_error_for_a_wide_graph_names_the_width() -> None:
    wide = graph.grid_graph(np.zeros((40, 40, 2)), np.eye(2), np.eye(2))
    with pytest.raises(InputError, match=r"induced width .* at least \d+.*max_entries is 1000"):
        graph.marginals(wide, max_entries=1000)
    with pytest.raises(InputError, match="induced width"):
        graph.best(graph.grid_graph(np.zeros((64, 64, 3)), np.eye(3), np.eye(3)))


def test_no_allowed_labelling() -> None:
    infeasible = FactorGraph([2, 2], [((0, 1), np.full((2, 2), -np.inf))])
    for call in (graph.marginals, graph.best, graph.exact_sample):
        with pytest.raises(InfeasibleError, match="no labelling is allowed"):
            call(infeasible)


def test_sample_frequencies_equal_probabilities(rng: np.random.Generator) -> None:
    cards = [2, 3, 2, 2]
    factors = random_factors(rng, cards, edges=0.8)
    truth = enumerate_all(cards, factors)
    g = FactorGraph(cards, factors)
    samples = graph.exact_sample(g, n=20_000, random_state=1)
    assert samples.shape == (20_000, 4)
    for v, c in enumerate(cards):
        share = np.bincount(samples[:, v], minlength=c) / len(samples)
        np.testing.assert_allclose(share, truth.variables[v, :c], atol=0.02)
    np.testing.assert_array_equal(samples, graph.exact_sample(g, n=20_000, random_state=1))


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_the_same_bits_for_every_number_of_threads(n_jobs: int, rng: np.random.Generator) -> None:
    cards = [3] * 4000
    factors = random_tree(rng, cards, parts=40)
    g = FactorGraph(cards, factors)
    for method in ("exact", "bp"):
        one, many = (graph.marginals(g, method, n_jobs=j) for j in (1, n_jobs))
        assert one.log_partition == many.log_partition
        assert (one.variables == many.variables).all()
        assert all((a == b).all() for a, b in zip(one.factors, many.factors, strict=True))


def test_the_markov_property(rng: np.random.Generator) -> None:
    """P(yᵢ | all others) depends only on the neighbours of i."""
    cards = [2, 3, 2, 2, 3, 2]
    factors = random_factors(rng, cards, edges=0.35, triples=1)
    g = FactorGraph(cards, factors)
    joint = np.zeros(cards)
    for y in itertools.product(*map(range, cards)):
        joint[y] = np.exp(g.score(np.array(y)))
    strangers = 0
    for v in range(len(cards)):
        near = g.neighbours(v)
        conditional = joint / joint.sum(axis=v, keepdims=True)
        for y in itertools.product(*map(range, cards)):
            same = tuple(label if u == v or u in near else 0 for u, label in enumerate(y))
            assert conditional[y] == pytest.approx(conditional[same], rel=1e-12)
        strangers += len(cards) - 1 - len(near)
        for u in near:  # it depends on each neighbour
            moved = np.moveaxis(conditional, u, 0)
            assert np.abs(moved[0] - moved[1]).max() > 1e-6
    assert strangers > 0
