"""Plain text, the rule for tokens, and the sources that every reader takes."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import random
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from corpus_files import find_corpus, needs_corpus
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples

from trellis.data import conll, files, text
from trellis.errors import FormatError, InputError

LINES = ["één twee", "", "drie \u2028 vier\x85", "vijf"]
SEQUENCES = [["één", "twee"], ["drie", "vier"], ["vijf"]]

# --- tokens -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "tokens"),
    [
        ("", []),
        (" \t\n\u3000", []),
        ("I'd like O’Neil's", ["I'd", "like", "O’Neil's"]),
        ("'tis 'quoted' dogs'", ["'", "tis", "'", "quoted", "'", "dogs", "'"]),
        ("$9.50, 3–4%", ["$", "9", ".", "50", ",", "3", "–", "4", "%"]),
        ("über_das naïve 東京", ["über_das", "naïve", "東", "京"]),
        ("...", [".", ".", "."]),
    ],
)
def test_tokenize(raw: str, tokens: list[str]) -> None:
    assert text.tokenize(raw) == tokens


@settings(max_examples=examples(200), deadline=None)
@given(st.text() | st.text("ab'’. \n_9", max_size=30))
def test_tokens_are_the_text_between_white_space(raw: str) -> None:
    places = text.offsets(raw)
    tokens = text.tokenize(raw)
    assert [raw[start:end] for start, end in places] == tokens
    assert "".join(tokens) == "".join(raw.replace("\u200b", " ").split())
    assert text.tokenize(" ".join(tokens)) == tokens
    edges = [0, *(edge for place in places for edge in place), len(raw)]
    assert edges == sorted(edges)


@needs_corpus("slots/snips.test.conll.gz")
def test_tokens_of_a_corpus_with_the_same_rule() -> None:
    path = find_corpus("slots/snips.test.conll.gz")
    for tokens, _ in conll.iterate(path):
        assert text.tokenize(" ".join(map(str, tokens))) == tokens


# --- sources ------------------------------------------------------------------------------------


def packed(suffix: str, content: bytes) -> bytes:
    return {"": lambda b: b, ".gz": gzip.compress, ".xz": lzma.compress}[suffix](content)


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.xz"])
@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_compression_is_detected_by_content(tmp_path: Path, name: str, suffix: str) -> None:
    path = tmp_path / name
    path.write_bytes(packed(suffix, "\n".join(LINES).encode()))
    assert text.read(path) == text.read(str(path)) == SEQUENCES
    with path.open("rb") as file:
        assert text.read(file) == SEQUENCES
        assert not file.closed


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_open_files_and_lines(end: str, mark: str) -> None:
    content = mark + (end or "\n").join(LINES) + end
    assert text.read(io.StringIO(content)) == SEQUENCES
    assert text.read(io.BytesIO(content.encode())) == SEQUENCES
    cut = [line + end for line in [mark + LINES[0], *LINES[1:]]]
    assert text.read(cut) == text.read(iter(cut)) == text.read(tuple(cut)) == SEQUENCES


def test_files_of_tempfile() -> None:
    for mode in ("w+", "w+b"):
        with tempfile.NamedTemporaryFile(mode, encoding=None if "b" in mode else "utf-8") as file:
            conll.write(file, [["é"]], [["O"]])  # type: ignore[arg-type]
            file.seek(0)
            assert conll.read(file) == ([["é"]], [["O"]])  # type: ignore[arg-type]


def test_a_pipe_is_read_as_it_fills() -> None:
    """The first sequence is returned while the writer still has the pipe open."""
    reading, writing = os.pipe()
    with open(reading, "rb") as source, open(writing, "wb", buffering=0) as target:
        target.write(b"one two\nthree\n")
        patience = threading.Timer(5, target.close)  # a reader that waits must fail, not hang
        patience.start()
        assert next(text.iterate(source)) == ["one", "two"]
        assert not target.closed
        patience.cancel()


def test_only_line_feeds_end_lines() -> None:
    odd = "a\x0bb\x0cc\x1cd\x85e\u2028f\rg"
    assert list(files.lines(io.BytesIO(f"{odd}\nh\r\n".encode()))) == [odd, "h"]
    assert list(files.lines([f"{odd}\n", "h\r\n"])) == [odd, "h"]


@settings(max_examples=examples(200), deadline=None)
@given(
    st.text("aé€\N{BROKEN HEART} \r\n", max_size=40),
    st.integers(1, 9),
    st.sampled_from(["utf-8", "utf-16", "utf-32-le"]),
    st.sampled_from(["", ".gz", ".xz"]),
)
def test_blocks_of_any_size_give_the_same_lines(
    content: str, size: int, encoding: str, suffix: str
) -> None:
    file = io.BytesIO(packed(suffix, content.encode(encoding)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_BLOCK", size)
        lines = list(files.lines(file, encoding))
    expected = content.split("\n")
    if not expected[-1]:
        expected.pop()
    assert lines == [line.removesuffix("\r") for line in expected]


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_concatenated_compressed_files(pack: Callable[[bytes], bytes]) -> None:
    assert text.read(io.BytesIO(pack(b"a b\nc") + pack(b" d\ne\n"))) == [
        ["a", "b"],
        ["c", "d"],
        ["e"],
    ]


def test_encodings() -> None:
    for encoding in ("latin-1", "utf-16", "utf-8-sig"):
        assert text.read(io.BytesIO("é ü\n".encode(encoding)), encoding=encoding) == [["é", "ü"]]
    assert text.read(io.BytesIO(b"a\xff b"), errors="replace") == [["a\ufffd", "b"]]


# --- mistakes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 1 << 18])
@pytest.mark.parametrize(("bad", "reason"), [(b"\xff", "invalid start"), (b"\xe2\x82", "")])
def test_undecodable_bytes_are_named_with_their_line(
    size: int, bad: bytes, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_BLOCK", size)
    path = tmp_path / "bad.txt"
    for rest in (b"", b" d\ne\n"):
        path.write_bytes("één twee\n\nb\nc ".encode() + bad + rest)
        with pytest.raises(FormatError, match=rf"bad\.txt, line 4: not utf-8: .*{reason}"):
            text.read(path)
    with path.open(encoding="utf-8") as file, pytest.raises(FormatError, match="after line"):
        text.read(file)


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
@pytest.mark.parametrize("damage", ["cut", "flip"])
def test_damaged_compressed_files(suffix: str, damage: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    content = bytearray(packed(suffix, random.Random(0).randbytes(3000).hex().encode()))
    if damage == "cut":
        del content[-20:]
    else:
        content[len(content) // 2] ^= 0x55
    path.write_bytes(content)
    with pytest.raises(FormatError, match=rf"a\{suffix}, after line \d+: cannot be decompressed"):
        text.read(path, encoding="latin-1")  # in which no byte is wrong
    opened = {".gz": gzip.open, ".xz": lzma.open}[suffix](path, "rt", encoding="latin-1")
    with opened as file, pytest.raises(FormatError, match="after line"):
        text.read(file)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (5, "source must be a path, an open file or lines, not int"),
        (None, "source must be a path, an open file or lines, not NoneType"),
        ("a b\nc d", "is not a path: to read a text, pass io.StringIO"),
        (["a", b"b"], "<list>, line 2 is bytes, not str"),
        (b"a b", "<bytes>, line 1 is int, not str"),
        (["a", "b\nc"], r"<list>, line 2 contains a line break: 'b\\nc'"),
    ],
)
def test_wrong_sources(source: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        text.read(source)


def test_a_missing_file_raises_file_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.txt"):
        text.read(tmp_path / "none.txt")


@needs_corpus("text/wiki100.txt.xz")
@pytest.mark.slow
def test_a_real_text() -> None:
    path = find_corpus("text/wiki100.txt.xz")
    head = [line for line, _ in zip(text.iterate(path), range(2000), strict=False)]
    assert len(head) == 2000
    assert max(map(len, head)) <= 490
