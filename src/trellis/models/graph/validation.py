"""Validation of X: a list of `Graph` becomes `Samples`; errors name the graph and the entry."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from trellis.errors import InputError
from trellis.models.graph.cliques import Cliques
from trellis.models.graph.samples import (
    Doubles,
    Graph,
    Integers,
    Matrix,
    Samples,
    Shape,
    offsets,
)

__all__ = ["collect", "match_model"]

_DEFAULT_NAME = "cliques"  # the type of cliques that are given as an array
_MAX_NODES = 32  # of a clique: the largest order of a factor in trellis.inference.graph


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
        cliques=_join_cliques([graph.cliques for graph in graphs], node_begin),
    )


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


def _join_cliques(
    graphs: list[dict[str, tuple[Integers, Doubles]]], node_begin: Integers
) -> tuple[Cliques, ...]:
    """Return the cliques of all graphs, one entry for each type."""
    joined = []
    for name in sorted({name for cliques in graphs for name in cliques}):
        with_type = [i for i, cliques in enumerate(graphs) if name in cliques]
        first_nodes, first_features = graphs[with_type[0]][name]
        for i in with_type:
            nodes, features = graphs[i][name]
            for count, first_count, what in (
                (nodes.shape[1], first_nodes.shape[1], "nodes"),
                (features.shape[1], first_features.shape[1], "features"),
            ):
                if count != first_count:
                    raise InputError(
                        f"graph {i}: cliques {name!r} have {count} {what}, those of graph "
                        f"{with_type[0]} have {first_count}: all of a type must have the same "
                        "number"
                    )
        counts = [len(cliques[name][0]) if name in cliques else 0 for cliques in graphs]
        nodes = np.concatenate([graphs[i][name][0] + node_begin[i] for i in with_type])
        features = np.concatenate([_with_constant(graphs[i][name][1]) for i in with_type])
        joined.append(Cliques(name, nodes, features, offsets(counts)))
    return tuple(joined)


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
    cliques: dict[str, tuple[Integers, Doubles]]
    """Nodes and features of each type that has cliques in this graph, by name."""


def _check_graph(i: int, x: Any) -> _CheckedGraph:
    """Return sample i. Raise InputError if it is invalid."""
    if not isinstance(x, tuple | list) or not 1 <= len(x) <= len(Graph._fields):
        raise InputError(
            f"graph {i} must be a tuple ({', '.join(Graph._fields)}), "
            f"not {type(x).__name__}; for a single graph, write [X] and [y]"
        )
    graph = Graph(*x)
    nodes = _check_nodes(i, graph.nodes)
    edges = _check_edges(i, graph.edges, nodes.shape[0])
    features = _check_rows(graph.edge_features, f"graph {i}: edge_features", "edge", len(edges))
    types = _check_types(i, graph.node_types, nodes.shape[0])
    cliques = _check_cliques(i, graph, nodes.shape[0])
    return _CheckedGraph(nodes, edges, features, types, cliques)


def _check_rows(values: Any, name: str, item: str, count: int) -> Doubles:
    """Return the features of ``count`` edges or cliques; none if ``values`` is None."""
    if values is None:
        return np.zeros((count, 0))
    features = _check_features(values, name, item)
    if features.ndim != 2 or len(features) != count:
        raise InputError(
            f"{name} has shape {features.shape}: must be ({count}, features), one row per {item}"
        )
    return features


def _check_features(values: Any, name: str, item: str) -> Doubles:
    """Return the features of nodes, edges or cliques, which ``item`` names, as an array."""
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
    _check_indices(f"graph {i}: edge", edges, n_nodes)
    loops = np.flatnonzero(edges[:, 0] == edges[:, 1])
    if loops.size:
        raise InputError(
            f"graph {i}: edge {loops[0]} joins node {edges[loops[0], 0]} to itself: not allowed"
        )
    return edges.astype(np.int64)


def _check_indices(name: str, rows: Integers, n_nodes: int) -> None:
    """Raise InputError unless all entries are nodes; ``name`` precedes the number of the row."""
    invalid = np.argwhere((rows < 0) | (rows >= n_nodes))
    if invalid.size:
        row, slot = invalid[0]
        raise InputError(f"{name} {row} has node {rows[row, slot]}: must be 0 to {n_nodes - 1}")


def _check_cliques(i: int, graph: Graph, n_nodes: int) -> dict[str, tuple[Integers, Doubles]]:
    """Return the nodes and features of each type of clique that occurs in graph i."""
    types, features = graph.cliques, graph.clique_features
    if types is None:
        types = {}
    elif not isinstance(types, Mapping):
        types = {_DEFAULT_NAME: types}
        features = None if features is None else {_DEFAULT_NAME: features}
    features = {} if features is None else features
    if not isinstance(features, Mapping):
        raise InputError(
            f"graph {i}: clique_features must be a dict with the names of cliques, "
            f"not {type(features).__name__}"
        )
    for name in (*types, *features):
        if not isinstance(name, str) or not name or name not in types:
            raise InputError(
                f"graph {i}: {name!r} is not a name of cliques: must be a str that is not empty, "
                "and clique_features can only have the names in cliques"
            )
    checked = {}
    for name, values in types.items():
        nodes = _check_clique_nodes(f"graph {i}: cliques {name!r}", values, n_nodes)
        where = f"graph {i}: clique_features {name!r}"
        rows = _check_rows(features.get(name), where, "clique", len(nodes))
        if len(nodes):
            checked[name] = nodes, rows
    return checked


def _check_clique_nodes(where: str, values: Any, n_nodes: int) -> Integers:
    try:
        nodes = np.asarray(values)
    except ValueError:
        raise InputError(
            f"{where} must have the same number of nodes: give each size a name in a dict"
        ) from None
    if nodes.size == 0:
        return np.zeros((0, 2), dtype=np.int64)
    if nodes.ndim != 2 or nodes.dtype.kind not in "iu" or not 2 <= nodes.shape[1] <= _MAX_NODES:
        raise InputError(
            f"{where} has dtype {nodes.dtype} and shape {nodes.shape}: must be integers of shape "
            f"(cliques, nodes of a clique), with 2 to {_MAX_NODES} nodes"
        )
    _check_indices(f"{where}: clique", nodes, n_nodes)
    sorted_nodes = np.sort(nodes, axis=1)
    repeated = np.argwhere(sorted_nodes[:, 1:] == sorted_nodes[:, :-1])
    if repeated.size:
        row, slot = repeated[0]
        raise InputError(
            f"{where}: clique {row} has node {sorted_nodes[row, slot]} twice: not allowed"
        )
    return nodes.astype(np.int64)


def _check_types(i: int, values: Any, n_nodes: int) -> Integers | None:
    if values is None:
        return None
    types = np.asarray(values)
    if types.shape != (n_nodes,) or types.dtype.kind not in "iu" or types.min() < 0:
        raise InputError(f"graph {i}: node_types must be {n_nodes} integers of at least 0")
    return types.astype(np.int64)


# ---- samples for a fitted model


def match_model(
    samples: Samples, shape: Shape, allowed: NDArray[np.bool_] | None, has_intercept: bool
) -> Samples:
    """Return the samples with the model's types of cliques, in its order.

    Raise InputError unless the features, node types and cliques are those of the training samples.
    """
    widths = samples.nodes.shape[1], samples.edge_features.shape[1]
    if widths != (shape.n_node_features, shape.n_edge_features):
        raise InputError(
            f"X has {widths[0] - has_intercept} node features and {widths[1] - 1} edge features; "
            f"the model has {shape.n_node_features - has_intercept} and {shape.n_edge_features - 1}"
        )
    if allowed is not None:
        if samples.types is None:
            raise InputError("X has no node_types: the model was trained with node_types")
        if samples.types.max() >= len(allowed):
            raise InputError(
                f"X has node type {samples.types.max()}: "
                f"the types in training were 0 to {len(allowed) - 1}"
            )
    return replace(samples, cliques=_match_cliques(samples, shape))


def _match_cliques(samples: Samples, shape: Shape) -> tuple[Cliques, ...]:
    """Return the cliques of each type of the model; a type can be absent from the samples."""
    cliques_of = {cliques.name: cliques for cliques in samples.cliques}
    names = [clique_shape.name for clique_shape in shape.cliques]
    for name in cliques_of:
        if name not in names:
            known = ", ".join(map(repr, names)) or "no cliques"
            raise InputError(f"X has cliques {name!r}: the model was trained with {known}")
    for clique_shape in shape.cliques:
        name, n_nodes, n_features = clique_shape
        begin = np.zeros(len(samples) + 1, dtype=np.int64)
        nodes = np.zeros((0, n_nodes), dtype=np.int64)
        empty = Cliques(name, nodes, np.zeros((0, n_features)), begin)
        cliques = cliques_of.setdefault(name, empty)
        if cliques.shape != clique_shape:
            raise InputError(
                f"X has cliques {name!r} of {cliques.shape.n_nodes} nodes and "
                f"{cliques.shape.n_features - 1} features; "
                f"the model has {n_nodes} and {n_features - 1}"
            )
    return tuple(cliques_of[name] for name in names)
