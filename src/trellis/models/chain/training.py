"""From training data to weights: the objective of a linear chain model and its solver."""

from typing import Any

from trellis import _core
from trellis.errors import InputError
from trellis.features.rows import FeatureBatch
from trellis.models.chain.joint import tie
from trellis.models.chain.labels import EncodedLabels, constraints_for
from trellis.models.chain.parameters import Parameters, choose_l2, label_costs
from trellis.models.chain.problem import Problem
from trellis.models.chain.solvers import SOLVERS, select_arguments
from trellis.models.chain.weights import WeightLayout
from trellis.optim.result import Callback, Result, Vector

__all__ = ["build_problem", "solve"]


def build_problem(
    model: Parameters,
    batch: FeatureBatch,
    labels: EncodedLabels,
    layout: WeightLayout,
    sample_weight: Vector | None,
) -> Problem:
    """Return the training problem: data in the core, and the penalties of the model."""
    constraints = constraints_for(model.constraints, labels.classes)
    if constraints:
        constraints.check(labels, batch.lengths)
    rows, edges, core_layout, matrix = batch.rows, batch.edges, layout, None
    if batch.joint is not None:
        core_layout, rows, edges, matrix = tie(layout, batch)
    # The C++ constructor takes positional arguments only, in this order.
    data = _core.TrainingData(
        core_layout.native,
        rows.native(),
        None if edges is None else edges.native(),
        batch.row_begin,
        labels.label,
        labels.allowed,
        sample_weight,
        label_costs(model.label_weight, labels.classes),
        constraints.forbidden if constraints else None,
        constraints.start if constraints else None,
        constraints.end if constraints else None,
    )
    n_sequences, l1 = len(batch.lengths), float(model.l1)
    l2 = choose_l2(model.l2, labels, batch.lengths, sample_weight)
    return Problem(data, n_sequences, model.normalised_by_step, l1, l2, model.n_jobs, matrix)


def solve(
    model: Parameters, problem: Problem, w0: Vector, callback: Callback | None, state: Any
) -> Result[Any]:
    """Run the solver of the model from w0, or from the state of an interrupted run."""
    solver = SOLVERS[model.solver]
    settings = {
        "l1": problem.l1,
        "l2": problem.l2,
        "n_jobs": problem.n_jobs,
        "random_state": model.random_state,
    }
    # lbfgs has an argument l1, sgd has l2. The objective of solvers that are not online contains
    # the L2 term.
    arguments = select_arguments(solver, settings) | (model.solver_options or {})
    if model.max_iter is not None:
        arguments["max_iter"] = model.max_iter
    if solver.online:
        inputs: tuple[Any, ...] = (_build_learner(model.solver, problem), problem.n_sequences, w0)
    else:
        inputs = (problem.objective(), w0)
    return solver.minimise(*inputs, callback=callback, state=state, **arguments)


def _build_learner(name: str, problem: Problem) -> _core.Online:
    assert problem.data is not None
    try:
        return _core.Online(problem.data)
    except ValueError as error:  # online solvers need all labels
        raise InputError(f"solver {name!r}: {error}") from None
