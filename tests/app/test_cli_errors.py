"""Bad input: one line that names the place, a code that is not 0, and nothing left behind."""

from __future__ import annotations

import gzip
import lzma
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import Ran, process, tree, typed

from trellis import SoftmaxRegression
from trellis.data import samples

Run = Callable[..., Ran]


@pytest.fixture
def refused(run: Run, folder: Path) -> Callable[..., str]:
    """``refused("tag", …, names=["a.conll", "line 3"])`` is the one line that the command says."""

    def call(*arguments: Any, names: list[str], stdin: bytes = b"") -> str:
        before = tree(folder)
        ran = run(*arguments, stdin=stdin)
        assert ran.code == 1, ran
        assert ran.err.startswith("trellis: ")
        assert ran.err.endswith("\n")
        assert ran.err.count("\n") == 1, ran.err
        for name in names:
            assert name in ran.err
        assert ran.out == ""
        assert tree(folder) == before
        return ran.err

    return call


@pytest.fixture
def misused(run: Run, folder: Path) -> Callable[..., str]:
    """The same for a command that is not understood: code 2, and how to use it."""

    def call(*arguments: Any) -> str:
        before = tree(folder)
        ran = run(*arguments)
        assert ran.code == 2, ran
        assert "Usage:" in ran.err
        assert ran.out == ""
        assert tree(folder) == before
        return ran.err

    return call


def rows(count: int) -> list[str]:
    """Lines of a file of columns: two rows and a blank one, again and again."""
    return (["play O", "Rome B-place", ""] * (count // 3 + 1))[:count]


READERS = [  # commands that read a file with labels, whose name comes last
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
def test_a_row_of_another_width(refused: Any, folder: Path, command: tuple[str, ...]) -> None:
    lines = rows(3000)
    lines[1233] = "alone"
    (folder / "ragged.conll").write_text("\n".join(lines))
    refused(*command, "ragged.conll", names=["ragged.conll, line 1234: columns: 1, but 2"])


@pytest.mark.parametrize("command", READERS, ids=typed)
@pytest.mark.parametrize("text", ["", "\n", "\n\n  \n\t\n", "\ufeff"])
def test_a_file_without_sequences(
    refused: Any, folder: Path, command: tuple[str, ...], text: str
) -> None:
    (folder / "blank.conll").write_text(text)
    refused(*command, "blank.conll", names=["blank.conll: there is no sequence in it"])


@pytest.mark.parametrize("name", ["blank.jsonl", "blank.md", "blank.conllu", "blank.tsv", "blank"])
def test_no_format_has_an_empty_file(refused: Any, folder: Path, name: str) -> None:
    (folder / name).write_text("\n")
    refused("train", name, names=[f"{name}: there is no sequence in it"])


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
def test_zeros_are_text_in_no_format(refused: Any, folder: Path, format: str) -> None:
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
def test_a_packed_file_that_was_cut_short(
    refused: Any, folder: Path, command: tuple[str, ...], pack: Any
) -> None:
    whole = pack((folder / "train.conll").read_bytes())
    (folder / "cut.conll.gz").write_bytes(whole[: len(whole) // 2])
    refused(*command, "cut.conll.gz", names=["cut.conll.gz", "cannot be unpacked"])


def test_a_folder_given_as_data(refused: Any, folder: Path) -> None:
    (folder / "data").mkdir()
    for command in (*READERS, TAG):
        refused(*command, "data", names=["data: "])


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("a.jsonl", '{"tokens": ["a"], "tags": ["O"]}\n{"tokens": ["a"]', "line 2: not JSON"),
        ("a.jsonl", '\n{"tokens": ["a"], "tags": []}', "line 2: 1 tokens but 0 tags"),
        ("a.jsonl", '{"text": "Newark", "spans": [[0, 3, "LOC"]]}', "line 1: span"),
        ("a.md", "fine\n[Rome](place\n", "line 2"),
        ("a.conllu", "1\tRome\n", "line 1"),
    ],
)
def test_the_line_of_a_mistake_in_other_formats(
    refused: Any, folder: Path, name: str, text: str, what: str
) -> None:
    (folder / name).write_text(text)
    for command in READERS:
        refused(*command, name, names=[f"{name}, {what}"])


# ---- labels of the development data that training does not have


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
def test_a_label_that_only_dev_has(refused: Any, folder: Path, name: str) -> None:
    text, line = DEV[name]
    (folder / f"dev.{name}").write_text(text)
    columns = ["--columns", "0"] if name == "middle.conll" else []
    where = f"dev.{name}, line {line}: label 'B-town' does not occur"
    refused("train", "train.conll", "--dev", f"dev.{name}", *columns, names=[where])


def test_a_label_in_a_chosen_column(refused: Any, folder: Path) -> None:
    (folder / "t.conll").write_text("play O x\nRome B-place x\n")
    (folder / "d.conll").write_text("play O B-town\nRome B-town x\n")
    options = ["--columns", "0", "--label", "1"]
    refused("train", "t.conll", "--dev", "d.conll", *options, names=["d.conll, line 2"])


# ---- models that cannot be read


USERS = [  # commands that take a model, which comes last but one
    ("tag", "{}", "test.conll"),
    ("eval", "{}", "test.conll"),
    ("report", "{}", "test.conll"),
    ("inspect", "{}"),
]


def with_model(command: tuple[str, ...], name: str) -> list[str]:
    return [part.format(name) for part in command]


@pytest.mark.parametrize("command", USERS, ids=lambda c: c[0])
def test_a_model_that_is_none(refused: Any, folder: Path, command: tuple[str, ...]) -> None:
    whole = (folder / "model.trellis").read_bytes()
    (folder / "half.trellis").write_bytes(whole[: len(whole) // 2])
    flipped = bytearray(whole)
    flipped[len(whole) * 2 // 3] ^= 1
    (folder / "flipped.trellis").write_bytes(flipped)
    (folder / "empty.trellis").write_bytes(b"")
    (folder / "sub").mkdir()
    for name in ("half", "flipped", "empty"):
        refused(*with_model(command, f"{name}.trellis"), names=[f"{name}.trellis: "])
    for name in ("nosuch", "train.conll", "sub"):
        refused(*with_model(command, name), names=[f"{name}: "])


def test_a_model_that_labels_no_sequences(refused: Any, folder: Path) -> None:
    SoftmaxRegression().fit([[0.0], [1.0]], ["a", "b"]).save(folder / "softmax.trellis")
    for command in USERS:
        refused(*with_model(command, "softmax.trellis"), names=["softmax.trellis: "])


def test_a_checkpoint_is_no_model(refused: Any, run: Run, folder: Path) -> None:
    from trellis import CRF
    from trellis.models.checkpoint import Checkpoint

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
    refused("tag", "two.trellis", "one.conll", names=["one.conll", "columns: 1", "2"])
    for format, text in (("text", "Rome"), ("jsonl", '{"tokens": ["Rome"]}'), ("tokens", "Rome")):
        (folder / "one").write_text(text)
        refused("tag", "two.trellis", "--format", format, "one", names=["one", "2 columns"])


# ---- output that cannot be written


WRITERS = [
    ("train", "train.conll", "-o"),
    ("tag", "model.trellis", "test.conll", "-o"),
    ("report", "model.trellis", "test.conll", "-o"),
    ("convert", "train.conll"),
    ("demo", "-o"),
]


@pytest.mark.parametrize("command", WRITERS[:-1], ids=lambda c: c[0])
def test_output_that_cannot_be_written(
    refused: Any, folder: Path, command: tuple[str, ...]
) -> None:
    (folder / "sub.jsonl").mkdir()
    refused(*command, "nosuch/new.jsonl", names=["nosuch"])
    refused(*command, "sub.jsonl", names=["sub.jsonl"])
    refused(*command, "test.conll/new.jsonl", names=["test.conll"])


def test_a_demo_that_cannot_be_written(refused: Any, folder: Path) -> None:
    refused("demo", "-o", "test.conll", names=["test.conll"])
    refused("demo", "-o", "test.conll/sub", names=["test.conll"])


def test_what_is_wrong_with_the_output_is_said_before_the_work(refused: Any, folder: Path) -> None:
    """A missing folder comes before a mistake in the data."""
    (folder / "bad.conll").write_text("a O\nb\n")
    refused("train", "bad.conll", "-o", "nosuch/new.trellis", names=["nosuch"])
    refused("tag", "model.trellis", "bad.conll", "-o", "nosuch/new.conll", names=["nosuch"])
    refused("report", "model.trellis", "bad.conll", "-o", "nosuch/new.html", names=["nosuch"])


def test_output_that_is_no_regular_file(refused: Any, folder: Path) -> None:
    (folder / "bad.conll").write_text("a O\nb\n")
    os.mkfifo(folder / "pipe")
    for name in ("/dev/null", "pipe"):
        refused("train", "bad.conll", "-o", name, names=[name])


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "train.conll", "test.conll", "-o", "test.conll"],
        ["train", "train.conll", "-o", "./sub/../train.conll"],
        ["train", "train.conll", "--dev", "test.conll", "-o", "test.conll"],
        ["train", "train.conll", "-o", "link"],
        ["report", "model.trellis", "test.conll", "-o", "test.conll"],
        ["report", "model.trellis", "test.conll", "-o", "model.trellis"],
    ],
    ids=typed,
)
def test_output_does_not_take_the_place_of_the_input(
    refused: Any, folder: Path, arguments: list[str]
) -> None:
    (folder / "sub").mkdir()
    (folder / "link").symlink_to("train.conll")
    refused(*arguments, names=[arguments[-1]])


def test_a_mistake_leaves_an_earlier_output_as_it_was(refused: Any, folder: Path) -> None:
    (folder / "bad.conll").write_text("\n".join([*rows(100_000), "alone"]))
    (folder / "earlier").write_text("precious")
    refused("train", "bad.conll", "-o", "earlier", names=["bad.conll, line 100001"])
    refused("tag", "model.trellis", "bad.conll", "-o", "earlier", names=["line 100001"])
    refused("report", "model.trellis", "bad.conll", "-o", "earlier", names=["line 100001"])
    refused("convert", "bad.conll", "earlier", "--to", "jsonl", names=["line 100001"])


@pytest.mark.parametrize(
    ("rows", "target"),
    [
        ("play VB O\nRome NNP B-place\n", "new.md"),  # two columns
        ("play\tO\n\nNew York\tB-place\n", "new.md"),  # a space in a token
        ("play O\n\nRome B-place\nYork I-town\n", "new.md"),  # would come back as B-town
    ],
)
@pytest.mark.parametrize("earlier", [True, False])
def test_what_a_format_cannot_hold_is_not_half_written(
    refused: Any, folder: Path, rows: str, target: str, earlier: bool
) -> None:
    (folder / "odd.conll").write_text(rows)
    if earlier:
        (folder / target).write_text("precious")
    refused("convert", "odd.conll", target, names=["odd.conll", "sequence"])


# ---- options that cannot be


IMPOSSIBLE = [
    (["--l2", "-1"], "l2"),
    (["--l2", "nan"], "l2"),
    (["--l1", "inf"], "l1"),
    (["--l1", "1", "--model", "perceptron"], "l1"),
    (["--l1", "1", "--model", "sgd"], "l1"),
    (["--l2", "2", "--model", "arow"], "l2"),
    (["--l2", "2", "--model", "perceptron"], "l2"),
    (["--tune", "2", "--model", "perceptron"], "perceptron"),
    (["--tune", "-1"], "-1"),
    (["--features", "chunking"], "--features chunking needs 2 columns, not 1"),
    (["--features", "nosuch"], "'nosuch'"),
    (["--model", "nosuch"], "'nosuch'"),
    (["--format", "nosuch"], "'nosuch'"),
    (["--format", "text"], "'text'"),
    (["--solver", "nosuch"], "'nosuch'"),
    (["--states", "nosuch"], "'nosuch'"),
    (["--transitions", "nosuch"], "'nosuch'"),
    (["--constraints", "nosuch"], "'nosuch'"),
    (["--solver", "sgd", "--model", "arow"], "--solver"),
    (["--solver", "arow", "--model", "memm"], "arow"),
    (["--columns", "7"], "column 7"),
    (["--columns", "1"], "column 1"),
    (["--label", "7"], "column 7"),
    (["--label", "word"], "'word'"),
    (["--patience", "3"], "--dev"),
    (["--patience", "0", "--dev", "test.conll"], "0"),
    (["--dev-every", "0", "--dev", "test.conll"], "every"),
    (["--checkpoint-every", "0"], "every"),
    (["--max-iter", "-1"], "-1"),
    (["--min-count", "-1"], "-1"),
    (["--jobs", "0"], "jobs"),
    (["--seed", "-1", "--model", "perceptron"], "-1"),
    (["--template", "nosuch"], "nosuch: No such file"),
    (["--template", "train.conll"], "train.conll, line 1"),
    (["--template", "model.trellis"], "model.trellis"),
    (["--gazetteer", "city=nosuch"], "nosuch: No such file"),
    (["--gazetteer", "city=train.conll", "--features", "pos"], "--gazetteer"),
]


@pytest.mark.parametrize(("options", "what"), IMPOSSIBLE, ids=typed)
def test_impossible_options_of_train(refused: Any, options: list[str], what: str) -> None:
    refused("train", "train.conll", "-o", "new.trellis", *options, names=[what])


def test_labels_that_the_constraints_forbid(refused: Any, folder: Path) -> None:
    (folder / "first.conll").write_text("Rome U-place\n\n")
    (folder / "odd.conll").write_text("in O\nRome B-place\nsleeps O\n")
    files = ["first.conll", "odd.conll"]
    refused("train", *files, "--constraints", "BILOU", names=["odd.conll", "'O'", "'B-place'"])


@pytest.mark.parametrize(
    "options",
    [
        ["--l2", "1"],
        ["--l2", "0"],
        ["--l1", "0"],
        ["--solver", "lbfgs"],
        ["--max-iter", "3"],
        ["--min-count", "2"],
        ["--states", "all"],
        ["--transitions", "seen"],
        ["--constraints", "auto"],
        ["--tune", "2"],
        ["--patience", "2", "--dev", "test.conll"],
        ["--resume"],
    ],
    ids=typed,
)
def test_an_hmm_has_nothing_to_optimise(refused: Any, options: list[str]) -> None:
    refused("train", "train.conll", "-o", "new.trellis", "-m", "hmm", *options, names=[options[0]])


@pytest.mark.parametrize("also", [["--features", "ner"], ["--gazetteer", "city=train.conll"]])
def test_a_template_says_all(refused: Any, folder: Path, also: list[str]) -> None:
    (folder / "words.template").write_text("U00:%x[0,0]\nB\n")
    refused("train", "train.conll", "--template", "words.template", *also, names=[also[0]])


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--output", "nosuch"], "'nosuch'"),
        (["--format", "nosuch"], "'nosuch'"),
        (["--columns", "0,1"], "1 column"),
        (["--columns", "7"], "test.conll, line 1: columns: 2, but 8"),
        (["--jobs", "0"], "jobs"),
    ],
)
def test_impossible_options_of_tag(refused: Any, options: list[str], what: str) -> None:
    refused("tag", "model.trellis", "test.conll", *options, names=[what])


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["eval", "model.trellis", "test.conll", "--format", "text"], "'text'"),
        (["inspect", "model.trellis", "--label", "nosuch"], "'nosuch'"),
        (["convert", "train.conll", "new.jsonl", "--scheme", "nosuch"], "'nosuch'"),
        (["convert", "train.conll", "new.jsonl", "--from", "nosuch"], "'nosuch'"),
        (["convert", "train.conll", "new.jsonl", "--to", "conllu"], "'conllu'"),
        (["convert", "train.conll", "new.txt"], "new.txt"),
        (["convert", "train.conll", "new.xyz"], "new.xyz"),
    ],
    ids=typed,
)
def test_impossible_options_of_the_others(refused: Any, arguments: list[str], what: str) -> None:
    refused(*arguments, names=[what])


def test_labels_of_no_scheme_cannot_be_converted(refused: Any, folder: Path) -> None:
    (folder / "pos.conll").write_text("Rome NOUN\nsleeps VERB\n")
    refused("convert", "pos.conll", "new.conll", "--scheme", "BILOU", names=["pos.conll", "BILOU"])


@pytest.mark.parametrize(
    "arguments",
    [
        ["nosuch"],
        ["train"],
        ["tag"],
        ["eval", "model.trellis"],
        ["convert", "train.conll"],
        ["train", "train.conll", "--nosuch"],
        ["train", "train.conll", "--l2", "much"],
        ["train", "train.conll", "--tune", "1.5"],
        ["train", "train.conll", "--columns", "a"],
        ["train", "train.conll", "--columns", ""],
        ["train", "train.conll", "--columns", "0,,1"],
        ["train", "train.conll", "--gazetteer", "city"],
        ["train", "train.conll", "--gazetteer", "=file"],
        ["tag", "model.trellis", "--columns", "0;1"],
        ["tag", "model.trellis", "--kbest", "many"],
        ["tag", "model.trellis", "--kbest", "-1"],
        ["eval", "model.trellis", "test.conll", "--worst", "-1"],
        ["eval", "model.trellis", "test.conll", "--confusions", "-1"],
        ["inspect", "model.trellis", "--top", "-1"],
    ],
    ids=typed,
)
def test_a_command_that_is_not_understood(misused: Any, arguments: list[str]) -> None:
    misused(*arguments)


# ---- as a shell sees it


@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        (["convert", "nosuch.conll", "a.jsonl"], 1, "trellis: nosuch.conll: No such file"),
        (["train", "train.conll", "--nosuch"], 2, "--nosuch"),
    ],
    ids=typed,
)
def test_exit_codes_and_streams(folder: Path, arguments: list[str], code: int, what: str) -> None:
    before = tree(folder)
    ran = process(*arguments, folder=folder)
    assert (ran.code, ran.out) == (code, "")
    assert what in ran.err
    assert "Traceback" not in ran.err
    assert not re.search(r"\x1b|\r", ran.err)
    assert tree(folder) == before


def test_help_and_version_are_no_errors(folder: Path) -> None:
    from trellis import __version__

    assert process("--version", folder=folder) == (0, f"trellis {__version__}\n", "")
    ran = process("train", "--help", folder=folder)
    assert ran.code == 0
    assert "--checkpoint-every" in ran.out
