"""Connectionist temporal classification: p(target | input) when the alignment is unknown.

At each of T frames, a network outputs the probability of every label and of the blank. A path takes
one of them at each frame. It collapses to a target: equal neighbours are merged, then blanks are
removed. p(target) is the sum of the probabilities of all paths that collapse to the target.

`loss` and `posterior` need the target; `forward` and `backward` return the tables α and β of their
recursions. `align` finds the best path of a target. `greedy` and `beam_search` search for the best
target. `collapse` maps a path to its target. All others take these arguments:

``log_probs``
    ``(T, V)`` for one sequence, or ``(B, T, V)`` for a padded batch, with ``lengths``. float32 or
    float64. -inf is probability zero. With ``logits=True`` (`loss`, `posterior`,
    `forward`, `backward`), they are unnormalised scores: the softmax is then computed here too,
    which is faster and more precise.
``targets``
    The labels without blanks: a list of integers, or for a batch a list of such lists.
``blank``
    The index of the blank in the vocabulary.
``n_jobs``
    The number of threads; None means all cores. Results are the same bits for any number.

A target that is too long for the number of frames is not an error: its loss is +inf. README.md in
this folder explains the recursions. cpu.py has the gradient, for arrays with the frames first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from trellis.inference.ctc import cpu
from trellis.inference.ctc.decode import Alignment, Hypothesis, align, beam_search, greedy
from trellis.inference.ctc.inputs import Array, Labels, core_arguments, prepare
from trellis.inference.ctc.tables import Backward, Forward, backward, collapse, forward

__all__ = [
    "Alignment",
    "Backward",
    "Forward",
    "Hypothesis",
    "align",
    "backward",
    "beam_search",
    "collapse",
    "forward",
    "greedy",
    "loss",
    "posterior",
]


def loss(
    log_probs: ArrayLike,
    targets: Labels | Sequence[Labels],
    *,
    blank: int = 0,
    lengths: ArrayLike | None = None,
    logits: bool = False,
    n_jobs: int | None = None,
) -> float | Array:
    """-log p(target | input), a float or, for a batch, an array (B,); +inf if there is no path.

    >>> two_frames = np.log([[0.4, 0.6], [0.5, 0.5]])
    >>> round(loss(two_frames, [1]), 4)  # -log 0.8: all paths except (blank, blank)
    0.2231
    >>> loss(two_frames, [1, 1])  # a blank must separate the labels: three frames are needed
    inf
    >>> batch = np.zeros((2, 4, 3))
    >>> np.exp(-loss(batch, [[1, 2], []], lengths=[4, 2], logits=True)).round(4).tolist()
    [0.1852, 0.1111]
    """
    batch = prepare(log_probs, blank, lengths)
    values = cpu.forward(*core_arguments(batch, targets), logits, n_jobs=n_jobs)[0]
    return float(values[0]) if batch.single else values


def posterior(
    log_probs: ArrayLike,
    targets: Labels | Sequence[Labels],
    *,
    blank: int = 0,
    lengths: ArrayLike | None = None,
    logits: bool = False,
    n_jobs: int | None = None,
) -> Array:
    """``[t, v]`` = p(label v at frame t | target), with the shape of ``log_probs``.

    Each frame sums to 1. Padded frames are 0, and so are all frames of a target without a path. The
    result is minus the gradient of the loss with respect to the log-probabilities.

    >>> posterior(np.log([[0.4, 0.6], [0.5, 0.5]]), [1]).round(3).tolist()
    [[0.25, 0.75], [0.375, 0.625]]
    """
    batch = prepare(log_probs, blank, lengths)
    arguments = core_arguments(batch, targets)
    # The posterior depends only on differences within a frame, so logits need no softmax.
    values, log_norm, saved = cpu.forward(*arguments, False, n_jobs=n_jobs)
    occupations = np.empty(batch.scores.shape, batch.scores.dtype)
    cpu.backward(
        *arguments,
        False,
        log_norm,
        saved,
        values,
        np.full_like(values, -1.0),
        out=occupations.swapaxes(0, 1),
        n_jobs=n_jobs,
    )
    return occupations[0] if batch.single else occupations
