"""Mean field: the best distribution with independent variables.

    log Z = max_q E_q[score] + H(q)  ≥  max over q(y) = Π_v q_v(y_v)

Each q_v in turn is set to its optimum given the others, q_v(y) ∝ exp E_q[score | y_v = y]. The
lower bound holds at every step, and never falls.
"""

from __future__ import annotations

import numpy as np

from trellis.inference.graph.belief import max_product, validate_limits
from trellis.inference.graph.factors import FactorGraph
from trellis.inference.graph.results import Doubles, Integers, Marginals

__all__ = ["mean_field"]


def mean_field(graph: FactorGraph, *, max_iter: int = 500, tolerance: float = 1e-8) -> Marginals:
    """Compute a lower bound of log Z, and the q that attains it. Factor marginals are products.

    The ascent ends in a local optimum. It runs twice: from equal probabilities and from the
    labelling of max-product. The better bound is returned. (A q that allows a forbidden labelling
    has the bound -inf, so the ascent from equal probabilities may not be able to improve.)

    >>> ring = FactorGraph([2] * 3, [([[0, 1], [1, 2], [2, 0]], [[1.0, 0.0], [0.0, 1.0]])])
    >>> bound = mean_field(ring)
    >>> bound.kind, bool(bound.log_partition < np.log(2 * np.exp(3) + 6 * np.exp(1)))
    ('lower bound', True)
    """
    limit, tolerance = validate_limits(max_iter, tolerance)
    uniform_q = np.repeat(1.0 / graph.cardinalities, graph.cardinalities)
    one_hot_q = _one_hot(graph, max_product(graph).labels)
    return max(
        (_ascend(graph, q, limit, tolerance) for q in (uniform_q, one_hot_q)),
        key=lambda result: result.log_partition,
    )


def _ascend(graph: FactorGraph, q: Doubles, max_iter: int, tolerance: float) -> Marginals:
    """Run coordinate ascent from q, the probabilities of all variables, concatenated."""
    sweeps, change, expected_score = graph.core.mean_field(graph.tables, q, max_iter, tolerance)
    rows = graph.rows(q)
    lower_bound = float(expected_score - np.sum(q * np.log(np.where(q > 0, q, 1.0))))
    return Marginals(
        rows,
        _factor_marginals(graph, rows),
        lower_bound,
        "lower bound",
        change <= tolerance,
        sweeps,
        change,
    )


def _one_hot(graph: FactorGraph, labels: Integers) -> Doubles:
    """Return the q that gives one labelling the probability 1."""
    q = np.zeros(graph.sizes[0])
    q[np.cumsum(graph.cardinalities) - graph.cardinalities + labels] = 1.0
    return q


def _factor_marginals(graph: FactorGraph, rows: Doubles) -> list[Doubles]:
    """Return Π_v q_v of each factor."""
    marginals = []
    for entry in graph.entries:
        shape = entry.table.shape[1:]
        product = np.ones((len(entry.variables), *(1,) * len(shape)))
        for axis, n_labels in enumerate(shape):
            probabilities = rows[entry.variables[:, axis], :n_labels]
            broadcast_shape = [1] * len(shape)
            broadcast_shape[axis] = n_labels
            product = product * probabilities.reshape(-1, *broadcast_shape)
        marginals.append(product[0] if entry.single else product)
    return marginals
