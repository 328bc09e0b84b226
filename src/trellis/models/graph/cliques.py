"""Cliques: nodes that share a table of scores, one score for each combination of their labels.

    table[c, y₁, …, y_k] = Σ_f P_f[y₁, …, y_k] features_cf

P_f are the weights of feature f, and features_cf is its value for clique c. All cliques of a type
have the same number of nodes k and the same weights P. Edges are cliques of two nodes, so most code
of graph models treats edges and larger cliques alike.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis.errors import InputError

__all__ = ["CliqueShape", "Cliques", "check_table_sizes", "symmetric_weights"]

Doubles: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

# Largest number of label combinations of a clique: its table of scores then takes 128 MB, and
# inference needs several such tables.
MAX_COMBINATIONS = 1 << 24


class CliqueShape(NamedTuple):
    """The sizes of the weights of one type of clique."""

    name: str
    n_nodes: int
    """Number of nodes of a clique."""
    n_features: int
    """Number of features of a clique, the constant included."""

    def dimensions(self, n_labels: int) -> tuple[int, ...]:
        """Return the shape of the weights: (features, labels, …, labels)."""
        return (self.n_features, *(n_labels,) * self.n_nodes)


@dataclass(frozen=True, eq=False)
class Cliques:
    """All cliques of one type in some samples."""

    name: str
    nodes: Integers
    """``(C, k)``: indices of nodes. The label of the first node selects the first axis."""
    features: Doubles
    """``(C, f)``: the constant 1 first."""
    begin: Integers
    """``(samples + 1,)``: the cliques of sample i are ``begin[i] : begin[i + 1]``."""

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def shape(self) -> CliqueShape:
        """The sizes of the weights of this type."""
        return CliqueShape(self.name, self.nodes.shape[1], self.features.shape[1])

    def part(self, begin: int, end: int, first_node: int) -> "Cliques":
        """Return the cliques of the samples ``begin : end``; node ``first_node`` gets index 0."""
        rows = slice(*self.begin[[begin, end]])
        return replace(
            self,
            nodes=self.nodes[rows] - first_node,
            features=self.features[rows],
            begin=self.begin[begin : end + 1] - rows.start,
        )

    def emptied(self) -> "Cliques":
        """Return the same type without any clique."""
        return replace(
            self,
            nodes=self.nodes[:0],
            features=self.features[:0],
            begin=np.zeros_like(self.begin),
        )

    def samples(self) -> Integers:
        """Return the index of each clique's sample, ``(C,)``."""
        return np.repeat(np.arange(len(self.begin) - 1), np.diff(self.begin))

    def at(self, labels: Integers) -> tuple[Any, ...]:
        """Return the index of a labelling ``(N,)`` in the tables, one entry for each clique."""
        return (np.arange(len(self)), *labels[self.nodes].T)

    def axis(self, labels: Integers, slot: int) -> tuple[Any, ...]:
        """Return an index into the tables where one node of each clique may have any label.

        This is node ``slot`` of the clique; the other nodes have the labels in ``labels`` ``(N,)``.
        The index selects an array ``(C, L)`` from the tables.
        """
        index = list(self.at(labels))
        index[1 + slot] = slice(None)
        # The axis of the cliques comes first in the result for every slot: if the slice is between
        # two index arrays, NumPy moves their common axis to the front.
        return tuple(index)

    def tables(self, weights: Doubles) -> Doubles:
        """Return the scores ``(C, L, …, L)`` for weights ``(f, L, …, L)``."""
        flat = self.features @ weights.reshape(len(weights), -1)
        return np.asarray(flat.reshape(len(self), *weights.shape[1:]))

    def gradient(self, d_tables: Doubles) -> Doubles:
        """Return the derivative of a loss by the weights ``(f, L, …, L)``.

        ``d_tables`` is its derivative by the scores.
        """
        flat = d_tables.reshape(len(self), math.prod(d_tables.shape[1:]))
        return np.asarray((self.features.T @ flat).reshape(-1, *d_tables.shape[1:]))


def symmetric_weights(weights: Doubles) -> Doubles:
    """Return the mean of the weights over all orders of the labels, ``(f, L, …, L)``.

    >>> symmetric_weights(np.array([[[1.0, 2.0], [4.0, 8.0]]])).tolist()
    [[[1.0, 3.0], [3.0, 8.0]]]
    """
    if weights.ndim == 3:
        return 0.5 * (weights + weights.transpose(0, 2, 1))
    group, sizes = _label_multisets(weights.shape[1], weights.ndim - 1)
    rows = [
        (np.bincount(group, row, len(sizes)) / sizes)[group]
        for row in weights.reshape(len(weights), -1)
    ]
    return np.array(rows).reshape(weights.shape)


@lru_cache(maxsize=8)  # every step of training needs the same few results
def _label_multisets(n_labels: int, n_nodes: int) -> tuple[Integers, Integers]:
    """Return the group of each combination of labels, and the sizes of the groups.

    Two combinations are in the same group if they differ in the order of the labels only.
    """
    shape = (n_labels,) * n_nodes
    combinations = np.sort(np.indices(shape).reshape(n_nodes, -1), axis=0)
    _, group, sizes = np.unique(
        np.ravel_multi_index(tuple(combinations), shape), return_inverse=True, return_counts=True
    )
    return group.ravel(), sizes


def check_table_sizes(shapes: tuple[CliqueShape, ...], n_labels: int) -> None:
    """Raise InputError if a clique has too many combinations of labels."""
    for shape in shapes:
        if n_labels**shape.n_nodes > MAX_COMBINATIONS:
            raise InputError(
                f"cliques {shape.name!r} have {shape.n_nodes} nodes of {n_labels} labels: "
                f"{float(n_labels**shape.n_nodes):.3g} combinations, and at most "
                f"{MAX_COMBINATIONS:,} are supported; use smaller cliques or fewer labels"
            )
