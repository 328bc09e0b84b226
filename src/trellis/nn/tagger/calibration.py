"""Calibrated probabilities: p(y | x) ∝ exp(score(x, y) / T), with a temperature T.

A network that fits its training data well is too certain of its errors. T > 1 makes it less
certain. T does not change the best labelling. The T is chosen that minimises the mean of
-log p(yₜ | x) over the labels of the development set.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.inference import chain

__all__ = ["MAX_TEMPERATURE", "MIN_TEMPERATURE", "fit_temperature", "mean_loss"]

MIN_TEMPERATURE, MAX_TEMPERATURE = 0.1, 10.0
_TOLERANCE = 0.005  # of log T: a smaller change of T does not change the second digit of p
_GOLDEN = (np.sqrt(5) - 1) / 2
_MIN_PROBABILITY = 1e-12  # a label that constraints forbid has p = 0, for every T


def fit_temperature(
    scores_at: Callable[[float], chain.Scores], labels: NDArray[np.int64], n_jobs: int | None
) -> float:
    """Return the temperature with the smallest mean loss.

    ``scores_at(T)`` returns the scores of some sequences, divided by T. ``labels`` are the indices
    of their labels, concatenated; -1 where the label is unknown to the model.
    """
    if not (labels >= 0).any():
        return 1.0

    def loss(log_temperature: float) -> float:
        return mean_loss(scores_at(float(np.exp(log_temperature))), labels, n_jobs)

    log_best = _minimise(loss, np.log(MIN_TEMPERATURE), np.log(MAX_TEMPERATURE))
    return float(np.exp(log_best))


def mean_loss(scores: chain.Scores, labels: NDArray[np.int64], n_jobs: int | None) -> float:
    """Return the mean of -log p(yₜ | x) over the known labels."""
    marginals: Any = chain.marginals(scores, n_jobs=n_jobs).unary
    is_known = labels >= 0
    p = np.concatenate(marginals)[is_known, labels[is_known]]
    return float(-np.log(np.maximum(p, _MIN_PROBABILITY)).mean())


def _minimise(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the minimum of a function with one minimum, by golden-section search.

    >>> round(float(_minimise(lambda x: (x - 0.3) ** 2, -1.0, 2.0)), 2)
    0.3
    """
    a, b = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    value_a, value_b = function(a), function(b)
    while high - low > _TOLERANCE:
        if value_a < value_b:
            high, b, value_b = b, a, value_a
            a = high - _GOLDEN * (high - low)
            value_a = function(a)
        else:
            low, a, value_a = a, b, value_b
            b = low + _GOLDEN * (high - low)
            value_b = function(b)
    return (low + high) / 2
