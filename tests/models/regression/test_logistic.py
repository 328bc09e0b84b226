"""LogisticRegression: scikit-learn's checks and optima, derivatives, large numbers."""

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn import linear_model
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from trellis.errors import InputError
from trellis.models.regression.logistic import LogisticRegression, logistic_problem

SOLVERS = ["lbfgs", "newton", "gradient"]


@parametrize_with_checks([LogisticRegression(), LogisticRegression(solver="newton", tol=1e-10)])
def test_scikit_learn_rules(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category=ConvergenceWarning)
        check(estimator)


def data(n: int = 150, d: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return samples (a third of their features are 0), labels and sample weights."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.67)
    y = np.where(x @ rng.normal(size=d) + 0.5 + rng.logistic(size=n) > 0, "yes", "no")
    return x, y, rng.uniform(0.0, 3.0, size=n)


@pytest.mark.parametrize("l2", [0.01, 1.0, 50.0])
@pytest.mark.parametrize("solver", ["lbfgs", "newton"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_as_scikit_learn(l2: float, solver: str, fit_intercept: bool) -> None:
    x, y, weights = data()
    ours = LogisticRegression(l2=l2, solver=solver, fit_intercept=fit_intercept, tol=1e-8).fit(
        x, y, weights
    )
    theirs = linear_model.LogisticRegression(
        C=1 / l2, fit_intercept=fit_intercept, tol=1e-12, solver="newton-cholesky", max_iter=1000
    ).fit(x, y, weights)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(ours.predict_proba(x), theirs.predict_proba(x), atol=1e-6)
    np.testing.assert_array_equal(ours.predict(x), theirs.predict(x))
    np.testing.assert_allclose(ours.decision_function(x), theirs.decision_function(x), atol=1e-5)
    assert ours.converged_


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_gradient_ascent_reaches_the_same(fit_intercept: bool) -> None:
    x, y, _ = data()
    plain = LogisticRegression(solver="gradient", fit_intercept=fit_intercept, tol=1e-7).fit(x, y)
    newton = LogisticRegression(solver="newton", fit_intercept=fit_intercept).fit(x, y)
    assert plain.converged_
    assert plain.n_iter_ > newton.n_iter_
    np.testing.assert_allclose(plain.coef_, newton.coef_, atol=1e-6)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_l1_as_scikit_learn(fit_intercept: bool) -> None:
    x, y, _ = data(d=20)
    ours = LogisticRegression(l2=0.0, l1=4.0, fit_intercept=fit_intercept, tol=1e-9).fit(x, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # saga's arguments change names between versions
        theirs = linear_model.LogisticRegression(
            C=1 / 4.0,
            penalty="l1",
            solver="saga",
            tol=1e-10,
            max_iter=50_000,
            fit_intercept=fit_intercept,
        ).fit(x, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=0, atol=1e-5)
    np.testing.assert_array_equal(ours.coef_ == 0, np.abs(theirs.coef_) < 1e-9)
    assert 0 < np.count_nonzero(ours.coef_) < 20
    if fit_intercept:
        np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-5)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix, sparse.csr_array])
def test_derivatives(intercept: bool, make: Any) -> None:
    x, y, weights = data(n=30)
    problem = logistic_problem(make(x), y == "yes", weights, 0.7, intercept)
    n = len(problem.penalised)
    w = np.random.default_rng(1).normal(size=n)

    def at(v: np.ndarray) -> tuple[float, np.ndarray]:
        gradient = np.full(n, np.nan)
        return problem.objective(v, gradient), gradient

    losses = [(at(w + e)[0] - at(w - e)[0]) / 2e-5 for e in 1e-5 * np.eye(n)]
    np.testing.assert_allclose(at(w)[1], losses, rtol=1e-6, atol=1e-7)
    slopes = [(at(w + e)[1] - at(w - e)[1]) / 2e-5 for e in 1e-5 * np.eye(n)]
    np.testing.assert_allclose(problem.hessian(w), slopes, rtol=1e-6, atol=1e-6)
    assert problem.penalised.tolist() == [True] * 6 + [False] * intercept


def test_objective_is_the_loss_with_penalties() -> None:
    x, y, weights = data()
    model = LogisticRegression(l2=2.0, l1=0.5).fit(x, y, weights)
    log_p = model.predict_log_proba(x)[np.arange(len(y)), (y == "yes").astype(int)]
    penalty = 2.0 / 2 * (model.coef_**2).sum() + 0.5 * np.abs(model.coef_).sum()
    assert model.objective_ == pytest.approx(-(weights @ log_p) + penalty)
    assert model.n_features_in_ == 6
    assert model.classes_.tolist() == ["no", "yes"]


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("make", [sparse.csr_matrix, sparse.csc_matrix, sparse.csr_array])
def test_sparse_and_dense_give_the_same(solver: str, make: Any) -> None:
    x, y, weights = data()
    dense = LogisticRegression(solver=solver).fit(x, y, weights)
    model = LogisticRegression(solver=solver).fit(make(x), y, weights)
    np.testing.assert_allclose(model.coef_, dense.coef_, atol=1e-7)
    np.testing.assert_allclose(model.predict_proba(make(x)), dense.predict_proba(x), atol=1e-7)


def test_sparse_is_never_made_dense() -> None:
    n, d = 20_000, 500_000  # 80 GB if dense
    rng = np.random.default_rng(0)
    x = sparse.csr_matrix(
        (np.ones(5 * n), rng.integers(0, d, size=5 * n), np.arange(0, 5 * n + 1, 5)), shape=(n, d)
    )
    model = LogisticRegression(max_iter=3)
    with pytest.warns(ConvergenceWarning):
        model.fit(x, rng.integers(0, 2, size=n))
    assert model.predict(x).shape == (n,)


def test_sample_weights_are_repetitions() -> None:
    x, y, _ = data()
    times = np.random.default_rng(0).integers(0, 3, size=len(y))
    weighted = LogisticRegression(tol=1e-9).fit(x, y, times)
    repeated = LogisticRegression(tol=1e-9).fit(np.repeat(x, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-8)


def test_newton_takes_few_iterations() -> None:
    x, y = load_breast_cancer(return_X_y=True)
    x = StandardScaler().fit_transform(x)
    newton = LogisticRegression(solver="newton", tol=1e-9).fit(x, y)
    lbfgs = LogisticRegression(tol=1e-8).fit(x, y)
    assert newton.n_iter_ <= 10 < lbfgs.n_iter_
    np.testing.assert_allclose(newton.coef_, lbfgs.coef_, atol=1e-6)


@pytest.mark.parametrize(("solver", "scale"), [("lbfgs", 1e4), ("newton", 1e4), ("newton", 1e-4)])
def test_features_of_any_size(solver: str, scale: float) -> None:
    x, y, _ = data()
    model = LogisticRegression(l2=scale**2, solver=solver, tol=1e-8).fit(scale * x, y)
    plain = LogisticRegression(l2=1.0, solver="newton", tol=1e-10).fit(x, y)
    np.testing.assert_allclose(model.coef_ * scale, plain.coef_, rtol=1e-3, atol=1e-4)


def test_scores_of_ten_thousand() -> None:
    x, y, _ = data()
    model = LogisticRegression().fit(x, y)
    far = 1e6 * x
    log_p = model.predict_log_proba(far)
    assert np.isfinite(log_p).all()
    assert log_p.min() < -1e4
    np.testing.assert_allclose(model.predict_proba(far).sum(axis=1), 1.0)


@pytest.mark.parametrize("labels", [(0, 1), (-1, 1), ("b", "a"), (False, True), (2.0, 7.0)])
def test_labels_of_any_type(labels: tuple[Any, Any]) -> None:
    x, y, _ = data()
    named = np.where(y == "yes", labels[1], labels[0])
    model = LogisticRegression().fit(x, named)
    assert model.classes_.tolist() == sorted(labels)
    assert model.score(x, named) > 0.7


def test_the_same_bits_again() -> None:
    x, y, _ = data()
    a, b = (LogisticRegression(n_jobs=n_jobs).fit(x, y) for n_jobs in (1, 2))
    np.testing.assert_array_equal(a.coef_, b.coef_)
    np.testing.assert_array_equal(a.fit(x, y).coef_, b.coef_)


def test_in_scikit_learns_tools() -> None:
    x, y = make_classification(200, 8, random_state=0)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), LogisticRegression()),
        {"logisticregression__l2": [0.1, 1.0], "logisticregression__solver": ["lbfgs", "newton"]},
        cv=3,
    ).fit(x, y)
    assert search.best_score_ > 0.8
    model = search.best_estimator_
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))
    assert clone(LogisticRegression(l2=3.0)).l2 == 3.0


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"l2": -1.0}, "l2.*-1"),
        ({"l2": np.nan}, "l2.*nan"),
        ({"l1": -1.0}, "l1.*-1"),
        ({"solver": "sgd"}, "solver.*sgd"),
        ({"l1": 1.0, "solver": "newton"}, "'lbfgs' if l1 > 0, not 'newton'"),
        ({"l1": 1.0, "solver": "gradient"}, "'lbfgs' if l1 > 0, not 'gradient'"),
        ({"max_iter": -1}, "max_iter.*-1"),
        ({"max_iter": 1.5}, "max_iter"),
        ({"tol": -1.0}, "tol.*-1"),
        ({"n_jobs": 0}, "n_jobs"),
    ],
)
def test_bad_parameters(bad: dict[str, Any], says: str) -> None:
    x, y, _ = data()
    with pytest.raises(InputError, match=says):
        LogisticRegression(**bad).fit(x, y)


def test_bad_data() -> None:
    x, y, weights = data()
    model = LogisticRegression()
    with pytest.raises(InputError, match=r"3 classes.*SoftmaxRegression"):
        model.fit(x, np.arange(len(y)) % 3)
    with pytest.raises(InputError, match=r"one class, .*'yes'"):
        model.fit(x, np.full(len(y), "yes"))
    with pytest.raises(InputError, match="only one class, 1: training needs two"):
        model.fit(x, np.ones(len(y), dtype=int))
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.where(x == 0, np.nan, x), y)
    with pytest.raises(ValueError, match="inconsistent"):
        model.fit(x, y[:-1])
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        model.fit(x, y, -weights)
    with pytest.raises(ValueError, match="sample_weight"):
        model.fit(x, y, weights[:-1])
    with pytest.raises(NotFittedError):
        LogisticRegression().predict(x)
    with pytest.raises(ValueError, match="5 features"):
        model.fit(x, y).predict(x[:, :5])


def test_too_many_weights_for_newton() -> None:
    x = sparse.csr_matrix((2, 10_001))
    with pytest.raises(InputError, match="at most 10000 weights, not 10002"):
        LogisticRegression(solver="newton").fit(x, [0, 1])
