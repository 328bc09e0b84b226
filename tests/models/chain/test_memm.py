"""The MEMM: products of softmaxes, by enumeration; its gradient; label bias."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from labellings import (
    all_paths,
    bilou,
    build_training_problem,
    central_differences,
    costs,
    edge_part,
    evaluate,
    log_sum,
    random_data,
    score,
    state_part,
)
from scipy.optimize import minimize

import trellis
from trellis.errors import InputError


def log_softmax(scores: np.ndarray) -> np.ndarray:
    return scores - log_sum(scores)


def path_log_probability(model: Any, w: np.ndarray, x: Any, path: Any) -> float:
    """log Πₜ softmax(u[t] + A[t, yₜ₋₁])[yₜ]."""
    s = score(model, w, x)
    total = log_softmax(s.unary[0])[path[0]]
    for t in range(1, len(x)):
        total += log_softmax(s.unary[t] + s.transition[t - 1, path[t - 1]])[path[t]]
    return float(total)


def step_loss(model: Any, w: np.ndarray, X: Any, y: Any, sample_weight: Any = None) -> float:
    """-Σ log p(yₜ | yₜ₋₁, x) over the steps whose two labels are known."""
    classes, total = model.classes_.tolist(), 0.0
    for i, (x, labels) in enumerate(zip(X, y, strict=True)):
        s, price = score(model, w, x), costs(classes, labels, model.label_weight)
        for t, label in enumerate(labels):
            if label is None or (t and labels[t - 1] is None):
                continue
            local = s.unary[t] + price[t]
            if t:
                local = local + s.transition[t - 1, classes.index(labels[t - 1])]
            loss = -log_softmax(local)[classes.index(label)]
            total += loss if sample_weight is None else sample_weight[i] * loss
    return total


@pytest.mark.parametrize("n_labels", [1, 2, 3, 9, 22])
@pytest.mark.parametrize("edges", [0, 2])
def test_loss_and_gradient(n_labels: int, edges: int, isa: str) -> None:
    X, y = random_data(n_labels, n_labels, [4, 1, 9, 2, 12], edge_attributes=edges, attributes=4)
    weights = [1.0, 2.0, 0.5, 0.0, 1.5]
    model = trellis.MEMM(
        state_part,
        edge_features=edge_part if edges else None,
        l2=0.3,
        max_iter=1,
        label_weight={y[0][0]: 3.0},
    ).fit(X, y)
    y[2][3] = y[4][0] = None
    w = np.random.default_rng(1).normal(size=len(model.coef_))
    loss, gradient = evaluate(build_training_problem(model, X, y, weights), w)

    def expected(v: np.ndarray) -> float:
        return step_loss(model, v, X, y, weights) + 0.15 * v @ v

    assert loss == pytest.approx(expected(w), rel=1e-12)
    indices = np.random.default_rng(2).permutation(len(w))[:10]
    numeric = central_differences(expected, w, indices)
    np.testing.assert_allclose(gradient[indices], numeric, rtol=1e-6, atol=1e-6)


def test_gradient_where_scores_are_huge() -> None:
    X, y = random_data(1, 3, [4, 3])
    model = trellis.MEMM(state_part, max_iter=1, l2=0.0).fit(X, y)
    w = np.random.default_rng(1).normal(0.0, 500.0, len(model.coef_))
    loss, gradient = evaluate(build_training_problem(model, X, y), w)
    assert loss == pytest.approx(step_loss(model, w, X, y), rel=1e-12)
    numeric = central_differences(lambda v: step_loss(model, v, X, y), w, range(len(w)), h=1e-4)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-6)


@pytest.fixture(scope="module", params=[0, 2], ids=["plain", "edges"])
def fitted(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    X, y = random_data(11, 3, [4, 2, 5, 1, 3], edge_attributes=request.param)
    edges = edge_part if request.param else None
    return trellis.MEMM(state_part, edge_features=edges, l2=0.2).fit(X, y), X


def test_predictions_follow_the_product_of_softmaxes(fitted: Any) -> None:
    model, X = fitted
    for x in X:
        paths = all_paths(len(x), 3)
        logs = np.array([path_log_probability(model, model.coef_, x, path) for path in paths])
        p = np.exp(logs)
        assert p.sum() == pytest.approx(1.0, abs=1e-12)
        names = [[model.classes_[n] for n in path] for path in paths]
        assert model.predict([x])[0] == names[np.argmax(p)]
        np.testing.assert_allclose(model.log_likelihood([x] * len(names), names), logs, atol=1e-10)
        expected = [[p[paths[:, t] == n].sum() for n in range(3)] for t in range(len(x))]
        np.testing.assert_allclose(model.predict_marginals([x])[0], expected, atol=1e-12)
        labellings = model.predict_kbest([x], k=4)[0]
        best = np.argsort(-p)[:4]
        assert [labelling.labels for labelling in labellings] == [names[k] for k in best]
        assert [labelling.probability for labelling in labellings] == pytest.approx(
            p[best].tolist(), rel=1e-9
        )


def test_training_reaches_the_optimum() -> None:
    X, y = random_data(11, 3, [4, 2, 5, 1, 3])
    model = trellis.MEMM(state_part, l2=0.2, solver_options={"epsilon": 1e-9}).fit(X, y)
    objective = build_training_problem(model, X, y).objective()

    def loss_and_gradient(w: np.ndarray) -> tuple[float, np.ndarray]:
        gradient = np.empty_like(w)
        return objective(w, gradient), gradient

    options = {"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-10}
    best = minimize(
        loss_and_gradient, np.zeros(len(model.coef_)), jac=True, method="L-BFGS-B", options=options
    )
    assert model.objective_ == pytest.approx(best.fun, rel=1e-8)


def test_each_step_is_a_softmax_regression() -> None:
    """One previous label, no shared features: the MEMM of length 1 is a SoftmaxRegression."""
    rng = np.random.default_rng(0)
    table, labels = rng.normal(size=(40, 3)), rng.choice(["P", "Q", "R"], 40)
    softmax = trellis.SoftmaxRegression(l2=0.5, fit_intercept=False, tol=1e-10).fit(table, labels)
    memm = trellis.MEMM(l2=0.5, states="all", solver_options={"epsilon": 1e-9})
    memm.fit([row[None] for row in table], [[str(label)] for label in labels])
    marginals = np.concatenate(memm.predict_marginals([row[None] for row in table]))
    np.testing.assert_allclose(marginals, softmax.predict_proba(table), atol=1e-6)


def test_probabilities_with_forbidden_last_labels() -> None:
    """In BILOU no labelling may end inside a span; the other labellings must sum to one."""
    classes = ["B-X", "L-X", "O"]
    X, y = [["a", "b"], ["c", "c"], ["c"]], [["B-X", "L-X"], ["O", "O"], ["O"]]
    model = trellis.MEMM(constraints="BILOU").fit(X, y)
    labellings = model.predict_kbest([["a", "b"]], k=9)[0]
    assert all(bilou(tuple(labelling.labels)) for labelling in labellings)
    assert sum(labelling.probability for labelling in labellings) == pytest.approx(1.0)
    assert model.classes_.tolist() == classes


def test_label_bias() -> None:
    """After r, the MEMM cannot use later letters to choose the branch; the CRF can."""
    X = [["r", "i", "b"]] * 3 + [["r", "o", "b"]]
    y = [["1", "2", "3"]] * 3 + [["4", "5", "6"]]

    def letter(x: Any) -> Any:
        return [[f"w={c}"] for c in x]

    memm = trellis.MEMM(letter, l2=0.01, transitions="seen").fit(X, y)
    crf = trellis.CRF(letter, l2=0.01, transitions="seen").fit(X, y)
    assert crf.predict([["r", "o", "b"]])[0] == ["4", "5", "6"]
    after_o, after_i, alone = memm.predict_marginals([["r", "o", "b"], ["r", "i", "b"], ["r"]])
    np.testing.assert_allclose(after_o[0], alone[0], atol=1e-12)
    np.testing.assert_allclose(after_i[0], alone[0], atol=1e-12)


def test_steps_with_unknown_labels_are_left_out() -> None:
    X = [["a", "b", "c"], ["a", "b"]]
    complete = trellis.MEMM().fit(X, [["P", "Q", "P"], ["P", "Q"]])
    partly = trellis.MEMM().fit(X, [["P", "Q", "P"], ["P", None]])
    assert not np.array_equal(complete.coef_[:1], partly.coef_[:1])
    assert partly.predict(X)[0] == ["P", "Q", "P"]


@pytest.mark.parametrize("solver", ["sgd", "perceptron", "passive-aggressive", "arow"])
def test_online_solvers_cannot_train_it(solver: str) -> None:
    with pytest.raises(InputError, match=solver):
        trellis.MEMM(solver=solver).fit([["a"]], [["P"]])
