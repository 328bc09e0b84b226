"""Files of fastText at the exact limits of their counts, sizes and tables."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trellis.errors import FormatError, InputError
from trellis.formats import fasttext
from trellis.formats.fasttext import Args, FastTextFile
from trellis.formats.mapped import Cursor
from trellis.formats.quantization import CENTROIDS, QuantizedMatrix, quantize

ROWS = np.arange(6, dtype=np.float32).reshape(3, 2)
NONE = np.zeros(0, np.int64)
WORDS = FastTextFile(
    Args(dim=2, bucket=0, minn=0, maxn=0),
    [b"a", b"b", b"c"],
    np.array([5, 3, 1]),
    [],
    NONE,
    9,
    ROWS,
    ROWS,
)


def written(path: Path, **changes: Any) -> FastTextFile:
    fasttext.write(path, replace(WORDS, **changes))
    return fasttext.read(path)


def test_smallest_counts(tmp_path: Path) -> None:
    path = tmp_path / "m.bin"
    assert written(path, n_tokens=0).n_tokens == 0
    assert written(path, counts=np.zeros(3, np.int64)).counts.tolist() == [0, 0, 0]
    for changes, message in (
        ({"n_tokens": -1}, "the number of tokens is -1: must be at least 0"),
        ({"counts": np.array([5, -1, 1])}, "word 1 has the count -1: must be at least 0"),
        ({"counts": np.array([5, 3])}, "there are 3 words, but 2 counts"),
        ({"words": [b"a", b"b", b"a"]}, "word b'a' occurs twice"),
        ({"words": [b"a", b"b", b"c\0"]}, "word 2 has a zero byte"),
        ({"input": ROWS[:2]}, "the input matrix is 2 × 2: must be 3 × 2"),
        ({"output": ROWS[:, :1]}, "the output matrix is 3 × 1: must be 3 × 2"),
        ({"args": replace_args(dim=0)}, "dim is 0: must be in 1"),
        ({"args": replace_args(ws=-1)}, "ws is -1: must be in 0"),
        ({"prune": np.zeros((0, 2), np.int32)}, "is pruned, but its input matrix is not"),
    ):
        with pytest.raises(InputError, match=message):
            fasttext.write(path, replace(WORDS, **changes))


def replace_args(**changes: Any) -> Args:
    return WORDS.args._replace(**changes)


def test_the_longest_word(tmp_path: Path) -> None:
    longest = fasttext._MAX_WORD
    words = [b"x" * longest, b"b", b"c"]
    assert written(tmp_path / "m.bin", words=words).words == words
    with pytest.raises(InputError, match=f"word 0 .* is longer than {longest} bytes"):
        fasttext.write(tmp_path / "m.bin", replace(WORDS, words=[b"x" * (longest + 1), b"b", b"c"]))


def test_rows_of_n_grams(tmp_path: Path) -> None:
    """With n-grams there is a row per bucket; without them the rows may be missing."""
    path = tmp_path / "m.bin"
    five = np.ones((5, 2), np.float32)
    with_ngrams = replace_args(bucket=2, minn=1, maxn=1)
    assert written(path, args=with_ngrams, input=five).input.shape == (5, 2)
    without = replace_args(bucket=2)
    for rows in (5, 3):
        assert written(path, args=without, input=five[:rows]).input.shape == (rows, 2)
    for args, rows in ((with_ngrams, 3), (with_ngrams, 6), (without, 2), (without, 6)):
        with pytest.raises(InputError, match=f"the input matrix is {rows} × 2: must be 5 × 2"):
            fasttext.write(path, replace(WORDS, args=args, input=np.ones((rows, 2), np.float32)))
    for name in ({"maxn": 1}, {"word_ngrams": 2}):
        with pytest.raises(InputError, match="bucket is 0, but n-grams need buckets"):
            fasttext.write(path, replace(WORDS, args=replace_args(**name)))


def test_tables_of_pruned_rows(tmp_path: Path) -> None:
    path = tmp_path / "m.bin"
    words = [f"w{n}".encode() for n in range(300)]
    rows = np.random.default_rng(0).normal(size=(302, 2)).astype(np.float32)
    small = quantize(rows, 1, random_state=0)
    changes: dict[str, Any] = {
        "words": words,
        "counts": np.ones(300, np.int64),
        "output": rows[:300],
        "input": small,
        "args": replace_args(bucket=4, minn=1, maxn=1),
    }
    table = np.array([[3, 0], [0, 1]], np.int32)
    again = written(path, prune=table, **changes)
    assert again.prune is not None
    assert again.prune.tolist() == table.tolist()
    none = quantize(rows[:300], 1, random_state=0)
    empty = written(path, prune=table[:0], **(changes | {"input": none}))
    assert empty.prune is not None
    assert empty.prune.shape == (0, 2)
    for wrong, message in (
        ([[4, 0], [0, 1]], "the prune table has bucket 4: must be below 4"),
        ([[-1, 0], [0, 1]], "the prune table has bucket -1: must be below 4"),
        ([[3, 0], [0, 2]], "the prune table has row 2: must be below 2"),
        ([[3, -1], [0, 1]], "the prune table has row -1: must be below 2"),
        ([[3, 0], [3, 1]], "the prune table contains a bucket twice"),
        ([[3, 0], [0, 0]], "the prune table contains a row twice"),
    ):
        with pytest.raises(InputError, match=message):
            fasttext.write(path, replace(WORDS, prune=np.array(wrong, np.int32), **changes))


@pytest.mark.parametrize(
    ("dim", "groups", "width", "last_width"),
    [(0, 1, 0, 0), (0, 0, 1, 1), (0, 1, 1, 0), (2, 2, 1, 0), (3, 2, 1, 2), (2, 1, 1, 1), (-1,) * 4],
)
def test_impossible_quantisers(dim: int, groups: int, width: int, last_width: int) -> None:
    data = struct.pack("<4i", dim, groups, width, last_width) + bytes(4 * 4 * CENTROIDS)
    with pytest.raises(FormatError, match="columns, the last of"):
        fasttext._read_quantizer(Cursor(data), "x")


def test_possible_quantisers() -> None:
    for numbers in ((1, 1, 1, 1), (3, 2, 2, 1), (4, 2, 2, 2)):
        data = struct.pack("<4i", *numbers) + bytes(4 * numbers[0] * CENTROIDS)
        assert fasttext._read_quantizer(Cursor(data), "x").groups == numbers[1]


def test_norms_of_several_columns(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(300, 2)).astype(np.float32)
    small = quantize(rows, 1, norms=True, random_state=0)
    wide = QuantizedMatrix(small.codes, small.quantizer, small.norm_codes, small.quantizer)
    with open(tmp_path / "x", "wb") as file:
        fasttext._write_matrix(file, wide)
    data = (tmp_path / "x").read_bytes()
    with pytest.raises(FormatError, match="x: the norms have 2 columns, expected 1"):
        fasttext._read_quantized(Cursor(data), "x")


def test_files_of_version_11(tmp_path: Path) -> None:
    """Its classifiers store a maxn that they do not use."""
    path = tmp_path / "m.bin"
    labels = {"labels": [b"x"], "label_counts": np.array([2]), "output": ROWS[:1]}
    args = replace_args(model="supervised", bucket=0)
    fasttext.write(path, replace(WORDS, args=args, **labels))
    data = bytearray(path.read_bytes())
    data[8 + 4 * 10 : 8 + 4 * 11] = struct.pack("<i", 6)  # maxn
    path.write_bytes(data)
    assert fasttext.read(path).args.maxn == 6
    data[4:8] = struct.pack("<i", 11)
    path.write_bytes(data)
    assert fasttext.read(path).args.maxn == 0
    data[4:8] = struct.pack("<i", 10)
    path.write_bytes(data)
    with pytest.raises(FormatError, match="version 10 is unknown: only 11 and 12 are read"):
        fasttext.read(path)


def test_flags_and_sizes_of_a_dictionary(tmp_path: Path) -> None:
    path = tmp_path / "m.bin"
    fasttext.write(path, WORDS)
    data = path.read_bytes()
    place = 8 + struct.calcsize(fasttext._ARGS)
    for sizes in ((2, 3, -1), (4, 3, 0), (3, 4, -1), (-1, -1, 0)):
        path.write_bytes(data[:place] + struct.pack("<3i", *sizes) + data[place + 12 :])
        with pytest.raises(FormatError, match=f"the dictionary has {sizes[0]} entries, but"):
            fasttext.read(path)
    flag = len(data) - 2 * (16 + ROWS.nbytes) - 2
    path.write_bytes(data[:flag] + b"\x02" + data[flag + 1 :])
    with pytest.raises(FormatError, match="whether the input is quantised must be 0 or 1, not 2"):
        fasttext.read(path)
    for end in (b"\0", b"more"):
        path.write_bytes(data + end)
        with pytest.raises(FormatError, match=f"{len(end)} unexpected bytes follow the data"):
            fasttext.read(path)


def test_arrays_that_end_with_the_file() -> None:
    assert Cursor(b"ab").array(np.uint8, (2,), "x").tolist() == [97, 98]
    assert Cursor(b"").array(np.uint8, (0,), "x").shape == (0,)
    assert Cursor(b"ab").array(np.uint8, (1, 2), "x").tolist() == [[97, 98]]
    for shape in ((3,), (2, 2), (10**18, 0)):
        with pytest.raises(FormatError, match="the file ends inside x"):
            Cursor(b"ab").array(np.uint8, shape, "x")
    with pytest.raises(FormatError, match="x has -1 rows or columns"):
        Cursor(b"ab").array(np.uint8, (2, -1), "x")
    assert Cursor(b"\0").string("x") == b""
    with pytest.raises(FormatError, match="the file ends inside x"):
        Cursor(b"ab").string("x")
