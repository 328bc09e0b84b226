"""Models of every solver, and fits that halt at an iteration."""

from __future__ import annotations

from typing import Any

import numpy as np

from trellis import CRF, MEMM
from trellis.data import samples
from trellis.models.chain.checkpoint import Checkpoint
from trellis.optim.result import Progress

X, Y = (part[:30] for part in samples.load("train", "music"))
KNOWN = {label for own in Y for label in own}
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


def made(name: str, **more: Any) -> Any:
    kind, parameters = MODELS[name]
    return kind(**({"random_state": 5} | parameters | more))


def same(found: Any, expected: Any) -> None:
    """Bit for bit, in all that training leaves behind."""
    np.testing.assert_array_equal(found.coef_.view(np.int64), expected.coef_.view(np.int64))
    assert found.losses_ == expected.losses_
    assert found.dev_scores_ == expected.dev_scores_
    assert (found.n_iter_, found.objective_) == (expected.n_iter_, expected.objective_)
    assert found.converged_ == expected.converged_
    assert found.features_.names() == expected.features_.names()


def stopped(model: Any, checkpoint: Checkpoint, at: int, **fit: Any) -> list[int]:
    """Fit until an iteration, halt there, and list the iterations that were made."""
    seen: list[int] = []

    def callback(progress: Progress) -> None:
        seen.append(progress.iteration)
        if progress.iteration == at:
            checkpoint.halt()

    model.fit(X, Y, callback=callback, checkpoint=checkpoint, **fit)
    return seen


WHOLE: dict[Any, Any] = {}


def whole(name: str, **more: Any) -> Any:
    """The model that was never stopped; made once."""
    fit = {k: more[k] for k in ("dev", "dev_every") if k in more}
    own = {k: v for k, v in more.items() if k not in fit}
    key = (name, *sorted(own.items()), fit.get("dev_every"), "dev" in fit)
    if key not in WHOLE:
        WHOLE[key] = made(name, **own).fit(X, Y, **fit)
    return WHOLE[key]
