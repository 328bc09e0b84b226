"""The objective of a model that an online solver trained."""

from __future__ import annotations

from typing import Any

import pytest

from trellis import CRF

X = [["the", "dog", "barks"], ["a", "cat", "sleeps"], ["the", "cat", "barks"], ["dog", "a"]]
Y = [["DET", "NOUN", "VERB"]] * 3 + [["NOUN", "DET"]]


def objective(crf: CRF) -> float:
    """−Σ log p(yᵢ | xᵢ) + l2/2 ‖w‖² of the weights of a model."""
    w = [entry.weight for entry in [*crf.top_features(None), *crf.transitions_]]
    return -sum(crf.log_likelihood(X, Y)) + crf.l2_ / 2 * sum(weight**2 for weight in w)


@pytest.mark.parametrize("options", [{}, {"l2": 0.3}, {"early_stopping": 1}])
def test_the_objective_of_sgd_is_that_of_its_weights(options: dict[str, Any]) -> None:
    """It was the mean of losses on the way, of weights that were replaced since."""
    crf = CRF(solver="sgd", max_iter=3, random_state=0, **options).fit(X, Y, dev=(X, Y))
    assert crf.objective_ == pytest.approx(objective(crf), rel=1e-12)
    if "early_stopping" in options:
        assert crf.n_iter_ < len(crf.losses_)
    assert crf.objective_ != dict(crf.losses_)[crf.n_iter_]
    # lbfgs at the same weights has the same objective.
    batch = CRF(warm_start=True, max_iter=3, l2=crf.l2_).fit(X, Y)
    assert batch.objective_ == pytest.approx(objective(batch), rel=1e-12)


def test_the_objective_of_other_online_solvers_is_their_loss() -> None:
    crf = CRF(solver="perceptron", max_iter=3, random_state=0).fit(X, Y)
    assert crf.objective_ == dict(crf.losses_)[crf.n_iter_] == round(crf.objective_)
