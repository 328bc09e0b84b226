"""Warnings name the line of the user: without it, nobody sees which call they come from."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import trellis

MANY = [[f"word{n}" for n in range(1001)]]
ROWS = np.array([[0.0], [1.0], [2.0], [3.0]])


def _fit_grid() -> Any:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2, 6, 6, 2)), rng.integers(2, size=(2, 6, 6))
    return trellis.GridCRF(l2=1e-3, max_sweeps=1, max_iter=20).fit([*X], [*y])


def _import_old_path() -> None:
    sys.modules.pop("trellis.nn.words_base", None)
    import trellis.nn.words_base  # type: ignore[import-not-found]  # noqa: F401


def _read_old_name() -> Any:
    from trellis import compat

    return compat.FACES


CALLS: dict[str, tuple[Callable[[], Any], type[Warning]]] = {
    "HMM with many labels": (lambda: trellis.HMM().fit(MANY, MANY), UserWarning),
    "CRF with many labels": (
        lambda: trellis.CRF(max_iter=1, transitions="none").fit(MANY, MANY),
        UserWarning,
    ),
    "classes that a line separates": (
        lambda: trellis.LogisticRegression(l2=0.0).fit(ROWS, [0, 0, 1, 1]),
        ConvergenceWarning,
    ),
    "too few iterations": (
        lambda: trellis.SoftmaxRegression(max_iter=1).fit(ROWS, [0, 2, 1, 1]),
        ConvergenceWarning,
    ),
    "messages on a grid": (_fit_grid, ConvergenceWarning),
    "a moved module": (_import_old_path, DeprecationWarning),
    "a renamed constant": (_read_old_name, DeprecationWarning),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_line_of_the_caller(name: str) -> None:
    call, kind = CALLS[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert {warning.filename for warning in caught if warning.category is kind} == {__file__}
