"""word2vec's and GloVe's files: read as gensim reads them, written so that it reads them."""

from __future__ import annotations

import gzip
import lzma
import os
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from vector_files import MODELS, WORD2VEC, needs_data, read_by_gensim, some_rows, some_words

from trellis.errors import FormatError, InputError
from trellis.formats import word2vec


def refused(path: Path, data: bytes, match: str) -> None:
    path.write_bytes(data)
    with pytest.raises(FormatError, match=match) as caught:
        word2vec.read(path)
    assert str(caught.value).startswith(f"{path}: ")


def binary(*rows: tuple[bytes, list[float]], end: bytes = b"\n") -> bytes:
    return b"".join(w + b" " + struct.pack(f"<{len(v)}f", *v) + end for w, v in rows)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some.vec"


# gensim leaves a file without a first line open
leaves_files_open = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


@needs_data
@leaves_files_open
@pytest.mark.parametrize("name", WORD2VEC)
def test_real_files(name: str) -> None:
    words, matrix = word2vec.read(MODELS / name)
    peer = read_by_gensim(MODELS / name)
    assert words == peer.index_to_key
    assert np.array_equal(matrix, peer.vectors)


@pytest.mark.parametrize("packing", ["", ".gz", ".xz"])
@pytest.mark.parametrize("kind", ["text", "binary", "glove"])
def test_round_trip_gives_the_same_bits(kind: str, packing: str, tmp_path: Path) -> None:
    path = tmp_path / f"some.vec{packing}"
    words, matrix = some_words(3000), some_rows(3000, 20)
    matrix[0] = [1e-38, 3e38, -0.0, 1 / 3, 1e-45, *range(15)]
    if kind == "binary":
        word2vec.write_binary(path, words, matrix)
    else:
        word2vec.write_text(path, words, matrix, header=kind == "text")
    vectors = word2vec.read(path)
    assert vectors.words == words
    assert vectors.matrix.tobytes() == matrix.tobytes()
    assert word2vec.read(path, limit=7).words == words[:7]
    assert np.array_equal(word2vec.read(path, limit=7).matrix, matrix[:7])


@leaves_files_open
@pytest.mark.parametrize("kind", ["text", "binary", "glove"])
def test_gensim_reads_our_files(kind: str, tmp_path: Path) -> None:
    path = tmp_path / ("some.bin" if kind == "binary" else "some.txt")
    words, matrix = some_words(300), some_rows(300, 7)
    if kind == "binary":
        word2vec.write_binary(path, words, matrix)
    else:
        word2vec.write_text(path, words, matrix, header=kind == "text")
    peer = read_by_gensim(path)
    assert peer.index_to_key == words
    assert np.array_equal(peer.vectors, matrix)


def test_variants_of_the_format(path: Path) -> None:
    expected = (["a", "b"], [[1, 2.5], [-3, 0]])
    for data in [
        b"2 2\na 1 2.5\nb -3 0\n",
        b"2 2\na 1 2.5 \nb -3 0 \n",  # a space before the line's end: word2vec.c, fastText
        b"2 2\r\na 1 2.5\r\nb -3 0\r\n",
        b"2 2\na 1 2.5\nb -3 0",
        b"2 2\na 1 2.5\nb -3 0\n\n",
        b"a +1 25e-1\nb -3. 0\n",
        b"2 2\n" + binary((b"a", [1, 2.5]), (b"b", [-3, 0])),
        b"2 2\n" + binary((b"a", [1, 2.5]), (b"b", [-3, 0]), end=b""),  # gensim
        gzip.compress(b"2 2\n" + binary((b"a", [1, 2.5]), (b"b", [-3, 0]))),
        lzma.compress(b"a 1 2.5\nb -3 0\n"),
    ]:
        path.write_bytes(data)
        words, matrix = word2vec.read(path)
        assert (words, matrix.tolist()) == expected


def test_words_of_any_kind(path: Path) -> None:
    path.write_bytes("3 1\n. . . 1\n\u00a0 2\n\u2028x 3\n".encode())
    assert word2vec.read(path).words == [". . .", "\u00a0", "\u2028x"]


def test_the_first_of_equal_words_counts(path: Path) -> None:
    path.write_bytes(b"3 1\na 1\nb 2\na 3\n")
    words, matrix = word2vec.read(path)
    assert (words, matrix.tolist()) == (["a", "b"], [[1], [2]])


def test_words_that_are_not_utf8(path: Path) -> None:
    refused(path, b"2 1\na 1\n\xff\xfe 2\n", r"row 1: the word b'\\xff\\xfe' is not UTF-8")
    assert word2vec.read(path, errors="replace").words == ["a", "\ufffd\ufffd"]
    assert word2vec.read(path, errors="ignore").words == ["a", ""]


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
def test_every_float_survives_a_round_trip(numbers: list[float]) -> None:
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"trellis-float-{os.getpid()}.vec"
    try:
        word2vec.write_text(path, ["a"], np.array([numbers], np.float32))
        assert word2vec.read(path).matrix.tobytes() == np.array(numbers, np.float32).tobytes()
    finally:
        path.unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "the file is empty"),
        (b"word\n", r"line 1 has no numbers after the word: 'word'; not"),
        (b"2 2\na 1 2\nb 3\n", "row 1 has too few numbers"),
        (b"2 2\na 1 2\nb 3 x\n", "row 1 has a field that is not a number"),
        (b"2 2\na 1 2\nb 3  4\n", "row 1 has a field that is not a number"),
        (b"2 2\na 1 2\nb 3 4e\n", "row 1 has a field that is not a number"),
        (b"2 2\na 1 2\nb 3 0x4\n", "row 1 has a field that is not a number"),
        (b"a 1 2\nb 1 2\nc 3\n", "row 2 has too few numbers"),
        (b"3 2\na 1 2\nb 3 4\n", "declares 3 rows, but the file has 2"),
        (b"1 2\na 1 2\nb 3 4\n", "declares 1 rows, but the file has more"),
        (b"2 2\na 1 2\nb 3 nan\n", r"nan at \[1, 1\]"),
        (b"2 2\na 1 2\nb 3 1e99\n", r"inf at \[1, 1\]"),
        (b"2 2\na 1 2\nb 3 -1e999\n", r"-inf at \[1, 1\]"),
        (b"9 99999\na 1 2\n", "9 rows of 99999 numbers do not fit into 14 bytes"),
        (b"9 0\na 1 2\n", "a row has 0 numbers"),
        (b"1 99999999999\n", "a row has 99999999999 numbers"),
        (b"2 2\n" + binary((b"a", [1, 2.5]), (b"b", [-3])), "ends inside row 1"),
        (
            b"1 2\n" + binary((b"a", [1, 2.5]), (b"b", [-3, 1])),
            "declares 1 rows, but the file has more",
        ),
        (b"1 2\n" + binary((b"a", [1, float("nan")])), r"nan at \[0, 1\]"),
        (b"1 1\n" + b"x" * 70_000 + binary((b"", [1])), "row 0 has a word without an end"),
        (b"a 1\n" + b"x" * 70_000 + b" 1", "row 1 is too long"),
        (b"\x1f\x8bgarbage", "cannot be decompressed"),
    ],
)
def test_wrong_files(data: bytes, match: str, path: Path) -> None:
    refused(path, data, match)


def test_giant_sizes_take_no_memory(path: Path) -> None:
    for size in (b"999999999999 100", b"2147483648 2147483648", b"9" * 60 + b" 1"):
        refused(path, size + b"\na 1 2\n", "do not fit|a row has|too few|the file has")
    packed = gzip.compress(b"999999999999 2\na 1 2\n")
    refused(path, packed, "declares 999999999999 rows, but the file has 1")


def test_a_line_without_a_line_break(path: Path) -> None:
    refused(path, b"a" * (1 << 25), "line 1 has no numbers after the word: 'a{40}'; not a file")
    refused(path, b"a 1\n" + b"b" * (1 << 25), "row 1 is too long")


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        word2vec.read(tmp_path / "none")
    with pytest.raises(FormatError, match="not a regular file"):
        word2vec.read(tmp_path)


def test_bad_arguments(path: Path) -> None:
    path.write_bytes(b"a 1\n")
    with pytest.raises(InputError, match="limit is 0"):
        word2vec.read(path, limit=0)
    with pytest.raises(InputError, match="limit"):
        word2vec.read(path, limit=1.5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="'whatever' is not an error handler"):
        word2vec.read(path, errors="whatever")


@pytest.mark.parametrize("word", ["", "a b", "a\nb", "\ud800"])
def test_words_that_cannot_be_written(word: str, path: Path) -> None:
    for write in (word2vec.write_text, word2vec.write_binary):
        with pytest.raises(InputError, match="word 1"):
            write(path, ["a", word], some_rows(2, 3))
        with pytest.raises(InputError, match="2 words do not match"):
            write(path, ["a", "b"], some_rows(3, 3))
    assert not path.exists()
