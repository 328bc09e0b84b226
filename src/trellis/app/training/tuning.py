"""A random search over the strengths of the L1 and L2 penalties, by cross-validation."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.data import tags
from trellis.errors import InputError
from trellis.metrics import accuracy, span_f1

__all__ = ["FOLDS", "Trial", "score", "search"]

FOLDS = 3  # a trial takes as long as about two trainings; with five folds, four trainings


class Trial(NamedTuple):
    """A pair of penalty strengths and its mean score over the folds."""

    l1: float
    l2: float
    score: float

    def __str__(self) -> str:
        return f"l1={self.l1:<7.4g} l2={self.l2:<7.4g} {100 * self.score:.2f}"


def search(model: Any, X: Any, y: Any, count: int, seed: int) -> Iterator[Trial]:
    """Yield ``count`` trials, first with the strengths of the model; the model is not changed."""
    if model.solver not in ("lbfgs", "gradient", "sgd"):
        raise InputError(
            f"--tune cannot be used with solver {model.solver}, which has neither l1 nor l2"
        )
    if len(X) < FOLDS:
        raise InputError(f"--tune needs at least {FOLDS} sequences, the data have {len(X)}")
    scheme = tags.detect({label for labels in y for label in labels}, otherwise="plain")
    generator = np.random.default_rng(seed)
    fold = generator.permutation(len(X)) % FOLDS
    for l1, l2 in _draw_candidates(model, count, generator):
        parameters = {**model.get_params(deep=False), "early_stopping": None, "l1": l1, "l2": l2}
        scores = [
            _score_fold(type(model)(**parameters), X, y, fold == k, scheme) for k in range(FOLDS)
        ]
        yield Trial(l1, l2, float(np.mean(scores)))


def score(y: Any, predicted: Any, scheme: str) -> float:
    """Return the span F1, or the accuracy for labels without a tagging scheme.

    >>> score([["NOUN", "VERB"]], [["NOUN", "NOUN"]], "plain")
    0.5
    """
    return accuracy(y, predicted) if scheme == "plain" else span_f1(y, predicted, scheme)


def _draw_candidates(
    model: Any, count: int, generator: np.random.Generator
) -> Iterator[tuple[float, float]]:
    """Yield pairs (l1, l2): first those of the model, then random ones.

    l2 is log-uniform between 0.01 and 10. Every second pair has l1 > 0. The range of l2 is divided
    into ``count - 1`` strata with one draw each, so that a few trials cover the range.
    """
    yield float(model.l1), float(model.l2)
    strata = (np.arange(count - 1) + generator.random(count - 1)) / max(1, count - 1)
    for n, position in enumerate(generator.permutation(strata)):
        # Only lbfgs has an L1 term.
        l1 = 10 ** generator.uniform(-1.5, 0.5) if n % 2 and model.solver == "lbfgs" else 0.0
        yield round(float(l1), 4), round(float(10 ** (3 * position - 2)), 4)


def _score_fold(model: Any, X: Any, y: Any, held_out: NDArray[np.bool_], scheme: str) -> float:
    train, test = np.flatnonzero(~held_out), np.flatnonzero(held_out)
    model.fit([X[i] for i in train], [y[i] for i in train])
    return score([y[i] for i in test], model.predict([X[i] for i in test]), scheme)
