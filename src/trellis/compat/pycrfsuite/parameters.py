"""The parameters of CRFsuite's algorithms: names, types, defaults and descriptions."""

from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["ALGORITHMS", "ALIASES", "TYPES", "Parameter", "parameters_of"]


class Parameter(NamedTuple):
    """A parameter of an algorithm; its type is that of its default."""

    name: str
    default: float | int | str
    help: str


def _as_bool(value: Any) -> bool:
    return bool(int(value))


# The descriptions are ours. Names, order, types and defaults are those of CRFsuite.
_SHARED = (
    Parameter("feature.minfreq", 0.0, "Features with a smaller sum of values are ignored."),
    Parameter("feature.possible_states", 0, "Weights for all pairs of attribute and label."),
    Parameter("feature.possible_transitions", 0, "Weights for all pairs of labels."),
)
_C2 = Parameter("c2", 1.0, "Strength of the L2 penalty: c2 times the sum of the squared weights.")
_PERIOD = Parameter(
    "period", 10, "Number of iterations over which the decrease of the loss is measured."
)
_EPOCHS = Parameter("max_iterations", 100, "Maximum number of passes over the data.")
_MEAN_LOSS = Parameter("epsilon", 0.0, "Training stops when the mean loss is below this value.")

ALGORITHMS: dict[str, tuple[Parameter, ...]] = {
    "lbfgs": (
        Parameter("c1", 0.0, "Strength of the L1 penalty: c1 times the sum of absolute weights."),
        _C2,
        Parameter("max_iterations", 2**31 - 1, "Maximum number of iterations of L-BFGS."),
        Parameter("num_memories", 6, "Number of past steps that L-BFGS uses."),
        Parameter(
            "epsilon", 1e-5, "Training stops when gradient norm / weight norm is below this."
        ),
        _PERIOD,
        Parameter(
            "delta", 1e-5, "Training stops when the relative decrease of the loss is smaller."
        ),
        Parameter("linesearch", "MoreThuente", "MoreThuente, Backtracking or StrongBacktracking."),
        Parameter("max_linesearch", 20, "Maximum number of steps of a line search."),
    ),
    "l2sgd": (
        _C2,
        Parameter("max_iterations", 1000, "Maximum number of passes over the data."),
        _PERIOD,
        Parameter(
            "delta", 1e-6, "Training stops when the relative decrease of the loss is smaller."
        ),
        Parameter("calibration.eta", 0.1, "Learning rate of the first trial."),
        Parameter("calibration.rate", 2.0, "Factor between the learning rates of two trials."),
        Parameter("calibration.samples", 1000, "Number of sequences in a trial."),
        Parameter(
            "calibration.candidates", 10, "Number of learning rates that must lower the loss."
        ),
        Parameter("calibration.max_trials", 20, "Maximum number of trials."),
    ),
    "averaged-perceptron": (
        _EPOCHS,
        Parameter(
            "epsilon", 0.0, "Training stops when the fraction of wrong labels is below this."
        ),
    ),
    "passive-aggressive": (
        Parameter("type", 1, "0: PA without slack; 1: PA-I; 2: PA-II."),
        Parameter("c", 1.0, "Aggressiveness: limits the size of a step."),
        Parameter("error_sensitive", 1, "1: the margin grows with the number of wrong labels."),
        Parameter("averaging", 1, "1: return the average of the weights of all steps."),
        _EPOCHS,
        _MEAN_LOSS,
    ),
    "arow": (
        Parameter("variance", 1.0, "Initial variance of each weight."),
        Parameter("gamma", 1.0, "Trade-off between old weights and a new mistake."),
        _EPOCHS,
        _MEAN_LOSS,
    ),
}
"""The parameters of each algorithm, without those of the features."""

ALIASES = {"ap": "averaged-perceptron", "pa": "passive-aggressive"}

TYPES: dict[str, Callable[[Any], Any]] = {
    "feature.possible_states": _as_bool,
    "feature.possible_transitions": _as_bool,
    "error_sensitive": _as_bool,
    "averaging": _as_bool,
    "calibration.samples": float,
}
"""Types that `Trainer.get` returns, if they differ from the type of the default."""


def parameters_of(algorithm: str) -> dict[str, Parameter]:
    """Return the parameters of an algorithm by name. The parameters of the features come first."""
    return {p.name: p for p in (*_SHARED, *ALGORITHMS[algorithm])}
