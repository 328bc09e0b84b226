"""Tagging schemes and forbidden pairs, in training and in every method of prediction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from labellings import (
    all_paths,
    bilou,
    bio,
    build_training_problem,
    central_differences,
    evaluate,
    log_sum,
    mask_agreeing,
    mask_legal,
    nll,
    probabilities,
    score,
    state_part,
    weights_by_name,
)

import trellis
from trellis.errors import InputError

BIO = ["B-X", "B-Y", "I-X", "I-Y", "O"]
BILOU = ["B-X", "I-X", "L-X", "O", "U-X"]


def legal_data(seed: int, classes: list[str], legal: Any, lengths: Any) -> tuple[Any, Any]:
    """Return random tokens, and labellings drawn uniformly from the legal ones."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for length in lengths:
        X.append([({f"a{a}": 1.0 for a in rng.choice(6, 2)}, {}) for _ in range(length)])
        paths = all_paths(length, len(classes))[mask_legal(length, classes, legal)]
        y.append([classes[n] for n in rng.choice(paths)])
    return X, y


SCHEMES = [("BIO", BIO, bio), ("BILOU", BILOU, bilou)]
LENGTHS = [4, 3, 4, 2, 1, 4, 4, 3, 4, 2, 4, 4]


@pytest.mark.parametrize(("scheme", "classes", "legal"), SCHEMES)
def test_loss_and_gradient_count_legal_labellings_only(
    scheme: str, classes: list[str], legal: Any
) -> None:
    X, y = legal_data(0, classes, legal, LENGTHS)
    model = trellis.CRF(state_part, constraints=scheme, l2=0.2, max_iter=1).fit(X, y)
    assert model.classes_.tolist() == classes
    w = np.random.default_rng(1).normal(size=len(model.coef_))
    y[0] = [None] * len(y[0])
    y[1] = [None if t else label for t, label in enumerate(y[1])]
    loss, gradient = evaluate(build_training_problem(model, X, y), w)

    def expected(v: np.ndarray) -> float:
        return nll(model, v, X, y, legal=legal) + 0.1 * v @ v

    assert loss == pytest.approx(expected(w), rel=1e-12)
    indices = np.random.default_rng(2).permutation(len(w))[:15]
    numeric = central_differences(expected, w, indices)
    np.testing.assert_allclose(gradient[indices], numeric, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("scheme", "classes", "legal"), SCHEMES)
def test_predictions_obey_the_scheme(scheme: str, classes: list[str], legal: Any) -> None:
    """The random weights prefer illegal labellings."""
    X, y = legal_data(0, classes, legal, LENGTHS)
    model = trellis.CRF(state_part, constraints=scheme, max_iter=1).fit(X, y)
    model.coef_ = np.random.default_rng(3).normal(0.0, 2.0, len(model.coef_))
    model.set_weights(model.coef_)
    assert all(legal(tuple(labels)) for labels in model.predict(X))
    for labellings in model.predict_kbest(X, k=6):
        assert all(legal(tuple(labelling.labels)) for labelling in labellings)
        assert sum(labelling.probability for labelling in labellings) < 1 + 1e-12
    for drawn in model.sample(X, n=40, random_state=0):
        assert all(legal(tuple(labels)) for labels in drawn)
    unbound = trellis.CRF(state_part, max_iter=1).fit(X, y)
    unbound.coef_ = model.coef_
    assert not all(legal(tuple(labels)) for labels in unbound.predict(X))


@pytest.mark.parametrize(("scheme", "classes", "legal"), SCHEMES)
def test_probabilities_by_enumeration(scheme: str, classes: list[str], legal: Any) -> None:
    X, y = legal_data(5, classes, legal, LENGTHS)
    model = trellis.CRF(state_part, constraints=scheme, l2=0.5).fit(X, y)
    marginals, likelihood = model.predict_marginals(X), model.log_likelihood(X, y)
    for i, x in enumerate(X):
        scores = score(model, model.coef_, x)
        p, paths = probabilities(scores, classes, legal), all_paths(len(x), len(classes))
        best = [classes[n] for n in paths[np.argmax(p)]]
        assert model.predict([x])[0] == best
        expected = [[p[paths[:, t] == n].sum() for n in range(len(classes))] for t in range(len(x))]
        np.testing.assert_allclose(marginals[i], expected, atol=1e-12)
        expected = log_sum(np.log(p[mask_agreeing(y[i], classes)]))
        assert likelihood[i] == pytest.approx(expected, abs=1e-10)


def test_kbest_returns_all_legal_labellings_if_fewer_than_k() -> None:
    X, y = legal_data(0, BILOU, bilou, LENGTHS)
    model = trellis.CRF(state_part, constraints="BILOU").fit(X, y)
    labellings = model.predict_kbest([X[3]], k=100)[0]
    assert len(labellings) == mask_legal(2, BILOU, bilou).sum()
    assert sum(labelling.probability for labelling in labellings) == pytest.approx(1.0)


def test_pairs_that_must_not_follow_each_other() -> None:
    X, y = [["a", "b", "a"], ["b", "a"]] * 4, [["P", "Q", "P"], ["Q", "Q"]] * 4
    model = trellis.CRF(constraints=[("P", "P"), ("never", "seen")]).fit(X, y)
    assert ["P", "P"] not in model.sample([["a", "a"]], n=200, random_state=0)[0]
    assert model.predict_kbest([["a", "a"]], k=9)[0][-1].labels != ["P", "P"]
    assert len(model.predict_kbest([["a", "a"]], k=9)[0]) == 3


def test_a_forbidden_bigram_does_not_affect_training() -> None:
    X, y = [["a", "b", "a"], ["b", "a"]] * 4, [["P", "Q", "P"], ["Q", "Q"]] * 4
    model = trellis.CRF(constraints=[("P", "P")], l2=0.1).fit(X, y)
    assert weights_by_name(model, model.coef_)[1][("P", "P")] == 0.0


def test_memm_obeys_the_scheme() -> None:
    for scheme, classes, legal in SCHEMES:
        X, y = legal_data(0, classes, legal, LENGTHS)
        model = trellis.MEMM(state_part, constraints=scheme).fit(X, y)
        assert all(legal(tuple(labels)) for labels in model.predict(X))
        assert all(legal(tuple(labels)) for drawn in model.sample(X, n=30) for labels in drawn)


@pytest.mark.parametrize("solver", ["perceptron", "sgd", "passive-aggressive", "arow", "gradient"])
def test_every_solver_obeys_the_scheme(solver: str) -> None:
    X, y = legal_data(7, BIO, bio, LENGTHS)
    model = trellis.CRF(state_part, constraints="BIO", solver=solver, random_state=0, max_iter=3)
    assert all(bio(tuple(labels)) for labels in model.fit(X, y).predict(X))


# ---- training data that break the constraints


@pytest.mark.parametrize("cls", [trellis.CRF, trellis.MEMM])
@pytest.mark.parametrize(
    ("labels", "position"),
    [
        (["O", "I-X"], "sequence 1, position 1"),
        (["I-X", "O"], "sequence 1, position 0"),
        (["O", "B-X", "I-Y"], "sequence 1, position 2"),
        (["O", {"B-X", "O"}, "O", "I-Y"], "sequence 1, position 3"),
    ],
)
def test_errors_of_illegal_training_data_name_the_position(
    cls: Any, labels: Any, position: str
) -> None:
    X = [["a"] * 4, ["b"] * len(labels)]
    with pytest.raises(InputError, match=position):
        cls(constraints="BIO").fit(X, [["B-X", "I-X", "B-Y", "I-Y"], labels])


def test_a_last_label_that_cannot_be_the_last() -> None:
    with pytest.raises(InputError, match="sequence 0, position 1"):
        trellis.CRF(constraints="BILOU").fit([["a", "b"]], [["O", "B-X"]])


@pytest.mark.parametrize("constraints", ["nonsense", 7, [("P",)], [("P", "Q", "R")], [7], ["PQ"]])
def test_invalid_constraints(constraints: Any) -> None:
    with pytest.raises(InputError):
        trellis.CRF(constraints=constraints).fit([["a", "b"]], [["P", "Q"]])


def test_labels_outside_the_scheme() -> None:
    with pytest.raises(InputError, match="NOUN"):
        trellis.CRF(constraints="BIO").fit([["a", "b"]], [["O", "NOUN"]])
