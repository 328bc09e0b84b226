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
    loss: float
    weights: Vector
    """The weights of the model after the epoch."""
    shown: Vector
    """The weights whose norm CRFsuite reports."""


def train_perceptron(task: Task) -> Vector:
    """Return the weights of the averaged perceptron."""
    task.send_parameters("Averaged perceptron", "max_iterations", "epsilon")
    learner, order, w, total = _start(task)
    # ``total`` is Σ t Δw_t, so the average of the weights is w − total / steps.
    wrong, steps = np.empty(len(task.train.lengths), np.int64), 1

    def run_epoch() -> _Epoch:
        nonlocal steps
        sequences = order.shuffled()
        _, steps = learner.perceptron(sequences, w, total, steps, wrong)
        average = w - total / steps
        return _Epoch(float(np.sum(wrong / task.train.lengths[sequences])), average, average)

    return _run_epochs(task, run_epoch, strict=True)


def train_passive_aggressive(task: Task) -> Vector:
    """Return the weights of the passive-aggressive algorithm."""
    values = task.parameters
    names = ("type", "c", "error_sensitive", "averaging", "max_iterations", "epsilon")
    task.send_parameters("Passive Aggressive", *names)
    learner, order, w, total = _start(task)
    # CRFsuite treats every other type as 0.
    variant = values["type"] if values["type"] in (1, 2) else 0
    steps = 1

    def run_epoch() -> _Epoch:
        nonlocal steps
        sensitive = bool(values["error_sensitive"])
        loss, steps = learner.passive_aggressive(
            order.shuffled(), variant, values["c"], sensitive, w, total, steps
        )
        return _Epoch(loss, w - total / steps if values["averaging"] else w.copy(), w)

    return _run_epochs(task, run_epoch, strict=True)


def train_arow(task: Task) -> Vector:
    """Return the weights of AROW, adaptive regularisation of weights."""
    values = task.parameters
    names = ("variance", "gamma", "max_iterations", "epsilon")
    task.send_parameters("Adaptive Regularization of Weights (AROW)", *names)
    learner, order, w, _ = _start(task)
    variance = np.full(task.layout.size, values["variance"])

    def run_epoch() -> _Epoch:
        return _Epoch(learner.arow(order.shuffled(), values["gamma"], w, variance), w, w)

    return _run_epochs(task, run_epoch, strict=False)


def _start(task: Task) -> tuple[Any, Order, Vector, Vector]:
    """Return the learner (None without data), the order of sequences, and two zero vectors."""
    count, size = len(task.train.lengths), task.layout.size
    learner = _core.Online(task.data()) if count and size else None
    return learner, Order(count), np.zeros(size), np.zeros(size)


def _run_epochs(task: Task, run_epoch: Callable[[], _Epoch], *, strict: bool) -> Vector:
    """Run epochs until the mean loss is below epsilon; not ``strict``: or equal to it."""
    values, started = task.parameters, time.process_time()
    epoch = _Epoch(0.0, np.zeros(task.layout.size), np.zeros(task.layout.size))
    for number in range(1, values["max_iterations"] + 1):
        clock = time.process_time()
        if task.layout.size and len(task.train.lengths):  # without data CRFsuite only logs
            epoch = run_epoch()
        task.send(f"***** Iteration #{number} *****\n")
        task.send(f"Loss: {epoch.loss:f}\n")
        task.send(f"Feature norm: {np.linalg.norm(epoch.shown):f}\n")
        seconds = time.process_time() - clock
        task.send(f"Seconds required for this iteration: {seconds:.3f}\n")
        task.evaluate(epoch.weights)
        task.send("\n")
        mean = epoch.loss / max(len(task.train.lengths), 1)
        if mean < values["epsilon"] or (mean == values["epsilon"] and not strict):
            task.send("Terminated with the stopping criterion\n")
            task.send("\n")
            break
    task.send_end(started)
    return epoch.weights
