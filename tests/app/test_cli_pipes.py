"""Named pipes and process substitution in place of files: read once, or refused at once."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import COMMAND, Ran, process, typed

from trellis import CTCDecoder, TextClassifier, Vectors, Word2Vec, load
from trellis.data import conll, corpus, files, jsonl, text
from trellis.errors import FormatError, TrellisError
from trellis.formats import arpa, arrays, crfsuite, gensim, native

TIMEOUT = 100  # seconds; a reader that opens a pipe twice waits forever

ARPA = "\\data\\\nngram 1=3\n\n\\1-grams:\n-1\t<s>\n-1\t</s>\n-1\ta\n\n\\end\\\n"


@pytest.fixture
def inputs(folder: Path) -> Path:
    """A folder with input files of all commands."""
    (folder / "test.txt").write_text("lunch with Ann\nat noon\n" * 2000)
    (folder / "test.jsonl").write_text("")
    jsonl.write(folder / "test.jsonl", *conll.read(folder / "train.conll"))
    (folder / "words.vec").write_text("a 1 0\nb 0 1\nc 1 1\n")
    (folder / "lines.txt").write_text("__label__x a rose is a rose\n__label__y two three\n" * 20)
    classifier = TextClassifier(2, min_count=1, epochs=1, n_jobs=1, random_state=0)
    classifier.fit(folder / "lines.txt").save(folder / "classes.trellis")
    (folder / "labels.txt").write_text("_\na\nb\n")
    (folder / "labels.json").write_text('["_", "a", "b"]')
    (folder / "words.txt").write_text("a\nab\n")
    (folder / "reference.txt").write_text("ab\n")
    (folder / "questions.txt").write_text(": x\na b a b\n")
    (folder / "pairs.txt").write_text("a b 1\na c 2\n")
    (folder / "lm.arpa").write_text(ARPA)
    (folder / "crfpp.txt").write_text("U00:%x[0,0]\nB\n")
    (folder / "wapiti.txt").write_text('u:first=%x[0,0]\nb:%m[0,0,"^."]\n')
    (folder / "dev.conll").write_bytes((folder / "train.conll").read_bytes())
    np.save(folder / "scores.npy", np.log(np.full((6, 3), 1 / 3)))
    return folder


def feed(pipe: Path, content: bytes) -> threading.Thread:
    """Write into a named pipe, once, as `cat file > pipe` does."""

    def write() -> None:
        with open(pipe, "wb") as file:
            file.write(content)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    return writer


READING = [
    (["tag", "model.trellis", "test.conll"], "test.conll"),
    (["tag", "model.trellis", "test.txt"], "test.txt"),
    (["tag", "model.trellis", "test.jsonl", "--format", "jsonl"], "test.jsonl"),
    (["eval", "model.trellis", "dev.conll", "--json"], "dev.conll"),
    (["eval", "model.trellis", "test.jsonl", "--json"], "test.jsonl"),
    (["classify", "classes.trellis", "lines.txt"], "lines.txt"),
    (["classify", "classes.trellis", "--test", "lines.txt"], "lines.txt"),
    (["analogy", "words.vec", "--test", "questions.txt"], "questions.txt"),
    (["similarity", "words.vec", "--test", "pairs.txt"], "pairs.txt"),
    (["ctc", "decode", "scores.npy", "--labels", "labels.txt"], "scores.npy"),
    (["ctc", "decode", "scores.npy", "--labels", "labels.txt"], "labels.txt"),
    (["ctc", "decode", "scores.npy", "--labels", "labels.txt", "--lm", "lm.arpa"], "lm.arpa"),
    (["ctc", "decode", "scores.npy", "--labels", "labels.json"], "labels.json"),
    (["ctc", "decode", "scores.npy", "-l", "labels.txt", "--lexicon", "words.txt"], "words.txt"),
    (["ctc", "decode", "scores.npy", "-l", "labels.txt", "--hotwords", "words.txt"], "words.txt"),
    (
        ["train", "train.conll", "--gazetteer", "g=words.txt", "-o", "new.trellis", "-q"],
        "words.txt",
    ),
    (
        ["ctc", "align", "scores.npy", "-l", "labels.txt", "--reference", "reference.txt"],
        "reference.txt",
    ),
    (["train", "train.conll", "-o", "new.trellis", "-q", "--max-iter", "3"], "train.conll"),
    (
        [
            "train",
            "train.conll",
            "--dev",
            "dev.conll",
            "-o",
            "new.trellis",
            "-q",
            "--max-iter",
            "3",
        ],
        "dev.conll",
    ),
    (
        ["train", "train.conll", "--template", "crfpp.txt", "-o", "new.trellis", "-q"],
        "crfpp.txt",
    ),
    (
        ["train", "train.conll", "--template", "wapiti.txt", "-o", "new.trellis", "-q"],
        "wapiti.txt",
    ),
    (["convert", "test.jsonl", "new.conll", "-q"], "test.jsonl"),
    (["report", "model.trellis", "test.conll", "-o", "new.html", "-q"], "test.conll"),
    (
        [
            "embed",
            "lines.txt",
            "-q",
            "--seed",
            "0",
            "-o",
            "new.vec",
            "--min-count",
            "1",
            "--dim",
            "2",
            "-j",
            "1",
        ],
        "lines.txt",
    ),
    (
        [
            "embed",
            "lines.txt",
            "-q",
            "--seed",
            "0",
            "-o",
            "new.bin",
            "--supervised",
            "--dim",
            "2",
            "-j",
            "1",
        ],
        "lines.txt",
    ),
]


def outcome(ran: Ran, folder: Path, *names: str) -> tuple[Any, ...]:
    """Return the output of a command and the file that it wrote, without the name of its input."""
    written = [path.read_bytes() for path in sorted(folder.glob("new.*"))]
    parts: list[Any] = [*ran, *written]
    for name in names:
        parts = [
            part.replace(name, "INPUT")
            if isinstance(part, str)
            else part.replace(name.encode(), b"INPUT")
            if isinstance(part, bytes)
            else part
            for part in parts
        ]
    for path in folder.glob("new.*"):
        path.unlink()
    return tuple(parts)


@pytest.mark.parametrize(("arguments", "name"), READING, ids=typed)
def test_a_pipe_gives_the_same_result_as_a_file(
    inputs: Path, arguments: list[str], name: str
) -> None:
    expected = outcome(process(*arguments, folder=inputs), inputs, name)
    assert expected[0] == 0, expected
    # The extension of the file is also that of the pipe, and without one the lines show the format.
    names = [f"pipe{Path(name).suffix}"]
    is_detected = arguments[0] in ("train", "eval", "convert", "report") or name == "labels.json"
    names += ["pipe"] if is_detected else []
    for pipe in names:
        os.mkfifo(inputs / pipe)
        writer = feed(inputs / pipe, (inputs / name).read_bytes())
        words = [pipe if word == name else word for word in arguments]
        words = [f"g={pipe}" if word == f"g={name}" else word for word in words]
        ran = process(*words, folder=inputs, timeout=TIMEOUT)
        writer.join(TIMEOUT)
        assert not writer.is_alive()
        assert outcome(ran, inputs, pipe) == expected
        (inputs / pipe).unlink()


@pytest.mark.parametrize(
    "line",
    [
        "tag model.trellis --format conll <(cat test.conll)",
        "tag model.trellis --format conll <(gzip -c test.conll)",
        "tag model.trellis --format conll <(xz -c test.conll)",
        "tag model.trellis --format conll - < <(cat test.conll)",
        "tag model.trellis --format conll /dev/stdin < test.conll",
    ],
)
def test_process_substitution(inputs: Path, line: str) -> None:
    expected = process("tag", "model.trellis", "test.conll", folder=inputs)
    completed = subprocess.run(
        ["bash", "-c", f"{' '.join(COMMAND)} {line}"],
        cwd=inputs,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        stdin=subprocess.DEVNULL,
    )
    assert (completed.returncode, completed.stdout, completed.stderr) == expected


def test_pipes_are_opened_in_their_turn(inputs: Path) -> None:
    """One process writes the first pipe and then the second; a third file is missing."""
    lines = (inputs / "test.conll").read_bytes()
    for name in ("one.conll", "two.conll"):
        os.mkfifo(inputs / name)

    def write() -> None:
        for name in ("one.conll", "two.conll"):
            (inputs / name).write_bytes(lines)

    writer = threading.Thread(target=write, daemon=True)
    ran = process("tag", "model.trellis", "one.conll", "absent", folder=inputs, timeout=TIMEOUT)
    assert (ran.code, ran.out) == (1, "")
    assert "absent: No such file" in ran.err
    writer.start()
    ran = process("tag", "model.trellis", "one.conll", "two.conll", folder=inputs, timeout=TIMEOUT)
    writer.join(TIMEOUT)
    assert ran.out == 2 * process("tag", "model.trellis", "test.conll", folder=inputs).out


REFUSED = [
    ["tag", "pipe", "test.conll"],
    ["eval", "pipe", "test.conll"],
    ["inspect", "pipe"],
    ["report", "pipe", "test.conll", "-o", "new.html"],
    ["convert", "pipe", "new.trellis"],
    ["convert", "pipe", "new.crfsuite"],
    ["classify", "pipe", "lines.txt"],
    ["neighbors", "pipe", "a"],
    ["similarity", "pipe", "a", "b"],
    ["analogy", "pipe", "a", "b", "c"],
    ["train", "train.conll", "--model", "neural", "--vectors", "pipe", "-o", "new.trellis"],
]


@pytest.mark.parametrize("arguments", REFUSED, ids=typed)
def test_pipes_devices_and_folders_are_not_models(inputs: Path, arguments: list[str]) -> None:
    os.mkfifo(inputs / "pipe")  # nobody writes to it: opening it would wait forever
    (inputs / "sub").mkdir()
    for name in ("pipe", "/dev/null", "/dev/zero", "sub"):
        words = [name if word == "pipe" else word for word in arguments]
        ran = process(*words, folder=inputs, timeout=TIMEOUT)
        assert ran.code == 1
        assert ran.err.startswith(f"trellis: {name}: not a regular file")
        assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    "read",
    [
        load,
        native.read,
        Vectors.load,
        Word2Vec.load,
        TextClassifier.load,
        crfsuite.read,
        gensim.read,
    ],
)
def test_functions_refuse_a_pipe_in_place_of_a_model(
    tmp_path: Path, read: Callable[[Path], Any]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FormatError, match=r"pipe: not a regular file"):
        read(tmp_path / "pipe")


FUNCTIONS: list[tuple[Callable[[Path], Any], bytes]] = [
    (corpus.read, b"a O\nb B-X\n"),
    (corpus.read, b'{"tokens": ["a"], "tags": ["O"]}\n'),
    (corpus.read, b"# comment\n" * 50_000 + b"call [Ann](person)\n"),
    (conll.read, b"a O\nb B-X\n"),
    (text.read, b"a b\n"),
    (lambda path: arpa.read(path).score("a"), ARPA.encode()),
    (lambda path: b"".join(files.blocks(path)), b"a b\n" * 100_000),
    (lambda path: CTCDecoder(["_", "a"], lm=path) and 1, ARPA.encode()),
]


@pytest.mark.parametrize("number", range(len(FUNCTIONS)))
def test_functions_read_a_pipe_once(tmp_path: Path, number: int) -> None:
    read, content = FUNCTIONS[number]
    (tmp_path / "file").write_bytes(content)
    os.mkfifo(tmp_path / "pipe")
    writer = feed(tmp_path / "pipe", content)
    result = read(tmp_path / "pipe")
    writer.join(TIMEOUT)
    assert not writer.is_alive()
    assert result == read(tmp_path / "file")


def test_arrays_from_a_pipe(tmp_path: Path) -> None:
    np.save(tmp_path / "file.npy", np.eye(3))
    os.mkfifo(tmp_path / "pipe.npy")
    feed(tmp_path / "pipe.npy", (tmp_path / "file.npy").read_bytes())
    assert (arrays.read(tmp_path / "pipe.npy")["pipe"] == np.eye(3)).all()


def test_damaged_input_in_a_pipe_names_the_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    feed(tmp_path / "pipe", b"a O\n\xff O\n")
    with pytest.raises(TrellisError, match=r"pipe, line 2: not utf-8"):
        corpus.read(tmp_path / "pipe")
