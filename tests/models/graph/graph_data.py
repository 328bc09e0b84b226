"""Small random graphs and images for training."""

from __future__ import annotations

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
