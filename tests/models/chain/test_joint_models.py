"""Joint features φ(x, i, y', y) of CRF and MEMM, against enumeration and plain NumPy.

The expected scores call φ themselves and read the weights by name. They share no code with the
library.
"""

from __future__ import annotations

import pickle
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from labellings import build_training_problem, central_differences, evaluate
from scipy import sparse

import trellis
from trellis.errors import InputError
from trellis.models.chain.checkpoint import Checkpoint
from trellis.models.foreign import save_crfsuite

LABELS = ["B-X", "I-X", "O"]
Array = np.ndarray


# ---- functions: features of words are numbers, so values differ


def of_all(x: Any, i: int, previous: Any, label: str) -> dict[str, Any]:
    """Features of every kind: shared by labels, of pairs, of one position, equal for all."""
    word = x[i]
    return {
        f"{word}/{label}": True,
        f"start {label[0]}": 0.5 if previous is None else False,
        "inside": label != "O",  # shared by two labels
        "same": previous == label,  # constant over positions
        f"{previous}->{label}": 1.5,
        "repeat": len(word) * (previous == label),  # depends on the triple
        f"{word} after {previous}": 1.0,  # equal for all labels: it cancels
        "position": 0.1 * i * (label == "B-X"),
    }


def of_label(x: Any, i: int, label: str) -> list[str]:
    return [f"{x[i]}/{label}", f"{x[i][0]}/{label[0]}", f"{x[i][0]}/{label[0]}"]  # counted twice


def of_pair(previous: Any, label: str) -> dict[str, Any]:
    return {f"{previous}->{label}": 2.0, "same": previous == label}


FORMS: dict[str, Any] = {
    "all": of_all,
    "label and pair": [of_label, of_pair],
    "three": [of_all, of_label, of_pair],
    "label": of_label,
    "pair": of_pair,
}


def features(joint: Any, x: Any, i: int, previous: Any, label: Any) -> dict[str, float]:
    """φ(x, i, y', y) as {name: value}."""
    values: dict[str, float] = {}
    for f in joint if isinstance(joint, list) else [joint]:
        arguments = {of_all: (x, i, previous, label), of_label: (x, i, label)}
        items = f(*arguments.get(f, (previous, label)))
        for name in items:
            values[name] = values.get(name, 0.0) + (items[name] if isinstance(items, dict) else 1.0)
    return values


def local_score(model: Any, w: Array, x: Any, i: int, previous: Any, label: Any) -> float:
    index = {name: n for n, name in enumerate(model.features_.joint_names())}
    phi = features(model.joint, x, i, previous, label)
    return float(sum(v * w[index[name]] for name, v in phi.items() if name in index))


def log_scores(model: Any, w: Array, x: Any) -> tuple[list[tuple[str, ...]], Array]:
    """Return all labellings, and the score or (MEMM) the log-probability of each."""
    labels = model.classes_.tolist()
    tables = []
    for i in range(len(x)):
        befores = labels if i else [None]
        table = {(a, b): local_score(model, w, x, i, a, b) for a in befores for b in labels}
        if isinstance(model, trellis.MEMM):
            for a in befores:
                log_z = np.log(sum(np.exp(table[a, b]) for b in labels))
                for b in labels:
                    table[a, b] -= log_z
        tables.append(table)
    paths = list(product(labels, repeat=len(x)))
    scores = [
        sum(tables[i][path[i - 1] if i else None, path[i]] for i in range(len(x))) for path in paths
    ]
    return paths, np.array(scores)


def log_sum(scores: Array) -> float:
    return float(np.log(np.exp(scores).sum()))


def sentences(seed: int = 0, lengths: tuple[int, ...] = (4, 1, 3, 2, 3)) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    words = ["ann", "at", "bob", "by", "eve"]
    X = [[words[k] for k in rng.integers(len(words), size=n)] for n in lengths]
    y = [[LABELS[k] for k in rng.integers(3, size=n)] for n in lengths]
    return X, y


@pytest.fixture(params=[trellis.CRF, trellis.MEMM])
def model_class(request: Any) -> Any:
    return request.param


# ---- enumeration


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("states", ["seen", "all"])
def test_inference_agrees_with_enumeration(model_class: Any, form: str, states: str) -> None:
    X, y = sentences()
    model = model_class(joint=FORMS[form], states=states, l2=0.3).fit(X, y)
    model.set_weights(np.random.default_rng(1).normal(size=len(model.coef_)))
    marginals, best = model.predict_marginals(X), model.predict_kbest(X, 3)
    likelihoods, entropies = model.log_likelihood(X, y), model.entropy(X)
    for i, x in enumerate(X):
        paths, scores = log_scores(model, model.coef_, x)
        log_p = scores - log_sum(scores)
        index = {path: n for n, path in enumerate(paths)}
        best_p = np.exp(np.sort(log_p)[::-1][: len(best[i])])
        # Paths may have equal scores, so the paths themselves are not compared.
        assert log_p[index[tuple(model.predict([x])[0])]] == pytest.approx(log_p.max(), abs=1e-10)
        np.testing.assert_allclose([p.probability for p in best[i]], best_p, 1e-10)
        of_paths = np.exp([log_p[index[tuple(p.labels)]] for p in best[i]])
        np.testing.assert_allclose(of_paths, best_p, 1e-10)
        expected = [
            [np.exp(log_p[[path[t] == label for path in paths]]).sum() for label in LABELS]
            for t in range(len(x))
        ]
        np.testing.assert_allclose(marginals[i], expected, atol=1e-10)
        assert likelihoods[i] == pytest.approx(log_p[paths.index(tuple(y[i]))], abs=1e-10)
        assert entropies[i] == pytest.approx(-(np.exp(log_p) * log_p).sum(), abs=1e-10)


def test_log_z_agrees_with_enumeration() -> None:
    X, y = sentences()
    model = trellis.CRF(joint=of_all).fit(X, y)
    model._check_fitted()
    log_z = trellis.inference.chain.log_partition(model._compute_scores(X))
    expected = [log_sum(log_scores(model, model.coef_, x)[1]) for x in X]
    np.testing.assert_allclose(log_z, expected, rtol=0, atol=1e-10)


# ---- the objective


def agrees(path: tuple[str, ...], known: Any) -> bool:
    return all(
        label is None or path[t] in (label if isinstance(label, set) else {label})
        for t, label in enumerate(known)
    )


def expected_loss(model: Any, w: Array, X: Any, y: Any, weights: Any = None) -> float:
    """−Σ vᵢ log Σ p(y | xᵢ) over the labellings that agree with yᵢ, plus l2/2 ‖w‖²."""
    loss = 0.5 * model.l2 * float(w @ w)
    for i, (x, known) in enumerate(zip(X, y, strict=True)):
        paths, scores = log_scores(model, w, x)
        right = np.array([agrees(path, known) for path in paths])
        weight = 1.0 if weights is None else weights[i]
        loss += weight * (log_sum(scores) - log_sum(scores[right]))
    return loss


@pytest.mark.parametrize("form", FORMS)
def test_loss_and_gradient(model_class: Any, form: str) -> None:
    X, y = sentences()
    weights = [0.5, 2.0, 1.0, 0.0, 1.5]
    model = model_class(joint=FORMS[form], l2=0.7).fit(X, y, sample_weight=weights)
    w = np.random.default_rng(2).normal(size=len(model.coef_))
    loss, gradient = evaluate(build_training_problem(model, X, y, weights), w)
    assert loss == pytest.approx(expected_loss(model, w, X, y, weights), rel=1e-10)

    def difference(w: Array) -> float:
        return expected_loss(model, w, X, y, weights)

    np.testing.assert_allclose(
        gradient, central_differences(difference, w, range(len(w))), rtol=1e-6, atol=1e-7
    )


def test_loss_and_gradient_of_partial_labels() -> None:
    X, y = sentences()
    y[0][1], y[2][0], y[2][2], y[3] = None, {"B-X", "O"}, None, [None, {"I-X", "B-X"}]
    model = trellis.CRF(joint=[of_all, of_pair], l2=0.2).fit(X, y)
    w = np.random.default_rng(3).normal(size=len(model.coef_))
    loss, gradient = evaluate(build_training_problem(model, X, y), w)
    assert loss == pytest.approx(expected_loss(model, w, X, y), rel=1e-10)

    def difference(w: Array) -> float:
        return expected_loss(model, w, X, y)

    np.testing.assert_allclose(
        gradient, central_differences(difference, w, range(len(w))), rtol=1e-6, atol=1e-7
    )


def test_constraints_and_label_weights() -> None:
    X = [["ann", "by", "eve"], ["at", "bob"]]
    y = [["B-X", "I-X", "O"], ["O", "B-X"]]
    model = trellis.CRF(joint=of_all, constraints="BIO", label_weight={"O": 3.0}, l2=0.4)
    model.fit(X, y)
    w = np.random.default_rng(4).normal(size=len(model.coef_))
    loss, _ = evaluate(build_training_problem(model, X, y), w)
    expected = 0.2 * float(w @ w)
    for x, known in zip(X, y, strict=True):
        paths, scores = log_scores(model, w, x)
        errors = [
            sum(np.log(3.0) for t, label in enumerate(known) if label == "O" != path[t])
            for path in paths
        ]
        legal = np.array(
            [
                all(b != "I-X" or (t and path[t - 1] != "O") for t, b in enumerate(path))
                for path in paths
            ]
        )
        expected += log_sum((scores + errors)[legal]) - scores[paths.index(tuple(known))]
    assert loss == pytest.approx(expected, rel=1e-10)
    assert "I-X" not in {labels[0] for labels in model.predict([["by"], ["eve"]])}


@pytest.mark.parametrize("solver", ["lbfgs", "gradient"])
def test_both_batch_solvers_reach_the_optimum(model_class: Any, solver: str) -> None:
    X, y = sentences()
    model = model_class(joint=of_all, solver=solver, l2=0.5, max_iter=3000).fit(X, y)
    _, gradient = evaluate(build_training_problem(model, X, y), model.coef_)
    assert np.abs(gradient).max() < 0.05
    assert model.objective_ == pytest.approx(expected_loss(model, model.coef_, X, y), rel=1e-9)


def test_l1_removes_joint_features() -> None:
    X, y = sentences()
    model = trellis.CRF(joint=of_all, l1=0.8, l2=0.1).fit(X, y)
    everything = trellis.CRF(joint=of_all, l2=0.1).fit(X, y)
    names = model.features_.joint_names()
    assert 0 < len(names) == len(model.coef_) == model.layout_.joint < len(everything.coef_)
    assert (model.coef_ != 0).all()
    penalty = 0.8 * np.abs(model.coef_).sum()
    assert model.objective_ == pytest.approx(
        expected_loss(model, model.coef_, X, y) + penalty, rel=1e-9
    )


# ---- the same model as attributes × labels


def test_attributes_times_labels_are_joint_features() -> None:
    X, y = sentences(5, (6, 4, 5, 1, 7))
    plain = trellis.CRF(lambda x: [[word, word[0]] for word in x], transitions="seen", l2=0.5).fit(
        X, y
    )
    joint = [
        lambda x, i, label: [f"{x[i]}/{label}", f"{x[i][0]}/{label}"],
        lambda previous, label: [] if previous is None else [f"{previous}->{label}"],
    ]
    model = trellis.CRF(joint=joint, l2=0.5).fit(X, y)
    assert len(model.coef_) == len(plain.coef_)
    assert model.objective_ == pytest.approx(plain.objective_, rel=1e-9)
    weight = dict(zip(model.features_.joint_names(), model.coef_.tolist(), strict=True))
    for label, name, w in plain.top_features(None):
        assert weight[f"{name}/{label}"] == pytest.approx(w, abs=1e-5)
    for before, after, w in plain.transitions_:
        assert weight[f"{before}->{after}"] == pytest.approx(w, abs=1e-5)


def test_joint_features_are_added_to_features() -> None:
    X, y = sentences(6)

    def pairs(x: Any) -> list[list[str]]:
        return [[f"edge {word}"] for word in x]

    def words(x: Any) -> list[dict[str, float]]:
        return [{word: 1.0, "length": float(len(word))} for word in x]

    model = trellis.CRF(words, edge_features=pairs, joint=of_all, l2=0.3).fit(X, y)
    layout = model.layout_
    assert layout.size == len(model.coef_) == layout.linear + len(model.features_.joint_names())
    w = np.random.default_rng(7).normal(size=layout.size)
    model.set_weights(w)
    plain = trellis.CRF(words, edge_features=pairs, l2=0.3).fit(X, y)
    assert len(plain.coef_) == layout.linear
    plain.set_weights(w[: layout.linear])
    both, without = model._check_fitted() or model._compute_scores(X), None
    plain._check_fitted()
    without = plain._compute_scores(X)
    for n, x in enumerate(X):
        for t in range(len(x)):
            for b, label in enumerate(LABELS):
                added = both.unary[n][t, b] - without.unary[n][t, b]
                if t == 0:
                    expected = local_score(model, w[layout.linear :], x, 0, None, label)
                    assert added == pytest.approx(expected, abs=1e-10)
                    continue
                for a, previous in enumerate(LABELS):
                    pair = both.transition[n][t - 1, a, b] - without.transition[n][t - 1, a, b]
                    expected = local_score(model, w[layout.linear :], x, t, previous, label)
                    assert added + pair == pytest.approx(expected, abs=1e-10)
    loss, gradient = evaluate(build_training_problem(model, X, y), w)
    assert loss == pytest.approx(0.15 * w @ w - model.log_likelihood(X, y).sum(), rel=1e-10)

    def difference(w: Array) -> float:
        model.set_weights(w)
        return float(0.15 * w @ w - model.log_likelihood(X, y).sum())

    np.testing.assert_allclose(
        gradient, central_differences(difference, w, range(len(w))), rtol=1e-5, atol=1e-6
    )


# ---- which features get a weight


def names_of(model: Any) -> set[str]:
    return set(model.features_.joint_names())


def test_seen_features_are_those_of_the_labels() -> None:
    X, y = [["a", "b"], ["b"]], [["P", "Q"], ["Q"]]

    def joint(x: Any, i: int, previous: Any, label: str) -> list[str]:
        return [f"{x[i]}{label}", f"{previous}{label}"]

    assert names_of(trellis.CRF(joint=joint).fit(X, y)) == {"aP", "bQ", "NoneP", "PQ", "NoneQ"}
    everything = {"aP", "aQ", "bP", "bQ", "NoneP", "NoneQ", "PP", "PQ", "QP", "QQ"}
    assert names_of(trellis.CRF(joint=joint, states="all").fit(X, y)) == everything
    # b/Q occurs twice, all others once. A sample weight multiplies the occurrences.
    assert names_of(trellis.CRF(joint=joint, min_count=2).fit(X, y)) == {"bQ"}
    assert names_of(trellis.CRF(joint=joint, min_count=2, states="all").fit(X, y)) == {"bQ"}
    with pytest.raises(InputError, match="min_count is too high"):
        trellis.CRF(joint=joint, min_count=2.1).fit(X, y)


def test_min_count_counts_values_and_sample_weights() -> None:
    X, y = [["a", "b"], ["b"]], [["P", "Q"], ["Q"]]

    def joint(x: Any, i: int, label: str) -> dict[str, float]:
        return {f"{x[i]}{label}": 2.0, "bias": 1.0}

    def names(min_count: float, weights: Any = None) -> set[str]:
        model = trellis.CRF(joint=joint, min_count=min_count)
        return names_of(model.fit(X, y, sample_weight=weights))

    assert names(2.0) == {"aP", "bQ", "bias"}
    assert names(2.5) == {"bQ", "bias"}
    assert names(3.5) == {"bQ"}
    assert names(3.5, [1.0, 3.0]) == {"bQ", "bias"}  # aP 2, bQ 2 + 6, bias 2 + 3
    assert names(2.5, [2.0, 0.1]) == {"aP", "bQ", "bias"}


def test_partial_labels_choose_features() -> None:
    X = [["a", "b", "c"]]

    def joint(x: Any, i: int, previous: Any, label: str) -> list[str]:
        return [f"{x[i]}{label}", f"{previous}{label}"]

    def names(y: list[Any], min_count: float = 0.0) -> set[str]:
        model = trellis.CRF(joint=joint, min_count=min_count)
        return names_of(model.fit([*X, ["d"], ["d"], ["d"]], [y, ["P"], ["Q"], ["R"]]))

    base = {"dP", "dQ", "dR", "NoneP", "NoneQ", "NoneR"}
    # an unknown label is no occurrence; any label may precede the next one
    assert names(["P", None, "Q"]) == base | {"aP", "cQ", "PQ", "QQ", "RQ"}
    assert names(["P", {"P", "Q"}, "Q"]) == base | {"aP", "bP", "bQ", "PP", "PQ", "cQ", "QQ"}
    # c/Q counts once, although it occurs with three previous labels; each of the pairs counts 1/3
    assert names(["P", None, "Q"], 1.0) == base | {"aP", "cQ"}


# ---- the life of a model


def test_files_and_pickles(tmp_path: Path) -> None:
    X, y = sentences()
    model = trellis.CRF(joint=FORMS["three"], l2=0.3).fit(X, y)
    path = tmp_path / "joint.trellis"
    model.save(path)
    loaded = trellis.load(path, joint=FORMS["three"])
    assert np.array_equal(loaded.coef_, model.coef_)
    assert loaded.joint is FORMS["three"]
    assert loaded.features_.joint_names() == model.features_.joint_names()
    for other in (loaded, pickle.loads(pickle.dumps(model))):
        assert all(map(np.array_equal, other.predict_marginals(X), model.predict_marginals(X)))
    without = trellis.load(path)
    assert without.classes_.tolist() == LABELS
    with pytest.raises(
        InputError, match=r"pass the function again with trellis.load\(path, joint="
    ):
        without.predict(X)
    without.set_feature_functions(joint=FORMS["three"])
    assert without.predict(X) == model.predict(X)


def test_files_with_features_of_both_kinds(tmp_path: Path) -> None:
    X, y = sentences()

    def words(x: Any) -> list[list[str]]:
        return [[word] for word in x]

    path = tmp_path / "both.trellis"
    for parameters in (
        {"features": words, "edge_features": words},
        {"features": trellis.features.Window()},
    ):
        model = trellis.MEMM(**parameters, joint=of_all).fit(X, y)
        model.save(path)
        functions = {name: f for name, f in parameters.items() if callable(f)}
        loaded = trellis.load(path, joint=of_all, **functions)
        assert loaded.predict_kbest(X, 2) == model.predict_kbest(X, 2)
        assert loaded.features is functions.get("features")


def test_warm_start_continues() -> None:
    X, y = sentences()
    model = trellis.CRF(joint=of_all, l2=0.3, warm_start=True).fit(X[:3], y[:3])
    names, old = model.features_.joint_names(), model.coef_.copy()
    model.max_iter = 0
    model.fit([*X, ["new"]], [*y, ["Z"]])
    assert model.classes_.tolist() == [*LABELS, "Z"]
    assert model.features_.joint_names()[: len(names)] == names
    assert np.array_equal(model.coef_[: len(names)], old)
    assert not model.coef_[len(names) :].any()
    model.max_iter = None
    model.fit([*X, ["new"]], [*y, ["Z"]])
    fresh = trellis.CRF(joint=of_all, l2=0.3).fit([*X, ["new"]], [*y, ["Z"]])
    assert model.objective_ == pytest.approx(fresh.objective_, rel=1e-5)
    # min_count does not remove features of the earlier fit
    model.set_params(min_count=100)
    assert model.fit(X, y).layout_.joint == len(fresh.coef_)
    model.set_params(joint=None, min_count=0)
    with pytest.raises(InputError, match="joint features must be used in both fits or in none"):
        model.fit(X, y)


def test_bits_do_not_depend_on_threads() -> None:
    X, y = sentences(8, (7, 3, 9, 4) * 30)
    fits = [trellis.CRF(joint=of_all, n_jobs=n, max_iter=8).fit(X, y).coef_ for n in (1, 2)]
    assert np.array_equal(*fits)


def test_dev_scores_early_stopping_and_checkpoints(tmp_path: Path) -> None:
    X, y = sentences()
    model = trellis.CRF(joint=of_all, early_stopping=2).fit(X, y, dev=(X, y))
    assert max(score for _, score in model.dev_scores_) == pytest.approx(model.score(X, y))
    path = tmp_path / "run.checkpoint"
    trellis.CRF(joint=of_all, max_iter=4).fit(X, y, checkpoint=Checkpoint(path, every=2))
    resume = Checkpoint(path, resume=True)
    with pytest.raises(InputError, match="data"):
        trellis.CRF(joint=of_label).fit(X, y, checkpoint=resume)
    resumed = trellis.CRF(joint=of_all).fit(X, y, checkpoint=resume)
    assert np.array_equal(resumed.coef_, trellis.CRF(joint=of_all).fit(X, y).coef_)


def test_explanations_and_tables() -> None:
    X, y = [["a", "b"]] * 2, [["P", "Q"]] * 2

    def joint(x: Any, i: int, previous: Any, label: str) -> dict[str, float]:
        return {f"{x[i]}{label}": 2.0, f"{previous}{label}": 1.0, "both": 1.0}

    model = trellis.CRF(joint=joint, l2=0.1).fit(X, y)
    names = ["aP", "NoneP", "both", "bQ", "PQ"]
    assert model.features_.joint_names() == names
    model.set_weights(np.array([1.0, 0.5, -3.0, 0.25, -0.125]))
    assert model.top_features(2) == [(None, "both", -3.0), (None, "aP", 1.0)]
    assert model.top_features(None, "P") == []
    assert model.transitions_ == []
    first, second = model.explain(["a", "b"])
    assert (first.label, second.label) == ("P", "Q")
    # features that do not distinguish the labels are omitted: "both"
    assert first.contributions == [
        ("aP", 2.0, 2.0, 0.0),
        ("NoneP", 1.0, 0.5, 0.0),
        ("out of:PQ", 1.0, -0.125, 0.0),
    ]
    assert second.contributions == [("bQ", 2.0, 0.5, 0.0), ("PQ", 1.0, -0.125, 0.0)]
    assert model.describe().weights == 5


def test_explanations_with_features_of_both_kinds() -> None:
    X, y = [["a", "b"]] * 2, [["P", "Q"]] * 2
    model = trellis.CRF(
        lambda x: [[word] for word in x], joint=lambda a, b: [f"{a}{b}"], transitions="seen"
    ).fit(X, y)
    assert [w.label for w in model.top_features(None)] == ["P", "Q", None, None]
    names = [c.feature for c in model.explain(["a", "b"])[1].contributions]
    assert sorted(names) == ["PQ", "b", "transition:into P"]


# ---- wrong arguments


def test_functions_of_four_arguments_are_not_features() -> None:
    X, y = sentences()
    for f in (of_all, of_label):
        with pytest.raises(InputError, match=r"\(x, i, previous, label\) is joint=, as in CRF"):
            trellis.CRF(f).fit(X, y)
    assert trellis.CRF(lambda x, prefix="": [[prefix + w] for w in x]).fit(X, y).predict(X)


@pytest.mark.parametrize(
    ("joint", "message"),
    [
        (
            7,
            r"joint must be a function of \(x, i, previous, label\), or a list of functions, not 7",
        ),
        ([of_all, "f"], "or a list of functions, not 'f'"),
        ([], "joint is an empty list: it must contain a function"),
        (lambda x: [], r"\(previous, label\); .* takes 1"),
        (lambda v, w, x, y, z: [], "takes 5"),
        (lambda *, x: [], "takes 0"),
    ],
)
def test_bad_functions(joint: Any, message: str) -> None:
    X, y = sentences()
    with pytest.raises(InputError, match=message):
        trellis.CRF(joint=joint).fit(X, y)


@pytest.mark.parametrize("solver", ["sgd", "perceptron", "passive-aggressive", "arow"])
def test_online_solvers_are_refused(solver: str) -> None:
    X, y = sentences()
    expected = f"solver '{solver}' cannot train joint features: use solver='lbfgs' or 'gradient'"
    with pytest.raises(InputError, match=expected):
        trellis.CRF(joint=of_all, solver=solver).fit(X, y)


@pytest.mark.parametrize("states", ["seen", "all"])
def test_bad_features_are_named(states: str) -> None:
    X, y = [["a", "b", "c"], ["a", "d"]], [["P", "Q", "P"], ["P", "Q"]]

    def fail(f: Any) -> str:
        with pytest.raises(InputError) as caught:
            trellis.CRF(joint=f, states=states).fit(X, y)
        return str(caught.value)

    text = "joint: ready features expected, got a str"
    message = fail(lambda x, i, a, b: "d" if (x[i], a, b) == ("d", "P", "Q") else [])
    assert message == f"sequence 1, position 1, previous label 'P', label 'Q': {text}"
    message = fail(lambda x, i, a, b: "d" if i == 0 else [])
    assert message == f"sequence 0, position 0, previous label None, label 'P': {text}"
    message = fail(lambda x, i, b: {"v": np.inf if (x[i], b) == ("c", "P") else 0.0})
    where = "position 2, " + ("previous label 'Q', " if states == "seen" else "") + "label 'P'"
    assert message == f"sequence 0, {where}: joint: the value of v is not finite"
    message = fail(lambda a, b: [1] if a == "P" else [])
    where = "sequence 0, position 1, " if states == "seen" else ""
    label = "Q" if states == "seen" else "P"
    expected = f"previous label 'P', label '{label}': joint: a feature must be a str, not int"
    assert message == where + expected


@pytest.mark.parametrize("make", [np.array, sparse.csr_array, lambda x: list(map(tuple, x))])
def test_sequences_of_any_type(make: Any) -> None:
    X = [make([[1.0, 0.0], [0.0, 1.0]]), make([[0.0, 1.0]])]
    joint = [lambda x, i, label: {label: float(x[i][0] if isinstance(x, list) else x[i, 0])}]
    model = trellis.CRF(joint=joint).fit(X, [["P", "Q"], ["Q"]])
    assert model.features_.joint_names() == ["P", "Q"]
    assert model.predict(X)[0][0] == "P"
    with pytest.raises(InputError, match="sequence 1 must be a list"):
        model.predict([X[0], 5])


def test_no_feature_at_all() -> None:
    X, y = sentences()
    with pytest.raises(InputError, match="no feature has a weight"):
        trellis.CRF(joint=lambda a, b: []).fit(X, y)


def test_a_crfsuite_file_cannot_store_joint_features(tmp_path: Path) -> None:
    X, y = sentences()
    model = trellis.CRF(joint=of_all).fit(X, y)
    with pytest.raises(InputError, match="edge features"):
        save_crfsuite(model, tmp_path / "model")
