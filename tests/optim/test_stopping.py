"""Early stopping on a held-out score."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from problems import logistic

from trellis.errors import InputError
from trellis.optim import EarlyStopping, Progress, gradient_ascent, lbfgs


def progress(iteration: int, w: float) -> Progress:
    return Progress(iteration, 0.0, 0.0, 1, 1.0, 1, 0.0, np.array([w]))


def test_patience() -> None:
    early = EarlyStopping(lambda w: float(w[0]), patience=2)
    answers = [early(progress(i, w)) for i, w in enumerate([1.0, 3.0, 2.0, 3.0, 9.0], start=1)]
    assert answers[:4] == [False, False, False, True]  # an equal score does not count as better
    assert early.history[:4] == [(1, 1.0), (2, 3.0), (3, 2.0), (4, 3.0)]


def test_a_better_score_resets_the_patience() -> None:
    early = EarlyStopping(lambda w: float(w[0]), patience=2)
    assert not any(early(progress(i, w)) for i, w in enumerate([1, 0, 2, 1, 3, 2], start=1))
    assert early.best_score == 3.0
    np.testing.assert_array_equal(early.best_w, [3.0])


def test_every() -> None:
    early = EarlyStopping(lambda w: float(w[0]), patience=1, every=3)
    assert not any(early(progress(i, float(i))) for i in range(1, 10))
    assert [i for i, _ in early.history] == [3, 6, 9]


def test_a_score_of_nan_is_never_the_best() -> None:
    early = EarlyStopping(lambda w: float("nan"), patience=2)
    assert [early(progress(i, 0.0)) for i in (1, 2)] == [False, True]
    assert early.best_w is None


@pytest.mark.parametrize("optimise", [lbfgs, partial(gradient_ascent, step=0.003)])
def test_in_a_run(optimise: Any) -> None:
    objective, _ = logistic()
    target = 0.5 * lbfgs(objective, np.zeros(20)).w
    early = EarlyStopping(lambda w: -float(np.linalg.norm(w - target)), patience=3)
    result = optimise(objective, np.zeros(20), callback=early)
    assert result.message == "stopped by the callback"
    scores = [score for _, score in early.history]
    assert early.best_score == max(scores)
    assert len(scores) == result.n_iter == scores.index(max(scores)) + 1 + 3
    assert early.best_w is not None
    assert -np.linalg.norm(early.best_w - target) == early.best_score


@pytest.mark.parametrize("bad", [{"patience": 0}, {"every": 0}, {"patience": 1.5}, {"score": 3}])
def test_bad_input(bad: dict[str, Any]) -> None:
    keywords = {"score": lambda w: 0.0} | bad
    with pytest.raises(InputError, match=next(iter(bad))):
        EarlyStopping(**keywords)
