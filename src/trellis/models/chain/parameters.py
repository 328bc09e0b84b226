"""The parameters of CRF and MEMM: the defaults and the validation of both models."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from trellis.checks import integer_at_least, number_at_least, one_of
from trellis.errors import InputError
from trellis.estimator import Estimator
from trellis.metrics import scorer
from trellis.models.chain.labels import Label, constraints_for
from trellis.models.chain.solvers import check_solver
from trellis.models.chain.weights import STATES, TRANSITIONS
from trellis.native import resolve_jobs

__all__ = ["Parameters", "check_parameters", "label_costs"]


class Parameters(Estimator):
    """The constructor of CRF and MEMM; `CRF` documents each parameter.

    scikit-learn reads the names from the signature and requires that each value is stored
    unchanged. So the values are validated in fit. The command line reads its defaults from the same
    signature.
    """

    normalised_by_step: ClassVar[bool]
    """True if the model is normalised at each step (MEMM), False if over the sequence (CRF)."""

    def __init__(
        self,
        features: Any = None,
        *,
        edge_features: Any = None,
        l2: float = 1.0,
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
    ) -> None:
        self.features = features
        self.edge_features = edge_features
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


def check_parameters(model: Parameters) -> None:
    """Validate the parameters before any data are read.

    >>> from trellis import CRF
    >>> check_parameters(CRF(l1=0.5, solver="sgd"))
    Traceback (most recent call last):
        ...
    trellis.errors.InputError: l1 > 0 needs solver='lbfgs'; sgd has no L1 term
    """
    for name in ("l1", "l2", "min_count"):
        number_at_least(getattr(model, name), 0, name)
    for name in ("solver_options", "label_weight"):
        if not isinstance(getattr(model, name), dict | None):
            raise InputError(f"{name} must be a dict or None, not {getattr(model, name)!r}")
    for name, minimum in (("early_stopping", 1), ("max_iter", 0)):
        if getattr(model, name) is not None:
            integer_at_least(getattr(model, name), minimum, name)
    one_of(model.states, STATES, "states")
    one_of(model.transitions, TRANSITIONS, "transitions")
    check_solver(model.solver, model.solver_options or {}, model.l1, model.normalised_by_step)
    resolve_jobs(model.n_jobs)
    scorer(model.scoring)  # raises InputError for an unknown name
    if isinstance(model.constraints, str):
        # This raises InputError for an unknown scheme. The labels do not matter here.
        constraints_for(model.constraints, ["O"])


def label_costs(
    label_weight: Mapping[Label, float] | None, classes: Sequence[Label]
) -> NDArray[np.float64] | None:
    """log(weight) of each label, shape (labels,); None without ``label_weight``.

    Where a label is correct, its number is added to the scores of all other labels
    (softmax-margin).
    """
    if label_weight is None:
        return None
    for label, weight in label_weight.items():
        if not (isinstance(weight, int | float | np.number) and 0 < weight < np.inf):
            raise InputError(f"label_weight of {label!r} is {weight!r}: must be finite and above 0")
    return np.log([float(label_weight.get(label, 1.0)) for label in classes])
