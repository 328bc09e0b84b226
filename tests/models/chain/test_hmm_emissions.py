"""Emissions of the HMM: likelihoods by enumeration, M-steps by perturbation, files and messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from labellings import all_paths, log_sum, mask_agreeing
from scipy import special, stats

import trellis
from trellis.errors import FormatError, InputError
from trellis.formats import native
from trellis.models.chain.emissions import (
    Categorical,
    Emission,
    Gaussian,
    Mixture,
    Observations,
    Poisson,
)
from trellis.models.chain.emissions.clusters import cluster, soft_clusters
from trellis.models.chain.emissions.density import COVARIANCES, full_matrices, log_density

rng = np.random.default_rng(0)
STATES = [[0, 0, 1, 1, 0], [1, 1, 2], [2], [2, 2, 0, 0, 1, 2]]
VECTORS = [rng.normal(size=(len(s), 2)) * [1.0, 2.0] + 6.0 * np.array(s)[:, None] for s in STATES]
COUNTS = [rng.poisson(1 + 5 * np.array(s)[:, None], size=(len(s), 2)) for s in STATES]
INTEGERS = [np.array([3, 3, 7, 8, 3]), np.array([[7], [8], [12]]), [12], [12, 8, 3, 3, 7, 12]]
LABELS = [["abc"[n] for n in s] for s in STATES]
PARTIAL = [["a", None, {"b", "c"}, "b", None], [None] * 3, ["c"], LABELS[3]]
NO_SMOOTHING = {"smoothing": 0.0, "transition_smoothing": 0.0}
DATA: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "categorical": ({"emissions": "categorical"}, INTEGERS),
    **{
        f"gaussian {kind}": ({"emissions": "gaussian", "covariance": kind}, VECTORS)
        for kind in COVARIANCES
    },
    **{
        f"mixture {kind}": ({"emissions": "mixture", "covariance": kind, "n_mixtures": 2}, VECTORS)
        for kind in COVARIANCES
    },
    "poisson": ({"emissions": "poisson"}, COUNTS),
}


def density(emission: Any, x: Any) -> np.ndarray:
    """log p(x | state) of one observation, from the definition of the distribution."""
    if isinstance(emission, Categorical):
        value = int(np.ravel(x)[0])
        return emission.log_probabilities[emission.symbols.index(value)]
    if isinstance(emission, Poisson):
        return stats.poisson.logpmf(x, emission.rates).sum(axis=1)
    if isinstance(emission, Mixture):
        logs = density(emission.gaussians, x).reshape(emission.weights.shape)
        return special.logsumexp(logs, b=emission.weights, axis=1)
    count, d = emission.means.shape
    matrices = full_matrices(emission.covariances, emission.covariance, count, d)
    pairs = zip(emission.means, matrices, strict=True)
    return np.array([stats.multivariate_normal.logpdf(x, *pair) for pair in pairs])


def log_joint(hmm: Any, x: Any) -> np.ndarray:
    """log p(x, y) of every labelling y."""
    paths = all_paths(len(x), len(hmm.classes_))
    with np.errstate(divide="ignore"):
        start, transitions = np.log(hmm.start_), np.log(hmm.transitions_)
    total = start[paths[:, 0]]
    for t, observation in enumerate(x):
        total = total + density(hmm.emission_, observation)[paths[:, t]]
        if t:
            total = total + transitions[paths[:, t - 1], paths[:, t]]
    return total


def fit(name: str, y: Any = None, **settings: Any) -> Any:
    case, X = DATA[name]
    settings = {"random_state": 1, "max_iter": 8, "n_states": 3, **NO_SMOOTHING, **settings}
    return trellis.HMM(**case, **settings).fit(X, y)


@pytest.mark.parametrize("y", [None, LABELS, PARTIAL], ids=["none", "all", "partial"])
@pytest.mark.parametrize("name", DATA)
def test_results_by_enumeration(name: str, y: Any) -> None:
    hmm, X = fit(name, y), DATA[name][1]
    classes = hmm.classes_.tolist()
    assert classes == ([0, 1, 2] if y is None else ["a", "b", "c"])
    log_p = hmm.log_probability(X)
    for i, x in enumerate(X):
        joint, paths = log_joint(hmm, x), all_paths(len(x), 3)
        assert log_p[i] == pytest.approx(log_sum(joint), rel=1e-10)
        labels, best = hmm.decode([x])[0]
        assert best == pytest.approx(joint.max(), rel=1e-10)
        assert labels == hmm.predict([x])[0] == [classes[n] for n in paths[joint.argmax()]]
        p = np.exp(joint - log_sum(joint))
        expected = [[p[paths[:, t] == n].sum() for n in range(3)] for t in range(len(x))]
        np.testing.assert_allclose(hmm.predict_marginals([x])[0], expected, atol=1e-10)
    assert hmm.score(X) == pytest.approx(log_p.sum())
    assert hmm.score(X, sample_weight=[1, 2, 0, 1]) == pytest.approx(log_p @ [1, 2, 0, 1])


@pytest.mark.parametrize("y", [None, PARTIAL], ids=["none", "partial"])
@pytest.mark.parametrize("name", DATA)
def test_the_likelihood_never_falls_and_is_that_of_each_iteration(name: str, y: Any) -> None:
    values = np.array(fit(name, y, max_iter=25, tol=-np.inf).log_likelihoods_)
    assert len(values) == 25
    assert (np.diff(values) > -1e-9 * np.abs(values[1:])).all()
    assert values[-1] > values[0]
    before = fit(name, y, max_iter=24, tol=-np.inf)
    X, classes = DATA[name][1], before.classes_.tolist()
    total = 0.0
    for i, x in enumerate(X):
        joint = log_joint(before, x)
        known = [None] * len(x) if y is None else y[i]
        total += log_sum(joint[mask_agreeing(known, classes)])
    assert values[-1] == pytest.approx(total, rel=1e-9)


def parameters_of(emission: Any) -> list[np.ndarray]:
    """Return the arrays of the emission, to be changed in place."""
    if isinstance(emission, Mixture):
        return [emission.weights, emission.gaussians.means, emission.gaussians.covariances]
    if isinstance(emission, Gaussian):
        return [emission.means, emission.covariances]
    return [emission.rates]


@pytest.mark.parametrize("name", [name for name in DATA if name[:3] in ("gau", "poi")])
def test_the_m_step_is_stationary(name: str) -> None:
    """The derivative of Σ p log p(x | y) is 0: central differences in every direction."""
    emission = fit(name, max_iter=1).emission_
    values = emission.read(DATA[name][1], 1).values
    p = rng.dirichlet(np.ones(3), size=15)
    emission.min_variance = 1e-12
    emission.maximise(emission.statistics(values, p))

    def objective() -> float:
        return float((p * emission.log_likelihood(values)).sum())

    for array in parameters_of(emission):
        array.setflags(write=True)
        for index in np.ndindex(array.shape):
            matrix = array.ndim > 1 and emission.kind == "gaussian" and array is not emission.means
            both = [index]
            if matrix and emission.covariance in ("full", "tied") and index[-1] != index[-2]:
                both.append((*index[:-2], index[-1], index[-2]))  # it stays symmetric
            sides = []
            for step in (1e-5, -2e-5):
                for place in both:
                    array[place] += step
                sides.append(objective())
            for place in both:
                array[place] += 1e-5
            assert (sides[0] - sides[1]) / 2e-5 == pytest.approx(0.0, abs=1e-4)


def test_each_gaussian_step_by_enumeration() -> None:
    settings = {"tol": -np.inf, "min_variance": 1e-9}
    for name in ("gaussian full", "mixture full"):
        first, second = (fit(name, max_iter=n, **settings) for n in (3, 4))
        X = np.concatenate(VECTORS)
        marginals = []
        for x in VECTORS:
            joint, paths = log_joint(first, x), all_paths(len(x), 3)
            p = np.exp(joint - log_sum(joint))
            marginals += [[p[paths[:, t] == n].sum() for n in range(3)] for t in range(len(x))]
        p = np.array(marginals)
        gaussians = second.emission_
        if name.startswith("mixture"):
            old = first.emission_
            logs = np.array([density(old.gaussians, x) for x in X]).reshape(-1, 3, 2)
            p3 = p[:, :, None] * special.softmax(logs + np.log(old.weights), axis=2)
            np.testing.assert_allclose(
                second.emission_.weights, p3.sum(axis=0) / p3.sum(axis=(0, 2))[:, None], atol=1e-9
            )
            p, gaussians = p3.reshape(-1, 6), second.emission_.gaussians
        for j in range(p.shape[1]):
            if p[:, j].sum() > 1e-6:
                np.testing.assert_allclose(
                    gaussians.means[j], np.average(X, axis=0, weights=p[:, j]), atol=1e-7
                )


def test_supervised_estimates_by_hand() -> None:
    X, labels = np.concatenate(VECTORS), np.concatenate([np.array(row) for row in LABELS])
    weights = np.repeat([1.0, 2.0, 0.5, 1.0], [len(row) for row in LABELS])
    case = {**DATA["gaussian full"][0], "min_variance": 1e-12}
    hmm = trellis.HMM(**case).fit(VECTORS, LABELS, sample_weight=[1, 2, 0.5, 1])
    assert hmm.converged_
    assert hmm.log_likelihoods_ == []
    for j, name in enumerate("abc"):
        rows = labels == name
        mean = np.average(X[rows], axis=0, weights=weights[rows])
        np.testing.assert_allclose(hmm.emission_.means[j], mean)
        scatter = np.cov(X[rows].T, aweights=weights[rows], bias=True)
        np.testing.assert_allclose(hmm.emission_.covariances[j], scatter, atol=1e-10)
    counts = trellis.HMM(emissions="poisson").fit(COUNTS, LABELS)
    flat = np.concatenate(COUNTS)
    expected = [np.maximum(flat[labels == name].mean(axis=0), 1e-3) for name in "abc"]
    np.testing.assert_allclose(counts.emission_.rates, expected)


def test_limits_of_variances_are_the_constrained_maximum() -> None:
    values = np.array([[0.0, 0.0], [2.0, 0.0], [4.0, 0.0]])
    p = np.ones((3, 1))
    for kind, expected in (
        ("diagonal", [[8 / 3, 0.5]]),
        ("full", [[[8 / 3, 0.0], [0.0, 0.5]]]),
        ("tied", [[8 / 3, 0.0], [0.0, 0.5]]),
        ("spherical", [4 / 3]),
    ):
        emission = Gaussian(kind, min_variance=0.5)
        emission.learn([values], 1)
        emission.maximise(emission.statistics(values, p))
        np.testing.assert_allclose(emission.covariances, expected, atol=1e-12)
    turned = values @ (np.array([[1.0, 1.0], [-1.0, 1.0]]) / np.sqrt(2.0))
    emission = Gaussian("full", min_variance=0.5)
    emission.maximise(emission.statistics(turned, p))
    np.testing.assert_allclose(np.linalg.eigvalsh(emission.covariances[0]), [0.5, 8 / 3])


@pytest.mark.parametrize("kind", COVARIANCES)
def test_a_state_of_weight_zero_keeps_its_parameters(kind: str) -> None:
    emission = Gaussian(kind)
    values = np.concatenate(VECTORS)
    p = np.zeros((15, 2))
    p[:, 1] = 1.0
    emission.maximise(emission.statistics(values, p))
    assert emission.means[0].tolist() == [0.0, 0.0]
    np.testing.assert_allclose(emission.means[1], values.mean(axis=0))
    if kind != "tied":
        unit = np.eye(2) if kind == "full" else np.ones(2) if kind == "diagonal" else 1.0
        np.testing.assert_array_equal(emission.covariances[0], unit)
    emission.means[0] = 7.0
    emission.maximise(emission.statistics(values, p))
    assert emission.means[0].tolist() == [7.0, 7.0]
    rates = Poisson()
    rates.maximise((np.array([0.0, 2.0]), np.array([[0.0], [6.0]])))
    assert rates.rates.tolist() == [[1.0], [3.0]]


def test_means_far_from_zero_lose_no_digits() -> None:
    near = rng.normal(size=(1500, 2)) * 0.01
    far = near + np.array([1e4, -1e4])
    p = rng.dirichlet(np.ones(2), size=1500)
    first, second = Gaussian(min_variance=1e-12), Gaussian(min_variance=1e-12)
    first.maximise(first.statistics(near, p))
    second.maximise(second.statistics(far, p))
    np.testing.assert_allclose(second.covariances, first.covariances, rtol=1e-6)
    np.testing.assert_allclose(
        second.log_likelihood(far), first.log_likelihood(near), rtol=0, atol=1e-5
    )
    two = np.concatenate([near, far])  # two clusters that are far from their common mean
    p = np.repeat(np.eye(2), 1500, axis=0)
    first.maximise(first.statistics(two, p))
    np.testing.assert_allclose(first.covariances[0], near.var(axis=0), rtol=1e-6)
    logs = log_density(two, first.means, first.covariances, "diagonal")
    assert logs.shape == (3000, 2)
    np.testing.assert_array_equal(logs[1020:1030], first.log_likelihood(two[1020:1030]))


# ---- symbols


@pytest.mark.parametrize(
    "X",
    [
        [[1, 6, 6], [2]],
        [np.array([1, 6, 6]), np.array([2])],
        [np.array([[1], [6], [6]]), np.array([[2]])],
        [(1, 6, 6), np.array([2], dtype=np.uint8)],
    ],
)
def test_integers_are_symbols(X: Any) -> None:
    hmm = trellis.HMM().fit(X, [["P", "Q", "Q"], ["P"]])
    assert hmm.emission_.kind == "categorical"
    assert hmm.emission_.symbols == [1, 2, 6]
    table = np.array([[1.1, 0.1], [1.1, 0.1], [0.1, 2.1], [0.1, 0.1]]) / 2.4
    np.testing.assert_allclose(np.exp(hmm.emissions_), table)
    assert hmm.predict([[1, 6]]) == hmm.predict([np.array([[1], [6]])]) == [["P", "Q"]]
    assert [weight.feature for weight in hmm.top_features(1)] == ["1", "6"]


def test_one_array_with_lengths() -> None:
    y = ["P", "Q", "Q", "P"]
    expected = trellis.HMM().fit([[1, 6, 6], [2]], [y[:3], y[3:]])
    for X in (np.array([1, 6, 6, 2]), np.array([[1], [6], [6], [2]]), [1, 6, 6, 2]):
        hmm = trellis.HMM().fit(X, y, lengths=[3, 1])
        np.testing.assert_array_equal(hmm.emissions_, expected.emissions_)
        np.testing.assert_array_equal(hmm.transitions_, expected.transitions_)
        assert hmm.predict(X, lengths=[3, 1]) == [["P", "Q", "Q"], ["P"]]
        p = hmm.predict_marginals(X, lengths=np.array([1, 3]))
        assert [len(rows) for rows in p] == [1, 3]
        assert hmm.log_probability(X, lengths=[3, 1]).shape == (2,)
    for lengths, message in (
        ([3], "lengths sum to 3, but X has 4 positions"),
        ([3, 1, 0], "a length must be at least 1, not 0"),
        ([1.5, 2.5], "a length must be an integer, not 1.5"),
    ):
        with pytest.raises(InputError, match=message):
            trellis.HMM(n_states=1).fit([1, 6, 6, 2], lengths=lengths)
    with pytest.raises(InputError, match="lengths sum to 4, but y has 3 positions"):
        trellis.HMM().fit([1, 6, 6, 2], y[:3], lengths=[3, 1])


def test_strings_and_integers_as_symbols() -> None:
    X = [["x", 3, "y"], ["x", "x", 3]]
    hmm = trellis.HMM(emissions="categorical", n_states=2, random_state=0).fit(X)
    assert hmm.emission_.symbols == [3, "x", "y"]
    strings = trellis.HMM(emissions="categorical").fit([["a", "b"]], [["P", "Q"]])
    words = trellis.HMM().fit([["a", "b"]], [["P", "Q"]])
    np.testing.assert_array_equal(strings.emissions_, words.emissions_)
    assert strings.predict([["b", "?"]]) == words.predict([["b", "?"]])


def test_counts_of_features_and_words_are_no_symbols() -> None:
    for X in ([np.array([[1, 6]])], [np.array([[1.0], [6.0]])], [["a"]]):
        y = [["P"] * len(X[0])]
        assert trellis.HMM().fit(X, y).emission_.kind == "features"
    spec = trellis.HMM(features=lambda x: [[f"n={v}"] for v in x])
    assert spec.fit([[1, 6]], [["P", "Q"]]).emission_.kind == "features"


def test_unknown_symbols() -> None:
    hmm = trellis.HMM().fit(INTEGERS, LABELS)
    values = hmm.emission_.read([[3, 99]], 1).values
    np.testing.assert_array_equal(hmm.emission_.log_likelihood(values), hmm.emissions_[[0, -1]])
    none = fit("categorical", LABELS)
    assert np.isneginf(none.emissions_[-1]).all()
    assert none.emission_.log_likelihood(np.array([4])).tolist() == [[0.0, 0.0, 0.0]]


# ---- new sequences


@pytest.mark.parametrize("name", DATA)
def test_generated_sequences_have_the_moments_of_the_model(name: str) -> None:
    hmm = fit(name, LABELS, transition_smoothing=0.5)
    X, y = hmm.generate(200, n=5, random_state=0)
    assert [len(x) for x in X] == [len(labels) for labels in y] == [200] * 5
    again = hmm.generate(200, n=5, random_state=0)
    assert again[1] == y
    labels = np.array(y)
    pairs = [(labels[:, :-1] == a) & (labels[:, 1:] == b) for a in "abc" for b in "abc"]
    counts = np.array([pair.sum() for pair in pairs]).reshape(3, 3)
    np.testing.assert_allclose(
        counts / counts.sum(axis=1, keepdims=True), hmm.transitions_, atol=0.08
    )
    emission, flat = hmm.emission_, labels.ravel()
    for j, state in enumerate("abc"):
        rows = np.concatenate([np.asarray(x) for x in X])[flat == state]
        if name == "categorical":
            shares = [(rows == symbol).mean() for symbol in emission.symbols]
            np.testing.assert_allclose(shares, np.exp(hmm.emissions_[:-1, j]), atol=0.08)
        elif name == "poisson":
            np.testing.assert_allclose(rows.mean(axis=0), emission.rates[j], rtol=0.15)
        elif name.startswith("gaussian"):
            scale = np.sqrt(np.cov(rows.T).trace())
            np.testing.assert_allclose(rows.mean(axis=0), emission.means[j], atol=0.25 * scale)
            matrices = full_matrices(emission.covariances, emission.covariance, 3, 2)
            np.testing.assert_allclose(np.cov(rows.T), matrices[j], atol=0.3 * scale**2)
        else:
            mean = emission.weights[j] @ emission.gaussians.means[2 * j : 2 * j + 2]
            np.testing.assert_allclose(rows.mean(axis=0), mean, atol=0.3 * rows.std())


def test_the_first_states_are_drawn_from_start() -> None:
    hmm = trellis.HMM(transition_smoothing=0).fit(
        [[1], [1], [2], [1]], [["a"], ["a"], ["b"], ["a"]]
    )
    first = [row[0] for row in hmm.generate(1, n=400, random_state=0)[1]]
    assert 0.7 < first.count("a") / 400 < 0.8
    for arguments, message in (
        ((0,), "length must be at least 1, not 0"),
        ((1, 0), "n must be at least 1, not 0"),
        ((1, 1, -1), "random_state must be None"),
    ):
        with pytest.raises(InputError, match=message):
            hmm.generate(*arguments)
    with pytest.raises(InputError, match=r'Features cannot draw .*; write HMM\(emissions="categor'):
        trellis.HMM().fit([["a"]], [["P"]]).generate(3)


# ---- clusters


def test_clusters_of_known_rows() -> None:
    X = np.array([[0.0], [0.1], [10.0], [10.1], [20.0], [20.1]])
    allowed = np.ones((6, 3), dtype=bool)
    for seed in range(5):
        labels = cluster(X, allowed, np.random.default_rng(seed))
        assert (labels[::2] == labels[1::2]).all()
        assert len(set(labels)) == 3
    allowed[0], allowed[2] = [False, True, False], [True, False, False]
    labels = cluster(X, allowed, np.random.default_rng(0))
    assert labels.tolist() == [1, 1, 0, 0, 2, 2]
    p = soft_clusters(X, allowed, np.full(6, 2.0), np.random.default_rng(0))
    np.testing.assert_allclose(p.sum(axis=1), 2.0)
    assert p[0].tolist() == [0.0, 2.0, 0.0]
    np.testing.assert_allclose(p[1], np.array([0.05 / 3, 0.95 + 0.05 / 3, 0.05 / 3]) * 2)
    same = cluster(np.zeros((4, 1)), np.ones((4, 2), dtype=bool), np.random.default_rng(0))
    assert set(same) <= {0, 1}


# ---- emissions of the user


class Exponential(Emission):
    """p(x | y) = λ exp(-λ x)."""

    kind: ClassVar[str] = "exponential"

    def learn(self, X: list[Any], n_jobs: int) -> Observations:
        return self.read(X, n_jobs)

    def read(self, X: list[Any], n_jobs: int) -> Observations:
        return Observations(np.array([len(x) for x in X]), np.concatenate(X))

    def start(self, values: Any, allowed: Any, weight: Any, generator: Any) -> Any:
        p = allowed * generator.exponential(size=allowed.shape)
        self.maximise(self.statistics(values, p))
        return p

    def log_likelihood(self, values: Any) -> Any:
        return np.log(self.rates) - values[:, None] * self.rates

    def statistics(self, values: Any, p: Any) -> Any:
        return p.sum(axis=0), p.T @ values

    def maximise(self, statistics: Any) -> None:
        self.rates = statistics[0] / statistics[1]


def test_emissions_of_the_user() -> None:
    X = [np.array([1.0, 3.0, 0.1]), np.array([0.2])]
    prototype = Exponential()
    hmm = trellis.HMM(emissions=prototype).fit(X, [["P", "P", "Q"], ["Q"]])
    np.testing.assert_allclose(hmm.emission_.rates, [0.5, 1 / 0.15])
    assert not hasattr(prototype, "rates")
    assert hmm.predict([np.array([0.01, 9.0])]) == [["Q", "P"]]
    assert trellis.HMM(emissions=prototype, n_states=2, random_state=0).fit(X).score(X) < 0
    with pytest.raises(
        InputError, match="of the class Exponential cannot be saved: it has no to_p"
    ):
        hmm.to_parts()
    with pytest.raises(InputError, match="Exponential cannot draw observations: it has no method"):
        hmm.generate(3)
    with pytest.raises(NotImplementedError):
        Exponential.from_parts({}, native.Tensors(Path(), {}), 2)


# ---- files


@pytest.mark.parametrize("name", DATA)
def test_saved_models_predict_the_same(name: str, tmp_path: Path) -> None:
    hmm, X = fit(name), DATA[name][1]
    hmm.save(tmp_path / "model.trellis")
    loaded = trellis.load(tmp_path / "model.trellis")
    np.testing.assert_array_equal(loaded.log_probability(X), hmm.log_probability(X))
    assert loaded.predict(X) == hmm.predict(X)
    assert loaded.get_params() == {**hmm.get_params(), "n_jobs": None}
    assert loaded.describe() == hmm.describe()
    assert loaded.describe().settings == {"emissions": name.split()[0]}
    assert (loaded.describe().columns, loaded.describe().has_probabilities) == (None, True)
    loaded.set_feature_functions(features=len)
    loaded.generate(3)
    expected = type(hmm.emission_)
    assert type(loaded.emission_) is expected


def test_saved_instances_of_emissions(tmp_path: Path) -> None:
    hmm = trellis.HMM(emissions=Gaussian("spherical", 0.25)).fit(VECTORS, LABELS)
    hmm.save(tmp_path / "model.trellis")
    loaded = trellis.load(tmp_path / "model.trellis")
    assert loaded.emission_.covariance == "spherical"
    assert loaded.emission_.min_variance == 0.25
    assert loaded.emissions is None
    np.testing.assert_array_equal(loaded.log_probability(VECTORS), hmm.log_probability(VECTORS))


def put(name: str, index: Any, value: float) -> Any:
    def change(meta: Any, tensors: Any) -> None:
        tensors[name] = tensors[name].copy()
        tensors[name][index] = value

    return change


def setting(name: str, value: Any) -> Any:
    return lambda meta, tensors: meta["emission"].update({name: value})


def drop(name: str) -> Any:
    return lambda meta, tensors: tensors.pop(f"emission.{name}")


FORGERIES: list[tuple[str, Any, str]] = [
    ("gaussian diagonal", put("emission.covariances", (0, 0), 0.9e-12), "must be at least 1e-12"),
    (
        "gaussian spherical",
        put("emission.covariances", 0, -1.0),
        "covariances must be at least 1e-12",
    ),
    ("gaussian full", put("emission.covariances", (1, 0, 1), 0.1), "covariance 1 is not symmetric"),
    ("gaussian full", put("emission.covariances", (1, 0, 0), -1.0), "1 is not positive definite"),
    ("gaussian tied", put("emission.covariances", (0, 0), -1.0), "0 is not positive definite"),
    ("gaussian tied", put("emission.covariances", (0, 1), 9.0), "covariance 0 is not symmetric"),
    ("gaussian diagonal", put("emission.means", (0, 1), np.nan), "means' is nan at"),
    ("gaussian diagonal", put("emission.covariances", (0, 1), np.inf), "covariances' is inf at"),
    ("gaussian diagonal", drop("means"), "'means' is missing"),
    ("gaussian diagonal", setting("covariance", "full"), "has shape"),
    ("gaussian diagonal", setting("covariance", "round"), "covariance must be one of diagonal"),
    ("gaussian diagonal", setting("min_variance", 0), "min_variance must be finite and at least"),
    ("gaussian diagonal", setting("kind", "round"), "the kind of emission must be one of"),
    ("gaussian diagonal", setting("kind", []), "the kind of emission must be one of"),
    ("mixture diagonal", put("emission.weights", (0, 0), -0.5), "rows of weights must be"),
    ("mixture diagonal", put("emission.weights", (0, 0), 3.0), "rows of weights must be"),
    ("mixture diagonal", setting("n_mixtures", 3), "weights' has shape"),
    ("mixture diagonal", setting("n_mixtures", 0), "n_mixtures must be at least 1, not 0"),
    ("poisson", put("emission.rates", (0, 0), 0.0), "rates must be above 0 and at most 2"),
    ("poisson", put("emission.rates", (0, 0), 2.0**54), "rates must be above 0 and at most 2"),
    (
        "gaussian tied",
        put("emission.covariances", ..., np.eye(2) * 4e-13),
        "eigenvalue below 1e-12",
    ),
    ("categorical", setting("symbols", [3, 7, 8]), "has shape"),
    ("categorical", setting("symbols", [3, 7, 8, 8]), "symbols must be distinct"),
    ("categorical", setting("symbols", [3, 7, 8, 8.5]), "symbols must be a list of integers and"),
    ("categorical", setting("symbols", []), "symbols must be a list of integers and"),
    ("categorical", setting("symbols", "3789"), "symbols must be a list of integers and"),
    ("categorical", put("emission.log_probabilities", (0, 0), 0.5), "must be log-probabilities"),
    ("categorical", put("emission.log_probabilities", (0, 0), np.nan), "must be log-probabilities"),
]


@pytest.mark.parametrize(("name", "change", "message"), FORGERIES)
def test_forged_files(name: str, change: Any, message: str, tmp_path: Path) -> None:
    meta, tensors = fit(name, LABELS).to_parts()
    change(meta, tensors)
    path = tmp_path / "model.trellis"
    native.write(path, "hmm", meta, tensors)
    with pytest.raises(FormatError, match=message):
        trellis.load(path)


def test_files_without_dimensions(tmp_path: Path) -> None:
    for name, tensor, message in (
        ("gaussian diagonal", "means", "means must have at least one dimension"),
        ("poisson", "rates", "rates must have at least one dimension"),
    ):
        meta, tensors = fit(name, LABELS).to_parts()
        tensors[f"emission.{tensor}"] = np.zeros((3, 0))
        native.write(tmp_path / "model.trellis", "hmm", meta, tensors)
        with pytest.raises(FormatError, match=message):
            trellis.load(tmp_path / "model.trellis")


# ---- wrong arguments


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"emissions": "normal"},
            "emissions must be one of categorical, gaussian, mixture, poisson",
        ),
        (
            {"emissions": "gaussian", "features": len},
            "features is set: only an HMM with emissions=",
        ),
        ({"covariance": "diag"}, "covariance must be one of diagonal, full, tied, spherical"),
        ({"n_mixtures": 0}, "n_mixtures must be at least 1, not 0"),
        ({"min_variance": 0.0}, "min_variance must be finite and at least 1e-12, not 0.0"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        trellis.HMM(n_states=2, **settings).fit([[1]])
    trellis.HMM(n_states=1, min_variance=1e-12).fit([[1]])


WRONG_DATA: list[tuple[str, Any, str]] = [
    ("gaussian", [[[1.0, 2.0]], [[1.0]]], "sequence 1 has vectors of 1 dimensions, expected 2"),
    ("gaussian", [[1.0], [1.0, np.nan]], "sequence 1, position 1: dimension 0 is nan: must be fin"),
    ("gaussian", [["a"]], "sequence 0 must be numbers or vectors of one length"),
    ("gaussian", [[[1.0], [1.0, 2.0]]], "sequence 0 must be numbers or vectors of one length"),
    ("gaussian", [np.zeros((1, 1, 1))], r"sequence 0 has shape \(1, 1, 1\): must be \(length, dim"),
    ("gaussian", [np.zeros((1, 0))], r"sequence 0 has shape \(1, 0\): must be \(length, dim"),
    ("gaussian", [[1.0], []], "sequence 1 is empty"),
    ("gaussian", [], "X is empty"),
    ("poisson", [[1], [2, 0.5]], "sequence 1, position 1: dimension 0 is 0.5: must be a count"),
    ("poisson", [[[1, 0]], [[2, -1]]], "sequence 1, position 0: dimension 1 is -1: must be a coun"),
    ("poisson", [[2.0**54]], "dimension 0 is 1.80144e[+]16: must be a count, an integer from 0 to"),
    ("categorical", [np.array([[1, 2]])], r"sequence 0 has shape \(1, 2\): categorical observati"),
    ("categorical", [[1], np.array([0.5])], "sequence 1 must be a list or an array of integers or"),
    (
        "categorical",
        [[1, 0.5]],
        "sequence 0, position 1: a symbol must be an integer or a str, not",
    ),
    (
        "categorical",
        [[True]],
        "sequence 0, position 0: a symbol must be an integer or a str, not T",
    ),
    ("categorical", [[1], []], "sequence 1 is empty"),
]


@pytest.mark.parametrize(("emissions", "X", "message"), WRONG_DATA)
def test_wrong_data(emissions: str, X: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        trellis.HMM(emissions=emissions, n_states=2).fit(X)


def test_wrong_data_after_the_fit() -> None:
    hmm = fit("gaussian diagonal")
    with pytest.raises(InputError, match="sequence 1 has vectors of 1 dimensions, expected 2"):
        hmm.predict([VECTORS[0], [1.0]])
    with pytest.raises(InputError, match="gaussian emissions have no symbols: read emission_"):
        hmm.top_features()
    with pytest.raises(AttributeError, match="an HMM with gaussian emissions has no features_"):
        _ = hmm.features_
    with pytest.raises(
        AttributeError, match="read the parameters of gaussian emissions: emission_"
    ):
        _ = hmm.emissions_
    with pytest.raises(InputError, match=r'for real numbers, write HMM\(emissions="gaussian"\)'):
        trellis.HMM().fit([np.array([[1.0, -3.0]])], [["P"]])


def test_convergence_is_recorded() -> None:
    assert not fit("gaussian diagonal", max_iter=1).converged_
    assert fit("gaussian diagonal", max_iter=200).converged_
    assert len(fit("gaussian diagonal", max_iter=200).log_likelihoods_) < 200
    first, second = (fit("mixture full", random_state=4) for _ in range(2))
    np.testing.assert_array_equal(first.emission_.weights, second.emission_.weights)


def test_weights_of_sequences() -> None:
    for name in ("gaussian full", "poisson", "categorical", "mixture tied"):
        case, X = DATA[name]
        settings = {**case, **NO_SMOOTHING, "random_state": 0, "max_iter": 6}
        first = trellis.HMM(**settings).fit(X, PARTIAL, sample_weight=[2, 1, 0, 1])
        logs = first.log_likelihoods_
        assert (np.diff(logs) > -1e-9).all()
        np.testing.assert_allclose(first.start_.sum(), 1.0)
