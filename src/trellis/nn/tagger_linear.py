"""The linear part of a hybrid tagger: a CRF of sparse features, and what it says of unseen text.

A network that learned beside the scores of a CRF on the CRF's own training data would learn
nothing: there the CRF is nearly always right. So each sequence of the training data is scored by a
CRF that was fitted without it (stacking), and all other sequences by one that was fitted on all.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from trellis.errors import InputError
from trellis.models.crf import CRF
from trellis.models.labels import Label

__all__ = ["check_linear", "fit_linear", "linear_model", "linear_scores"]

_FOLDS = 5
_L2 = 0.3

Floats = NDArray[np.float32]


def linear_model(wish: Any, n_jobs: int | None) -> CRF | None:
    """The model, not yet fitted, that the setting ``features`` asks for."""
    if wish is None:
        return None
    if isinstance(wish, CRF):
        model: CRF = clone(wish)
        return model
    if isinstance(wish, str) and wish != "crf":
        raise InputError(f"features must be crf, a CRF or what a CRF takes, not {wish!r}")
    return CRF(None if isinstance(wish, str) else wish, l2=_L2, max_iter=100, n_jobs=n_jobs)


def check_linear(model: CRF) -> None:
    """Raise for a CRF whose scores are not those of tokens and of one matrix of transitions."""
    if model.features_.has_edges:
        raise InputError("features of transitions are not for a neural tagger")


def fit_linear(model: CRF, X: list[Any], y: Any, labels: list[Label]) -> Floats:
    """Fit a CRF, and score each token (tokens, labels) by one that has not seen its sequence."""
    found: list[Any] = [None] * len(X)
    folds = min(_FOLDS, len(X))
    for fold in range(folds if folds > 1 else 0):
        own = range(fold, len(X), folds)
        rest = [i for i in range(len(X)) if i % folds != fold]
        other = clone(model).fit([X[i] for i in rest], [y[i] for i in rest])
        for i, scores in zip(own, _each(other, [X[i] for i in own], labels), strict=True):
            found[i] = scores
    model.fit(X, y)
    check_linear(model)
    return np.concatenate(found) if folds > 1 else linear_scores(model, X, labels)


def linear_scores(model: CRF, X: list[Any], labels: list[Label]) -> Floats:
    """(tokens, labels): w · φ(x, t, y), less the best of each token, which changes nothing."""
    return np.concatenate(_each(model, X, labels))


def _each(model: CRF, X: list[Any], labels: list[Label]) -> list[Floats]:
    model._fitted()
    unary = model._chains(X).unary
    place = [labels.index(label) for label in model.classes_.tolist()]
    out = []
    for own in unary:
        # labels that it has not seen are as bad as its worst
        scores = np.repeat(own.min(axis=1, keepdims=True), len(labels), axis=1)
        scores[:, place] = own
        out.append((scores - scores.max(axis=1, keepdims=True)).astype(np.float32))
    return out
