"""A search over the strength of the L2 penalty, by cross-validation or on a development set.

Features are computed once, for all folds and all values. The values go from strong to weak
penalties, so that the weights of one value are the start of the next (see `PenaltyPath`), and the
search stops when the score no longer improves.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.app.training.penalty_path import PenaltyPath, read_path_data
from trellis.data import tags
from trellis.errors import InputError
from trellis.metrics import accuracy, span_f1

__all__ = ["FOLDS", "Split", "Trial", "score", "search", "select_l2", "split_folds"]

FOLDS = 3  # a trial takes as long as about two trainings; with five folds, four trainings
PATIENCE = 3  # values in a row without a better score, after which the search stops
FACTOR, WIDEST = 3.0, 27.0
"""The largest ratio of two successive values of l2, and of the first value to the middle one."""
WEAKEST = 0.003  # below this, training takes several times as many iterations

Split = tuple[NDArray[np.int64], NDArray[np.int64]]
"""The indices of the training sequences, and of the held-out ones."""


class Trial(NamedTuple):
    """The strengths of the penalties, and their mean score over the splits."""

    l1: float
    l2: float
    score: float

    def __str__(self) -> str:
        return f"l1={self.l1:<7.4g} l2={self.l2:<7.4g} {100 * self.score:.2f}"


def split_folds(count: int, seed: int) -> list[Split]:
    """Return `FOLDS` splits of ``count`` sequences: each sequence is held out once.

    >>> [held_out.tolist() for train, held_out in split_folds(4, seed=0)]
    [[1, 3], [2], [0]]
    """
    if count < FOLDS:
        raise InputError(f"--tune needs at least {FOLDS} sequences, the data have {count}")
    fold = np.random.default_rng(seed).permutation(count) % FOLDS
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(FOLDS)]


def search(
    model: Any, X: list[Any], y: list[Any], count: int, seed: int, dev: Any = None
) -> Iterator[Trial]:
    """Yield at most ``count`` trials, from a strong to a weak L2 penalty.

    The scores are those of ``dev``, a pair (X, y), or of cross-validation without it. The search
    ends after `PATIENCE` trials without a better score. The model is not changed.
    """
    if model.solver not in ("lbfgs", "gradient", "sgd"):
        raise InputError(
            f"--tune cannot be used with solver {model.solver}, which has neither l1 nor l2"
        )
    if model.l2 == 0:
        raise InputError("--tune tries values around --l2, which must be above 0")
    unseen, unseen_labels = dev or ([], [])
    splits = [_split_off(len(X), len(unseen))] if dev else split_folds(len(X), seed)
    scheme = tags.detect({label for labels in y for label in labels}, otherwise="plain")
    data = read_path_data(model, X, y, unseen)
    truth = [*y, *unseen_labels]
    truths = [[truth[i] for i in held_out] for _, held_out in splits]
    paths = [PenaltyPath(model, data, *split) for split in splits]
    best, trials_since_best = -1.0, 0
    for l2 in select_l2(data.l2, count):
        for path in paths:
            path.move(model.l1, l2)
        scores = [
            score(labels, path.predict(), scheme)
            for labels, path in zip(truths, paths, strict=True)
        ]
        trial = Trial(float(model.l1), l2, float(np.mean(scores)))
        yield trial
        trials_since_best = 0 if trial.score > best else trials_since_best + 1
        best = max(best, trial.score)
        if trials_since_best == PATIENCE:
            return


def _split_off(n_train: int, n_dev: int) -> Split:
    """Return the split that holds out the development set, which follows the training sequences."""
    return np.arange(n_train), np.arange(n_train, n_train + n_dev)


def select_l2(middle: float, count: int) -> list[float]:
    """Return at most ``count`` values of l2 around ``middle``, from strong to weak.

    One of them is ``middle``. No value is below `WEAKEST`, unless ``middle`` is: then no value is
    below ``middle``.

    >>> select_l2(0.1, 4), select_l2(0.01, 6)
    ([0.9, 0.3, 0.1, 0.03333], [0.27, 0.09, 0.03, 0.01, 0.003333])
    """
    stronger = count // 2
    factor = min(FACTOR, WIDEST ** (1 / max(stronger, 1)))
    values = (middle * factor**n for n in range(stronger, stronger - count, -1))
    return [float(f"{l2:.4g}") for l2 in values if l2 >= min(middle, WEAKEST)]


def score(y: Any, predicted: Any, scheme: str) -> float:
    """Return the span F1, or the accuracy for labels without a tagging scheme.

    >>> score([["NOUN", "VERB"]], [["NOUN", "NOUN"]], "plain")
    0.5
    """
    return accuracy(y, predicted) if scheme == "plain" else span_f1(y, predicted, scheme)
