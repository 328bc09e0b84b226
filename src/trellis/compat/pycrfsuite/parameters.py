"""The parameters of CRFsuite's algorithms: names, types, defaults and what they mean."""

from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["ALGORITHMS", "ALIASES", "TYPES", "Parameter", "parameters_of"]


class Parameter(NamedTuple):
    """One of an algorithm's parameters, whose type is that of its default."""

    name: str
    default: float | int | str
    help: str


def _as_bool(value: Any) -> bool:
    return bool(int(value))


_SHARED = (
    Parameter("feature.minfreq", 0.0, "Features whose values sum to less are dropped."),
    Parameter("feature.possible_states", 0, "Weights for all pairs of attribute and label."),
    Parameter("feature.possible_transitions", 0, "Weights for all pairs of labels."),
)
_C2 = Parameter("c2", 1.0, "Strength of the L2 penalty: c2 times the sum of the squared weights.")
_PERIOD = Parameter("period", 10, "Iterations over which the loss is compared.")
_EPOCHS = Parameter("max_iterations", 100, "Passes over the data at most.")
_MEAN_LOSS = Parameter("epsilon", 0.0, "Training ends when the mean loss is below this.")

ALGORITHMS: dict[str, tuple[Parameter, ...]] = {
    "lbfgs": (
        Parameter("c1", 0.0, "Strength of the L1 penalty: c1 times the sum of absolute weights."),
        _C2,
        Parameter("max_iterations", 2**31 - 1, "Iterations of L-BFGS at most."),
        Parameter("num_memories", 6, "Steps that L-BFGS remembers."),
        Parameter("epsilon", 1e-5, "Converged when the gradient is this small beside the weights."),
        _PERIOD,
        Parameter("delta", 1e-5, "Training ends when the loss falls by less than this share."),
        Parameter("linesearch", "MoreThuente", "MoreThuente, Backtracking or StrongBacktracking."),
        Parameter("max_linesearch", 20, "Steps that a line search tries at most."),
    ),
    "l2sgd": (
        _C2,
        Parameter("max_iterations", 1000, "Passes over the data at most."),
        _PERIOD,
        Parameter("delta", 1e-6, "Training ends when the loss falls by less than this share."),
        Parameter("calibration.eta", 0.1, "The first learning rate that is tried."),
        Parameter("calibration.rate", 2.0, "The factor between learning rates that are tried."),
        Parameter("calibration.samples", 1000, "Sequences that a trial goes over."),
        Parameter("calibration.candidates", 10, "Learning rates that must lower the loss."),
        Parameter("calibration.max_trials", 20, "Learning rates that are tried at most."),
    ),
    "averaged-perceptron": (
        _EPOCHS,
        Parameter("epsilon", 0.0, "Training ends when the share of wrong labels is below this."),
    ),
    "passive-aggressive": (
        Parameter("type", 1, "0: no slack; 1: steps have a limit; 2: steps are softened."),
        Parameter("c", 1.0, "How far a step may go."),
        Parameter("error_sensitive", 1, "Whether the margin grows with the wrong labels."),
        Parameter("averaging", 1, "Whether the result is the average of all weights."),
        _EPOCHS,
        _MEAN_LOSS,
    ),
    "arow": (
        Parameter("variance", 1.0, "The first variance of each weight."),
        Parameter("gamma", 1.0, "How much the past counts against a new mistake."),
        _EPOCHS,
        _MEAN_LOSS,
    ),
}
"""What each algorithm takes, after the parameters of the features."""

ALIASES = {"ap": "averaged-perceptron", "pa": "passive-aggressive"}

TYPES: dict[str, Callable[[Any], Any]] = {
    "feature.possible_states": _as_bool,
    "feature.possible_transitions": _as_bool,
    "error_sensitive": _as_bool,
    "averaging": _as_bool,
    "calibration.samples": float,
}
"""How a parameter is given back, where that is not its own type."""


def parameters_of(algorithm: str) -> dict[str, Parameter]:
    """By name, those of the features first."""
    return {p.name: p for p in (*_SHARED, *ALGORITHMS[algorithm])}
