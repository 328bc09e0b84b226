"""Connectionist temporal classification: p(target | input) where nobody knows the alignment.

At each of T frames a network gives the probability of every label and of the blank. A path takes
one of them at each frame; it stands for the target that is left when neighbours that are equal are
merged and blanks then removed. p(target) is the sum over all paths that stand for it.

`loss` and `posterior` know the target; `align` finds the best path of it; `greedy` and
`beam_search` look for a target. All take

``log_probs``
    ``(T, V)`` for one sequence, or ``(B, T, V)`` for a padded batch, with ``lengths``. float32 or
    float64. -inf is probability zero. With ``logits=True`` (`loss`, `posterior`) any scores: the
    softmax is part of the work, which is faster than to do it before, and more exact.
``targets``
    the labels without blanks: a list of integers, or for a batch a list of such lists.
``blank``
    the entry of the vocabulary that is the blank.
``n_jobs``
    threads; None is all cores. Results are the same bits for any number.

A target that no path of so many frames stands for is not an error: its loss is +inf. README.md
beside this file explains the recursions. cpu.py has the gradient, and wants frames first.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from trellis.inference.ctc import cpu
from trellis.inference.ctc.decode import Alignment, Hypothesis, align, beam_search, greedy
from trellis.inference.ctc.inputs import Array, Batch, Labels, prepare, prepare_targets

__all__ = ["Alignment", "Hypothesis", "align", "beam_search", "greedy", "loss", "posterior"]


def loss(
    log_probs: Array,
    targets: Labels | Sequence[Labels],
    *,
    blank: int = 0,
    lengths: Array | Sequence[int] | None = None,
    logits: bool = False,
    n_jobs: int | None = None,
) -> float | Array:
    """-log p(target | input): one number, or one a row of the batch; +inf if there is no path.

    >>> two_frames = np.log([[0.4, 0.6], [0.5, 0.5]])
    >>> round(loss(two_frames, [1]), 4)  # -log 0.8: all paths but (blank, blank)
    0.2231
    >>> loss(two_frames, [1, 1])  # needs a blank in between, so three frames
    inf
    >>> batch = np.zeros((2, 4, 3))
    >>> np.exp(-loss(batch, [[1, 2], []], lengths=[4, 2], logits=True)).round(4).tolist()
    [0.1852, 0.1111]
    """
    x = prepare(log_probs, blank, lengths)
    values = cpu.forward(*_rows(x, targets), logits, n_jobs=n_jobs)[0]
    return float(values[0]) if x.single else values


def posterior(
    log_probs: Array,
    targets: Labels | Sequence[Labels],
    *,
    blank: int = 0,
    lengths: Array | Sequence[int] | None = None,
    logits: bool = False,
    n_jobs: int | None = None,
) -> Array:
    """``[t, v]`` = p(label v at frame t | target): shares of all paths that stand for the target.

    Shaped as ``log_probs``; each frame sums to 1, but is 0 behind the length and where there is no
    path at all. It is minus the gradient of the loss with respect to log-probabilities.

    >>> posterior(np.log([[0.4, 0.6], [0.5, 0.5]]), [1]).round(3).tolist()
    [[0.25, 0.75], [0.375, 0.625]]
    """
    x = prepare(log_probs, blank, lengths)
    rows = _rows(x, targets)
    # The shares depend only on differences within a frame: logits will do as they are.
    values, log_norm, kept = cpu.forward(*rows, False, n_jobs=n_jobs)
    shares = np.empty(x.scores.shape, x.scores.dtype)
    cpu.backward(
        *rows,
        False,
        log_norm,
        kept,
        values,
        np.full_like(values, -1.0),
        out=shares.swapaxes(0, 1),
        n_jobs=n_jobs,
    )
    return shares[0] if x.single else shares


def _rows(x: Batch, targets: Any) -> tuple[Array, Array, Array, Array, int]:
    """Checked arguments as cpu.py takes them: frames first."""
    padded, target_lengths = prepare_targets(targets, x)
    return x.scores.swapaxes(0, 1), padded, x.lengths, target_lengths, x.blank
