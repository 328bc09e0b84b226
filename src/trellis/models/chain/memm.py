"""The maximum-entropy Markov model: p(y | x) = Πₜ p(yₜ | yₜ₋₁, x), each a log-linear model."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.models.chain.decoding import Chains
from trellis.models.chain.linear import LinearChainModel

__all__ = ["MEMM", "by_step"]


class MEMM(LinearChainModel):
    """A maximum-entropy Markov model: a CRF that is normalised at each step.

    p(yₜ | yₜ₋₁, x) = exp(w · φ(x, t, yₜ₋₁, yₜ)) / Σ_y exp(w · φ(x, t, yₜ₋₁, y))

    Trained on (previous label, observation) → label, and decoded by Viterbi over the products. Each
    step must hand on all the probability it is given, whatever is observed: the label bias that the
    CRF does not have (``examples/label_bias.py``). Parameters are those of `CRF`, but the online
    solvers are not for it. Where a label or the one before it is unknown, training leaves out the
    step.

    >>> X, y = [["r", "i", "b"], ["r", "o", "b"]] * 3, [["1", "2", "3"], ["4", "5", "3"]] * 3
    >>> MEMM(l2=0.1).fit(X, y).predict([["r", "o", "b"]])
    [['4', '5', '3']]
    """

    _by_step = True

    def _normalised(self, scores: Chains) -> Chains:
        return by_step(scores)


def by_step(scores: Chains) -> Chains:
    """Scores whose best path, marginals and Z are those of the products of local probabilities.

    log p(b | a, x, t) = u[t, b] + A[a, b] - n[t, a],  n[t, a] = log Σ_b exp(u[t, b] + A[a, b]): the
    normaliser depends on the label before alone, so it is taken off that label's own score.
    """
    unary = []
    for i, u in enumerate(scores.unary):
        shared = not isinstance(scores.transition, list)
        matrices = scores.transition if shared else scores.transition[i]
        out = u.copy()
        out[0] -= _log_sum_exp(u[0] if scores.start is None else u[0] + scores.start)
        if len(u) > 1:
            after = _log_sum_exp(u[1:, None, :] + matrices)
            dead = np.isneginf(after)  # nothing may follow this label
            out[:-1] = np.where(dead, -np.inf, out[:-1] - np.where(dead, 0.0, after))
        unary.append(out)
    return scores._replace(unary=unary)


def _log_sum_exp(x: NDArray[np.float64]) -> Any:
    top = np.max(x, axis=-1, keepdims=True)
    top = np.where(np.isneginf(top), 0.0, top)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(x - top).sum(axis=-1)) + top[..., 0]
