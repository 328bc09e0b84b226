"""SoftmaxRegression with candidates that differ from sample to sample."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from trellis.errors import InputError
from trellis.models.regression.joint import candidate_problem, find_right, offsets_of
from trellis.models.regression.softmax import SoftmaxRegression

Array = np.ndarray
SOLVERS = ["lbfgs", "newton", "gradient"]


def phi(x: Any, y: Any) -> Array:
    """Return the vector φ(x, y): samples and candidates are vectors."""
    return np.concatenate([y, x[: len(y)] * y])


def make_samples(seed: int = 0, n: int = 25) -> tuple[Any, Any, Any]:
    """Return samples, the right candidates, and lists of 1 to 5 candidates, which are tuples."""
    rng = np.random.default_rng(seed)
    X = list(rng.normal(size=(n, 3)))
    candidates = [[tuple(row) for row in rng.normal(size=(rng.integers(1, 6), 3))] for _ in X]
    y = [labels[rng.integers(len(labels))] for labels in candidates]
    return X, y, candidates


def log_p(w: Array, x: Any, labels: Any) -> Array:
    scores = np.array([phi(x, y) @ w for y in labels])
    return scores - np.log(np.exp(scores).sum())


def expected_loss(w: Array, X: Any, y: Any, candidates: Any, weights: Any, l2: float) -> float:
    total = 0.5 * l2 * float(w @ w)
    for x, label, labels, weight in zip(X, y, candidates, weights, strict=True):
        total -= weight * log_p(w, x, labels)[labels.index(label)]
    return total


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_optimum_of_the_loss(solver: str) -> None:
    X, y, candidates = make_samples()
    weights = np.random.default_rng(1).uniform(0.1, 2.0, size=len(X))
    model = SoftmaxRegression(features=phi, solver=solver, l2=0.5, tol=1e-9)
    model.fit(X, y, weights, candidates=candidates)
    w = model.coef_
    assert model.objective_ == pytest.approx(expected_loss(w, X, y, candidates, weights, 0.5))
    for k in range(len(w)):
        step = np.zeros(len(w))
        step[k] = 1e-5
        up, down = (expected_loss(w + h, X, y, candidates, weights, 0.5) for h in (step, -step))
        assert (up - down) / 2e-5 == pytest.approx(0.0, abs=1e-4)


def test_probabilities_of_the_candidates_only() -> None:
    X, y, candidates = make_samples(2)
    model = SoftmaxRegression(features=phi).fit(X, y, candidates=candidates)
    p, logs = model.predict_proba(X, candidates), model.predict_log_proba(X, candidates)
    scores, predicted = model.decision_function(X, candidates), model.predict(X, candidates)
    assert isinstance(predicted, list)
    for i, labels in enumerate(candidates):
        expected = log_p(model.coef_, X[i], labels)
        np.testing.assert_allclose(logs[i], expected, atol=1e-12)
        np.testing.assert_allclose(p[i], np.exp(expected), atol=1e-12)
        np.testing.assert_allclose(scores[i], [phi(X[i], label) @ model.coef_ for label in labels])
        assert predicted[i] == labels[int(np.argmax(expected))]
    right = [label == true for label, true in zip(predicted, y, strict=True)]
    assert model.score(X, y, candidates=candidates) == np.mean(right)
    weights = np.arange(1.0, len(X) + 1)
    expected = np.average(right, weights=weights)
    assert model.score(X, y, weights, candidates=candidates) == pytest.approx(expected)
    assert not hasattr(model, "classes_")
    assert model.intercept_.shape == (0,)
    copy = pickle.loads(pickle.dumps(model))
    assert copy.predict(X, candidates) == predicted


def test_all_classes_as_candidates_are_the_same_model() -> None:
    def ends(word: str, tag: str) -> list[str]:
        return [tag, f"{word[-2:]}/{tag}"]

    words, tags = ["walking", "seen", "going", "been"], ["VBG", "VBN", "VBG", "VBN"]
    model = SoftmaxRegression(features=ends).fit(words, tags)
    same = SoftmaxRegression(features=ends).fit(words, tags, candidates=[["VBG", "VBN"]] * 4)
    assert model.feature_names_ == same.feature_names_
    np.testing.assert_allclose(model.coef_, same.coef_, atol=1e-9)
    # a model with classes can choose among candidates too, also new ones
    assert model.predict(["running", "fallen"], [["VBN", "VBG"], ["NN", "VBN"]]) == ["VBG", "VBN"]
    p = model.predict_proba(["running"])[0]
    np.testing.assert_allclose(model.predict_proba(["running"], [["VBG", "VBN"]])[0], p)
    # an earlier fit leaves no classes
    model.fit(words, tags, candidates=[["VBG", "VBN"]] * 4)
    assert not hasattr(model, "classes_")
    assert model.fit(words, tags).predict(["running"]).tolist() == ["VBG"]


def test_one_candidate_and_candidates_of_any_type() -> None:
    def overlap(x: Any, y: Any) -> dict[str, float]:
        return {"shared": float(len(set(x) & set(y["words"]))), "length": float(len(y["words"]))}

    entities = [{"words": ["ann", "lee"]}, {"words": ["bob"]}]
    X, y = [["ann"], ["bob"], ["x"]], [entities[0], entities[1], entities[1]]
    candidates = [entities, entities, entities[1:]]
    model = SoftmaxRegression(features=overlap, l2=0.1).fit(X, y, candidates=candidates)
    assert model.predict(X, candidates) == y
    assert model.predict_proba(X, candidates)[2].tolist() == [1.0]
    assert model.feature_names_ == ["shared", "length"]
    assert find_right(["b", "a"], [["a", "b"], ["a"]]).tolist() == [1, 2]
    assert offsets_of([["a", "b"], ["a"]]).tolist() == [0, 2, 3]


def test_ties_are_the_first_candidate() -> None:
    model = SoftmaxRegression(features=lambda x, y: {"same": x == y})
    model.fit(["a"], ["a"], candidates=[["b", "a"]])
    assert model.predict(["z"], [["c", "d"]]) == ["c"]
    assert model.predict_proba(["z"], [["c", "d"]])[0].tolist() == [0.5, 0.5]


BAD: dict[str, tuple[Any, Any, str]] = {
    "text": (["a", "b"], "ab", "candidates must be a list with the candidates of each sample, not"),
    "number": (["a", "b"], 3, "not int"),
    "count": (["a", "b"], [["a"]], "X has 2 samples, candidates has 1 lists"),
    "set": (["a", "b"], [["a"], {"b"}], "candidates of sample 1 must be a list, not set"),
    "str": (["a", "b"], ["ab", ["b"]], "candidates of sample 0 must be a list, not str"),
    "none": (["a", "b"], [["a"], []], "sample 1 has no candidates: at least one is needed"),
    "missing": (
        ["a", "b"],
        [["a"], ["c"]],
        "the label 'b' of sample 1 is not among its candidates",
    ),
    "twice": (["a", "b"], [["a", "a"], ["b"]], "the label 'a' of sample 0 is a candidate twice"),
    "labels": (["a"], [["a"], ["b"]], "X has 2 samples, y has 1 labels"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_candidates(case: str) -> None:
    y, candidates, message = BAD[case]
    model = SoftmaxRegression(features=lambda x, y: [f"{x}{y}"])
    with pytest.raises(InputError, match=message):
        model.fit(["a", "b"], y, candidates=candidates)
    model.fit(["a", "b"], ["a", "b"], candidates=[["a", "b"]] * 2)
    if case in ("missing", "twice"):
        return  # prediction has no labels
    call = (
        model.score if case == "labels" else lambda x, _, candidates: model.predict(x, candidates)
    )
    with pytest.raises(InputError, match=message):
        call(["a", "b"], y, candidates=candidates)


def test_candidates_need_a_function_and_are_needed_later() -> None:
    message = "candidates need features=φ, a function of a sample and a candidate"
    X, y = np.eye(2), ["a", "b"]
    with pytest.raises(InputError, match=message):
        SoftmaxRegression().fit(X, y, candidates=[["a", "b"]] * 2)
    with pytest.raises(InputError, match=message):
        SoftmaxRegression().fit(X, y).predict(X, [["a", "b"]] * 2)
    model = SoftmaxRegression(features=lambda x, y: [f"{x}{y}"])
    model.fit(y, y, candidates=[["a", "b"]] * 2)
    calls: list[Any] = [model.predict, model.predict_proba, model.predict_log_proba]
    for call in [*calls, model.decision_function, lambda X: model.score(X, y)]:
        with pytest.raises(InputError, match="the model was trained with candidates: pass the"):
            call(y)


def test_margins_are_those_to_the_best_other_candidate() -> None:
    rows = np.array([[1.0], [3.0], [2.0], [5.0], [4.0]])
    problem = candidate_problem(
        rows, np.array([0, 3, 4, 5]), np.array([1, 3, 4]), np.array([1.0, 2.0, 0.0]), 0.0
    )
    assert problem.margins(np.array([2.0])).tolist() == [2.0, np.inf]


def test_callbacks_stop_training() -> None:
    X, y, candidates = make_samples()
    model = SoftmaxRegression(features=phi)
    with pytest.warns(ConvergenceWarning, match="stopped by the callback"):
        model.fit(X, y, candidates=candidates, callback=lambda progress: progress.iteration == 2)
    assert model.n_iter_ == 2


def test_overflowing_scores_are_named() -> None:
    model = SoftmaxRegression(features=lambda x, y: {"v": x * y})
    model.fit([1.0, 1.0], [1.0, 1.0], candidates=[[0.0, 1.0]] * 2)
    with pytest.raises(InputError, match=r"sample 1 overflow: the score of candidate 1e\+307 is"):
        model.predict([1.0, 1.0], [[1.0], [1.0, 1e307]])
