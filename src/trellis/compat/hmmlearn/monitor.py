"""`ConvergenceMonitor`: the log-likelihood of each iteration, and when to stop."""

import logging
import sys
from collections import deque
from typing import Any

import numpy as np

__all__ = ["ConvergenceMonitor"]

_logger = logging.getLogger(__name__)
_ROUNDING = np.finfo(float).eps ** 0.5  # log p(x) may fall by less without a warning


class ConvergenceMonitor:
    """The attribute ``monitor_`` of a model. A subclass may define another ``converged``.

    >>> monitor = ConvergenceMonitor(tol=0.1, n_iter=10, verbose=False)
    >>> for log_prob in (-5.0, -4.0, -3.95):
    ...     monitor.report(log_prob)
    >>> monitor.converged, monitor.iter, list(monitor.history)
    (True, 3, [-5.0, -4.0, -3.95])
    """

    _template = "{iter:>10d} {log_prob:>16.8f} {delta:>+16.8f}"

    def __init__(self, tol: float, n_iter: int, verbose: bool) -> None:
        self.tol = tol
        self.n_iter = n_iter
        self.verbose = verbose
        self.history: deque[float] = deque()
        self.iter = 0

    def __repr__(self) -> str:
        values: dict[str, Any] = {**vars(self), "history": list(self.history)}
        lines = [f"    {name}={values[name]},\n" for name in sorted(values)]
        return f"{type(self).__name__}(\n{''.join(lines)})"

    def _reset(self) -> None:
        self.iter = 0
        self.history.clear()

    def report(self, log_prob: float) -> None:
        """Add the log-likelihood of one iteration; with ``verbose``, print it to stderr."""
        delta = log_prob - self.history[-1] if self.history else np.nan
        if self.verbose:
            line = self._template.format(iter=self.iter + 1, log_prob=log_prob, delta=delta)
            print(line, file=sys.stderr)
        if delta < -_ROUNDING:
            _logger.warning(
                "Model is not converging.  Current: %s is not greater than %s. Delta is %s",
                log_prob,
                self.history[-1],
                delta,
            )
        self.history.append(log_prob)
        self.iter += 1

    @property
    def converged(self) -> bool:
        """Whether EM should stop: at n_iter iterations, or if the last gain is below tol."""
        if self.iter == self.n_iter:
            return True
        return len(self.history) >= 2 and self.history[-1] - self.history[-2] < self.tol
