"""`trellis train --model neural`, and the other commands with a neural tagger."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Ran, tree, typed

import trellis
from trellis.data import conll, samples
from trellis.models.chain.checkpoint import Checkpoint

torch = pytest.importorskip("torch", reason="the neural tagger needs PyTorch")

Run = Callable[..., Ran]

X, Y = (part[:48] for part in samples.load("train", "music"))
KNOWN = {label for labels in Y for label in labels}
TEST = [
    pair for pair in zip(*samples.load("test", "music"), strict=True) if KNOWN.issuperset(pair[1])
]
TEST_X, TEST_Y = [x for x, _ in TEST][:24], [y for _, y in TEST][:24]
SMALL = {"hidden": 12, "word_dim": 16, "epochs": 4, "batch_size": 4, "learning_rate": 0.02}
OPTIONS = [
    "--model",
    "neural",
    "--device",
    "cpu",
    *(text for k, v in SMALL.items() for text in (f"--{k.replace('_', '-')}", str(v))),
]


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Any:
    """Use one thread: more do not help small networks."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def tagger(**settings: Any) -> Any:
    """Return the tagger of the library with the settings of the command."""
    return trellis.NeuralTagger(**{**SMALL, "device": "cpu", "random_state": 0, **settings})


@pytest.fixture(scope="module")
def expected() -> Any:
    return tagger().fit(X, Y, dev=(TEST_X, TEST_Y))


@pytest.fixture(scope="module")
def model_file(expected: Any, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("neural") / "model.trellis"
    expected.save(path)
    return path.read_bytes()


@pytest.fixture
def neural(tmp_path: Path, model_file: bytes) -> Path:
    """A folder with the model, the training data and a test file."""
    (tmp_path / "net.trellis").write_bytes(model_file)
    conll.write(tmp_path / "train.conll", X, Y)
    conll.write(tmp_path / "test.conll", TEST_X, TEST_Y)
    return tmp_path


def same(path: Path, model: Any) -> Any:
    """Load a model and check that it has the same weights as ``tagger``."""
    loaded = trellis.load(path)
    assert type(loaded) is type(model)
    assert loaded.classes_.tolist() == model.classes_.tolist()
    assert loaded.losses_ == model.losses_
    assert loaded.dev_scores_ == model.dev_scores_
    for loaded_marginals, marginals in zip(
        loaded.predict_marginals(TEST_X), model.predict_marginals(TEST_X), strict=True
    ):
        np.testing.assert_array_equal(loaded_marginals, marginals)
    return loaded


# ---- train


def test_the_command_trains_as_the_library_does(run: Run, neural: Path, expected: Any) -> None:
    ran = run("train", "train.conll", "--dev", "test.conll", *OPTIONS)
    assert (ran.code, ran.out) == (0, ""), ran.err
    same(neural / "model.trellis", expected)
    assert "4 epochs" in ran.err
    assert "dev span F1" in ran.err
    assert not (neural / "model.trellis.checkpoint").exists()


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        (["--head", "softmax"], {"head": "softmax"}),
        (["--head", "memm", "--words", "embedding"], {"head": "memm", "words": ("embedding",)}),
        (
            ["--words", "rnn,ngrams", "--encoder", "cnn"],
            {"words": ("rnn", "ngrams"), "encoder": "cnn"},
        ),
        (["--hybrid", "--constraints", "auto"], {"features": "crf", "constraints": "BIO"}),
        (
            ["--layers", "2", "--dropout", "0.1", "--seed", "7"],
            {"layers": 2, "dropout": 0.1, "random_state": 7},
        ),
        (
            ["--optimizer", "sgd", "--learning-rate", "0.1"],
            {"optimizer": "sgd", "learning_rate": 0.1},
        ),
    ],
    ids=typed,
)
def test_every_option_reaches_the_network(
    run: Run, neural: Path, options: list[str], settings: dict[str, Any]
) -> None:
    ran = run("train", "train.conll", *OPTIONS, "--epochs", "1", *options)
    assert ran.code == 0, ran.err
    loaded = same(neural / "model.trellis", tagger(**{"epochs": 1, **settings}).fit(X, Y))
    for name, value in settings.items():
        assert loaded.get_params()[name] == value


def test_vectors_of_words_from_a_file(run: Run, neural: Path) -> None:
    words = sorted({word for x in X for word in x})
    matrix = np.random.default_rng(0).normal(size=(len(words), 6))
    trellis.Vectors(words, matrix).save(neural / "words.vec")
    ran = run("train", "train.conll", *OPTIONS, "--epochs", "1", "--vectors", "words.vec")
    assert ran.code == 0, ran.err
    (neural / "words.vec").unlink()  # the model contains the vectors
    vectors = trellis.Vectors(words, matrix.astype(np.float32))
    model = tagger(epochs=1, vectors=vectors).fit(X, Y)
    loaded = trellis.load(neural / "model.trellis")
    for loaded_marginals, marginals in zip(
        loaded.predict_marginals(TEST_X), model.predict_marginals(TEST_X), strict=True
    ):
        np.testing.assert_allclose(
            loaded_marginals, marginals, atol=1e-4
        )  # a text file rounds the vectors


def test_only_the_word_column_is_embedded(run: Run, neural: Path) -> None:
    """The network reads the first column; the features of a hybrid read all columns."""
    wide = [[(word, word[-1:]) for word in x] for x in X]
    conll.write(neural / "wide.conll", wide, Y)
    ran = run("train", "wide.conll", *OPTIONS, "--epochs", "1", "--hybrid")
    assert ran.code == 0, ran.err
    assert trellis.load(neural / "model.trellis").columns_ == 2
    ran = run("eval", "model.trellis", "wide.conll", "--json")
    assert ran.code == 0, ran.err
    ran = run("eval", "model.trellis", "test.conll")
    assert ran.code == 1
    assert "2" in ran.err


def test_an_interrupted_training_resumes(run: Run, neural: Path, expected: Any) -> None:
    """Resuming from a checkpoint of the second epoch gives the same bits."""
    checkpoint = Checkpoint(neural / "model.trellis.checkpoint", every=1)
    tagger().fit(
        X,
        Y,
        dev=(TEST_X, TEST_Y),
        checkpoint=checkpoint,
        callback=lambda now: checkpoint.halt() if now.epoch == 2 else None,
    )
    assert checkpoint.stopped
    ran = run("train", "train.conll", "--dev", "test.conll", *OPTIONS, "--resume")
    assert ran.code == 0, ran.err
    same(neural / "model.trellis", expected)


# ---- errors


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--hidden", "8"], ["--hidden", "--model neural"]),
        (["--hybrid"], ["--hybrid", "--model neural"]),
        (["--model", "neural", "--l1", "1"], ["--l1", "neural"]),
        (["--model", "neural", "--max-iter", "3"], ["--max-iter", "neural"]),
        (["--model", "neural", "--dev", "test.conll", "--dev-every", "2"], ["--dev-every"]),
        (["--model", "neural", "--tune", "3"], ["--tune", "neural"]),
        (["--model", "neural", "--features", "ner"], ["--features", "--hybrid"]),
        (["--model", "neural", "--words", "embedding,letters"], ["letters"]),
        (["--model", "neural", "--encoder", "gru"], ["encoder", "gru"]),
        (["--model", "neural", "--head", "hmm"], ["head", "hmm"]),
        (["--model", "neural", "--hidden", "0"], ["hidden", "0"]),
        (["--model", "neural", "--dropout", "1.5"], ["dropout", "1.5"]),
        (["--model", "neural", "--epochs", "0"], ["epochs", "0"]),
        (["--model", "neural", "--device", "tpu"], ["device", "tpu"]),
        (["--model", "neural", "--precision", "int8"], ["precision", "int8"]),
        (["--model", "neural", "--vectors", "nosuch.vec"], ["nosuch.vec"]),
        (["--model", "neural", "--vectors", "train.conll"], ["train.conll"]),
        (["--model", "neural", "--patience", "2"], ["--patience", "--dev"]),
        (["--model", "neural", "--head", "softmax", "--constraints", "BIO"], ["constraints"]),
    ],
    ids=typed,
)
def test_invalid_options(refused: Any, options: list[str], names: list[str]) -> None:
    refused("train", "train.conll", "-q", *options, names=names)


def test_models_that_do_not_label_sequences(refused: Any, folder: Path) -> None:
    trellis.Vectors(["a", "b"], np.eye(2)).save(folder / "words.trellis")
    for command in (["tag"], ["eval"], ["report"]):
        refused(
            *command,
            "words.trellis",
            "test.conll",
            names=["words.trellis", "expected a sequence model"],
        )
    refused("inspect", "words.trellis", names=["words.trellis", "expected a sequence model"])


@pytest.mark.parametrize("place", [0.01, 0.5, 0.99])
def test_a_damaged_file(run: Run, neural: Path, model_file: bytes, place: float) -> None:
    damaged = bytearray(model_file)
    damaged[int(place * len(damaged))] ^= 0xFF
    for data in (bytes(damaged), model_file[: int(place * len(model_file))]):
        (neural / "bad.trellis").write_bytes(data)
        before = tree(neural)
        ran = run("tag", "bad.trellis", "test.conll")
        assert (ran.code, ran.out) == (1, "")
        assert "bad.trellis" in ran.err
        assert ran.err.count("\n") == 1
        assert tree(neural) == before


# ---- the other commands


def test_tag(run: Run, neural: Path, expected: Any) -> None:
    ran = run(
        "tag", "net.trellis", "test.conll", "--output", "jsonl", "--marginals", "--kbest", "2"
    )
    assert ran.code == 0, ran.err
    output = [json.loads(line) for line in ran.out.splitlines()]
    assert [entry["tags"] for entry in output] == expected.predict(TEST_X)
    best = expected.predict_kbest(TEST_X, 2)
    for entry, labels in zip(output, best, strict=True):
        assert [one["tags"] for one in entry["kbest"]] == [one.labels for one in labels]
    chance = expected.predict_marginals(TEST_X[:1])[0][0]
    for label, p in output[0]["marginals"][0].items():
        assert p == pytest.approx(chance[expected.classes_.tolist().index(label)], abs=1e-6)


def test_tag_reads_standard_input(run: Run, neural: Path, expected: Any) -> None:
    ran = run("tag", "net.trellis", stdin=b"play some jazz\n")
    assert ran.code == 0, ran.err
    assert ran.out.count("\n") == 1


def test_eval(run: Run, neural: Path, expected: Any) -> None:
    ran = run("eval", "net.trellis", "test.conll", "--json")
    assert ran.code == 0, ran.err
    output = json.loads(ran.out)
    guess = expected.predict(TEST_X)
    assert output["accuracy"] == trellis.metrics.accuracy(TEST_Y, guess)
    assert output["micro"]["f1"] == trellis.metrics.span_f1(TEST_Y, guess, "BIO")
    assert len(output["worst"]) == 5
    assert run("eval", "net.trellis", "test.conll").code == 0


def test_inspect(run: Run, neural: Path, expected: Any) -> None:
    ran = run("inspect", "net.trellis", "--json")
    assert ran.code == 0, ran.err
    output = json.loads(ran.out)
    assert output["model"] == "NeuralTagger"
    assert output["weights"] == sum(p.numel() for p in expected.network_.parameters())
    assert output["weights"] == sum(output["parts"].values())
    assert output["epochs"] == SMALL["epochs"]
    assert output["losses"] == [list(pair) for pair in expected.losses_]
    assert output["parameters"]["hidden"] == SMALL["hidden"]
    top = output["transitions"][0]
    labels = expected.classes_.tolist()
    scores = expected.transition_scores()
    assert top["weight"] == scores.max()
    assert scores[labels.index(top["before"]), labels.index(top["after"])] == top["weight"]
    text = run("inspect", "net.trellis").out
    assert "NeuralTagger" in text
    assert "4 epochs" in text


def test_the_features_of_a_hybrid_are_shown(run: Run, neural: Path) -> None:
    ran = run("train", "train.conll", *OPTIONS, "--epochs", "1", "--hybrid")
    assert ran.code == 0, ran.err
    output = json.loads(run("inspect", "model.trellis", "--json", "--top", "3").out)
    linear = trellis.load(neural / "model.trellis").linear_
    assert output["attributes"] == len(linear.features_)
    assert output["parts"]["features"] == len(linear.coef_)
    assert output["weights"] == sum(output["parts"].values())
    assert output["features"] == [w._asdict() for w in linear.top_features(3)]
    assert run("report", "model.trellis", "test.conll").code == 0
    assert "The strongest features for and against each label" in (
        neural / "report.html"
    ).read_text("utf-8")


def test_report(run: Run, neural: Path) -> None:
    ran = run("report", "net.trellis", "test.conll", "-o", "page.html")
    assert ran.code == 0, ran.err
    page = (neural / "page.html").read_text(encoding="utf-8")
    for text in ("NeuralTagger", "Learning curve", "epoch", "Transitions", "Trellises"):
        assert text in page
    assert "not converged" not in page


def test_convert(run: Run, neural: Path, expected: Any) -> None:
    assert run("convert", "net.trellis", "other.trellis").code == 0
    assert (neural / "other.trellis").read_bytes() == (neural / "net.trellis").read_bytes()
    ran = run("convert", "net.trellis", "other.crfsuite")
    assert ran.code == 1
    assert "NeuralTagger" in ran.err
    assert not (neural / "other.crfsuite").exists()
