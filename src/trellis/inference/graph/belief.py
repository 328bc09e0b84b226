"""Loopy belief propagation, and the upper bound of tree-reweighted belief propagation.

    m_fv(y_v) = log Σ exp(θ_f(y_f) + Σ_u (b_u(y_u) - m_fu(y_u))),   b_v = Σ_f m_fv

The sum is over the labels of the other variables u of f. At a fixed point the beliefs
p(y_v) ∝ exp b_v agree with each other. On trees they are exact.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis.checks import as_integer
from trellis.errors import InfeasibleError, InputError
from trellis.inference.graph.exact import MOST_ENTRIES, exact_marginals
from trellis.inference.graph.factors import FactorGraph
from trellis.inference.graph.results import Best, Doubles, Integers, Marginals
from trellis.native import resolve_jobs

__all__ = ["belief_propagation", "max_product", "tree_reweighted"]

_SCHEDULES = ("parallel", "residual")
_FEWEST_TREES = 4
Choice: TypeAlias = NDArray[np.bool_]


class Beliefs(NamedTuple):
    """What a run of belief propagation leaves."""

    variables: Doubles
    factors: Doubles
    log_v: Doubles
    log_f: Doubles
    messages: Doubles
    iterations: int
    residual: float
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
    """Messages until the largest change is within ``tolerance``."""
    if schedule not in _SCHEDULES:
        raise InputError(f"schedule must be one of {', '.join(_SCHEDULES)}, not {schedule!r}")
    most, tolerance = checked_limits(max_iter, tolerance, damping)
    labels, entries = graph.sizes
    messages = sum(
        len(e.variables) * int(np.sum(e.table.shape[1:], dtype=np.int64)) for e in graph.entries
    )
    out = Beliefs(
        np.empty(labels),
        np.empty(entries),
        np.empty(len(graph)),
        np.empty(graph.factors),
        np.empty(messages),
        0,
        np.inf,
        False,
    )
    weights = np.ones(graph.factors) if weights is None else weights
    iterations, residual, converged, possible = graph.core.propagate(
        graph.tables,
        weights,
        maximise,
        schedule == "residual",
        float(damping),
        tolerance,
        most,
        resolve_jobs(n_jobs),
        *out[:5],
    )
    if not possible:
        raise InfeasibleError("no labelling is allowed: a variable has no label left")
    return out._replace(iterations=iterations, residual=residual, converged=converged)


def checked_limits(max_iter: int, tolerance: float, damping: float = 0.0) -> tuple[int, float]:
    """The limits of an iteration, as the core takes them."""
    most = as_integer(max_iter, "max_iter")
    if not 0 <= most < 2**40:
        raise InputError(f"max_iter must be at least 0, not {max_iter}")
    if not (isinstance(damping, int | float | np.number) and 0 <= damping < 1):
        raise InputError(f"damping must be at least 0 and below 1, not {damping!r}")
    if not (isinstance(tolerance, int | float | np.number) and tolerance >= 0):
        raise InputError(f"tolerance must be at least 0, not {tolerance!r}")
    return most, float(tolerance)


def belief_propagation(
    graph: FactorGraph,
    *,
    damping: float = 0.0,
    schedule: str = "parallel",
    max_iter: int = 200,
    tolerance: float = 1e-8,
    n_jobs: int | None = None,
) -> Marginals:
    """Sum-product: beliefs and the Bethe estimate of log Z. Exact on trees, once converged.

    ``schedule`` is "parallel" (all messages from all of the last iteration) or "residual" (the
    factor whose messages would change most comes first; an iteration is one update a factor).
    ``damping`` is the share of the old message that is kept, which helps against oscillation.

    >>> agree = np.log([[0.8, 0.2], [0.2, 0.8]])
    >>> p = belief_propagation(FactorGraph([2, 2], [((0,), np.log([0.9, 0.1])), ((0, 1), agree)]))
    >>> p.variables.round(2).tolist(), p.kind, p.converged
    ([[0.9, 0.1], [0.74, 0.26]], 'Bethe', True)
    """
    found = propagate(
        graph,
        maximise=False,
        damping=damping,
        schedule=schedule,
        max_iter=max_iter,
        tolerance=tolerance,
        n_jobs=n_jobs,
    )
    return _marginals(graph, found, float(bethe_terms(graph, found).sum()), "Bethe")


def bethe_terms(graph: FactorGraph, found: Beliefs, weights: Doubles | None = None) -> Doubles:
    """Terms of the Bethe log Z, a factor's at its first variable: their sum is the estimate.

    log Z = Σ_v log Z_v + Σ_f ρ_f (log Z_f - Σ_v∈f log Z_v), whose derivative by the messages is 0
    at a fixed point: so its derivative by the scores is the beliefs. Without ``weights`` all ρ_f
    are 1; with those of trees it is the upper bound, at a fixed point.
    """
    terms, begin = found.log_v.copy(), 0
    for entry in graph.entries:
        own = slice(begin, begin + len(entry.variables))
        begin = own.stop
        less = found.log_f[own] - found.log_v[entry.variables].sum(axis=1)
        np.add.at(terms, entry.variables[:, 0], less if weights is None else weights[own] * less)
    return terms


def _marginals(graph: FactorGraph, found: Beliefs, log_z: float, kind: str) -> Marginals:
    return Marginals(
        graph.rows(found.variables),
        graph.split(found.factors),
        log_z,
        kind,
        found.converged,
        found.iterations,
        found.residual,
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
    """The labels with the best max-marginals: the best labelling on trees that have one best.

    >>> chain = FactorGraph.pairwise([[0.0, 1.0], [0.9, 0.0]], [[0, 1]], [[0.0, 0.0], [0.0, 1.0]])
    >>> found = max_product(chain)
    >>> found.labels.tolist(), found.score
    ([1, 1], 2.0)
    """
    found = propagate(
        graph,
        maximise=True,
        damping=damping,
        schedule=schedule,
        max_iter=max_iter,
        tolerance=tolerance,
        n_jobs=n_jobs,
    )
    labels = graph.rows(found.variables, -1.0).argmax(axis=1) if len(graph) else _none()
    score = graph.score(labels)
    return Best(labels, score, False, found.converged, found.iterations, found.residual)


def _none() -> Integers:
    return np.zeros(0, dtype=np.int64)


def tree_reweighted(
    graph: FactorGraph,
    *,
    damping: float = 0.5,
    max_iter: int = 500,
    tolerance: float = 1e-6,
    n_jobs: int | None = None,
) -> Marginals:
    """An upper bound of log Z from spanning trees, and the beliefs that make it tight.

    log Z(θ) ≤ Σ_T ρ_T log Z(θ_T) for any scores θ_T on trees with Σ_T ρ_T θ_T = θ. The messages are
    such a θ_T, converged or not, so the bound always holds. Factors have at most two variables.

    >>> ring = FactorGraph([2] * 3, [([[0, 1], [1, 2], [2, 0]], [[1.0, 0.0], [0.0, 1.0]])])
    >>> bound = tree_reweighted(ring)
    >>> bound.kind, bound.log_partition > exact_marginals(ring).log_partition
    ('upper bound', True)
    """
    if graph.order > 2:
        raise InputError(
            f"a factor has {graph.order} variables: tree_reweighted is for two at most"
        )
    trees = spanning_forests(graph)
    weights = trees.mean(axis=0)
    found = propagate(
        graph,
        maximise=False,
        weights=weights,
        damping=damping,
        max_iter=max_iter,
        tolerance=tolerance,
        n_jobs=n_jobs,
    )
    bound = _tree_bound(graph, found, trees, weights, n_jobs)
    return _marginals(graph, found, bound, "upper bound")


def spanning_forests(graph: FactorGraph) -> Choice:
    """``(trees, factors)``: each has all factors of one variable, and every pair is in one."""
    ends = np.concatenate(
        [
            np.zeros((0, 2), dtype=np.int64),
            *(e.variables[:, [0, -1]] for e in graph.entries),
        ]
    )
    single = ends[:, 0] == ends[:, 1]
    used = np.zeros(len(ends), dtype=np.int64)
    forests: list[Choice] = []
    while len(forests) < _FEWEST_TREES or not (used[~single] > 0).all():
        forest = single.copy()
        parent = list(range(len(graph)))
        for f in np.lexsort((np.arange(len(ends)), used)).tolist():  # those used least come first
            if not single[f]:
                a, b = _root(parent, int(ends[f, 0])), _root(parent, int(ends[f, 1]))
                if a != b:
                    parent[a] = b
                    forest[f] = True
        used += forest
        forests.append(forest)
    return np.array(forests)


def _root(parent: list[int], v: int) -> int:
    while parent[v] != v:
        parent[v] = parent[parent[v]]
        v = parent[v]
    return v


def _tree_bound(
    graph: FactorGraph, found: Beliefs, trees: Choice, weights: Doubles, n_jobs: int | None
) -> float:
    """Σ_T ρ_T log Z of b_v on the variables and θ_f / ρ_f - m_f on the factors of the tree."""
    log_b = found.log_v[:, None] + _log(graph.rows(found.variables))
    parts: list[tuple[Integers, Doubles, Choice]] = []
    at, first = 0, 0
    for entry in graph.entries:
        count, order = entry.variables.shape
        sizes = entry.table.shape[1:]
        own = found.messages[at : at + count * sum(sizes)].reshape(count, -1)
        at += own.size
        m = own if order == 1 else own[:, : sizes[0], None] + own[:, None, sizes[0] :]
        scale = 1.0 / weights[first : first + count].reshape(-1, *(1,) * order)
        with np.errstate(invalid="ignore"):
            tables = entry.table * scale - m
        # where a message is -inf, so is the belief, and nothing is lost by forbidding it twice
        tables = np.where(np.isfinite(tables), tables, -np.inf)
        parts.append((entry.variables, tables, trees[:, first : first + count]))
        first += count
    cards = graph.cardinalities
    beliefs: list[tuple[Any, Any]] = [((v,), log_b[v, : cards[v]]) for v in range(len(graph))]
    if graph.uniform and len(graph):
        beliefs = [(np.arange(len(graph))[:, None], log_b)]
    bounds = []
    for t in range(len(trees)):
        chosen = [(v[which[t]], tables[which[t]]) for v, tables, which in parts if which[t].any()]
        tree = FactorGraph(cards, [*beliefs, *chosen])
        bounds.append(exact_marginals(tree, max_entries=MOST_ENTRIES, n_jobs=n_jobs).log_partition)
    return float(np.mean(bounds))


def _log(p: Doubles) -> Doubles:
    with np.errstate(divide="ignore"):
        return np.log(p)
