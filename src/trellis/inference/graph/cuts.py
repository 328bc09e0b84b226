"""Best labellings by minimum cuts, and by steps that never lose.

For two labels and an energy E = -score whose pairs are submodular,

    E(0, 0) + E(1, 1) ≤ E(0, 1) + E(1, 0),

a graph has a minimum cut whose capacity is the least energy: nodes on the source's side are 0. With more
labels, α-expansion lets every variable keep its label or take α, which is such a problem again.
"""  # noqa: E501

from typing import Any, NamedTuple

import numpy as np

from trellis.errors import InfeasibleError, InputError
from trellis.inference.graph.belief import checked_limits
from trellis.inference.graph.factors import FactorGraph
from trellis.inference.graph.flow import minimum_cut
from trellis.inference.graph.results import Best, Doubles, Integers

__all__ = ["alpha_expansion", "icm", "min_cut"]

_ROUNDING = 1e-9  # of the largest score of a pair: what may be missing to submodularity


class Energy(NamedTuple):
    """E(x) = Σ_v unary[v, x_v] + Σ_e pairs[e, x_a, x_b] of variables of two labels."""

    unary: Doubles
    """``(variables, 2)``"""
    edges: Integers
    """``(edges, 2)``"""
    pairs: Doubles
    """``(edges, 2, 2)``"""


def min_cut(graph: FactorGraph) -> Best:
    """The best labelling of variables of two labels whose pairs are submodular: exact.

    >>> unary = np.array([[0.0, 2.0], [0.5, 0.0], [1.0, 0.0]])
    >>> found = min_cut(FactorGraph.pairwise(unary, [[0, 1], [1, 2]], [[1.0, 0.0], [0.0, 1.0]]))
    >>> found.labels.tolist(), found.energy, found.optimal
    ([1, 0, 0], -4.5, True)
    """
    _check_order(graph, "min_cut")
    if (graph.cardinalities != 2).any():
        v = int(np.argmax(graph.cardinalities != 2))
        raise InputError(f"variable {v} has {graph.cardinalities[v]} labels: min_cut is for two")
    energy = forced(_energy(graph))
    gap = _gap(energy.pairs)
    bad = np.flatnonzero(gap < -_slack(energy.pairs))
    if bad.size:
        a, b = energy.edges[bad[0]]
        raise InputError(
            f"the pair ({a}, {b}) is not submodular: its equal labels score {-gap[bad[0]]:.6g} "
            "less than its different ones; use belief propagation or icm"
        )
    labels = _cut(energy)
    return _best(graph, labels, True)


def _check_order(graph: FactorGraph, name: str) -> None:
    if graph.order > 2:
        raise InputError(f"a factor has {graph.order} variables: {name} is for two at most")


def _best(graph: FactorGraph, labels: Integers, optimal: bool, iterations: int = 1) -> Best:
    score = graph.score(labels)
    if score == -np.inf:
        raise InfeasibleError("no allowed labelling was found: the factors may forbid them all")
    return Best(labels, score, optimal, True, iterations, 0.0)


def _pairs_of(graph: FactorGraph) -> list[tuple[Integers, Doubles]]:
    return [(e.variables, e.table) for e in graph.entries if e.variables.shape[1] == 2]


def _energy(graph: FactorGraph) -> Energy:
    unary = np.zeros((len(graph), 2))
    for entry in graph.entries:
        if entry.variables.shape[1] == 1:
            np.add.at(
                unary, entry.variables[:, 0], np.broadcast_to(-entry.table, (len(entry[0]), 2))
            )
    found = _pairs_of(graph)
    edges = np.concatenate([np.zeros((0, 2), dtype=np.int64), *(v for v, _ in found)])
    pairs = [np.broadcast_to(-table, (len(v), 2, 2)) for v, table in found]
    return Energy(unary, edges, np.concatenate([np.zeros((0, 2, 2)), *pairs]))


def forced(energy: Energy) -> Energy:
    """The same with what pairs forbid altogether moved to the variables, so that ∞ never meets ∞.

    If a label of a variable is forbidden whatever its neighbour has, the variable says so, and the
    pair may then say the same of both labels.
    """
    unary, pairs = energy.unary.copy(), energy.pairs.copy()
    for axis in (0, 1):
        rows = pairs if axis == 0 else pairs.transpose(0, 2, 1)
        for label in (0, 1):
            never = np.isinf(rows[:, label]).all(axis=1)
            unary[energy.edges[never, axis], label] = np.inf
            rows[never, label] = rows[never, 1 - label]
    pairs[np.isinf(pairs).all(axis=(1, 2))] = 0.0  # nothing is allowed: the variables say so by now
    return Energy(unary, energy.edges, pairs)


def _gap(pairs: Doubles) -> Doubles:
    """E(0,1) + E(1,0) - E(0,0) - E(1,1): not negative if submodular."""
    with np.errstate(invalid="ignore"):
        gap = pairs[:, 0, 1] + pairs[:, 1, 0] - pairs[:, 0, 0] - pairs[:, 1, 1]
    return np.where(np.isnan(gap), 0.0, gap)


def _slack(pairs: Doubles) -> Doubles:
    sizes: Doubles = np.abs(np.where(np.isfinite(pairs), pairs, 0.0)).max(axis=(1, 2), initial=0.0)
    return _ROUNDING * sizes


def _cut(energy: Energy) -> Integers:
    """The labels of least energy: E = constant + Σ (capacities of cut arcs)."""
    unary, pairs = _finite(energy)
    a, b = energy.edges[:, 0], energy.edges[:, 1]
    cost = unary[:, 1] - unary[:, 0]
    # E(x, y) = E00 + (E10 - E00) x + (E11 - E10) y + gap (1 - x) y
    np.add.at(cost, a, pairs[:, 1, 0] - pairs[:, 0, 0])
    np.add.at(cost, b, pairs[:, 1, 1] - pairs[:, 1, 0])
    return minimum_cut(cost, energy.edges, np.maximum(_gap(pairs), 0.0)).astype(np.int64)


def _finite(energy: Energy) -> tuple[Doubles, Doubles]:
    """With ∞ replaced by more than all that is finite can make up for."""
    unary, pairs = energy.unary.copy(), energy.pairs.copy()
    total = sum(float(np.abs(x[np.isfinite(x)]).sum()) for x in (unary, pairs))
    for x in (unary, pairs):
        x[np.isinf(x)] = 4.0 * total + 1.0
    return unary, pairs


def icm(graph: FactorGraph, *, initial: Any = None, max_iter: int = 1000) -> Best:
    """Iterated conditional modes: each label in turn the best given the others, until none changes.

    Begins with ``initial``, or with the best label of each variable by itself. Fast, and ends in
    the nearest local optimum.

    >>> graph = FactorGraph.pairwise(np.zeros((2, 2)), [[0, 1]], [[1.0, 0.0], [0.0, 1.5]])
    >>> icm(graph).score, icm(graph, initial=[1, 1]).score
    (1.0, 1.5)
    """
    most, _ = checked_limits(max_iter, 0.0)
    labels = _alone(graph) if initial is None else graph.checked(initial)
    sweeps, converged = graph.core.climb(graph.tables, labels, most)
    return Best(labels, graph.score(labels), False, converged, sweeps, 0.0)


def _alone(graph: FactorGraph) -> Integers:
    """The best label of each variable by the factors that it has for itself."""
    total = np.zeros((len(graph), graph.most_labels))
    total[np.arange(graph.most_labels) >= graph.cardinalities[:, None]] = -np.inf
    for entry in graph.entries:
        if entry.variables.shape[1] == 1:
            labels = entry.table.shape[1]
            own = np.broadcast_to(entry.table, (len(entry.variables), labels))
            np.add.at(total[:, :labels], entry.variables[:, 0], own)
    if not len(graph):
        return np.zeros(0, dtype=np.int64)
    return np.asarray(total.argmax(axis=1), dtype=np.int64)


def alpha_expansion(graph: FactorGraph, *, initial: Any = None, max_iter: int = 100) -> Best:
    """Rounds over all labels α; in each, the best move that sets any variables to α.

    The moves are exact if E(α, α) + E(a, b) ≤ E(a, α) + E(α, b); pairs that are not so are
    truncated, and a move is taken only if it gains. All variables have the same number of labels,
    and factors at most two variables.

    >>> unary = np.array([[2.0, 0.0, 0.0], [0.0, 0.5, 0.0], [2.0, 0.0, 1.0]])
    >>> found = alpha_expansion(FactorGraph.pairwise(unary, [[0, 1], [1, 2]], np.eye(3)))
    >>> found.labels.tolist(), found.score
    ([0, 0, 0], 6.0)
    """
    _check_order(graph, "alpha_expansion")
    if not graph.uniform:
        raise InputError("alpha_expansion needs variables that all have the same number of labels")
    most, _ = checked_limits(max_iter, 0.0)
    labels = _alone(graph) if initial is None else graph.checked(initial)
    score, rounds, converged = graph.score(labels), 0, False
    unary = np.zeros((len(graph), graph.most_labels))
    for entry in graph.entries:
        if entry.variables.shape[1] == 1:
            own = np.broadcast_to(-entry.table, (len(entry.variables), graph.most_labels))
            np.add.at(unary, entry.variables[:, 0], own)
    while not converged and rounds < most:
        converged = True
        for alpha in range(graph.most_labels):
            moved = _expanded(graph, unary, labels, alpha)
            gained = graph.score(moved)
            if gained > score + 1e-12 * abs(score):
                labels, score, converged = moved, gained, False
        rounds += 1
    optimal = False
    return Best(labels, score, optimal, converged, rounds, 0.0)


def _expanded(graph: FactorGraph, unary: Doubles, labels: Integers, alpha: int) -> Integers:
    """The labels after the best expansion move: 0 keeps the label, 1 takes α."""
    own = np.stack([unary[np.arange(len(graph)), labels], unary[:, alpha]], axis=1)
    edges, pairs = [np.zeros((0, 2), dtype=np.int64)], [np.zeros((0, 2, 2))]
    for variables, table in _pairs_of(graph):
        which = np.arange(len(variables)) if len(table) > 1 else np.zeros(len(variables), dtype=int)
        a, b = labels[variables[:, 0]], labels[variables[:, 1]]
        corners = [table[which, x, y] for x in (a, alpha) for y in (b, alpha)]
        edges.append(variables)
        pairs.append(-np.stack(corners, axis=1).reshape(-1, 2, 2))
    energy = forced(Energy(own, np.concatenate(edges), np.concatenate(pairs)))
    missing = np.minimum(_gap(energy.pairs), 0.0)
    energy.pairs[:, 0, 0] += np.where(np.isfinite(missing), missing, 0.0)
    return np.where(_cut(energy) == 1, alpha, labels)
