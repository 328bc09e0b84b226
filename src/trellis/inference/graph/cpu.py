"""Functions that select an algorithm by its name: `marginals`, `log_partition` and `best`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trellis.errors import InputError
from trellis.inference.graph.belief import belief_propagation, max_product, tree_reweighted
from trellis.inference.graph.cuts import alpha_expansion, icm, min_cut
from trellis.inference.graph.exact import exact_best, exact_marginals
from trellis.inference.graph.factors import FactorGraph
from trellis.inference.graph.meanfield import mean_field
from trellis.inference.graph.results import Best, Marginals

__all__ = ["best", "log_partition", "marginals", "score"]

# A new algorithm is added here and exported in __init__.py.
_MARGINALS: dict[str, Callable[..., Marginals]] = {
    "exact": exact_marginals,
    "bp": belief_propagation,
    "trw": tree_reweighted,
    "mean-field": mean_field,
}
_BEST: dict[str, Callable[..., Best]] = {
    "exact": exact_best,
    "max-product": max_product,
    "cut": min_cut,
    "expansion": alpha_expansion,
    "icm": icm,
}


def marginals(graph: FactorGraph, method: str = "exact", **options: Any) -> Marginals:
    """p(y_v), p(y_f) and log Z by "exact", "bp", "trw" or "mean-field".

    ``options`` are passed to the function of the algorithm.

    >>> import numpy as np
    >>> ring = FactorGraph([2] * 3, [([[0, 1], [1, 2], [2, 0]], [[1.0, 0.0], [0.0, 1.0]])])
    >>> for method in ("mean-field", "exact", "bp", "trw"):
    ...     p = marginals(ring, method)
    ...     print(f"{p.log_partition:.3f} {p.kind}")
    3.579 lower bound
    4.034 exact
    3.940 Bethe
    4.108 upper bound
    """
    result: Marginals = _select(_MARGINALS, method, graph)(graph, **options)
    return result


def log_partition(graph: FactorGraph, method: str = "exact", **options: Any) -> float:
    """Log Z = log Σ_y exp(score(y)), or the bound or estimate of the method.

    >>> round(log_partition(FactorGraph([2, 3], [])), 4)  # six labellings
    1.7918
    """
    return marginals(graph, method, **options).log_partition


def best(graph: FactorGraph, method: str = "exact", **options: Any) -> Best:
    """argmax_y score(y) by "exact", "max-product", "cut", "expansion" or "icm".

    >>> best(FactorGraph([2, 2], [((0, 1), [[0.0, 2.0], [1.0, 0.0]])]), "max-product").labels
    array([0, 1])
    """
    result: Best = _select(_BEST, method, graph)(graph, **options)
    return result


def score(graph: FactorGraph, labels: Any) -> float:
    """Σ_f θ_f(y_f) of one labelling.

    >>> score(FactorGraph([2], [((0,), [0.0, 1.5])]), [1])
    1.5
    """
    if not isinstance(graph, FactorGraph):
        raise InputError(f"graph must be a FactorGraph, not {type(graph).__name__}")
    return graph.score(labels)


def _select(methods: dict[str, Any], method: str, graph: Any) -> Any:
    """Return the function of a method, after validation of both arguments."""
    if method not in methods:
        raise InputError(f"method must be one of {', '.join(methods)}, not {method!r}")
    if not isinstance(graph, FactorGraph):
        raise InputError(f"graph must be a FactorGraph, not {type(graph).__name__}")
    return methods[method]
