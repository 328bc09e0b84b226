"""Early stopping: stop when a score on held-out data no longer rises."""

from __future__ import annotations

import math
from collections.abc import Callable

from trellis.checks import as_integer
from trellis.errors import InputError
from trellis.optim.result import Progress, Vector


class EarlyStopping:
    """A callback that stores the weights with the highest score(w), and stops the run early.

    ``score`` is computed every ``every`` iterations. The run stops when ``patience`` scores in
    succession are not above the best one.

    >>> from trellis.optim import lbfgs
    >>> def bowl(w, gradient):
    ...     gradient[:] = 2 * w - 6
    ...     return float((w - 3) @ (w - 3))
    >>> early = EarlyStopping(lambda w: 1 - abs(w[0] - 1), patience=1)
    >>> lbfgs(bowl, [0], callback=early).message
    'stopped by the callback'
    >>> early.best_w.tolist(), early.history
    ([1.0], [(1, 1.0), (2, -1.0)])
    """

    def __init__(
        self, score: Callable[[Vector], float], *, patience: int = 10, every: int = 1
    ) -> None:
        if not callable(score):
            raise InputError(f"score must be a function of the weights, not {score!r}")
        self.score = score
        self.patience = as_integer(patience, "patience")
        self.every = as_integer(every, "every")
        if self.patience < 1 or self.every < 1:
            raise InputError(f"patience and every must be at least 1, not {patience} and {every}")
        self.best_score = -math.inf
        self.best_w: Vector | None = None
        self.history: list[tuple[int, float]] = []
        """(iteration, score) of each computed score."""
        self.since_best = 0
        """The number of scores since the best one."""

    def restore(
        self, history: list[tuple[int, float]], best_w: Vector | None, since_best: int
    ) -> None:
        """Restore the state of an earlier run."""
        self.history, self.best_w, self.since_best = history, best_w, since_best
        self.best_score = max((score for _, score in history), default=-math.inf)

    def __call__(self, progress: Progress) -> bool:
        """Compute the score every ``every`` iterations; return True to stop the run."""
        if progress.iteration % self.every != 0:
            return False
        score = float(self.score(progress.w))
        self.history.append((progress.iteration, score))
        if score > self.best_score:
            self.best_score, self.best_w = score, progress.w.copy()
            self.since_best = 0
        else:
            self.since_best += 1
        return self.since_best >= self.patience
