"""Train and tag with python-crfsuite and sklearn-crfsuite, as their documentation recommends.

sklearn-crfsuite is imported where it is used, because it imports scikit-learn, which takes memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pycrfsuite
from crf_data import Labels, Outcome, Task


class TickingTrainer(pycrfsuite.Trainer):
    """A trainer that prints nothing and calls `tick` after each iteration."""

    tick: Callable[[], None]

    def message(self, message: str) -> None:
        """Read one line of CRFsuite's log."""
        if self.logparser.feed(message) == "iteration":
            self.tick()


class LoadingTrainer(pycrfsuite.Trainer):
    """A trainer that reads the data and does not train."""

    def train(self, model: str, holdout: int = -1) -> None:
        """Do nothing."""


def trainer_for(task: Task) -> TickingTrainer:
    """Return a trainer with L-BFGS and the objective of the task, without data."""
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
    """Append the data, one sequence at a time, as python-crfsuite requires."""
    for item, labels in zip(items, y, strict=True):
        trainer.append(item, labels)


def train(
    trainer: TickingTrainer, tick: Callable[[], None] = lambda: None, path: Path | str = ""
) -> Outcome:
    """Run L-BFGS on the appended data; with a path, write the model there."""
    trainer.tick = tick
    trainer.train(str(path))
    return _outcome(trainer.logparser)


def _outcome(log: Any) -> Outcome:
    """Return the state at the end of a training, from the parsed log."""
    trials = sum(iteration["linesearch_trials"] for iteration in log.iterations)
    last = log.iterations[-1]
    return Outcome(
        last["loss"], last["num"], 1 + trials, log.featgen_num_features, last["active_features"]
    )


def fit_dicts(task: Task) -> Outcome:
    """Fit sklearn-crfsuite on dicts."""
    from sklearn_crfsuite import CRF

    crf = CRF(c1=task.c1, c2=task.c2, max_iterations=task.iterations)
    return _outcome(crf.fit(task.items, task.y).training_log_)


def load_dicts(task: Task) -> None:
    """Run the part of sklearn-crfsuite's fit before the training."""
    from sklearn_crfsuite import CRF

    CRF(trainer_cls=LoadingTrainer).fit(task.items, task.y)


def taggers(path: Path) -> tuple[pycrfsuite.Tagger, Any]:
    """Read a model file with python-crfsuite and sklearn-crfsuite; it can be deleted afterwards."""
    from sklearn_crfsuite import CRF

    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    crf = CRF(model_filename=str(path))
    assert crf.tagger_ is not None  # this reads the file
    return tagger, crf
