"""Exact inference on linear chains.

A path y through T positions and L labels scores

    start[y₀] + Σₜ unary[t, yₜ] + Σₜ transition[yₜ₋₁, yₜ] + end[y_T₋₁]

and has probability p(y) = exp(score(y)) / Z. Every function takes the scores of one sequence
``(T, L)``, of a padded batch ``(B, T, L)`` with ``lengths``, or of a list of ``(Tᵢ, L)`` arrays,
and answers in the same layout. README.md beside this file explains the recursions.
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
from trellis.inference.chain.results import Counts, KBest, Marginals, Path

__all__ = [
    "Counts",
    "KBest",
    "Marginals",
    "Path",
    "entropy",
    "expected_counts",
    "kbest",
    "log_partition",
    "log_prob",
    "marginals",
    "max_marginals",
    "sample",
    "score",
    "viterbi",
]
