"""Unknown and partly known labels: the likelihood sums over the allowed labellings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labellings import (
    build_training_problem,
    central_differences,
    edge_part,
    evaluate,
    nll,
    random_data,
    state_part,
    weights_by_name,
)
from scale import examples

import trellis
from trellis.errors import InputError


def hide_labels(y: Any, seed: int, classes: Any) -> list[list[Any]]:
    """Replace each label by itself, a set with other labels, a set of one, or None."""
    rng = np.random.default_rng(seed)

    def hide(label: str) -> Any:
        members = {str(c) for c in rng.choice(classes, size=rng.integers(1, 3))}
        return [label, {label} | members, frozenset({label}), None][rng.integers(4)]

    return [[hide(label) for label in labels] for labels in y]


@given(
    seed=st.integers(0, 10**6),
    n_labels=st.integers(2, 4),
    lengths=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    edges=st.integers(0, 2),
    extras=st.booleans(),
)
@settings(max_examples=examples(40), deadline=None)
def test_marginal_likelihood_and_gradient(
    seed: int, n_labels: int, lengths: list[int], edges: int, extras: bool
) -> None:
    X, labels = random_data(seed, n_labels, lengths, edge_attributes=edges, attributes=4)
    classes = sorted({label for row in labels for label in row})
    y = hide_labels(labels, seed, classes)
    sample_weight = np.random.default_rng(seed).uniform(0.5, 2.0, len(X)) if extras else None
    model = trellis.CRF(
        state_part,
        edge_features=edge_part if edges else None,
        max_iter=1,
        l2=0.5,
        label_weight={classes[0]: 2.5} if extras else None,
    ).fit(X, labels)
    w = np.random.default_rng(seed).normal(size=len(model.coef_))
    problem = build_training_problem(model, X, y, sample_weight)

    def expected(v: np.ndarray) -> float:
        return nll(model, v, X, y, sample_weight) + 0.25 * v @ v

    loss, gradient = evaluate(problem, w)
    assert loss == pytest.approx(expected(w), rel=1e-11, abs=1e-11)
    indices = np.random.default_rng(seed).permutation(len(w))[:8]
    numeric = central_differences(expected, w, indices)
    np.testing.assert_allclose(gradient[indices], numeric, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("n_labels", [9, 22])
def test_gradient_with_many_labels(n_labels: int, isa: str) -> None:
    X, labels = random_data(1, n_labels, [30, 1, 12, 25, 3], attributes=10)
    model = trellis.CRF(state_part, max_iter=1, l2=0.1, states="all").fit(X, labels)
    problem = build_training_problem(model, X, hide_labels(labels, 1, model.classes_))
    w = np.random.default_rng(0).normal(size=len(model.coef_))
    indices = np.random.default_rng(0).permutation(len(w))[:15]
    numeric = central_differences(lambda v: evaluate(problem, v)[0], w, indices)
    np.testing.assert_allclose(evaluate(problem, w)[1][indices], numeric, rtol=1e-6, atol=1e-6)


def test_gradient_where_scores_are_huge() -> None:
    X, labels = random_data(4, 3, [4, 3, 2])
    y = hide_labels(labels, 9, sorted({label for row in labels for label in row}))
    model = trellis.CRF(state_part, max_iter=1, l2=0.0).fit(X, labels)
    w = np.random.default_rng(1).normal(0.0, 400.0, len(model.coef_))
    loss, gradient = evaluate(build_training_problem(model, X, y), w)
    assert loss == pytest.approx(nll(model, w, X, y), rel=1e-12, abs=1e-9)
    numeric = central_differences(lambda v: nll(model, v, X, y), w, range(len(w)), h=1e-4)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-6)


def test_sets_of_one_are_full_supervision() -> None:
    X, y = random_data(2, 3, [4, 2, 5, 1, 3])
    plain = trellis.CRF(state_part).fit(X, y)
    sets = trellis.CRF(state_part).fit(X, [[{label} for label in labels] for labels in y])
    frozen = trellis.CRF(state_part).fit(
        X, [[frozenset({label}) for label in labels] for labels in y]
    )
    assert sets.classes_.tolist() == plain.classes_.tolist()
    assert np.array_equal(sets.coef_, plain.coef_)
    assert np.array_equal(frozen.coef_, plain.coef_)


def test_sequences_without_known_labels_contribute_nothing() -> None:
    X, y = random_data(3, 3, [4, 2, 5, 1, 3])
    plain = trellis.CRF(state_part).fit(X, y)
    unknown = [[None] * 4, [None]]
    with_unknown = trellis.CRF(state_part).fit([*X, X[0], X[3]], [*y, *unknown])
    assert len(with_unknown.coef_) == len(plain.coef_)
    np.testing.assert_allclose(with_unknown.coef_, plain.coef_, atol=1e-4)
    problems = [
        build_training_problem(plain, X, y),
        build_training_problem(plain, [*X, X[0], X[3]], [*y, *unknown]),
    ]
    (loss, gradient), (loss_more, gradient_more) = (evaluate(p, plain.coef_) for p in problems)
    assert loss_more == pytest.approx(loss, rel=1e-12)
    np.testing.assert_allclose(gradient_more, gradient, atol=1e-11)


def test_features_at_unknown_labels_have_no_weights() -> None:
    X = [[({"a": 1.0}, {}), ({"b": 1.0}, {}), ({"c": 1.0}, {})], [({"d": 1.0}, {})]]
    y = [["P", None, {"P", "Q"}], ["R"]]
    model = trellis.CRF(state_part, transitions="seen").fit(X, y)
    state, bigram, _ = weights_by_name(model, model.coef_)
    seen = {name: set(weights) for name, weights in state.items()}
    assert seen == {"a": {"P"}, "c": {"P", "Q"}, "d": {"R"}}
    assert bigram == {}


def test_a_set_of_all_labels_is_the_same_as_none() -> None:
    X, y = random_data(5, 3, [4, 3, 4])
    classes = {label for labels in y for label in labels}
    models = []
    for unknown in (None, classes):
        partial_y = [*y[:2], [y[2][0], unknown, unknown, y[2][3]]]
        models.append(trellis.CRF(state_part, states="all").fit(X, partial_y))
    assert np.array_equal(models[0].coef_, models[1].coef_)


def test_half_of_the_labels_are_enough_to_learn_the_pattern() -> None:
    rng = np.random.default_rng(0)
    X, y = [], []
    for _ in range(60):
        states = np.cumsum(rng.integers(1, 3, size=8)) % 3
        X.append([[f"s{s}" if rng.random() < 0.8 else "noise"] for s in states])
        y.append([f"L{s}" for s in states])
    half = [[label if rng.random() < 0.5 else None for label in labels] for labels in y]
    assert trellis.CRF(l2=0.1).fit(X, half).score(X, y) > 0.9


@pytest.mark.parametrize("solver", ["sgd", "perceptron", "passive-aggressive", "arow"])
def test_online_solvers_raise_for_unknown_labels(solver: str) -> None:
    with pytest.raises(InputError, match=f"{solver}.*labels"):
        trellis.CRF(solver=solver).fit([["a", "b"]], [["P", None]])


def test_an_empty_set_is_an_error() -> None:
    with pytest.raises(InputError, match="sequence 1, position 0"):
        trellis.CRF().fit([["a"], ["b", "c"]], [["P"], [set(), "Q"]])


@pytest.mark.parametrize("model", [trellis.CRF(), trellis.MEMM()], ids=["crf", "memm"])
def test_no_label_at_all_is_an_error(model: Any) -> None:
    with pytest.raises(InputError, match="no label is known"):
        model.fit([["a", "b"], ["c"]], [[None, None], [None]])


def test_the_error_of_an_impossible_set_names_the_sequence() -> None:
    X, y = [["a", "b"]] * 2, [["P", "Q"], [{"Q"}, {"P"}]]
    with pytest.raises(InputError, match="sequence 1"):
        trellis.CRF(constraints=[("Q", "P")]).fit(X, y)
    X, y = [["a", "b"]] * 2, [["P", "R"], [{"Q", "R"}, {"P"}]]
    with pytest.raises(InputError, match="sequence 1"):
        trellis.CRF(constraints=[("Q", "P"), ("R", "P")]).fit(X, y)
