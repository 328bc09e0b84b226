"""The replacement of hmmlearn against hmmlearn itself, where it is installed: same seeds."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from trellis.compat import hmmlearn as ours

theirs_hmm = pytest.importorskip("hmmlearn.hmm", reason="hmmlearn is not installed")

LENGTHS = [40, 1, 25, 34]
rng = np.random.default_rng(0)
STATES = np.repeat(rng.integers(3, size=20), 5)
VECTORS = rng.normal(size=(100, 2)) + 4.0 * STATES[:, None]
SYMBOLS = ((STATES + rng.integers(2, size=100)) % 4)[:, None]
COUNTS = rng.poisson(1.0 + 4.0 * STATES[:, None], size=(100, 2))
TRIALS = rng.multinomial(6, [0.2, 0.3, 0.5], size=100)
TRIALS[STATES == 0] = TRIALS[STATES == 0][:, ::-1]
KINDS = ("diag", "full", "tied", "spherical")
NAMES = ("startprob_", "transmat_", "means_", "covars_", "weights_", "emissionprob_", "lambdas_")

CASES: dict[str, tuple[str, dict[str, Any], Any]] = {
    **{f"gaussian {kind}": ("GaussianHMM", {"covariance_type": kind}, VECTORS) for kind in KINDS},
    **{
        f"mixture {kind}": ("GMMHMM", {"covariance_type": kind, "n_mix": 2}, VECTORS)
        for kind in KINDS
    },
    "gaussian, priors": (
        "GaussianHMM",
        {
            "startprob_prior": 2.0,
            "transmat_prior": 3.0,
            "means_prior": 1.0,
            "means_weight": 2.0,
            "covars_prior": 0.5,
            "covars_weight": 4.0,
        },
        VECTORS,
    ),
    "gaussian, full, priors": (
        "GaussianHMM",
        {
            "covariance_type": "full",
            "means_prior": 1.0,
            "means_weight": 2.0,
            "covars_prior": 0.5,
            "covars_weight": 4.0,
        },
        VECTORS,
    ),
    "mixture, priors": (
        "GMMHMM",
        {
            "n_mix": 2,
            "weights_prior": 2.0,
            "means_prior": 1.0,
            "means_weight": 0.5,
            "covars_prior": 1.0,
            "covars_weight": 0.7,
        },
        VECTORS,
    ),
    "gaussian, only means": ("GaussianHMM", {"params": "m"}, VECTORS),
    "categorical": ("CategoricalHMM", {}, SYMBOLS),
    "categorical, priors": ("CategoricalHMM", {"emissionprob_prior": 1.5}, SYMBOLS),
    "categorical, 6 symbols": ("CategoricalHMM", {"n_features": 6}, SYMBOLS),
    "multinomial": ("MultinomialHMM", {}, TRIALS),
    "poisson": ("PoissonHMM", {}, COUNTS),
    "poisson, priors": ("PoissonHMM", {"lambdas_prior": 2.0, "lambdas_weight": 3.0}, COUNTS),
}


def fitted(name: str, module: Any, **settings: Any) -> Any:
    cls, case_settings, X = CASES[name]
    model = getattr(module, cls)(3, random_state=3, n_iter=6, **case_settings, **settings)
    return model.fit(X, LENGTHS)


@pytest.mark.parametrize("implementation", ["log", "scaling"])
@pytest.mark.parametrize("name", CASES)
def test_same_training(name: str, implementation: str) -> None:
    first = fitted(name, ours.hmm, implementation=implementation)
    second = fitted(name, theirs_hmm, implementation=implementation)
    for attribute in NAMES:
        assert hasattr(first, attribute) == hasattr(second, attribute)
        if hasattr(first, attribute):
            np.testing.assert_allclose(
                getattr(first, attribute), getattr(second, attribute), rtol=1e-7, atol=1e-9
            )
    np.testing.assert_allclose(first.monitor_.history, second.monitor_.history, rtol=1e-10)
    assert first.monitor_.iter == second.monitor_.iter
    assert first.n_features == second.n_features


@pytest.mark.parametrize("name", CASES)
def test_same_results(name: str) -> None:
    first, second = fitted(name, ours.hmm), fitted(name, theirs_hmm)
    X = CASES[name][2]
    for lengths in (LENGTHS, None):
        assert first.score(X, lengths) == pytest.approx(second.score(X, lengths), rel=1e-9)
        for algorithm in (None, "map", "viterbi"):
            log_prob, states = first.decode(X, lengths, algorithm)
            expected, expected_states = second.decode(X, lengths, algorithm)
            assert log_prob == pytest.approx(expected, rel=1e-9)
            assert np.array_equal(states, expected_states)
        log_prob, p = first.score_samples(X, lengths)
        assert log_prob == pytest.approx(second.score(X, lengths), rel=1e-9)
        np.testing.assert_allclose(p, second.predict_proba(X, lengths), atol=1e-7)
        assert first.aic(X, lengths) == pytest.approx(second.aic(X, lengths))
        assert first.bic(X, lengths) == pytest.approx(second.bic(X, lengths))
    np.testing.assert_allclose(
        first.get_stationary_distribution(), second.get_stationary_distribution(), atol=1e-9
    )


@pytest.mark.parametrize("name", CASES)
def test_same_samples(name: str) -> None:
    first, second = fitted(name, ours.hmm), fitted(name, theirs_hmm)
    if "multinomial" in name:
        first.n_trials = second.n_trials = 6
    for arguments in ({"random_state": 1}, {"random_state": 5, "currstate": 1}):
        X, states = first.sample(20, **arguments)
        expected, expected_states = second.sample(20, **arguments)
        assert np.array_equal(states, expected_states)
        np.testing.assert_allclose(X, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_same_arguments(name: str) -> None:
    cls = CASES[name][0]
    assert getattr(ours.hmm, cls)().get_params() == getattr(theirs_hmm, cls)().get_params()
    assert "random_state" in clone(getattr(ours.hmm, cls)(2, random_state=1)).get_params()


def test_functions_of_the_extension_module() -> None:
    from hmmlearn import _hmmc as theirs

    start, transitions = rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3), size=3)
    p = rng.random((7, 3))
    logs = np.log(p)
    log_p, forward = ours._hmmc.forward_log(start, transitions, logs)
    expected_log_p, expected = theirs.forward_log(start, transitions, logs)
    assert log_p == pytest.approx(expected_log_p)
    np.testing.assert_allclose(forward, expected)
    backward = ours._hmmc.backward_log(start, transitions, logs)
    np.testing.assert_allclose(backward, theirs.backward_log(start, transitions, logs))
    pairs = ours._hmmc.compute_log_xi_sum(forward, transitions, backward, logs)
    np.testing.assert_allclose(
        pairs, theirs.compute_log_xi_sum(forward, transitions, backward, logs)
    )
    scaled = ours._hmmc.forward_scaling(start, transitions, p)
    for first, second in zip(scaled, theirs.forward_scaling(start, transitions, p), strict=True):
        np.testing.assert_allclose(first, second)
    backward = ours._hmmc.backward_scaling(start, transitions, p, scaled[2])
    np.testing.assert_allclose(backward, theirs.backward_scaling(start, transitions, p, scaled[2]))
    np.testing.assert_allclose(
        ours._hmmc.compute_scaling_xi_sum(scaled[1], transitions, backward, p), np.exp(pairs)
    )
    best = theirs.viterbi(start, transitions, logs)
    score, states = ours._hmmc.viterbi(start, transitions, logs)
    assert score == pytest.approx(best[0])
    assert np.array_equal(states, best[1])


def test_models_can_be_pickled() -> None:
    model = fitted("gaussian diag", ours.hmm)
    again = pickle.loads(pickle.dumps(model))
    assert again.score(VECTORS, LENGTHS) == model.score(VECTORS, LENGTHS)
