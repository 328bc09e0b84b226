"""Item 9: the neural tagger has span probabilities, sample weights and calibrated marginals."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Ran

import trellis
from trellis.data import conll, samples, tags
from trellis.errors import FormatError, InputError

torch = pytest.importorskip("torch")

from trellis.nn.tagger import NeuralTagger  # noqa: E402
from trellis.nn.tagger.calibration import fit_temperature, mean_loss  # noqa: E402
from trellis.nn.tagger.data import Epoch, build_corpus, read_words  # noqa: E402

X, Y = samples.load("train", "calendar")
X, Y = X[:60], Y[:60]
WORDS = [["a", "b", "a"], ["b", "b"], ["c", "a", "b"], ["a"]] * 3
LABELS = [["B-x", "I-x", "O"], ["O", "B-x"], ["O", "B-x", "I-x"], ["B-x"]] * 3


def make(**options: Any) -> Any:
    settings = {"epochs": 4, "hidden": 8, "device": "cpu", "random_state": 0, "word_dim": 8}
    return NeuralTagger(**{**settings, **options})


# ---- spans


@pytest.mark.parametrize(
    "options", [{}, {"head": "softmax"}, {"head": "memm"}, {"features": "crf"}], ids=str
)
def test_span_probabilities_by_enumeration(options: Any) -> None:
    tagger = make(**options).fit(WORDS, LABELS, dev=(WORDS, LABELS))
    paths = [list(path) for path in product(tagger.classes_.tolist(), repeat=3)]
    checked = 0
    for x, spans in zip(WORDS[:3], tagger.predict_spans(WORDS[:3]), strict=True):
        all_paths = [path[: len(x)] for path in paths[:: 3 ** (3 - len(x))]]
        p = np.exp(tagger.log_likelihood([x] * len(all_paths), all_paths))
        assert p.sum() == pytest.approx(1.0)
        predicted = tagger.predict([x])[0]
        assert [tuple(span[:3]) for span in spans] == [tuple(s) for s in tags.spans(predicted)]
        for span in spans:
            has_span = [span[:3] in tags.spans(path) for path in all_paths]
            assert span.probability == pytest.approx(p[has_span].sum(), abs=1e-6)
            checked += 1
    assert checked > 0


def test_spans_of_an_hmm() -> None:
    hmm = trellis.HMM().fit(WORDS, LABELS)
    spans = hmm.predict_spans([["a", "b"]])[0]
    assert [span.label for span in spans] == ["x"]
    assert 0 < spans[0].probability <= 1


# ---- explanations


@pytest.mark.parametrize(
    "options", [{}, {"head": "softmax"}, {"head": "memm"}, {"features": "crf"}], ids=str
)
def test_the_parts_of_a_decision_add_up(options: Any) -> None:
    """The difference of the contributions is that of log p, if the other labels are kept."""
    tagger = make(**options).fit(WORDS, LABELS, dev=(WORDS, LABELS))
    assert tagger.explain([]) == []
    x = WORDS[2]
    explanations = tagger.explain(x)
    predicted = tagger.predict([x])[0]
    for t, explanation in enumerate(explanations):
        assert explanation.label == predicted[t]
        other = [*predicted[:t], explanation.runner_up, *predicted[t + 1 :]]
        best, second = tagger.log_likelihood([x, x], [predicted, other])
        total = sum(c.difference for c in explanation.contributions)
        assert total == pytest.approx(best - second, abs=1e-6)
        names = [c.feature for c in explanation.contributions]
        assert "network" in names
        assert ("w[0]=" + x[t] in names) == ("features" in options)
    assert len(str(explanations).splitlines()) == 4


# ---- weights


@pytest.mark.parametrize("head", ["crf", "softmax", "memm"])
@pytest.mark.parametrize("partial", [False, True])
def test_the_weighted_loss_is_a_sum_of_rows(head: str, partial: bool) -> None:
    if partial and head == "memm":
        pytest.skip("a MEMM needs all labels")
    tagger = make(head=head, epochs=1).fit(WORDS, LABELS)
    network = tagger.network_
    words, lengths = read_words(WORDS)
    corpus = build_corpus(words, lengths, network.words, network.device)
    index = {label: n for n, label in enumerate(tagger.classes_)}
    corpus.tags = np.array([index[label] for row in LABELS for label in row])
    if partial:
        allowed = np.eye(3, dtype=bool)[corpus.tags]
        allowed[::2] = True
        corpus.allowed = torch.from_numpy(allowed)
    (batch,) = Epoch(corpus, [np.arange(4)])
    weights = torch.tensor([0.0, 2.0, 0.5, 1.0])
    with torch.no_grad():
        rows = [float(network.log_likelihood(batch, torch.eye(4)[n])) for n in range(4)]
        assert float(network.log_likelihood(batch, weights)) == pytest.approx(
            float(np.dot(rows, weights.numpy())), rel=1e-5
        )
        assert float(network.log_likelihood(batch)) == pytest.approx(sum(rows), rel=1e-5)


def test_sequences_with_weight_0_are_not_learned() -> None:
    wrong = [["O"] * len(x) for x in WORDS]
    weights = [1.0] * len(WORDS) + [0.0] * len(WORDS)
    settings = {"epochs": 20, "dropout": 0.0, "word_dropout": 0.0, "features": "crf"}
    tagger = make(**settings).fit(WORDS + WORDS, LABELS + wrong, weights)
    assert tagger.predict(WORDS) == LABELS
    opposite = make(**settings).fit(WORDS + WORDS, LABELS + wrong, weights[::-1])
    assert opposite.predict(WORDS) == wrong


def test_equal_weights_change_little() -> None:
    plain, weighted = make().fit(X, Y), make().fit(X, Y, np.ones(len(X)))
    np.testing.assert_allclose(plain.losses_, weighted.losses_, rtol=1e-3)


@pytest.mark.parametrize("weights", [[1.0], [-1.0] * 12, [np.nan] * 12, "ab"])
def test_wrong_weights(weights: Any) -> None:
    with pytest.raises(InputError, match="sample_weight"):
        make().fit(WORDS, LABELS, weights)


def test_weights_on_the_command_line(run: Callable[..., Ran], tmp_path: Path) -> None:
    conll.write(tmp_path / "a.conll", WORDS, LABELS)
    text = (tmp_path / "a.conll").read_text()
    (tmp_path / "a.conll").write_text("# weight = 0.5\n" + text)
    options = ("-m", "neural", "--epochs", 1, "--hidden", 4, "--device", "cpu", "-q")
    assert run("train", "a.conll", "--weight", "weight", *options) == (0, "", "")


# ---- calibration


@pytest.fixture(scope="module")
def calibrated() -> tuple[Any, Any]:
    """A tagger that is too certain, because its scores are multiplied by 4; a development set."""
    tagger = make(epochs=8, learning_rate=0.02).fit(X[:30], Y[:30])
    dev = X[30:], Y[30:]
    before = tagger._fit_temperature(*dev)
    with torch.no_grad():
        for parameter in (*tagger.network_.output.parameters(), *tagger.network_.head.parameters()):
            parameter *= 4.0
    tagger.temperature_ = tagger._fit_temperature(*dev)
    assert tagger.temperature_ == pytest.approx(4.0 * before, rel=0.01)
    return tagger, dev


def dev_loss(tagger: Any, dev: Any, temperature: float) -> float:
    before, tagger.temperature_ = tagger.temperature_, temperature
    index = {label: n for n, label in enumerate(tagger.classes_)}
    labels = np.array([index.get(label, -1) for row in dev[1] for label in row])
    try:
        return mean_loss(tagger._compute_scores(dev[0]), labels, 1)
    finally:
        tagger.temperature_ = before


def test_the_temperature_has_the_smallest_loss(calibrated: tuple[Any, Any]) -> None:
    tagger, dev = calibrated
    best = dev_loss(tagger, dev, tagger.temperature_)
    assert tagger.temperature_ > 1.5
    assert best < dev_loss(tagger, dev, 1.0) - 0.01
    for temperature in np.geomspace(0.2, 9.0, 20):
        assert best <= dev_loss(tagger, dev, float(temperature)) + 1e-5


def test_the_temperature_changes_no_label(calibrated: tuple[Any, Any]) -> None:
    tagger, (sequences, _) = calibrated
    predicted, temperature = tagger.predict(sequences), tagger.temperature_
    marginals = tagger.predict_marginals(sequences)
    for rows in marginals:
        np.testing.assert_allclose(rows.sum(axis=1), 1.0)
    tagger.temperature_ = 1.0
    sharp = tagger.predict_marginals(sequences)
    assert tagger.predict(sequences) == predicted
    tagger.temperature_ = temperature
    assert np.mean([m.max(1).mean() for m in marginals]) < np.mean([m.max(1).mean() for m in sharp])


def test_files_keep_the_temperature(calibrated: tuple[Any, Any], tmp_path: Path) -> None:
    tagger, (sequences, _) = calibrated
    tagger.save(tmp_path / "m.trellis")
    loaded = trellis.load(tmp_path / "m.trellis")
    assert loaded.temperature_ == tagger.temperature_
    for a, b in zip(
        loaded.predict_marginals(sequences), tagger.predict_marginals(sequences), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=1e-6)
    for value in (0.0, -1.0, 1e9, "x", None):
        meta, tensors = tagger.to_parts()
        meta["temperature"] = value
        trellis.formats.native.write(tmp_path / "bad.trellis", "neural-tagger", meta, tensors)
        with pytest.raises(FormatError, match="temperature"):
            trellis.load(tmp_path / "bad.trellis")


def test_without_a_development_set_the_temperature_is_1() -> None:
    assert make(epochs=1).fit(WORDS, LABELS).temperature_ == 1.0


@pytest.mark.parametrize("head", ["softmax", "memm"])
def test_other_heads_are_calibrated(head: str) -> None:
    tagger = make(head=head).fit(X, Y, dev=(X[30:], Y[30:]))
    best = dev_loss(tagger, (X[30:], Y[30:]), tagger.temperature_)
    assert best <= dev_loss(tagger, (X[30:], Y[30:]), 1.0) + 1e-9


def test_labels_that_the_model_does_not_know_are_ignored() -> None:
    scores = trellis.inference.chain.Scores([np.zeros((2, 2))], np.zeros((2, 2)))
    assert fit_temperature(lambda _: scores, np.array([-1, -1]), None) == 1.0
    assert mean_loss(scores, np.array([-1, 0]), None) == pytest.approx(np.log(2))
