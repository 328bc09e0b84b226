"""Minimum cuts with real capacities, from SciPy's maximum flow, which needs integers.

The flow is computed in rounds. Each round divides the residual capacities by a unit and rounds them
to integers. The unit shrinks from round to round, until the residual flow is as small as rounding
errors.
"""

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from trellis.inference.graph.results import Doubles, Integers

__all__ = ["minimum_cut"]

_MAX_CAPACITY = 2**31 - 1  # SciPy's capacities are 32-bit integers
_MAX_ROUNDS = 12  # a few are enough: each divides the residual flow by about 5e8 / arcs
_TOLERANCE = 1e-15  # a residual flow below this fraction of the total counts as zero


def minimum_cut(cost: Doubles, edges: Integers, capacity: Doubles) -> Integers:
    """argmin_x Σ_v cost[v] x_v + Σ_e capacity[e] [x_a = 0, x_b = 1]; every x_v is 0 or 1.

    >>> minimum_cut(np.array([-2.0, 1.0, 3.0]), np.array([[1, 0], [2, 1]]), np.array([1.5, 0.5]))
    array([1, 1, 0])
    """
    n = len(cost)
    if n == 0:
        return np.zeros(0, dtype=np.int64)
    source, sink, nodes = n, n + 1, np.arange(n)
    # x = 1 is the side of the sink. A positive cost is an arc from the source, which x = 1 cuts.
    tail = np.concatenate([np.where(cost > 0, source, nodes), edges[:, 0]])
    head = np.concatenate([np.where(cost > 0, nodes, sink), edges[:, 1]])
    residual = sparse.coo_array(
        (np.concatenate([np.abs(cost), capacity]), (tail, head)), shape=(n + 2, n + 2)
    ).tocsr()
    bound = min(float(cost[cost > 0].sum()), float(-cost[cost < 0].sum()))
    tolerance = _TOLERANCE * bound
    for _ in range(_MAX_ROUNDS):
        if bound <= tolerance:
            break
        residual, bound = _run_round(residual, bound, source, sink)
    residual.data[residual.data <= tolerance / max(1, n)] = 0.0
    residual.eliminate_zeros()
    source_side = breadth_first_order(residual, source, return_predecessors=False)
    labels = np.ones(n + 2, dtype=np.int64)
    labels[source_side] = 0
    return labels[:n]


def _run_round(
    residual: sparse.csr_array, bound: float, source: int, sink: int
) -> tuple[sparse.csr_array, float]:
    """Return the residual capacities after one round, and an upper bound of the residual flow."""
    # No arc can carry more than the remaining flow. Twice that must fit into the integers, because
    # there may be arcs in both directions.
    unit = 2.0 * bound / (_MAX_CAPACITY // 2)
    integer_capacities = residual.copy()
    integer_capacities.data = np.floor(np.minimum(residual.data, bound) / unit)
    flow = maximum_flow(integer_capacities.astype(np.int32), source, sink).flow.astype(np.float64)
    new_residual = sparse.csr_array(residual - unit * flow)
    new_residual.data = np.maximum(new_residual.data, 0.0)
    new_residual.eliminate_zeros()
    # Rounding took less than one unit from each arc of the minimum cut of this round. So the flow
    # that remains is less than one unit for each arc.
    return new_residual, min(bound, unit * residual.nnz)
