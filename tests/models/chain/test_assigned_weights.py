"""Weights that are assigned after fit are used, and weights cannot be changed in place."""

from __future__ import annotations

import pickle
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

import trellis
from trellis.errors import InputError

X = [["the", "dog", "barks"], ["a", "cat", "sleeps"], ["the", "cat", "barks"]]
Y = [["D", "N", "V"]] * 3


@pytest.mark.parametrize("cls", [trellis.CRF, trellis.MEMM])
def test_assigned_weights_change_the_predictions(cls: Any) -> None:
    model = cls(l2=0.1).fit(X, Y)
    before = model.predict_marginals(X)[0]
    assert before.max() > 0.8
    w = np.zeros(len(model.coef_))
    model.coef_ = w
    np.testing.assert_allclose(model.predict_marginals(X)[0], 1 / 3)
    assert not model.transition_scores().any()
    w[0] = 9.0  # the model has a copy
    assert not model.coef_.any()
    model.coef_ = list(range(len(w)))
    assert model.coef_.dtype == np.float64
    assert model.coef_[-1] == len(w) - 1


@pytest.mark.parametrize("cls", [trellis.CRF, trellis.MEMM])
def test_weights_are_read_only(cls: Any) -> None:
    fitted = cls(l2=0.1, max_iter=3).fit(X, Y)
    fitted.predict(X)
    w = fitted.coef_.copy()
    for model in (fitted, pickle.loads(pickle.dumps(fitted)), deepcopy(fitted)):
        with pytest.raises(ValueError, match="read-only"):
            model.coef_[:] = 0
        with pytest.raises(ValueError, match="read-only"):
            model.coef_ *= 2
        assert model.coef_.any()
        model.coef_ = model.coef_ * 2
        np.testing.assert_array_equal(model.coef_, 2 * w)


def test_wrong_weights() -> None:
    model = trellis.CRF(l2=0.1, max_iter=3).fit(X, Y)
    n = len(model.coef_)
    with pytest.raises(InputError, match=rf"coef_ has shape \({n + 1},\): must be \({n},\)"):
        model.coef_ = np.zeros(n + 1)
    w = np.zeros(n)
    w[2] = np.nan
    with pytest.raises(InputError, match="coef_ has nan at index 2: must be finite"):
        model.coef_ = w
    assert model.coef_.any()
    with pytest.raises(AttributeError, match="MEMM has no coef_ before fit"):
        trellis.MEMM().coef_  # noqa: B018


def test_probabilities_of_an_hmm_can_be_changed() -> None:
    hmm = trellis.HMM().fit(X, Y)
    before = hmm.predict_marginals(X)[0]
    hmm.transitions_[:] = 1 / 3
    hmm.start_ = np.full(3, 1 / 3)
    hmm.emissions_[:] = np.log(0.2)
    np.testing.assert_allclose(hmm.predict_marginals(X)[0], 1 / 3)
    assert before.max() > 0.8


@pytest.mark.parametrize("cls", [trellis.CRF, trellis.MEMM, trellis.HMM])
def test_a_flat_sentence(cls: Any) -> None:
    model = cls().fit(X, Y)
    for method in (model.predict, model.predict_marginals, model.predict_spans):
        with pytest.raises(InputError, match=r"X is one sequence, not a list .* write \[X\]"):
            method(["the", "dog", "barks"])
