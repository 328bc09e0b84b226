"""The objective of a corpus: the sum of the objectives of its shards, by the tree of the engine.

    loss(w) = Σₖ lossₖ(w) + l2/2 ‖w‖²

Each task computes [lossₖ, ∇lossₖ] of its shards in the native core. A corpus of one shard has the
same bits as the same data in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis import _core
from trellis.engines.base import Engine, add_in_place
from trellis.engines.storage import Placed, Shared, checkout, give_back
from trellis.errors import InputError
from trellis.models.chain.problem import Problem
from trellis.models.chain.weights import WeightLayout
from trellis.models.sharded.encoding import ShardData
from trellis.optim.result import Objective, Vector

__all__ = ["CorpusProblem", "Terms"]


@dataclass(frozen=True)
class Terms:
    """The parts of the objective that all shards share."""

    layout: WeightLayout
    by_step: bool
    costs: Any
    forbidden: Any
    start: Any
    end: Any


class CorpusProblem(Problem):
    """The training problem of a corpus."""

    def __init__(
        self,
        engine: Engine,
        placed: list[Placed],
        terms: Terms,
        *,
        l1: float,
        l2: float,
        n_jobs: int | None,
    ) -> None:
        # Only online solvers need the number of sequences.
        super().__init__(None, 0, terms.by_step, l1, l2, n_jobs)
        self.engine, self.placed = engine, placed
        self.size, self.terms = terms.layout.size, Shared(terms)

    def objective(self) -> Objective:
        """Return ``objective(w, gradient) -> loss``, without the L1 term."""
        # With one shard, the core adds the L2 term in the same order as for data in memory.
        l2_of_task = self.l2 if len(self.placed) == 1 else 0.0
        l2 = self.l2 - l2_of_task

        def evaluate(w: Vector, gradient: Vector) -> float:
            total = self.engine.sum(
                evaluate_shard,
                self.placed,
                self.terms,
                w,
                l2_of_task,
                self.engine.task_threads,
                name="gradient",
                add=add_in_place,
                length=self.size + 1,
            )
            np.multiply(w, l2, out=gradient)
            gradient += total[1:]
            return float(total[0]) + 0.5 * l2 * float(w @ w)

        return evaluate


def evaluate_shard(placed: Placed, shared: Shared, w: Vector, l2: float, threads: int) -> Vector:
    """Return [loss, ∇loss] of a shard, (1 + weights,)."""
    key = f"{placed.key}-{shared.key}"
    item = checkout(key, lambda: _build(placed, shared.value))
    objective = item[1]
    result = np.zeros(len(w) + 1)
    if objective is not None:
        result[0] = objective.evaluate(np.asarray(w), l2, threads, result[1:])
        if objective.infeasible >= 0:
            raise InputError(
                "sequence {sequence}: no labelling agrees with its labels and the constraints",
                sequence=objective.infeasible,
            )
    give_back(key, item)
    return result


def _build(placed: Placed, terms: Terms) -> tuple[int, _core.Objective | None]:
    """Return the bytes of the objective of a shard, and the objective; None without sequences."""
    data = ShardData.read(placed)
    batch = data.batch
    if not len(batch.lengths):
        return 0, None
    native = _core.TrainingData(
        terms.layout.native,
        batch.rows.native(),
        None if batch.edges is None else batch.edges.native(),
        batch.row_begin,
        data.label,
        data.allowed,
        data.weight,
        terms.costs,
        terms.forbidden,
        terms.start,
        terms.end,
    )
    return _estimate_bytes(data, terms.layout), _core.Objective(native, terms.by_step)


def _estimate_bytes(data: ShardData, layout: WeightLayout) -> int:
    """Return about the memory of an objective: the data, and its slots of gradients."""
    arrays = [array for array in data.batch.arrays() if array is not None]
    n_bytes = 2 * sum(array.nbytes for array in arrays)
    work = 8 * len(data.batch.rows.id) + 0.25 * len(data.label) * layout.n_labels**2
    slots = min(max(work / (14 * (layout.size + 1)), 2), 16)  # as in gradient_slots.hpp
    return int(n_bytes + slots * 8 * layout.size)
