"""From training data to weights: the objective of a linear chain model and its solver."""

from dataclasses import dataclass
from typing import Any

from trellis import _core
from trellis.errors import InputError
from trellis.features.rows import FeatureBatch
from trellis.models.chain.labels import EncodedLabels, constraints_for
from trellis.models.chain.parameters import Parameters, label_costs
from trellis.models.chain.solvers import SOLVERS, select_arguments
from trellis.models.chain.weights import WeightLayout
from trellis.native import resolve_jobs
from trellis.optim.result import Callback, Objective, Result, Vector

__all__ = ["Problem", "build_problem", "solve"]


@dataclass(eq=False)
class Problem:
    """−Σ weightᵢ log p(yᵢ | xᵢ) + l2/2 ‖w‖² + l1 ‖w‖₁, to be minimised over w."""

    data: _core.TrainingData | None
    """`solve` sets it to None after the core has copied it: two copies need too much memory."""
    sequences: int
    by_step: bool
    """True: p is normalised at each step (MEMM); False: over the sequence (CRF)."""
    l1: float
    l2: float
    n_jobs: int | None

    def objective(self) -> Objective:
        """Return ``objective(w, gradient) -> loss``, without the L1 term."""
        assert self.data is not None
        core = _core.Objective(self.data, self.by_step)
        threads, l2 = resolve_jobs(self.n_jobs), self.l2

        def evaluate(w: Vector, gradient: Vector) -> float:
            loss = core.evaluate(w, l2, threads, gradient)
            # The core must not raise from its threads, so it stores the first infeasible sequence.
            if core.infeasible >= 0:
                raise InputError(
                    "sequence {sequence}: no labelling agrees with its labels and the constraints",
                    sequence=core.infeasible,
                )
            return loss

        return evaluate


def build_problem(
    model: Parameters,
    batch: FeatureBatch,
    labels: EncodedLabels,
    layout: WeightLayout,
    sample_weight: Vector | None,
) -> Problem:
    """Return the training problem: data in the core, and the penalties of the model."""
    limits = constraints_for(model.constraints, labels.classes)
    if limits:
        limits.check(labels, batch.lengths)
    # The C++ constructor takes positional arguments only, in this order.
    data = _core.TrainingData(
        layout.native,
        batch.rows.native(),
        None if batch.edges is None else batch.edges.native(),
        batch.row_begin,
        labels.label,
        labels.allowed,
        sample_weight,
        label_costs(model.label_weight, labels.classes),
        limits.forbidden if limits else None,
        limits.start if limits else None,
        limits.end if limits else None,
    )
    sequences, l1, l2 = len(batch.lengths), float(model.l1), float(model.l2)
    return Problem(data, sequences, model.normalised_by_step, l1, l2, model.n_jobs)


def solve(
    model: Parameters, problem: Problem, w0: Vector, callback: Callback, state: Any
) -> Result[Any]:
    """Run the solver of the model from w0, or from the state of an interrupted run."""
    solver = SOLVERS[model.solver]
    settings = {
        "l1": problem.l1,
        "l2": problem.l2,
        "n_jobs": problem.n_jobs,
        "random_state": model.random_state,
    }
    # lbfgs has an argument l1, sgd has l2. For the other solvers, the objective has the L2 term.
    arguments = select_arguments(solver, settings) | (model.solver_options or {})
    if model.max_iter is not None:
        arguments["max_iter"] = model.max_iter
    if solver.online:
        inputs: tuple[Any, ...] = (_build_learner(model.solver, problem), problem.sequences, w0)
    else:
        inputs = (problem.objective(), w0)
        problem.data = None  # the objective has its own copy of the data
    return solver.minimise(*inputs, callback=callback, state=state, **arguments)


def _build_learner(name: str, problem: Problem) -> _core.Online:
    assert problem.data is not None
    try:
        return _core.Online(problem.data)
    except ValueError as error:  # online solvers need all labels
        raise InputError(f"solver {name!r}: {error}") from None
