"""TextClassifier: training, prediction, quantisation, and fastText's files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpus_files import find_corpus, needs_corpus
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import trellis
from trellis import TextClassifier
from trellis.errors import FormatError, InputError

MODELS = find_corpus("models/fasttext")
LOSSES = ("softmax", "hierarchical", "negative", "ova")
ONE = {"n_jobs": 1, "random_state": 0}


def examples(count: int = 300) -> tuple[list[list[str]], list[str]]:
    rng = np.random.default_rng(0)
    words = {"x": ["sun", "warm", "light"], "y": ["rain", "cold", "dark"], "z": ["wind", "dust"]}
    y = rng.choice(list(words), count).tolist()
    return [["today", *rng.choice(words[label], 4).tolist()] for label in y], y


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("options", [{}, {"word_ngrams": 2}, {"minn": 2, "maxn": 3}])
def test_learns(loss: str, options: dict[str, int], tmp_path: Path) -> None:
    X, y = examples()
    model = TextClassifier(8, loss=loss, epochs=20, bucket=500, **options, **ONE).fit(X, y)
    scores = model.test(X, y)
    assert scores == (300, 1.0, 1.0)
    best = model.predict([X[0]], k=3)[0]
    assert best[0].label == y[0]
    assert [p.probability for p in best] == sorted((p.probability for p in best), reverse=True)
    model.save(tmp_path / "m.trellis")
    model.save_fasttext(tmp_path / "m.bin")
    for path in (tmp_path / "m.trellis", tmp_path / "m.bin"):
        loaded = trellis.load(path)
        assert type(loaded) is TextClassifier
        again = loaded.predict([X[0], "sun"], k=3)
        assert [p.label for p in again[0]] == [p.label for p in best]
        np.testing.assert_allclose(
            [p.probability for p in again[0]], [p.probability for p in best], atol=1e-6
        )


def test_files_of_texts(tmp_path: Path) -> None:
    X, y = examples()
    lines = "".join(
        f"__label__{label} {' '.join(words)}\n" for words, label in zip(X, y, strict=True)
    )
    (tmp_path / "train.txt").write_text(lines)
    options: dict[str, Any] = {"epochs": 5, "random_state": 0, "n_jobs": 1}
    a, b = TextClassifier(8, **options).fit(X, y), TextClassifier(8, **options)
    b.fit(tmp_path / "train.txt")
    assert np.array_equal(a._input, b._input)
    assert a.labels_ == b.labels_
    assert a.test(X, y) == b.test(tmp_path / "train.txt")
    assert b.counts_[b.words_.index("</s>")] == 300


def test_softmax_reaches_the_optimum() -> None:
    """For texts of one word the model is a table of logits, whose optimum SciPy can find."""
    rng = np.random.default_rng(1)
    X = [[f"w{i}"] for i in rng.integers(0, 3, 400)]
    y = [str(rng.choice(3, p=[0.6, 0.3, 0.1]) if x == ["w0"] else rng.integers(3)) for x in X]
    model = TextClassifier(6, epochs=300, alpha=0.2, **ONE).fit(X, y)
    counts = np.zeros((3, 3))
    for x, label in zip(X, y, strict=True):
        counts[int(x[0][1:]), model.labels_.index(label)] += 1

    def loss(logits: Any) -> float:
        return -float((counts * log_softmax(logits.reshape(3, 3), axis=1)).sum() / counts.sum())

    best = minimize(loss, np.zeros(9)).fun
    p = [[dict(q)[label] for label in model.labels_] for q in model.predict(["w0", "w1", "w2"], 3)]
    model_loss = -float((counts * np.log(p)).sum() / counts.sum())
    assert model_loss == pytest.approx(best, abs=2e-3)


def test_several_labels() -> None:
    X = [["a"], ["b"], ["a", "b"]] * 50
    y = [["A"], ["B"], ["A", "B"]] * 50
    model = TextClassifier(8, loss="ova", epochs=60, alpha=0.5, **ONE).fit(X, y)
    assert {p.label for p in model.predict([["a", "b"]], k=2, threshold=0.5)[0]} == {"A", "B"}
    assert [p.label for p in model.predict([["a"]], k=2, threshold=0.5)[0]] == ["A"]
    scores = model.test(X, y, k=2, threshold=0.5)
    assert scores.precision == scores.recall == 1.0


def test_texts_without_known_words() -> None:
    X, y = examples()
    model = TextClassifier(8, **ONE).fit(X, y)
    assert model.predict([]) == []
    assert len(model.predict(["unheard of"])[0]) == 1  # the line end is a known word


def test_fit_again_after_loading(tmp_path: Path) -> None:
    X, y = examples(60)
    model = TextClassifier(4, **ONE).fit(X, y)
    model.save_fasttext(tmp_path / "m.bin")
    loaded = TextClassifier.load(tmp_path / "m.bin").set_params(epochs=20, **ONE)
    loaded.fit([["new"], ["text"]] * 20, ["p", "n"] * 20)
    assert [p[0].label for p in loaded.predict(["new", "text"])] == ["p", "n"]


def test_parameters_are_those_of_the_constructor() -> None:
    model = TextClassifier(7, loss="ova", random_state=3)
    assert clone(model).get_params() == model.get_params()
    assert model.get_params()["loss"] == "ova"


@pytest.mark.parametrize("options", [{}, {"cutoff": 280}, {"norms": True}])
def test_quantized(tmp_path: Path, options: dict[str, Any]) -> None:
    X, y = examples(2000)
    model = TextClassifier(8, word_ngrams=2, bucket=300, epochs=20, **ONE).fit(X, y)
    small = model.quantize(**options)
    assert small.test(X, y).precision > 0.95
    small.save_fasttext(tmp_path / "m.ftz")
    loaded = TextClassifier.load(tmp_path / "m.ftz")
    assert loaded.predict(X[:50]) == small.predict(X[:50])
    assert model.test(X, y).precision == 1.0  # quantize returns a new model
    with pytest.raises(InputError, match="quantised"):
        small.save(tmp_path / "m.trellis")
    with pytest.raises(InputError, match="already"):
        small.quantize()
    with pytest.raises(InputError, match="256"):
        model.quantize(output=True)  # 256 codes need at least 256 labels
    with pytest.raises(InputError, match="cutoff"):
        model.quantize(cutoff=-1)


def test_options_of_quantize() -> None:
    X, y = examples(300)
    model = TextClassifier(6, word_ngrams=2, bucket=300, epochs=1, **ONE).fit(X, y)
    rows = model.input_.shape[0]
    for options, columns in (({}, 3), ({"dsub": 1}, 6), ({"dsub": 4}, 2), ({"dsub": 6}, 1)):
        codes = model.quantize(**options)._input
        assert codes.codes.shape == (rows, columns), options
        assert codes.norm_codes is None
    assert model.quantize(norms=True)._input.norm_codes.shape == (rows,)
    for cutoff in (0, rows, rows + 1):
        assert model.quantize(cutoff=cutoff)._input.shape[0] == rows
    assert model.quantize(cutoff=rows - 1)._input.shape[0] == rows - 1
    for options in ({"dsub": 0}, {"dsub": 7}, {"dsub": 1.5}, {"cutoff": -1}, {"cutoff": 1.5}):
        with pytest.raises(InputError, match=next(iter(options))):
            model.quantize(**options)


@needs_corpus("models/fasttext")
@pytest.mark.parametrize("name", ["lid.176.ftz", "pang_lee_polarity_fasttext.bin"])
def test_same_predictions_as_fasttext(name: str) -> None:
    model = TextClassifier.load(MODELS / name)
    for case in json.loads((MODELS / "expected.json").read_text())[name]["predictions"]:
        (predictions,) = model.predict([case["text"]], k=len(case["top"]))
        assert [f"__label__{p.label}" for p in predictions] == [label for label, _ in case["top"]]
        np.testing.assert_allclose(
            [p.probability for p in predictions], [p for _, p in case["top"]], atol=1.1e-6
        )


def test_files_of_other_models(tmp_path: Path) -> None:
    vectors = trellis.FastText(4, bucket=50, min_count=1, sample=0, **ONE).fit([["a", "b"]] * 9)
    vectors.save_fasttext(tmp_path / "v.bin")
    with pytest.raises(InputError, match="FastText"):
        TextClassifier.load(tmp_path / "v.bin")
    X, y = examples()
    TextClassifier(4, **ONE).fit(X, y).save_fasttext(tmp_path / "c.bin")
    with pytest.raises(InputError, match="TextClassifier"):
        trellis.FastText.load(tmp_path / "c.bin")
    trellis.Vectors(["a"], [[1.0]]).save(tmp_path / "v.trellis")
    with pytest.raises(FormatError, match="vectors"):
        TextClassifier.load(tmp_path / "v.trellis")
    assert isinstance(trellis.load(tmp_path / "v.trellis"), trellis.Vectors)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"loss": "hinge"}, "hinge"),
        ({"word_ngrams": 0}, "word_ngrams"),
        ({"word_ngrams": 2, "bucket": 0}, "bucket"),
        ({"alpha": -0.1}, "alpha"),
        ({"label_prefix": ""}, "label_prefix"),
    ],
)
def test_invalid_parameters(options: dict[str, Any], match: str) -> None:
    X, y = examples(5)
    with pytest.raises(InputError, match=match):
        TextClassifier(**options).fit(X, y)


def test_invalid_texts() -> None:
    X, y = examples(20)
    with pytest.raises(InputError, match="20 texts but 19"):
        TextClassifier().fit(X, y[:-1])
    with pytest.raises(InputError, match="text 0"):
        TextClassifier().fit([5], ["a"])
    with pytest.raises(InputError, match="white space"):
        TextClassifier().fit(["a"], ["two words"])
    with pytest.raises(InputError, match="no labels"):
        TextClassifier().fit([["a", "b"]])
    with pytest.raises(NotFittedError):
        TextClassifier().predict(["a"])
    model = TextClassifier(4, **ONE).fit(X, y)
    with pytest.raises(InputError, match="k is 0"):
        model.predict(["a"], k=0)
    with pytest.raises(InputError, match="threshold"):
        model.predict(["a"], threshold=float("nan"))
    with pytest.raises(InputError, match="must be a list of texts"):
        model.predict("a")


def test_many_labels_are_quantized() -> None:
    X = [[f"w{i}"] for i in range(300)] * 3
    y = [f"l{i}" for i in range(300)] * 3
    model = TextClassifier(8, epochs=30, alpha=0.5, loss="hierarchical", **ONE).fit(X, y)
    small = model.quantize(output=True)
    assert small.predict(X[:5], k=300)[0][0].probability > 0
    assert small.test(X, y).precision > 0.5 * model.test(X, y).precision


@pytest.mark.parametrize("wrong", [None, 3, "one text"])
def test_texts_must_be_a_list(wrong: Any) -> None:
    model = TextClassifier(4, bucket=0, epochs=1).fit(["good", "bad"], ["p", "n"])
    with pytest.raises(InputError, match="must be a list of texts"):
        model.predict(wrong)
