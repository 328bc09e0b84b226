"""The neural tagger example runs all trainings, and does not repeat finished ones."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trellis
from trellis.data import conll, samples
from trellis.errors import UnseenLabelWarning
from trellis.metrics import span_f1

torch = pytest.importorskip("torch", reason="the neural tagger needs PyTorch")

EXAMPLES = Path(__file__).parents[2] / "examples"
X, Y = samples.load("train", "calendar")
TEST = samples.load("test", "calendar")


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    """Use one thread, because more threads do not help small networks."""
    previous = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(previous)


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import neural_tagger

    return neural_tagger


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Write the sample corpus under the names of the SNIPS files, and return the folder."""
    (tmp_path / "slots").mkdir()
    for part, (words, labels) in {"train": (X, Y), "test": TEST}.items():
        path = tmp_path / "slots" / f"snips.{part}.conll"
        conll.write(path, words, labels)
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
    return tmp_path


def call(example: Any, monkeypatch: pytest.MonkeyPatch, *arguments: Any) -> int:
    monkeypatch.setattr(sys, "argv", ["neural_tagger.py", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        example.main()
    return int(ended.value.code or 0)


@pytest.mark.slow
def test_all_trainings_of_a_corpus(
    example: Any, data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = sorted({word.lower() for x in X for word in x})
    vectors = trellis.Vectors(words, np.random.default_rng(0).normal(size=(len(words), 5)))
    vectors.save(data / "words.trellis")
    common = ["--data", data, "--dataset", "snips", "--results", data / "r.jsonl", "--epochs", 1]
    common += ["--vectors", data / "words.trellis", "--device", "cpu", "--threads", 1]
    assert call(example, monkeypatch, *common, "--seed", 0, "--network", "linear CRF") == 0
    assert call(example, monkeypatch, *common, "--seed", 0, 1) == 0
    lines = [json.loads(line) for line in (data / "r.jsonl").read_text().splitlines()]
    done = [(line["network"], line["seed"]) for line in lines]
    assert done.count(("linear CRF", 0)) == 1  # the second call did not repeat it
    assert len(done) == len(set(done)) == 1 + 2 * len(example.networks("snips"))
    assert all(0 <= line["test"] <= 1 for line in lines)
    capsys.readouterr()
    assert call(example, monkeypatch, "--table", "--results", data / "r.jsonl") == 0
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 2 + 1 + len(example.networks("snips"))
    scores = [100 * line["test"] for line in lines if line["network"] == "crf+chars"]
    assert f"| crf+chars | {np.mean(scores):.2f} ± {np.std(scores, ddof=1):.2f} |" in rows


@pytest.mark.slow
def test_failures_are_reported_and_the_others_continue(
    example: Any, data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (data / "slots" / "snips.test.conll.gz").unlink()
    common = ["--data", data, "--dataset", "snips", "--results", data / "r.jsonl"]
    assert call(example, monkeypatch, *common, "--network", "linear CRF") == 1
    assert "snips.test.conll.gz" in capsys.readouterr().err
    assert not (data / "r.jsonl").exists()


def test_development_and_training_set_are_disjoint(example: Any, data: Path) -> None:
    corpus = example.DATASETS["snips"](data)
    assert len(corpus.train[0]) + len(corpus.dev[0]) == len(X)
    assert corpus.dev[0] == X[14::15]
    assert corpus.test[1] == TEST[1]


def test_unseen_words(example: Any) -> None:
    corpus = example.Corpus(
        ([["a", "b"]], [["X", "Y"]]), ([], []), ([["a", "c", "d"]], [["X", "X", "Y"]])
    )
    assert example.unseen_accuracy(corpus, [["Y", "X", "X"]]) == 0.5


@pytest.mark.slow
@pytest.mark.parametrize("features", [None, "crf"])
def test_a_real_corpus_is_learned(features: str | None, tmp_path: Path) -> None:
    """106 calendar requests are enough for an F1 above 0.5; a saved tagger predicts the same."""
    settings = {"batch_size": 4, "learning_rate": 6e-3, "hidden": 48, "epochs": 25, "dropout": 0.3}
    tagger = trellis.NeuralTagger(features=features, device="cpu", random_state=0, **settings)
    with pytest.warns(UnseenLabelWarning):  # three labels occur in the test part only
        tagger.fit(X, Y, dev=TEST)
    predicted = tagger.predict(TEST[0])
    assert span_f1(TEST[1], predicted, "BIO") == max(score for _, score in tagger.dev_scores_) > 0.5
    tagger.save(tmp_path / "tagger.trellis")
    loaded = trellis.load(tmp_path / "tagger.trellis")
    assert loaded.predict(TEST[0]) == predicted
    for loaded_marginals, marginals in zip(
        loaded.predict_marginals(TEST[0]), tagger.predict_marginals(TEST[0]), strict=True
    ):
        np.testing.assert_array_equal(loaded_marginals, marginals)
