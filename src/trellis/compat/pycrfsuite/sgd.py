"""CRFsuite's ``l2sgd``: stochastic gradient descent with a calibrated learning rate.

The learning rate of step t is η_t = 1 / (λ (t₀ + t)), with λ = 2 c₂ / N for N sequences. Trials on
a sample of the sequences determine t₀.
"""

import math
import time
from typing import Any

import numpy as np

from trellis import _core
from trellis.compat.pycrfsuite.shuffle import Order
from trellis.compat.pycrfsuite.task import Task, Vector

__all__ = ["train_sgd"]


def train_sgd(task: Task) -> Vector:
    """Return the weights of the epoch with the lowest loss."""
    values, n_sequences, started = task.parameters, len(task.train.lengths), time.process_time()
    names = ("c2", "max_iterations", "period", "delta")
    task.send_parameters("Stochastic Gradient Descent (SGD)", *names)
    w, best_w, lowest_loss = np.zeros(task.layout.size), np.zeros(task.layout.size), math.inf
    if n_sequences:
        learner, order = _core.Online(task.data()), Order(n_sequences)
        lam = 2.0 * values["c2"] / n_sequences
        t0 = _Calibration(task, learner, order, lam).run()
        losses: list[float] = []
        while len(losses) < values["max_iterations"]:
            clock = time.process_time()
            task.send(f"***** Epoch #{len(losses) + 1} *****\n")
            steps_done = len(losses) * n_sequences
            # The core scales w by a factor instead of decaying every weight at each step.
            loss, scale = learner.sgd(order.shuffled(), lam, t0, steps_done, w, 1.0)
            w *= scale
            loss += 0.5 * lam * float(w @ w) * n_sequences
            if not math.isfinite(loss):  # CRFsuite also stops here and returns the best weights
                task.send("ERROR: overflow loss\n")
                break
            losses.append(loss)
            if loss < lowest_loss:
                best_w, lowest_loss = w.copy(), loss
            gain = _send_epoch(
                task, losses, w, 1.0 / (lam * (t0 + steps_done + n_sequences - 1)), clock
            )
            if gain < values["delta"]:
                break
        reached_limit = len(losses) >= values["max_iterations"]
        end = "maximum number of iterations" if reached_limit else "stopping criteria"
        task.send(f"SGD terminated with the {end}\n")
    task.send(f"Loss: {lowest_loss if math.isfinite(lowest_loss) else 0.0:f}\n")
    task.send_end(started)
    return best_w


def _send_epoch(task: Task, losses: list[float], w: Vector, eta: float, clock: float) -> float:
    """Send the messages of an epoch; return the relative decrease of the loss over the period.

    Before the first period is over, return ``delta``: training then continues.
    """
    period, loss = task.parameters["period"], losses[-1]
    period_is_over = len(losses) > period
    gain: float = task.parameters["delta"]
    if period_is_over:
        gain = (losses[-1 - period] - loss) / loss
    task.send(f"Loss: {loss:f}\n")
    if period_is_over:
        task.send(f"Improvement ratio: {gain:f}\n")
    task.send(f"Feature L2-norm: {np.linalg.norm(w):f}\n")
    task.send(f"Learning rate (eta): {eta:f}\n")
    task.send(f"Total number of feature updates: {len(losses) * len(task.train.lengths)}\n")
    task.send(f"Seconds required for this iteration: {time.process_time() - clock:.3f}\n")
    task.evaluate(w)
    task.send("\n")
    return gain


class _Calibration:
    """Search for the learning rate η that gives the lowest loss after one pass over a sample.

    The rates grow by a factor until a rate does not lower the loss. Then they fall, starting below
    the first rate.
    """

    def __init__(self, task: Task, learner: _core.Online, order: Order, lam: float) -> None:
        self._task, self._learner, self._lam = task, learner, lam
        self._options: dict[str, Any] = {
            name: task.parameters[f"calibration.{name}"]
            for name in ("eta", "rate", "samples", "candidates", "max_trials")
        }
        self._sample = order.shuffled()[: self._options["samples"]]

    def run(self) -> float:
        """Return t₀ = 1 / (λ η)."""
        task, clock = self._task, time.process_time()
        task.send("Calibrating the learning rate (eta)\n")
        for name, value in {**self._options, "samples": len(self._sample)}.items():
            text = f"{value:f}" if isinstance(value, float) else value
            task.send(f"calibration.{name}: {text}\n")
        best_eta = self._search(self._run_pass(math.inf, np.zeros(task.layout.size)))
        task.send(f"Best learning rate (eta): {best_eta:f}\n")
        task.send(f"Seconds required: {time.process_time() - clock:.3f}\n")
        task.send("\n")
        return float(1.0 / (self._lam * best_eta))

    def _search(self, first_loss: float) -> float:
        """Return the best learning rate of all trials."""
        task, first_eta, rate = self._task, self._options["eta"], self._options["rate"]
        task.send(f"Initial loss: {first_loss:f}\n")
        eta, best_eta, lowest_loss = first_eta, first_eta, math.inf
        candidates_left, is_falling, trials = self._options["candidates"], False, 1
        while candidates_left > 0 or not is_falling:
            task.send(f"Trial #{trials} (eta = {eta:f}): ")
            loss = self._run_pass(1.0 / (self._lam * eta), np.zeros(task.layout.size))
            is_better = math.isfinite(loss) and loss < first_loss
            task.send(f"{loss:f}\n" if is_better else f"{loss:f} (worse)\n")
            candidates_left -= is_better
            if math.isfinite(loss) and loss < lowest_loss:
                best_eta, lowest_loss = eta, loss
            if is_falling:
                eta /= rate
            elif is_better and candidates_left > 0:
                eta *= rate
            else:
                # The rate is too large, or enough candidates were tried. Try rates below the first.
                is_falling, candidates_left = True, self._options["candidates"]
                eta = first_eta / rate
            trials += 1
            if self._options["max_trials"] <= trials:
                break
        return float(best_eta)

    def _run_pass(self, t0: float, w: Vector) -> float:
        """Return the loss of one pass over the sample, and update w in place (not if t₀ = ∞)."""
        loss, scale = self._learner.sgd(self._sample, self._lam, t0, 0, w, 1.0)
        return float(loss + 0.5 * self._lam * scale * scale * float(w @ w) * len(self._sample))
