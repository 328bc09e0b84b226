"""CRF(order=2) against enumeration of all labellings and central differences."""

from __future__ import annotations

import pickle
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from labellings import (
    all_paths,
    bio,
    build_training_problem,
    central_differences,
    evaluate,
    log_sum,
    mask_agreeing,
    mask_legal,
    nll,
    probabilities,
    random_data,
    score,
    state_part,
)
from sklearn.exceptions import NotFittedError

import trellis
from trellis.data import tags
from trellis.errors import InputError
from trellis.features import named
from trellis.inference import chain
from trellis.models.chain.checkpoint import Checkpoint
from trellis.models.foreign import save_crfsuite

BIO = ["B-X", "B-Y", "I-X", "I-Y", "O"]
LENGTHS = [4, 1, 3, 2, 4, 3]


def bio_data(seed: int = 0) -> tuple[list[Any], list[list[str]]]:
    """Return random features, and labels that agree with BIO; each label occurs."""
    X, _ = random_data(seed, 2, LENGTHS)
    rng, y = np.random.default_rng(seed), list[list[str]]()
    for x in X:
        labels: list[str] = []
        while len(labels) < len(x):
            choices = [label for label in BIO if bio((*labels, label))]
            labels.append(str(rng.choice(choices)))
        y.append(labels)
    y[0], y[4] = ["B-X", "I-X", "O", "B-Y"], ["B-Y", "I-Y", "B-X", "O"]
    return X, y


def fitted(**settings: Any) -> tuple[Any, list[Any], list[list[str]]]:
    X, y = bio_data()
    return trellis.CRF(state_part, order=2, l2=0.2, **settings).fit(X, y), X, y


CASES: dict[str, tuple[dict[str, Any], Any]] = {
    "free": ({}, None),
    "seen": ({"transitions": "seen"}, None),
    "BIO": ({"constraints": "BIO"}, bio),
    "pairs": (
        {"constraints": [("I-Y", "B-Y"), ("I-X", "I-Y")]},
        lambda y: not {("I-Y", "B-Y"), ("I-X", "I-Y")} & set(pairwise(y)),
    ),
    "pruned": ({"l1": 0.3}, None),
}


@pytest.fixture(params=CASES)
def case(request: Any) -> tuple[Any, list[Any], Any]:
    """Return a fitted model, sequences, and the rule of its constraints."""
    settings, legal = CASES[request.param]
    model, X, _ = fitted(**settings)
    assert model.trigrams_
    return model, X, legal


def names(model: Any, x: Any) -> list[list[str]]:
    classes = model.classes_.tolist()
    return [[classes[n] for n in path] for path in all_paths(len(x), len(classes))]


# ---- results of a fitted model


def test_quantities_by_enumeration(case: Any) -> None:
    model, X, legal = case
    classes = model.classes_.tolist()
    for x in X:
        values = score(model, model.coef_, x)
        p, is_legal = probabilities(values, classes, legal), mask_legal(len(x), classes, legal)
        scores, paths = values.of_all(), all_paths(len(x), len(classes))
        log_z = log_sum(scores[is_legal])
        assert model.log_partition([x]) == pytest.approx(log_z, abs=1e-10)
        marginals = np.array([[p[paths[:, t] == n].sum() for n in range(5)] for t in range(len(x))])
        assert model.predict_marginals([x])[0] == pytest.approx(marginals, abs=1e-10)
        pairs = np.zeros((len(x) - 1, 5, 5))
        for t, a, b in np.ndindex(pairs.shape):
            pairs[t, a, b] = p[(paths[:, t] == a) & (paths[:, t + 1] == b)].sum()
        assert model.predict_pairwise([x])[0] == pytest.approx(pairs, abs=1e-10)
        labellings = names(model, x)
        best = np.argsort(-np.where(is_legal, scores, -np.inf), kind="stable")
        assert model.predict([x]) == [labellings[best[0]]]
        k = min(7, int(is_legal.sum()))
        for labelling, n in zip(model.predict_kbest([x], k)[0], best[:k], strict=True):
            assert labelling.labels == labellings[n]
            assert labelling.probability == pytest.approx(p[n], abs=1e-10)
        log_p = model.log_likelihood([x] * len(paths), labellings)
        with np.errstate(divide="ignore"):
            assert log_p == pytest.approx(np.log(p), abs=1e-9)
        entropy = -float((p[p > 0] * np.log(p[p > 0])).sum())
        assert model.entropy([x]) == pytest.approx(entropy, abs=1e-9)


def test_all_labellings_that_are_not_forbidden_are_possible() -> None:
    """Pairs that do not occur in training have no weight of three labels, but are possible."""
    crf = trellis.CRF(order=2, l2=0.1).fit([["a", "b", "c"]] * 3, [["A", "B", "C"]] * 3)
    assert [trigram[:3] for trigram in crf.trigrams_] == [("A", "B", "C")]
    assert crf.label_states_ == [("A",), ("B",), ("A", "B"), ("C",)]
    labellings = list(product("ABC", repeat=5))
    p = np.exp(crf.log_likelihood([["c", "a", "b", "c", "x"]] * len(labellings), labellings))
    assert (p > 0).all()
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    assert crf.predict([["a", "b", "c", "a", "b", "c", "a"]]) == [[*"ABCABCA"]]


def test_known_labels_by_enumeration(case: Any) -> None:
    model, X, legal = case
    classes = model.classes_.tolist()
    for x in X:
        known: list[Any] = [None] * len(x)
        known[-1] = {"O", "B-X", "I-X"}
        if len(x) > 2:
            known[1] = "B-X"
        agrees = mask_agreeing(known, classes) & mask_legal(len(x), classes, legal)
        scores = np.where(agrees, score(model, model.coef_, x).of_all(), -np.inf)
        assert model.log_partition([x], [known]) == pytest.approx(log_sum(scores), abs=1e-10)
        assert model.predict([x], [known]) == [names(model, x)[int(scores.argmax())]]
        p = np.exp(scores - log_sum(scores))
        paths = all_paths(len(x), len(classes))
        marginals = [[p[paths[:, t] == n].sum() for n in range(5)] for t in range(len(x))]
        assert model.predict_marginals([x], [known])[0] == pytest.approx(
            np.array(marginals), abs=1e-10
        )
        total = log_sum(probabilities_of(model, x, legal)[agrees])
        assert model.log_likelihood([x], [known]) == pytest.approx(total, abs=1e-9)


def probabilities_of(model: Any, x: Any, legal: Any) -> np.ndarray:
    p = probabilities(score(model, model.coef_, x), model.classes_.tolist(), legal)
    with np.errstate(divide="ignore"):
        return np.log(p)


def test_spans_and_decoders_by_enumeration(case: Any) -> None:
    model, X, legal = case
    for x in X:
        p = np.exp(probabilities_of(model, x, legal))
        labellings = names(model, x)
        chances: dict[Any, float] = {}
        correct = np.zeros((len(x), len(BIO)))
        for q, labels in zip(p, labellings, strict=True):
            for span in tags.spans(labels, "BIO"):
                chances[tuple(span)] = chances.get(tuple(span), 0.0) + q
            correct[np.arange(len(x)), [BIO.index(label) for label in labels]] += q
        spans = model.predict_spans([x])[0]
        assert [span[:3] for span in spans] == tags.spans(model.predict([x])[0], "BIO")
        for span in spans + model.predict_spans([x], min_probability=0.2)[0]:
            assert span.probability == pytest.approx(chances[span[:3]], abs=1e-10)

        def gain(labels: list[str], correct: np.ndarray = correct) -> float:
            return float(sum(correct[t, BIO.index(label)] for t, label in enumerate(labels)))

        def f1(labels: list[str], chances: dict[Any, float] = chances) -> float:
            read = tags.spans(labels, "BIO")
            total = len(read) + sum(chances.values())
            return 2 * sum(chances.get(tuple(s), 0.0) for s in read) / total

        possible = [labels for q, labels in zip(p, labellings, strict=True) if q > 0]
        for decode, value in (("marginal", gain), ("mbr", f1)):
            (labels,) = model.predict([x], decode=decode)
            assert labels in possible
            assert value(labels) == pytest.approx(max(map(value, possible)), abs=1e-10)


def test_samples_have_the_probabilities() -> None:
    model, X, _ = fitted()
    x = X[3]
    p = np.exp(probabilities_of(model, x, None))
    drawn = model.sample([x], 20_000, random_state=0)[0]
    counts = np.array([drawn.count(labels) for labels in names(model, x)])
    assert np.abs(counts / 20_000 - p).max() < 0.02


def test_scores_are_those_of_states() -> None:
    model, X, _ = fitted()
    scores = model.scores(X)
    states = model.label_states_
    assert scores.unary[0].shape == (len(X[0]), len(states))
    assert scores.transition.shape == (len(states), len(states))
    assert {len(state) for state in states} == {1, 2}
    assert [state[-1] for state in states] == sorted(state[-1] for state in states)
    log_z = chain.log_partition(scores)
    assert log_z == pytest.approx(model.log_partition(X), abs=1e-10)
    for x, path in zip(X, chain.viterbi(scores).labels, strict=True):
        assert [states[n][-1] for n in path] == model.predict([x])[0]
        for before, n in pairwise(path):
            assert states[n][:-1] in ((), (states[before][-1],))
    first_order = trellis.CRF(state_part).fit(*bio_data())
    assert first_order.label_states_ == [(label,) for label in BIO]


def test_slices_do_not_change_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    model, X, _ = fitted()
    expected = model.predict(X, decode="mbr"), model.log_partition(X).tolist()
    monkeypatch.setattr("trellis.models.chain.decoding._SLICE_POSITIONS", 30)
    assert (model.predict(X, decode="mbr"), model.log_partition(X).tolist()) == expected


# ---- features and explanations


def test_feature_vectors(case: Any) -> None:
    model, X, legal = case
    for x in X[:3]:
        p, labellings = np.exp(probabilities_of(model, x, legal)), names(model, x)
        vectors = [model.joint_features(x, labels) for labels in labellings]
        products = [vector.dot(model.coef_) for vector in vectors]
        assert products == pytest.approx(score(model, model.coef_, x).of_all(), abs=1e-10)
        expected = sum(q * vector.to_array() for q, vector in zip(p, vectors, strict=True))
        assert model.expected_features(x).to_array() == pytest.approx(expected, abs=1e-10)
    assert not len(model.expected_features([]))


def test_tables_and_explanations() -> None:
    X, y = [["a", "b", "c"], ["a", "c"]], [["A", "B", "C"], ["A", "C"]]
    crf = trellis.CRF(order=2, l2=0.1).fit(X, y)
    (trigram,) = crf.trigrams_
    assert trigram[:3] == ("A", "B", "C")
    assert trigram.weight == crf.layout_.split(crf.coef_)[3][0]
    assert trellis.CRF().fit(X, y).trigrams_ == []
    assert crf.describe().settings == {"solver": "lbfgs, l2 = 0.1", "order": "2"}
    assert len(crf.transitions_) == 9
    assert crf.joint_features(X[0], y[0]).names[-1] == "transition: A → B → C"
    explanations = crf.explain(["a", "b", "c"])
    classes = crf.classes_.tolist()
    for e in explanations:
        # The difference of all contributions is that of the scores of the two labellings.
        other = [*"ABC"]
        other[e.position] = e.runner_up
        difference = crf.joint_features(X[0], y[0]).dot(crf.coef_) - crf.joint_features(
            X[0], other
        ).dot(crf.coef_)
        assert sum(c.difference for c in e.contributions) == pytest.approx(difference, abs=1e-10)
        assert e.label in classes
    named = [c.feature for c in explanations[1].contributions]
    assert "transition:A → · → C" in named


def test_plot() -> None:
    model, X, y = fitted()
    for name, join in (("alpha", log_sum), ("viterbi", np.max)):
        drawing = model.plot(X[0], gold=y[0], numbers=name)
        expected = set()
        for t in range(len(X[0])):
            values, paths = score(model, model.coef_, X[0][: t + 1]).of_all(), all_paths(t + 1, 5)
            numbers = [join(values[paths[:, t] == b]) for b in range(5)]
            expected |= {f"{number:.2f}".replace("-", "−") for number in numbers}
        shapes: Any = drawing.shapes
        assert {shape.text for shape in shapes if shape.kind == "number"} == expected
    with pytest.raises(InputError, match="numbers='beta' needs order=1"):
        model.plot(X[0], numbers="beta")


# ---- training


SETTINGS: dict[str, dict[str, Any]] = {
    "free": {},
    "seen": {"transitions": "seen"},
    "BIO": {"constraints": "BIO"},
    "costs": {"label_weight": {"O": 3.0, "B-X": 0.5}},
    "rare": {"min_count": 2.0},
}


def unknown(y: list[list[str]]) -> list[list[Any]]:
    """Hide some labels: None, and sets that contain the label."""
    return [
        [
            None if (i + t) % 3 == 0 else {label, "O", "B-X"} if (i + t) % 3 == 1 else label
            for t, label in enumerate(labels)
        ]
        for i, labels in enumerate(y)
    ]


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("name", SETTINGS)
def test_loss_and_gradient(name: str, partial: bool, isa: str) -> None:
    settings, (X, y) = SETTINGS[name], bio_data(1)
    model = trellis.CRF(state_part, order=2, l2=0.0, max_iter=1, **settings).fit(X, y)
    legal = bio if "constraints" in settings else None
    y_of_problem = unknown(y) if partial else y
    weights = np.random.default_rng(2).uniform(0.2, 2.0, len(X))
    problem = build_training_problem(model, X, y_of_problem, weights)
    for scale in (1.0, 30.0):  # large weights need the exact kernels
        w = np.random.default_rng(3).normal(size=model.layout_.size, scale=scale)
        loss, gradient = evaluate(problem, w)
        assert loss == pytest.approx(nll(model, w, X, y_of_problem, weights, legal), rel=1e-10)
        if scale > 1.0:
            continue
        for n_jobs in (2, 3):
            problem.n_jobs = n_jobs
            again = evaluate(problem, w)
            assert (again[0], again[1].tobytes()) == (loss, gradient.tobytes())
        expected = central_differences(lambda w: evaluate(problem, w)[0], w, range(len(w)))
        assert gradient == pytest.approx(expected, abs=1e-7)


def test_gradient_of_the_exact_kernels() -> None:
    """The expected counts of weights too far apart for scaled probabilities."""
    X, y = bio_data(4)
    model = trellis.CRF(state_part, order=2, l2=0.0, max_iter=1).fit(X, y)
    w = np.random.default_rng(0).normal(size=model.layout_.size)
    begin = model.layout_.size - len(model.trigrams_)
    w[begin:] *= 4.0
    w[begin] = -90.0  # beyond the limit of the fast kernel, and without effect on the others
    problem = build_training_problem(model, X, y)
    loss, gradient = evaluate(problem, w)
    assert loss == pytest.approx(nll(model, w, X, y), rel=1e-10)
    expected = central_differences(lambda w: evaluate(problem, w)[0], w, range(len(w)))
    assert gradient == pytest.approx(expected, abs=1e-6)
    # Only one of the sequences has scores that are too far apart.
    far = [[({"a0": 300.0, "a1": -250.0}, {})] * 3, *X]
    labels = [["O", "B-X", "O"], *y]
    w = np.random.default_rng(0).normal(size=model.layout_.size)
    problem = build_training_problem(model, far, labels)
    loss, gradient = evaluate(problem, w)
    assert loss == pytest.approx(nll(model, w, far, labels), rel=1e-10)
    without = evaluate(build_training_problem(model, X, y), w)[1]
    alone = evaluate(build_training_problem(model, far[:1], labels[:1]), w)[1]
    assert gradient == pytest.approx(without + alone, abs=1e-9)


def test_infeasible_labels() -> None:
    X, y = bio_data()
    model = trellis.CRF(state_part, order=2, constraints="BIO", max_iter=1).fit(X, y)
    y[2] = [None, {"B-Y", "O"}, {"I-X"}]  # type: ignore[list-item]
    with pytest.raises(InputError, match="sequence 2: no labelling agrees"):
        evaluate(build_training_problem(model, X, y), model.coef_)


@pytest.mark.parametrize("solver", ["lbfgs", "gradient"])
def test_the_optimum(solver: str) -> None:
    X, y = bio_data()
    model = trellis.CRF(state_part, order=2, l2=0.5, solver=solver, max_iter=2000).fit(X, y)
    observed, expected = (
        sum(f(*pair).to_array() for pair in pairs)
        for f, pairs in (
            (model.joint_features, zip(X, y, strict=True)),
            (model.expected_features, ((x,) for x in X)),
        )
    )
    assert observed - expected == pytest.approx(0.5 * model.coef_, abs=0.02)


@pytest.mark.parametrize("solver", ["sgd", "perceptron", "passive-aggressive", "arow"])
def test_online_solvers(solver: str) -> None:
    X, y = alternating()
    model = trellis.CRF(order=2, solver=solver, random_state=0).fit(X, y)
    assert model.score(X, y) == 1.0
    assert model.trigrams_
    if solver == "sgd":
        penalty = model.l2_ / 2 * (model.coef_**2).sum()
        expected = penalty - model.log_likelihood(X, y).sum()
        assert model.objective_ == pytest.approx(expected, rel=1e-9)


def alternating() -> tuple[list[Any], list[list[str]]]:
    """The next label is that of two positions before: pairs of neighbours tell nothing."""
    rng = np.random.default_rng(0)
    y = []
    for _ in range(60):
        labels = [*rng.choice(["A", "B"], 2)]
        while len(labels) < 12:
            labels.append(labels[-2])
        y.append([str(label) for label in labels])
    # The first two labels can be seen, the others cannot.
    X = [[{f"w={label}": t < 2} for t, label in enumerate(labels)] for labels in y]
    return X, y


def test_second_order_can_learn_what_first_order_cannot() -> None:
    X, y = alternating()
    assert trellis.CRF(order=2).fit(X, y).score(X, y) == 1.0
    assert trellis.CRF(order=1).fit(X, y).score(X, y) < 0.9


def test_partial_labels_constraints_and_unlabelled_sequences() -> None:
    X, y = bio_data()
    hidden = unknown(y)
    hidden[0] = [None] * len(y[0])
    model = trellis.CRF(state_part, order=2, constraints="BIO", l2=0.1).fit(X, hidden)
    for labels, known in zip(model.predict(X), hidden, strict=True):
        assert bio(tuple(labels))
        assert len(labels) == len(known)
    loss = nll(model, model.coef_, X, hidden, legal=bio)
    assert model.objective_ == pytest.approx(loss + 0.05 * (model.coef_**2).sum(), rel=1e-9)


def test_min_count_and_sample_weights() -> None:
    X, y = [["a", "b", "c"], ["a", "b", "b"]] * 2, [[*"ABC"], [*"ABB"]] * 2
    weights = [1.0, 3.0, 1.0, 0.5]
    crf = trellis.CRF(order=2, min_count=2.5).fit(X, y, weights)
    assert [trigram[:3] for trigram in crf.trigrams_] == [("A", "B", "B")]
    crf = trellis.CRF(order=2, min_count=2).fit(X, y)
    assert {trigram[:3] for trigram in crf.trigrams_} == {("A", "B", "B"), ("A", "B", "C")}


def test_trigrams_of_labels_that_are_partly_known() -> None:
    """Each label of a set counts, but not the labels of an unknown position."""
    X = [["a", "b", "c", "d"], ["a", "b", "c"], ["a"], ["a", "b", "c"]]
    y = [["A", {"B", "C"}, "A", None], ["A", None, "B"], ["C"], [*"CCC"]]
    crf = trellis.CRF(order=2).fit(X, y)
    assert {trigram[:3] for trigram in crf.trigrams_} == {
        *(("A", "B", "A"), ("A", "C", "A"), ("C", "C", "C"))
    }
    weights = [1.0] * 7 + [0.5]
    crf = trellis.CRF(order=2, min_count=2).fit(X * 2, y * 2, weights)
    assert {trigram[:3] for trigram in crf.trigrams_} == {("A", "B", "A"), ("A", "C", "A")}


def test_short_sequences_have_no_weights_of_three_labels() -> None:
    X, y = [["a", "b"], ["b"]], [["A", "B"], ["B"]]
    second, first = (trellis.CRF(order=order, l2=0.1).fit(X, y) for order in (2, 1))
    assert second.trigrams_ == []
    assert second.coef_.tobytes() == first.coef_.tobytes()
    assert second.predict([["a", "b", "a", "b"]]) == first.predict([["a", "b", "a", "b"]])


def test_n_jobs_and_penalties_do_not_change_the_bits() -> None:
    X, y = random_data(3, 6, [9] * 60, attributes=40)
    for settings in ({}, {"l1": 0.2}):
        models = [
            trellis.CRF(state_part, order=2, l2=0.1, n_jobs=n_jobs, **settings).fit(X, y)
            for n_jobs in (1, 2, 4)
        ]
        assert len({model.coef_.tobytes() for model in models}) == 1
    assert (models[0].coef_ != 0).all()
    assert len(models[0].label_states_) > 6


def test_warm_start() -> None:
    X, y = bio_data()
    model = trellis.CRF(state_part, order=2, l2=0.1, warm_start=True).fit(X[:3], y[:3])
    before = {trigram[:3]: trigram.weight for trigram in model.trigrams_}
    model.set_params(max_iter=0).fit(X[3:], y[3:])
    after = {trigram[:3]: trigram.weight for trigram in model.trigrams_}
    assert before.items() <= after.items()
    assert set(after) > set(before)
    assert all(after[key] == 0.0 for key in set(after) - set(before))
    model.set_params(max_iter=None).fit(X, y)
    fresh = trellis.CRF(state_part, order=2, l2=0.1).fit(X, y)
    assert model.log_likelihood(X, y) == pytest.approx(fresh.log_likelihood(X, y), abs=0.05)
    with pytest.raises(InputError, match="warm_start: order was 2 in the earlier fit"):
        model.set_params(order=1).fit(X, y)


def test_checkpoint_and_early_stopping(tmp_path: Path) -> None:
    X, y = bio_data()
    settings = {"order": 2, "l2": 0.1, "early_stopping": 3, "scoring": "span_f1"}
    straight = trellis.CRF(state_part, **settings).fit(X, y, dev=(X, y))
    checkpoint = Checkpoint(tmp_path / "run.checkpoint", every=1)

    def halt(progress: Any) -> None:
        if progress.iteration == 3:
            checkpoint.halt()

    trellis.CRF(state_part, **settings).fit(X, y, dev=(X, y), checkpoint=checkpoint, callback=halt)
    assert checkpoint.stopped
    again = Checkpoint(tmp_path / "run.checkpoint", resume=True)
    resumed = trellis.CRF(state_part, **settings).fit(X, y, dev=(X, y), checkpoint=again)
    assert resumed.coef_.tobytes() == straight.coef_.tobytes()
    other = Checkpoint(tmp_path / "run.checkpoint", resume=True)
    with pytest.raises(InputError, match=r"with order=2, but this run has order=\(default\)"):
        trellis.CRF(state_part, **(settings | {"order": 1})).fit(X, y, dev=(X, y), checkpoint=other)


# ---- files


def test_save_and_pickle(tmp_path: Path) -> None:
    X = [["the", "dog", "barks"], ["a", "cat"], ["dog", "the", "a", "cat"]]
    y = [["D", "N", "V"], ["D", "N"], ["N", "D", "D", "N"]]
    model = trellis.CRF(order=2).fit(X, y)
    expected = model.predict_marginals(X), model.trigrams_, model.label_states_
    model.save(tmp_path / "model.trellis")
    for other in (trellis.load(tmp_path / "model.trellis"), pickle.loads(pickle.dumps(model))):
        assert np.concatenate(other.predict_marginals(X)).tobytes() == (
            np.concatenate(expected[0]).tobytes()
        )
        assert (other.trigrams_, other.label_states_) == expected[1:]
        assert other.order == 2
    with pytest.raises(InputError, match="cannot store a model of order 2"):
        save_crfsuite(model, tmp_path / "model.crfsuite")


# ---- bad input


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"order": 3}, "order is 3: must be 1 or 2"),
        ({"order": 0}, "order must be at least 1, not 0"),
        ({"order": "2"}, "order"),
        ({"order": 2.5}, "order"),
        ({"order": 2, "transitions": "none"}, "transitions must be 'all' or 'seen', not 'none'"),
        ({"order": 2, "edge_features": state_part}, "cannot be combined with edge_features"),
        ({"order": 2, "joint": lambda a, b: []}, "cannot be combined with joint"),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        trellis.CRF(**settings).fit([["a"]], [["A"]])


def test_templates_of_transitions_are_refused() -> None:
    spec = named(["w[0]"], edges=["w[0]"])
    with pytest.raises(InputError, match="cannot be combined with features of transitions"):
        trellis.CRF(spec, order=2).fit([["a", "b"]], [["A", "B"]])


def test_unfitted() -> None:
    for decode in ("viterbi", "marginal", "mbr"):
        with pytest.raises(NotFittedError):
            trellis.CRF(order=2).predict([["a"]], decode=decode)
    with pytest.raises(NotFittedError):
        _ = trellis.CRF(order=2).label_states_


def test_an_memm_has_order_1() -> None:
    with pytest.raises(InputError, match=r"use CRF\(order=2\)"):
        trellis.MEMM(order=2).fit([["a"]], [["A"]])


def test_too_many_states(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRELLIS_MAX_LABELS", "6")
    X, y = bio_data()
    with pytest.raises(InputError, match=r"order=2 has \d+ states.*raise min_count"):
        trellis.CRF(state_part, order=2).fit(X, y)


def test_invalid_arrays_of_the_core() -> None:
    for trigram in ([27], [-1], [3, 3], [5, 2]):
        with pytest.raises(ValueError, match="trigram"):
            trellis._core.PairStates(3, np.array(trigram, np.int64))
    with pytest.raises(ValueError, match="labels"):
        trellis._core.PairStates(0, np.array([], np.int64))
    states = trellis._core.PairStates(2, np.array([1, 5], np.int64))
    for shapes in (((2, 3), 2, (4, 4)), ((2, 2), 3, (4, 4)), ((2, 2), 2, (4, 3))):
        arrays = [np.zeros(shape) for shape in shapes]
        with pytest.raises(ValueError, match="must"):
            states.transitions(*arrays)
