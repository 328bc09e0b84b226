"""`trellis ctc` with wrong input: one line that names the file, and exit code 1 or 2."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Ran

Run = Callable[..., Ran]

LABELS = ["", " ", "a", "b"]
DECODE = ("ctc", "decode", "-l", "labels.txt")
ALIGN = ("ctc", "align", "-l", "labels.txt", "--reference", "said.txt")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", np.log(np.full((6, 4), 0.25)))
    (tmp_path / "labels.txt").write_text("\n".join(LABELS) + "\n")
    (tmp_path / "said.txt").write_text("a b\n")
    return tmp_path


def write(folder: Path, name: str, array: Any) -> str:
    np.save(folder / name, array)
    return name


@pytest.mark.parametrize("command", [DECODE, ALIGN], ids=["decode", "align"])
def test_invalid_emissions_are_refused(
    refused: Any, folder: Path, command: tuple[str, ...]
) -> None:
    bad = np.zeros((6, 4))
    bad[3, 1] = np.nan
    (folder / "text.npy").write_text("not an array, but a text\n")
    cases = {
        "nosuch.npy": "nosuch.npy: No such file",
        "text.npy": "text.npy: ",
        write(folder, "three.npy", np.zeros((6, 3))): "(6, 3), must be (frames, 4) for 4 labels",
        write(folder, "empty.npy", np.zeros((0, 4))): "(0, 4)",
        write(folder, "flat.npy", np.zeros(4)): "(4,)",
        write(folder, "ints.npy", np.zeros((6, 4), int)): "int64",
        write(folder, "nan.npy", bad): "frame 3, label 1 is nan",
        "labels.txt": "labels.txt: ",
    }
    for name, message in cases.items():
        refused(*command, name, names=[name, message])


def test_invalid_lengths_are_refused(refused: Any, folder: Path) -> None:
    stack = np.zeros((2, 5, 4))
    for n, lengths in enumerate(([5], [5, 6], [5.0, 5.0], [5, 0], [5, -1])):
        np.savez(folder / f"{n}.npz", stack=stack, lengths=lengths)
        refused(*DECODE, f"{n}.npz", names=["stack"])
    np.savez(folder / "only.npz", lengths=[3])
    refused(*DECODE, "only.npz", names=["only.npz: the file contains no utterance"])


def test_invalid_label_files_are_refused(refused: Any, folder: Path) -> None:
    cases = {
        "none.txt": (None, "No such file"),
        "broken.json": ('["a", ', "not JSON"),
        "number.json": ("7", "must contain a list"),
        "mixed.json": ('["a", 1]', "must contain a list"),
        "gap.json": ('{"a": 0, "b": 2}', "indices"),
        "text.json": ('{"a": "b"}', "indices"),
        "twice.json": (json.dumps(["", "a", "a", " "]), "'a'"),
        "blankless.json": (json.dumps(["a", "b", "c", " "]), "blank"),
        "latin.txt": (b"\xff\xfe", "latin.txt, line 1"),
    }
    for name, (content, message) in cases.items():
        if content is not None:
            data = content if isinstance(content, bytes) else content.encode()
            (folder / name).write_bytes(data)
        refused("ctc", "decode", "x.npy", "-l", name, names=[message])


def test_blank_option(run: Run, refused: Any, folder: Path) -> None:
    (folder / "l.txt").write_text("-\n \na\nb\n")
    assert run("ctc", "decode", "x.npy", "-l", "l.txt", "--blank", 0).code == 0
    refused("ctc", "decode", "x.npy", "-l", "l.txt", "--blank", 4, names=["blank is 4"])


def test_invalid_references_are_refused(run: Run, refused: Any, folder: Path) -> None:
    (folder / "two.txt").write_text("a\nb\n")
    (folder / "empty.txt").write_text("\n")
    refused(*DECODE, "x.npy", "--reference", "nosuch.txt", names=["nosuch.txt"])
    refused(*DECODE, "x.npy", "--reference", "two.txt", names=["two.txt: the file has 2 lines"])
    refused(*DECODE, "x.npy", "--reference", "empty.txt", names=["no word"])
    refused(
        "ctc", "align", "x.npy", "x.npy", "-l", "labels.txt", "--text", "a", names=["--reference"]
    )
    refused("ctc", "align", "x.npy", "-l", "labels.txt", names=["--text", "--reference"])
    refused(*ALIGN, "x.npy", "--text", "a", names=["--text", "--reference"])


def test_texts_that_cannot_be_aligned(refused: Any, folder: Path) -> None:
    command = ("ctc", "align", "x.npy", "-l", "labels.txt", "--text")
    refused(*command, "a c", names=["x.npy: ", "'c'"])
    refused(*command, "a b a b a b a", names=["x.npy: ", "6 frames"])


def test_invalid_word_files_are_refused(refused: Any, folder: Path) -> None:
    (folder / "broken.arpa").write_text("\\data\\\nngram 1=one\n")
    (folder / "words.txt").write_text("xyz\n")
    refused(*DECODE, "x.npy", "--lm", "broken.arpa", names=["broken.arpa, line 2"])
    refused(*DECODE, "x.npy", "--lm", "nosuch.arpa", names=["nosuch.arpa"])
    refused(*DECODE, "x.npy", "--lexicon", "words.txt", names=["xyz"])
    refused(*DECODE, "x.npy", "--lexicon", "nosuch.txt", names=["nosuch.txt"])
    refused(*DECODE, "x.npy", "--hotwords", "nosuch.txt", names=["nosuch.txt"])


def test_invalid_numbers_are_refused(refused: Any, misused: Any, folder: Path) -> None:
    refused(*DECODE, "x.npy", "--beam", 0, names=["beam_width is 0"])
    refused(*DECODE, "x.npy", "--units", "bits", names=["'bits'"])
    refused(*DECODE, "x.npy", "--jobs", 0, names=["n_jobs is 0"])
    refused(*DECODE, "x.npy", "--frame", 0, names=["--frame is 0.0"])
    refused(*ALIGN, "x.npy", "--frame", "nan", names=["--frame is nan"])
    misused(*DECODE, "x.npy", "-k", 0)
    misused(*DECODE, "x.npy", "--alpha", "much")
    misused(*DECODE)
    misused("ctc", "decode", "x.npy")
    misused("ctc", "sing", "x.npy")


def test_without_jiwer(
    refused: Any, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jiwer", None)
    refused(*DECODE, "x.npy", "--reference", "said.txt", names=["jiwer", "trellis[speech]"])
    assert run(*DECODE, "x.npy").code == 0
