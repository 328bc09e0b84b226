"""The solvers of linear chain models. To add a solver, add an entry to `SOLVERS`.

`CRF(solver=…)`, its validation, its checkpoints and the command line all read this table.
"""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from trellis.checks import one_of
from trellis.errors import InputError
from trellis.optim import LbfgsState, gradient_ascent, lbfgs
from trellis.optim.arow import arow
from trellis.optim.gradient import GradientState
from trellis.optim.online import OnlineState
from trellis.optim.passive_aggressive import passive_aggressive
from trellis.optim.perceptron import perceptron
from trellis.optim.result import Result
from trellis.optim.sgd import sgd

__all__ = [
    "ONLINE_SOLVERS",
    "SOLVERS",
    "Solver",
    "check_solver",
    "default_max_iter",
    "restore_state",
    "select_arguments",
]


class Solver(NamedTuple):
    """A solver of `trellis.optim`, and the models and penalties that it supports."""

    minimise: Callable[..., Result[Any]]
    """``minimise(objective, w0, …)``, or ``minimise(learner, sequences, w0, …)`` if online."""
    state: Any
    """The class of its state, which has ``from_arrays``."""
    online: bool = False
    """True if it updates the weights after each sequence. Such a solver cannot train a MEMM."""
    l1: bool = False
    """True if it can minimise an L1 penalty."""
    l2: bool = True
    """True if it can minimise an L2 penalty. The command line has --l2 only for such solvers."""


SOLVERS: dict[str, Solver] = {
    "lbfgs": Solver(lbfgs, LbfgsState, l1=True),  # OWL-QN if there is an L1 penalty
    "gradient": Solver(gradient_ascent, GradientState),
    "sgd": Solver(sgd, OnlineState, online=True),
    "perceptron": Solver(perceptron, OnlineState, online=True, l2=False),
    "passive-aggressive": Solver(passive_aggressive, OnlineState, online=True, l2=False),
    "arow": Solver(arow, OnlineState, online=True, l2=False),
}
ONLINE_SOLVERS = tuple(name for name, solver in SOLVERS.items() if solver.online)

# Arguments of a solver that fit sets. The user may set all other arguments in solver_options.
_SET_BY_FIT = {
    *("objective", "w0", "learner", "sequences", "callback", "state"),
    *("l1", "l2", "n_jobs", "random_state"),
}


def check_solver(name: Any, options: dict[str, Any], l1: float, by_step: bool) -> None:
    """Raise InputError if the solver is unknown, or does not support an option, L1 or the model."""
    solver = SOLVERS[one_of(name, SOLVERS, "solver")]
    if l1 and not solver.l1:
        alternatives = " or ".join(
            f"solver={solver_name!r}" for solver_name, entry in SOLVERS.items() if entry.l1
        )
        raise InputError(f"l1 > 0 needs {alternatives}; {name} has no L1 term")
    if by_step and solver.online:
        raise InputError(
            f"solver {name!r} cannot train a MEMM: it needs a model normalised over the sequence"
        )
    known_options = sorted(set(inspect.signature(solver.minimise).parameters) - _SET_BY_FIT)
    for option in sorted(set(options) - set(known_options)):
        raise InputError(
            f"solver {name!r} has no option {option!r}: must be one of {', '.join(known_options)}"
        )


def default_max_iter(name: str) -> int | None:
    """Return the number of iterations after which a solver stops by default; None for no limit."""
    limit: int | None = inspect.signature(SOLVERS[name].minimise).parameters["max_iter"].default
    return limit


def select_arguments(solver: Solver, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return only the arguments that the function of a solver has."""
    parameters = inspect.signature(solver.minimise).parameters
    return {name: value for name, value in arguments.items() if name in parameters}


def restore_state(name: str, arrays: dict[str, Any], size: int) -> Any:
    """Return the state of a solver for ``size`` weights, from arrays of an untrusted file."""
    state = SOLVERS[name].state.from_arrays(arrays)
    if isinstance(state, OnlineState):
        state.check(name, size)
    elif state.w.shape != (size,):
        raise InputError(f"the state of the solver has {len(state.w)} weights, expected {size}")
    return state
