"""The CRF against enumeration of all labellings: loss, gradient and predictions."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labellings import (
    all_paths,
    build_training_problem,
    central_differences,
    edge_part,
    evaluate,
    forward,
    log_sum,
    mask_agreeing,
    nll,
    probabilities,
    random_data,
    score,
    state_part,
    weights_by_name,
)
from scale import examples

import trellis
from trellis.errors import InfeasibleError, InputError


def make_crf(X: Any, y: Any, **parameters: Any) -> Any:
    """Return a CRF with a weight layout; the values of the weights do not matter."""
    return trellis.CRF(state_part, max_iter=1, **parameters).fit(X, y)


def random_weights(model: Any, seed: int, spread: float = 1.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.0, spread, len(model.coef_))


def assert_gradient(
    problem: Any, w: np.ndarray, loss: Any, indices: Any, rtol: float = 1e-6
) -> None:
    gradient = evaluate(problem, w)[1]
    expected = central_differences(loss, w, indices)
    np.testing.assert_allclose(gradient[list(indices)], expected, rtol=rtol, atol=rtol)


# ---- loss and gradient by enumeration


@pytest.mark.parametrize("n_labels", [1, 2, 3, 5])
@pytest.mark.parametrize("edges", [0, 3])
def test_loss_and_gradient_by_enumeration(n_labels: int, edges: int, isa: str) -> None:
    X, y = random_data(n_labels, n_labels, [4, 1, 3, 2, 5], edge_attributes=edges)
    model = make_crf(X, y, edge_features=edge_part if edges else None, l2=0.3)
    w = random_weights(model, 1)
    problem = build_training_problem(model, X, y)

    def expected(v: np.ndarray) -> float:
        return nll(model, v, X, y) + 0.15 * v @ v

    assert evaluate(problem, w)[0] == pytest.approx(expected(w), rel=1e-12)
    assert_gradient(problem, w, expected, np.random.default_rng(2).permutation(len(w))[:50])


@given(
    seed=st.integers(0, 10**6),
    n_labels=st.integers(1, 4),
    lengths=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    edges=st.integers(0, 2),
    weighted=st.booleans(),
    margins=st.booleans(),
    states=st.sampled_from(["seen", "all"]),
    transitions=st.sampled_from(["seen", "all", "none"]),
)
@settings(max_examples=examples(40), deadline=None)
def test_loss_and_gradient_of_random_models(
    seed: int,
    n_labels: int,
    lengths: list[int],
    edges: int,
    weighted: bool,
    margins: bool,
    states: str,
    transitions: str,
) -> None:
    X, y = random_data(seed, n_labels, lengths, edge_attributes=edges, attributes=4)
    rng = np.random.default_rng(seed)
    classes = sorted({label for labels in y for label in labels})
    costs = {label: float(rng.uniform(0.3, 3.0)) for label in classes[::2]} if margins else None
    sample_weight = rng.uniform(0.0, 2.0, len(X)) if weighted else None
    model = make_crf(
        X,
        y,
        edge_features=edge_part if edges else None,
        l2=0.5,
        label_weight=costs,
        states=states,
        transitions=transitions,
    )
    w = random_weights(model, seed)
    problem = build_training_problem(model, X, y, sample_weight)

    def expected(v: np.ndarray) -> float:
        return nll(model, v, X, y, sample_weight) + 0.25 * v @ v

    assert evaluate(problem, w)[0] == pytest.approx(expected(w), rel=1e-11, abs=1e-11)
    assert_gradient(problem, w, expected, rng.permutation(len(w))[:8])


@pytest.mark.parametrize("spread", [30.0, 300.0, 3000.0])
def test_scores_beyond_the_range_of_exp(spread: float, isa: str) -> None:
    X, y = random_data(3, 4, [5, 3, 4, 1], edge_attributes=2)
    for edges in (None, edge_part):
        model = make_crf(X, y, edge_features=edges, l2=0.0)
        w = random_weights(model, 5, spread)
        data = X if edges else [[(features, {}) for features, _ in x] for x in X]
        assert evaluate(build_training_problem(model, X, y), w)[0] == pytest.approx(
            nll(model, w, data, y), rel=1e-12
        )


def test_gradient_where_scores_are_huge() -> None:
    """Scores beyond ±170 need log space; two labellings of nearly equal score share the mass."""
    X = [[({"a": 1.0}, {}), ({"b": 1.0}, {}), ({"a": 1.0}, {})]]
    y = [["P", "Q", "P"]]
    model = trellis.CRF(state_part, states="all", max_iter=1, l2=0.0).fit(X, y)
    w = np.random.default_rng(0).normal(0.0, 0.5, len(model.coef_))
    w += np.random.default_rng(1).choice([-900.0, 900.0], len(w))
    problem = build_training_problem(model, X, y)
    indices = range(len(w))
    expected = central_differences(lambda v: nll(model, v, X, y), w, indices, h=1e-4)
    np.testing.assert_allclose(evaluate(problem, w)[1], expected, rtol=1e-6, atol=1e-6)


# ---- sizes that take other code paths


@pytest.mark.parametrize("n_labels", [1, 2, 7, 8, 9, 22, 40, 130])
@pytest.mark.parametrize("edges", [0, 2])
def test_loss_and_gradient_of_many_labels(n_labels: int, edges: int) -> None:
    """Attributes "a…" occur often, so their rows are dense. Attributes "r…" occur once."""
    lengths = [1, 2, 40, 17, 70, 5, 33]
    X, y = random_data(n_labels, n_labels, lengths, edge_attributes=edges, attributes=8)
    for i, x in enumerate(X):
        for t, (features, _) in enumerate(x):
            features[f"r{i}.{t // 2}"] = 1.0 + 0.25 * (t % 2)
    counts = Counter(name for x in X for features, _ in x for name in features)
    assert counts["a0"] > 16
    assert min(counts.values()) == 1
    model = make_crf(
        X, y, edge_features=edge_part if edges else None, states="all", l2=0.1, transitions="seen"
    )
    w = random_weights(model, 7, 0.5)
    problem = build_training_problem(model, X, y)
    classes = model.classes_.tolist()
    expected = 0.05 * w @ w
    for x, labels in zip(X, y, strict=True):
        scores = score(model, w, x)
        expected += forward(scores) - scores.of([classes.index(label) for label in labels])
    assert evaluate(problem, w)[0] == pytest.approx(expected, rel=1e-11)
    rng = np.random.default_rng(0)
    ends = np.cumsum([0, *(len(part) for part in model.layout_.split(w))])
    indices = [k for a, b in pairwise(ends) for k in a + rng.permutation(b - a)[:4]]
    assert_gradient(problem, w, lambda v: evaluate(problem, v)[0], indices)


def test_a_long_sequence() -> None:
    X, y = random_data(0, 5, [1300, 3, 2500, 1])
    model = make_crf(X, y, l2=0.0)
    w = random_weights(model, 3)
    classes = model.classes_.tolist()
    expected = 0.0
    for x, labels in zip(X, y, strict=True):
        scores = score(model, w, x)
        expected += forward(scores) - scores.of([classes.index(label) for label in labels])
    problem = build_training_problem(model, X, y)
    assert evaluate(problem, w)[0] == pytest.approx(expected, rel=1e-12)
    indices = np.random.default_rng(0).permutation(len(w))[:12]
    gradient = evaluate(problem, w)[1][indices]
    numeric = central_differences(lambda v: evaluate(problem, v)[0], w, indices, h=1e-4)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-4)


def test_bits_of_each_instruction_set_do_not_depend_on_threads(isa: str) -> None:
    X, y = random_data(1, 9, [30, 41, 7, 1, 22] * 40, edge_attributes=0)
    model = make_crf(X, y)
    w = random_weights(model, 2)
    results = []
    for n_jobs in (1, 2, 3, 1):
        model.n_jobs = n_jobs
        loss, gradient = evaluate(build_training_problem(model, X, y), w)
        results.append((loss, gradient.tobytes()))
    assert len(set(results)) == 1


# ---- which weights exist


def test_weights_of_seen_pairs() -> None:
    X = [[({"a": 1.0}, {"e": 1.0}), ({"b": 1.0}, {"e": 1.0})], [({"a": 2.0}, {})]]
    y = [["P", "Q"], ["Q"]]
    model = make_crf(X, y, edge_features=edge_part, transitions="seen")
    state, bigram, edge = weights_by_name(model, np.arange(6.0))
    assert {name: set(weights) for name, weights in state.items()} == {
        "a": {"P", "Q"},
        "start:e": {"P"},
        "b": {"Q"},
    }
    assert set(bigram) == {("P", "Q")}
    assert {name: set(weights) for name, weights in edge.items()} == {"e": {("P", "Q")}}


def test_weights_of_all_pairs() -> None:
    X = [[({"a": 1.0}, {"e": 1.0}), ({"b": 1.0}, {"e": 1.0})], [({"a": 2.0}, {})]]
    y = [["P", "Q"], ["Q"]]
    model = make_crf(X, y, edge_features=edge_part, states="all", transitions="all")
    assert len(model.coef_) == 3 * 2 + 4 + 4
    none = make_crf(X, y, transitions="none")
    assert none.transitions_ == []


def test_a_feature_with_a_negative_sum_gets_a_weight() -> None:
    X = [[({"cold": -1.5}, {}), ({"warm": 1.0}, {})]]
    model = make_crf(X, [["P", "Q"]])
    assert set(weights_by_name(model, model.coef_)[0]) == {"cold", "warm"}


@pytest.mark.parametrize(("min_count", "left"), [(0.0, {"a", "b"}), (2.0, {"a"}), (2.5, {"a"})])
def test_min_count_drops_rare_pairs_of_feature_and_label(min_count: float, left: set) -> None:
    X = [[({"a": 1.0}, {}), ({"a": 1.0, "b": 1.0}, {})], [({"a": 1.0}, {})]]
    model = make_crf(X, [["P", "P"], ["P"]], min_count=min_count)
    assert set(weights_by_name(model, model.coef_)[0]) == left


# ---- prediction by enumeration


@pytest.fixture(scope="module", params=[0, 3], ids=["plain", "edges"])
def fitted(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    X, y = random_data(11, 3, [4, 2, 5, 1, 3], edge_attributes=request.param)
    edges = edge_part if request.param else None
    return trellis.CRF(state_part, edge_features=edges, l2=0.2).fit(X, y), X


def test_predict_is_the_best_labelling(fitted: Any) -> None:
    model, X = fitted
    for x, labels in zip(X, model.predict(X), strict=True):
        scores = score(model, model.coef_, x)
        best = all_paths(*scores.unary.shape)[np.argmax(scores.of_all())]
        assert labels == [model.classes_[n] for n in best]


def test_marginals_are_sums_over_labellings(fitted: Any) -> None:
    model, X = fitted
    for x, marginals in zip(X, model.predict_marginals(X), strict=True):
        scores = score(model, model.coef_, x)
        p, paths = probabilities(scores, model.classes_), all_paths(*scores.unary.shape)
        expected = [[p[paths[:, t] == n].sum() for n in range(3)] for t in range(len(x))]
        np.testing.assert_allclose(marginals, expected, atol=1e-12)


def test_kbest_are_the_most_probable_labellings(fitted: Any) -> None:
    model, X = fitted
    for x, labellings in zip(X, model.predict_kbest(X, k=5), strict=True):
        scores = score(model, model.coef_, x)
        p, paths = probabilities(scores, model.classes_), all_paths(*scores.unary.shape)
        best = np.argsort(-p, kind="stable")[:5]
        assert [labelling.labels for labelling in labellings] == [
            [model.classes_[n] for n in paths[k]] for k in best
        ]
        assert [labelling.probability for labelling in labellings] == pytest.approx(
            p[best].tolist(), rel=1e-10
        )


def test_log_likelihood_sums_over_the_allowed_labellings(fitted: Any) -> None:
    model, X = fitted
    classes = model.classes_.tolist()
    y = [[None, {classes[0], classes[2]}, classes[1], None, classes[0]][: len(x)] for x in X]
    for x, known, value in zip(X, y, model.log_likelihood(X, y), strict=True):
        scores = score(model, model.coef_, x)
        values = scores.of_all()
        inside = log_sum(values[mask_agreeing(known, classes)])
        assert value == pytest.approx(inside - log_sum(values), abs=1e-11)


def test_samples_follow_the_distribution(fitted: Any) -> None:
    model, X = fitted
    x = X[1]
    p = probabilities(score(model, model.coef_, x), model.classes_)
    drawn = Counter(map(tuple, model.sample([x], n=4000, random_state=3)[0]))
    names = [tuple(model.classes_[n] for n in path) for path in all_paths(len(x), 3)]
    observed = np.array([drawn[name] for name in names])
    chi2 = ((observed - 4000 * p) ** 2 / (4000 * p)).sum()
    assert observed.sum() == 4000
    assert chi2 < len(p) + 6 * np.sqrt(2 * len(p))


def test_samples_repeat_with_their_seed(fitted: Any) -> None:
    model, X = fitted
    assert model.sample(X, n=3, random_state=5) == model.sample(X, n=3, random_state=5)
    assert model.sample(X, n=9, random_state=5) != model.sample(X, n=9, random_state=6)


def test_known_labels_by_enumeration(fitted: Any) -> None:
    model, X = fitted
    classes = model.classes_.tolist()
    rng = np.random.default_rng(1)
    choices = [None, classes[0], {classes[1], classes[2]}, frozenset(classes[:2])]
    known = [[choices[k] for k in rng.integers(4, size=len(x))] for x in X]
    predicted = model.predict(X, known=known)
    marginals = model.predict_marginals(X, known=known)
    for x, known_labels, labels, table in zip(X, known, predicted, marginals, strict=True):
        scores = score(model, model.coef_, x)
        paths = all_paths(*scores.unary.shape)
        values = np.where(mask_agreeing(known_labels, classes), scores.of_all(), -np.inf)
        assert labels == [classes[n] for n in paths[np.argmax(values)]]
        p = np.exp(values - log_sum(values))
        expected = [[p[paths[:, t] == n].sum() for n in range(3)] for t in range(len(x))]
        np.testing.assert_allclose(table, expected, atol=1e-12)


# ---- invalid input


def test_known_labels_must_fit_the_sequences(fitted: Any) -> None:
    model, X = fitted
    with pytest.raises(InputError, match="5 sequences"):
        model.predict(X, known=[[None] * len(x) for x in X[:-1]])
    with pytest.raises(InputError, match="5 sequences"):
        model.predict(X, known=[*([None] * len(x) for x in X), [None]])
    with pytest.raises(InputError, match="sequence 1 has 2 positions and 3 labels"):
        model.predict(X[:2], known=[[None] * 4, [None] * 3])


def test_errors_have_the_index_of_the_caller(fitted: Any) -> None:
    model, X = fitted
    with pytest.raises(InputError, match="sequence 2, position 1"):
        model.predict([[], X[0], X[1]], known=[[], [None] * 4, [None, "nope"]])
    with pytest.raises(InputError, match="sequence 1"):
        model.predict([[], [({"a0": float("nan")}, {"e0": 1.0})]])


def test_labels_that_no_constraint_allows() -> None:
    X, y = [["a", "b"]] * 2, [["P", "Q"], ["P", "P"]]
    model = trellis.CRF(constraints=[("Q", "P")]).fit(X, y)
    with pytest.raises((InfeasibleError, InputError), match="sequence 1"):
        model.predict([["a", "b"]] * 2, known=[[None, None], ["Q", "P"]])


@pytest.mark.parametrize("k", [0, -1, 1.5, "two"])
def test_invalid_numbers_of_labellings(fitted: Any, k: Any) -> None:
    model, X = fitted
    with pytest.raises(InputError):
        model.predict_kbest(X, k=k)
    with pytest.raises(InputError):
        model.sample(X, n=-1 if k == 0 else k)


def test_more_positions_than_one_slice() -> None:
    model = trellis.CRF().fit([["a", "b"]] * 2, [["P", "Q"]] * 2)
    sequences = [["a", "b"], ["b"], []] * 24_000
    assert sum(map(len, sequences)) > 1 << 16
    assert model.predict(sequences) == model.predict(sequences[:3]) * 24_000
    known = [[None] * len(x) for x in sequences]
    known[71_991][1] = "nope"
    with pytest.raises(InputError, match="sequence 71991, position 1"):
        model.predict(sequences, known=known)
