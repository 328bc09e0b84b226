"""Closed, full and broken standard streams: one line on standard error and an exit code."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from commands import COMMAND, typed

# Commands that write to standard output, and those that write only files and messages.
PRINTING = [
    ["tag", "model.trellis", "test.conll"],
    ["eval", "model.trellis", "train.conll"],
    ["eval", "model.trellis", "train.conll", "--json"],
    ["inspect", "model.trellis"],
    ["inspect", "model.trellis", "--json"],
    ["neighbors", "words.vec", "a"],
    ["similarity", "words.vec", "a", "b"],
    ["analogy", "words.vec", "a", "b", "c"],
    ["classify", "classes.trellis", "lines.txt"],
    ["ctc", "decode", "scores.npy", "--labels", "labels.txt"],
    ["ctc", "align", "scores.npy", "--labels", "labels.txt", "--reference", "reference.txt"],
    ["--help"],
    ["tag", "--help"],
    ["--version"],
]
WRITING = [
    ["train", "train.conll", "-o", "new.trellis", "--max-iter", "2"],
    ["convert", "train.conll", "new.jsonl"],
    ["tag", "model.trellis", "test.conll", "-o", "new.conll"],
    ["embed", "lines.txt", "-o", "new.vec", "--min-count", "1", "--dim", "2", "-j", "1"],
    ["report", "model.trellis", "test.conll", "-o", "new.html"],
]
READING = [["tag", "model.trellis"], ["classify", "classes.trellis"], ["neighbors", "words.vec"]]


@pytest.fixture
def files(folder: Path) -> Path:
    """A folder with the input files of all commands."""
    import numpy as np

    from trellis import TextClassifier

    (folder / "words.vec").write_text("a 1 0\nb 0 1\nc 1 1\nd 1 2\n")
    (folder / "lines.txt").write_text("__label__x a rose is a rose\n__label__y two three\n" * 20)
    TextClassifier(2, min_count=1, epochs=1, n_jobs=1).fit(folder / "lines.txt").save(
        folder / "classes.trellis"
    )
    (folder / "labels.txt").write_text("_\na\nb\n")
    (folder / "reference.txt").write_text("ab\n")
    np.save(folder / "scores.npy", np.log(np.full((6, 3), 1 / 3)))
    return folder


def shell(folder: Path, arguments: list[str], redirection: str) -> tuple[int, str]:
    """Run a command with the redirection of a shell; return its exit code and standard error."""
    line = " ".join([*COMMAND, *arguments])
    completed = subprocess.run(
        ["bash", "-c", f"{line} 2>errors.log {redirection}"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        timeout=120,
    )
    errors = (folder / "errors.log").read_text()
    assert "Traceback" not in errors, errors
    assert "Exception ignored" not in errors, errors
    return completed.returncode, errors


@pytest.mark.parametrize("arguments", PRINTING, ids=typed)
def test_closed_or_full_output_of_commands_that_print(files: Path, arguments: list[str]) -> None:
    # The help of Typer ends without an error if standard output is closed.
    if "--help" not in arguments and "--version" not in arguments:
        assert shell(files, arguments, ">&-") == (1, "trellis: standard output is closed\n")
        both = "trellis: standard input and standard output are closed\n"
        assert shell(files, arguments, "<&- >&-") == (1, both)
    assert shell(files, arguments, "> /dev/full") == (1, "trellis: No space left on device\n")
    assert shell(files, arguments, "<&- >&- 2>&-")[0] in (0, 1)
    code, errors = shell(files, arguments, "| true")
    assert (code, errors) == (0, "")  # the exit code of `true`


@pytest.mark.parametrize("arguments", WRITING, ids=typed)
def test_commands_that_write_files_need_no_streams(files: Path, arguments: list[str]) -> None:
    new = files / next(word for word in arguments if word.startswith("new."))
    for redirection in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-", "2> /dev/full", "> /dev/full"):
        code, errors = shell(files, arguments, redirection)
        assert code == 0, errors
        data = new.read_bytes()
        assert data
        for message in (b" sequences, ", b" dimensions; "):  # a message in the place of the file
            assert message not in data[:100] or arguments[0] == "report"
        new.unlink()
        assert not list(files.glob(".*.tmp"))


@pytest.mark.parametrize("arguments", READING, ids=typed)
def test_closed_input(files: Path, arguments: list[str]) -> None:
    assert shell(files, arguments, "<&-") == (1, "trellis: standard input is closed\n")
    assert shell(files, arguments, "<&- 2>&-") == (1, "")
    both = "trellis: standard input and standard output are closed\n"
    assert shell(files, arguments, "<&- >&-") == (1, both)
    assert shell(files, arguments, "< /dev/null") == (0, "")


def test_errors_with_closed_streams(files: Path) -> None:
    """An error message does not appear on standard output if standard error is closed."""
    line = " ".join([*COMMAND, "tag", "absent.trellis", "test.conll"])
    completed = subprocess.run(
        ["bash", "-c", f"{line} 2>&-"], cwd=files, stdout=subprocess.PIPE, timeout=120
    )
    assert (completed.returncode, completed.stdout) == (1, b"")
    assert shell(files, ["tag", "absent.trellis"], "2> /dev/full")[0] == 1
    assert os.path.exists(files / "model.trellis")
