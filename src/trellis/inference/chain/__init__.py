"""Exact inference on linear chains.

A path y through T positions and L labels has the score

    start[y₀] + Σₜ unary[t, yₜ] + Σₜ transition[yₜ₋₁, yₜ] + end[y_T₋₁]

and the probability p(y) = exp(score(y)) / Z. Every function takes the scores of one sequence
``(T, L)``, of a padded batch ``(B, T, L)`` with ``lengths``, or of a list of ``(Tᵢ, L)`` arrays,
and returns results in the same layout. The scores are passed as arrays, or as one value of the
class `Scores`, which documents them. README.md in this folder explains the recursions.
"""

from trellis.inference.chain.cpu import (
    entropy,
    expected_counts,
    kbest,
    log_partition,
    log_prob,
    marginals,
    max_marginals,
    sample,
    score,
    viterbi,
)
from trellis.inference.chain.results import (
    Backward,
    Counts,
    Forward,
    KBest,
    Marginals,
    Path,
    ViterbiTable,
)
from trellis.inference.chain.scores import Scores
from trellis.inference.chain.tables import backward, forward, viterbi_table

__all__ = [
    "Backward",
    "Counts",
    "Forward",
    "KBest",
    "Marginals",
    "Path",
    "Scores",
    "ViterbiTable",
    "backward",
    "entropy",
    "expected_counts",
    "forward",
    "kbest",
    "log_partition",
    "log_prob",
    "marginals",
    "max_marginals",
    "sample",
    "score",
    "viterbi",
    "viterbi_table",
]
