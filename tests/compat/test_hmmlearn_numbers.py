"""The replacement of hmmlearn against numbers that hmmlearn 0.3.3 computed, and its messages."""

from __future__ import annotations

import json
import logging
from typing import Any

import numpy as np
import pytest
from hmmlearn_models import CASES, COVARS, LENGTHS, NUMBERS, SYMBOLS, VECTORS, make, results

from trellis.compat.hmmlearn import base, hmm, stats, utils
from trellis.errors import InputError

EXPECTED = json.loads(NUMBERS.read_text())


@pytest.mark.parametrize("implementation", ["log", "scaling"])
@pytest.mark.parametrize("name", CASES)
def test_numbers_of_hmmlearn(name: str, implementation: str) -> None:
    numbers = results(name, hmm, implementation=implementation)
    assert numbers.keys() == EXPECTED[name].keys()
    for key, expected in EXPECTED[name].items():
        for value, number in zip(flatten(numbers[key]), flatten(expected), strict=True):
            assert value == pytest.approx(number, rel=1e-8, abs=1e-9), key


def flatten(values: Any) -> list[float]:
    if not isinstance(values, list):
        return [values]
    return [number for value in values for number in flatten(value)]


@pytest.mark.parametrize("letter", "stmc")
def test_parameters_that_are_not_in_params_stay(letter: str) -> None:
    names = {"s": "startprob_", "t": "transmat_", "m": "means_", "c": "_covars_"}
    model = make("gaussian diag", hmm, params="stmc".replace(letter, "") if letter != "m" else "st")
    before = {name: getattr(model, name).copy() for name in names.values()}
    model.fit(VECTORS, LENGTHS)
    changed = {
        code
        for code, name in names.items()
        if not np.array_equal(before[name], getattr(model, name))
    }
    assert changed == set(model.params)


@pytest.mark.parametrize(
    ("name", "parameter", "letter"),
    [
        ("categorical", "emissionprob_", "e"),
        ("multinomial", "emissionprob_", "e"),
        ("poisson", "lambdas_", "l"),
        ("mixture diag", "weights_", "w"),
        ("mixture diag", "means_", "m"),
        ("mixture diag", "covars_", "c"),
    ],
)
def test_emissions_that_are_not_in_params_stay(name: str, parameter: str, letter: str) -> None:
    model = make(name, hmm)
    model.params = model.params.replace(letter, "")
    before = getattr(model, parameter).copy()
    model.fit(CASES[name][3], LENGTHS)
    assert np.array_equal(getattr(model, parameter), before)


def test_first_parameters_are_drawn_and_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    model = make("categorical", hmm, random_state=2)
    model.init_params = "ste"
    with caplog.at_level(logging.WARNING):
        model._init(SYMBOLS, LENGTHS)
    texts = [record.getMessage() for record in caplog.records]
    assert [text.split("'")[1] for text in texts] == ["startprob_", "transmat_", "emissionprob_"]
    assert texts[0].endswith("because 'init_params' contains 's'")
    generator = np.random.RandomState(2)
    np.testing.assert_array_equal(model.startprob_, generator.dirichlet([0.5, 0.5]))
    np.testing.assert_array_equal(model.transmat_, generator.dirichlet([0.5, 0.5], size=2))
    table = np.random.RandomState(2).rand(2, 4)
    np.testing.assert_allclose(model.emissionprob_, table / table.sum(axis=1, keepdims=True))


def test_too_little_data(caplog: pytest.LogCaptureFixture) -> None:
    model = make("gaussian full", hmm)
    model._init(VECTORS[:6], [6])
    assert (
        caplog.records[-1]
        .getMessage()
        .startswith("Fitting a model with 13 free scalar parameters with only 12 data points")
    )
    caplog.clear()
    make("gaussian full", hmm)._init(np.concatenate([VECTORS[:6], [[1.0, 2.0]]]), [7])
    assert not caplog.records


def test_forbidden_transitions_stay_forbidden() -> None:
    model = make("gaussian diag", hmm, params="mct")
    model.startprob_, model.transmat_ = np.array([1.0, 0.0]), np.array([[0.5, 0.5], [0.0, 1.0]])
    model.fit(VECTORS, LENGTHS)
    assert model.startprob_.tolist() == [1.0, 0.0]
    assert model.transmat_[1].tolist() == [0.0, 1.0]
    assert 0 < model.transmat_[0, 0] < 1


def test_a_model_of_a_user() -> None:
    class Exponential(base.BaseHMM):
        def _compute_log_likelihood(self, X: Any) -> Any:
            return np.log(self.rates_) - X * self.rates_

        def _initialize_sufficient_statistics(self) -> Any:
            return super()._initialize_sufficient_statistics() | {"sum": 0.0, "weight": 0.0}

        def _accumulate_sufficient_statistics(self, stats: Any, X: Any, *rest: Any) -> None:
            super()._accumulate_sufficient_statistics(stats, X, *rest)
            stats["sum"] += rest[1].T @ X[:, 0]
            stats["weight"] += rest[1].sum(axis=0)

        def _do_mstep(self, stats: Any) -> None:
            super()._do_mstep(stats)
            self.rates_ = stats["weight"] / stats["sum"]

    generator = np.random.default_rng(0)
    X = np.concatenate([generator.exponential(s, size=(50, 1)) for s in (1.0, 20.0, 1.0, 20.0)])
    model = Exponential(2, init_params="", n_iter=30)
    model.startprob_, model.transmat_ = [0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]]
    model.rates_ = np.array([2.0, 0.01])
    model.fit(X, [100, 100])
    history = np.array(model.monitor_.history)
    assert (np.diff(history) > -1e-9).all()
    assert history[-1] > history[0] + 10
    assert 1 / model.rates_ == pytest.approx([1.0, 20.0], rel=0.3)

    class OfLikelihood(base.BaseHMM):
        def _compute_likelihood(self, X: Any) -> Any:
            return np.exp(-X * [[1.0, 0.1]]) * [[1.0, 0.1]]

    other = OfLikelihood(2)
    other.startprob_, other.transmat_ = model.startprob_, model.transmat_
    model.rates_ = np.array([1.0, 0.1])
    assert other.score(X) == pytest.approx(model.score(X))
    np.testing.assert_allclose(model._compute_likelihood(X), other._compute_likelihood(X))
    with pytest.raises(NotImplementedError):
        base.BaseHMM(2)._compute_log_likelihood(X)
    with pytest.raises(NotImplementedError):
        base.BaseHMM(2)._compute_likelihood(X)


# ---- the monitor


def test_monitor_converges_by_gain_and_by_iterations() -> None:
    monitor = base.ConvergenceMonitor(tol=0.5, n_iter=4, verbose=False)
    for value, expected in ((-9.0, False), (-8.5, False), (-8.0, False)):
        monitor.report(value)
        assert monitor.converged is expected
    monitor.report(-7.0)
    assert monitor.converged  # by iterations
    monitor._reset()
    assert (monitor.iter, list(monitor.history)) == (0, [])
    monitor.report(-2.0)
    monitor.report(-1.6)
    assert monitor.converged
    assert repr(monitor) == (
        "ConvergenceMonitor(\n    history=[-2.0, -1.6],\n    iter=2,\n    n_iter=4,\n"
        "    tol=0.5,\n    verbose=False,\n)"
    )


def test_monitor_reports(capsys: Any, caplog: pytest.LogCaptureFixture) -> None:
    monitor = base.ConvergenceMonitor(tol=0.5, n_iter=4, verbose=True)
    monitor.report(-2.0)
    monitor.report(-2.25)
    assert capsys.readouterr().err == (
        "         1      -2.00000000             +nan\n"
        "         2      -2.25000000      -0.25000000\n"
    )
    assert [record.getMessage() for record in caplog.records] == [
        "Model is not converging.  Current: -2.25 is not greater than -2.0. Delta is -0.25"
    ]


def test_a_monitor_of_a_user_stops_the_training() -> None:
    class Twice(base.ConvergenceMonitor):
        @property
        def converged(self) -> bool:
            return self.iter == 2

    model = make("gaussian diag", hmm, n_iter=9)
    model.monitor_ = Twice(0.0, 9, False)
    assert model.fit(VECTORS, LENGTHS).monitor_.iter == 2


# ---- wrong arguments


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [
        ("startprob_", [1.0], "startprob_ must have length n_components"),
        ("startprob_", [0.5, 0.6], r"startprob_ must sum to 1 \(got 1.1000\)"),
        ("transmat_", np.eye(3), r"transmat_ must have shape \(n_components, n_components\)"),
        ("transmat_", np.ones((2, 2)), r"transmat_ rows must sum to 1 \(got row sums of"),
        ("covariance_type", "round", "covariance_type must be one of"),
    ],
)
def test_wrong_parameters(attribute: str, value: Any, message: str) -> None:
    model = make("gaussian diag", hmm)
    setattr(model, attribute, value)
    with pytest.raises(ValueError, match=message):
        model._check()


COVARIANCE_MESSAGES = [
    ("spherical", [1.0], "'spherical' covars have length n_components"),
    ("spherical", [1.0, 0.0], "'spherical' covars must be positive"),
    ("diag", [1.0, 2.0], r"'diag' covars must have shape \(n_components, n_dim\)"),
    ("diag", [[1.0, 0.0]], "'diag' covars must be positive"),
    ("tied", [[1.0, 2.0]], r"'tied' covars must have shape \(n_dim, n_dim\)"),
    ("tied", [[1.0, 2.0], [2.0, 1.0]], "'tied' covars must be symmetric, positive-definite"),
    ("tied", [[1.0, 0.5], [0.0, 1.0]], "'tied' covars must be symmetric, positive-definite"),
    ("full", [[1.0]], r"'full' covars must have shape \(n_components, n_dim, n_dim\)"),
    ("full", [[[1.0, 2.0]]], r"'full' covars must have shape \(n_components, n_dim, n_dim\)"),
    ("full", [[[1.0]], [[0.0]]], "component 1 of 'full' covars must be symmetric, positive-def"),
    ("round", [1.0], "covariance_type must be one of 'spherical', 'tied', 'diag', 'full'"),
]


@pytest.mark.parametrize(("kind", "value", "message"), COVARIANCE_MESSAGES)
def test_wrong_covariances(kind: str, value: Any, message: str) -> None:
    model = hmm.GaussianHMM(2, covariance_type=kind)
    with pytest.raises(ValueError, match=message):
        model.covars_ = value


@pytest.mark.parametrize(
    ("kind", "attribute", "change", "message"),
    [
        (
            "diag",
            "weights_",
            lambda a: a[:1],
            r"weights_ must have shape .* actual shape: \(1, 2\)",
        ),
        ("diag", "weights_", lambda a: a * 2, "weights_ rows must sum to 1"),
        ("diag", "means_", lambda a: a[:1], r"means_ must have shape .* actual shape: \(1, 2, 2\)"),
        ("diag", "covars_", lambda a: a[:1], r"'diag' mixture covars must have shape \(2, 2, 2\)"),
        ("diag", "covars_", lambda a: -a, "'diag' mixture covars must be non-negative"),
        ("full", "covars_", lambda a: -a, "state #0, mixture #0 is not positive definite"),
        (
            "full",
            "covars_",
            lambda a: a + np.array([[0, 1], [0, 0]]),
            "mixture #0 is not symmetric",
        ),
        ("tied", "covars_", lambda a: -a, "Covariance of state #0 is not positive definite"),
    ],
)
def test_wrong_mixtures(kind: str, attribute: str, change: Any, message: str) -> None:
    model = make(f"mixture {kind}", hmm)
    setattr(model, attribute, change(getattr(model, attribute)))
    with pytest.raises(ValueError, match=message):
        model._check()


@pytest.mark.parametrize("kind", ["diag", "tied", "full"])
def test_degenerate_mixtures(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    model = make(f"mixture {kind}", hmm)
    model.covars_ = np.zeros_like(model.covars_)
    model._check()
    text = "Degenerate mixture covariance" if kind == "diag" else "has a null eigenvalue."
    assert caplog.records[0].getMessage().endswith(text)


def test_wrong_data() -> None:
    categorical = make("categorical", hmm)
    for X, message in (
        (np.array([[0.5]]), "Symbols should be integers"),
        (np.array([[-1]]), "Symbols should be nonnegative"),
    ):
        with pytest.raises(ValueError, match=message):
            categorical._check_and_set_n_features(X)
    categorical.n_features = 4
    categorical._check_and_set_n_features(np.array([[3]]))
    with pytest.raises(ValueError, match="Largest symbol is 4 but the model only emits symbols up"):
        categorical._check_and_set_n_features(np.array([[4]]))
    with pytest.raises(ValueError, match=r"lengths array \[3, 4\] doesn't sum to 12 samples"):
        make("gaussian diag", hmm).score(VECTORS, [3, 4])
    model = make("gaussian diag", hmm).fit(VECTORS, LENGTHS)
    with pytest.raises(ValueError, match="Unexpected number of dimensions, got 1 but expected 2"):
        model.fit(VECTORS[:, :1], LENGTHS)
    with pytest.raises(ValueError, match="Unknown decoder 'best'"):
        make("gaussian diag", hmm).decode(VECTORS, algorithm="best")
    with pytest.raises(KeyError, match="fast"):
        make("gaussian diag", hmm, implementation="fast").score(VECTORS)


@pytest.mark.parametrize("name", CASES)
def test_groups_of_sequences_have_the_same_statistics(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, lengths = np.tile(CASES[name][3], (3, 1)), LENGTHS * 3
    model = make(name, hmm)
    model._check()
    assert len(list(base._split(X, lengths, 2))) == 1
    expected, expected_log_p = model._do_estep(X, lengths)
    for size in (1, 2 * lengths[0], 2 * sum(LENGTHS)):
        monkeypatch.setattr(base, "_GROUP", size)
        groups = list(base._split(X, lengths, 2))
        assert len(groups) > 1
        np.testing.assert_array_equal(np.concatenate([rows for rows, _ in groups]), X)
        assert np.concatenate([part for _, part in groups]).tolist() == lengths
        stats, log_p = model._do_estep(X, lengths)
        assert log_p == pytest.approx(expected_log_p, rel=1e-12)
        for key, value in expected.items():
            np.testing.assert_allclose(stats[key], value, rtol=1e-11, atol=1e-13, err_msg=key)
    with pytest.raises(ValueError, match="doesn't sum"):
        model._do_estep(X, [1, 2])
    with pytest.raises(ValueError, match=r"lengths\[1\] is 0: each sequence needs at least one"):
        model._do_estep(X, [6, 0, *lengths[1:]])


def test_parameters_of_nan() -> None:
    model = make("gaussian diag", hmm)
    model.means_ = model.means_.copy()
    model.means_[1] = np.nan
    with pytest.raises(InputError, match="log-likelihoods of state 1 of GaussianHMM are nan: its"):
        model.score(VECTORS, LENGTHS)
    model.init_params = ""
    with pytest.raises(InputError, match="fewer components or another random_state"):
        model.fit(VECTORS, LENGTHS)


def test_multinomial_trials() -> None:
    model = make("multinomial", hmm)
    for X, message in (
        (
            np.array([[2, 2, 0]]),
            "Total count for each sample should add up to the number of trials",
        ),
        (np.array([[6, -1, 0]]), "Symbol counts should be nonnegative integers"),
        (np.array([[2.5, 2.5, 0.0]]), "Symbol counts should be nonnegative integers"),
    ):
        with pytest.raises(ValueError, match=message):
            model._check_and_set_n_features(X)
    for trials in (None, [4, 5]):
        model.n_trials = trials
        with pytest.raises(ValueError, match="n_trials"):
            model.sample(2)
    model.emissionprob_ = np.array([[0.0, 0.5, 0.5], [0.2, 0.4, 0.4]])
    assert np.isneginf(
        model._compute_log_likelihood(np.array([[1, 2, 2], [0, 3, 2]]))
    ).tolist() == [
        [True, False],
        [False, False],
    ]


def test_scaling_underflows() -> None:
    model = make("gaussian spherical", hmm, implementation="scaling")
    far = np.array([[0.0, 0.0], [36.5, 0.0], [0.0, 0.0]])
    assert np.isfinite(model.score(far))
    far[1, 0] = 60.0
    with pytest.raises(ValueError, match="underflow; consider using implementation='log' instead"):
        model.score(far)
    model.implementation = "log"
    assert np.isfinite(model.score(far))


def test_poisson_of_no_counts_and_rate_zero() -> None:
    model = make("poisson", hmm)
    model.lambdas_ = np.array([[0.0, 2.0], [5.0, 6.0]])
    logs = model._compute_log_likelihood(np.array([[1, 2], [0, 2], [0.5, 2], [-1, 2]]))
    assert np.isneginf(logs).tolist() == [[True, False], [False] * 2, [True] * 2, [True] * 2]
    assert logs[1, 0] == pytest.approx(2 * np.log(2) - 2 - np.log(2))


# ---- functions


def test_functions() -> None:
    a = np.array([[1.0, 3.0], [0.0, 0.0]])
    b = a.copy()
    utils.normalize(a, axis=1)
    assert a.tolist() == [[0.25, 0.75], [0.0, 0.0]]
    utils.normalize(b)
    assert b.tolist() == [[0.25, 0.75], [0.0, 0.0]]
    single = np.array([[-np.inf], [2.0]])
    utils.log_normalize(single, axis=1)
    assert single.tolist() == [[0.0], [0.0]]
    logs = np.log([[1.0, 3.0], [2.0, 2.0]])
    utils.log_normalize(logs, axis=1)
    np.testing.assert_allclose(np.exp(logs), [[0.25, 0.75], [0.5, 0.5]])
    eye = np.eye(2)
    for kind, covars in COVARS.items():
        matrices = utils.fill_covars(covars, kind, 2, 2)
        for n in range(2):
            entry = covars if kind == "tied" else covars[n]
            np.testing.assert_array_equal(
                matrices[n], entry * eye if kind in ("diag", "spherical") else entry
            )


@pytest.mark.parametrize("kind", COVARS)
def test_density_by_its_definition(kind: str) -> None:
    means = np.array([[0.0, 0.5], [4.0, 5.0]])
    logs = stats.log_multivariate_normal_density(VECTORS, means, COVARS[kind], kind)
    matrices = utils.fill_covars(COVARS[kind], kind, 2, 2)
    for j in range(2):
        difference = VECTORS - means[j]
        form = np.einsum("ti,ij,tj->t", difference, np.linalg.inv(matrices[j]), difference)
        expected = -0.5 * (form + np.log(np.linalg.det(2 * np.pi * matrices[j])))
        np.testing.assert_allclose(logs[:, j], expected)


def test_density_of_degenerate_matrices() -> None:
    X, means = np.array([[0.0, 0.0], [1.0, 0.0]]), np.zeros((1, 2))
    zero = stats.log_multivariate_normal_density(X, means, np.zeros((1, 2, 2)), "full")
    np.testing.assert_allclose(zero[0], -np.log(2 * np.pi) - np.log(1e-7))
    with pytest.raises(ValueError, match="'covars' must be symmetric, positive-definite"):
        stats.log_multivariate_normal_density(X, means, -np.eye(2)[None], "full")
    logs = stats.log_multivariate_normal_density(X, means, np.zeros((1, 2)), "diag")
    assert logs[0, 0] == pytest.approx(-np.log(2 * np.pi) - np.log(np.finfo(float).tiny))
