"""The samples of graph models: several graphs joined into one large graph, and their scores.

    unary[v, y] = w_y · x_v          table[e, a, b] = Σ_k P_k[a, b] f_ek

The graphs are disjoint parts of the large graph. So one matrix product computes the scores of all
nodes, and inference runs once for all samples.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from trellis.errors import InputError

__all__ = ["Graph", "Samples", "Scores", "Shape", "collect"]

Doubles: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Matrix: TypeAlias = Any  # a dense array or a sparse matrix: both have @, .T and rows


class Graph(NamedTuple):
    """One sample. Models also accept a plain tuple in the same order."""

    nodes: Any
    """Features of the nodes, ``(nodes, features)``: dense, or a SciPy sparse matrix."""
    edges: Any = ()
    """Pairs of nodes ``(edges, 2)``. The label of the first node is the row of a score table."""
    edge_features: Any = None
    """``(edges, k)``; a constant 1 is always added as the first feature."""
    node_types: Any = None
    """One small integer for each node. Nodes of a type get only labels seen with it in training."""


class Scores(NamedTuple):
    """The scores of all samples, or derivatives with respect to these scores."""

    unary: Doubles
    """``(N, L)``: one for each node and label."""
    tables: Doubles
    """``(E, L, L)``: one for each edge and pair of labels."""


class Shape(NamedTuple):
    """The sizes of a model. They determine the size of its weight vector."""

    n_labels: int
    n_node_features: int
    """Number of node features, the intercept included."""
    n_edge_features: int
    """Number of edge features, the constant included."""

    @property
    def size(self) -> int:
        """Number of weights."""
        return self.n_labels * self.n_node_features + self.n_edge_features * self.n_labels**2

    def split(self, w: Doubles) -> tuple[Doubles, Doubles]:
        """Return views of the node weights ``(L, d)`` and of the pair weights ``(k, L, L)``."""
        n_node_weights = self.n_labels * self.n_node_features
        return (
            w[:n_node_weights].reshape(self.n_labels, self.n_node_features),
            w[n_node_weights:].reshape(self.n_edge_features, self.n_labels, self.n_labels),
        )


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

    def __len__(self) -> int:
        return len(self.node_begin) - 1

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
        )

    def slices(self, entries_per_item: int, max_entries: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of samples with about ``max_entries`` numbers each.

        ``entries_per_item`` is the count of numbers for one node or edge. A sample that is too
        large is a range by itself.
        """
        cumulative_cost = (
            np.cumsum(np.diff(self.node_begin) + np.diff(self.edge_begin)) * entries_per_item
        )
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
        node_weights, pair_weights = shape.split(w)
        unary = np.asarray(self.nodes @ node_weights.T)
        if allowed is not None and self.types is not None:
            unary[~allowed[self.types]] = -np.inf
        tables = self.edge_features @ pair_weights.reshape(shape.n_edge_features, -1)
        return Scores(unary, tables.reshape(-1, shape.n_labels, shape.n_labels))

    def add_gradient(self, d_scores: Scores, shape: Shape, out: Doubles) -> None:
        """Add the derivative of a loss by the weights to ``out``, given that by the scores."""
        node_weights, pair_weights = shape.split(out)
        node_weights += np.asarray(self.nodes.T @ d_scores.unary).T
        pairs = d_scores.tables.reshape(len(self.edges), shape.n_labels**2)
        pair_weights += (self.edge_features.T @ pairs).reshape(pair_weights.shape)

    def sample_of_nodes(self) -> Integers:
        """Return the index of each node's sample, ``(N,)``."""
        return np.repeat(np.arange(len(self)), np.diff(self.node_begin))

    def sample_of_edges(self) -> Integers:
        """Return the index of each edge's sample, ``(E,)``."""
        return np.repeat(np.arange(len(self)), np.diff(self.edge_begin))


def labels_of_types(
    types: Integers | None, labels: Integers, n_labels: int
) -> NDArray[np.bool_] | None:
    """Return True for the labels that nodes of each type have in training, ``(types, labels)``."""
    if types is None:
        return None
    allowed = np.zeros((int(types.max()) + 1, n_labels), dtype=np.bool_)
    allowed[types, labels] = True
    return allowed


# ---- validation


def collect(X: Any, intercept: bool) -> Samples:
    """Return the samples of a list of `Graph`; ``intercept`` adds a constant node feature."""
    graphs = [_check_graph(i, x) for i, x in enumerate(_as_list(X))]
    if not graphs:
        raise InputError("X is empty: at least one graph is needed")
    _check_widths("node features", [graph.nodes.shape[1] for graph in graphs])
    _check_widths("edge features", [graph.edge_features.shape[1] for graph in graphs])
    with_types = [i for i, graph in enumerate(graphs) if graph.node_types is not None]
    if with_types and len(with_types) < len(graphs):
        without_types = next(i for i, graph in enumerate(graphs) if graph.node_types is None)
        raise InputError(
            f"graph {with_types[0]} has node_types, graph {without_types} has none: "
            "all or none must have them"
        )
    node_begin = offsets([graph.nodes.shape[0] for graph in graphs])
    return Samples(
        _stack([graph.nodes for graph in graphs], intercept),
        np.concatenate(
            [
                graph.edges + first_node
                for graph, first_node in zip(graphs, node_begin[:-1], strict=True)
            ]
        ),
        np.concatenate([_with_constant(graph.edge_features) for graph in graphs]),
        node_begin,
        offsets([len(graph.edges) for graph in graphs]),
        np.concatenate([cast(Integers, graph.node_types) for graph in graphs])
        if with_types
        else None,
    )


def offsets(counts: list[int]) -> Integers:
    """Return the cumulative sums of counts, with a zero in front.

    >>> offsets([2, 0, 3]).tolist()
    [0, 2, 2, 5]
    """
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _with_constant(features: Doubles) -> Doubles:
    """Return the features with a first column of ones."""
    return np.concatenate([np.ones((len(features), 1)), features], axis=1)


def _stack(nodes: list[Matrix], intercept: bool) -> Matrix:
    """Return all rows as one matrix, sparse if one is. ``intercept`` adds a last column of 1."""
    ones = np.ones((sum(features.shape[0] for features in nodes), 1))
    if any(sparse.issparse(features) for features in nodes):
        rows = sparse.vstack([sparse.csr_array(features) for features in nodes], format="csr")
        return sparse.hstack([rows, ones], format="csr") if intercept else rows
    dense_rows = np.concatenate(nodes)
    return np.concatenate([dense_rows, ones], axis=1) if intercept else dense_rows


def _check_widths(name: str, widths: list[int]) -> None:
    """Raise InputError unless all graphs have the same number of features."""
    for i, width in enumerate(widths):
        if width != widths[0]:
            raise InputError(
                f"graph {i} has {width} {name}, graph 0 has {widths[0]}: "
                "all graphs must have the same number"
            )


def _as_list(X: Any) -> list[Any]:
    if isinstance(X, str | bytes | Mapping) or not isinstance(X, Iterable):
        raise InputError(f"X must be a list of graphs, not {type(X).__name__}")
    return list(X)


class _CheckedGraph(NamedTuple):
    """A validated `Graph`."""

    nodes: Matrix
    edges: Integers
    edge_features: Doubles
    node_types: Integers | None


def _check_graph(i: int, x: Any) -> _CheckedGraph:
    """Return sample i. Raise InputError if it is invalid."""
    if not isinstance(x, tuple | list) or not 1 <= len(x) <= 4:
        raise InputError(
            f"graph {i} must be a tuple (nodes, edges, edge_features, node_types), "
            f"not {type(x).__name__}; for a single graph, write [X] and [y]"
        )
    graph = Graph(*x)
    nodes = _check_nodes(i, graph.nodes)
    edges = _check_edges(i, graph.edges, nodes.shape[0])
    features = np.zeros((len(edges), 0))
    if graph.edge_features is not None:
        features = _check_features(graph.edge_features, f"graph {i}: edge_features", "edge")
        if features.ndim != 2 or len(features) != len(edges):
            raise InputError(
                f"graph {i}: edge_features has shape {features.shape}: "
                f"must be ({len(edges)}, features), one row per edge"
            )
    types = _check_types(i, graph.node_types, nodes.shape[0])
    return _CheckedGraph(nodes, edges, features, types)


def _check_features(values: Any, name: str, item: str) -> Doubles:
    """Return the features of nodes or edges as an array; ``item`` is "node" or "edge"."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be an array of numbers") from None
    not_finite = np.argwhere(~np.isfinite(array))
    if not_finite.size:
        index = not_finite[0].tolist()
        location = (
            f"feature {index[1]} of {item} {index[0]}" if len(index) == 2 else f"entry {index}"
        )
        raise InputError(f"{name}: {location} is {array[tuple(index)]}: must be finite")
    return array


def _check_nodes(i: int, values: Any) -> Matrix:
    if sparse.issparse(values):
        nodes = sparse.csr_array(values, dtype=np.float64)
        if not np.isfinite(nodes.data).all():
            raise InputError(
                f"graph {i}: nodes contains nan or infinity: all features must be finite"
            )
    else:
        nodes = _check_features(values, f"graph {i}: nodes", "node")
    if nodes.ndim != 2 or nodes.shape[0] == 0:
        raise InputError(
            f"graph {i}: nodes has shape {nodes.shape}: must be (nodes, features) with at least "
            "one node"
        )
    return nodes


def _check_edges(i: int, values: Any, n_nodes: int) -> Integers:
    try:
        edges = np.asarray(values)
    except ValueError:
        raise InputError(f"graph {i}: edges must be pairs of nodes") from None
    if edges.size == 0:
        return np.zeros((0, 2), dtype=np.int64)
    if edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype.kind not in "iu":
        raise InputError(
            f"graph {i}: edges has dtype {edges.dtype} and shape {edges.shape}: "
            "must be integers of shape (edges, 2)"
        )
    invalid = np.argwhere((edges < 0) | (edges >= n_nodes))
    if invalid.size:
        edge, end = invalid[0]
        raise InputError(
            f"graph {i}: edge {edge} has node {edges[edge, end]}: must be 0 to {n_nodes - 1}"
        )
    loops = np.flatnonzero(edges[:, 0] == edges[:, 1])
    if loops.size:
        raise InputError(
            f"graph {i}: edge {loops[0]} joins node {edges[loops[0], 0]} to itself: not allowed"
        )
    return edges.astype(np.int64)


def _check_types(i: int, values: Any, n_nodes: int) -> Integers | None:
    if values is None:
        return None
    types = np.asarray(values)
    if types.shape != (n_nodes,) or types.dtype.kind not in "iu" or types.min() < 0:
        raise InputError(f"graph {i}: node_types must be {n_nodes} integers of at least 0")
    return types.astype(np.int64)
