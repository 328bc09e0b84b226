"""Functions of graphs at the exact limits of their arguments, and for the smallest graphs."""

from __future__ import annotations

import importlib
import itertools
import math
from typing import Any

import numpy as np
import pytest

from trellis.errors import InputError
from trellis.inference import graph
from trellis.inference.graph import exact
from trellis.inference.graph.belief import spanning_forests
from trellis.inference.graph.flow import minimum_cut

gibbs: Any = importlib.import_module("trellis.inference.graph.gibbs")  # graph.gibbs is a function

EMPTY = graph.FactorGraph([], [])


def pair() -> Any:
    tables = [((0,), [0.0, 1.0]), ((1,), [0.5, 0.0]), ((0, 1), [[0.2, 0.0], [0.0, 0.3]])]
    return graph.FactorGraph([2, 2], tables)


def test_the_number_of_sampled_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "_MAX_SAMPLED_LABELS", 6)
    monkeypatch.setattr(gibbs, "_MAX_SAMPLED_LABELS", 12)
    assert graph.exact_sample(pair(), n=3, random_state=0).shape == (3, 2)
    with pytest.raises(InputError, match="n times 2 variables at most"):
        graph.exact_sample(pair(), n=4, random_state=0)
    assert graph.exact_sample(EMPTY, n=6, random_state=0).shape == (6, 0)
    with pytest.raises(InputError, match="n times 0 variables at most"):
        graph.exact_sample(EMPTY, n=7, random_state=0)
    samples = graph.gibbs(pair(), n=3, chains=2, burn_in=0, random_state=0)
    assert samples.labels.shape == (2, 3, 2)
    with pytest.raises(InputError, match="2 chains of 4 samples of 2 variables do not fit"):
        graph.gibbs(pair(), n=4, chains=2, burn_in=0, random_state=0)


@pytest.mark.parametrize("n", [3, 4])
def test_diagnostics_need_two_samples_in_each_half(n: int) -> None:
    samples = graph.gibbs(pair(), n=n, chains=3, burn_in=1, random_state=1)
    assert np.isnan(samples.r_hat).all() == (n == 3)
    assert samples.variables.sum(axis=1) == pytest.approx([1.0, 1.0])
    frequencies = [(samples.labels[..., 0] == y).mean() for y in (0, 1)]
    assert samples.variables[0] == pytest.approx(frequencies)


def test_diagnostics_are_those_of_their_definitions() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(3, 9, 2)).cumsum(axis=1)
    halves = [x[c, h : h + 4] for h in (0, 4) for c in range(3)]
    for q in range(2):
        within = np.mean([np.var(half[:, q], ddof=1) for half in halves])
        between = np.var([half[:, q].mean() for half in halves], ddof=1)
        expected = math.sqrt(3 / 4 + between / within)
        assert gibbs.r_hat(x)[q] == pytest.approx(expected)
    assert np.isnan(gibbs.r_hat(np.ones((2, 8, 1)))).all()
    assert np.isnan(gibbs.effective_size(np.ones((2, 8, 1)))).all()
    for chains in (1, 3):
        for q in range(2):
            expected = effective_size(x[:chains, :, q])
            assert gibbs.effective_size(x[:chains])[q] == pytest.approx(expected)
    # Values that alternate have the largest size that is reported.
    alternating = np.tile([0.0, 1.0], 50)[None, :, None]
    assert gibbs.effective_size(alternating)[0] == pytest.approx(100 * math.log10(100))


def effective_size(x: Any) -> float:
    """Return Geyer's estimate by sums over pairs of samples, x of shape (chains, samples)."""
    chains, n = x.shape
    centred = x - x.mean(axis=1, keepdims=True)
    covariance = [
        np.mean([sum(row[i] * row[i + t] for i in range(n - t)) / n for row in centred])
        for t in range(n)
    ]
    within = covariance[0] * n / (n - 1)
    total = covariance[0] + (np.var(x.mean(axis=1), ddof=1) if chains > 1 else 0.0)
    rho = [1.0 - (within - c) / total for c in covariance]
    tau, last = -1.0, math.inf
    for t in range(0, n - n % 2, 2):
        value = rho[t] + rho[t + 1]
        if value <= 0.0:
            break
        last = min(last, value)
        tau += 2.0 * last
    size = chains * n
    return float(size / max(tau, 1.0 / math.log10(max(size, 10))))


def test_damping_and_tolerance() -> None:
    for damping in (0, 0.0, math.nextafter(1.0, 0.0), np.float32(0.5)):
        graph.belief_propagation(pair(), damping=damping, max_iter=2)
    for wrong in (1.0, 1, -1e-9, math.nan, "0"):
        with pytest.raises(InputError, match="damping must be at least 0 and below 1"):
            graph.belief_propagation(pair(), damping=wrong)
    for tolerance in (-1e-12, math.nan, "0"):
        with pytest.raises(InputError, match="tolerance must be at least 0"):
            graph.belief_propagation(pair(), tolerance=tolerance)  # type: ignore[arg-type]


def test_variables_and_labels_of_a_graph() -> None:
    assert [pair().neighbours(v) for v in (0, 1)] == [[1], [0]]
    for variable in (-1, 2):
        with pytest.raises(InputError, match=f"there is no variable {variable}: the graph has 2"):
            pair().neighbours(variable)
    assert pair().score([1, 1]) == pytest.approx(1.3)
    for labels, value in (([-1, 0], -1), ([0, 2], 2)):
        with pytest.raises(InputError, match=f"has label {value}: must be 0 to 1"):
            pair().score(labels)
    with pytest.raises(InputError, match="labels must be integers, not float64"):
        pair().score([0.0, 1.0])
    assert EMPTY.score([]) == 0.0
    for cardinalities in ([0], [-1, 2]):
        with pytest.raises(InputError, match="labels: must be at least 1"):
            graph.FactorGraph(cardinalities, [])
    for cardinalities in ([1.5], 3, [[2]], "2"):
        with pytest.raises(InputError, match="cardinalities must be a list of integers"):
            graph.FactorGraph(cardinalities, [])  # type: ignore[arg-type]
    for scope, message in (
        ((2,), "factor 0 has variable 2, but the graph has 2 variables"),
        ((-1,), "factor 0 has variable -1"),
        ((0, 0), "factor 0 has variable 0 twice"),
        ([[0, 1], [1, 1]], "factor 0, row 1 has variable 1 twice"),
        ((), "variables must be integers"),
        ((0.0,), "variables must be integers"),
    ):
        with pytest.raises(InputError, match=message):
            graph.FactorGraph([2, 2], [(scope, np.zeros((2,) * np.shape(scope)[-1]))])


def test_each_pair_is_in_a_forest() -> None:
    """A complete graph of five variables; every forest is a tree of four pairs."""
    pairs = [*itertools.combinations(range(5), 2)]
    complete = graph.FactorGraph([2] * 5, [((0,), [0.0, 0.0]), (pairs, np.zeros((2, 2)))])
    forests = spanning_forests(complete)
    assert forests[:, 0].all()
    assert forests[:, 1:].any(axis=0).all()
    for forest in forests:
        chosen = [edge for edge, is_chosen in zip(pairs, forest[1:], strict=True) if is_chosen]
        assert len(chosen) == 4
        reached = {0}
        for _ in range(5):
            reached |= {v for edge in chosen if reached & {*edge} for v in edge}
        assert reached == set(range(5))


def test_cuts_by_enumeration() -> None:
    rng = np.random.default_rng(5)
    for n in (1, 2, 5):
        for _ in range(20):
            cost = rng.integers(-3, 4, size=n).astype(float)
            edges = np.array([*itertools.permutations(range(n), 2)], int).reshape(-1, 2)
            capacity = rng.integers(0, 3, size=len(edges)).astype(float)

            def value(x: Any, cost: Any = cost, edges: Any = edges, c: Any = capacity) -> float:
                x = np.asarray(x)
                return float(cost @ x + c @ ((x[edges[:, 0]] == 0) & (x[edges[:, 1]] == 1)))

            best = min(value(x) for x in itertools.product((0, 1), repeat=n))
            assert value(minimum_cut(cost, edges, capacity)) == pytest.approx(best)
    assert minimum_cut(np.zeros(0), np.zeros((0, 2), int), np.zeros(0)).shape == (0,)
    assert minimum_cut(np.array([-1.0]), np.zeros((0, 2), int), np.zeros(0)).tolist() == [1]
    assert minimum_cut(np.array([1.0]), np.zeros((0, 2), int), np.zeros(0)).tolist() == [0]
