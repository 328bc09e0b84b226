"""Wrong outputs and options: one line of error, a nonzero exit code, no new files."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from commands import process, rows, tree, typed

from trellis import __version__

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


def test_output_errors_are_reported_before_the_work(refused: Any, folder: Path) -> None:
    """A missing output folder is reported before an error in the data."""
    (folder / "bad.conll").write_text("a O\nb\n")
    refused("train", "bad.conll", "-o", "nosuch/new.trellis", names=["nosuch"])
    refused("tag", "model.trellis", "bad.conll", "-o", "nosuch/new.conll", names=["nosuch"])
    refused("report", "model.trellis", "bad.conll", "-o", "nosuch/new.html", names=["nosuch"])


def test_output_that_is_not_a_regular_file(refused: Any, folder: Path) -> None:
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
def test_output_must_not_overwrite_an_input(
    refused: Any, folder: Path, arguments: list[str]
) -> None:
    (folder / "sub").mkdir()
    (folder / "link").symlink_to("train.conll")
    refused(*arguments, names=[arguments[-1].removeprefix("./")])


def test_an_error_leaves_an_earlier_output_unchanged(refused: Any, folder: Path) -> None:
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
        ("play O\n\nRome B-place\nYork I-town\n", "new.md"),  # would be read as B-town
    ],
)
@pytest.mark.parametrize("earlier", [True, False])
def test_data_that_a_format_cannot_hold_are_not_written(
    refused: Any, folder: Path, rows: str, target: str, earlier: bool
) -> None:
    (folder / "odd.conll").write_text(rows)
    if earlier:
        (folder / target).write_text("precious")
    refused("convert", "odd.conll", target, names=["odd.conll", "sequence"])


# ---- wrong options


INVALID = [
    (["--l2", "-1"], "l2"),
    (["--l2", "nan"], "l2"),
    (["--l1", "inf"], "l1"),
    (["--l1", "1", "--model", "perceptron"], "l1"),
    (["--l1", "1", "--model", "sgd"], "l1"),
    (["--l2", "2", "--model", "arow"], "l2"),
    (["--l2", "2", "--model", "perceptron"], "l2"),
    (["--tune", "2", "--model", "perceptron"], "perceptron"),
    (["--tune", "-1"], "-1"),
    (["--features", "chunking"], "--features chunking needs 2 columns, the data have 1"),
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
    (["--gazetteer", "city=train.conll", "--features", "chunking"], "--gazetteer"),
]


@pytest.mark.parametrize(("options", "message"), INVALID, ids=typed)
def test_invalid_options_of_train(refused: Any, options: list[str], message: str) -> None:
    refused("train", "train.conll", "-o", "new.trellis", *options, names=[message])


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
def test_options_of_solvers_do_not_apply_to_an_hmm(refused: Any, options: list[str]) -> None:
    refused("train", "train.conll", "-o", "new.trellis", "-m", "hmm", *options, names=[options[0]])


@pytest.mark.parametrize("also", [["--features", "ner"], ["--gazetteer", "city=train.conll"]])
def test_a_template_excludes_other_feature_options(
    refused: Any, folder: Path, also: list[str]
) -> None:
    (folder / "words.template").write_text("U00:%x[0,0]\nB\n")
    refused("train", "train.conll", "--template", "words.template", *also, names=[also[0]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--output", "nosuch"], "'nosuch'"),
        (["--format", "nosuch"], "'nosuch'"),
        (["--columns", "0,1"], "the model needs 1, but 2"),
        (["--columns", "7"], "test.conll, line 1: the row has 2 columns, but 8"),
        (["--jobs", "0"], "jobs"),
    ],
)
def test_invalid_options_of_tag(refused: Any, options: list[str], message: str) -> None:
    refused("tag", "model.trellis", "test.conll", *options, names=[message])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["eval", "model.trellis", "test.conll", "--format", "text"], "'text'"),
        (["inspect", "model.trellis", "--label", "nosuch"], "'nosuch'"),
        (["convert", "train.conll", "new.jsonl", "--scheme", "nosuch"], "'nosuch'"),
        (["convert", "train.conll", "new.jsonl", "--from", "nosuch"], "'nosuch'"),
        (["convert", "train.conll", "new.jsonl", "--to", "conllu"], "add --to conll, jsonl"),
        (["convert", "train.conll", "new.txt"], "new.txt"),
        (["convert", "train.conll", "new.xyz"], "new.xyz"),
    ],
    ids=typed,
)
def test_invalid_options_of_other_commands(
    refused: Any, arguments: list[str], message: str
) -> None:
    refused(*arguments, names=[message])


def test_labels_without_a_scheme_cannot_be_converted(refused: Any, folder: Path) -> None:
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
def test_wrong_usage(misused: Any, arguments: list[str]) -> None:
    misused(*arguments)


# ---- in a separate process


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["convert", "nosuch.conll", "a.jsonl"], 1, "trellis: nosuch.conll: No such file"),
        (["train", "train.conll", "--nosuch"], 2, "--nosuch"),
    ],
    ids=typed,
)
def test_exit_codes_and_streams(
    folder: Path, arguments: list[str], code: int, message: str
) -> None:
    before = tree(folder)
    ran = process(*arguments, folder=folder)
    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err
    assert "Traceback" not in ran.err
    assert not re.search(r"\x1b|\r", ran.err)
    assert tree(folder) == before


def test_help_and_version_exit_with_zero(folder: Path) -> None:
    assert process("--version", folder=folder) == (0, f"trellis {__version__}\n", "")
    ran = process("train", "--help", folder=folder)
    assert ran.code == 0
    assert "--checkpoint-every" in ran.out
