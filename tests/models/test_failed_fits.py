"""A fit that fails leaves the estimator as the earlier fit left it.

Each failure comes after the fit has replaced attributes such as ``classes_``, so that a fit without
its rollback leaves a mixture of two models.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trellis
from trellis.errors import InputError

X, Y = [["the", "dog"], ["a", "cat"]] * 3, [["D", "N"]] * 6
OTHER_X, OTHER_Y = [["runs", "x", "y"]] * 4, [["V", "W", "Z"]] * 4
NODES = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
EDGES = np.array([[0, 1], [1, 2]])
PIXELS = np.arange(8.0).reshape(2, 2, 2)


class StopError(Exception):
    """The error of the callback."""


def stop(*_: Any) -> None:
    raise StopError


def make(name: str) -> tuple[Any, Callable[[Any], Any]]:
    """Return a fitted estimator, and a call of fit on other data that fails in the middle."""
    if name in ("CRF", "MEMM"):
        model = getattr(trellis, name)(max_iter=5).fit(X, Y)
        return model, lambda m: m.fit(OTHER_X, OTHER_Y, callback=stop)
    if name == "GraphCRF":
        model = trellis.GraphCRF(max_iter=3).fit([(NODES, EDGES)], [["a", "b", "a"]])
        return model, lambda m: m.fit([(NODES, EDGES)], [["c", "d", "e"]], callback=stop)
    if name == "GridCRF":
        model = trellis.GridCRF(max_iter=3).fit([PIXELS], [[[0, 1], [1, 0]]])
        return model, lambda m: m.fit([PIXELS], [[[2, 3], [4, 2]]], callback=stop)
    pytest.importorskip("torch")
    sizes = {"hidden": 4, "word_dim": 3, "char_dim": 2, "char_hidden": 2, "epochs": 1}
    model = trellis.NeuralTagger(device="cpu", random_state=0, **sizes).fit(X, Y)
    return model, lambda m: m.fit(OTHER_X, OTHER_Y, callback=stop)


@pytest.mark.parametrize("name", ["CRF", "MEMM", "GraphCRF", "GridCRF", "NeuralTagger"])
def test_an_error_of_the_callback(name: str) -> None:
    model, fail = make(name)
    before = dict(vars(model))
    with pytest.raises(StopError):
        fail(model)
    assert vars(model).keys() == before.keys()
    changed = [key for key, value in vars(model).items() if value is not before[key]]
    assert changed == []


def test_an_error_of_the_data_of_an_hmm() -> None:
    """The negative value is noticed after ``features_`` is set."""
    model = trellis.HMM().fit([[{"a": 1.0}]], [["x"]])
    before = dict(vars(model))
    with pytest.raises(InputError, match="negative feature value"):
        model.fit([[{"b": -1.0}]], [["y"]])
    assert {key: value for key, value in vars(model).items() if value is not before[key]} == {}
    assert model.predict([[{"a": 1.0}]]) == [["x"]]
