"""The linear part of a hybrid tagger: a CRF of sparse features, trained separately.

    p(y | x) ∝ p_network(y | x) · p_CRF(y | x)^α

The two models are trained independently. A network trained together with the scores of a fitted CRF
would learn little: the CRF has seen the training data and is almost always right there, so there
would be no errors left to learn from.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.errors import InputError
from trellis.estimator import clone
from trellis.models.chain.crf import CRF

__all__ = ["ALPHAS", "LinearScores", "build_linear", "check_linear", "score_linear"]

ALPHAS = (1.0, 0.25, 0.5, 2.0, 4.0)
"""Candidates for α. Without a development set it is the first one."""
_L2 = 0.3  # the best on the development set of CoNLL-2002 Spanish
_MAX_ITER = 100


class LinearScores(NamedTuple):
    """Scores of the linear part for some sequences."""

    unary: list[NDArray[np.float64]]
    """(length, labels) per sequence."""
    transition: NDArray[np.float64]
    """(labels, labels)"""


def build_linear(features: Any, head: Any, n_jobs: int | None) -> CRF | None:
    """Return the unfitted model for the setting ``features``, or None."""
    if features is None:
        return None
    if head not in ("crf", "softmax"):
        raise InputError(f"features need head='crf' or 'softmax', not {head!r}")
    if isinstance(features, CRF):
        model: CRF = clone(features)
        return model
    if isinstance(features, str) and features != "crf":
        raise InputError(f"features must be crf, a CRF or features of a CRF, not {features!r}")
    chosen = None if isinstance(features, str) else features
    return CRF(chosen, l2=_L2, max_iter=_MAX_ITER, n_jobs=n_jobs)


def check_linear(model: CRF) -> None:
    """Raise if a fitted CRF has transition features: a tagger has one transition matrix."""
    if model.features_.has_edges:
        raise InputError("a neural tagger does not support features of transitions")


def score_linear(model: CRF | None, X: list[Any]) -> LinearScores | None:
    """Return the scores of a fitted model for sequences; None without a model."""
    if model is None:
        return None
    model._fitted()
    chains = model._chains(X)
    return LinearScores(chains.unary, chains.transition)
