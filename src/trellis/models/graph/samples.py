"""Samples of graph models, one after the other as one large graph, and what weights make of them.

unary[v, y] = w_y · x_v          table[e, a, b] = Σ_k P_k[a, b] f_ek
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from trellis.errors import InputError

__all__ = ["Fields", "Graph", "Shape", "collect"]

Doubles: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Matrix: TypeAlias = Any  # a dense array or a sparse matrix: both have @, .T and rows


class Graph(NamedTuple):
    """One sample: a plain tuple of the same will do."""

    nodes: Any
    """Features of the nodes, ``(nodes, features)``: dense, or a SciPy sparse matrix."""
    edges: Any = ()
    """Pairs of nodes ``(edges, 2)``; the first is the row of a table of label pairs."""
    edge_features: Any = None
    """``(edges, k)``; the constant 1 is there without being asked for."""
    node_types: Any = None
    """One small integer a node. A type has only the labels it was seen with in training."""


class Shape(NamedTuple):
    """How many labels, features of nodes and features of edges there are."""

    labels: int
    nodes: int
    edges: int

    @property
    def size(self) -> int:
        """All weights."""
        return self.labels * self.nodes + self.edges * self.labels**2

    def split(self, w: Doubles) -> tuple[Doubles, Doubles]:
        """Node weights ``(L, d)`` and pair weights ``(k, L, L)``: views."""
        first = self.labels * self.nodes
        return (
            w[:first].reshape(self.labels, self.nodes),
            w[first:].reshape(self.edges, self.labels, self.labels),
        )


@dataclass(frozen=True, eq=False)
class Fields:
    """Many graphs as one that is not connected."""

    nodes: Matrix
    """``(N, d)``"""
    edges: Integers
    """``(E, 2)``, numbers of rows of ``nodes``"""
    edge_features: Doubles
    """``(E, k)``"""
    node_begin: Integers
    """``(samples + 1,)``"""
    edge_begin: Integers
    types: Integers | None
    grids: tuple[tuple[int, int], ...] | None = None
    """Height and width of each sample, if they are grids."""

    def __len__(self) -> int:
        return len(self.node_begin) - 1

    def part(self, begin: int, end: int) -> "Fields":
        """Some of the samples."""
        n0, n1 = self.node_begin[[begin, end]]
        e0, e1 = self.edge_begin[[begin, end]]
        return replace(
            self,
            nodes=self.nodes[n0:n1],
            edges=self.edges[e0:e1] - n0,
            edge_features=self.edge_features[e0:e1],
            node_begin=self.node_begin[begin : end + 1] - n0,
            edge_begin=self.edge_begin[begin : end + 1] - e0,
            types=None if self.types is None else self.types[n0:n1],
            grids=None if self.grids is None else self.grids[begin:end],
        )

    def parts(self, entries: int, most: int) -> Iterator[tuple[int, int]]:
        """Stretches of samples of about ``most`` entries, if a node and an edge have so many."""
        cost = np.cumsum(np.diff(self.node_begin) + np.diff(self.edge_begin)) * entries
        begin = 0
        while begin < len(self):
            before = int(cost[begin - 1]) if begin else 0
            end = max(begin + 1, int(np.searchsorted(cost, before + most, side="right")))
            yield begin, end
            begin = end

    def scores(
        self, w: Doubles, shape: Shape, allowed: NDArray[np.bool_] | None
    ) -> tuple[Doubles, Doubles]:
        """Unary scores ``(N, L)`` and tables ``(E, L, L)``; -inf where a type has no such label."""
        own, pairs = shape.split(w)
        unary = np.asarray(self.nodes @ own.T)
        if allowed is not None and self.types is not None:
            unary[~allowed[self.types]] = -np.inf
        square = (shape.labels, shape.labels)
        tables = (self.edge_features @ pairs.reshape(shape.edges, -1)).reshape(-1, *square)
        return unary, tables

    def gradient(self, d_unary: Doubles, d_tables: Doubles, shape: Shape, out: Doubles) -> None:
        """Add to ``out`` the derivative by the weights, from that by the scores."""
        own, pairs = shape.split(out)
        own += np.asarray(self.nodes.T @ d_unary).T
        pairs += (
            self.edge_features.T @ d_tables.reshape(len(self.edges), shape.labels**2)
        ).reshape(pairs.shape)

    def sample_of_nodes(self) -> Integers:
        """The sample that each node is of."""
        return np.repeat(np.arange(len(self)), np.diff(self.node_begin))

    def sample_of_edges(self) -> Integers:
        """The sample that each edge is of."""
        return np.repeat(np.arange(len(self)), np.diff(self.edge_begin))


def collect(X: Any, intercept: bool) -> Fields:
    """Check all samples and put them one after the other."""
    graphs = [_checked(i, x) for i, x in enumerate(_listed(X))]
    if not graphs:
        raise InputError("X is empty: at least one graph is needed")
    columns = {
        "node features": [g[0].shape[1] for g in graphs],
        "edge features": [g[2].shape[1] for g in graphs],
    }
    for name, widths in columns.items():
        other = next((i for i, width in enumerate(widths) if width != widths[0]), None)
        if other is not None:
            raise InputError(
                f"graph {other} has {widths[other]} {name}, graph 0 has {widths[0]}: "
                "all must have the same"
            )
    typed = [i for i, g in enumerate(graphs) if g[3] is not None]
    if typed and len(typed) < len(graphs):
        raise InputError(f"graph {typed[0]} has node_types, and others have none")
    counts = [g[0].shape[0] for g in graphs]
    node_begin = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    edge_begin = np.concatenate([[0], np.cumsum([len(g[1]) for g in graphs])]).astype(np.int64)
    return Fields(
        _stack([g[0] for g in graphs], intercept),
        np.concatenate([g[1] + n for g, n in zip(graphs, node_begin[:-1], strict=True)]),
        np.concatenate([with_constant(g[2]) for g in graphs]),
        node_begin,
        edge_begin,
        np.concatenate([cast(Integers, g[3]) for g in graphs]) if typed else None,
    )


def with_constant(features: Doubles) -> Doubles:
    """With a first column of ones."""
    return np.concatenate([np.ones((len(features), 1)), features], axis=1)


def _stack(nodes: list[Matrix], intercept: bool) -> Matrix:
    ones = np.ones((sum(n.shape[0] for n in nodes), 1))
    if any(sparse.issparse(n) for n in nodes):
        rows = sparse.vstack([sparse.csr_array(n) for n in nodes], format="csr")
        return sparse.hstack([rows, ones], format="csr") if intercept else rows
    dense = np.concatenate(nodes)
    return np.concatenate([dense, ones], axis=1) if intercept else dense


def _listed(X: Any) -> list[Any]:
    if isinstance(X, str | bytes) or not hasattr(X, "__len__"):
        raise InputError(f"X must be a list of graphs, not {type(X).__name__}")
    return list(X)


_Checked: TypeAlias = tuple[Matrix, Integers, Doubles, Integers | None]


def _checked(i: int, x: Any) -> _Checked:
    if not isinstance(x, tuple | list) or not 1 <= len(x) <= 4:
        raise InputError(f"graph {i} must be a tuple (nodes, edges, edge_features, node_types)")
    graph = Graph(*x)
    nodes = _nodes(i, graph.nodes)
    edges = _edges(i, graph.edges, nodes.shape[0])
    features = np.zeros((len(edges), 0))
    if graph.edge_features is not None:
        features = _numbers(graph.edge_features, f"graph {i}: edge_features")
        if features.ndim != 2 or len(features) != len(edges):
            raise InputError(
                f"graph {i}: edge_features have shape {features.shape}; "
                f"there are {len(edges)} edges"
            )
    return nodes, edges, features, _types(i, graph.node_types, nodes.shape[0])


def _numbers(given: Any, what: str) -> Doubles:
    try:
        found = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{what} must be an array of numbers") from None
    bad = np.argwhere(~np.isfinite(found))
    if bad.size:
        raise InputError(f"{what} is {found[tuple(bad[0])]} at {bad[0].tolist()}")
    return found


def _nodes(i: int, given: Any) -> Matrix:
    if sparse.issparse(given):
        found = sparse.csr_array(given, dtype=np.float64)
        if not np.isfinite(found.data).all():
            raise InputError(f"graph {i}: nodes must be finite")
    else:
        found = _numbers(given, f"graph {i}: nodes")
    if found.ndim != 2 or found.shape[0] == 0:
        raise InputError(
            f"graph {i}: nodes must be (nodes, features), with a node, not of shape {found.shape}"
        )
    return found


def _edges(i: int, given: Any, count: int) -> Integers:
    try:
        edges = np.asarray(given)
    except ValueError:
        raise InputError(f"graph {i}: edges must be pairs of nodes") from None
    if edges.size == 0:
        return np.zeros((0, 2), dtype=np.int64)
    if edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype.kind not in "iu":
        raise InputError(
            f"graph {i}: edges must be integers (edges, 2), not {edges.dtype} {edges.shape}"
        )
    bad = np.argwhere((edges < 0) | (edges >= count))
    if bad.size:
        e, k = bad[0]
        raise InputError(f"graph {i}: edge {e} goes to node {edges[e, k]}; there are {count}")
    loops = np.flatnonzero(edges[:, 0] == edges[:, 1])
    if loops.size:
        raise InputError(f"graph {i}: edge {loops[0]} joins node {edges[loops[0], 0]} to itself")
    return edges.astype(np.int64)


def _types(i: int, given: Any, count: int) -> Integers | None:
    if given is None:
        return None
    types = np.asarray(given)
    if types.shape != (count,) or types.dtype.kind not in "iu" or types.min() < 0:
        raise InputError(f"graph {i}: node_types must be {count} integers of at least 0")
    return types.astype(np.int64)
