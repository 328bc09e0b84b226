"""Minimum cuts with real capacities, from SciPy's maximum flow, which has integers.

The flow is found in rounds. Each takes what is left of the capacities in units small enough for the
integers, and the next takes smaller units, until what is left is as small as rounding.
"""

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from trellis.inference.graph.results import Doubles, Integers

__all__ = ["minimum_cut"]

_LARGEST = 2**31 - 1  # SciPy counts in 32 bits
_ROUNDS = 12
_EXACT = 1e-15  # of the total: what may be left of the flow


def minimum_cut(cost: Doubles, edges: Integers, capacity: Doubles) -> Integers:
    """argmin_x Σ_v cost[v] x_v + Σ_e capacity[e] [x_a = 0, x_b = 1], x of zeros and ones.

    >>> minimum_cut(np.array([-2.0, 1.0, 3.0]), np.array([[1, 0], [2, 1]]), np.array([1.5, 0.5]))
    array([1, 1, 0])
    """
    n = len(cost)
    if n == 0:
        return np.zeros(0, dtype=np.int64)
    source, sink, nodes = n, n + 1, np.arange(n)
    # x = 1 is the sink's side: a positive cost is an arc from the source, which x = 1 cuts
    tail = np.concatenate([np.where(cost > 0, source, nodes), edges[:, 0]])
    head = np.concatenate([np.where(cost > 0, nodes, sink), edges[:, 1]])
    left = sparse.coo_array(
        (np.concatenate([np.abs(cost), capacity]), (tail, head)), shape=(n + 2, n + 2)
    ).tocsr()
    bound = min(float(cost[cost > 0].sum()), float(-cost[cost < 0].sum()))
    exact = _EXACT * bound
    for _ in range(_ROUNDS):
        if bound <= exact:
            break
        left, bound = _push(left, bound, source, sink)
    left.data[left.data <= exact / max(1, n)] = 0.0
    left.eliminate_zeros()
    reached = breadth_first_order(left, source, return_predecessors=False)
    labels = np.ones(n + 2, dtype=np.int64)
    labels[reached] = 0
    return labels[:n]


def _push(
    left: sparse.csr_array, bound: float, source: int, sink: int
) -> tuple[sparse.csr_array, float]:
    """What is left of the capacities after one round, and a bound of the flow that is left."""
    # no arc can carry more than all that is left to flow; twice that must fit, for arcs both ways
    unit = 2.0 * bound / (_LARGEST // 2)
    counts = left.copy()
    counts.data = np.floor(np.minimum(left.data, bound) / unit)
    flow = maximum_flow(counts.astype(np.int32), source, sink).flow.astype(np.float64)
    after = sparse.csr_array(left - unit * flow)
    after.data = np.maximum(after.data, 0.0)
    after.eliminate_zeros()
    # each arc of the cut that was found lost less than a unit by rounding
    arcs = left.nnz
    return after, min(bound, unit * arcs)
