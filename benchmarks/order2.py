"""Compare CRFs of first and second order: span F1, and seconds per iteration beside CRFsuite.

    python benchmarks/order2.py                  # CoNLL-2000 chunking, CoNLL-2002 Spanish; an hour
    python benchmarks/order2.py --only cost      # minutes

For F1, both orders are trained with each l2 of a grid on the training set. The l2 with the best F1
on the development set is chosen, for each order alone, and its model is scored on the test set.
CoNLL-2000 has no development set: it is every tenth sentence of the training set, which is not
trained on. The cost is that of CRFsuite's example features and, for Spanish, of sklearn-crfsuite's
tutorial, on one thread. CRFsuite has first order only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import crf_ours
import crf_peers
from crf_data import Task
from crf_train import chunking_task, spanish_task
from decoding import TASKS, load, percent
from sections import run_sections
from timing import Table, check_close, milliseconds, ratio, time_iterations

from trellis import CRF
from trellis.metrics import accuracy, span_scores

PENALTIES = (0.1, 0.2, 0.5, 1.0, 2.0)
ORDERS = (1, 2)
ITERATIONS = 100


def quality(quick: bool) -> list[Table]:
    """Return F1 of both orders on the development and the test set."""
    columns = ["corpus", "order", "l2", "dev F1", "test accuracy", "test P", "test R", "test F1"]
    table = Table("Span F1 of first and second order, in percent", [*columns, "weights", "states"])
    for task in TASKS[:2]:
        train, dev, test = load(task, quick)
        for order in ORDERS:
            best: tuple[float, Any] = (-1.0, None)
            for l2 in PENALTIES:
                settings = {"l2": l2, "order": order, "max_iter": ITERATIONS, "n_jobs": 1}
                model = CRF(task.model.features, **settings).fit(train.X, train.y)
                f1 = span_scores(dev.y, model.predict(dev.X)).f1
                print(f"{task.name}, order {order}, l2 {l2:g}: dev F1 {100 * f1:.2f}", flush=True)
                if f1 > best[0]:
                    best = (f1, model)
            f1, model = best
            predicted = model.predict(test.X)
            report = span_scores(test.y, predicted)
            rates = (report.precision, report.recall, report.f1)
            values = percent(f1, accuracy(test.y, predicted), *rates)
            sizes = (len(model.coef_), len(model.label_states_))
            table.add(task.name, order, model.l2, *values, *sizes)
            print(*values, flush=True)
    return [table]


def cost(quick: bool) -> list[Table]:
    """Return the milliseconds per iteration of CRFsuite and of both orders, in turns."""
    columns = ["corpus", "model", "weights", "ms / iteration", "of CRFsuite's"]
    table = Table("An iteration of second order beside CRFsuite's first order", columns)
    for task in (chunking_task(quick), spanish_task(quick)):
        trainer = crf_peers.trainer_for(task)
        crf_peers.append(trainer, task.items, task.y)
        trainings: dict[str, Callable[[Callable[[], None]], Any]]
        trainings = {"CRFsuite": lambda tick, trainer=trainer: crf_peers.train(trainer, tick)}  # type: ignore[misc]
        for order in ORDERS:
            trainings[f"order {order}"] = lambda tick, task=task, order=order: train(  # type: ignore[misc]
                task, order, tick
            )
        times, ends = time_iterations(trainings, turn=5)
        check_close(task.name, ends["order 1"].objective_, ends["CRFsuite"].loss, 1e-3)
        weights = {name: len(ends[name].coef_) for name in trainings if name != "CRFsuite"}
        weights["CRFsuite"] = ends["CRFsuite"].weights
        for name in trainings:
            part = ratio(times[name], times["CRFsuite"])
            table.add(task.name, name, weights[name], milliseconds(times[name]), part)
        table.keep(task.name, times)
    table.notes.append("one thread; medians of iterations in turns")
    return [table]


def train(task: Task, order: int, tick: Callable[[], None]) -> CRF:
    """Return a model of this order with the objective of the task, fitted on one thread."""
    model = crf_ours.model(task, 1, task.iterations).set_params(order=order)
    return model.fit(task.X, task.y, callback=lambda _: tick())


if __name__ == "__main__":
    packages = ["trellis", "numpy", "python-crfsuite"]
    run_sections(__doc__ or "", packages, {"cost": cost, "quality": quality})
