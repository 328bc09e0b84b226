"""Word vectors as word2vec writes them: a line "rows columns", then a row for each word.

    2 3
    the 0.1 -0.25 3
    of 1e-3 0 0.5

In a text file (fastText's ``.vec`` too) the numbers are written out; in a binary file they are
float32, little-endian, right after the word's space, and a line break may follow each row.

GloVe's files are such text without the first line. Files are read as a stream, ``.gz`` and ``.xz``
too; memory is taken for rows that were met, or that the size of the file leaves room for.
"""

import codecs
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.checks import as_integer
from trellis.data import files
from trellis.errors import FormatError, InputError
from trellis.formats.atomic import replacing
from trellis.formats.mapped import check_finite

__all__ = ["WordVectors", "is_header", "read", "write_binary", "write_text"]

_LONGEST_HEADER = 1 << 6
_LONGEST_LINE = 1 << 24
_MOST_COLUMNS = 1 << 20
_MOST_PER_NUMBER = 1 << 10  # characters
_LONGEST_WORD = 1 << 16
_FIRST_ROWS = 1 << 10
_WRITTEN = 1 << 10  # rows at a time


class WordVectors(NamedTuple):
    """What a file holds: distinct words, and a row for each."""

    words: list[str]
    matrix: NDArray[np.float32]


class _Head(NamedTuple):
    """What the first lines say; ``rows`` is None where there is no line of sizes."""

    rows: int | None
    columns: int
    is_text: bool


def read(
    path: str | os.PathLike[str], *, errors: str = "strict", limit: int | None = None
) -> WordVectors:
    r"""Words and vectors of a text or binary file, with or without a first line of sizes.

    ``errors`` says what to do with words that are not UTF-8, as in ``bytes.decode``. Of a word that
    occurs again the first row counts. ``limit`` stops after so many rows.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "tiny.vec"
    >>> size = path.write_text("2 3\nthe 0.1 -0.25 3\nof 1e-3 0 0.5\n")
    >>> words, matrix = read(path)
    >>> words, matrix[1]
    (['the', 'of'], array([0.001, 0.   , 0.5  ], dtype=float32))
    """
    if limit is not None and as_integer(limit, "limit") < 1:
        raise InputError(f"limit is {limit}: must be positive, or None")
    try:
        codecs.lookup_error(errors)
    except (LookupError, TypeError):
        raise InputError(f"errors={errors!r} is no way to decode") from None
    if not Path(path).is_file():
        Path(path).stat()  # a missing file says so itself
        raise FormatError(f"{path}: not a regular file")
    try:
        return _read(Path(path), errors, limit)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None


def _read(path: Path, errors: str, limit: int | None) -> WordVectors:
    pieces = files.blocks(path)
    head, rest = _head(pieces)
    size = None if files.is_packed(path) else path.stat().st_size
    rows = _Rows(head, size, errors, limit)
    for piece in pieces:
        rest = rows.take(rest + piece)
        if rows.count == limit:
            return rows.result()
    rest = rows.take(rest + b"\n" if head.is_text else rest)
    if rows.count != limit:
        rows.finish(rest)
    return rows.result()


def is_header(line: bytes) -> bool:
    """Whether a first line is "rows columns"."""
    fields = line.split()
    return len(line) <= _LONGEST_HEADER and len(fields) == 2 and all(map(bytes.isdigit, fields))


def _head(pieces: Iterator[bytes]) -> tuple[_Head, bytes]:
    """What the first lines say, and the bytes after the line of sizes that were read already."""
    line, rest = _line(b"", pieces)
    if not is_header(line):
        columns = len(line.rstrip(b" \r\n").split(b" ")) - 1
        _check_columns(columns)
        return _Head(None, columns, True), line + rest
    rows, columns = map(int, line.split())
    _check_columns(columns)
    first, more = _line(rest, pieces)
    room = np.empty((1, columns), np.float32)
    ends, _, _ = _core.vector_rows(first.rstrip() + b"\n", True, room)
    return _Head(rows, columns, len(ends) > 0 or rows == 0), first + more


def _check_columns(columns: int) -> None:
    if not 1 <= columns <= _MOST_COLUMNS:
        raise FormatError(f"rows of {columns} numbers: there must be 1..{_MOST_COLUMNS}")


def _line(start: bytes, pieces: Iterator[bytes]) -> tuple[bytes, bytes]:
    """The first line with its end, and what was read after it."""
    end = start.find(b"\n")
    while end < 0 and len(start) < _LONGEST_LINE:
        piece = next(pieces, b"")
        if not piece:
            break
        end = piece.find(b"\n") + len(start) if b"\n" in piece else -1
        start += piece
    end = end + 1 if end >= 0 else len(start)
    return start[:end], start[end:]


class _Rows:
    """Rows as they come off the blocks of a file."""

    def __init__(self, head: _Head, size: int | None, errors: str, limit: int | None) -> None:
        self._head, self._errors = head, errors
        least = 2 if head.is_text else 4  # bytes that a number takes
        if head.rows is not None and size is not None and head.rows * head.columns * least > size:
            raise FormatError(
                f"{head.rows} rows of {head.columns} numbers cannot be in {size} bytes"
            )
        self._most = min((n for n in (head.rows, limit) if n is not None), default=None)
        first = _FIRST_ROWS if self._most is None or size is None else self._most
        self._matrix = np.empty((first, head.columns), np.float32)
        self._words: list[str] = []

    @property
    def count(self) -> int:
        return len(self._words)

    def take(self, block: bytes) -> bytes:
        """Take all rows that are whole, and return what is left."""
        while True:
            if self.count == len(self._matrix) and self.count != self._most:
                self._grow()
            room = self._matrix[self.count : self._most]
            ends, consumed, wrong = _core.vector_rows(block, self._head.is_text, room)
            self._decode(block, ends)
            block = block[consumed:]
            if wrong:
                raise FormatError(f"row {self.count} has {wrong}")
            if len(ends) < 2 * len(room) or self.count == self._most:
                break
        if self.count == self._most:
            if self.count == self._head.rows and block:
                raise FormatError(f"there is more than the {self.count} rows of the first line")
            return block
        columns = self._head.columns
        if len(block) > _LONGEST_WORD + columns * (_MOST_PER_NUMBER if self._head.is_text else 4):
            raise FormatError(f"row {self.count} is too long")
        return block

    def finish(self, block: bytes) -> None:
        if block:
            raise FormatError(f"the file ends inside row {self.count}")
        if self._head.rows is not None and self.count != self._head.rows:
            raise FormatError(
                f"the first line says {self._head.rows} rows, and there are {self.count}"
            )

    def result(self) -> WordVectors:
        self._matrix.resize((self.count, self._head.columns), refcheck=False)
        check_finite(self._matrix, "the matrix")
        first = dict(zip(reversed(self._words), range(self.count - 1, -1, -1), strict=True))
        if len(first) == self.count:
            return WordVectors(self._words, self._matrix)
        kept = sorted(first.values())
        return WordVectors([self._words[i] for i in kept], self._matrix[kept])

    def _grow(self) -> None:
        rows = self.count + self.count // 2 + 1
        self._matrix.resize((rows, self._head.columns), refcheck=False)

    def _decode(self, block: bytes, ends: NDArray[np.int64]) -> None:
        bounds = iter(ends.tolist())
        try:
            for begin in bounds:
                self._words.append(block[begin : next(bounds)].decode("utf-8", self._errors))
        except UnicodeDecodeError as error:
            raise FormatError(
                f"row {self.count}: the word {error.object[:80]!r} is not UTF-8; "
                "errors='replace' reads it"
            ) from None


def write_text(
    path: str | os.PathLike[str],
    words: Sequence[str],
    matrix: NDArray[np.float32],
    *,
    header: bool = True,
) -> None:
    """As text that gives back the same bits; without ``header``, as GloVe has it."""
    encoded = _encoded(words, matrix)
    line = " ".join(["%.9g"] * matrix.shape[1])
    with replacing(path) as file, files.packed(file, path) as out:
        if header:
            out.write(b"%d %d\n" % matrix.shape)
        for begin in range(0, len(encoded), _WRITTEN):
            rows = matrix[begin : begin + _WRITTEN].tolist()
            pairs = zip(encoded[begin : begin + _WRITTEN], rows, strict=True)
            out.writelines(b"%b %b\n" % (w, (line % tuple(row)).encode()) for w, row in pairs)


def write_binary(
    path: str | os.PathLike[str], words: Sequence[str], matrix: NDArray[np.float32]
) -> None:
    """As word2vec.c writes it with ``-binary 1``."""
    encoded = _encoded(words, matrix)
    with replacing(path) as file, files.packed(file, path) as out:
        out.write(b"%d %d\n" % matrix.shape)
        for begin in range(0, len(encoded), _WRITTEN):
            rows = np.ascontiguousarray(matrix[begin : begin + _WRITTEN], "<f4")
            pairs = zip(encoded[begin : begin + _WRITTEN], rows, strict=True)
            out.writelines(b"%b %b\n" % (word, row.tobytes()) for word, row in pairs)


def _encoded(words: Sequence[str], matrix: NDArray[np.float32]) -> list[bytes]:
    if matrix.ndim != 2 or matrix.shape[1] < 1 or len(words) != len(matrix):
        raise InputError(f"{len(words)} words cannot have a matrix of shape {matrix.shape}")
    encoded: list[bytes] = []
    for word in words:
        if not word or " " in word or "\n" in word:
            raise InputError(f"word {len(encoded)} is {word!r}: the format has no place for that")
        try:
            encoded.append(word.encode())
        except UnicodeEncodeError as error:
            raise InputError(f"word {len(encoded)} cannot be stored: {error}") from None
    return encoded
