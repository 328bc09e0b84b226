"""k-means with some known labels: its clusters are the start of Baum–Welch for vectors."""

import numpy as np
from numpy.typing import NDArray

from trellis.models.chain.emissions.base import Floats

__all__ = ["cluster", "soft_clusters"]

_SWEEPS = 20  # of Lloyd's algorithm; the start of Baum–Welch need not be a minimum
# The part of the probability of each position that is spread over all states. With 0, and without
# smoothing, a state without a first position in its cluster would get p(y₀) = 0, and Baum–Welch
# would never change it.
_SPREAD = 0.05


def soft_clusters(
    X: Floats, allowed: NDArray[np.bool_], weight: Floats, generator: np.random.Generator
) -> Floats:
    """Return p, (positions, states), which is largest at the cluster of each position.

    Each row sums to its weight. Only allowed states have p > 0.
    """
    n_states = allowed.shape[1]
    p: Floats = np.full(allowed.shape, _SPREAD / n_states)
    p[np.arange(len(X)), cluster(X, allowed, generator)] += 1.0 - _SPREAD
    p *= allowed
    p *= weight[:, None] / p.sum(axis=1, keepdims=True)
    return p


def cluster(
    X: Floats, allowed: NDArray[np.bool_], generator: np.random.Generator
) -> NDArray[np.int64]:
    """Return the cluster of each row of X, (positions, dimensions), among its allowed clusters.

    A row with only one allowed cluster stays in it. The first centre of a cluster is the mean of
    such rows; if it has none, a row far from all other centres (k-means++). Dimensions are scaled
    to variance 1.

    >>> X = np.array([[0.0], [0.2], [5.0], [5.2]])
    >>> allowed = np.array([[True, True], [True, True], [True, True], [True, False]])
    >>> cluster(X, allowed, np.random.default_rng(0)).tolist()  # the last row is in cluster 0
    [1, 1, 0, 0]
    """
    scale = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    centres = _first_centres(X, allowed, generator)
    assigned = np.full(len(X), -1)
    for _ in range(_SWEEPS):
        distances = np.where(allowed, _squared_distances(X, centres), np.inf)
        nearest = distances.argmin(axis=1)
        if np.array_equal(nearest, assigned):
            break
        assigned = nearest
        sizes = np.bincount(assigned, minlength=len(centres))
        sums = np.stack([np.bincount(assigned, x, len(centres)) for x in X.T], axis=1)
        centres = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres)
    return assigned


def _first_centres(X: Floats, allowed: NDArray[np.bool_], generator: np.random.Generator) -> Floats:
    """Return the first centre of each cluster, (clusters, dimensions)."""
    n_clusters = allowed.shape[1]
    centres = np.zeros((n_clusters, X.shape[1]))
    is_known = allowed.sum(axis=1) == 1
    known = np.where(is_known, allowed.argmax(axis=1), -1)
    nearest = np.full(len(X), np.inf)  # the squared distance to the nearest centre
    without_rows = []
    for k in range(n_clusters):
        if (known == k).any():
            centres[k] = X[known == k].mean(axis=0)
            nearest = np.minimum(nearest, _squared_distances(X, centres[k : k + 1])[:, 0])
        else:
            without_rows.append(k)
    for k in without_rows:
        chances = np.where(np.isinf(nearest), 1.0, nearest)
        total = chances.sum()
        p = chances / total if total > 0 else None  # all rows are centres already
        centres[k] = X[generator.choice(len(X), p=p)]
        nearest = np.minimum(nearest, _squared_distances(X, centres[k : k + 1])[:, 0])
    return centres


def _squared_distances(X: Floats, centres: Floats) -> Floats:
    """‖x - c‖² = ‖x‖² - 2 x·c + ‖c‖², shape (positions, centres), at least 0.

    X has mean 0 and variance 1, so few digits are lost.
    """
    distances: Floats = X @ (-2.0 * centres.T)
    distances += np.square(X).sum(axis=1)[:, None]
    distances += np.square(centres).sum(axis=1)
    return np.maximum(distances, 0.0, out=distances)
