"""Huge finite scores: a finite, normalised answer or an error about overflow."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from trellis import SoftmaxRegression
from trellis.errors import InfeasibleError, InputError
from trellis.inference import chain, ctc, graph

SIZES = [1e15, 1e100, 1e299, 1e301, 1e308, -1e15, -1e299, -1e301, -1e308, 5e-324]
ZEROS = np.zeros((2, 2))


def _chain_cases(v: float) -> list[np.ndarray]:
    return [
        np.array([[v, 0.0], [0.0, v], [v, v]]),
        np.array([[v, -np.inf], [v, v], [-np.inf, v]]),
        np.full((3, 2), v),
        np.array([[v, -v], [-v, v], [0.0, v]]),
    ]


CHAIN: dict[str, Callable[[np.ndarray], Any]] = {
    "log_partition": lambda u: chain.log_partition(u, ZEROS),
    "log_prob": lambda u: chain.log_prob(u, ZEROS, labels=[0, 0, 1]),
    "viterbi": lambda u: chain.viterbi(u, ZEROS).score,
    "kbest": lambda u: chain.kbest(u, ZEROS, k=3).score,
    "entropy": lambda u: chain.entropy(u, ZEROS),
    "marginals": lambda u: chain.marginals(u, ZEROS).unary,
    "per_step": lambda u: chain.marginals(np.zeros((3, 2)), u[:2, :, None] + ZEROS).unary,
    "transition": lambda u: chain.marginals(np.zeros((3, 2)), u[:2]).unary,
    "expected_counts": lambda u: chain.expected_counts(u, ZEROS).unary,
    "max_marginals": lambda u: chain.max_marginals(u, ZEROS),
    "score": lambda u: chain.score(u, ZEROS, labels=[0, 0, 1]),
    "sample": lambda u: chain.sample(u, ZEROS, random_state=0),
}
GRAPH: dict[str, Callable[[np.ndarray], Any]] = {
    **{
        name: lambda u, name=name: graph.marginals(_graph(u), name).variables
        for name in ("exact", "bp", "trw", "mean-field")
    },
    "grid": lambda u: graph.grid_marginals(u[None], ZEROS, ZEROS).unary[0],
}


def _graph(unary: np.ndarray) -> graph.FactorGraph:
    return graph.FactorGraph.pairwise(unary, [[0, 1], [1, 2]], ZEROS)


def _check(call: Callable[[], Any], u: np.ndarray, normalised: bool) -> None:
    too_large = bool((np.abs(u[np.isfinite(u)]) > 1e300).any())
    if too_large:
        with pytest.raises(InputError, match="overflow"):
            call()
        return
    result = np.asarray(call())
    forbidden_allowed = np.isneginf(u).any()
    assert not np.isnan(result).any()
    assert not np.isposinf(result).any()
    assert forbidden_allowed or np.isfinite(result).all()
    if normalised:
        np.testing.assert_allclose(result.sum(axis=-1), 1.0, atol=1e-9)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", CHAIN)
def test_chain(name: str, size: float) -> None:
    for u in _chain_cases(size):
        if name in ("transition", "per_step") and np.isinf(u).any():
            continue
        used = u[:2] if name in ("transition", "per_step") else u
        normalised = name in ("marginals", "per_step", "transition", "expected_counts")
        _check(lambda u=u: CHAIN[name](u), used, normalised)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", GRAPH)
def test_graph(name: str, size: float) -> None:
    for u in _chain_cases(size):
        _check(lambda u=u: GRAPH[name](u), u, True)


@pytest.mark.parametrize("size", [1e15, 1e299, -1e299])
@pytest.mark.parametrize("method", ["exact", "bp", "trw", "mean-field"])
def test_graph_tables_and_factor_marginals(method: str, size: float) -> None:
    """Also the scores of pairs are huge, and the marginals of each factor are normalised."""
    for unary in _chain_cases(size):
        for table in (np.full((2, 2), size), np.diag([size, size]), np.array([[size, 0], [1, 2]])):
            edges = [[0, 1], [1, 2]]
            result = graph.marginals(graph.FactorGraph.pairwise(unary, edges, table), method)
            np.testing.assert_allclose(np.sum(result.variables, axis=-1), 1.0, atol=1e-9)
            for factors in result.factors or ():
                sums = np.sum(factors, axis=tuple(range(1, factors.ndim)))
                np.testing.assert_allclose(sums, 1.0, atol=1e-9)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["loss", "posterior", "align", "greedy", "beam_search"])
def test_ctc(name: str, size: float) -> None:
    for u in _chain_cases(size):
        arguments = () if name in ("greedy", "beam_search") else ([1],)
        if (np.abs(u[np.isfinite(u)]) > 1e300).any():
            with pytest.raises(InputError, match="overflow"):
                getattr(ctc, name)(u, *arguments)
            continue
        try:
            result = getattr(ctc, name)(u, *arguments)
        except InfeasibleError:
            assert np.isinf(u).any()
            continue
        if name == "posterior":
            np.testing.assert_allclose(result.sum(axis=-1), 1.0, atol=1e-9)
        if name == "loss":
            assert np.isfinite(result) or np.isinf(u).any()


@pytest.mark.parametrize("size", [1e15, 1e100, 1e299])
def test_regression_is_normalised(size: float) -> None:
    model = SoftmaxRegression().fit([[0.0], [1.0], [2.0]], [0, 1, 2])
    p = model.predict_proba([[size], [-size], [1.1 * size]])
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    with pytest.raises(InputError, match="sample 1 overflow"):
        model.predict_proba([[0.0], [1.7e308]])


def test_kbest_allocates_the_possible_paths() -> None:
    assert chain.kbest(np.zeros((3, 2)), ZEROS, k=10**12).score.shape == (8,)
    assert chain.kbest(np.zeros((2, 3, 2)), ZEROS, k=10**12).labels.shape == (2, 8, 3)
    only_one = np.zeros((60, 2))
    only_one[:, 1] = -np.inf  # 2**60 labellings, but one is allowed
    assert chain.kbest(only_one, ZEROS, k=10**8).score.shape == (1,)
