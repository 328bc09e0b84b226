"""CRFsuite's online algorithms: averaged perceptron, passive-aggressive and AROW."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from trellis import _core
from trellis.compat.pycrfsuite.shuffle import Order
from trellis.compat.pycrfsuite.task import Task, Vector

__all__ = ["train_arow", "train_passive_aggressive", "train_perceptron"]


class _Epoch(NamedTuple):
    """The result of one epoch."""

    loss: float
    weights: Vector
    """The weights of the model after the epoch."""
    shown: Vector
    """The weights whose norm CRFsuite logs."""


def train_perceptron(task: Task) -> Vector:
    """Return the weights that the averaged perceptron learns."""
    task.send_parameters("Averaged perceptron", "max_iterations", "epsilon")
    learner, order, w, total = _create_learner(task)
    # ``total`` is Σ t Δw_t, so the average of the weights is w − total / steps.
    sequence_errors, steps = np.empty(len(task.train.lengths), np.int64), 1

    def run_epoch() -> _Epoch:
        nonlocal steps
        sequences = order.shuffled()
        _, steps = learner.perceptron(sequences, w, total, steps, sequence_errors)
        average = w - total / steps
        return _Epoch(
            float(np.sum(sequence_errors / task.train.lengths[sequences])), average, average
        )

    return _run_epochs(task, run_epoch, strict=True)


def train_passive_aggressive(task: Task) -> Vector:
    """Return the weights that the passive-aggressive algorithm learns."""
    values = task.parameters
    names = ("type", "c", "error_sensitive", "averaging", "max_iterations", "epsilon")
    task.send_parameters("Passive Aggressive", *names)
    learner, order, w, total = _create_learner(task)
    # CRFsuite treats every type except 1 and 2 as 0.
    variant = values["type"] if values["type"] in (1, 2) else 0
    steps = 1

    def run_epoch() -> _Epoch:
        nonlocal steps
        count_errors = bool(values["error_sensitive"])
        loss, steps = learner.passive_aggressive(
            order.shuffled(), variant, values["c"], count_errors, w, total, steps
        )
        return _Epoch(loss, w - total / steps if values["averaging"] else w.copy(), w)

    return _run_epochs(task, run_epoch, strict=True)


def train_arow(task: Task) -> Vector:
    """Return the weights that AROW (adaptive regularisation of weights) learns."""
    values = task.parameters
    names = ("variance", "gamma", "max_iterations", "epsilon")
    task.send_parameters("Adaptive Regularization of Weights (AROW)", *names)
    learner, order, w, _ = _create_learner(task)
    variance = np.full(task.layout.size, values["variance"])

    def run_epoch() -> _Epoch:
        return _Epoch(learner.arow(order.shuffled(), values["gamma"], w, variance), w, w)

    return _run_epochs(task, run_epoch, strict=False)


def _create_learner(task: Task) -> tuple[Any, Order, Vector, Vector]:
    """Return the learner (None without data), the order of sequences, and two zero vectors.

    The vectors are w and ``total``, Σ t Δw_t.
    """
    n_sequences, n_weights = len(task.train.lengths), task.layout.size
    learner = _core.Online(task.data()) if n_sequences else None
    return learner, Order(n_sequences), np.zeros(n_weights), np.zeros(n_weights)


def _run_epochs(task: Task, run_epoch: Callable[[], _Epoch], *, strict: bool) -> Vector:
    """Run epochs and return the weights of the last one.

    Training stops if the mean loss is below epsilon or, if not ``strict``, equal to epsilon.
    """
    values, started, n_sequences = task.parameters, time.process_time(), len(task.train.lengths)
    epoch = _Epoch(0.0, np.zeros(task.layout.size), np.zeros(task.layout.size))
    for epoch_number in range(1, values["max_iterations"] + 1):
        clock = time.process_time()
        if n_sequences:  # as in CRFsuite, training without data is no error
            epoch = run_epoch()
        task.send(f"***** Iteration #{epoch_number} *****\n")
        task.send(f"Loss: {epoch.loss:f}\n")
        task.send(f"Feature norm: {np.linalg.norm(epoch.shown):f}\n")
        seconds = time.process_time() - clock
        task.send(f"Seconds required for this iteration: {seconds:.3f}\n")
        task.evaluate(epoch.weights)
        task.send("\n")
        mean_loss = epoch.loss / n_sequences if n_sequences else np.nan
        if mean_loss < values["epsilon"] or (mean_loss == values["epsilon"] and not strict):
            task.send("Terminated with the stopping criterion\n")
            task.send("\n")
            break
    task.send_end(started)
    return epoch.weights
