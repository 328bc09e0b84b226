"""The tables of the recursions: α, β, and the best scores with their back-pointers.

The tables are for users who want to see them: inference does not need them. The numbers are
logarithms in float64 for any dtype of the scores, because they grow with the length. They are exact
for any scores: -inf means that there is no path. The padding of a batch has -inf, and -1 in the
back-pointers. A sequence without an allowed path is not an error.
"""

from __future__ import annotations

import numpy as np

from trellis import _core
from trellis.inference.chain.batch import ValidatedScores
from trellis.inference.chain.layout import Array
from trellis.inference.chain.results import ArrayOrList, Backward, Forward, ViterbiTable
from trellis.inference.chain.signature import takes_scores

__all__ = ["backward", "forward", "viterbi_table"]


@takes_scores
def forward(scores: ValidatedScores) -> Forward:
    """α[t, b] = log Σ_a exp(α[t-1, a] + transition[a, b]) + unary[t, b], and log Z.

    The start scores are part of ``unary[0]``, the end scores part of ``unary[T-1]``. So
    log Z = log Σ_b exp(α[T-1, b]).

    >>> table = forward(np.zeros((3, 2)), np.zeros((2, 2)))
    >>> np.exp(table.alpha).round(6).tolist()  # beginnings of 1, 2 and 3 positions
    [[1.0, 1.0], [2.0, 2.0], [4.0, 4.0]]
    >>> round(table.log_partition, 6)  # log 8
    2.079442
    """
    alpha = scores.new_rows((scores.n_labels,), np.float64, -np.inf)
    log_z, outcomes = np.zeros(len(scores.layout.starts)), scores.new_outcomes()
    scores.core().alpha_table(alpha, log_z, outcomes)
    scores.raise_for(outcomes, log_z)
    return Forward(_in_layout(scores, alpha), scores.layout.per_sequence(log_z))


@takes_scores
def backward(scores: ValidatedScores) -> Backward:
    """β[t, a] = log Σ_b exp(transition[a, b] + unary[t+1, b] + β[t+1, b]), and log Z.

    β[T-1] is 0, and log Z = log Σ_b exp(unary[0, b] + β[0, b]), with the start scores in
    ``unary[0]``. p(yₜ = b) = exp(α[t, b] + β[t, b] - log Z).

    >>> np.exp(backward(np.zeros((3, 2)), np.zeros((2, 2))).beta).round(6).tolist()
    [[4.0, 4.0], [2.0, 2.0], [1.0, 1.0]]
    """
    beta = scores.new_rows((scores.n_labels,), np.float64, -np.inf)
    log_z, outcomes = np.zeros(len(scores.layout.starts)), scores.new_outcomes()
    scores.core().beta_table(beta, log_z, outcomes)
    scores.raise_for(outcomes, log_z)
    return Backward(_in_layout(scores, beta), scores.layout.per_sequence(log_z))


@takes_scores
def viterbi_table(scores: ValidatedScores) -> ViterbiTable:
    """π[t, b] = max_a (π[t-1, a] + transition[a, b]) + unary[t, b], and the a of each maximum.

    Of several best labels a, the first is taken, as in `viterbi`: from the best label at T-1, the
    back-pointers lead along the path that it returns.

    >>> table = viterbi_table([[0, 1], [0, 0]], [[0, 0], [0, 1]])
    >>> table.score.tolist(), table.back_pointer.tolist()
    ([[0.0, 1.0], [1.0, 2.0]], [[-1, -1], [1, 1]])
    """
    best = scores.new_rows((scores.n_labels,), np.float64, -np.inf)
    pointers = scores.new_rows((scores.n_labels,), np.int64, -1)
    totals, outcomes = np.zeros(len(scores.layout.starts)), scores.new_outcomes()
    scores.core().best_table(best, pointers, totals, outcomes)
    scores.raise_for(outcomes, totals)
    return ViterbiTable(_in_layout(scores, best), _in_layout(scores, pointers))


def _in_layout(scores: ValidatedScores, rows: Array) -> ArrayOrList:
    """Return flat rows in the caller's layout; for a list, as one array per sequence."""
    layout = scores.layout
    pieces = _core.split_rows(rows, layout.lengths) if layout.shape is None else None
    return layout.per_position(rows, pieces)
