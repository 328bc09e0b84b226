"""Sample weights and label weights with the online solvers."""

import numpy as np
import pytest

from trellis import CRF
from trellis.errors import InputError

X = [["a", "b", "a"], ["b", "a"], ["c"]]
Y = [["P", "Q", "Q"], ["Q", "P"], ["P"]]


@pytest.mark.parametrize("solver", ["perceptron", "passive-aggressive", "arow"])
def test_a_sample_weight_scales_the_update(solver: str) -> None:
    model = CRF(solver=solver, max_iter=1, random_state=0)
    once = model.fit(X[:1], Y[:1]).coef_.copy()
    assert np.any(once)
    np.testing.assert_allclose(model.fit(X[:1], Y[:1], sample_weight=[3.0]).coef_, 3.0 * once)
    assert not np.any(model.fit(X[:1], Y[:1], sample_weight=[0.0]).coef_)


@pytest.mark.parametrize("solver", ["sgd", "perceptron", "passive-aggressive", "arow"])
def test_label_weights_raise_an_error(solver: str) -> None:
    with pytest.raises(InputError, match="label_weight"):
        CRF(solver=solver, label_weight={"P": 2.0}).fit(X, Y)


@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        (CRF(solver_options={"zzz": 1}), {}, "zzz"),
        (CRF(early_stopping="2"), {"dev": (X, Y)}, "early_stopping"),
        (CRF(early_stopping=0), {"dev": (X, Y)}, "early_stopping"),
        (CRF(), {"callback": 5}, "callback"),
    ],
)
def test_invalid_arguments_of_fit(model: CRF, arguments: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        model.fit(X, Y, **arguments)
