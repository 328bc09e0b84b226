"""Data and models that cannot be read: one line of error that names the place, no new files."""

from __future__ import annotations

import gzip
import lzma
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Ran, rows, typed

from trellis import CRF, GridCRF, SoftmaxRegression
from trellis.data import samples
from trellis.models.chain.checkpoint import Checkpoint

Run = Callable[..., Ran]

READERS = [  # commands whose last argument is a file with labels
    ("train", "-o", "new.trellis"),
    ("train", "train.conll", "-o", "new.trellis", "--dev"),
    ("eval", "model.trellis"),
    ("report", "-o", "new.html", "model.trellis"),
]
TAG = ("tag", "model.trellis")


# ---- data that cannot be read


@pytest.mark.parametrize("command", [*READERS, TAG, ("convert",)], ids=typed)
def test_a_missing_file(refused: Any, command: tuple[str, ...]) -> None:
    after = ["new.jsonl"] if command == ("convert",) else []
    refused(*command, "nosuch.conll", *after, names=["nosuch.conll: No such file"])


@pytest.mark.parametrize("command", [*READERS, TAG], ids=typed)
def test_rows_with_different_numbers_of_columns(
    refused: Any, folder: Path, command: tuple[str, ...]
) -> None:
    lines = rows(3000)
    lines[1233] = "alone"
    (folder / "ragged.conll").write_text("\n".join(lines))
    refused(*command, "ragged.conll", names=["ragged.conll, line 1234: the row has 1 columns"])


@pytest.mark.parametrize("command", READERS, ids=typed)
@pytest.mark.parametrize("text", ["", "\n", "\n\n  \n\t\n", "\ufeff"])
def test_a_file_without_sequences(
    refused: Any, folder: Path, command: tuple[str, ...], text: str
) -> None:
    (folder / "blank.conll").write_text(text)
    refused(*command, "blank.conll", names=["blank.conll: the file contains no sequence"])


@pytest.mark.parametrize("name", ["blank.jsonl", "blank.md", "blank.conllu", "blank.tsv", "blank"])
def test_an_empty_file_is_refused_in_every_format(refused: Any, folder: Path, name: str) -> None:
    (folder / name).write_text("\n")
    refused("train", name, names=[f"{name}: the file contains no sequence"])


BINARY = {
    "random": bytes(range(256)) * 20,
    "utf-8 with zeros": b"a\0b O\nc O\n",
    "utf-16": "play O\nRome O\n".encode("utf-16"),
    "zeros after 200 kB": b"a O\nc O\n\n" * 25_000 + b"a\0 O\n",
    "latin-1": b"a O\ncaf\xe9 O\n",
    "packed zeros": gzip.compress(b"a\0b O\nc O\n"),
}


@pytest.mark.parametrize("command", [*READERS, TAG], ids=typed)
@pytest.mark.parametrize("kind", BINARY)
def test_a_binary_file(refused: Any, folder: Path, command: tuple[str, ...], kind: str) -> None:
    (folder / "odd.conll").write_bytes(BINARY[kind])
    refused(*command, "odd.conll", names=["odd.conll"])


@pytest.mark.parametrize("format", ["text", "tokens", "conll", "conllu", "jsonl", "markup"])
def test_a_file_of_zero_bytes_is_refused_in_every_format(
    refused: Any, folder: Path, format: str
) -> None:
    refused(*TAG, "--format", format, stdin=b"a\0b O\n", names=["line 1"])


def test_the_line_of_a_byte_that_is_not_utf8(refused: Any, folder: Path) -> None:
    (folder / "odd.conll").write_bytes(b"a O\nb O\n\ncaf\xe9 O\n")
    for command in (*READERS, TAG):
        refused(*command, "odd.conll", names=["odd.conll, line 4: not utf-8"])


@pytest.mark.parametrize("command", [*READERS, TAG], ids=typed)
def test_a_model_given_as_data(refused: Any, command: tuple[str, ...]) -> None:
    refused(*command, "model.trellis", names=["model.trellis"])


@pytest.mark.parametrize("command", [*READERS, TAG], ids=typed)
@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_a_truncated_compressed_file(
    refused: Any, folder: Path, command: tuple[str, ...], pack: Any
) -> None:
    data = pack((folder / "train.conll").read_bytes())
    (folder / "cut.conll.gz").write_bytes(data[: len(data) // 2])
    refused(*command, "cut.conll.gz", names=["cut.conll.gz", "cannot be decompressed"])


def test_a_folder_given_as_data(refused: Any, folder: Path) -> None:
    (folder / "data").mkdir()
    for command in (*READERS, TAG):
        refused(*command, "data", names=["data: "])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.jsonl", '{"tokens": ["a"], "tags": ["O"]}\n{"tokens": ["a"]', "line 2: not JSON"),
        ("a.jsonl", '\n{"tokens": ["a"], "tags": []}', "line 2: 1 tokens but 0 tags"),
        ("a.jsonl", '{"text": "Newark", "spans": [[0, 3, "LOC"]]}', "line 1: span"),
        ("a.md", "fine\n[Rome](place\n", "line 2"),
        ("a.conllu", "1\tRome\n", "line 1"),
    ],
)
def test_the_line_of_a_mistake_in_other_formats(
    refused: Any, folder: Path, name: str, text: str, message: str
) -> None:
    (folder / name).write_text(text)
    for command in READERS:
        refused(*command, name, names=[f"{name}, {message}"])


# ---- labels of the development data that do not occur in training


DEV = {
    "conll": ("play O\n\nRome B-town\n", 3),
    "jsonl": (
        '{"tokens": ["a"], "tags": ["O"]}\n\n{"tokens": ["Rome"], "tags": ["B-town"]}\n',
        3,
    ),
    "md": ("play\n# [town](town)\ngo to [Rome](town)\n", 3),
    "conllu": (
        "1\tplay\t_\tO\t_\t_\t0\t_\t_\t_\n2\tRome\t_\tB-town\t_\t_\t0\t_\t_\t_\n\n",
        2,
    ),
    "column.conllu": (
        "1\tplay\tB-town\tO\tB-town\t_\t0\t_\t_\t_\n2\tRome\t_\tB-town\t_\t_\t0\t_\t_\t_\n\n",
        2,
    ),
    "comment.conll": ("# in B-town\nplay\tO\n\nRome\tB-town\n", 4),
    "word.conll": ("town O\n\nB-town O\n\nRome B-town\n", 5),
    "middle.conll": ("town B-town O\n\nRome town B-town\n", 3),
    "text.jsonl": (
        '{"text": "a B-town town", "spans": []}\n{"text": "Rome", "spans": [[0, 4, "town"]]}\n',
        2,
    ),
    "key.jsonl": (
        '{"tokens": ["town"], "tags": ["O"], "id": "B-town"}\n'
        '{"tokens": ["Rome"], "tags": ["B-town"]}\n',
        2,
    ),
    "escaped.jsonl": (
        '{"tokens": ["a"], "tags": ["O"]}\n{"tokens": ["a"], "tags": ["B-t\\u006fwn"]}',
        2,
    ),
    "within.jsonl": ('{"text": "to Rome", "spans": [{"start": 3, "end": 7, "label": "town"}]}', 1),
}


@pytest.mark.parametrize("name", DEV)
def test_a_label_that_only_dev_has(run: Any, folder: Path, name: str) -> None:
    text, line = DEV[name]
    (folder / f"dev.{name}").write_text(text)
    columns = ["--columns", "0"] if name == "middle.conll" else []
    ran = run("train", "train.conll", "--dev", f"dev.{name}", *columns, "--max-iter", 2)
    assert ran.code == 0, ran
    where = rf"^trellis: warning: dev\.{name}, line {line}: 1 of [0-9]+ labels do not occur"
    assert re.search(where, ran.err, re.MULTILINE)


def test_a_label_in_a_chosen_column(run: Any, folder: Path) -> None:
    (folder / "t.conll").write_text("play O x\nRome B-place x\n")
    (folder / "d.conll").write_text("play O B-town\nRome B-town x\n")
    options = ["--columns", "0", "--label", "1"]
    assert "d.conll, line 2: 1 of 2" in run("train", "t.conll", "--dev", "d.conll", *options).err


# ---- models that cannot be read


USERS = [  # commands whose last but one argument is a model
    ("tag", "{}", "test.conll"),
    ("eval", "{}", "test.conll"),
    ("report", "{}", "test.conll"),
    ("inspect", "{}"),
]


def with_model(command: tuple[str, ...], name: str) -> list[str]:
    return [part.format(name) for part in command]


@pytest.mark.parametrize("command", USERS, ids=lambda c: c[0])
def test_files_that_are_not_models(refused: Any, folder: Path, command: tuple[str, ...]) -> None:
    data = (folder / "model.trellis").read_bytes()
    (folder / "half.trellis").write_bytes(data[: len(data) // 2])
    flipped = bytearray(data)
    flipped[len(data) * 2 // 3] ^= 1
    (folder / "flipped.trellis").write_bytes(flipped)
    (folder / "empty.trellis").write_bytes(b"")
    (folder / "sub").mkdir()
    for name in ("half", "flipped", "empty"):
        refused(*with_model(command, f"{name}.trellis"), names=[f"{name}.trellis: "])
    for name in ("nosuch", "train.conll", "sub"):
        refused(*with_model(command, name), names=[f"{name}: "])


def test_models_that_do_not_label_sequences(refused: Any, folder: Path) -> None:
    SoftmaxRegression().fit([[0.0], [1.0]], ["a", "b"]).save(folder / "softmax.trellis")
    X = [np.zeros((2, 2, 1)), np.ones((2, 2, 1))]
    GridCRF(max_iter=1).fit(X, [x[..., 0].astype(int) for x in X]).save(folder / "grid.trellis")
    for name in ("softmax.trellis", "grid.trellis"):
        for command in USERS:
            refused(*with_model(command, name), names=[f"{name}: ", "expected a sequence model"])


def test_a_checkpoint_is_not_a_model(refused: Any, run: Run, folder: Path) -> None:
    X, y = samples.load("train", "calendar")
    CRF(max_iter=2).fit(X, y, checkpoint=Checkpoint(folder / "run.checkpoint", every=1))
    for command in USERS:
        refused(*with_model(command, "run.checkpoint"), names=["run.checkpoint"])


def test_fewer_columns_than_the_model_takes(refused: Any, run: Run, folder: Path) -> None:
    (folder / "two.conll").write_text("Rome NNP B-place\nsleeps VBZ O\n")
    assert run("train", "two.conll", "-o", "two.trellis").code == 0
    (folder / "one.conll").write_text("Rome\nsleeps\n")
    for command in ("eval", "report"):
        refused(command, "two.trellis", "test.conll", names=["test.conll", "1", "2"])
    refused("tag", "two.trellis", "one.conll", names=["one.conll", "has 1 columns", "2"])
    for format, text in (("text", "Rome"), ("jsonl", '{"tokens": ["Rome"]}'), ("tokens", "Rome")):
        (folder / "one").write_text(text)
        refused("tag", "two.trellis", "--format", format, "one", names=["one", "2 columns"])
