"""Minimum cuts are the best labelling; α-expansion and ICM never lower the score."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from graph_cases import Factors, enumerate_all, random_factors
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples

from trellis.errors import InfeasibleError, InputError
from trellis.inference import graph
from trellis.inference.graph import FactorGraph
from trellis.inference.graph.exact import exact_best
from trellis.inference.graph.flow import minimum_cut


def submodular(rng: np.random.Generator, n: int, edges: float, scale: float) -> Factors:
    """Return factors of two labels. Equal labels of a pair score at least as much as others."""
    factors: Factors = [((v,), scale * rng.normal(size=2)) for v in range(n)]
    for a, b in itertools.combinations(range(n), 2):
        if rng.random() < edges:
            t = scale * rng.normal(size=(2, 2))
            gap = t[0, 0] + t[1, 1] - t[0, 1] - t[1, 0]
            t[1, 1] += max(0.0, -gap) + scale * rng.exponential() * rng.integers(2)
            factors.append(((a, b) if rng.random() < 0.5 else (b, a), t))
    return factors


@settings(max_examples=examples(60), deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(1, 10),
    st.floats(0, 1),
    st.sampled_from([1e-6, 1.0, 1e4]),
)
def test_min_cut_is_the_best(seed: int, n: int, edges: float, scale: float) -> None:
    rng = np.random.default_rng(seed)
    factors = submodular(rng, n, edges, scale)
    truth = enumerate_all([2] * n, factors)
    best = graph.best(FactorGraph([2] * n, factors), "cut")
    assert best.score == pytest.approx(truth.best_score, rel=1e-12, abs=1e-12 * scale)
    assert best.optimal


def test_min_cut_with_shared_tables_and_parallel_edges(rng: np.random.Generator) -> None:
    edges = np.array([[0, 1], [1, 0], [1, 2], [0, 1]])
    factors: Factors = [
        (np.arange(3)[:, None], rng.normal(size=(3, 2))),
        (edges, 0.7 * np.eye(2)),
        ((2,), [0.2, 0.1]),
    ]
    truth = enumerate_all([2] * 3, factors)
    np.testing.assert_array_equal(
        graph.best(FactorGraph([2] * 3, factors), "cut").labels, truth.best
    )


def test_min_cut_with_forbidden_labels(rng: np.random.Generator) -> None:
    """Test every pattern of -inf for which a pair is still submodular."""
    tried = 0
    for pattern in itertools.product([False, True], repeat=4):
        blocked = np.array(pattern).reshape(2, 2)
        table = np.where(blocked, -np.inf, 0.3 * np.eye(2))
        factors: Factors = [
            ((0, 1), table),
            ((1, 2), np.eye(2)),
            (np.arange(3)[:, None], rng.normal(size=(3, 2))),
        ]
        g = FactorGraph([2] * 3, factors)
        if blocked.all():
            with pytest.raises(InfeasibleError, match="allowed"):
                graph.best(g, "cut")
            continue
        try:
            best = graph.best(g, "cut")
        except InputError as error:  # the pair forbids equal labels, but allows different ones
            assert "not submodular" in str(error)  # noqa: PT017
            assert np.diag(blocked).any()
            continue
        truth = enumerate_all([2] * 3, factors)
        np.testing.assert_array_equal(best.labels, truth.best)
        tried += 1
    assert tried >= 9


def test_min_cut_of_a_grid_agrees_with_elimination(rng: np.random.Generator) -> None:
    unary = rng.normal(size=(8, 30, 2))
    g = graph.grid_graph(unary, 0.8 * np.eye(2), 0.6 * np.eye(2))
    cut, exact = graph.best(g, "cut"), graph.best(g)
    assert cut.score == pytest.approx(exact.score, rel=1e-12)
    np.testing.assert_array_equal(cut.labels, exact.labels)


def test_problems_that_min_cut_rejects() -> None:
    with pytest.raises(InputError, match=r"pair \(0, 1\) is not submodular"):
        graph.best(FactorGraph([2, 2], [((0, 1), [[0.0, 1.0], [1.0, 0.0]])]), "cut")
    with pytest.raises(InputError, match="variable 1 has 3 labels"):
        graph.best(FactorGraph([2, 3], []), "cut")
    triple = FactorGraph([2] * 3, [((0, 1, 2), np.zeros((2, 2, 2)))])
    for method in ("cut", "expansion"):
        with pytest.raises(InputError, match="3 variables"):
            graph.best(triple, method)
    with pytest.raises(InputError, match="same number of labels"):
        graph.best(FactorGraph([2, 3], []), "expansion")


def test_capacities_of_very_different_sizes() -> None:
    """In one round of 32-bit integers, the small capacities would be 0."""
    cost = np.array([1e9, -1e9, 1e-3, -2e-3])
    edges = np.array([[2, 3], [3, 2], [0, 2]])
    labels = minimum_cut(cost, edges, np.array([1.5e-3, 1.5e-3, 1.0]))
    options = []
    for x in itertools.product([0, 1], repeat=4):
        cut = sum(
            c
            for (a, b), c in zip(edges, [1.5e-3, 1.5e-3, 1.0], strict=True)
            if x[a] == 0 and x[b] == 1
        )
        options.append((float(np.dot(cost[2:], x[2:])) + cut, x))
    best = min(o for o in options if o[1][:2] == (0, 1))
    assert tuple(labels) == best[1]


def test_expansion_of_potts_is_near_the_best(rng: np.random.Generator) -> None:
    unary = rng.normal(size=(5, 6, 4))
    g = graph.grid_graph(unary, 0.7 * np.eye(4), 0.7 * np.eye(4))
    exact = graph.best(g)
    best = graph.best(g, "expansion")
    assert best.converged
    assert exact.score - best.score <= 0.02 * abs(exact.score)
    start = graph.best(g, "icm")
    assert graph.best(g, "expansion", initial=start.labels).score >= start.score


def test_expansion_with_two_labels_is_the_best(rng: np.random.Generator) -> None:
    factors = submodular(rng, 9, 0.4, 1.0)
    g = FactorGraph([2] * 9, factors)
    best = graph.best(g, "expansion", initial=np.zeros(9, dtype=int))
    assert best.score == pytest.approx(graph.best(g).score)


@pytest.mark.parametrize("method", ["expansion", "icm"])
def test_moves_never_lower_the_score(method: str, rng: np.random.Generator) -> None:
    """This holds also if pairs are not a metric, and with forbidden pairs."""
    for forbidden in (0.0, 0.15):
        for _ in range(5):
            cards = [3] * 8
            g = FactorGraph(cards, random_factors(rng, cards, forbidden=forbidden))
            start = graph.exact_sample(g, random_state=0)[0]
            best = graph.best(g, method, initial=start)
            assert best.score >= g.score(start)
            assert best.score == pytest.approx(g.score(best.labels))
            assert best.score <= graph.best(g).score + 1e-9


def test_icm_ends_in_a_local_optimum(rng: np.random.Generator) -> None:
    cards = [3, 2, 4, 3, 2]
    g = FactorGraph(cards, random_factors(rng, cards, edges=0.8, triples=2))
    best = graph.best(g, "icm")
    assert best.converged
    for v, count in enumerate(cards):
        for y in range(count):
            other = best.labels.copy()
            other[v] = y
            assert g.score(other) <= best.score + 1e-12
    assert not graph.best(g, "icm", max_iter=0).converged


def test_exact_results_have_one_iteration() -> None:
    model = FactorGraph([2, 2], [((0,), [0.0, 1.0]), ((0, 1), [[2.0, 0.0], [0.0, 0.5]])])
    best = exact_best(model)
    assert best[1:] == (2.0, True, True, 1, 0.0)
    assert best.energy == -2.0
