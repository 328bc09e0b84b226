"""`trellis ngram`."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import COMMAND, Ran

from trellis import NGramTrainer
from trellis.formats import arpa

LINES = ["the cat sat", "the dog sat", "a cat ran", ""]
FALLBACK = ("--discount-fallback", "0.5,1,1.5")
Run = Callable[..., Ran]


def expect(folder: Path, order: int = 5, **options: Any) -> bytes:
    """The file that the class writes."""
    NGramTrainer(order, discount_fallback=[0.5, 1, 1.5], **options).write(LINES, folder / "want")
    return (folder / "want").read_bytes()


@pytest.fixture(autouse=True)
def text(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("\n".join(LINES) + "\n")


def test_a_model(run: Run, tmp_path: Path) -> None:
    ran = run("ngram", "text.txt", "--order", 2, "-o", "lm.arpa.gz", *FALLBACK)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.splitlines()[0] == (
        "warning: the discounts of n-grams of length 2 cannot be estimated; "
        "those of --discount-fallback are used"
    )
    assert "lm.arpa.gz: 9 words in 4 lines, 6 different; n-grams 1: 9 2: 11; " in ran.err
    assert gzip.decompress((tmp_path / "lm.arpa.gz").read_bytes()) == expect(tmp_path, 2)
    assert arpa.read(tmp_path / "lm.arpa.gz").order == 2


def test_default_values(run: Run, tmp_path: Path) -> None:
    assert run("ngram", "text.txt", "-q", *FALLBACK) == Ran(0, "", "")
    assert (tmp_path / "lm.arpa").read_bytes() == expect(tmp_path)


def test_every_option(run: Run, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    options = ("--prune", "0,1", "--memory", "100K", "--folder", "folder", "--decimals", 3, "-j", 1)
    more = ("--characters", "--order", 3)
    assert run("ngram", "text.txt", "-o", "lm.arpa", "-q", *FALLBACK, *options, *more).code == 0
    expected = expect(tmp_path, 3, prune=[0, 1], decimals=3, characters=True)
    assert (tmp_path / "lm.arpa").read_bytes() == expected
    assert not os.listdir(tmp_path / "folder")


def test_symbols_in_the_text(run: Run, tmp_path: Path) -> None:
    (tmp_path / "symbols.txt").write_text("\n".join(f"<s> {line} </s>" for line in LINES))
    assert run("ngram", "symbols.txt", "-q", *FALLBACK).code == 1
    (tmp_path / "symbols.txt").write_text("\n".join(f"<s> {line} </s>" for line in LINES) + "\n")
    assert run("ngram", "symbols.txt", "-q", "--skip-symbols", *FALLBACK).code == 0
    assert (tmp_path / "lm.arpa").read_bytes() == expect(tmp_path)


def test_streams(tmp_path: Path) -> None:
    command = [*COMMAND, "ngram", "-", "--order", "3", "-o", "-", *FALLBACK]
    data = gzip.compress(("\n".join(LINES) + "\n").encode())
    done = subprocess.run(command, input=data, capture_output=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == expect(tmp_path, 3)


def test_several_files(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n".join(LINES[:2]))
    (tmp_path / "b.txt").write_text("\n".join(LINES[2:]) + "\n")
    assert run("ngram", "a.txt", "b.txt", "-q", *FALLBACK).code == 0
    assert (tmp_path / "lm.arpa").read_bytes() == expect(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ["text.txt"],
            1,
            "trellis: no 2-grams have the adjusted count 3, so the text",
        ),
        (["text.txt", "--order", "0"], 1, "trellis: order is 0: must be in 1..32"),
        (["none.txt"], 1, "trellis: none.txt: No such file or directory"),
        (["bad.txt"], 1, "trellis: bad.txt, line 2: '<s>' is not a word but a symbol"),
        (["empty.txt", *FALLBACK], 1, "trellis: the text has no words"),
        (["text.txt", "-o", "text.txt"], 1, "text.txt: cannot be written: it is also an input"),
        (["text.txt", "-o", "none/lm.arpa"], 1, "the folder none does not exist"),
        (["text.txt", "--memory", "9"], 1, "memory must be at least 65536, not 9"),
        (["text.txt", "--prune", "a"], 2, "--prune is 'a': must be numbers such as 0,0,1"),
        (
            ["text.txt", "--discount-fallback", "x"],
            2,
            "--discount-fallback is 'x': must be",
        ),
        ([], 2, "Missing argument 'FILE"),
    ],
)
def test_errors(run: Run, tmp_path: Path, arguments: list[str], code: int, message: str) -> None:
    (tmp_path / "bad.txt").write_text("a b\nc <s>\n")
    (tmp_path / "empty.txt").write_text("\n")
    ran = run("ngram", *arguments)
    assert ran.code == code
    assert message in ran.err
    assert not (tmp_path / "lm.arpa").exists()


def _limit_files() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit of the size of files")
def test_a_full_disk(tmp_path: Path) -> None:
    """The limit of the size of a file stands for the end of the disk."""
    words = " ".join(f"w{i * i % 997}" for i in range(20_000)).replace("w1 ", "w1\n")
    (tmp_path / "large.txt").write_text(words)
    (tmp_path / "folder").mkdir()
    options = ("--memory", "64K", "--folder", "folder", "-o", "lm.arpa", *FALLBACK)
    done = subprocess.run(
        [*COMMAND, "ngram", "large.txt", *options],
        cwd=tmp_path,
        capture_output=True,
        preexec_fn=_limit_files,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (1, b"trellis: folder: File too large\n")
    assert not os.listdir(tmp_path / "folder")
    assert not (tmp_path / "lm.arpa").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for processes")
def test_ctrl_c_leaves_no_files(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    command = [*COMMAND, "ngram", "-", "--memory", "64K", "--folder", "folder", "-o", "lm.arpa"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(b"some words and others\n" * 20_000)
    process.stdin.flush()
    while not os.listdir(tmp_path / "folder"):  # the training has started
        assert process.poll() is None, process.stderr.read()
    process.send_signal(signal.SIGINT)
    _, message = process.communicate(timeout=300)
    assert (process.returncode, message) == (130, b"trellis: interrupted\n")
    assert not os.listdir(tmp_path / "folder")
    assert sorted(os.listdir(tmp_path)) == ["folder", "text.txt"]
