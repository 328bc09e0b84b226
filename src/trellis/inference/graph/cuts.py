"""Best labellings by minimum cuts, and by moves that never lower the score.

For two labels and an energy E = -score whose pairs are submodular,

    E(0, 0) + E(1, 1) ≤ E(0, 1) + E(1, 0),

the capacity of a minimum cut is the lowest energy: variables on the source's side have label 0.
With more labels, α-expansion solves such a problem for each label α: every variable keeps its
label or takes α.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from trellis.errors import InfeasibleError, InputError
from trellis.inference.graph.belief import validate_limits
from trellis.inference.graph.factors import FactorGraph
from trellis.inference.graph.flow import minimum_cut
from trellis.inference.graph.results import Best, Doubles, Integers

__all__ = ["alpha_expansion", "icm", "min_cut"]

# A violation of submodularity up to this fraction of the pair's largest score counts as rounding.
_ROUNDING = 1e-9


class Energy(NamedTuple):
    """E(x) = Σ_v unary[v, x_v] + Σ_e pairs[e, x_a, x_b] for variables with two labels."""

    unary: Doubles
    """``(variables, 2)``"""
    edges: Integers
    """``(edges, 2)``"""
    pairs: Doubles
    """``(edges, 2, 2)``"""


def min_cut(graph: FactorGraph) -> Best:
    """Compute argmax_y score(y) if all variables have two labels and all pairs are submodular.

    >>> unary = np.array([[0.0, 2.0], [0.5, 0.0], [1.0, 0.0]])
    >>> best = min_cut(FactorGraph.pairwise(unary, [[0, 1], [1, 2]], [[1.0, 0.0], [0.0, 1.0]]))
    >>> best.labels.tolist(), best.energy, best.optimal
    ([1, 0, 0], -4.5, True)
    """
    _check_order(graph, "min_cut")
    if (graph.cardinalities != 2).any():
        v = int(np.argmax(graph.cardinalities != 2))
        raise InputError(f"variable {v} has {graph.cardinalities[v]} labels: must be 2 for min_cut")
    energy = move_forbidden(_graph_energy(graph))
    gap = _submodular_gap(energy.pairs)
    invalid = np.flatnonzero(gap < -_rounding_slack(energy.pairs))
    if invalid.size:
        a, b = energy.edges[invalid[0]]
        raise InputError(
            f"the pair ({a}, {b}) is not submodular: equal labels score {-gap[invalid[0]]:.6g} "
            "less than different labels; use belief propagation or icm"
        )
    labels = _lowest_labels(energy)
    score = graph.score(labels)
    if score == -np.inf:
        raise InfeasibleError(
            "no allowed labelling was found: the factors may forbid all labellings"
        )
    return Best(labels, score, True, True, 1, 0.0)


def _check_order(graph: FactorGraph, name: str) -> None:
    if graph.order > 2:
        raise InputError(f"a factor has {graph.order} variables: {name} supports at most two")


def _pair_factors(graph: FactorGraph) -> list[tuple[Integers, Doubles]]:
    return [
        (entry.variables, entry.table) for entry in graph.entries if entry.variables.shape[1] == 2
    ]


def _add_unary(graph: FactorGraph, totals: Doubles) -> None:
    """Add the tables of all factors of one variable to ``totals`` (variables, labels)."""
    for entry in graph.entries:
        if entry.variables.shape[1] == 1:
            n_labels = entry.table.shape[1]
            tables = np.broadcast_to(entry.table, (len(entry.variables), n_labels))
            np.add.at(totals[:, :n_labels], entry.variables[:, 0], tables)


def _graph_energy(graph: FactorGraph) -> Energy:
    scores = np.zeros((len(graph), 2))
    _add_unary(graph, scores)
    factors = _pair_factors(graph)
    edges = np.concatenate(
        [np.zeros((0, 2), dtype=np.int64), *(variables for variables, _ in factors)]
    )
    pairs = [np.broadcast_to(-table, (len(variables), 2, 2)) for variables, table in factors]
    return Energy(-scores, edges, np.concatenate([np.zeros((0, 2, 2)), *pairs]))


def move_forbidden(energy: Energy) -> Energy:
    """Return an equal energy, in which labels that a pair forbids are forbidden by the unary term.

    If a pair forbids a label of a variable for both labels of its neighbour, the unary energy of
    that label becomes ∞. In the table of the pair, the row of that label becomes a copy of the
    other row. So the gap of a pair is never ∞ - ∞.
    """
    unary, pairs = energy.unary.copy(), energy.pairs.copy()
    for axis in (0, 1):
        rows = pairs if axis == 0 else pairs.transpose(0, 2, 1)
        for label in (0, 1):
            is_forbidden = np.isinf(rows[:, label]).all(axis=1)
            unary[energy.edges[is_forbidden, axis], label] = np.inf
            rows[is_forbidden, label] = rows[is_forbidden, 1 - label]
    # If a pair forbids all labels, its unary energies are all ∞ now, and the pair is not needed.
    pairs[np.isinf(pairs).all(axis=(1, 2))] = 0.0
    return Energy(unary, energy.edges, pairs)


def _submodular_gap(pairs: Doubles) -> Doubles:
    """E(0,1) + E(1,0) - E(0,0) - E(1,1), shape (edges,); at least 0 for submodular pairs."""
    with np.errstate(invalid="ignore"):
        gap = pairs[:, 0, 1] + pairs[:, 1, 0] - pairs[:, 0, 0] - pairs[:, 1, 1]
    return np.where(np.isnan(gap), 0.0, gap)


def _rounding_slack(pairs: Doubles) -> Doubles:
    """Return the violation of submodularity that rounding can cause, shape (edges,)."""
    largest_scores: Doubles = np.abs(np.where(np.isfinite(pairs), pairs, 0.0)).max(
        axis=(1, 2), initial=0.0
    )
    return _ROUNDING * largest_scores


def _lowest_labels(energy: Energy) -> Integers:
    """Return the labels of lowest energy. E is a constant plus the capacities of the cut arcs."""
    unary, pairs = _replace_infinities(energy)
    a, b = energy.edges[:, 0], energy.edges[:, 1]
    cost = unary[:, 1] - unary[:, 0]
    # E(x, y) = E00 + (E10 - E00) x + (E11 - E10) y + gap (1 - x) y
    np.add.at(cost, a, pairs[:, 1, 0] - pairs[:, 0, 0])
    np.add.at(cost, b, pairs[:, 1, 1] - pairs[:, 1, 0])
    return minimum_cut(cost, energy.edges, np.maximum(_submodular_gap(pairs), 0.0)).astype(np.int64)


def _replace_infinities(energy: Energy) -> tuple[Doubles, Doubles]:
    """Return the unary and pair energies; ∞ becomes more than the sum of all finite energies."""
    unary, pairs = energy.unary.copy(), energy.pairs.copy()
    absolute_sum = sum(float(np.abs(array[np.isfinite(array)]).sum()) for array in (unary, pairs))
    for array in (unary, pairs):
        array[np.isinf(array)] = 4.0 * absolute_sum + 1.0
    return unary, pairs


def icm(graph: FactorGraph, *, initial: Any = None, max_iter: int = 1000) -> Best:
    """Iterated conditional modes: set each variable in turn to its best label, given the others.

    The search starts from ``initial``, or from the best label of each variable by its unary
    factors. It stops at a local optimum, when no label changes.

    >>> graph = FactorGraph.pairwise(np.zeros((2, 2)), [[0, 1]], [[1.0, 0.0], [0.0, 1.5]])
    >>> icm(graph).score, icm(graph, initial=[1, 1]).score
    (1.0, 1.5)
    """
    limit, _ = validate_limits(max_iter, 0.0)
    labels = _best_unary_labels(graph) if initial is None else graph.checked(initial)
    sweeps, converged = graph.core.climb(graph.tables, labels, limit)
    return Best(labels, graph.score(labels), False, converged, sweeps, 0.0)


def _best_unary_labels(graph: FactorGraph) -> Integers:
    """Return the best label of each variable by its unary factors alone."""
    unary = np.zeros((len(graph), graph.most_labels))
    unary[np.arange(graph.most_labels) >= graph.cardinalities[:, None]] = -np.inf
    _add_unary(graph, unary)
    if not len(graph):
        return np.zeros(0, dtype=np.int64)
    return np.asarray(unary.argmax(axis=1), dtype=np.int64)


def alpha_expansion(graph: FactorGraph, *, initial: Any = None, max_iter: int = 100) -> Best:
    """Repeat for each label α: make the best move that changes any set of variables to α.

    A move is optimal if E(α, α) + E(a, b) ≤ E(a, α) + E(α, b) for all pairs. Pairs that violate
    this are truncated, and a move is made only if the score rises. All variables must have the same
    number of labels, and all factors at most two variables.

    >>> unary = np.array([[2.0, 0.0, 0.0], [0.0, 0.5, 0.0], [2.0, 0.0, 1.0]])
    >>> best = alpha_expansion(FactorGraph.pairwise(unary, [[0, 1], [1, 2]], np.eye(3)))
    >>> best.labels.tolist(), best.score
    ([0, 0, 0], 6.0)
    """
    _check_order(graph, "alpha_expansion")
    if not graph.uniform:
        raise InputError("alpha_expansion needs the same number of labels for all variables")
    limit, _ = validate_limits(max_iter, 0.0)
    labels = _best_unary_labels(graph) if initial is None else graph.checked(initial)
    score, n_rounds, converged = graph.score(labels), 0, False
    scores = np.zeros((len(graph), graph.most_labels))
    _add_unary(graph, scores)
    unary = -scores
    while not converged and n_rounds < limit:
        converged = True
        for alpha in range(graph.most_labels):
            new_labels = _expand(graph, unary, labels, alpha)
            new_score = graph.score(new_labels)
            # A smaller gain may be rounding. If it were accepted, a cycle of moves could repeat.
            if new_score > score + 1e-12 * abs(score):
                labels, score, converged = new_labels, new_score, False
        n_rounds += 1
    optimal = False
    return Best(labels, score, optimal, converged, n_rounds, 0.0)


def _expand(graph: FactorGraph, unary: Doubles, labels: Integers, alpha: int) -> Integers:
    """Return the labels after the best expansion move. In the cut, 0 keeps the label, 1 takes α."""
    binary_unary = np.stack([unary[np.arange(len(graph)), labels], unary[:, alpha]], axis=1)
    edges, pairs = [np.zeros((0, 2), dtype=np.int64)], [np.zeros((0, 2, 2))]
    for variables, table in _pair_factors(graph):
        row = np.arange(len(variables)) if len(table) > 1 else np.zeros(len(variables), dtype=int)
        a, b = labels[variables[:, 0]], labels[variables[:, 1]]
        corners = [table[row, x, y] for x in (a, alpha) for y in (b, alpha)]
        edges.append(variables)
        pairs.append(-np.stack(corners, axis=1).reshape(-1, 2, 2))
    energy = move_forbidden(Energy(binary_unary, np.concatenate(edges), np.concatenate(pairs)))
    # Pairs that are not submodular are truncated: with a lower E(0, 0) their gap is 0.
    violation = np.minimum(_submodular_gap(energy.pairs), 0.0)
    energy.pairs[:, 0, 0] += np.where(np.isfinite(violation), violation, 0.0)
    return np.where(_lowest_labels(energy) == 1, alpha, labels)
