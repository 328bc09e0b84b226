"""Posterior decoding: the path with the largest expected number of correct labels.

    argmax_y Σₜ p(yₜ | x)  over the paths that no score of -inf forbids

Viterbi maximises the probability that the whole path is correct. Without forbidden transitions,
the posterior path is the best label at each position; with them, it is the best path of a second
Viterbi recursion, in which the marginals are the scores.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from trellis.inference.chain.cpu import marginals, viterbi
from trellis.inference.chain.results import Path
from trellis.inference.chain.scores import Scores

__all__ = ["posterior_path"]


def posterior_path(
    scores: Scores, *, label: NDArray[np.int32] | None = None, n_jobs: int | None = None
) -> Path:
    """argmax_y Σₜ p(yₜ) over the allowed paths; the score is the expected number of correct labels.

    If several columns of the scores stand for the same label, ``label`` is the label of each
    column, in ascending order. A position is then correct if the label of its column is correct,
    even if the column is not. With ``label``, the scores must be a list of sequences.

    >>> transition = np.array([[0.0, 0.0], [-np.inf, 0.0]])  # label 0 must not follow label 1
    >>> scores = Scores(np.log([[0.4, 0.6], [0.7, 0.3]]), transition)
    >>> marginals(scores).unary.round(2)
    array([[0.69, 0.31],
           [0.48, 0.52]])
    >>> best = posterior_path(scores)
    >>> best.labels.tolist(), round(best.score, 2)
    ([0, 1], 1.21)
    """
    arrays = cast(Any, scores)
    p = cast(Any, marginals(scores, n_jobs=n_jobs).unary)
    if label is not None:
        begin = np.flatnonzero(np.diff(label, prepend=-1))
        p = [np.add.reduceat(q, begin, axis=1)[:, label] for q in p]
    if isinstance(arrays.unary, list | tuple):
        unary: Any = [_forbid(u, q) for u, q in zip(arrays.unary, p, strict=True)]
    else:
        unary = _forbid(arrays.unary, p)
    transition = arrays.transition
    if isinstance(transition, list | tuple):
        transition = [_forbid(matrix) for matrix in transition]
    else:
        transition = _forbid(transition)
    # start and end are not needed: a label that they forbid has the marginal 0. For each path with
    # such a label, there is an allowed path with a larger sum.
    limited = scores._replace(unary=unary, transition=transition, start=None, end=None)
    return viterbi(limited, n_jobs=n_jobs)


def _forbid(scores: Any, values: Any = 0.0) -> NDArray[Any]:
    """Return -inf where a score is -inf, and the values elsewhere."""
    return np.where(np.isneginf(scores), -np.inf, values)
