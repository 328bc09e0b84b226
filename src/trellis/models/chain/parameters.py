"""The settings of a linear chain model, checked before any data are looked at."""

from typing import Any

import numpy as np

from trellis.checks import as_integer
from trellis.errors import InputError
from trellis.metrics import scorer
from trellis.models.chain.labels import constraints_for
from trellis.models.chain.training import check_solver
from trellis.models.chain.weights import STATES, TRANSITIONS
from trellis.native import resolve_jobs

__all__ = ["check_parameters"]


def check_parameters(model: Any) -> None:
    """Raise for settings that no data can make right.

    >>> from trellis import CRF
    >>> check_parameters(CRF(l1=0.5, solver="sgd"))
    Traceback (most recent call last):
        ...
    trellis.errors.InputError: l1 > 0 needs solver='lbfgs'; sgd has no L1 term
    """
    for name in ("l1", "l2", "min_count"):
        value = getattr(model, name)
        if not (isinstance(value, int | float | np.number) and 0 <= value < np.inf):
            raise InputError(f"{name} must be a finite number of at least 0, not {value!r}")
    for name in ("solver_options", "label_weight"):
        if not isinstance(getattr(model, name), dict | None):
            raise InputError(f"{name} must be a dict or None, not {getattr(model, name)!r}")
    for name, least in (("early_stopping", 1), ("max_iter", 0)):
        value = getattr(model, name)
        if value is not None and as_integer(value, name) < least:
            raise InputError(f"{name} must be at least {least}, not {value}")
    for name, known in (("states", STATES), ("transitions", TRANSITIONS)):
        if getattr(model, name) not in known:
            choice = ", ".join(known)
            raise InputError(f"{name} must be one of {choice}, not {getattr(model, name)!r}")
    check_solver(model.solver, model.solver_options or {}, model.l1, model._by_step)
    resolve_jobs(model.n_jobs)
    scorer(model.scoring)
    if isinstance(model.constraints, str):
        constraints_for(model.constraints, ["O"])
