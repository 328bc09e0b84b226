"""Item 1: raw text and a model that was trained on several columns."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import Ran, process

import trellis
from trellis.data import conll, samples
from trellis.features import named

Run = Callable[..., Ran]
TEXT = "play some music by Adele in Rome"
X, Y = (part[:40] for part in samples.load("train", "music"))
PAIRS = [[(word, "CAP" if word[0].isupper() else "low") for word in x] for x in X]
NEEDS = (
    "the model needs 2 columns for each token (columns 0, 1 of its training data): write one token "
    "per line, with tabs between the columns, and an empty line after each sequence, such as "
)
HINT = "; if these are rows of columns, add --format conll"


@pytest.fixture
def train(run: Run, tmp_path: Path) -> Callable[..., None]:
    """``train("--features", "words")`` trains a model on tokens with two columns."""
    conll.write(tmp_path / "two.conll", PAIRS, Y)
    (tmp_path / "text.txt").write_text(f"{TEXT}\n")

    def call(*options: str) -> None:
        ran = run("train", "two.conll", "-q", *options)
        assert ran.code == 0, ran

    return call


@pytest.mark.parametrize("options", [[], ["-m", "memm"], ["-m", "hmm"], ["-m", "perceptron"]])
@pytest.mark.parametrize("source", ["stdin", "text.txt", "text"])
def test_text_is_refused_if_the_model_needs_more_than_the_word(
    run: Run, train: Any, tmp_path: Path, options: list[str], source: str
) -> None:
    train(*options)
    (tmp_path / "text").write_text(f"{TEXT}\n")
    arguments, name = ([], "<") if source == "stdin" else ([source], f"{source}: ")
    ran = run("tag", "model.trellis", *arguments, stdin=f"{TEXT}\n".encode())
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"trellis: {name}")
    example = f"{X[0][0]}\\tlow"
    assert ran.err.count("\n") == 1
    assert f"raw text has one column, but {NEEDS}" in ran.err
    assert example in ran.err or "\\tCAP" in ran.err
    assert ran.err.endswith(f"{HINT}\n")


@pytest.mark.parametrize("text", ["play music", "play some music", "play\nstop\n", "\n\nplay low"])
def test_texts_with_as_many_words_as_columns(run: Run, train: Any, text: str) -> None:
    train("--max-iter", "3")
    ran = run("tag", "model.trellis", stdin=text.encode())
    accepted = text.endswith("low")  # that is a row: low occurred in the second column
    assert ran.code == (0 if accepted else 1)
    assert accepted or "raw text" in ran.err


@pytest.mark.parametrize("format", ["text", "tokens", "markup", "conllu"])
def test_a_format_without_columns_is_refused(run: Run, train: Any, format: str) -> None:
    train("--max-iter", "3")
    ran = run("tag", "model.trellis", "text.txt", "--format", format)
    assert (ran.code, ran.out) == (1, "")
    assert f"has one column, but {NEEDS}" in ran.err
    assert HINT not in ran.err


def neural(*options: str) -> list[str]:
    pytest.importorskip("torch")
    small = ["--epochs", "1", "--hidden", "4", "--word-dim", "4", "--device", "cpu"]
    return ["--model", "neural", *small, *options]


def test_a_model_of_the_word_alone_tags_text(run: Run, train: Any, tmp_path: Path) -> None:
    train("--features", "words")
    ran = run("tag", "model.trellis", "--output", "jsonl", stdin=f"{TEXT}\n".encode())
    model = trellis.load(tmp_path / "model.trellis")
    assert json.loads(ran.out)["tags"] == model.predict([TEXT.split()])[0]
    assert run("tag", "model.trellis", "text.txt", "--output", "jsonl").out == ran.out


def test_a_network_without_features_needs_the_word_alone(run: Run, train: Any) -> None:
    train(*neural())
    ran = run("tag", "model.trellis", "--output", "jsonl", stdin=f"{TEXT}\n".encode())
    assert json.loads(ran.out)["tokens"] == TEXT.split()
    train(*neural("--hybrid"))
    ran = run("tag", "model.trellis", stdin=f"{TEXT}\n".encode())
    assert NEEDS in ran.err


def rows(separator: str, labels: bool = False) -> bytes:
    blocks = [
        "\n".join(separator.join([*pair, *([label] if labels else [])]) for pair, label in pairs)
        for pairs in (list(zip(x, y, strict=True)) for x, y in zip(PAIRS[:3], Y[:3], strict=True))
    ]
    return ("\n\n".join(blocks) + "\n").encode()


@pytest.mark.parametrize("separator", ["\t", " "])
@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("name", ["-", "rows", "rows.txt", "rows.conll"])
def test_rows_of_columns_are_tagged(
    run: Run, train: Any, tmp_path: Path, separator: str, labels: bool, name: str
) -> None:
    train("--max-iter", "10")
    data = rows(separator, labels)
    (tmp_path / name).write_bytes(data) if name != "-" else None
    ran = run("tag", "model.trellis", name, "--output", "conll", stdin=data)
    assert ran.code == 0, ran
    model = trellis.load(tmp_path / "model.trellis")
    predicted = [line.split("\t")[-1] for line in ran.out.splitlines() if line]
    assert predicted == [label for y in model.predict(PAIRS[:3]) for label in y]


def test_rows_with_unknown_values_need_the_format(run: Run, train: Any) -> None:
    train("--max-iter", "3")
    row = b"play XX\n"
    assert run("tag", "model.trellis", stdin=row).code == 1
    assert run("tag", "model.trellis", "--format", "conll", stdin=row).code == 0
    assert run("tag", "model.trellis", "--columns", "0,1", stdin=row).code == 0
    assert run("tag", "model.trellis", stdin=row.replace(b" ", b"\t")).code == 0
    docstart = b"-DOCSTART- -X-\n\nplay low\n"
    assert run("tag", "model.trellis", stdin=docstart).code == 0


def test_a_template_without_the_column_itself(run: Run, train: Any, tmp_path: Path) -> None:
    (tmp_path / "pairs.template").write_text("U1:%x[0,0]/%x[0,1]\n")
    train("--template", "pairs.template", "--max-iter", "3")
    ran = run("tag", "model.trellis", stdin=f"{TEXT}\n".encode())
    assert "'column0\\tcolumn1'" in ran.err


# ---- rows and objects for a model of the word alone are not raw text


@pytest.fixture
def word_model(run: Run, tmp_path: Path) -> Any:
    conll.write(tmp_path / "one.conll", X, Y)
    assert run("train", "one.conll", "-q").code == 0
    return trellis.load(tmp_path / "model.trellis")


CONLLU = "".join(f"{n}\t{word}\t_\t_\t_\t_\t_\t_\t_\t_\n" for n, word in enumerate(X[0], 1))
STREAMS = {
    "rows": "".join(f"{word}\tlow\n" for word in X[0]),
    "objects": json.dumps({"tokens": X[0]}) + "\n",
    "conllu": f"# text = x\n{CONLLU}",
}


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("name", ["-", "data", "data.txt"])
def test_the_format_of_words_is_detected(
    run: Run, word_model: Any, tmp_path: Path, kind: str, name: str
) -> None:
    (tmp_path / "data").write_text(STREAMS[kind])
    (tmp_path / "data.txt").write_text(STREAMS[kind])
    data = STREAMS[kind].encode()
    ran = run("tag", "model.trellis", name, "--output", "jsonl", stdin=data)
    assert json.loads(ran.out)["tokens"] == X[0]
    assert json.loads(ran.out)["tags"] == word_model.predict([X[0]])[0]
    output = run("tag", "model.trellis", name, stdin=data).out
    assert output.startswith("{") == (kind == "objects")


@pytest.mark.parametrize("text", ["play\n", "a\tb c\n", "{not json}\n", '{"key": 1}\n', "# play\n"])
def test_text_stays_text(run: Run, word_model: Any, text: str) -> None:
    ran = run("tag", "model.trellis", "--output", "jsonl", stdin=text.encode())
    assert json.loads(ran.out)["text"] == text.rstrip("\n")


def test_empty_input(run: Run, word_model: Any, tmp_path: Path) -> None:
    for data in (b"", b"\n", b"\n\n\n"):
        assert run("tag", "model.trellis", "--output", "conll", stdin=data).code == 0


@pytest.mark.parametrize("model", ["two", "one"])
def test_of_a_pipe(run: Run, train: Any, tmp_path: Path, model: str) -> None:
    train("--max-iter", "3", *(["--features", "words"] if model == "one" else []))
    ran = process("tag", "model.trellis", folder=tmp_path, stdin=TEXT.encode())
    assert ran.code == (1 if model == "two" else 0)
    assert ("raw text" in ran.err) == (model == "two")


def test_the_values_of_a_column() -> None:
    spec = named(["w[0]", "pos[-1]", "pos[0]", "w[0]|pos[0]"], ["pos"])
    features = trellis.features.extractor.TemplateFeatures(spec)
    features.learn([[("a", "N"), ("b", "V")], [("b", "N")]])
    assert features.values_of_column(0) == ["a", "b"]
    assert features.values_of_column(1) == ["N", "V"]
    assert features.values_of_column(2) == []
