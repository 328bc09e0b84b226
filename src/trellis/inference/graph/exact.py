"""Exact inference by variable elimination in min-fill order: the junction tree algorithm."""

from __future__ import annotations

from typing import Any

import numpy as np

from trellis.checks import as_integer
from trellis.errors import InfeasibleError, InputError
from trellis.inference.graph.factors import FactorGraph
from trellis.inference.graph.results import Best, Doubles, Integers, Marginals
from trellis.native import resolve_jobs

__all__ = ["exact_best", "exact_marginals", "exact_sample", "induced_width", "log_partition_terms"]

MAX_ENTRIES = 1 << 26  # default limit of the entries of all tables: 0.5 GiB of float64
_MAX_SAMPLED_LABELS = 2**32  # 32 GiB of labels: a larger number is a mistake of the caller


def induced_width(graph: FactorGraph, max_entries: int = MAX_ENTRIES) -> int:
    """Return the largest number of neighbours that a variable has when it is eliminated.

    It is 1 for trees and k for grids of k × n. An InputError is raised if elimination needs more
    than ``max_entries`` table entries.

    >>> ring = FactorGraph([2] * 5, [([[0, 1], [1, 2], [2, 3], [3, 4], [4, 0]], np.zeros((2, 2)))])
    >>> induced_width(ring)
    2
    """
    limit = as_integer(max_entries, "max_entries")
    if limit not in graph.plans:
        graph.plans.clear()  # the core stores only the last plan
        graph.plans[limit] = graph.core.plan(float(limit))
    is_within_limit, width, entries = graph.plans[limit]
    if not is_within_limit:
        raise InputError(
            f"the induced width of the graph is at least {width}: exact inference would need "
            f"tables of more than {entries:.3g} entries, and max_entries is {limit}; "
            "use belief propagation, a bound or sampling"
        )
    return int(width)


def exact_marginals(
    graph: FactorGraph, *, max_entries: int = MAX_ENTRIES, n_jobs: int | None = None
) -> Marginals:
    """Compute p(y_v), p(y_f) and log Z, in time exponential in the width of the graph.

    >>> agree = np.log([[0.8, 0.2], [0.2, 0.8]])
    >>> p = exact_marginals(FactorGraph([2, 2], [((0,), np.log([0.9, 0.1])), ((0, 1), agree)]))
    >>> p.variables.round(2).tolist(), p.kind
    ([[0.9, 0.1], [0.74, 0.26]], 'exact')
    """
    log_z, variables, factors = _eliminate(graph, max_entries, n_jobs)
    return Marginals(
        graph.rows(variables), graph.split(factors), float(log_z.sum()), "exact", True, 1, 0.0
    )


def log_partition_terms(
    graph: FactorGraph, *, max_entries: int = MAX_ENTRIES, n_jobs: int | None = None
) -> Doubles:
    """Return terms whose sum is log Z, shape (variables,).

    Each connected part of the graph has its log Z at one of its variables, and 0 at the others.

    >>> np.exp(log_partition_terms(FactorGraph([2, 4], []))).round(6).tolist()
    [2.0, 4.0]
    """
    threads = resolve_jobs(n_jobs)
    induced_width(graph, max_entries)
    log_z = np.empty(len(graph))
    graph.core.exact(graph.tables, log_z, None, None, threads)
    return log_z


def _eliminate(graph: FactorGraph, max_entries: int, n_jobs: int | None) -> Any:
    """Return log Z of each connected part, and the flat marginals of variables and factors."""
    threads = resolve_jobs(n_jobs)
    induced_width(graph, max_entries)
    labels, entries = graph.sizes
    log_z, variables, factors = np.empty(len(graph)), np.empty(labels), np.empty(entries)
    graph.core.exact(graph.tables, log_z, variables, factors, threads)
    check_possible(log_z)
    return log_z, variables, factors


def check_possible(log_z: Doubles) -> None:
    """Raise InfeasibleError if a connected part of the graph has no allowed labelling."""
    infeasible = np.flatnonzero(log_z == -np.inf)
    if infeasible.size:
        raise InfeasibleError(
            f"no labelling is allowed: the factors around variable {infeasible[0]} forbid them all"
        )


def exact_best(
    graph: FactorGraph, *, max_entries: int = MAX_ENTRIES, n_jobs: int | None = None
) -> Best:
    """argmax_y score(y).

    >>> graph = FactorGraph([2, 2], [((0,), [0.0, 1.0]), ((0, 1), [[2.0, 0.0], [0.0, 0.5]])])
    >>> best = exact_best(graph)
    >>> best.labels.tolist(), best.score, best.optimal
    ([0, 0], 2.0, True)
    """
    threads = resolve_jobs(n_jobs)
    induced_width(graph, max_entries)
    score, labels = np.empty(len(graph)), np.empty(len(graph), dtype=np.int64)
    graph.core.best(graph.tables, score, labels, threads)
    check_possible(score)
    return Best(labels, graph.score(labels), True, True, 1, 0.0)


def exact_sample(
    graph: FactorGraph,
    *,
    n: int = 1,
    random_state: int | np.random.Generator | None = None,
    max_entries: int = MAX_ENTRIES,
    n_jobs: int | None = None,
) -> Integers:
    """Draw n independent labellings y ~ p(y), shape (n, variables).

    >>> certain = FactorGraph([2, 2], [((0, 1), [[-np.inf, 0.0], [-np.inf, -np.inf]])])
    >>> exact_sample(certain, random_state=0)
    array([[0, 1]])
    """
    n = as_integer(n, "n")
    if n < 1 or n * max(1, len(graph)) > _MAX_SAMPLED_LABELS:
        raise InputError(
            f"n is {n}: must be at least 1, and n times {len(graph)} variables at most 2**32"
        )
    induced_width(graph, max_entries)
    uniforms = np.random.default_rng(random_state).random(n * len(graph))
    labels = np.empty(len(uniforms), dtype=np.int64)
    if not graph.core.sample(graph.tables, uniforms, labels, resolve_jobs(n_jobs)):
        raise InfeasibleError("no labelling is allowed: the factors forbid them all")
    return labels.reshape(n, len(graph))
