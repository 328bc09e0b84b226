"""Small random graphs and images for training."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

OBJECTIVES = ("likelihood", "pseudolikelihood", "trw", "bethe", "perceptron", "ssvm")


def graphs(
    rng: np.random.Generator, count: int = 6, edge_features: int = 0, types: bool = False
) -> tuple[list[Any], list[Any]]:
    """Return rings with one chord. Neighbours mostly have the same label; features depend on it."""
    X, y = [], []
    for _ in range(count):
        n = int(rng.integers(4, 8))
        edges = [[i, (i + 1) % n] for i in range(n)] + [[0, n // 2]]
        labels = np.full(n, rng.integers(3))
        labels[rng.integers(n)] = rng.integers(3)
        nodes = rng.normal(size=(n, 4)) + np.eye(4)[labels]
        x: list[Any] = [nodes, np.array(edges)]
        if edge_features or types:
            x.append(rng.normal(size=(len(edges), edge_features)))
        if types:
            kinds = np.arange(n) % 2
            labels = np.where(kinds == 1, labels + 3, labels)
            x.append(kinds)
        X.append(tuple(x))
        y.append(np.array(list("abcdef"))[labels])
    return X, y


def images(
    rng: np.random.Generator, count: int = 3, side: int = 8, noise: float = 0.8
) -> tuple[list[Any], list[Any]]:
    """Return images of a bright square on a dark background, with noise."""
    X, y = [], []
    for _ in range(count):
        truth = np.zeros((side, side + 1), dtype=int)
        a, b = rng.integers(0, side // 2, size=2)
        truth[a : a + side // 2, b : b + side // 2] = 1
        X.append(np.stack([truth + noise * rng.normal(size=truth.shape)] * 2, axis=-1))
        X[-1][..., 1] = rng.normal(size=truth.shape)
        y.append(truth)
    return X, y


def clique_graphs(
    rng: np.random.Generator, count: int = 6, types: bool = False, partial: bool = False
) -> tuple[list[Any], list[Any]]:
    """Return graphs of 5 to 6 nodes with edges, cliques of three with a feature, and of four.

    The second graph has no clique of four. With ``partial``, each graph has an unknown label, and
    one that is "a" or "b" ("d" or "e" for nodes of the other type).
    """
    X, y = [], []
    for i in range(count):
        n = int(rng.integers(5, 7))
        labels = rng.integers(3, size=n)
        labels[:3] = [0, 1, 2] if i == 0 else labels[0]
        kinds = np.arange(n) % 2
        nodes = rng.normal(size=(n, 2)) + np.eye(3)[labels][:, :2]
        triples = np.array([rng.permutation(n)[:3] for _ in range(3)])
        cliques = {"three": triples, "four": rng.permutation(n)[None, :4]}
        if i == 1:
            del cliques["four"]
        features = {"three": rng.normal(size=(3, 1))}
        edges = [[v, (v + 1) % n] for v in range(n - 1)]
        X.append((nodes, edges, None, kinds if types else None, cliques, features))
        row = np.array(list("abcdef"), dtype=object)[labels + (3 * kinds if types else 0)]
        if partial:
            v, u = rng.permutation(np.arange(3, n))[:2]
            row[v] = None
            row[u] = {"d", "e"} if types and kinds[u] else {"a", "b"}
        y.append(row)
    return X, y


def enumerate_scores(model: Any, x: Any) -> dict[tuple[Any, ...], float]:
    """Return the score of every labelling of a graph, from the weights of a fitted model."""
    nodes, edges, edge_features, node_types, cliques, clique_features = (*x, *[None] * 6)[:6]
    labels = range(len(model.classes_))
    factors = [((v,), model.coef_ @ row + model.intercept_) for v, row in enumerate(nodes)]
    for e, edge in enumerate(edges):
        f = [1.0, *([] if edge_features is None else edge_features[e])]
        factors.append((tuple(edge), np.tensordot(f, model.pair_coef_, 1)))
    for name, rows in (cliques or {}).items():
        for c, row in enumerate(rows):
            f = [1.0, *(clique_features[name][c] if name in (clique_features or {}) else [])]
            factors.append((tuple(row), np.tensordot(f, model.clique_coef_[name], 1)))
    allowed = [
        labels if node_types is None else np.flatnonzero(model.allowed_[node_types[v]])
        for v in range(len(nodes))
    ]
    return {
        tuple(model.classes_[list(way)]): sum(t[tuple(way[v] for v in vs)] for vs, t in factors)
        for way in itertools.product(*allowed)
    }


def is_allowed(labels: Any, known: Any) -> bool:
    """Return True if a labelling agrees with labels of which some are None or sets."""
    return all(
        want is None or (have in want if isinstance(want, set) else have == want)
        for have, want in zip(labels, known, strict=True)
    )
