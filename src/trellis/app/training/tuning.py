"""A small search over the strengths of the penalties, by cross-validation."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from trellis.data import tags
from trellis.errors import InputError
from trellis.metrics import accuracy, span_f1

__all__ = ["FOLDS", "Trial", "score", "search"]

FOLDS = 3


class Trial(NamedTuple):
    """Two strengths, and the mean score of the folds."""

    l1: float
    l2: float
    score: float

    def __str__(self) -> str:
        return f"l1={self.l1:<7.4g} l2={self.l2:<7.4g} {100 * self.score:.2f}"


def search(model: Any, X: Any, y: Any, count: int, seed: int) -> Iterator[Trial]:
    """Try ``count`` pairs of strengths, the model's own first; the model itself stays as it is."""
    if model.solver not in ("lbfgs", "gradient", "sgd"):
        raise InputError(f"there is nothing to tune: {model.solver} has neither l1 nor l2")
    if len(X) < FOLDS:
        raise InputError(f"tuning needs at least {FOLDS} sequences, not {len(X)}")
    scheme = tags.detect({label for own in y for label in own}, otherwise="plain")
    random = np.random.default_rng(seed)
    fold = random.permutation(len(X)) % FOLDS
    for l1, l2 in _candidates(model, count, random):
        own = {**model.get_params(deep=False), "early_stopping": None, "l1": l1, "l2": l2}
        scores = [_held_out(type(model)(**own), X, y, fold == k, scheme) for k in range(FOLDS)]
        yield Trial(l1, l2, float(np.mean(scores)))


def score(y: Any, predicted: Any, scheme: str) -> float:
    """The span F1, or for labels of no scheme the accuracy.

    >>> score([["NOUN", "VERB"]], [["NOUN", "NOUN"]], "plain")
    0.5
    """
    return accuracy(y, predicted) if scheme == "plain" else span_f1(y, predicted, scheme)


def _candidates(
    model: Any, count: int, random: np.random.Generator
) -> Iterator[tuple[float, float]]:
    """The model's own, then l2 from 0.01 to 10, even in its logarithm; every second with an l1."""
    yield float(model.l1), float(model.l2)
    shares = (np.arange(count - 1) + random.random(count - 1)) / max(1, count - 1)
    for n, share in enumerate(random.permutation(shares)):
        l1 = 10 ** random.uniform(-1.5, 0.5) if n % 2 and model.solver == "lbfgs" else 0.0
        yield round(float(l1), 4), round(float(10 ** (3 * share - 2)), 4)


def _held_out(model: Any, X: Any, y: Any, held: Any, scheme: str) -> float:
    inside, outside = np.flatnonzero(~held), np.flatnonzero(held)
    model.fit([X[i] for i in inside], [y[i] for i in inside])
    return score([y[i] for i in outside], model.predict([X[i] for i in outside]), scheme)
