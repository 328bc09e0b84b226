"""The HMM: counts by hand, Baum–Welch against enumeration, unknown symbols."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from labellings import all_paths, log_sum, mask_agreeing
from scipy import sparse

import trellis
from trellis.errors import InputError
from trellis.features import Window

X = [["a", "b", "a"], ["b", "b"], ["c"]]
Y = [["P", "Q", "P"], ["Q", "Q"], ["P"]]


def log_joint(hmm: Any, x: list[str]) -> np.ndarray:
    """log p(x, y) of every labelling y, from the tables of the model."""
    names = [name.split("=", 1)[1] for name in hmm.features_.names()]
    count = len(hmm.classes_)
    paths = all_paths(len(x), count)
    with np.errstate(divide="ignore"):
        total = np.log(hmm.start_)[paths[:, 0]]
        for t, symbol in enumerate(x):
            row = names.index(symbol) if symbol in names else -1
            total = total + hmm.emissions_[row][paths[:, t]]
            if t:
                total = total + np.log(hmm.transitions_)[paths[:, t - 1], paths[:, t]]
    return total


# ---- supervised


def test_counts_by_hand() -> None:
    hmm = trellis.HMM(smoothing=0.5, transition_smoothing=0.25).fit(X, Y)
    assert hmm.classes_.tolist() == ["P", "Q"]
    np.testing.assert_allclose(hmm.start_, np.array([2.25, 1.25]) / 3.5)
    # P → Q once, Q → P once, Q → Q once
    rows = [[0.25 / 1.5, 1.25 / 1.5], [1.25 / 2.5, 1.25 / 2.5]]
    np.testing.assert_allclose(hmm.transitions_, rows)
    # P: a twice, c once; Q: b three times; and one more symbol for everything unknown
    assert hmm.features_.names() == ["w[0]=a", "w[0]=b", "w[0]=c"]
    table = np.array([[2.5, 0.5], [0.5, 3.5], [1.5, 0.5], [0.5, 0.5]]) / 5.0
    np.testing.assert_allclose(np.exp(hmm.emissions_), table)


def test_sample_weights_multiply_counts() -> None:
    weighted = trellis.HMM().fit(X, Y, sample_weight=[2, 0, 1])
    repeated = trellis.HMM().fit([X[0], X[0], X[2], ["b"]], [Y[0], Y[0], Y[2], ["Q"]], [1, 1, 1, 0])
    for name in ("start_", "transitions_", "emissions_"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name))


def test_predictions_by_enumeration() -> None:
    hmm = trellis.HMM().fit(X, Y)
    for x in (["a", "b", "a", "c"], ["b"], ["never", "b", "a"]):
        joint, paths = log_joint(hmm, x), all_paths(len(x), 2)
        log_p = log_sum(joint)
        assert hmm.log_probability([x])[0] == pytest.approx(log_p, rel=1e-12)
        assert hmm.predict([x])[0] == [hmm.classes_[n] for n in paths[np.argmax(joint)]]
        p = np.exp(joint - log_p)
        expected = [[p[paths[:, t] == n].sum() for n in range(2)] for t in range(len(x))]
        np.testing.assert_allclose(hmm.predict_marginals([x])[0], expected, atol=1e-12)
        known = [None, {"P", "Q"}, "P", "Q"][: len(x)]
        inside = log_sum(joint[mask_agreeing(known, ["P", "Q"])])
        assert hmm.log_likelihood([x], [known])[0] == pytest.approx(inside - log_p, abs=1e-11)
        best = hmm.predict_kbest([x], k=2)[0]
        assert [labelling.probability for labelling in best] == pytest.approx(
            np.sort(p)[::-1][:2].tolist()
        )


def test_probability_of_all_sequences_of_a_length_sums_to_one() -> None:
    hmm = trellis.HMM().fit(X, Y)
    symbols = ["a", "b", "c", "never seen"]
    every = [[s, t, u] for s in symbols for t in symbols for u in symbols]
    assert np.exp(hmm.log_probability(every)).sum() == pytest.approx(1.0)


def test_without_smoothing_unknown_symbols_are_ignored() -> None:
    hmm = trellis.HMM(smoothing=0.0, transition_smoothing=0.0).fit(X, Y)
    assert hmm.predict([["a", "never"], ["never"]]) == [["P", "Q"], ["P"]]
    assert hmm.transitions_[0].tolist() == [0.0, 1.0]


def test_features_are_drawn_independently_as_in_naive_bayes() -> None:
    bags = [[["f", "g"], ["g"]], [["f"]]]
    hmm = trellis.HMM(smoothing=1.0).fit(bags, [["P", "Q"], ["P"]])
    # P: f twice, g once, of 3 + 3·1; Q: g once, of 1 + 3·1
    np.testing.assert_allclose(np.exp(hmm.emissions_[:2]), [[3 / 6, 1 / 4], [2 / 6, 2 / 4]])
    start = np.log(hmm.start_)
    logs = start + hmm.emissions_[0] + hmm.emissions_[1]
    expected = np.exp(logs - log_sum(logs))
    np.testing.assert_allclose(hmm.predict_marginals([[["f", "g"]]])[0][0], expected)


@pytest.mark.parametrize("wrap", [np.asarray, sparse.csr_array, sparse.csr_matrix])
def test_arrays_are_counts(wrap: Any) -> None:
    tables = [wrap(np.array([[2.0, 0.0], [0.0, 1.0]])), wrap(np.array([[1.0, 0.0]]))]
    hmm = trellis.HMM(smoothing=1.0).fit(tables, [["P", "Q"], ["P"]])
    np.testing.assert_allclose(np.exp(hmm.emissions_[:2]), [[4 / 6, 1 / 4], [1 / 6, 2 / 4]])
    assert hmm.predict(tables) == [["P", "Q"], ["P"]]


def test_negative_counts_are_an_error() -> None:
    with pytest.raises(InputError, match=r"negative|at least 0"):
        trellis.HMM().fit([np.array([[1.0, -3.0]])], [["P"]])


def test_a_window_of_features() -> None:
    hmm = trellis.HMM(features=Window()).fit(X, Y)
    assert hmm.predict(X)[1] == ["Q", "Q"]


# ---- Baum–Welch


UNLABELLED = [["a", "b", "a", "c"], ["b", "b", "c"], ["c", "a"], ["a"], ["b", "c", "b"]]


def em_step(hmm: Any, data: Any, known: Any, weights: Any, smooth: float, smooth_t: float) -> Any:
    """(start, transitions, emissions) after one step: expected counts by enumeration."""
    names = [name.split("=", 1)[1] for name in hmm.features_.names()]
    classes = hmm.classes_.tolist()
    count = len(classes)
    start, pairs = np.full(count, smooth_t), np.full((count, count), smooth_t)
    emissions = np.full((len(names) + 1, count), smooth)
    for x, labels, weight in zip(data, known, weights, strict=True):
        joint = np.where(mask_agreeing(labels, classes), log_joint(hmm, x), -np.inf)
        p, paths = weight * np.exp(joint - log_sum(joint)), all_paths(len(x), count)
        for t, symbol in enumerate(x):
            np.add.at(emissions[names.index(symbol)], paths[:, t], p)
            if t:
                np.add.at(pairs, (paths[:, t - 1], paths[:, t]), p)
        np.add.at(start, paths[:, 0], p)
    return (
        start / start.sum(),
        pairs / pairs.sum(axis=1, keepdims=True),
        emissions / emissions.sum(axis=0),
    )


@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 0.5, 3.0, 1.0]])
@pytest.mark.parametrize("smooth", [0.0, 0.3])
def test_each_step_by_enumeration(weights: Any, smooth: float) -> None:
    known = [[None] * len(x) for x in UNLABELLED]
    known[0] = [None, "Q", None, {"P", "R"}]
    known[1] = ["R", "P", "Q"]
    settings = {"smoothing": smooth, "transition_smoothing": smooth / 2, "tol": -np.inf}
    for steps in (1, 2, 5):
        first = trellis.HMM(max_iter=steps, random_state=1, **settings)
        second = trellis.HMM(max_iter=steps + 1, random_state=1, **settings)
        first.fit(UNLABELLED, known, weights)
        second.fit(UNLABELLED, known, weights)
        expected = em_step(first, UNLABELLED, known, weights or [1.0] * 5, smooth, smooth / 2)
        np.testing.assert_allclose(second.start_, expected[0], atol=1e-12)
        np.testing.assert_allclose(second.transitions_, expected[1], atol=1e-12)
        np.testing.assert_allclose(np.exp(second.emissions_), expected[2], atol=1e-12)


def test_the_likelihood_never_falls() -> None:
    hmm = trellis.HMM(
        n_states=3, smoothing=0.0, transition_smoothing=0.0, random_state=0, tol=0.0, max_iter=60
    ).fit(UNLABELLED * 3)
    values = np.array(hmm.log_likelihoods_)
    assert len(values) > 5
    assert (np.diff(values) > -1e-9).all()
    assert values[-1] > values[0] + 1


def test_log_likelihoods_are_from_the_start_of_each_iteration() -> None:
    settings = {"n_states": 2, "random_state": 3, "tol": -np.inf}
    for steps in (1, 3):
        first = trellis.HMM(max_iter=steps, **settings).fit(UNLABELLED)
        second = trellis.HMM(max_iter=steps + 1, **settings).fit(UNLABELLED)
        assert len(second.log_likelihoods_) == steps + 1
        total = first.log_probability(UNLABELLED).sum()
        assert second.log_likelihoods_[-1] == pytest.approx(total, rel=1e-10)


def test_it_recovers_the_states_of_generated_data() -> None:
    rng = np.random.default_rng(0)
    data, truth = [], []
    for _ in range(40):
        states = [int(rng.integers(2))]
        for _ in range(19):
            states.append(states[-1] if rng.random() < 0.9 else 1 - states[-1])
        data.append(
            [rng.choice(["a", "b", "c"], p=[[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]][s]) for s in states]
        )
        truth.append(states)
    data = [[str(s) for s in x] for x in data]
    hmm = trellis.HMM(n_states=2, random_state=1).fit(data)
    assert hmm.classes_.tolist() == [0, 1]
    accuracy = hmm.score(data, truth)
    assert max(accuracy, 1 - accuracy) > 0.85


def test_same_seed_same_model() -> None:
    first, second = (
        trellis.HMM(n_states=3, random_state=5).fit(UNLABELLED).emissions_ for _ in range(2)
    )
    assert np.array_equal(first, second)


def test_y_without_known_labels_is_like_no_y() -> None:
    unknown = [[None] * len(x) for x in UNLABELLED]
    first = trellis.HMM(n_states=2, random_state=0).fit(UNLABELLED, unknown)
    second = trellis.HMM(n_states=2, random_state=0).fit(UNLABELLED)
    assert np.array_equal(first.emissions_, second.emissions_)


# ---- invalid input


@pytest.mark.parametrize(
    "parameters",
    [
        {"smoothing": -0.1},
        {"smoothing": "much"},
        {"smoothing": float("nan")},
        {"transition_smoothing": float("inf")},
        {"transition_smoothing": -1},
        {"features": 7},
    ],
)
def test_invalid_parameters(parameters: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        trellis.HMM(**parameters).fit(X, Y)


@pytest.mark.parametrize(
    "parameters", [{}, {"n_states": 0}, {"n_states": "two"}, {"n_states": 2, "max_iter": 0}]
)
def test_invalid_parameters_without_labels(parameters: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        trellis.HMM(**parameters).fit(X)


@pytest.mark.parametrize("data", [[], [[]], [["a"], []], "abc", 7])
def test_invalid_sequences(data: Any) -> None:
    with pytest.raises(InputError):
        trellis.HMM(n_states=2).fit(data)
