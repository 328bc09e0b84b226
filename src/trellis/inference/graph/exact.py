"""Exact inference by elimination in an order of min-fill: the junction tree algorithm."""

from typing import Any

import numpy as np

from trellis.checks import as_integer
from trellis.errors import InfeasibleError, InputError
from trellis.inference.graph.factors import FactorGraph
from trellis.inference.graph.results import Best, Doubles, Integers, Marginals
from trellis.native import resolve_jobs

__all__ = ["exact_best", "exact_marginals", "exact_sample", "induced_width", "log_partition_terms"]

MOST_ENTRIES = 1 << 26  # of all tables together: half a gibibyte
_MOST_NUMBERS = 2**32


def induced_width(graph: FactorGraph, max_entries: int = MOST_ENTRIES) -> int:
    """The most neighbours that a variable has when it is eliminated: 1 in trees, k in k×n grids.

    >>> ring = FactorGraph([2] * 5, [([[0, 1], [1, 2], [2, 3], [3, 4], [4, 0]], np.zeros((2, 2)))])
    >>> induced_width(ring)
    2
    """
    most = as_integer(max_entries, "max_entries")
    if most not in graph.plans:
        graph.plans.clear()  # the core keeps the last one alone
        graph.plans[most] = graph.core.plan(float(most))
    fits, width, entries = graph.plans[most]
    if not fits:
        raise InputError(
            f"the induced width of the graph is at least {width}: exact inference would need "
            f"tables of more than {entries:.3g} entries, and max_entries is {most}; "
            "use belief propagation, a bound or sampling"
        )
    return int(width)


def exact_marginals(
    graph: FactorGraph, *, max_entries: int = MOST_ENTRIES, n_jobs: int | None = None
) -> Marginals:
    """p(y_v), p(y_f) and log Z, in time linear in the variables and exponential in the width.

    >>> agree = np.log([[0.8, 0.2], [0.2, 0.8]])
    >>> p = exact_marginals(FactorGraph([2, 2], [((0,), np.log([0.9, 0.1])), ((0, 1), agree)]))
    >>> p.variables.round(2).tolist(), p.kind
    ([[0.9, 0.1], [0.74, 0.26]], 'exact')
    """
    log_z, variables, factors = _run(graph, max_entries, n_jobs)
    return Marginals(
        graph.rows(variables), graph.split(factors), float(log_z.sum()), "exact", True, 1, 0.0
    )


def log_partition_terms(
    graph: FactorGraph, *, max_entries: int = MOST_ENTRIES, n_jobs: int | None = None
) -> Doubles:
    """Log Z of each connected part at one of its variables, 0 at the others: their sum is log Z.

    >>> np.exp(log_partition_terms(FactorGraph([2, 4], []))).round(6).tolist()
    [2.0, 4.0]
    """
    threads = resolve_jobs(n_jobs)
    induced_width(graph, max_entries)
    log_z = np.empty(len(graph))
    graph.core.exact(graph.tables, log_z, None, None, threads)
    return log_z


def _run(graph: FactorGraph, max_entries: int, n_jobs: int | None) -> Any:
    threads = resolve_jobs(n_jobs)
    induced_width(graph, max_entries)
    labels, entries = graph.sizes
    log_z, variables, factors = np.empty(len(graph)), np.empty(labels), np.empty(entries)
    graph.core.exact(graph.tables, log_z, variables, factors, threads)
    check_possible(log_z)
    return log_z, variables, factors


def check_possible(log_z: Doubles) -> None:
    """Raise if a connected part has no labelling at all."""
    bad = np.flatnonzero(log_z == -np.inf)
    if bad.size:
        raise InfeasibleError(
            f"no labelling is allowed: the factors around variable {bad[0]} forbid them all"
        )


def exact_best(
    graph: FactorGraph, *, max_entries: int = MOST_ENTRIES, n_jobs: int | None = None
) -> Best:
    """argmax_y score(y).

    >>> found = exact_best(FactorGraph([2, 2], [((0,), [0.0, 1.0]), ((0, 1), [[2.0, 0.0], [0, 0.5]])]))
    >>> found.labels.tolist(), found.score, found.optimal
    ([0, 0], 2.0, True)
    """  # noqa: E501
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
    max_entries: int = MOST_ENTRIES,
    n_jobs: int | None = None,
) -> Integers:
    """N independent labellings y ~ p(y): ``(n, variables)``.

    >>> certain = FactorGraph([2, 2], [((0, 1), [[-np.inf, 0.0], [-np.inf, -np.inf]])])
    >>> exact_sample(certain, random_state=0)
    array([[0, 1]])
    """
    n = as_integer(n, "n")
    if n < 1 or n * max(1, len(graph)) > _MOST_NUMBERS:
        raise InputError(f"n is {n}: must be at least 1, and so many labellings must fit in memory")
    induced_width(graph, max_entries)
    uniforms = np.random.default_rng(random_state).random(n * len(graph))
    labels = np.empty(len(uniforms), dtype=np.int64)
    if not graph.core.sample(graph.tables, uniforms, labels, resolve_jobs(n_jobs)):
        raise InfeasibleError("no labelling is allowed: the factors forbid them all")
    return labels.reshape(n, len(graph))
