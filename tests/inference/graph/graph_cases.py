"""Random factor graphs, and the results of enumerating all their labellings."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np

from trellis.inference.graph import FactorGraph

Factors = list[tuple[Any, Any]]


class Truth(NamedTuple):
    """The exact results of a graph, from enumeration."""

    log_z: float
    variables: np.ndarray
    factors: list[np.ndarray]
    best: np.ndarray
    best_score: float


def split_entries(factors: Factors) -> list[list[tuple[tuple[int, ...], np.ndarray]]]:
    """Return each entry as a list of single factors."""
    out = []
    for variables, table in factors:
        rows, tables = np.atleast_2d(variables), np.asarray(table, dtype=float)
        if tables.ndim == rows.shape[1]:
            tables = np.broadcast_to(tables, (len(rows), *tables.shape))
        out.append([(tuple(map(int, v)), t) for v, t in zip(rows, tables, strict=True)])
    return out


def enumerate_all(cards: list[int], factors: Factors) -> Truth:
    """Compute the exact results by sums over all labellings, one by one."""
    entries = split_entries(factors)
    labellings = list(itertools.product(*map(range, cards)))
    scores = np.array(
        [sum(t[tuple(y[v] for v in vs)] for e in entries for vs, t in e) for y in labellings],
        dtype=float,
    )
    top = scores.max()
    log_z = float(top + np.log(np.exp(scores - top).sum()))
    p = np.exp(scores - log_z)
    variables = np.zeros((len(cards), max(cards, default=0)))
    tables = [[np.zeros_like(t) for _, t in e] for e in entries]
    for y, weight in zip(labellings, p, strict=True):
        for v, label in enumerate(y):
            variables[v, label] += weight
        for entry, out in zip(entries, tables, strict=True):
            for (vs, _), table in zip(entry, out, strict=True):
                table[tuple(y[v] for v in vs)] += weight
    single = [np.ndim(v) == 1 for v, _ in factors]
    shaped = [t[0] if one else np.array(t) for t, one in zip(tables, single, strict=True)]
    best = int(scores.argmax())
    return Truth(log_z, variables, shaped, np.array(labellings[best]), float(top))


def random_factors(
    rng: np.random.Generator,
    cards: list[int],
    edges: float = 0.4,
    triples: int = 0,
    forbidden: float = 0.0,
    scale: float = 1.0,
) -> Factors:
    """Return a factor for each variable, for some pairs, and for some triples."""

    def table(*variables: int) -> np.ndarray:
        scores = scale * rng.normal(size=[cards[v] for v in variables])
        scores[rng.random(scores.shape) < forbidden] = -np.inf
        return scores

    n = len(cards)
    factors: Factors = [((v,), scale * rng.normal(size=cards[v])) for v in range(n)]
    pairs = [p for p in itertools.combinations(range(n), 2) if rng.random() < edges]
    factors += [(p[:: rng.choice([-1, 1])], None) for p in pairs]
    for _ in range(triples if n > 2 else 0):
        factors.append((tuple(rng.permutation(n)[:3].tolist()), None))
    return [(v, table(*v) if t is None else t) for v, t in factors]


def random_tree(rng: np.random.Generator, cards: list[int], parts: int = 1) -> Factors:
    """Return the factors of a random forest."""
    factors: Factors = [((v,), rng.normal(size=c)) for v, c in enumerate(cards)]
    for v in range(parts, len(cards)):
        u = int(rng.integers(v))
        factors.append(((u, v), rng.normal(size=(cards[u], cards[v]))))
    return factors


def chain_graph(unary: np.ndarray, transition: np.ndarray) -> FactorGraph:
    """Return a linear chain as a graph."""
    steps = np.arange(len(unary))
    return FactorGraph.pairwise(unary, np.stack([steps[:-1], steps[1:]], axis=1), transition)


def assert_truth(p: Any, truth: Truth, tolerance: float = 1e-10) -> None:
    """Assert that marginals and log Z are those of the enumeration."""
    assert abs(p.log_partition - truth.log_z) <= tolerance * max(1.0, abs(truth.log_z))
    np.testing.assert_allclose(p.variables, truth.variables, rtol=0, atol=tolerance)
    assert len(p.factors) == len(truth.factors)
    for ours, theirs in zip(p.factors, truth.factors, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance)
