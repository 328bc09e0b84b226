"""Models of every solver, and fits that halt at an iteration."""

from __future__ import annotations

from typing import Any

import numpy as np

from trellis import CRF, MEMM
from trellis.data import samples
from trellis.models.chain.checkpoint import Checkpoint
from trellis.optim.result import Progress

X, Y = (part[:30] for part in samples.load("train", "music"))
KNOWN = {label for labels in Y for label in labels}
DEV = [
    pair for pair in zip(*samples.load("test", "music"), strict=True) if KNOWN.issuperset(pair[1])
]
DEV_X, DEV_Y = [x for x, _ in DEV], [y for _, y in DEV]
NEVER = 10**9

MODELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "lbfgs": (CRF, {}),
    "lbfgs with limit": (CRF, {"max_iter": 12}),
    "lbfgs with another search": (CRF, {"solver_options": {"linesearch": "backtracking"}}),
    "lbfgs with l1": (CRF, {"l1": 0.4}),
    "gradient": (CRF, {"solver": "gradient", "max_iter": 12}),
    "gradient, fixed step": (
        CRF,
        {"solver": "gradient", "max_iter": 6, "solver_options": {"step": 0.01}},
    ),
    "sgd": (CRF, {"solver": "sgd", "max_iter": 5}),
    "perceptron": (CRF, {"solver": "perceptron"}),
    "passive-aggressive": (CRF, {"solver": "passive-aggressive"}),
    "arow": (CRF, {"solver": "arow"}),
    "memm": (MEMM, {}),
    "memm with l1": (MEMM, {"l1": 0.4}),
    "memm by gradient": (MEMM, {"solver": "gradient", "max_iter": 8}),
}


def make_model(name: str, **changes: Any) -> Any:
    kind, parameters = MODELS[name]
    return kind(**({"random_state": 5} | parameters | changes))


def assert_same_bits(model: Any, expected: Any) -> None:
    """Compare everything that training sets, bit by bit."""
    np.testing.assert_array_equal(model.coef_.view(np.int64), expected.coef_.view(np.int64))
    assert model.losses_ == expected.losses_
    assert model.dev_scores_ == expected.dev_scores_
    assert (model.n_iter_, model.objective_) == (expected.n_iter_, expected.objective_)
    assert model.converged_ == expected.converged_
    assert model.features_.names() == expected.features_.names()


def fit_until(model: Any, checkpoint: Checkpoint, last: int, **fit: Any) -> list[int]:
    """Fit, halt after iteration ``last``, and return the finished iterations."""
    seen: list[int] = []

    def callback(progress: Progress) -> None:
        seen.append(progress.iteration)
        if progress.iteration == last:
            checkpoint.halt()

    model.fit(X, Y, callback=callback, checkpoint=checkpoint, **fit)
    return seen


UNINTERRUPTED: dict[Any, Any] = {}


def fit_uninterrupted(name: str, **changes: Any) -> Any:
    """Return a model that was fitted without interruption; each one is fitted once."""
    fit = {k: changes[k] for k in ("dev", "dev_every") if k in changes}
    parameters = {k: v for k, v in changes.items() if k not in fit}
    key = (name, *sorted(parameters.items()), fit.get("dev_every"), "dev" in fit)
    if key not in UNINTERRUPTED:
        UNINTERRUPTED[key] = make_model(name, **parameters).fit(X, Y, **fit)
    return UNINTERRUPTED[key]
