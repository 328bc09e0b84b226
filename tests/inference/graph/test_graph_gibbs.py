"""Frequencies of Gibbs samples equal probabilities, and the diagnostics detect problems."""

from __future__ import annotations

import numpy as np
import pytest
from graph_cases import enumerate_all, random_factors

from trellis.inference import graph
from trellis.inference.graph import FactorGraph
from trellis.inference.graph.gibbs import effective_size, r_hat


def test_frequencies_are_marginals(rng: np.random.Generator) -> None:
    cards = [2, 3, 2, 4]
    factors = random_factors(rng, cards, edges=0.7, triples=1)
    truth = enumerate_all(cards, factors)
    g = FactorGraph(cards, factors)
    samples = graph.gibbs(g, n=5000, random_state=3)
    np.testing.assert_allclose(samples.variables, truth.variables, atol=0.02)
    assert samples.labels.shape == (4, 5000, 4)
    assert (samples.r_hat < 1.01).all()
    assert (samples.effective_size > 1000).all()
    assert (samples.effective_size <= 40_000).all()
    assert samples.score[1, 17] == pytest.approx(g.score(samples.labels[1, 17]))


def test_the_result_depends_only_on_the_seed(rng: np.random.Generator) -> None:
    g = FactorGraph([3] * 5, random_factors(rng, [3] * 5))
    one = graph.gibbs(g, n=50, random_state=1, n_jobs=1)
    many = graph.gibbs(g, n=50, random_state=1, n_jobs=4)
    other = graph.gibbs(g, n=50, random_state=2)
    assert (one.labels == many.labels).all()
    assert (one.labels != other.labels).any()


def test_thinning_and_burn_in_skip_sweeps() -> None:
    g = FactorGraph([2] * 3, [([[0, 1], [1, 2]], np.eye(2))])
    every = graph.gibbs(g, n=12, burn_in=0, chains=1, random_state=0).labels
    third = graph.gibbs(g, n=4, burn_in=0, thin=3, chains=1, random_state=0).labels
    burnt_in = graph.gibbs(g, n=7, burn_in=5, chains=1, random_state=0).labels
    np.testing.assert_array_equal(every[:, 2::3], third)
    np.testing.assert_array_equal(every[:, 5:], burnt_in)


def test_initial_labels_with_forbidden_pairs() -> None:
    """Labels must agree, but a sweep changes one label at a time, so the chain cannot move."""
    stuck = FactorGraph([2, 2], [((0, 1), [[0.0, -np.inf], [-np.inf, 0.0]])])
    samples = graph.gibbs(stuck, n=100, initial=[1, 1], random_state=0)
    assert (samples.labels == 1).all()
    assert np.isnan(samples.r_hat).all()
    assert np.isnan(samples.effective_size).all()
    loose = FactorGraph([3, 3], [((0, 1), [[0, 0, -np.inf], [0, 0, 0], [-np.inf, 0, 0]])])
    samples = graph.gibbs(loose, n=3000, initial=[1, 1], random_state=0)
    pairs = {(a, b) for a, b in samples.labels.reshape(-1, 2).tolist()}
    assert pairs == {(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 1), (2, 2)}


def test_r_hat_detects_chains_that_disagree() -> None:
    """With strong pairs, each chain keeps the labels that it found first."""
    table = np.array([[9.0, 0.0], [0.0, 9.0]])
    edges = [[i, (i + 1) % 6] for i in range(6)]
    samples = graph.gibbs(FactorGraph([2] * 6, [(edges, table)]), n=300, chains=8, random_state=0)
    assert (samples.r_hat > 1.5).all()


def test_diagnostics_of_known_series() -> None:
    rng = np.random.default_rng(0)
    n, rho = 4000, 0.8
    x = np.zeros((4, n, 1))
    noise = rng.normal(size=x.shape)
    for t in range(1, n):
        x[:, t] = rho * x[:, t - 1] + noise[:, t]
    expected = 4 * n * (1 - rho) / (1 + rho)
    assert effective_size(x)[0] == pytest.approx(expected, rel=0.15)
    assert r_hat(x)[0] < 1.01
    assert r_hat(x + np.arange(4)[:, None, None])[0] > 1.05
