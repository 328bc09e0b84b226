"""CRFsuite through python-crfsuite and sklearn-crfsuite, called as their documents say.

sklearn-crfsuite is imported where it is used: it brings scikit-learn, which is memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pycrfsuite
from crf_data import Labels, Outcome, Task


class TickingTrainer(pycrfsuite.Trainer):
    """A trainer that says nothing and calls `tick` after each iteration."""

    tick: Callable[[], None]

    def message(self, message: str) -> None:
        """What CRFsuite logs, a line at a time."""
        if self.logparser.feed(message) == "iteration":
            self.tick()


class LoadingTrainer(pycrfsuite.Trainer):
    """A trainer that stops when all data has been handed over."""

    def train(self, model: str, holdout: int = -1) -> None:
        """Do nothing."""


def trainer_for(task: Task) -> TickingTrainer:
    """A trainer with the task's objective and L-BFGS, without data."""
    trainer = TickingTrainer(algorithm="lbfgs", verbose=False)
    trainer.set_params(
        {
            "c1": task.c1,
            "c2": task.c2,
            "max_iterations": task.iterations,
            "feature.possible_transitions": task.all_transitions,
        }
    )
    return trainer


def append(trainer: pycrfsuite.Trainer, items: Iterable[Any], y: Labels) -> None:
    """Hand the data over, a sequence at a time: there is no other way."""
    for item, labels in zip(items, y, strict=True):
        trainer.append(item, labels)


def train(
    trainer: TickingTrainer, tick: Callable[[], None] = lambda: None, path: Path | str = ""
) -> Outcome:
    """Run L-BFGS on what was appended; with a path, the model is written there."""
    trainer.tick = tick
    trainer.train(str(path))
    return _outcome(trainer.logparser)


def _outcome(log: Any) -> Outcome:
    trials = sum(each["linesearch_trials"] for each in log.iterations)
    last = log.iterations[-1]
    return Outcome(
        last["loss"], last["num"], 1 + trials, log.featgen_num_features, last["active_features"]
    )


def fit_dicts(task: Task) -> Outcome:
    """sklearn-crfsuite's fit on dicts."""
    from sklearn_crfsuite import CRF

    crf = CRF(c1=task.c1, c2=task.c2, max_iterations=task.iterations)
    return _outcome(crf.fit(task.items, task.y).training_log_)


def load_dicts(task: Task) -> None:
    """What sklearn-crfsuite's fit does before it trains."""
    from sklearn_crfsuite import CRF

    CRF(trainer_cls=LoadingTrainer).fit(task.items, task.y)


def taggers(path: Path) -> tuple[pycrfsuite.Tagger, Any]:
    """A model file, read by python-crfsuite and by sklearn-crfsuite; they need it no longer."""
    from sklearn_crfsuite import CRF

    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    crf = CRF(model_filename=str(path))
    assert crf.tagger_ is not None  # read when first asked for
    return tagger, crf
