"""The scores of a batch of chains as one value, which every function of the chain accepts."""

from __future__ import annotations

from typing import NamedTuple

from numpy.typing import ArrayLike

__all__ = ["Scores"]


class Scores(NamedTuple):
    """The scores of one sequence, a padded batch or a list of sequences.

    Every function of `trellis.inference.chain` takes a ``Scores``, or the same arrays as arguments.
    T is the number of positions, L the number of labels, B the number of sequences.

    Parameters
    ----------
    unary
        ``(T, L)`` for one sequence; ``(B, T, L)`` for a padded batch, with ``lengths``; or a list
        of ``(Tᵢ, L)`` arrays. The dtype is float32 or float64; integers become float64. Results
        have the same dtype, except that float64 transitions that depend on the position make them
        float64. A list of lists of numbers is one ``(T, L)`` array.
    transition
        ``(L, L)``: ``[a, b]`` is the score of label a followed by label b. Or one matrix per step,
        ``(T-1, L, L)``: for a padded batch ``(B, T-1, L, L)``, or ``(T-1, L, L)`` shared by all
        sequences; for a list of sequences, a list of ``(Tᵢ-1, L, L)`` arrays.
    start, end
        ``(L,)``: the scores of the first and of the last label.
    mask
        bool, with the shape of ``unary``: False forbids a label at a position. The unary score
        there is ignored, even if it is NaN. If a mask allows only the observed labels where labels
        are known, log Z sums over all paths that agree with this partial labelling.
    lengths
        ``(B,)`` integers: the lengths of the sequences in a padded batch. Without them, all have T
        positions.

    A score of -inf forbids; NaN and +inf are errors. Arrays are validated when a function reads
    them, and they are not copied. ``scores._replace(mask=mask)`` is a copy with another mask.

    >>> import numpy as np
    >>> from trellis.inference import chain
    >>> stay = np.array([[0.0, 0.0], [0.0, 1.0]])
    >>> scores = chain.Scores(np.array([[0.0, 1.0], [0.9, 0.0]]), stay)
    >>> chain.viterbi(scores).labels
    array([1, 1])
    >>> round(chain.log_prob(scores, labels=[1, 1]), 3)
    -0.864

    """

    unary: ArrayLike
    transition: ArrayLike
    start: ArrayLike | None = None
    end: ArrayLike | None = None
    mask: ArrayLike | None = None
    lengths: ArrayLike | None = None
