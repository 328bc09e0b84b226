"""The linear part of a hybrid tagger: a CRF of sparse features, which learns by itself.

    p(y | x) ∝ p_network(y | x) · p_CRF(y | x)^α

Both are fitted alone. A network that learned beside the scores of a CRF would find the CRF right
nearly always, for it has seen the training data, and learn little that is of use on other text.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.errors import InputError
from trellis.estimator import clone
from trellis.models.chain.crf import CRF

__all__ = ["WEIGHTS", "check_linear", "linear_model", "linear_scores"]

WEIGHTS = (1.0, 0.25, 0.5, 2.0, 4.0)
"""What α may be; the first is taken where no development set tells."""
_L2 = 0.3


def linear_model(wish: Any, head: Any, n_jobs: int | None) -> CRF | None:
    """The model, not yet fitted, that the setting ``features`` asks for."""
    if wish is None:
        return None
    if head not in ("crf", "softmax"):
        raise InputError(f"features are for head='crf' and 'softmax', not {head!r}")
    if isinstance(wish, CRF):
        model: CRF = clone(wish)
        return model
    if isinstance(wish, str) and wish != "crf":
        raise InputError(f"features must be crf, a CRF or what a CRF takes, not {wish!r}")
    return CRF(None if isinstance(wish, str) else wish, l2=_L2, max_iter=100, n_jobs=n_jobs)


def check_linear(model: CRF) -> None:
    """Raise for a fitted CRF that has other transitions at each position."""
    if model.features_.has_edges:
        raise InputError("features of transitions are not for a neural tagger")


def linear_scores(model: CRF, X: list[Any]) -> tuple[list[NDArray[np.float64]], Any]:
    """Scores (length, labels) of sequences, and of transitions."""
    model._fitted()
    found: Any = model._compute_scores(X)
    return found.unary, found.transition
