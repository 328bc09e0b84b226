"""CRFsuite's five algorithms by the optimisers of trellis, with its constants and messages."""

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.compat.pycrfsuite.data import Part
from trellis.compat.pycrfsuite.shuffle import Order
from trellis.inference import chain
from trellis.models.chain.training import Problem
from trellis.models.chain.weights import WeightLayout
from trellis.native import resolve_jobs
from trellis.optim import lbfgs
from trellis.optim.result import Progress

__all__ = ["Task", "train"]

Vector: TypeAlias = NDArray[np.float64]
Say: TypeAlias = Callable[[str], None]

_SEARCHES = {"Backtracking": "backtracking", "StrongBacktracking": "strong-backtracking"}
_NO_WEIGHTS, _ROUNDING = -1020, -1001  # liblbfgs's codes for these ends
_UNLIMITED = 2**31 - 1


class Task(NamedTuple):
    """What an algorithm works on."""

    layout: WeightLayout
    train: Part
    holdout: Part | None
    labels: list[str]
    parameters: dict[str, Any]
    say: Say

    def data(self) -> _core.TrainingData:
        """For the core's objectives and online learners."""
        rows, nothing = self.train.rows.native(), [None] * 6
        return _core.TrainingData(
            self.layout.native, rows, None, self.train.row_begin, self.train.label, *nothing
        )

    def evaluate(self, w: Vector) -> None:
        """Say how well the holdout sequences are labelled, if there are any."""
        if self.holdout is not None:
            for line in _report(self.labels, self.holdout.lengths, self.holdout.label, self.tag(w)):
                self.say(line)

    def tag(self, w: Vector) -> NDArray[np.int64]:
        """The best labels of the holdout sequences, one after the other."""
        part, threads = self.holdout, resolve_jobs(None)
        if part is None or not len(part.lengths):
            return np.zeros(0, np.int64)
        unary = np.empty((len(part.rows), self.layout.labels))
        _core.Scorer(self.layout.native, w).scores(part.rows.native(), threads, unary)
        pieces = _core.split_rows(unary, part.lengths)
        found = chain.viterbi(pieces, self.layout.transition_matrix(w))
        return np.concatenate(found.labels)


def train(algorithm: str, task: Task) -> Vector:
    """The weights, in the order of the layout."""
    return _ALGORITHMS[algorithm](task)


def _show(task: Task, title: str, *names: str) -> None:
    task.say(f"{title}\n")
    for name in names:
        shown, _, key = name.partition("=")
        value = task.parameters[key or shown]
        task.say(f"{shown}: {value:f}\n" if isinstance(value, float) else f"{shown}: {value}\n")
    task.say("\n")


def _end(task: Task, began: float) -> None:
    seconds = time.process_time() - began
    task.say(f"Total seconds required for training: {seconds:.3f}\n")
    task.say("\n")


# ---- L-BFGS


def _lbfgs(task: Task) -> Vector:
    own, began = task.parameters, time.process_time()
    names = ("c1", "c2", "num_memories", "max_iterations", "epsilon", "stop=period", "delta")
    searches = ("linesearch", "linesearch.max_iterations=max_linesearch")
    _show(task, "L-BFGS optimization", *names, *searches)
    if task.layout.size == 0:
        task.say(f"L-BFGS terminated with error code ({_NO_WEIGHTS})\n")
        _end(task, began)
        return np.zeros(0)
    # c1 |w| + c2 w², where the objective here has l2/2 w²
    problem = Problem(task.data(), len(task.train.lengths), False, own["c1"], 2 * own["c2"], None)
    watch = _Watch(task)
    limit = own["max_iterations"]
    result = lbfgs(
        problem.objective(),
        np.zeros(task.layout.size),
        l1=own["c1"],
        memory=own["num_memories"],
        max_iter=None if limit in (0, _UNLIMITED) else limit,
        epsilon=own["epsilon"],
        period=own["period"],
        delta=own["delta"],
        max_linesearch=own["max_linesearch"],
        linesearch=None if own["c1"] > 0 else _SEARCHES.get(own["linesearch"], "more-thuente"),
        callback=watch,
    )
    if result.converged:
        flat = watch.flat <= own["epsilon"]
        end = "resulted in convergence" if flat else "terminated with the stopping criteria"
    elif limit and result.n_iter >= limit:
        end = "terminated with the maximum number of iterations"
    else:
        end = f"terminated with error code ({_ROUNDING})"
    task.say(f"L-BFGS {end}\n")
    _end(task, began)
    return result.w


class _Watch:
    """Says what each iteration has done."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.evaluations, self.flat = 1, 0.0
        self.before = time.process_time()

    def __call__(self, now: Progress) -> None:
        norm, seconds = float(np.linalg.norm(now.w)), time.process_time()
        self.flat = now.gradient_norm / max(1.0, norm)
        for line in (
            f"***** Iteration #{now.iteration} *****",
            f"Loss: {now.loss:f}",
            f"Feature norm: {norm:f}",
            f"Error norm: {now.gradient_norm:f}",
            f"Active features: {now.active}",
            f"Line search trials: {now.evaluations - self.evaluations}",
            f"Line search step: {now.step:f}",
            f"Seconds required for this iteration: {seconds - self.before:.3f}",
        ):
            self.task.say(line + "\n")
        self.evaluations, self.before = now.evaluations, seconds
        self.task.evaluate(np.array(now.w))
        self.task.say("\n")


# ---- stochastic gradient descent


def _l2sgd(task: Task) -> Vector:
    own, count, began = task.parameters, len(task.train.lengths), time.process_time()
    _show(task, "Stochastic Gradient Descent (SGD)", "c2", "max_iterations", "period", "delta")
    w, best, lowest = np.zeros(task.layout.size), np.zeros(task.layout.size), math.inf
    if count and task.layout.size:
        learner, order = _core.Online(task.data()), Order(count)
        lam = 2.0 * own["c2"] / count
        t0 = _calibrated(task, learner, order, lam)
        losses: list[float] = []
        while len(losses) < own["max_iterations"]:
            clock = time.process_time()
            task.say(f"***** Epoch #{len(losses) + 1} *****\n")
            done = len(losses) * count
            loss, scale = learner.sgd(order.shuffled(), lam, t0, done, w, 1.0)
            w *= scale
            loss += 0.5 * lam * float(w @ w) * count
            if not math.isfinite(loss):
                task.say("ERROR: overflow loss\n")
                break
            losses.append(loss)
            if loss < lowest:
                best, lowest = w.copy(), loss
            gain = _said_epoch(task, losses, w, 1.0 / (lam * (t0 + done + count - 1)), clock)
            if gain < own["delta"]:
                break
        limit = len(losses) >= own["max_iterations"]
        end = "maximum number of iterations" if limit else "stopping criteria"
        task.say(f"SGD terminated with the {end}\n")
    task.say(f"Loss: {lowest if math.isfinite(lowest) else 0.0:f}\n")
    _end(task, began)
    return best


def _said_epoch(task: Task, losses: list[float], w: Vector, eta: float, clock: float) -> float:
    """By which share the loss fell over the period; the least that is enough before that."""
    period, loss = task.parameters["period"], losses[-1]
    old = len(losses) > period
    gain: float = (losses[-1 - period] - loss) / loss if old else task.parameters["delta"]
    task.say(f"Loss: {loss:f}\n")
    if old:
        task.say(f"Improvement ratio: {gain:f}\n")
    task.say(f"Feature L2-norm: {np.linalg.norm(w):f}\n")
    task.say(f"Learning rate (eta): {eta:f}\n")
    task.say(f"Total number of feature updates: {len(losses) * len(task.train.lengths)}\n")
    task.say(f"Seconds required for this iteration: {time.process_time() - clock:.3f}\n")
    task.evaluate(w)
    task.say("\n")
    return gain


def _calibrated(task: Task, learner: _core.Online, order: Order, lam: float) -> float:
    """t₀ = 1 / (λ η) of the η whose one pass over the samples ends with the lowest loss."""
    own, clock = task.parameters, time.process_time()
    sample = order.shuffled()[: own["calibration.samples"]]
    task.say("Calibrating the learning rate (eta)\n")
    for name in ("eta", "rate", "samples", "candidates", "max_trials"):
        value = len(sample) if name == "samples" else own[f"calibration.{name}"]
        shown = f"{value:f}" if isinstance(value, float) else value
        task.say(f"calibration.{name}: {shown}\n")
    zero = np.zeros(task.layout.size)
    first, _ = learner.sgd(sample, lam, math.inf, 0, zero, 1.0)
    task.say(f"Initial loss: {first:f}\n")
    eta, best, lowest = own["calibration.eta"], own["calibration.eta"], math.inf
    left, falling, trials = own["calibration.candidates"], False, 1
    while left > 0 or not falling:
        task.say(f"Trial #{trials} (eta = {eta:f}): ")
        w = np.zeros(task.layout.size)
        loss, scale = learner.sgd(sample, lam, 1.0 / (lam * eta), 0, w, 1.0)
        loss += 0.5 * lam * scale * scale * float(w @ w) * len(sample)
        good = math.isfinite(loss) and loss < first
        task.say(f"{loss:f}\n" if good else f"{loss:f} (worse)\n")
        left -= good
        if math.isfinite(loss) and loss < lowest:
            best, lowest = eta, loss
        if falling:
            eta /= own["calibration.rate"]
        elif good and left > 0:
            eta *= own["calibration.rate"]
        else:
            falling, left = True, own["calibration.candidates"]
            eta = own["calibration.eta"] / own["calibration.rate"]
        trials += 1
        if own["calibration.max_trials"] <= trials:
            break
    task.say(f"Best learning rate (eta): {best:f}\n")
    task.say(f"Seconds required: {time.process_time() - clock:.3f}\n")
    task.say("\n")
    return float(1.0 / (lam * best))


# ---- one sequence at a time


class _Epoch(NamedTuple):
    loss: float
    weights: Vector
    """What the model has now."""
    shown: Vector
    """Whose norm is said."""


def _epochs(task: Task, epoch: Callable[[], _Epoch], *, strict: bool) -> Vector:
    """Until the mean loss is below epsilon, or at most epsilon if not ``strict``."""
    own, began = task.parameters, time.process_time()
    found = _Epoch(0.0, np.zeros(task.layout.size), np.zeros(task.layout.size))
    for number in range(1, own["max_iterations"] + 1):
        clock = time.process_time()
        if task.layout.size and len(task.train.lengths):
            found = epoch()
        task.say(f"***** Iteration #{number} *****\n")
        task.say(f"Loss: {found.loss:f}\n")
        task.say(f"Feature norm: {np.linalg.norm(found.shown):f}\n")
        seconds = time.process_time() - clock
        task.say(f"Seconds required for this iteration: {seconds:.3f}\n")
        task.evaluate(found.weights)
        task.say("\n")
        mean = found.loss / max(len(task.train.lengths), 1)
        if mean < own["epsilon"] or (mean == own["epsilon"] and not strict):
            task.say("Terminated with the stopping criterion\n")
            task.say("\n")
            break
    _end(task, began)
    return found.weights


def _perceptron(task: Task) -> Vector:
    _show(task, "Averaged perceptron", "max_iterations", "epsilon")
    learner, order, w, total = _online(task)
    wrong, steps = np.empty(len(task.train.lengths), np.int64), 1

    def epoch() -> _Epoch:
        nonlocal steps
        now = order.shuffled()
        _, steps = learner.perceptron(now, w, total, steps, wrong)
        average = w - total / steps
        return _Epoch(float(np.sum(wrong / task.train.lengths[now])), average, average)

    return _epochs(task, epoch, strict=True)


def _passive_aggressive(task: Task) -> Vector:
    own = task.parameters
    names = ("type", "c", "error_sensitive", "averaging", "max_iterations", "epsilon")
    _show(task, "Passive Aggressive", *names)
    learner, order, w, total = _online(task)
    variant = own["type"] if own["type"] in (1, 2) else 0
    steps = 1

    def epoch() -> _Epoch:
        nonlocal steps
        sensitive = bool(own["error_sensitive"])
        loss, steps = learner.passive_aggressive(
            order.shuffled(), variant, own["c"], sensitive, w, total, steps
        )
        return _Epoch(loss, w - total / steps if own["averaging"] else w.copy(), w)

    return _epochs(task, epoch, strict=True)


def _arow(task: Task) -> Vector:
    own = task.parameters
    names = ("variance", "gamma", "max_iterations", "epsilon")
    _show(task, "Adaptive Regularization of Weights (AROW)", *names)
    learner, order, w, _ = _online(task)
    variance = np.full(task.layout.size, own["variance"])

    def epoch() -> _Epoch:
        return _Epoch(learner.arow(order.shuffled(), own["gamma"], w, variance), w, w)

    return _epochs(task, epoch, strict=False)


def _online(task: Task) -> tuple[Any, Order, Vector, Vector]:
    count, size = len(task.train.lengths), task.layout.size
    learner = _core.Online(task.data()) if count and size else None
    return learner, Order(count), np.zeros(size), np.zeros(size)


_ALGORITHMS = {
    "lbfgs": _lbfgs,
    "l2sgd": _l2sgd,
    "averaged-perceptron": _perceptron,
    "passive-aggressive": _passive_aggressive,
    "arow": _arow,
}


# ---- holdout


def _report(
    labels: list[str], lengths: NDArray[np.int64], known: NDArray[np.int32], found: NDArray[Any]
) -> list[str]:
    """Precision, recall and F1 of each label; labels that do not occur have none."""
    count = len(labels)
    right = known == found
    match, model, ref = (np.bincount(a, minlength=count) for a in (known[right], found, known))
    lines = ["Performance by label (#match, #model, #ref) (precision, recall, F1):\n"]
    sums = np.zeros(3)
    for name, hit, said, there in zip(labels, match, model, ref, strict=True):
        shown = "******, ******, ******"
        if there:
            p, r = hit / said if said else 0.0, hit / there
            scores = np.array([p, r, 2 * p * r / (p + r) if p + r else 0.0])
            sums += scores
            shown = ", ".join(f"{s:1.4f}" for s in scores)
        lines.append(f"    {name}: ({hit}, {said}, {there}) ({shown})\n")
    averages = ", ".join(f"{s:f}" for s in sums / max(count, 1))
    ends = np.cumsum(lengths)
    whole = sum(bool(right[b - n : b].all()) for b, n in zip(ends, lengths, strict=True))
    for what, good, all_ in (
        ("Item", int(match[ref > 0].sum()), len(known)),
        ("Instance", whole, len(lengths)),
    ):
        share = good / all_ if all_ else 0.0
        lines.append(f"{what} accuracy: {good} / {all_} ({share:1.4f})\n")
    lines.insert(-2, f"Macro-average precision, recall, F1: ({averages})\n")
    return lines
