"""The samples of graph models: several graphs joined into one large graph, and their scores.

    unary[v, y] = w_y · x_v          table[c, y₁, …, y_k] = Σ_f P_f[y₁, …, y_k] features_cf

v is a node with features x_v; c is an edge or a larger clique, with a value of each feature f. The
graphs are disjoint parts of the large graph. So one matrix product computes the scores of all
nodes, and inference runs once for all samples.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis.errors import InputError
from trellis.models.graph.cliques import Cliques, CliqueShape

__all__ = ["Graph", "Samples", "Scores", "Shape", "labels_of_types", "offsets"]

Doubles: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Matrix: TypeAlias = Any  # a dense array or a sparse matrix: both have @, .T and rows


class Graph(NamedTuple):
    """One sample. Models also accept a plain tuple in the same order."""

    nodes: Any
    """Features of the nodes, ``(nodes, features)``: dense, or a SciPy sparse matrix."""
    edges: Any = ()
    """Pairs of nodes ``(edges, 2)``. The label of the first node selects the row in the score table
    of the edge, the label of the second node the column."""
    edge_features: Any = None
    """``(edges, k)``; a constant 1 is always added as the first feature."""
    node_types: Any = None
    """One small integer for each node. A node gets only labels that nodes of its type have in the
    training data."""
    cliques: Any = None
    """Groups of k nodes with a common score table: an array ``(cliques, k)``, or a dict from the
    name of a type to such an array. The label of node j of a row is the index on axis j of the
    table."""
    clique_features: Any = None
    """``(cliques, f)``, or a dict from the name of a type to such an array. A constant 1 is always
    added as the first feature."""


class Scores(NamedTuple):
    """The scores of all samples, or derivatives with respect to these scores."""

    unary: Doubles
    """``(N, L)``: one for each node and label."""
    tables: tuple[Doubles, ...]
    """First ``(E, L, L)``: one for each edge and pair of labels. Then one array ``(C, L, …, L)``
    for each type of clique."""

    def restricted(self, allowed: NDArray[np.bool_]) -> "Scores":
        """Return the scores with -inf for the labels that ``allowed`` ``(N, L)`` excludes."""
        return self._replace(unary=np.where(allowed, self.unary, -np.inf))


class Shape(NamedTuple):
    """The sizes of a model. They determine the size of its weight vector."""

    n_labels: int
    n_node_features: int
    """Number of node features, the intercept included."""
    n_edge_features: int
    """Number of edge features, the constant included."""
    cliques: tuple[CliqueShape, ...] = ()
    """The types of cliques, sorted by name."""

    @property
    def size(self) -> int:
        """Number of weights."""
        return self.n_labels * self.n_node_features + sum(map(math.prod, self._dimensions()))

    def _dimensions(self) -> list[tuple[int, ...]]:
        """Return the shapes of the weights of edges and of each type of clique."""
        edges = CliqueShape("edges", 2, self.n_edge_features)
        return [shape.dimensions(self.n_labels) for shape in (edges, *self.cliques)]

    def split(self, w: Doubles) -> tuple[Doubles, ...]:
        """Return views of the weights of nodes, of edges and of each type of clique.

        The shapes are ``(L, d)``, ``(features, L, L)`` and ``(features, L, …, L)``.
        """
        begin = self.n_labels * self.n_node_features
        views = [w[:begin].reshape(self.n_labels, self.n_node_features)]
        for dimensions in self._dimensions():
            end = begin + math.prod(dimensions)
            views.append(w[begin:end].reshape(dimensions))
            begin = end
        return tuple(views)


@dataclass(frozen=True, eq=False)
class Samples:
    """Several graphs as one large graph, without edges between them."""

    nodes: Matrix
    """``(N, d)``: node features."""
    edges: Integers
    """``(E, 2)``: pairs of indices of ``nodes``."""
    edge_features: Doubles
    """``(E, k)``"""
    node_begin: Integers
    """``(samples + 1,)``: the nodes of sample i are ``node_begin[i] : node_begin[i + 1]``."""
    edge_begin: Integers
    """``(samples + 1,)``: the edges of sample i are ``edge_begin[i] : edge_begin[i + 1]``."""
    types: Integers | None
    """``(N,)``: type of each node, or None."""
    grids: tuple[tuple[int, int], ...] | None = None
    """Height and width of each sample, if they are grids."""
    cliques: tuple[Cliques, ...] = ()
    """The cliques of each type, sorted by name."""

    def __len__(self) -> int:
        return len(self.node_begin) - 1

    @cached_property
    def factors(self) -> tuple[Cliques, ...]:
        """The edges, as cliques of two nodes, and the cliques of each type."""
        edges = Cliques("edges", self.edges, self.edge_features, self.edge_begin)
        return (edges, *self.cliques)

    @property
    def clique_shapes(self) -> tuple[CliqueShape, ...]:
        """The sizes of each type of clique."""
        return tuple(cliques.shape for cliques in self.cliques)

    def part(self, begin: int, end: int) -> "Samples":
        """Return the samples ``begin : end``."""
        nodes = slice(*self.node_begin[[begin, end]])
        edges = slice(*self.edge_begin[[begin, end]])
        return replace(
            self,
            nodes=self.nodes[nodes],
            edges=self.edges[edges] - nodes.start,
            edge_features=self.edge_features[edges],
            node_begin=self.node_begin[begin : end + 1] - nodes.start,
            edge_begin=self.edge_begin[begin : end + 1] - edges.start,
            types=None if self.types is None else self.types[nodes],
            grids=None if self.grids is None else self.grids[begin:end],
            cliques=tuple(cliques.part(begin, end, nodes.start) for cliques in self.cliques),
        )

    def without_factors(self) -> "Samples":
        """Return the same nodes without edges and cliques."""
        return replace(
            self,
            edges=self.edges[:0],
            edge_features=self.edge_features[:0],
            edge_begin=np.zeros_like(self.edge_begin),
            cliques=tuple(cliques.emptied() for cliques in self.cliques),
        )

    def slices(self, n_labels: int, max_entries: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of samples with about ``max_entries`` numbers each.

        A node or edge counts as ``n_labels²`` numbers, a clique as its table. A sample that is too
        large is a range by itself.
        """
        cost = np.diff(self.node_begin) * n_labels**2
        for factor in self.factors:
            cost = cost + np.diff(factor.begin) * n_labels**factor.shape.n_nodes
        cumulative_cost = np.cumsum(cost)
        begin = 0
        while begin < len(self):
            cost_before = int(cumulative_cost[begin - 1]) if begin else 0
            end = max(
                begin + 1,
                int(np.searchsorted(cumulative_cost, cost_before + max_entries, side="right")),
            )
            yield begin, end
            begin = end

    def scores(self, w: Doubles, shape: Shape, allowed: NDArray[np.bool_] | None) -> Scores:
        """Return the scores for weights w; -inf where the type of a node excludes the label.

        ``allowed`` ``(types, labels)`` is True for the labels of each type; None allows all labels.
        """
        node_weights, *factor_weights = shape.split(w)
        unary = np.asarray(self.nodes @ node_weights.T)
        if allowed is not None and self.types is not None:
            unary[~allowed[self.types]] = -np.inf
        factors = zip(self.factors, factor_weights, strict=True)
        return Scores(unary, tuple(factor.tables(weights) for factor, weights in factors))

    def add_gradient(self, d_scores: Scores, shape: Shape, out: Doubles) -> None:
        """Add the derivative of a loss by the weights to ``out``.

        ``d_scores`` is its derivative by the scores.
        """
        node_weights, *factor_weights = shape.split(out)
        node_weights += np.asarray(self.nodes.T @ d_scores.unary).T
        for factor, weights, d_tables in zip(
            self.factors, factor_weights, d_scores.tables, strict=True
        ):
            weights += factor.gradient(d_tables)

    def sample_of_nodes(self) -> Integers:
        """Return the index of each node's sample, ``(N,)``."""
        return np.repeat(np.arange(len(self)), np.diff(self.node_begin))


def labels_of_types(types: Integers, allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return True for the labels that nodes of each type can have, ``(types, labels)``.

    ``allowed`` ``(N, L)`` is True for the possible labels of each training node. A type gets the
    possible labels of all its nodes, except of nodes where every label is possible.
    """
    n_types, n_labels = int(types.max()) + 1, allowed.shape[1]
    is_informative = ~allowed.all(axis=1) | (n_labels == 1)
    labels = np.zeros((n_types, n_labels), dtype=np.bool_)
    np.logical_or.at(labels, types[is_informative], allowed[is_informative])
    for node_type in np.unique(types).tolist():
        if not labels[node_type].any():
            raise InputError(
                f"no node of type {node_type} has a known label in y: label at least one"
            )
    return labels


def offsets(counts: list[int]) -> Integers:
    """Return the cumulative sums of counts, with a zero in front.

    >>> offsets([2, 0, 3]).tolist()
    [0, 2, 2, 5]
    """
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
