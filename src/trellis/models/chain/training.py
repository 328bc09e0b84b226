"""From data to weights: the solvers of linear chain models by name."""

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.errors import InputError
from trellis.native import resolve_jobs
from trellis.optim import LbfgsState, gradient_ascent, lbfgs
from trellis.optim.arow import arow
from trellis.optim.gradient import GradientState
from trellis.optim.online import OnlineState
from trellis.optim.passive_aggressive import passive_aggressive
from trellis.optim.perceptron import perceptron
from trellis.optim.result import Callback, Result, Vector
from trellis.optim.sgd import sgd

__all__ = [
    "ONLINE_SOLVERS",
    "SOLVERS",
    "Problem",
    "check_solver",
    "default_max_iter",
    "state_of",
    "train",
]

_ONLINE = {
    "sgd": sgd,
    "perceptron": perceptron,
    "passive-aggressive": passive_aggressive,
    "arow": arow,
}
_FUNCTIONS: dict[str, Any] = {"lbfgs": lbfgs, "gradient": gradient_ascent, **_ONLINE}
SOLVERS = tuple(_FUNCTIONS)
ONLINE_SOLVERS = tuple(_ONLINE)


@dataclass(eq=False)
class Problem:
    """−Σ weightᵢ log p(yᵢ | xᵢ) + l2/2 ‖w‖², as the core computes it."""

    data: _core.TrainingData | None
    """Let go by `train` once it is in the objective, which has it in a form of its own."""
    sequences: int
    by_step: bool
    l1: float
    l2: float
    n_jobs: int | None

    def objective(self) -> Any:
        """``objective(w, gradient) -> loss`` for the optimisers."""
        assert self.data is not None
        loss, threads, l2 = (
            _core.Objective(self.data, self.by_step),
            resolve_jobs(self.n_jobs),
            self.l2,
        )

        def evaluate(w: Vector, gradient: Vector) -> float:
            value = loss.evaluate(w, l2, threads, gradient)
            bad = loss.infeasible
            if bad >= 0:
                raise InputError(
                    f"sequence {bad}: no labelling is allowed by its labels and the constraints"
                )
            return value

        return evaluate


def train(
    problem: Problem,
    w0: NDArray[np.float64],
    solver: str,
    options: dict[str, Any],
    max_iter: int | None,
    callback: Callback | None,
    random_state: Any,
    state: Any,
) -> Result[Any]:
    """Run a solver; ``options`` are further arguments of its function in `trellis.optim`."""
    options = dict(options)
    if max_iter is not None:
        options["max_iter"] = max_iter
    if solver in ("lbfgs", "gradient"):
        objective, problem.data = problem.objective(), None
    if solver == "lbfgs":
        return lbfgs(
            objective,
            w0,
            l1=problem.l1,
            n_jobs=problem.n_jobs,
            callback=callback,
            state=state,
            **options,
        )
    if solver == "gradient":
        return gradient_ascent(objective, w0, callback=callback, state=state, **options)
    if solver == "sgd":
        options["l2"] = problem.l2
    assert problem.data is not None
    try:
        learner = _core.Online(problem.data)
    except ValueError as error:
        raise InputError(f"solver {solver!r}: {error}") from None
    run: Any = _ONLINE[solver]
    result: Result[Any] = run(
        learner,
        problem.sequences,
        w0,
        callback=callback,
        random_state=random_state,
        state=state,
        **options,
    )
    return result


def default_max_iter(solver: str) -> int | None:
    """Return the number of iterations after which a solver stops by default; None for no limit."""
    limit: int | None = inspect.signature(_FUNCTIONS[solver]).parameters["max_iter"].default
    return limit


def state_of(solver: str, arrays: dict[str, Any], size: int) -> Any:
    """The state of a solver for so many weights, from arrays that may come from anywhere."""
    if solver in _ONLINE:
        online = OnlineState.from_arrays(arrays)
        online.check(solver, size)
        return online
    state: Any = (LbfgsState if solver == "lbfgs" else GradientState).from_arrays(arrays)
    if state.w.shape != (size,):
        raise InputError(f"the state has {len(state.w)} weights, not {size}")
    return state


def check_solver(solver: str, options: dict[str, Any], l1: float, by_step: bool) -> None:
    """Raise if there is no such solver, or if it is not for such a model or for these options."""
    if solver not in SOLVERS:
        raise InputError(f"solver must be one of {', '.join(SOLVERS)}, not {solver!r}")
    if l1 and solver != "lbfgs":
        raise InputError(f"l1 > 0 needs solver='lbfgs'; {solver} has no L1 term")
    if by_step and solver in _ONLINE:
        raise InputError(f"solver {solver!r} is for models normalised over the sequence")
    # what fit gives a solver itself
    own = {"objective", "w0", "learner", "sequences", "l1", "l2", "n_jobs", "callback", "state"}
    known = set(inspect.signature(_FUNCTIONS[solver]).parameters) - own - {"random_state"}
    unknown = sorted(set(options) - known)
    if unknown:
        raise InputError(f"solver {solver!r} has no option {unknown[0]!r}: {sorted(known)}")
