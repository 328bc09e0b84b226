"""The functions of hmmlearn's extension module against enumeration, and first parameters."""

from __future__ import annotations

import itertools
import logging
from typing import Any

import numpy as np
import pytest
from hmmlearn_models import CASES, LENGTHS, VECTORS, make

from trellis.compat.hmmlearn import _hmmc, base, hmm

START = np.array([0.3, 0.7])
TRANSITIONS = np.array([[0.9, 0.1], [0.25, 0.75]])
FRAMES = np.array([[0.2, 0.5], [0.4, 0.1], [0.3, 0.6], [0.05, 0.9]])


def joint(path: tuple[int, ...], begin: int = 0) -> float:
    """p(x_begin …, y_begin … | y_begin-1 or the start), without the first transition."""
    p = 1.0
    for t, state in enumerate(path):
        p *= FRAMES[begin + t, state]
        if t:
            p *= TRANSITIONS[path[t - 1], state]
    return p


PATHS = [*itertools.product((0, 1), repeat=len(FRAMES))]
TOTAL = sum(START[path[0]] * joint(path) for path in PATHS)


def forward(t: int, state: int) -> float:
    """p(x₀ … xₜ, yₜ) by enumeration."""
    paths = itertools.product((0, 1), repeat=t + 1)
    return sum(START[path[0]] * joint(path) for path in paths if path[-1] == state)


def backward(t: int, state: int) -> float:
    """p(xₜ₊₁ … | yₜ) by enumeration."""
    paths = itertools.product((0, 1), repeat=len(FRAMES) - 1 - t)
    return sum(
        (TRANSITIONS[state, path[0]] if path else 1.0) * joint(path, t + 1) for path in paths
    )


def pair_count(a: int, b: int) -> float:
    """Σₜ p(yₜ₋₁ = a, yₜ = b | x) by enumeration."""
    return sum(
        START[path[0]] * joint(path) / TOTAL * [*itertools.pairwise(path)].count((a, b))
        for path in PATHS
    )


FORWARD = np.array([[forward(t, y) for y in (0, 1)] for t in range(len(FRAMES))])
BACKWARD = np.array([[backward(t, y) for y in (0, 1)] for t in range(len(FRAMES))])
PAIRS = np.array([[pair_count(a, b) for b in (0, 1)] for a in (0, 1)])


def test_recursions_with_logarithms() -> None:
    logs = np.log(FRAMES)
    log_p, log_forward = _hmmc.forward_log(START, TRANSITIONS, logs)
    assert log_p == pytest.approx(np.log(TOTAL))
    np.testing.assert_allclose(log_forward, np.log(FORWARD))
    log_backward = _hmmc.backward_log(START, TRANSITIONS, logs)
    np.testing.assert_allclose(log_backward, np.log(BACKWARD), atol=1e-12)
    log_pairs = _hmmc.compute_log_xi_sum(log_forward, TRANSITIONS, log_backward, logs)
    np.testing.assert_allclose(log_pairs, np.log(PAIRS))


def test_recursions_with_factors() -> None:
    log_p, scaled, factors = _hmmc.forward_scaling(START, TRANSITIONS, FRAMES)
    assert log_p == pytest.approx(np.log(TOTAL))
    np.testing.assert_allclose(scaled, FORWARD / FORWARD.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(np.cumprod(factors), 1.0 / FORWARD.sum(axis=1))
    scaled_backward = _hmmc.backward_scaling(START, TRANSITIONS, FRAMES, factors)
    products = np.cumprod(factors[::-1])[::-1]
    np.testing.assert_allclose(scaled_backward, BACKWARD * products[:, None])
    pairs = _hmmc.compute_scaling_xi_sum(scaled, TRANSITIONS, scaled_backward, FRAMES)
    np.testing.assert_allclose(pairs, PAIRS)


def test_the_best_path() -> None:
    best = max(PATHS, key=lambda path: START[path[0]] * joint(path))
    log_p, states = _hmmc.viterbi(START, TRANSITIONS, np.log(FRAMES))
    assert tuple(states) == best
    assert log_p == pytest.approx(np.log(START[best[0]] * joint(best)))


def test_forbidden_transitions_and_underflow() -> None:
    transitions = np.array([[1.0, 0.0], [0.5, 0.5]])
    log_p, _ = _hmmc.forward_log([1.0, 0.0], transitions, np.log(FRAMES))
    assert log_p == pytest.approx(np.log(FRAMES[:, 0]).sum())
    small = np.full((1, 2), 1e-300)
    log_p = _hmmc.forward_scaling([1.0, 0.0], transitions, small)[0]
    assert log_p == pytest.approx(np.log(1e-300))
    with pytest.raises(ValueError, match="forward pass failed with underflow; consider using"):
        _hmmc.forward_scaling([1.0, 0.0], transitions, small / 2)


@pytest.mark.parametrize("kind", ["spherical", "diag", "tied", "full"])
def test_first_covariances_of_gaussians(kind: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3)) * [1.0, 2.0, 3.0]
    model = hmm.GaussianHMM(2, kind, min_covar=0.5, random_state=0, n_iter=0).fit(X)
    matrix = np.cov(X.T) + 0.5 * np.eye(3)
    expected = {
        "spherical": np.full((2, 3), matrix.mean()),
        "diag": np.array([np.diag(matrix)] * 2),
        "tied": matrix,
        "full": np.array([matrix] * 2),
    }[kind]
    assert model._covars_.shape == expected.shape
    np.testing.assert_allclose(model._covars_, expected)


def test_stationary_distribution() -> None:
    model = make("gaussian diag", hmm)
    p = model.get_stationary_distribution()
    np.testing.assert_allclose(p @ model.transmat_, p)
    assert p.sum() == pytest.approx(1.0)
    model.transmat_ = TRANSITIONS
    np.testing.assert_allclose(model.get_stationary_distribution(), [5 / 7, 2 / 7])
    with pytest.raises(Exception, match="not fitted"):
        hmm.GaussianHMM().get_stationary_distribution()


def test_states_are_those_of_decode() -> None:
    model = make("gaussian diag", hmm)
    for algorithm in ("viterbi", "map"):
        model.algorithm = algorithm
        np.testing.assert_array_equal(
            model.predict(VECTORS, LENGTHS), model.decode(VECTORS, LENGTHS)[1]
        )
    p = model.predict_proba(VECTORS, LENGTHS)
    np.testing.assert_array_equal(model.predict(VECTORS, LENGTHS), p.argmax(axis=1))
    assert model.decode(VECTORS, LENGTHS)[0] == pytest.approx(p.max(axis=1).sum())


@pytest.mark.parametrize(
    ("name", "attribute", "shape", "message"),
    [
        ("poisson", "lambdas_", (3, 2), "lambdas_ must have shape"),
        ("poisson", "lambdas_", (2, 9), "lambdas_ must have shape"),
        ("categorical", "emissionprob_", (3, 4), "emissionprob_ must have shape"),
        ("categorical", "emissionprob_", (2, 9), "emissionprob_ must have shape"),
        ("multinomial", "emissionprob_", (3, 3), "emissionprob_ must have shape"),
    ],
)
def test_shapes_of_emissions(name: str, attribute: str, shape: Any, message: str) -> None:
    model, X = make(name, hmm), CASES[name][3]
    model.fit(X, LENGTHS)
    setattr(model, attribute, np.full(shape, 1.0 / shape[1]))
    with pytest.raises(ValueError, match=message):
        model.score(X, LENGTHS)


def test_an_unknown_type_of_covariances() -> None:
    for model in (make("mixture diag", hmm), make("gaussian diag", hmm)):
        model.covariance_type = "nosuch"
        with pytest.raises(ValueError, match="covariance_type must be one of"):
            model._check()


def test_symbols_of_several_columns_are_deprecated() -> None:
    model = hmm.CategoricalHMM(2, n_features=3, n_iter=1, random_state=0)
    model.fit(np.array([[0], [1], [2], [0]]))
    with pytest.warns(DeprecationWarning, match=r"shape other than \(n_samples, 1\)"):
        p = model._compute_likelihood(np.array([[0, 2]]))
    np.testing.assert_allclose(p, model.emissionprob_.T[[0, 2]])
    np.testing.assert_allclose(
        model._compute_log_likelihood(np.array([[0], [2]])), np.log(model.emissionprob_.T[[0, 2]])
    )


def test_a_state_that_is_left_to_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    """The last state of all sequences has no transition."""
    model = hmm.CategoricalHMM(2, init_params="", n_iter=3, tol=-np.inf, random_state=0)
    model.startprob_ = np.array([1.0, 0.0])
    model.transmat_ = np.array([[0.5, 0.5], [0.5, 0.5]])
    model.emissionprob_ = np.array([[1.0, 0.0], [0.0, 1.0]])
    with caplog.at_level(logging.WARNING):
        model.fit(np.array([[0], [1]] * 4), [2] * 4)
    texts = {record.getMessage() for record in caplog.records}
    assert any(text.startswith("Some rows of transmat_ have zero sum because") for text in texts)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        make("categorical", hmm).fit(CASES["categorical"][3], LENGTHS)
    assert not any("zero sum" in record.getMessage() for record in caplog.records)


def test_samples_without_emissions() -> None:
    model = base.BaseHMM(2, random_state=0)
    model.startprob_, model.transmat_ = np.array([0.0, 1.0]), np.array([[0.0, 1.0], [1.0, 0.0]])
    rows, states = model.sample(5)
    assert states.tolist() == [1, 0, 1, 0, 1]
    assert rows.shape == (5, 0)
    assert model.sample(3, currstate=0)[1].tolist() == [0, 1, 0]
    assert model.sample()[1].tolist() == [1]


def test_means_of_a_cluster_with_too_few_rows() -> None:
    """They are drawn around the mean of the clusters, with the covariance of all rows."""
    X = np.array([[0.0, 0.0], [0.1, 0.0], [0.0, 0.1], [9.0, 9.0]])
    np.random.seed(3)  # noqa: NPY002
    model = hmm.GMMHMM(2, 3, covariance_type="diag", random_state=0, n_iter=0)
    model._init(X)
    np.random.seed(3)  # noqa: NPY002
    centre = (X[:3].mean(axis=0) + X[3]) / 2
    covariance = np.cov(X.T) + 1e-3 * np.eye(2)
    drawn = np.random.multivariate_normal(centre, covariance, size=3)  # noqa: NPY002
    few = int(np.argmin([np.abs(means - drawn).sum() for means in model.means_]))
    np.testing.assert_allclose(model.means_[few], drawn)
    clustered = model.means_[1 - few]
    np.testing.assert_allclose(clustered[np.lexsort(clustered.T)], X[[0, 1, 2]], atol=1e-9)
