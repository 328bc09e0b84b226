"""CRFsuite through python-crfsuite and sklearn-crfsuite, called as their documents say."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pycrfsuite
import sklearn_crfsuite
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
    log = trainer.logparser
    trials = sum(each["linesearch_trials"] for each in log.iterations)
    last = log.iterations[-1]
    return Outcome(
        last["loss"], last["num"], 1 + trials, log.featgen_num_features, last["active_features"]
    )


def load_dicts(items: list[Any], y: Labels) -> None:
    """What sklearn-crfsuite's fit does before it trains."""
    sklearn_crfsuite.CRF(trainer_cls=LoadingTrainer).fit(items, y)


def taggers(path: Path) -> tuple[pycrfsuite.Tagger, sklearn_crfsuite.CRF]:
    """A model file, opened by both libraries."""
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    return tagger, sklearn_crfsuite.CRF(model_filename=str(path))
