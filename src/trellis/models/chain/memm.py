"""The maximum-entropy Markov model: p(y | x) = Πₜ p(yₜ | yₜ₋₁, x), each a log-linear model."""

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from trellis.inference.chain import Scores
from trellis.models.chain.crf import LinearChainModel

__all__ = ["MEMM", "by_step"]


class MEMM(LinearChainModel):
    """A maximum-entropy Markov model: a CRF that is normalised at each step.

    p(yₜ | yₜ₋₁, x) = exp(w · φ(x, t, yₜ₋₁, yₜ)) / Σ_y exp(w · φ(x, t, yₜ₋₁, y))

    It is trained to predict a label from the previous label and the observation. Viterbi decoding
    maximises the product of these probabilities. For each previous label, the probabilities of the
    next labels sum to 1 for any observation. This causes the label bias, which a CRF does not have
    (``examples/label_bias.py``).

    The parameters are those of `CRF`, except that the online solvers cannot be used. Training
    ignores each step where the label or the previous label is unknown.

    >>> X, y = [["r", "i", "b"], ["r", "o", "b"]] * 3, [["1", "2", "3"], ["4", "5", "3"]] * 3
    >>> MEMM(l2=0.1).fit(X, y).predict([["r", "o", "b"]])
    [['4', '5', '3']]
    """

    kind = "memm"
    normalised_by_step = True

    def _normalise(self, scores: Scores) -> Scores:
        return by_step(scores)


def by_step(scores: Scores) -> Scores:
    """Return scores such that exp(score of a path) is the product of its local probabilities.

    log p(b | a, x, t) = u[t, b] + A[a, b] - n[t, a],  n[t, a] = log Σ_b exp(u[t, b] + A[a, b]),
    with the previous label a, the unary scores u and the transition scores A. The normaliser n of
    step t depends only on the previous label. So it is subtracted from the unary score of that
    label at t - 1, and the chain engine needs no special case.
    """
    unary: list[Any] = []
    transition, start = cast(Any, scores.transition), cast(Any, scores.start)
    for i, u in enumerate(cast(list[NDArray[np.float64]], scores.unary)):
        matrices = transition[i] if isinstance(transition, list) else transition
        normalised_unary = u.copy()
        normalised_unary[0] -= _log_sum_exp(u[0] if start is None else u[0] + start)
        if len(u) > 1:
            normaliser = _log_sum_exp(u[1:, None, :] + matrices)
            # The normaliser is -inf if no label may follow. Then -inf - (-inf) would be nan.
            no_successor = np.isneginf(normaliser)
            shifted_scores = normalised_unary[:-1] - np.where(no_successor, 0.0, normaliser)
            normalised_unary[:-1] = np.where(no_successor, -np.inf, shifted_scores)
        unary.append(normalised_unary)
    return scores._replace(unary=unary)


def _log_sum_exp(x: NDArray[np.float64]) -> Any:
    """log Σ exp(x) over the last axis; -inf where all x are -inf."""
    maximum = np.max(x, axis=-1, keepdims=True)
    maximum = np.where(np.isneginf(maximum), 0.0, maximum)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(x - maximum).sum(axis=-1)) + maximum[..., 0]
