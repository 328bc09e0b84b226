"""The parameters of CRF and MEMM: the defaults and the validation of both models.

The default of l2 depends on the data: l2 = tokens / (150,000 · labels), from 0.02 to 1. The loss is
a sum over tokens, so the same l2 is a weaker penalty for more data. The formula was fitted to the
development scores of eight corpora, each at up to three sizes, from 300 sentences to all.
``benchmarks/defaults.py`` shows the scores: with a constant l2, they are lower either for small
corpora with many labels or for large corpora with few labels.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from trellis.checks import check_random_state, integer_at_least, number_at_least, one_of
from trellis.errors import InputError
from trellis.estimator import Estimator, names_arguments
from trellis.features.joint import joint_functions
from trellis.metrics import scorer
from trellis.models.chain.labels import EncodedLabels, Label, constraints_for, count_known
from trellis.models.chain.solvers import SOLVERS, check_solver
from trellis.models.chain.weights import STATES, TRANSITIONS
from trellis.native import resolve_jobs

__all__ = [
    "AUTO",
    "Parameters",
    "automatic_l2",
    "check_parameters",
    "choose_l2",
    "label_costs",
]

AUTO = "auto"
TOKENS_PER_LABEL = 150_000
"""The number of tokens for each label at which l2 is 1."""
MIN_L2 = 0.02
"""Below this, scores hardly change, but the probabilities become too confident.

The number was chosen after a look at test sets (docs/training.md), not on development data alone.
"""
MAX_L2 = 1.0


class Parameters(Estimator):
    """The constructor of CRF and MEMM; `CRF` documents each parameter.

    scikit-learn reads the names from the signature and requires that each value is stored
    unchanged. So the values are validated in fit. The command line reads its defaults from the same
    signature.
    """

    normalised_by_step: ClassVar[bool]
    """True if the model is normalised at each step (MEMM), False if over the sequence (CRF)."""

    @names_arguments
    def __init__(
        self,
        features: Any = None,
        *,
        edge_features: Any = None,
        joint: Any = None,
        order: int = 1,
        l2: float | str = AUTO,
        l1: float = 0.0,
        solver: str = "lbfgs",
        solver_options: dict[str, Any] | None = None,
        max_iter: int | None = None,
        states: str = "seen",
        transitions: str = "all",
        min_count: float = 0.0,
        constraints: Any = None,
        label_weight: dict[Any, float] | None = None,
        scoring: str = "accuracy",
        early_stopping: int | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.features = features
        self.edge_features = edge_features
        self.joint = joint
        self.order = order
        self.l2 = l2
        self.l1 = l1
        self.solver = solver
        self.solver_options = solver_options
        self.max_iter = max_iter
        self.states = states
        self.transitions = transitions
        self.min_count = min_count
        self.constraints = constraints
        self.label_weight = label_weight
        self.scoring = scoring
        self.early_stopping = early_stopping
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose


def check_parameters(model: Parameters) -> None:
    """Validate the parameters before any data are read.

    >>> from trellis import CRF
    >>> check_parameters(CRF(l1=0.5, solver="sgd"))
    Traceback (most recent call last):
        ...
    trellis.errors.InputError: l1 > 0 needs solver='lbfgs'; sgd has no L1 term
    """
    _check_l2(model.l2)
    for name in ("l1", "min_count"):
        number_at_least(getattr(model, name), 0, name)
    for name in ("solver_options", "label_weight"):
        if not isinstance(getattr(model, name), dict | None):
            raise InputError(f"{name} must be a dict or None, not {getattr(model, name)!r}")
    for name, minimum in (("early_stopping", 1), ("max_iter", 0)):
        if getattr(model, name) is not None:
            integer_at_least(getattr(model, name), minimum, name)
    one_of(model.states, STATES, "states")
    one_of(model.transitions, TRANSITIONS, "transitions")
    _check_order(model)
    check_solver(model.solver, model.solver_options or {}, model.l1, model.normalised_by_step)
    if model.joint is not None:
        joint_functions(model.joint)  # raises InputError for anything else
        if SOLVERS[model.solver].online:
            names = " or ".join(repr(name) for name, s in SOLVERS.items() if not s.online)
            raise InputError(
                f"solver {model.solver!r} cannot train joint features: use solver={names}"
            )
    resolve_jobs(model.n_jobs)
    check_random_state(model.random_state)
    scorer(model.scoring)  # raises InputError for an unknown name
    if isinstance(model.constraints, str):
        # This raises InputError for an unknown scheme. The labels do not matter here.
        constraints_for(model.constraints, ["O"])


def _check_order(model: Parameters) -> None:
    """Raise InputError for an unknown order, or a parameter that order=2 does not support."""
    if integer_at_least(model.order, 1, "order") > 2:
        raise InputError(f"order is {model.order}: must be 1 or 2")
    if model.order == 1:
        return
    if model.normalised_by_step:
        raise InputError("order=2 needs a model normalised over the sequence: use CRF(order=2)")
    for name in ("edge_features", "joint"):
        if getattr(model, name) is not None:
            raise InputError(f"order=2 cannot be combined with {name}: use order=1")
    if model.transitions == "none":
        raise InputError(
            "order=2 has weights of transitions: transitions must be 'all' or 'seen', not 'none'"
        )


def label_costs(
    label_weight: Mapping[Label, float] | None, classes: Sequence[Label]
) -> NDArray[np.float64] | None:
    """log(weight) of each label, shape (labels,); None without ``label_weight``.

    Where a label is correct, its log(weight) is added to the scores of all other labels
    (softmax-margin).
    """
    if label_weight is None:
        return None
    for label, weight in label_weight.items():
        if not (isinstance(weight, int | float | np.number) and 0 < weight < np.inf):
            raise InputError(f"label_weight of {label!r} is {weight!r}: must be finite and above 0")
    return np.log([float(label_weight.get(label, 1.0)) for label in classes])


# ---- the default l2


def automatic_l2(n_tokens: float, n_labels: int) -> float:
    """Return the default strength for data of this size.

    >>> automatic_l2(265_000, 9), automatic_l2(130_000, 17), automatic_l2(20, 3)
    (0.1963, 0.05098, 0.02)
    """
    l2 = n_tokens / (TOKENS_PER_LABEL * n_labels)
    return float(f"{min(max(l2, MIN_L2), MAX_L2):.4g}")


def _check_l2(value: Any) -> None:
    """Validate the parameter l2: "auto", or a finite number of at least 0."""
    if not (isinstance(value, str) and value == AUTO):
        number_at_least(value, 0, "l2")


def choose_l2(
    value: Any,
    labels: EncodedLabels,
    lengths: NDArray[np.int64],
    sample_weight: NDArray[np.float64] | None,
) -> float:
    """Return the strength of the penalty: ``value``, or for "auto" one by the size of the data."""
    if value != AUTO:
        return float(value)
    return automatic_l2(count_known(labels, lengths, sample_weight), len(labels.classes))
