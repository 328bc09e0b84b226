"""Scores, log Z and pair marginals of models agree with the enumeration of all labellings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from labellings import (
    all_paths,
    bio,
    edge_part,
    log_sum,
    mask_agreeing,
    mask_legal,
    probabilities,
    random_data,
    score,
    state_part,
)
from sklearn.exceptions import NotFittedError

import trellis
from trellis.errors import InputError
from trellis.inference import chain

WORDS = [["the", "dog", "barks"], ["a", "cat"], ["the", "cat", "barks", "a"]]
TAGS = [["D", "N", "V"], ["D", "N"], ["D", "N", "V", "D"]]


def fit_crf(edges: int) -> tuple[Any, Any, Any]:
    X, y = random_data(5, 3, [4, 1, 5, 2], edge_attributes=edges)
    crf = trellis.CRF(state_part, edge_features=edge_part if edges else None, l2=0.2)
    return crf.fit(X, y), X, y


def pairs_of(p: np.ndarray, length: int, n_labels: int) -> np.ndarray:
    """p(yₜ₋₁, yₜ) from the probabilities of all labellings."""
    paths, pairs = all_paths(length, n_labels), np.zeros((length - 1, n_labels, n_labels))
    for t in range(length - 1):
        np.add.at(pairs[t], (paths[:, t], paths[:, t + 1]), p)
    return pairs


@pytest.mark.parametrize("edges", [0, 3])
def test_a_crf_agrees_with_enumeration(edges: int) -> None:
    crf, X, y = fit_crf(edges)
    classes, scores = crf.classes_.tolist(), crf.scores(X)
    log_z, pairs = crf.log_partition(X), crf.predict_pairwise(X)
    assert log_z.shape == (4,)
    for i, x in enumerate(X):
        truth = score(crf, crf.coef_, x)
        np.testing.assert_allclose(scores.unary[i], truth.unary, atol=1e-12)
        transition = scores.transition[i] if edges else scores.transition
        shown = np.broadcast_to(transition, truth.transition.shape)
        np.testing.assert_allclose(shown, truth.transition, atol=1e-12)
        assert log_z[i] == pytest.approx(log_sum(truth.of_all()), abs=1e-10)
        want = pairs_of(probabilities(truth, classes), len(x), len(classes))
        np.testing.assert_allclose(pairs[i], want, atol=1e-10)
    known = [[labels[0], *[None] * (len(labels) - 1)] for labels in y]
    log_known, pairs_known = crf.log_partition(X, known), crf.predict_pairwise(X, known)
    for i, x in enumerate(X):
        values = score(crf, crf.coef_, x).of_all()
        agrees = mask_agreeing(known[i], classes)
        assert log_known[i] == pytest.approx(log_sum(values[agrees]), abs=1e-10)
        p = np.where(agrees, np.exp(values - log_known[i]), 0.0)
        want = pairs_of(p, len(x), len(classes))
        np.testing.assert_allclose(pairs_known[i], want, atol=1e-10)


@pytest.mark.parametrize("edges", [0, 3])
def test_scores_are_those_of_every_method(edges: int) -> None:
    crf, X, y = fit_crf(edges)
    scores = crf.scores(X)
    assert isinstance(scores, chain.Scores)
    assert scores.mask is None
    paths = chain.viterbi(scores).labels
    assert [crf.classes_[path].tolist() for path in paths] == crf.predict(X)
    numbers = [np.searchsorted(crf.classes_, labels) for labels in y]
    np.testing.assert_allclose(chain.log_prob(scores, labels=numbers), crf.log_likelihood(X, y))
    alpha, log_z = chain.forward(scores)
    np.testing.assert_allclose(log_z, crf.log_partition(X))
    assert [a.shape for a in alpha] == [(4, 3), (1, 3), (5, 3), (2, 3)]


def test_constraints_are_scores() -> None:
    X = [["Ann", "sings"], ["New", "York", "waits"]]
    y = [["B-P", "O"], ["B-L", "I-L", "O"]]
    crf = trellis.CRF(constraints="BIO").fit(X, y)
    scores, classes = crf.scores(X), crf.classes_.tolist()
    assert scores.start[classes.index("I-L")] == -np.inf
    assert scores.transition[classes.index("O"), classes.index("I-L")] == -np.inf
    for i, x in enumerate(X):
        paths = all_paths(len(x), len(classes))
        free = scores._replace(start=None, transition=crf.transition_scores())
        values = [chain.score(free.unary[i], free.transition, labels=path) for path in paths]
        legal = mask_legal(len(x), classes, bio)
        want = log_sum(np.array(values)[legal])
        assert crf.log_partition(X)[i] == pytest.approx(want, abs=1e-10)


def test_known_labels_become_the_mask() -> None:
    crf, X, y = fit_crf(0)
    known = [[None] * len(labels) for labels in y]
    known[2][1] = {"L000", "L002"}
    known[3] = list(y[3])
    scores = crf.scores(X, known)
    assert [mask.shape for mask in scores.mask] == [(4, 3), (1, 3), (5, 3), (2, 3)]
    assert scores.mask[2][1].tolist() == [True, False, True]
    assert scores.mask[0].all()
    np.testing.assert_allclose(chain.log_partition(scores), crf.log_partition(X, known))
    assert crf.log_partition(X, known)[3] == pytest.approx(
        crf.joint_features(X[3], y[3]).dot(crf.coef_)
    )


def test_a_memm_has_log_probabilities_as_scores() -> None:
    memm = trellis.MEMM(l2=0.1).fit(WORDS, TAGS)
    np.testing.assert_allclose(memm.log_partition(WORDS), 0.0, atol=1e-12)
    numbers = [np.searchsorted(memm.classes_, labels) for labels in TAGS]
    values = chain.score(memm.scores(WORDS), labels=numbers)
    np.testing.assert_allclose(values, memm.log_likelihood(WORDS, TAGS))


def test_an_hmm_has_joint_log_probabilities_as_scores() -> None:
    hmm = trellis.HMM().fit(WORDS, TAGS)
    np.testing.assert_allclose(hmm.log_partition(WORDS), hmm.log_probability(WORDS))
    first, second = (hmm.classes_.tolist().index(label) for label in "DN")
    names = hmm.features_.names()
    emission = dict(zip([*names, None], hmm.emissions_, strict=True))
    want = np.log(hmm.start_[first] * hmm.transitions_[first, second])
    want += emission["w[0]=a"][first] + emission["w[0]=cat"][second]
    assert chain.score(hmm.scores([["a", "cat"]]), labels=[[first, second]])[0] == pytest.approx(
        want
    )


MODELS = [trellis.CRF(), trellis.MEMM(), trellis.HMM()]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_pairs_sum_to_the_marginals(model: Any) -> None:
    model = model.fit(WORDS, TAGS)
    X = [*WORDS, ["dog"], []]
    pairs, p = model.predict_pairwise(X), model.predict_marginals(X)
    assert [pair.shape for pair in pairs] == [(2, 3, 3), (1, 3, 3), (3, 3, 3), (0, 3, 3), (0, 3, 3)]
    for pair, marginals in zip(pairs, p, strict=True):
        np.testing.assert_allclose(pair.sum(axis=2), marginals[:-1], atol=1e-12)
        np.testing.assert_allclose(pair.sum(axis=1), marginals[1:], atol=1e-12)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_empty_sequences(model: Any) -> None:
    model = model.fit(WORDS, TAGS)
    log_z = model.log_partition([[], WORDS[0], []])
    assert log_z[[0, 2]].tolist() == [0.0, 0.0]
    assert log_z[1] == pytest.approx(model.log_partition([WORDS[0]])[0])
    with pytest.raises(InputError, match="sequence 1 is empty"):
        model.scores([WORDS[0], []])
    with pytest.raises(InputError, match="X is empty: at least one sequence is needed"):
        model.scores([])


@pytest.mark.parametrize("method", ["scores", "log_partition", "predict_pairwise"])
def test_invalid_arguments(method: str) -> None:
    crf = trellis.CRF().fit(WORDS, TAGS)
    call = getattr(crf, method)
    with pytest.raises(InputError, match="X has 3 sequences, known has 2"):
        call(WORDS, TAGS[:2])
    with pytest.raises(InputError, match="'X' is not one of the 3 labels of the model"):
        call(WORDS[:1], [["D", "X", "V"]])
    with pytest.raises(InputError, match="known must have a list of labels for each sequence"):
        call(WORDS[:1], ["DNV"])
    with pytest.raises(InputError, match="sequence 1"):
        call([WORDS[0], "the dog"])
    with pytest.raises(NotFittedError):
        getattr(trellis.CRF(), method)(WORDS)


def test_no_labelling_agrees() -> None:
    crf = trellis.CRF(constraints=[("D", "V")]).fit(WORDS, TAGS)
    assert crf.log_partition([["the", "dog"]], [["D", "V"]])[0] == -np.inf
