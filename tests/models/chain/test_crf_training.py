"""Training a CRF: the optimum, threads, sample weights, early stopping, warm start."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from labellings import (
    build_training_problem,
    edge_part,
    evaluate,
    random_data,
    state_part,
    weights_by_name,
)
from scipy.optimize import minimize

import trellis
from trellis.errors import InputError, TrellisError
from trellis.models.chain.checkpoint import Checkpoint
from trellis.models.chain.solvers import ONLINE_SOLVERS, SOLVERS, default_max_iter

EXACT = {"epsilon": 1e-9, "period": 0}
ONLINE = ("sgd", "perceptron", "passive-aggressive", "arow")


def tagged_sentences(seed: int = 0, n: int = 30) -> tuple[list[list[str]], list[list[str]]]:
    """Return sentences of a small language: words and tags predict tags."""
    rng = np.random.default_rng(seed)
    words = {"D": ["the", "a"], "N": ["dog", "cat", "run"], "V": ["run", "sees", "sleeps"]}
    next_tag = {"D": "N", "N": "V", "V": "D"}
    X, y = [], []
    for _ in range(n):
        tags = ["DNV"[rng.integers(3)]]
        while len(tags) < 6:
            tags.append(next_tag[tags[-1]] if rng.random() < 0.8 else "DNV"[rng.integers(3)])
        y.append(tags)
        X.append([words[tag][rng.integers(len(words[tag]))] for tag in tags])
    return X, y


# ---- the optimum


@pytest.mark.parametrize("edges", [0, 2])
def test_the_optimum_is_that_of_scipy(edges: int) -> None:
    X, y = random_data(5, 3, [4, 6, 2, 5, 1, 7], edge_attributes=edges)
    model = trellis.CRF(
        state_part, edge_features=edge_part if edges else None, l2=0.3, solver_options=EXACT
    ).fit(X, y)
    objective = build_training_problem(model, X, y).objective()

    def loss_and_gradient(w: np.ndarray) -> tuple[float, np.ndarray]:
        gradient = np.empty_like(w)
        return objective(w, gradient), gradient

    options = {"maxiter": 5000, "maxfun": 50000, "ftol": 1e-16, "gtol": 1e-10}
    best = minimize(
        loss_and_gradient, np.zeros(len(model.coef_)), jac=True, method="L-BFGS-B", options=options
    )
    assert model.objective_ == pytest.approx(best.fun, rel=1e-8)
    np.testing.assert_allclose(model.coef_, best.x, atol=1e-5)


def test_objective_is_the_loss_at_the_weights() -> None:
    X, y = random_data(5, 3, [4, 6, 2])
    model = trellis.CRF(state_part, l2=0.7).fit(X, y)
    penalty = 0.35 * model.coef_ @ model.coef_
    assert model.objective_ == pytest.approx(penalty - model.log_likelihood(X, y).sum())


def test_l1_is_part_of_the_objective() -> None:
    X, y = random_data(5, 3, [4, 6, 2, 5])
    model = trellis.CRF(state_part, l2=0.2, l1=0.3).fit(X, y)
    penalty = 0.1 * model.coef_ @ model.coef_ + 0.3 * np.abs(model.coef_).sum()
    assert model.objective_ == pytest.approx(penalty - model.log_likelihood(X, y).sum())


def test_gradient_ascent_reaches_the_same_optimum() -> None:
    X, y = random_data(5, 3, [4, 3, 2])
    plain = trellis.CRF(state_part, solver="gradient", max_iter=5000).fit(X, y)
    assert plain.objective_ == pytest.approx(trellis.CRF(state_part).fit(X, y).objective_, rel=1e-4)


def test_length_one_without_transitions_is_softmax_regression() -> None:
    rng = np.random.default_rng(1)
    table, labels = rng.normal(size=(60, 4)), [str(c) for c in rng.choice(["P", "Q", "R"], 60)]
    softmax = trellis.SoftmaxRegression(l2=0.5, fit_intercept=False, tol=1e-9).fit(table, labels)
    crf = trellis.CRF(l2=0.5, states="all", transitions="none", solver_options=EXACT)
    crf.fit([row[None] for row in table], [[label] for label in labels])
    np.testing.assert_allclose(crf.coef_.reshape(4, 3), softmax.coef_.T, atol=1e-6)
    assert crf.objective_ == pytest.approx(softmax.objective_, rel=1e-9)
    marginals = np.concatenate(crf.predict_marginals([row[None] for row in table]))
    np.testing.assert_allclose(marginals, softmax.predict_proba(table), atol=1e-7)


# ---- the same bits


@pytest.mark.parametrize("parameters", [{}, {"l1": 0.5}, {"solver": "gradient", "max_iter": 10}])
def test_bits_do_not_depend_on_threads_or_runs(parameters: Any) -> None:
    X, y = random_data(2, 9, [13, 40, 1, 22, 5, 9] * 60, attributes=300, real=False)
    weights = [
        trellis.CRF(state_part, n_jobs=n, **({"max_iter": 15} | parameters)).fit(X, y).coef_
        for n in (1, 2, 3, 2)
    ]
    assert all(np.array_equal(weights[0], w) for w in weights[1:])


@pytest.mark.parametrize("solver", ONLINE)
def test_online_solvers_repeat_with_their_seed(solver: str) -> None:
    X, y = tagged_sentences()
    first, same_seed, other_seed = (
        trellis.CRF(solver=solver, random_state=seed, max_iter=3, n_jobs=jobs).fit(X, y).coef_
        for seed, jobs in ((1, 1), (1, 2), (2, 1))
    )
    assert np.array_equal(first, same_seed)
    assert not np.array_equal(first, other_seed)


def test_predictions_do_not_depend_on_threads_or_other_sequences() -> None:
    X, y = random_data(3, 5, [7, 1, 12, 3, 30] * 8)
    model = trellis.CRF(state_part).fit(X, y)
    together, marginals = model.predict(X), model.predict_marginals(X)
    assert [model.predict([x])[0] for x in X] == together
    for x, table in zip(X, marginals, strict=True):
        np.testing.assert_allclose(model.predict_marginals([x])[0], table, rtol=1e-12)
    order = np.random.default_rng(0).permutation(len(X))
    assert model.predict([X[i] for i in order]) == [together[i] for i in order]
    model.n_jobs = 3
    assert model.predict(X) == together


def test_four_threads_at_once() -> None:
    X, y = random_data(3, 5, [7, 1, 12, 3, 30] * 8)
    model = trellis.CRF(state_part, n_jobs=2).fit(X, y)
    expected = model.predict(X), np.concatenate(model.predict_marginals(X))
    model.set_weights(model.coef_)  # all threads find the cached scorer missing at the same time

    def work(_: int) -> tuple[Any, Any]:
        return model.predict(X), np.concatenate(model.predict_marginals(X))

    with ThreadPoolExecutor(4) as pool:
        for labels, marginals in pool.map(work, range(12)):
            assert labels == expected[0]
            assert np.array_equal(marginals, expected[1])


# ---- sample weights and label weights


def test_weight_two_is_like_the_sequence_twice() -> None:
    X, y = random_data(5, 3, [4, 6, 2, 5])
    weighted = trellis.CRF(state_part, solver_options=EXACT).fit(X, y, [1, 2, 1, 3])
    copies = [0, 1, 1, 2, 3, 3, 3]
    repeated = trellis.CRF(state_part, solver_options=EXACT)
    repeated.fit([X[i] for i in copies], [y[i] for i in copies])
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-10)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-6)


@pytest.mark.parametrize("transitions", ["seen", "all"])
def test_weight_zero_is_like_leaving_the_sequence_out(transitions: str) -> None:
    X, y = random_data(5, 3, [4, 6, 2, 5])
    odd, labels = [({"odd": 1.0}, {})] * 2, [y[0][0]] * 2
    model = trellis.CRF(state_part, transitions=transitions)
    model.fit([*X, odd], [*y, labels], [1] * 4 + [0])
    without = trellis.CRF(state_part, transitions=transitions).fit(X, y)
    weights, expected = weights_by_name(model, model.coef_), weights_by_name(without, without.coef_)
    assert weights[1] == pytest.approx(expected[1])
    assert {k: v for k, v in weights[0].items() if k != "odd"} == {
        k: pytest.approx(v) for k, v in expected[0].items()
    }
    assert set(weights[0].get("odd", {}).values()) <= {0.0}


@pytest.mark.parametrize("solver", ["sgd", "gradient"])
def test_online_solvers_use_sample_weights(solver: str) -> None:
    X, y = tagged_sentences()
    settings = {"solver": solver, "max_iter": 300, "random_state": 0, "l2": 1.0}
    weights = np.arange(len(X)) % 3
    model = trellis.CRF(**settings).fit(X, y, weights)
    exact = trellis.CRF(l2=1.0, solver_options=EXACT).fit(X, y, weights)
    loss = evaluate(build_training_problem(model, X, y, weights), model.coef_)[0]
    assert loss == pytest.approx(exact.objective_, rel=0.02)


def test_a_heavier_label_is_predicted_more_often() -> None:
    X, y = tagged_sentences(n=60)
    plain = trellis.CRF(l2=5.0).fit(X, y)
    heavy = trellis.CRF(l2=5.0, label_weight={"N": 20.0}).fit(X, y)

    def count(model: Any) -> int:
        return sum(labels.count("N") for labels in model.predict(X))

    assert count(heavy) > count(plain)


# ---- callbacks, limits, early stopping


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_callback_gets_each_iteration_and_can_stop(solver: str) -> None:
    X, y = tagged_sentences()
    seen: list[Any] = []

    def stop(progress: Any) -> bool:
        seen.append((progress.iteration, progress.loss))
        return progress.iteration == 2

    model = trellis.CRF(solver=solver, random_state=0).fit(X, y, callback=stop)
    assert [iteration for iteration, _ in seen] == [1, 2]
    assert model.n_iter_ == 2
    assert not model.converged_
    assert len(model.predict(X)) == len(X)


@pytest.mark.parametrize("solver", SOLVERS)
def test_max_iter(solver: str) -> None:
    X, y = tagged_sentences()
    model = trellis.CRF(solver=solver, max_iter=2, random_state=0).fit(X, y)
    assert model.n_iter_ == 2


def test_dev_scores_of_each_iteration() -> None:
    X, y = tagged_sentences()
    model = trellis.CRF(max_iter=4).fit(X[:20], y[:20], dev=(X[20:], y[20:]))
    assert [iteration for iteration, _ in model.dev_scores_] == [1, 2, 3, 4]
    assert model.dev_scores_[-1][1] == model.score(X[20:], y[20:])


def test_early_stopping_keeps_the_best_weights() -> None:
    """The model overfits noise: the score on other data rises, then falls."""
    rng = np.random.default_rng(0)
    X, y = tagged_sentences(n=60)
    X = [[[word, f"id{rng.integers(40)}"] for word in x] for x in X]
    model = trellis.CRF(l2=1e-4, early_stopping=3).fit(X[:20], y[:20], dev=(X[20:], y[20:]))
    scores = [value for _, value in model.dev_scores_]
    assert model.score(X[20:], y[20:]) == max(scores)
    assert len(scores) - 1 - int(np.argmax(scores)) <= 3
    loss = evaluate(build_training_problem(model, X[:20], y[:20]), model.coef_)[0]
    assert model.objective_ == pytest.approx(loss)


def test_early_stopping_with_l1() -> None:
    X, y = tagged_sentences(n=40)
    model = trellis.CRF(l1=0.5, early_stopping=2).fit(X[:20], y[:20], dev=(X[20:], y[20:]))
    assert model.score(X[20:], y[20:]) == max(value for _, value in model.dev_scores_)
    assert np.count_nonzero(model.coef_) == len(model.coef_)


# ---- warm start


def test_a_warm_start_at_the_optimum_stays_there() -> None:
    X, y = tagged_sentences()
    model = trellis.CRF(warm_start=True, solver_options=EXACT).fit(X, y)
    before, steps = model.coef_.copy(), model.n_iter_
    model.fit(X, y)
    assert model.n_iter_ < steps / 3
    np.testing.assert_allclose(model.coef_, before, atol=1e-6)


def test_new_labels_and_features_keep_the_old_weights() -> None:
    """The perceptron changes only the weights of the one sequence with an error."""
    X, y = tagged_sentences()
    new, new_y = [["Anna", "sleeps"]], [["A", "V"]]
    model = trellis.CRF(warm_start=True, transitions="seen").fit(X, y)
    old_weights = weights_by_name(model, model.coef_)
    model.set_params(solver="perceptron", max_iter=1, random_state=0).fit(new, new_y)
    new_weights = weights_by_name(model, model.coef_)
    touched = set(trellis.CRF().fit(new, new_y).features_.names())
    assert set(model.classes_) == {"A", "D", "N", "V"}
    assert touched <= set(new_weights[0])
    assert ("A", "V") in new_weights[1]
    assert len(set(old_weights[0]) - touched) > 30
    for name in set(old_weights[0]) - touched:
        assert new_weights[0][name] == old_weights[0][name]
    assert sum(new_weights[1][pair] != weight for pair, weight in old_weights[1].items()) <= 1


def test_a_warm_start_on_more_data_reaches_the_same_optimum() -> None:
    X, y = tagged_sentences()
    more, more_y = [["Anna", "sees", "a", "dog"]] * 3, [["A", "V", "D", "N"]] * 3
    model = trellis.CRF(warm_start=True, solver_options=EXACT).fit(X, y)
    model.fit(X + more, y + more_y)
    fresh = trellis.CRF(solver_options=EXACT).fit(X + more, y + more_y)
    assert model.objective_ == pytest.approx(fresh.objective_, rel=1e-9)
    weights, expected = weights_by_name(model, model.coef_), weights_by_name(fresh, fresh.coef_)
    assert weights[1] == {k: pytest.approx(v, abs=1e-5) for k, v in expected[1].items()}
    assert set(weights[0]) == set(expected[0])
    assert model.predict(X) == fresh.predict(X)


@pytest.mark.parametrize("l1", [0.0, 0.8])
def test_a_warm_start_with_arrays(l1: float) -> None:
    """Columns without a weight in the first fit must not shift the other columns."""
    rng = np.random.default_rng(0)
    X = [np.abs(rng.normal(size=(5, 4))) for _ in range(12)]
    for x in X:
        x[:, 0] = 0.0
    y = [["PQR"[int(np.argmax(row[1:]))] for row in x] for x in X]
    model = trellis.CRF(warm_start=True, l1=l1, l2=0.1, solver_options=EXACT).fit(X, y)
    before, steps = model.objective_, model.n_iter_
    model.fit(X, y)
    assert model.objective_ == pytest.approx(before, rel=1e-6)
    assert model.n_iter_ <= max(2, steps // 2)


def test_a_warm_start_from_a_file(tmp_path: Any) -> None:
    X, y = tagged_sentences()
    model = trellis.CRF(warm_start=True).fit(X, y)
    model.save(tmp_path / "model.trellis")
    loaded = trellis.load(tmp_path / "model.trellis")
    new_data = [*X, ["Anna", "sees"]], [*y, ["A", "V"]]
    assert np.array_equal(loaded.fit(*new_data).coef_, model.fit(*new_data).coef_)


def test_a_failed_fit_leaves_the_earlier_model_unchanged(tmp_path: Any) -> None:
    X, y = tagged_sentences()
    model = trellis.CRF(warm_start=True).fit(X, y)
    marginals = model.predict_marginals(X)
    with pytest.raises(InputError):
        model.fit([["quite", "new", "words"]], [["N"]])
    for p, expected in zip(model.predict_marginals(X), marginals, strict=True):
        assert np.array_equal(p, expected)
    model.save(tmp_path / "model.trellis")
    assert trellis.load(tmp_path / "model.trellis").predict(X) == model.predict(X)
    model.fit(X, y)


# ---- solvers


def test_a_solver_is_added_in_one_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setitem(SOLVERS, "quasi-newton", SOLVERS["lbfgs"])
    X, y = tagged_sentences(n=8)
    expected = trellis.CRF(l1=0.1).fit(X, y)
    path = tmp_path / "run.checkpoint"
    trellis.CRF(l1=0.1, solver="quasi-newton", max_iter=3).fit(
        X, y, checkpoint=Checkpoint(path, every=1)
    )
    resumed = trellis.CRF(l1=0.1, solver="quasi-newton")
    resumed.fit(X, y, checkpoint=Checkpoint(path, resume=True))
    assert np.array_equal(resumed.coef_, expected.coef_)


def test_each_solver_knows_its_default_limit() -> None:
    assert default_max_iter("lbfgs") is None
    for name in ONLINE_SOLVERS:
        assert default_max_iter(name) == 100


# ---- invalid parameters


@pytest.mark.parametrize(
    "parameters",
    [
        {"l2": -1.0},
        {"l2": float("nan")},
        {"l2": "much"},
        {"l1": float("inf")},
        {"l1": None},
        {"solver": "newton"},
        {"solver": None},
        {"states": "some"},
        {"transitions": "few"},
        {"max_iter": -3},
        {"max_iter": 1.5},
        {"min_count": "often"},
        {"min_count": float("nan")},
        {"min_count": 1e9, "transitions": "none"},
        {"label_weight": {"N": 0.0}},
        {"label_weight": {"N": -2.0}},
        {"label_weight": {"N": "heavy"}},
        {"label_weight": {"N": float("nan")}},
        {"label_weight": ["N"]},
        {"early_stopping": 3},
        {"features": 7},
        {"features": "w[0]"},
        {"edge_features": 7},
        {"n_jobs": 0},
        {"n_jobs": "all"},
        {"l1": 1.0, "solver": "sgd"},
        {"l1": 1.0, "solver": "gradient"},
        {"l2": 0.0, "solver": "sgd"},
        {"solver_options": 7},
    ],
    ids=str,
)
def test_invalid_parameters(parameters: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        trellis.CRF(**parameters).fit(*tagged_sentences())


def test_an_unknown_solver_option() -> None:
    with pytest.raises((InputError, TypeError), match="no_such_option"):
        trellis.CRF(solver_options={"no_such_option": 1}).fit(*tagged_sentences())


@pytest.mark.parametrize(
    "weights", [[1.0], [[1.0] * 30], [-1.0] * 30, [float("nan")] * 30, "x" * 30]
)
def test_invalid_sample_weights(weights: Any) -> None:
    with pytest.raises(InputError):
        trellis.CRF().fit(*tagged_sentences(), sample_weight=weights)


@pytest.mark.parametrize("dev", [7, ([["a"]],), ([["a"]], [["D", "N"]]), ([["a"]], [])])
def test_invalid_development_data(dev: Any) -> None:
    with pytest.raises(TrellisError):
        trellis.CRF(max_iter=2).fit(*tagged_sentences(), dev=dev)
