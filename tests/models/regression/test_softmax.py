"""SoftmaxRegression: scikit-learn's checks and optima, and joint features φ(x, y)."""

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn import linear_model
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from trellis.errors import InputError
from trellis.models.regression.joint import candidate_problem
from trellis.models.regression.logistic import LogisticRegression
from trellis.models.regression.softmax import SoftmaxRegression, softmax_problem

SOLVERS = ["lbfgs", "newton", "gradient"]


@parametrize_with_checks([SoftmaxRegression(), SoftmaxRegression(solver="newton", tol=1e-10)])
def test_scikit_learn_rules(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category=ConvergenceWarning)
        check(estimator)


def data(
    n: int = 150, d: int = 5, k: int = 4, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.67)
    y = (x @ rng.normal(size=(d, k)) + rng.gumbel(size=(n, k))).argmax(axis=1)
    return x, np.array(["a", "b", "c", "d", "e"])[y], rng.uniform(0.0, 3.0, size=n)


@pytest.mark.parametrize("l2", [0.05, 1.0, 20.0])
@pytest.mark.parametrize("solver", ["lbfgs", "newton"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_as_scikit_learn(l2: float, solver: str, fit_intercept: bool) -> None:
    x, y, weights = data()
    ours = SoftmaxRegression(l2=l2, solver=solver, fit_intercept=fit_intercept, tol=1e-8).fit(
        x, y, weights
    )
    theirs = linear_model.LogisticRegression(
        C=1 / l2, fit_intercept=fit_intercept, tol=1e-10, max_iter=10_000
    ).fit(x, y, weights)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(ours.predict_proba(x), theirs.predict_proba(x), atol=1e-6)
    np.testing.assert_array_equal(ours.predict(x), theirs.predict(x))
    assert ours.decision_function(x).shape == (150, 4)


def test_gradient_ascent_reaches_the_same() -> None:
    x, y, _ = data()
    plain = SoftmaxRegression(solver="gradient").fit(x, y)
    newton = SoftmaxRegression(solver="newton").fit(x, y)
    assert plain.converged_
    np.testing.assert_allclose(plain.coef_, newton.coef_, atol=1e-5)
    np.testing.assert_allclose(plain.intercept_, newton.intercept_, atol=1e-5)


def test_two_classes_are_logistic_regression() -> None:
    x, y, weights = data(k=2)
    softmax = SoftmaxRegression(l2=1.0, tol=1e-9).fit(x, y, weights)
    logistic = LogisticRegression(l2=0.5, tol=1e-9).fit(x, y, weights)  # two rows share the work
    np.testing.assert_allclose(softmax.predict_proba(x), logistic.predict_proba(x), atol=1e-8)
    np.testing.assert_allclose(softmax.coef_[1] - softmax.coef_[0], logistic.coef_[0], atol=1e-7)
    np.testing.assert_allclose(
        softmax.decision_function(x), logistic.decision_function(x), atol=1e-7
    )


def central_differences(problem: Any, w: np.ndarray) -> tuple[np.ndarray, ...]:
    def at(v: np.ndarray) -> tuple[float, np.ndarray]:
        gradient = np.full(len(v), np.nan)
        return problem.objective(v, gradient), gradient

    steps = 1e-5 * np.eye(len(w))
    slope = np.array([(at(w + e)[0] - at(w - e)[0]) / 2e-5 for e in steps])
    curvature = np.array([(at(w + e)[1] - at(w - e)[1]) / 2e-5 for e in steps])
    return at(w)[1], slope, curvature


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix, sparse.csr_array])
def test_derivatives(intercept: bool, make: Any) -> None:
    x, y, weights = data(n=30)
    onehot = y[:, None] == np.unique(y)
    problem = softmax_problem(make(x), onehot, weights, 0.7, intercept)
    w = np.random.default_rng(1).normal(size=len(problem.penalised))
    gradient, slope, curvature = central_differences(problem, w)
    np.testing.assert_allclose(gradient, slope, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(problem.hessian(w), curvature, rtol=1e-6, atol=1e-6)
    assert problem.penalised.tolist() == ([True] * 5 + [False] * intercept) * 4


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix])
def test_derivatives_with_joint_features(make: Any) -> None:
    rng = np.random.default_rng(0)
    begin = np.concatenate([[0], np.cumsum(rng.integers(1, 6, size=20))])
    rows = rng.normal(size=(begin[-1], 7)) * (rng.random((begin[-1], 7)) < 0.5)
    right = rng.integers(begin[:-1], begin[1:])
    problem = candidate_problem(make(rows), begin, right, rng.uniform(size=20), 0.3)
    gradient, slope, curvature = central_differences(problem, rng.normal(size=7))
    np.testing.assert_allclose(gradient, slope, rtol=1e-6, atol=1e-7)
    w = rng.normal(size=7)
    np.testing.assert_allclose(
        problem.hessian(w), central_differences(problem, w)[2], rtol=1e-6, atol=1e-6
    )
    assert curvature.shape == (7, 7)


def test_objective_is_the_loss_with_penalties() -> None:
    x, y, weights = data()
    model = SoftmaxRegression(l2=2.0, l1=0.5).fit(x, y, weights)
    log_p = model.predict_log_proba(x)[y[:, None] == model.classes_]
    penalty = 2.0 / 2 * (model.coef_**2).sum() + 0.5 * np.abs(model.coef_).sum()
    assert model.objective_ == pytest.approx(-(weights @ log_p) + penalty)


def test_l1_is_sparse_and_optimal() -> None:
    x, y, _ = data(d=15)
    x[:, 5:] = np.random.default_rng(5).normal(size=(150, 10))  # say nothing of y
    model = SoftmaxRegression(l2=0.1, l1=3.0).fit(x, y)
    rest = model.predict_proba(x) - (y[:, None] == model.classes_)
    slope = rest.T @ x + 0.1 * model.coef_
    zero = model.coef_ == 0
    assert zero.sum() > 20
    assert np.abs(slope[zero]).max() <= 3.0 + 1e-5
    np.testing.assert_allclose(slope[~zero], -3.0 * np.sign(model.coef_[~zero]), atol=1e-5)
    np.testing.assert_allclose(rest.sum(axis=0), 0.0, atol=1e-5)  # intercepts go unpunished


@pytest.mark.parametrize("solver", SOLVERS)
def test_sparse_and_dense_give_the_same(solver: str) -> None:
    x, y, weights = data()
    dense = SoftmaxRegression(solver=solver).fit(x, y, weights)
    model = SoftmaxRegression(solver=solver).fit(sparse.csr_matrix(x), y, weights)
    np.testing.assert_allclose(model.coef_, dense.coef_, atol=1e-6)
    got = model.predict_proba(sparse.csr_array(x))
    np.testing.assert_allclose(got, dense.predict_proba(x), atol=1e-6)


def test_scores_of_ten_thousand() -> None:
    x, y, _ = data()
    model = SoftmaxRegression().fit(x, y)
    log_p = model.predict_log_proba(1e6 * x)
    assert np.isfinite(log_p).all()
    assert log_p.min() < -1e4
    np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1.0)


def test_iris() -> None:
    x, y = load_iris(return_X_y=True)
    model = SoftmaxRegression(solver="newton").fit(x, y)
    assert model.score(x, y) > 0.96
    assert model.n_iter_ < 15


# ---- joint features


def test_joint_vectors_that_copy_x_are_multinomial_regression() -> None:
    x, y, weights = data()
    labels = sorted(set(y))

    def place(row: Any, label: str) -> np.ndarray:
        out = np.zeros((4, 5))
        out[labels.index(label)] = row
        return out.ravel()

    plain = SoftmaxRegression(fit_intercept=False, tol=1e-9).fit(x, y, weights)
    for solver in SOLVERS:
        model = SoftmaxRegression(features=place, solver=solver).fit(x, y, weights)
        np.testing.assert_allclose(model.coef_.reshape(4, 5), plain.coef_, atol=1e-5)
        np.testing.assert_allclose(model.predict_proba(x), plain.predict_proba(x), atol=1e-5)
        assert model.objective_ == pytest.approx(plain.objective_)


def test_joint_names_that_copy_x_are_multinomial_regression() -> None:
    x, y, _ = data()

    def named(row: Any, label: str) -> dict[str, float]:
        return {f"{j}/{label}": float(v) for j, v in enumerate(row)}

    plain = SoftmaxRegression(fit_intercept=False, tol=1e-9).fit(x, y)
    model = SoftmaxRegression(features=named, tol=1e-9).fit(x, y)
    table = dict(zip(model.feature_names_, model.coef_, strict=True))
    for label, row in zip(plain.classes_, plain.coef_, strict=True):
        for j, weight in enumerate(row):
            assert table[f"{j}/{label}"] == pytest.approx(weight, abs=1e-7)
    assert model.n_features_in_ == len(model.feature_names_) == 20


def endings(word: str, tag: str) -> list[str]:
    """Return names of features. Two labels share the feature "verb/ing"."""
    shared = ["verb/ing"] if word.endswith("ing") and tag.startswith("V") else []
    return [f"{word[-1]}/{tag}", tag, *shared]


WORDS = ["walking", "seen", "going", "been", "dog", "house", "king", "gone"]
TAGS = ["VBG", "VBN", "VBG", "VBN", "NN", "NN", "NN", "VBN"]


def test_joint_features_shared_between_labels() -> None:
    model = SoftmaxRegression(features=endings, l2=0.1, tol=1e-8).fit(WORDS, TAGS)
    assert model.predict(["talking", "taken"]).tolist() == ["VBG", "VBN"]
    weights = dict(zip(model.feature_names_, model.coef_, strict=True))
    assert weights["verb/ing"] > 0
    # p(y | x) from the definition
    for word, got in zip(WORDS, model.predict_proba(WORDS), strict=True):
        scores = [
            sum(weights[f] for f in endings(word, tag) if f in weights) for tag in model.classes_
        ]
        want = np.exp(scores) / np.exp(scores).sum()
        np.testing.assert_allclose(got, want, rtol=1e-12)
    # The empirical count of each feature equals the expected count, except for the penalty.
    for name, weight in weights.items():
        seen = sum(name in endings(w, t) for w, t in zip(WORDS, TAGS, strict=True))
        expected = sum(
            p * (name in endings(word, tag))
            for word, row in zip(WORDS, model.predict_proba(WORDS), strict=True)
            for tag, p in zip(model.classes_, row, strict=True)
        )
        assert seen - expected == pytest.approx(0.1 * weight, abs=1e-5)


def test_joint_features_unseen_at_prediction() -> None:
    model = SoftmaxRegression(features=endings).fit(WORDS, TAGS)
    p = model.predict_proba(["xyzzq"])
    assert np.isfinite(p).all()
    assert p.sum() == pytest.approx(1.0)


def test_joint_model_pickles() -> None:
    model = SoftmaxRegression(features=endings).fit(WORDS, TAGS)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(WORDS), model.predict_proba(WORDS))


def test_joint_weights_and_l1() -> None:
    twice = SoftmaxRegression(features=endings, tol=1e-9).fit(WORDS, TAGS, np.full(8, 2.0))
    both = SoftmaxRegression(features=endings, tol=1e-9).fit(WORDS * 2, TAGS * 2)
    np.testing.assert_allclose(twice.coef_, both.coef_, atol=1e-7)
    sparse_model = SoftmaxRegression(features=endings, l1=0.5).fit(WORDS, TAGS)
    assert 0 < np.count_nonzero(sparse_model.coef_) < len(sparse_model.coef_)


# ---- invalid input


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"l2": -1.0}, "l2.*-1"),
        ({"l1": np.inf}, "l1.*inf"),
        ({"solver": "sgd"}, "solver.*sgd"),
        ({"l1": 1.0, "solver": "newton"}, "'lbfgs' if l1 > 0, not 'newton'"),
        ({"max_iter": "many"}, "max_iter.*many"),
        ({"tol": np.nan}, "tol.*nan"),
    ],
)
def test_bad_parameters(bad: dict[str, Any], says: str) -> None:
    x, y, _ = data()
    with pytest.raises(InputError, match=says):
        SoftmaxRegression(**bad).fit(x, y)
    with pytest.raises(InputError, match=says):
        SoftmaxRegression(features=endings, **bad).fit(WORDS, TAGS)


def test_bad_data() -> None:
    x, y, _ = data()
    with pytest.raises(InputError, match=r"one class, .*'a'"):
        SoftmaxRegression().fit(x, np.full(len(y), "a"))
    with pytest.raises(InputError, match="only one class, 1: training needs two"):
        SoftmaxRegression().fit(x, np.ones(len(y), dtype=int))
    with pytest.raises(NotFittedError):
        SoftmaxRegression().predict(x)
    with pytest.raises(ValueError, match="3 features"):
        SoftmaxRegression().fit(x, y).predict(x[:, :3])


def test_bad_joint_data() -> None:
    model = SoftmaxRegression(features=endings)
    with pytest.raises(NotFittedError):
        model.predict(WORDS)
    with pytest.raises(InputError, match="8 samples, y has 7"):
        model.fit(WORDS, TAGS[:-1])
    with pytest.raises(InputError, match="X is empty"):
        model.fit([], [])
    with pytest.raises(InputError, match="list of samples, not str"):
        model.fit("walking", ["VBG"])
    with pytest.raises(InputError, match="one class"):
        model.fit(WORDS, ["NN"] * 8)
    with pytest.raises(InputError, match=r"function of .*not 'words'"):
        SoftmaxRegression(features="words").fit(WORDS, TAGS)
    with pytest.raises(InputError, match="no feature"):
        SoftmaxRegression(features=lambda x, y: []).fit(WORDS, TAGS)
    with pytest.raises(InputError, match="sample 4 with label 'NN' must be 2 finite"):
        SoftmaxRegression(features=lambda x, y: np.ones(3 if (x, y) == ("dog", "NN") else 2)).fit(
            WORDS, TAGS
        )
    with pytest.raises(InputError, match=r"sample 0 with label 'NN'.*nan"):
        SoftmaxRegression(features=lambda x, y: [float("nan"), 1.0]).fit(WORDS, TAGS)
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        model.fit(WORDS, TAGS, -np.ones(8))
