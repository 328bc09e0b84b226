"""Mean field: the best of the distributions under which all variables are independent.

    log Z = max_q E_q[score] + H(q)  ≥  max over q(y) = Π_v q_v(y_v)

Each q_v in turn is set to the best given the others, q_v(y) ∝ exp E_q[score | y_v = y]. The bound
rises with every step, and holds at every one.
"""

import numpy as np

from trellis.inference.graph.belief import checked_limits, max_product
from trellis.inference.graph.factors import FactorGraph
from trellis.inference.graph.results import Doubles, Integers, Marginals

__all__ = ["mean_field"]


def mean_field(graph: FactorGraph, *, max_iter: int = 500, tolerance: float = 1e-8) -> Marginals:
    """A lower bound of log Z, and the q that reaches it. Factor marginals are products of q_v.

    The ascent ends in a local optimum. It begins twice, with all labels equal and with the
    labelling that max-product finds, and the better bound counts. (A q that allows a forbidden
    labelling has the bound -inf, and with all labels equal the ascent may have no way to go.)

    >>> ring = FactorGraph([2] * 3, [([[0, 1], [1, 2], [2, 0]], [[1.0, 0.0], [0.0, 1.0]])])
    >>> bound = mean_field(ring)
    >>> bound.kind, bool(bound.log_partition < np.log(2 * np.exp(3) + 6 * np.exp(1)))
    ('lower bound', True)
    """
    most, tolerance = checked_limits(max_iter, tolerance)
    equal = np.repeat(1.0 / graph.cardinalities, graph.cardinalities)
    likely = _at(graph, max_product(graph).labels)
    return max(
        (_ascended(graph, q, most, tolerance) for q in (equal, likely)),
        key=lambda found: found.log_partition,
    )


def _ascended(graph: FactorGraph, q: Doubles, most: int, tolerance: float) -> Marginals:
    sweeps, change, expected = graph.core.mean_field(graph.tables, q, most, tolerance)
    rows = graph.rows(q)
    bound = float(expected - np.sum(q * np.log(np.where(q > 0, q, 1.0))))
    return Marginals(
        rows, _products(graph, rows), bound, "lower bound", change <= tolerance, sweeps, change
    )


def _at(graph: FactorGraph, labels: Integers) -> Doubles:
    q = np.zeros(graph.sizes[0])
    q[np.cumsum(graph.cardinalities) - graph.cardinalities + labels] = 1.0
    return q


def _products(graph: FactorGraph, rows: Doubles) -> list[Doubles]:
    """Π_v q_v of each factor."""
    out = []
    for entry in graph.entries:
        shape = entry.table.shape[1:]
        product = np.ones((len(entry.variables), *(1,) * len(shape)))
        for axis, labels in enumerate(shape):
            own = rows[entry.variables[:, axis], :labels]
            wide = [1] * len(shape)
            wide[axis] = labels
            product = product * own.reshape(-1, *wide)
        out.append(product[0] if entry.single else product)
    return out
