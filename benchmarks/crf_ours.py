"""Train CRFs with trellis, for the CRF benchmarks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from crf_data import Outcome, Task

from trellis import CRF
from trellis.optim.result import Progress


def model(task: Task, n_jobs: int, max_iter: int) -> CRF:
    """Return a CRF with CRFsuite's objective: l2 = 2 c2, because ours is l2/2 ‖w‖²."""
    transitions = "all" if task.all_transitions else "seen"
    return CRF(
        task.features,
        l1=task.c1,
        l2=2 * task.c2,
        transitions=transitions,
        max_iter=max_iter,
        n_jobs=n_jobs,
    )


def train(task: Task, n_jobs: int, tick: Callable[[], None] = lambda: None) -> tuple[CRF, Outcome]:
    """Return the fitted model and its outcome; `tick` is called after each iteration."""
    last: list[Any] = [None]

    def record(progress: Progress) -> None:
        last[0] = progress
        tick()

    crf = model(task, n_jobs, task.iterations).fit(task.X, task.y, callback=record)
    end: Progress = last[0]
    return crf, Outcome(end.loss, end.iteration, end.evaluations, len(end.w), end.active)


def digest(crf: CRF) -> str:
    """Return a checksum of the bits of the weights."""
    return hashlib.sha256(crf.coef_.tobytes()).hexdigest()[:16]
