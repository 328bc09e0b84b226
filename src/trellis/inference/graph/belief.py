"""Loopy belief propagation, and the upper bound of tree-reweighted belief propagation.

    m_fv(y_v) = log Σ exp(θ_f(y_f) + Σ_u (b_u(y_u) - m_fu(y_u))),   b_v = Σ_f m_fv

m_fv is the message of factor f to its variable v. u are the other variables of f; the first sum is
over their labels. At a fixed point the beliefs p(y_v) ∝ exp b_v and p(y_f) agree with each other.
On trees they are exact.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis.checks import as_integer, one_of
from trellis.errors import InfeasibleError, InputError
from trellis.inference.graph.exact import MAX_ENTRIES, exact_marginals
from trellis.inference.graph.factors import FactorGraph
from trellis.inference.graph.nesting import Merged
from trellis.inference.graph.results import Best, Doubles, Integers, Marginals
from trellis.native import resolve_jobs

__all__ = ["belief_propagation", "max_product", "tree_reweighted"]

_SCHEDULES = ("parallel", "residual")
# The weight of a factor is the fraction of forests that contain it. With 4 forests or more, all
# edges have similar weights.
_MIN_TREES = 4
Choice: TypeAlias = NDArray[np.bool_]


class Beliefs(NamedTuple):
    """The state of belief propagation after the last iteration."""

    variables: Doubles  # beliefs of all variables, concatenated
    factors: Doubles  # beliefs of all factors, concatenated
    log_v: Doubles  # (variables,): log Z_v, the normaliser of the belief of v
    log_f: Doubles  # (factors,): log Z_f, the normaliser of the belief of f
    messages: Doubles  # m_fv of each factor and each of its variables, concatenated
    iterations: int
    residual: float  # the largest change of a message in the last iteration
    converged: bool


def propagate(
    graph: FactorGraph,
    *,
    maximise: bool,
    weights: Doubles | None = None,
    damping: float = 0.0,
    schedule: str = "parallel",
    max_iter: int = 200,
    tolerance: float = 1e-8,
    n_jobs: int | None = None,
) -> Beliefs:
    """Update the messages until their largest change is at most ``tolerance``."""
    one_of(schedule, _SCHEDULES, "schedule")
    limit, tolerance = validate_limits(max_iter, tolerance, damping)
    n_labels, n_entries = graph.sizes
    n_messages = sum(
        len(entry.variables) * int(np.sum(entry.table.shape[1:], dtype=np.int64))
        for entry in graph.entries
    )
    beliefs = Beliefs(
        np.empty(n_labels),
        np.empty(n_entries),
        np.empty(len(graph)),
        np.empty(graph.factors),
        np.empty(n_messages),
        0,
        np.inf,
        False,
    )
    weights = np.ones(graph.factors) if weights is None else weights
    iterations, residual, converged, is_possible = graph.core.propagate(
        graph.tables,
        weights,
        maximise,
        schedule == "residual",
        float(damping),
        tolerance,
        limit,
        resolve_jobs(n_jobs),
        *beliefs[:5],
    )
    if not is_possible:
        raise InfeasibleError(
            "no labelling is allowed: the factors forbid all labels of a variable"
        )
    return beliefs._replace(iterations=iterations, residual=residual, converged=converged)


def validate_limits(max_iter: int, tolerance: float, damping: float = 0.0) -> tuple[int, float]:
    """Validate the settings of an iterative algorithm; return max_iter and tolerance."""
    limit = as_integer(max_iter, "max_iter")
    if not 0 <= limit < 2**40:  # no run is so long; the limit protects the core's counters
        raise InputError(f"max_iter must be from 0 to 2**40 - 1, not {max_iter}")
    if not (isinstance(damping, int | float | np.number) and 0 <= damping < 1):
        raise InputError(f"damping must be at least 0 and below 1, not {damping!r}")
    if not (isinstance(tolerance, int | float | np.number) and tolerance >= 0):
        raise InputError(f"tolerance must be at least 0, not {tolerance!r}")
    return limit, float(tolerance)


def belief_propagation(
    graph: FactorGraph,
    *,
    damping: float = 0.0,
    schedule: str = "parallel",
    max_iter: int = 200,
    tolerance: float = 1e-8,
    n_jobs: int | None = None,
) -> Marginals:
    """Compute beliefs and the Bethe estimate of log Z by sum-product. Both are exact on trees.

    ``schedule`` is "parallel" (each iteration computes all messages from those of the previous
    iteration) or "residual" (the factor whose messages would change most is updated next; an
    iteration is one update per factor on average). ``damping`` is the weight of the old message in
    the new one; it reduces oscillation.

    >>> agree = np.log([[0.8, 0.2], [0.2, 0.8]])
    >>> p = belief_propagation(FactorGraph([2, 2], [((0,), np.log([0.9, 0.1])), ((0, 1), agree)]))
    >>> p.variables.round(2).tolist(), p.kind, p.converged
    ([[0.9, 0.1], [0.74, 0.26]], 'Bethe', True)
    """
    beliefs = propagate(
        graph,
        maximise=False,
        damping=damping,
        schedule=schedule,
        max_iter=max_iter,
        tolerance=tolerance,
        n_jobs=n_jobs,
    )
    return _marginals(graph, beliefs, float(bethe_terms(graph, beliefs).sum()), "Bethe")


def bethe_terms(graph: FactorGraph, beliefs: Beliefs, weights: Doubles | None = None) -> Doubles:
    """Return terms whose sum is the Bethe estimate of log Z, shape (variables,).

    log Z = Σ_v log Z_v + Σ_f ρ_f (log Z_f - Σ_v∈f log Z_v). Its derivative by the messages is 0 at
    a fixed point, so its derivative by the scores is the beliefs. The term of a factor is added at
    its first variable. ``weights`` are ρ_f; by default all are 1. With the weights of spanning
    trees, the sum at a fixed point is the tree-reweighted upper bound.
    """
    terms, begin = beliefs.log_v.copy(), 0
    for entry in graph.entries:
        factors = slice(begin, begin + len(entry.variables))
        begin = factors.stop
        difference = beliefs.log_f[factors] - beliefs.log_v[entry.variables].sum(axis=1)
        weighted_difference = difference if weights is None else weights[factors] * difference
        np.add.at(terms, entry.variables[:, 0], weighted_difference)
    return terms


def _marginals(graph: FactorGraph, beliefs: Beliefs, log_z: float, kind: str) -> Marginals:
    return Marginals(
        graph.rows(beliefs.variables),
        graph.split(beliefs.factors),
        log_z,
        kind,
        beliefs.converged,
        beliefs.iterations,
        beliefs.residual,
    )


def max_product(
    graph: FactorGraph,
    *,
    damping: float = 0.0,
    schedule: str = "parallel",
    max_iter: int = 200,
    tolerance: float = 1e-8,
    n_jobs: int | None = None,
) -> Best:
    """Return the labels with the best max-marginals: on a tree, the best labelling if it is unique.

    >>> chain = FactorGraph.pairwise([[0.0, 1.0], [0.9, 0.0]], [[0, 1]], [[0.0, 0.0], [0.0, 1.0]])
    >>> best = max_product(chain)
    >>> best.labels.tolist(), best.score
    ([1, 1], 2.0)
    """
    beliefs = propagate(
        graph,
        maximise=True,
        damping=damping,
        schedule=schedule,
        max_iter=max_iter,
        tolerance=tolerance,
        n_jobs=n_jobs,
    )
    no_labels: Integers = np.zeros(0, dtype=np.int64)
    labels = graph.rows(beliefs.variables, -1.0).argmax(axis=1) if len(graph) else no_labels
    score = graph.score(labels)
    return Best(labels, score, False, beliefs.converged, beliefs.iterations, beliefs.residual)


def tree_reweighted(
    graph: FactorGraph,
    *,
    damping: float = 0.5,
    max_iter: int = 500,
    tolerance: float = 1e-6,
    n_jobs: int | None = None,
) -> Marginals:
    """Compute an upper bound of log Z from spanning trees, and the beliefs at its minimum.

    log Z(θ) ≤ Σ_T ρ_T log Z(θ_T) for any scores θ_T on trees with Σ_T ρ_T θ_T = θ. Any messages
    define such θ_T, so the bound also holds before convergence. A tree is a set of factors without
    a loop; two factors that share two variables form a loop. Each factor whose variables are all in
    a larger one is first added to it. The bound is exact if the remaining factors are a tree.

    >>> ring = FactorGraph([2] * 3, [([[0, 1], [1, 2], [2, 0]], [[1.0, 0.0], [0.0, 1.0]])])
    >>> bound = tree_reweighted(ring)
    >>> bound.kind, bound.log_partition > exact_marginals(ring).log_partition
    ('upper bound', True)
    """
    merged = Merged(graph)
    merged_graph = merged.rescored(graph)
    trees = spanning_forests(merged_graph)
    weights = trees.mean(axis=0)
    beliefs = propagate(
        merged_graph,
        maximise=False,
        weights=weights,
        damping=damping,
        max_iter=max_iter,
        tolerance=tolerance,
        n_jobs=n_jobs,
    )
    upper_bound = _tree_bound(merged_graph, beliefs, trees, n_jobs)
    unmerged = beliefs._replace(factors=merged.unmerged(beliefs.factors))
    return _marginals(graph, unmerged, upper_bound, "upper bound")


def spanning_forests(graph: FactorGraph) -> Choice:
    """Return for each spanning forest which factors it contains, bool (forests, factors).

    Every forest contains all factors of one variable, and every other factor is in at least one
    forest. A factor of n variables joins n trees to one.
    """
    scopes: list[list[int]] = [row for e in graph.entries for row in e.variables.tolist()]
    has_one_variable = np.array([len(scope) == 1 for scope in scopes], dtype=np.bool_)
    use_counts = np.zeros(len(scopes), dtype=np.int64)
    forests: list[Choice] = []
    while len(forests) < _MIN_TREES or not (use_counts[~has_one_variable] > 0).all():
        forest = has_one_variable.copy()
        parent = list(range(len(graph)))
        # Kruskal's algorithm. Factors that few forests contain are first in the order.
        for factor in np.lexsort((np.arange(len(scopes)), use_counts)).tolist():
            if has_one_variable[factor]:
                continue
            roots = {_find_root(parent, v) for v in scopes[factor]}
            if len(roots) == len(scopes[factor]):  # no two variables are in the same tree
                new_root = roots.pop()
                for root in roots:
                    parent[root] = new_root
                forest[factor] = True
        use_counts += forest
        forests.append(forest)
    return np.array(forests)


def _find_root(parent: list[int], v: int) -> int:
    """Return the root of v in a union-find forest. Shorten the path to it for later calls."""
    while parent[v] != v:
        parent[v] = parent[parent[v]]
        v = parent[v]
    return v


def _tree_bound(graph: FactorGraph, beliefs: Beliefs, trees: Choice, n_jobs: int | None) -> float:
    """Σ_T ρ_T log Z(θ_T). θ_T is b_v for variables, and θ_f / ρ_f - Σ_v m_fv for factors of T."""
    log_b = beliefs.log_v[:, None] + _log(graph.rows(beliefs.variables))
    weights = trees.mean(axis=0)
    entries: list[tuple[Integers, Doubles, Choice]] = []  # variables, tables, trees
    offset, first = 0, 0
    for entry in graph.entries:
        count, order = entry.variables.shape
        sizes = entry.table.shape[1:]
        flat_messages = beliefs.messages[offset : offset + count * sum(sizes)].reshape(count, -1)
        offset += flat_messages.size
        message_sum = _add_messages(flat_messages, sizes)
        scale = 1.0 / weights[first : first + count].reshape(-1, *(1,) * order)
        with np.errstate(invalid="ignore"):
            tables = entry.table * scale - message_sum
        # -inf - (-inf) is NaN. If a message is -inf, the belief of that label is -inf too, so the
        # label stays forbidden. To forbid it in the factor as well changes nothing.
        tables = np.where(np.isfinite(tables), tables, -np.inf)
        entries.append((entry.variables, tables, trees[:, first : first + count]))
        first += count
    cards = graph.cardinalities
    unary: list[tuple[Any, Any]] = [
        ((variables,), log_b[variables, : cards[variables]]) for variables in range(len(graph))
    ]
    if graph.uniform and len(graph):
        unary = [(np.arange(len(graph))[:, None], log_b)]
    log_partitions = []
    for tree_index in range(len(trees)):
        pairs = [
            (variables[in_tree[tree_index]], tables[in_tree[tree_index]])
            for variables, tables, in_tree in entries
            if in_tree[tree_index].any()
        ]
        tree = FactorGraph(cards, [*unary, *pairs])
        log_partitions.append(
            exact_marginals(tree, max_entries=MAX_ENTRIES, n_jobs=n_jobs).log_partition
        )
    return float(np.mean(log_partitions))


def _add_messages(flat_messages: Doubles, sizes: tuple[int, ...]) -> Doubles:
    """Return Σ_v m_fv(y_v) for all labels of each factor, shape (factors, *sizes)."""
    total = np.zeros((len(flat_messages), *sizes))
    splits = np.split(flat_messages, np.cumsum(sizes)[:-1], axis=1)
    for axis, message in enumerate(splits):
        shape = [1] * len(sizes)
        shape[axis] = sizes[axis]
        total = total + message.reshape(-1, *shape)
    return total


def _log(p: Doubles) -> Doubles:
    with np.errstate(divide="ignore"):
        return np.log(p)
