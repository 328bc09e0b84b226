"""CRFsuite's five algorithms, with its constants and messages, run by the optimisers of trellis."""

import time
from typing import Any

import numpy as np

from trellis.compat.pycrfsuite.online import (
    train_arow,
    train_passive_aggressive,
    train_perceptron,
)
from trellis.compat.pycrfsuite.sgd import train_sgd
from trellis.compat.pycrfsuite.task import Task, Vector
from trellis.models.chain.problem import Problem
from trellis.optim import lbfgs
from trellis.optim.result import Progress, Result

__all__ = ["Task", "train"]

_SEARCHES = {"Backtracking": "backtracking", "StrongBacktracking": "strong-backtracking"}
_NO_WEIGHTS, _ROUNDING = -1020, -1001  # error codes of liblbfgs in CRFsuite's messages
_UNLIMITED = 2**31 - 1


def train(algorithm: str, task: Task) -> Vector:
    """Return the trained weights, in the order of the layout."""
    return _ALGORITHMS[algorithm](task)


def _train_lbfgs(task: Task) -> Vector:
    """Return the weights that L-BFGS, or OWL-QN with an L1 penalty, learns."""
    values, started = task.parameters, time.process_time()
    names = ("c1", "c2", "num_memories", "max_iterations", "epsilon", "stop=period", "delta")
    searches = ("linesearch", "linesearch.max_iterations=max_linesearch")
    task.send_parameters("L-BFGS optimization", *names, *searches)
    if task.layout.size == 0:
        task.send(f"L-BFGS terminated with error code ({_NO_WEIGHTS})\n")
        task.send_end(started)
        return np.zeros(0)
    # CRFsuite's penalty is c1 |w| + c2 w². The penalty of trellis is l1 |w| + l2/2 w².
    l1, l2 = values["c1"], 2 * values["c2"]
    problem = Problem(task.data(), len(task.train.lengths), False, l1, l2, None)
    log = _IterationLog(task)
    limit = values["max_iterations"]
    result = lbfgs(
        problem.objective(),
        np.zeros(task.layout.size),
        l1=l1,
        memory=values["num_memories"],
        max_iter=None if limit in (0, _UNLIMITED) else limit,
        epsilon=values["epsilon"],
        period=values["period"],
        delta=values["delta"],
        max_linesearch=values["max_linesearch"],
        # An L1 penalty needs the line search of OWL-QN, which None selects.
        linesearch=None if l1 > 0 else _SEARCHES.get(values["linesearch"], "more-thuente"),
        callback=log,
    )
    task.send(f"L-BFGS {_end_message(result, log.relative_gradient, task)}\n")
    task.send_end(started)
    return result.w


def _end_message(result: Result[Any], relative_gradient: float, task: Task) -> str:
    """Return CRFsuite's message for the reason why L-BFGS stopped."""
    values = task.parameters
    if result.converged:
        if relative_gradient <= values["epsilon"]:
            return "resulted in convergence"
        return "terminated with the stopping criteria"
    if values["max_iterations"] and result.n_iter >= values["max_iterations"]:
        return "terminated with the maximum number of iterations"
    return f"terminated with error code ({_ROUNDING})"


class _IterationLog:
    """Callback of L-BFGS that sends the messages of each iteration."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.relative_gradient = 0.0
        self._evaluations = 1  # number of evaluations of the objective before this iteration
        self._last_time = time.process_time()

    def __call__(self, progress: Progress) -> None:
        weight_norm, now = float(np.linalg.norm(progress.w)), time.process_time()
        self.relative_gradient = progress.gradient_norm / max(1.0, weight_norm)
        for line in (
            f"***** Iteration #{progress.iteration} *****",
            f"Loss: {progress.loss:f}",
            f"Feature norm: {weight_norm:f}",
            f"Error norm: {progress.gradient_norm:f}",
            f"Active features: {progress.active}",
            f"Line search trials: {progress.evaluations - self._evaluations}",
            f"Line search step: {progress.step:f}",
            f"Seconds required for this iteration: {now - self._last_time:.3f}",
        ):
            self.task.send(line + "\n")
        self._evaluations, self._last_time = progress.evaluations, now
        self.task.evaluate(np.array(progress.w))
        self.task.send("\n")


_ALGORITHMS = {
    "lbfgs": _train_lbfgs,
    "l2sgd": train_sgd,
    "averaged-perceptron": train_perceptron,
    "passive-aggressive": train_passive_aggressive,
    "arow": train_arow,
}
