"""The replacement of fastText gives the same results from its files, and trains as well."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vector_files import FASTTEXT, MODELS, needs_data, some_file
from vector_files import fasttext as peer_module

from trellis.compat import fasttext
from trellis.compat.fasttext import util
from trellis.compat.fasttext.meter import Counts, Meter
from trellis.errors import FormatError, InputError
from trellis.formats import fasttext as files

FOLDER = MODELS / "fasttext"
SUPERVISED = ["lid.176.ftz", "pang_lee_polarity_fasttext.bin"]
TEXTS = [
    "Hello, how are you today?",
    "quelle heure est-il , monsieur ?",
    "the film is a charming and funny comedy",
    "das ist ein\u00a0Satz mit\u3000anderem Leerraum",
    "tab\tand\rreturn\x0band\x0cfeed \x00zero",
    "a </s> b",
    "__label__en __label__unknown word",
    "",
    "  ",
    "日本語のテキスト",
]
NAMES = {"sunny": ["sun", "warm", "light"], "rainy": ["rain", "cold", "dark"]}


def expected(name: str) -> dict[str, Any]:
    """Return the results of fastText that were recorded for a model."""
    results: dict[str, Any] = json.loads((FOLDER / "expected.json").read_text())[name]
    return results


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    lines = []
    for i in range(600):
        label = sorted(NAMES)[i % 2]
        lines.append(f"__label__{label} today {' '.join(rng.choice(NAMES[label], 4))} and so on\n")
    path = tmp_path_factory.mktemp("texts") / "train.txt"
    path.write_text("".join([*lines, "__label__rare once\n", "no label here\n"]))
    return path


@pytest.fixture(scope="module")
def model(train: Path) -> Any:
    return fasttext.train_supervised(str(train), dim=8, epoch=5, thread=1, lr=0.5)


# ---- fastText's files


@needs_data
@pytest.mark.parametrize("name", FASTTEXT)
def test_same_results_as_recorded_from_fasttext(name: str) -> None:
    ours, recorded = fasttext.load_model(str(FOLDER / name)), expected(name)
    known = ours.get_words(on_unicode_error="replace")  # one of the files has words in Latin-1
    assert len(known) == recorded["nwords"]
    assert known[:10] == recorded["words_head"]
    assert ours.is_quantized() == recorded["args"]["quantized"]
    for attribute in ("dim", "ws", "epoch", "minCount", "neg", "wordNgrams", "bucket", "minn", "t"):
        assert getattr(ours, attribute) == recorded["args"][attribute]
    assert str(ours.loss) == recorded["args"]["loss"]
    for word, vector in recorded["word_vectors"].items():
        np.testing.assert_allclose(ours[word], vector, atol=1e-6)
    for word, (grams, ids) in recorded["subwords"].items():
        assert ours.get_subwords(word)[0] == grams
        assert ours.get_subwords(word)[1].tolist() == ids
    for case in recorded.get("predictions", []):
        labels, probabilities = ours.predict(case["text"], k=len(case["top"]))
        assert list(labels) == [label for label, _ in case["top"]]
        np.testing.assert_allclose(probabilities, [p for _, p in case["top"]], atol=1.1e-6)
    for text, vector in recorded.get("sentence_vector", {}).items():
        np.testing.assert_allclose(ours.get_sentence_vector(text), vector, atol=1e-6)


@needs_data
@pytest.mark.parametrize("name", FASTTEXT)
def test_same_results_as_fasttext(name: str) -> None:
    path = str(FOLDER / name)
    ours, theirs = fasttext.load_model(path), peer_module().load_model(path)
    known, counts = ours.get_words(include_freq=True, on_unicode_error="replace")
    their_words, their_counts = theirs.get_words(True, "replace")
    assert (known, counts.tolist()) == (their_words, their_counts.tolist())
    words = [*known[:20], "unheard", "日本", "</s>"]
    assert ours.get_labels(False, "replace") == theirs.get_labels(False, "replace")
    for word in words:
        np.testing.assert_allclose(ours[word], theirs.get_word_vector(word), atol=1e-6)
        assert ours.get_word_id(word) == theirs.get_word_id(word)
        assert (word in ours) == (word in their_words)
        if ours.bucket:
            assert ours.get_subword_id(word) == theirs.get_subword_id(word)
    for word in (words[3], "unheard"):
        neighbors, expected = (m.get_nearest_neighbors(word, 7, "replace") for m in (ours, theirs))
        # Neighbours of nearly equal score can be in another order: compare with two more.
        more = {w for _, w in theirs.get_nearest_neighbors(word, 9, "replace")}
        np.testing.assert_allclose([s for s, _ in neighbors], [s for s, _ in expected], atol=1e-6)
        assert not ours[word].any() or {w for _, w in neighbors[:-1]} <= more
    neighbors, expected = (m.get_analogies(*words[2:5], 5, "replace") for m in (ours, theirs))
    np.testing.assert_allclose([s for s, _ in neighbors], [s for s, _ in expected], atol=1e-6)
    for row in (0, len(known) - 1):
        vector = ours.get_input_vector(row)
        np.testing.assert_allclose(vector, theirs.get_input_vector(row), atol=1e-6)
    for text in TEXTS:
        assert ours.get_line(text) == tuple(theirs.get_line(text))
        vector = ours.get_sentence_vector(text)
        np.testing.assert_allclose(vector, theirs.get_sentence_vector(text), atol=1e-6)
    if not ours.is_quantized():
        assert np.array_equal(ours.get_input_matrix(), theirs.get_input_matrix())
        assert np.array_equal(ours.get_output_matrix(), theirs.get_output_matrix())


@needs_data
@pytest.mark.parametrize("k", [1, 3, -1])
@pytest.mark.parametrize("threshold", [0.0, 0.003, 0.5])
@pytest.mark.parametrize("name", SUPERVISED)
def test_same_predictions_as_fasttext(name: str, k: int, threshold: float) -> None:
    path = str(FOLDER / name)
    ours, theirs = fasttext.load_model(path), peer_module().load_model(path)
    labels, probabilities = ours.predict(TEXTS, k, threshold)
    for i, text in enumerate(TEXTS):
        # Not theirs.predict: that of 0.9.2 repeats a probability for lists, and fails with NumPy 2.
        predictions = theirs.f.predict(text + "\n", k, threshold, "strict")
        assert len(labels[i]) == len(predictions)
        np.testing.assert_allclose(probabilities[i], [p for p, _ in predictions], atol=1e-6)
        expected = {label: p for p, label in predictions}
        for label, p in zip(labels[i], probabilities[i], strict=True):
            # Labels of equal probability can be in another order, or cut off at the end.
            assert p == pytest.approx(expected.get(label, predictions[-1][0]), abs=1e-6)
        text_labels, p = ours.predict(text, k, threshold)
        assert (list(text_labels), p.tolist()) == (labels[i], probabilities[i].tolist())


def test_fasttext_reads_saved_files(model: Any, train: Path, tmp_path: Path) -> None:
    vectors = fasttext.train_unsupervised(
        str(train), dim=5, minCount=1, bucket=200, epoch=1, thread=1, model="cbow"
    )
    for ours in (model, vectors):
        ours.save_model(str(tmp_path / "m.bin"))
        theirs = peer_module().load_model(str(tmp_path / "m.bin"))
        assert theirs.words == ours.words
        assert theirs.labels == ours.labels
        for word in ("sun", "</s>", "sunn"):
            np.testing.assert_allclose(theirs.get_word_vector(word), ours[word], atol=1e-6)
    assert model.test(str(train)) == pytest.approx(
        peer_module().load_model(_save(model, tmp_path)).test(str(train))
    )


def _save(model: Any, folder: Path) -> str:
    model.save_model(folder / "again.bin")
    return str(folder / "again.bin")


@pytest.mark.parametrize(("k", "threshold"), [(1, 0.0), (2, 0.0), (2, 0.9), (1, 0.99999)])
def test_same_scores_as_fasttext(
    model: Any, train: Path, tmp_path: Path, k: int, threshold: float
) -> None:
    theirs = peer_module().load_model(_save(model, tmp_path))
    scores, expected = (m.test(str(train), k, threshold) for m in (model, theirs))
    assert scores == pytest.approx(expected, nan_ok=True)
    by_label, expected = (m.test_label(str(train), k, threshold) for m in (model, theirs))
    assert by_label.keys() == expected.keys()
    lines = [model.get_line(line) for line in train.read_text().splitlines()]
    lines = [(words, labels) for words, labels in lines if labels]
    predictions = model.predict([" ".join(words) for words, _ in lines], k, threshold)[0]
    for label, scores in by_label.items():
        assert scores["precision"] == pytest.approx(expected[label]["precision"], nan_ok=True)
        # Recall is computed here: fastText 0.9.2 does not count the gold labels correctly.
        has_label = [label in labels for _, labels in lines]
        predicted = [label in text_labels for text_labels in predictions]
        correct = sum(gold and p for gold, p in zip(has_label, predicted, strict=True))
        assert scores["recall"] == correct / sum(has_label)
        total = sum(has_label) + sum(predicted)
        assert scores["f1score"] == pytest.approx(2 * correct / total)


# ---- training


def test_train_supervised(model: Any, train: Path) -> None:
    assert model.predict("a sun so warm")[0] == ("__label__sunny",)
    examples, precision, recall = model.test(str(train))
    assert examples == 601  # lines with a label
    assert precision == recall > 0.99
    assert set(model.labels) == {"__label__sunny", "__label__rainy", "__label__rare"}
    by_label = model.test_label(train)
    assert by_label["__label__sunny"]["f1score"] == 1.0
    assert (model.dim, model.lr, model.loss.name, model.minCount) == (8, 0.5, "softmax", 1)


def test_same_dictionary_as_fasttext(train: Path) -> None:
    theirs = peer_module().train_supervised(str(train), dim=4, epoch=1, minCount=3, verbose=0)
    ours = fasttext.train_supervised(str(train), dim=4, epoch=1, minCount=3)
    for method in ("get_words", "get_labels"):
        pairs = [getattr(m, method)(include_freq=True) for m in (ours, theirs)]
        counts, expected = (dict(zip(n, c.tolist(), strict=True)) for n, c in pairs)
        assert counts == expected
    theirs = peer_module().train_unsupervised(str(train), dim=4, epoch=1, minCount=3, verbose=0)
    ours = fasttext.train_unsupervised(str(train), dim=4, epoch=1, minCount=3, bucket=100)
    assert sorted(ours.words) == sorted(theirs.words)
    assert "__label__sunny" not in ours.words
    assert ours.get_word_id("__label__sunny") >= len(ours.words)


def test_rare_labels_are_ignored(train: Path) -> None:
    ours = fasttext.train_supervised(
        str(train), dim=4, minCountLabel=2, wordNgrams=2, minn=2, maxn=3, bucket=99
    )
    assert sorted(ours.labels) == ["__label__rainy", "__label__sunny"]
    assert ours.get_line("__label__rare once")[1] == []
    assert ours.get_label_id("__label__rare") == -1


def test_pretrained_vectors(train: Path, tmp_path: Path) -> None:
    (tmp_path / "v.vec").write_text("2 3\nsun 10 20 30\nunheard 1 2 3\n")
    options = {"dim": 3, "lr": 0.0, "pretrainedVectors": str(tmp_path / "v.vec")}
    for train_model in (fasttext.train_supervised, fasttext.train_unsupervised):
        ours = train_model(str(train), **options, maxn=0)
        assert ours["sun"].tolist() == [10, 20, 30]
        assert ours["unheard"].tolist() == [1, 2, 3]
    with pytest.raises(InputError, match="3 dimensions: must have 4"):
        fasttext.train_supervised(str(train), **{**options, "dim": 4})


def test_one_thread_gives_the_same_bits(train: Path) -> None:
    for train_model in (fasttext.train_supervised, fasttext.train_unsupervised):
        a, b = (train_model(str(train), dim=4, epoch=2, thread=1, bucket=50) for _ in range(2))
        assert np.array_equal(a.get_input_matrix(), b.get_input_matrix())


# ---- quantisation


@pytest.mark.parametrize("options", [{}, {"cutoff": 300, "retrain": True}, {"qnorm": True}])
def test_quantized(train: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    ours = fasttext.train_supervised(
        str(train), dim=6, epoch=5, lr=0.5, wordNgrams=2, minn=2, maxn=3, bucket=500, thread=1
    )
    ours.quantize(input=str(train), **options)
    assert ours.is_quantized()
    assert ours.test(str(train))[1] > 0.99
    ours.save_model(tmp_path / "m.ftz")
    theirs = peer_module().load_model(str(tmp_path / "m.ftz"))
    assert theirs.test(str(train)) == pytest.approx(ours.test(str(train)))
    texts = ["a sun so warm", "rain", "dark and so on"]
    np.testing.assert_allclose(ours.predict(texts)[1], theirs.predict(texts)[1], atol=1e-6)
    with pytest.raises(InputError, match="quantized Matrix"):
        ours.get_input_matrix()


def test_retraining_after_pruning_lowers_the_loss(train: Path) -> None:
    def prune(**options: Any) -> Any:
        ours = fasttext.train_supervised(
            str(train), dim=6, epoch=2, lr=0.3, wordNgrams=2, bucket=700, thread=1
        )
        ours.quantize(input=str(train), cutoff=280, **options)
        return ours

    losses = []
    for options in ({}, {"retrain": True, "epoch": 5, "lr": 0.5}):
        probabilities = prune(**options).predict(["today sun warm light sun and so on"])[1]
        losses.append(-math.log(probabilities[0][0]))
    assert losses[1] < losses[0]


# ---- meters and util


def test_meters(model: Any, train: Path) -> None:
    meter = model.get_meter(str(train))
    scores, gold = meter.score_vs_true("__label__sunny")
    assert len(scores) == 601
    assert (np.diff(scores) >= 0).all()
    assert gold.sum() == 300
    precision, recall = meter.precision_recall_curve("__label__sunny")
    assert (precision[-1], recall[-1]) == (1.0, 0.0)
    assert meter.precision_at_recall(0.9, "__label__sunny") == 1.0
    assert meter.recall_at_precision(0.9, "__label__sunny") == 1.0
    assert 0.0 < meter.recall_at_precision(0.99) <= 1.0
    assert meter.precision_at_recall(2.0) == 0.0


def brute_curve(
    answers: list[list[tuple[int, float]]], gold: list[list[int]], label: int | None
) -> list[tuple[float, float]]:
    """Return (precision, recall) at each distinct score, from the highest to the first recall 1."""
    chosen = [0, 1, 2] if label is None else [label]
    total = sum(text.count(c) for text in gold for c in chosen)
    scores = sorted({p for text in answers for c, p in text if c in chosen}, reverse=True)
    curve = []
    for score in scores:
        kept = [
            c in labels
            for text, labels in zip(answers, gold, strict=True)
            for c, p in text
            if c in chosen and p >= score
        ]
        curve.append((sum(kept) / len(kept), sum(kept) / total))
        if sum(kept) == total:
            break
    return [*curve, (1.0, 0.0)]


@pytest.mark.parametrize("label", ["a", "b", "c", None])
def test_curves_of_a_meter_by_counting(label: str | None) -> None:
    """With equal scores, texts without a prediction, and a label that is never found."""
    rng = np.random.default_rng(0)
    counts, answers, gold = Counts(3), [], []
    for _ in range(40):
        labels = [int(rng.integers(3))]
        predicted = [int(c) for c in rng.permutation(3)[: rng.integers(1, 3)]]
        answers.append([(c, float(rng.integers(1, 9)) / 8) for c in predicted])
        gold.append(labels)
        counts.add(labels, answers[-1])
    meter = Meter(counts, {"a": 0, "b": 1, "c": 2})
    curve = np.stack(meter.precision_recall_curve(label), axis=1)
    expected = brute_curve(answers, gold, None if label is None else "abc".index(label))
    np.testing.assert_allclose(curve, expected)
    for value in (0.0, 0.25, 0.5, expected[0][0], expected[1][1], 1.0):
        best = max((p for p, r in expected if r >= value), default=0.0)
        assert meter.precision_at_recall(value, label) == pytest.approx(best)
        best = max((r for p, r in expected if p >= value), default=0.0)
        assert meter.recall_at_precision(value, label) == pytest.approx(best)
    scores, correct = meter.score_vs_true(label) if label else meter.score_vs_true("a")
    assert (scores == -1).sum() == sum(
        ("abc".index(label or "a") in labels) and ("abc".index(label or "a") not in dict(text))
        for text, labels in zip(answers, gold, strict=True)
    )
    assert set(correct.tolist()) == {0.0, 1.0}


def test_a_curve_ends_at_recall_one() -> None:
    """fastText does not list the points below the score of the last correct prediction."""
    counts = Counts(2)
    for labels, answers in (([0], [(0, 0.9), (1, 0.8)]), ([1], [(1, 0.7), (0, 0.1)])):
        counts.add(labels, answers)
    meter = Meter(counts, {"a": 0, "b": 1})
    precision, recall = meter.precision_recall_curve("a")
    assert (precision.tolist(), recall.tolist()) == ([1.0, 1.0], [1.0, 0.0])
    precision, recall = meter.precision_recall_curve()
    assert precision.tolist() == pytest.approx([1.0, 0.5, 2 / 3, 1.0])
    assert recall.tolist() == [0.5, 0.5, 1.0, 0.0]


def test_ratios_of_a_meter() -> None:
    counts = Counts(3)
    counts.add([0], [(0, 0.9), (1, 0.2)])
    counts.add([0, 2], [(2, 1.00001)])
    assert (counts.examples, counts.precision(), counts.recall()) == (2, 2 / 3, 2 / 3)
    assert counts.of_label(0) == {"precision": 1.0, "recall": 0.5, "f1score": 2 / 3}
    wrong = counts.of_label(1)
    assert (wrong["precision"], wrong["f1score"]) == (0.0, 0.0)
    assert np.isnan(wrong["recall"])
    assert np.isnan(Counts(1).precision())
    meter = Meter(counts, {"a": 0, "b": 1, "c": 2})
    assert meter.score_vs_true("c")[0].tolist() == [1.0]  # fastText clips probabilities at 1
    assert meter.score_vs_true("a")[0].tolist() == [-1.0, 0.9]


def test_util(model: Any) -> None:
    assert util.test([["a"], ["b"]], [["a"], ["c"]]) == (0.5, 0.5)
    vectors = np.eye(3, dtype=np.float32)
    assert util.find_nearest_neighbor(vectors[1], vectors, {1}) == 0
    file = some_file("supervised")
    small = fasttext.FastText._FastText._from_file(file, model)
    util.reduce_model(small, 3)
    assert small.get_dimension() == small.dim == 3
    assert small["word"].shape == (3,)
    assert len(small.predict("word", k=3)[0]) == 3


def test_tokens() -> None:
    assert fasttext.tokenize("a b\nc\x00d\n") == ["a", "b", "</s>", "c", "d", "</s>"]
    assert fasttext.tokenize("a\u00a0b") == ["a\u00a0b"]
    assert (fasttext.EOS, fasttext.BOW, fasttext.EOW) == ("</s>", "<", ">")


def test_words_that_are_not_utf8(tmp_path: Path) -> None:
    file = some_file()
    words = [b"\xff\xfe", *file.words[1:]]
    files.write(tmp_path / "m.bin", files.FastTextFile(**{**vars(file), "words": words}))
    ours = fasttext.load_model(tmp_path / "m.bin")
    with pytest.raises(UnicodeDecodeError):
        ours.get_words()
    assert ours.get_words(on_unicode_error="replace")[0] == "\ufffd\ufffd"
    assert len(ours.get_nearest_neighbors("word", 30, "ignore")) == 20


def test_stand_in_replaces_fasttext() -> None:
    code = """
from trellis.compat import stand_in
stand_in("fasttext")
import fasttext, fasttext.util
from fasttext.FastText import _FastText
fasttext.FastText.eprint = lambda x: None
print(fasttext.load_model.__module__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "trellis.compat.fasttext.FastText"


# ---- invalid input


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"dim": 0}, "dim is 0"),
        ({"epoch": "5"}, "epoch"),
        ({"lr": -1.0}, "lr is"),
        ({"loss": "hinge"}, "hinge"),
        ({"autotuneValidationFile": "x"}, "autotune is not supported"),
        ({"autotuneDuration": 5}, "autotune is not supported"),
        ({"label": ""}, "label_prefix"),
        ({"pretrainedVectors": "nowhere.vec"}, "nowhere"),
    ],
)
def test_invalid_arguments(train: Path, options: dict[str, Any], match: str) -> None:
    with pytest.raises((InputError, FileNotFoundError), match=match):
        fasttext.train_supervised(str(train), **options)


def test_invalid_calls(model: Any, train: Path, tmp_path: Path) -> None:
    train_model = fasttext.train_supervised
    with pytest.raises(TypeError, match="unexpected keyword argument 'depth'"):
        train_model(str(train), depth=3)
    with pytest.raises(TypeError, match="multiple values for argument 'minCount'"):
        train_model(str(train), minCount=3, min_count=4)
    with pytest.raises(TypeError, match="missing argument 'input'"):
        train_model()
    with pytest.raises(TypeError, match="arguments"):
        train_model(*range(40))
    for path in (str(tmp_path / "none.txt"), None, str(tmp_path)):
        with pytest.raises(InputError, match="cannot be opened for training"):
            train_model(path)
    with pytest.raises(InputError, match="cannot train word vectors"):
        fasttext.train_unsupervised(str(train), loss="ova")
    with pytest.raises(InputError, match="minCount is 10000"):
        fasttext.train_unsupervised(str(train), minCount=10_000)
    for removed in (fasttext.cbow, fasttext.skipgram, fasttext.supervised):
        with pytest.raises(InputError, match="was removed"):
            removed("x")
    with pytest.raises(InputError, match="downloads nothing"):
        util.download_model("en")
    with pytest.raises(InputError, match="target_dim"):
        util.reduce_model(model, 99)
    with pytest.raises(InputError, match="must be at least 1"):
        util.test([], [])
    with pytest.raises(InputError, match="ban_set"):
        util.find_nearest_neighbor(np.ones(2), np.eye(2), {0, 1})


def test_invalid_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be opened for loading"):
        fasttext.load_model(str(tmp_path / "none.bin"))
    (tmp_path / "m.bin").write_bytes(b"not a model at all")
    with pytest.raises(FormatError, match=r"m\.bin"):
        fasttext.load_model(str(tmp_path / "m.bin"))


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda m: m.predict("two\nlines"), "one line at a time"),
        (lambda m: m.predict(["fine", 3]), "must be a str"),
        (lambda m: m.predict(None), "str or a list"),
        (lambda m: m.predict("a", k=0), "1 or higher"),
        (lambda m: m.predict("a", threshold="x"), "threshold"),
        (lambda m: m.predict("a\ud800"), "UTF-8"),
        (lambda m: m.get_line("two\nlines"), "one line at a time"),
        (lambda m: m.get_sentence_vector("two\nlines"), "one line at a time"),
        (lambda m: m.get_word_vector(3), "must be a str"),
        (lambda m: m.get_word_id(None), "must be a str"),
        (lambda m: m.get_subword_id("x"), "no n-grams"),
        (lambda m: m.get_input_vector(10**9), "must be in 0.."),
        (lambda m: m.get_input_vector(-1), "must be in 0.."),
        (lambda m: m.get_nearest_neighbors("sun", 0), "at least 1"),
        (lambda m: m.test("nowhere.txt"), "nowhere"),
        (lambda m: m.get_meter(__file__).score_vs_true("x"), "no such label"),
        (lambda m: m.quantize(retrain=True), "input file"),
        (lambda m: m.quantize(cutoff=-3), "cutoff"),
        (lambda m: m.set_matrices(np.ones((2, 2)), np.ones((2, 2))), "input_matrix has shape"),
        (lambda m: m.set_matrices(m.get_input_matrix(), m.get_output_matrix()[:, :3]), "columns"),
    ],
)
def test_invalid_queries(model: Any, call: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        call(model)


def test_word_vectors_have_no_labels(train: Path) -> None:
    ours = fasttext.train_unsupervised(str(train), dim=4, minCount=1, epoch=1, bucket=50)
    for call in (
        lambda: ours.predict("a"),
        lambda: ours.test(str(train)),
        lambda: ours.get_meter(str(train)),
    ):
        with pytest.raises(InputError, match="supervised"):
            call()
    with pytest.raises(InputError, match="only supervised"):
        ours.quantize()
    assert ours.labels == ours.words
