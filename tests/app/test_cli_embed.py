"""`trellis embed`, `neighbors`, `analogy`, `similarity` and `classify`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Ran
from vector_files import MODELS, fasttext, needs_data, read_by_gensim

from trellis import FastText, TextClassifier, Vectors, Word2Vec

TEXT = "the cat purrs and sleeps\nthe dog barks and runs\n" * 60
INTENTS = "__label__cat it purrs and sleeps\n__label__dog it barks and runs\n" * 60
SMALL = ("--dim", "6", "--min-count", "1", "--epochs", "2", "--seed", "0", "-j", "1")
Run = Callable[..., Ran]


@pytest.fixture
def vectors(tmp_path: Path) -> Vectors:
    """Word vectors, also in the file ``v.vec``."""
    rows = [[1, 0, 0.1], [0, 1, 0.1], [1, 0, 1], [0, 1, 1], [3, 3, 0]]
    word_vectors = Vectors(["man", "woman", "king", "queen", "Rome"], rows)
    word_vectors.save(tmp_path / "v.vec")
    return word_vectors


def test_words(run: Run, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(TEXT)
    for name in ("v.trellis", "v.vec", "v.txt", "v.bin"):
        ran = run("embed", "text.txt", "-o", name, *SMALL)
        assert (ran.code, ran.out) == (0, "")
        assert f"{name}: 8 words, 6 dimensions" in ran.err
    model = Word2Vec.load(tmp_path / "v.trellis")
    assert (model.vector_size, model.epochs, model.min_count) == (6, 2, 1)
    for name in ("v.trellis", "v.vec", "v.bin"):
        assert np.array_equal(Vectors.load(tmp_path / name).matrix, model.vectors_.matrix)
    assert np.array_equal(read_by_gensim(tmp_path / "v.bin").vectors, model.vectors_.matrix)
    assert run("neighbors", "v.trellis", "cat", "-k", 3).out.count("\n") == 4


def test_subwords(run: Run, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(TEXT)
    options = (*SMALL, "--subwords", "--bucket", "100", "--architecture", "cbow", "-q")
    assert run("embed", "text.txt", "-o", "v.bin", *options) == Ran(0, "", "")
    assert run("embed", "text.txt", "text.txt", "-o", "v.trellis", *options).code == 0
    assert FastText.load(tmp_path / "v.trellis").architecture == "cbow"
    peer = fasttext().load_model(str(tmp_path / "v.bin"))
    loaded = Vectors.load(tmp_path / "v.bin")
    np.testing.assert_allclose(loaded["catty"], peer.get_word_vector("catty"), atol=1e-6)
    assert len(json.loads(run("neighbors", "v.bin", "catty", "--json").out)[0]["near"]) == 8


@pytest.mark.parametrize("name", ["m.trellis", "m.bin"])
def test_classifiers(name: str, run: Run, tmp_path: Path) -> None:
    (tmp_path / "intents.txt").write_text(INTENTS)
    ran = run("embed", "intents.txt", "-o", name, "--supervised", *SMALL, "--epochs", "20")
    assert ran.code == 0, ran
    text = b"it barks\nit purrs\n"
    output = run("classify", name, stdin=text).out
    assert [line.split("\t")[0] for line in output.splitlines()] == ["dog", "cat"]
    (tmp_path / "lines.txt").write_bytes(text)
    assert run("classify", name, "lines.txt").out == output
    fields = run("classify", name, "lines.txt", "-k", 2).out.splitlines()[0].split("\t")
    assert fields[::2] == ["dog", "cat"]
    assert sum(map(float, fields[1::2])) == pytest.approx(1, abs=1e-4)
    record = json.loads(run("classify", name, "lines.txt", "--json").out.splitlines()[0])
    assert (record["text"], record["labels"][0]["label"]) == ("it barks", "dog")
    scores = json.loads(run("classify", name, "--test", "intents.txt", "--json").out)
    assert scores == {"texts": 120, "precision": 1.0, "recall": 1.0}
    assert "precision@1 100.00" in run("classify", name, "--test", "intents.txt").out


@needs_data
def test_languages(run: Run) -> None:
    text = "quelle heure est-il\nwie spät ist es\nwhat time is it\n".encode()
    output = run("classify", MODELS / "fasttext" / "lid.176.ftz", stdin=text).out
    assert [line.split("\t")[0] for line in output.splitlines()] == ["fr", "de", "en"]


def test_neighbors(vectors: Vectors, run: Run) -> None:
    lines = run("neighbors", "v.vec", "man", "-k", 2).out.splitlines()
    assert [line.split() for line in lines] == [
        ["word", "cosine"],
        *([n.word, f"{n.score:.4f}"] for n in vectors.nearest("man", 2)),
    ]
    output = run("neighbors", "v.vec", stdin=b"man king\nqueen\n").out
    assert [line for line in output.splitlines() if " " not in line] == [
        "man",
        "",
        "king",
        "",
        "queen",
    ]
    output = json.loads(run("neighbors", "v.vec", "man", "-k", 1, "--json").out)
    assert output == [{"word": "man", "near": [vectors.nearest("man", 1)[0]._asdict()]}]
    assert run("neighbors", "v.vec", "man", "--limit", 2).out.count("\n") == 2


def test_analogy(vectors: Vectors, run: Run, tmp_path: Path) -> None:
    assert run("analogy", "v.vec", "man", "king", "woman").out.splitlines()[1].startswith("queen")
    (tmp_path / "questions").write_text(": family\nman king woman queen\nman king woman none\n")
    out = run("analogy", "v.vec", "--test", "questions").out
    assert [line.split() for line in out.splitlines()[1:3]] == [
        ["family", "1", "1", "100.0"],
        ["all", "1", "1", "100.0"],
    ]
    assert "1 questions were skipped, because a word has no vector" in out
    output = json.loads(run("analogy", "v.vec", "--test", "questions", "--json").out)
    assert output["sections"] == {"family": {"right": 1, "asked": 1}}
    assert json.loads(run("analogy", "v.vec", "man", "king", "woman", "--json").out)[0]["word"]


def test_similarity(vectors: Vectors, run: Run, tmp_path: Path) -> None:
    cosine = vectors.similarity("man", "king")
    assert run("similarity", "v.vec", "man", "king").out == f"{cosine:.4f}\n"
    output = json.loads(run("similarity", "v.vec", "man", "king", "--json").out)
    assert output == {"words": ["man", "king"], "cosine": cosine}
    (tmp_path / "pairs").write_text("man king 9\nman queen 1\nman woman 2\nman none 1\n")
    assert (
        run("similarity", "v.vec", "--test", "pairs").out.splitlines()[1].startswith("3 pairs, 1")
    )
    output = json.loads(run("similarity", "v.vec", "--test", "pairs", "--json").out)
    assert (output["pairs"], output["skipped"]) == (3, 1)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["neighbors", "v.vec", "none"], ["'none' has no vector"]),
        (["neighbors", "none.vec", "man"], ["none.vec", "No such file"]),
        (["neighbors", "train.conll", "man"], ["train.conll"]),
        (["neighbors", "model.trellis", "man"], ["model.trellis", "'crf'"]),
        (["similarity", "v.vec", "--test", "train.conll"], ["train.conll", "line 1"]),
        (
            ["classify", "model.trellis"],
            ["model.trellis", "the model is a CRF, expected a text classifier"],
        ),
        (["embed", "none.txt"], ["none.txt", "No such file"]),
        (["embed", "train.conll", "-o", "v.dat"], ["v.dat", "must end in one of"]),
        (["embed", "train.conll", "-o", "v.ftz"], ["v.ftz", "must end in one of"]),
        (["embed", "train.conll", "--word-ngrams", "2"], ["--word-ngrams", "Word2Vec"]),
        (["embed", "train.conll", "--supervised", "--window", "2"], ["--window"]),
        (["embed", "train.conll", "--architecture", "bag"], ["bag"]),
        (["embed", "train.conll", "-o", "train.conll"], ["train.conll", "also an input file"]),
    ],
)
def test_wrong_input_is_one_line_of_error(
    arguments: list[Any], names: list[str], refused: Callable[..., str], vectors: Vectors
) -> None:
    refused(*arguments, names=names)


@pytest.mark.parametrize(
    "arguments",
    [
        ["analogy", "v.vec", "man", "king"],
        ["analogy", "v.vec", "man", "king", "woman", "--test", "f"],
        ["similarity", "v.vec", "man"],
        ["neighbors", "v.vec", "man", "-k", "0"],
        ["classify", "m.ftz", "--threshold", "2"],
        ["embed"],
    ],
)
def test_wrong_usage_prints_the_usage(arguments: list[Any], misused: Callable[..., str]) -> None:
    misused(*arguments)


def test_a_classifier_of_two_files(tmp_path: Path, run: Run) -> None:
    """The command trains the same classifier as the library."""
    (tmp_path / "intents.txt").write_text(INTENTS)
    run("embed", "intents.txt", "intents.txt", "-o", "m.trellis", "--supervised", *SMALL)
    model = TextClassifier(6, min_count=1, epochs=2, random_state=0, n_jobs=1)
    model.fit([tmp_path / "intents.txt"] * 2)
    loaded = TextClassifier.load(tmp_path / "m.trellis")
    assert loaded.predict(["it barks"], k=2) == model.predict(["it barks"], k=2)
