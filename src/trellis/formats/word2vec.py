"""Read and write word vectors in the formats of word2vec and GloVe: one row for each word.

    2 3
    the 0.1 -0.25 3
    of 1e-3 0 0.5

The first line of word2vec is "rows columns". GloVe's files are text without this line. In a text
file (also ``.vec`` of fastText) the numbers are decimal. In a binary file they are little-endian
float32 directly after the space that follows the word, and a line break may follow each row.

Files are read as a stream, also ``.gz`` and ``.xz``. Memory is allocated only for rows that were
read, or that the size of the file allows.
"""

import codecs
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.checks import as_integer
from trellis.data import files
from trellis.data.atomic import replacing
from trellis.errors import FormatError, InputError
from trellis.formats.mapped import check_finite

__all__ = ["WordVectors", "is_header", "read", "write_binary", "write_text"]

# Limits that no valid file reaches. Without them, a file without line breaks could fill the memory.
_MAX_HEADER = 1 << 6  # characters of the line "rows columns"
_MAX_LINE = 1 << 24  # bytes of the first line
_MAX_COLUMNS = 1 << 20
_MAX_DIGITS = 1 << 10  # characters of one number
_MAX_WORD = 1 << 16  # bytes
_FIRST_ROWS = 1 << 10  # rows allocated at first, if their number is unknown
_BLOCK_ROWS = 1 << 10  # rows written at a time


class WordVectors(NamedTuple):
    """Distinct words and their vectors."""

    words: list[str]
    matrix: NDArray[np.float32]
    """``(words, columns)``"""


class _Head(NamedTuple):
    """The format of a file; ``n_rows`` is None if there is no line "rows columns"."""

    n_rows: int | None
    n_columns: int
    is_text: bool


def read(
    path: str | os.PathLike[str], *, errors: str = "strict", limit: int | None = None
) -> WordVectors:
    r"""Read words and vectors from a text or binary file.

    ``errors`` applies to words that are not UTF-8, as in ``bytes.decode``. If a word occurs several
    times, its first row is used. ``limit`` is the largest number of rows to read.

    >>> import tempfile
    >>> from pathlib import Path
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
        raise InputError(f"errors={errors!r} is not an error handler of bytes.decode") from None
    files.check_regular(path)
    with files.open_once(path) as file:
        try:
            return _read(file, None if file.is_packed else os.stat(path).st_size, errors, limit)
        except FormatError as error:
            # A damaged compressed file: the message already names the file.
            name = "" if str(error).startswith(f"{file.name}: ") else f"{path}: "
            raise FormatError(f"{name}{error}") from None


def _read(file: files.OpenFile, size: int | None, errors: str, limit: int | None) -> WordVectors:
    blocks = files.blocks(file)
    head, unread_bytes = _read_head(blocks)
    rows = _Rows(head, size, errors, limit)
    for block in blocks:
        unread_bytes = rows.add_rows(unread_bytes + block)
        if rows.count == limit:
            return rows.result()
    unread_bytes = rows.add_rows(unread_bytes + b"\n" if head.is_text else unread_bytes)
    if rows.count != limit:
        rows.finish(unread_bytes)
    return rows.result()


def is_header(line: bytes) -> bool:
    """Return whether the first line is "rows columns"."""
    fields = line.split()
    return len(line) <= _MAX_HEADER and len(fields) == 2 and all(map(bytes.isdigit, fields))


def _read_head(blocks: Iterator[bytes]) -> tuple[_Head, bytes]:
    """Recognise the format; return it, and the bytes of the rows that were read already."""
    line, unread_bytes = _read_line(b"", blocks)
    if not line:
        raise FormatError("the file is empty")
    if not is_header(line):
        n_columns = len(line.rstrip(b" \r\n").split(b" ")) - 1
        if n_columns == 0:
            start = line.rstrip()[:40].decode(errors="replace")
            raise FormatError(
                f"line 1 has no numbers after the word: {start!r}; not a file of word vectors"
            )
        _check_columns(n_columns)
        return _Head(None, n_columns, True), line + unread_bytes
    n_rows, n_columns = map(int, line.split())
    _check_columns(n_columns)
    # The file is text if its first row can be parsed as text.
    first, unread_bytes = _read_line(unread_bytes, blocks)
    buffer = np.empty((1, n_columns), np.float32)
    ends, _, _ = _core.vector_rows(first.rstrip() + b"\n", True, buffer)
    return _Head(n_rows, n_columns, len(ends) > 0 or n_rows == 0), first + unread_bytes


def _check_columns(n_columns: int) -> None:
    if not 1 <= n_columns <= _MAX_COLUMNS:
        raise FormatError(f"a row has {n_columns} numbers: must be 1 to {_MAX_COLUMNS}")


def _read_line(start: bytes, blocks: Iterator[bytes]) -> tuple[bytes, bytes]:
    """Return the first line with its line break, and the bytes that were read after it."""
    end = start.find(b"\n")
    while end < 0 and len(start) < _MAX_LINE:
        block = next(blocks, b"")
        if not block:
            break
        end = block.find(b"\n") + len(start) if b"\n" in block else -1
        start += block
    end = end + 1 if end >= 0 else len(start)
    return start[:end], start[end:]


class _Rows:
    """Collects the rows of a file, block by block."""

    def __init__(self, head: _Head, size: int | None, errors: str, limit: int | None) -> None:
        self._head, self._errors = head, errors
        # The header may be wrong: never allocate more rows than the file can contain.
        bytes_per_number = 2 if head.is_text else 4
        min_size = (head.n_rows or 0) * head.n_columns * bytes_per_number
        if size is not None and min_size > size:
            raise FormatError(
                f"{head.n_rows} rows of {head.n_columns} numbers do not fit into {size} bytes"
            )
        self._max_rows = min(
            (count for count in (head.n_rows, limit) if count is not None), default=None
        )
        n_initial = _FIRST_ROWS if self._max_rows is None or size is None else self._max_rows
        self._matrix = np.empty((n_initial, head.n_columns), np.float32)
        self._words: list[str] = []

    @property
    def count(self) -> int:
        """Number of rows so far."""
        return len(self._words)

    def add_rows(self, block: bytes) -> bytes:
        """Add all complete rows of a block, and return the bytes after them."""
        while True:
            if self.count == len(self._matrix) and self.count != self._max_rows:
                self._grow()
            free_rows = self._matrix[self.count : self._max_rows]
            ends, n_bytes, problem = _core.vector_rows(block, self._head.is_text, free_rows)
            self._decode(block, ends)
            block = block[n_bytes:]
            if problem:
                raise FormatError(
                    f"row {self.count} has {problem}: must be a word and {self._head.n_columns} "
                    "numbers; rows are counted from 0"
                )
            if len(ends) < 2 * len(free_rows) or self.count == self._max_rows:
                break
        if self.count == self._max_rows:
            if self.count == self._head.n_rows and block:
                raise FormatError(
                    f"the first line declares {self.count} rows, but the file has more"
                )
            return block
        if len(block) > _MAX_WORD + self._head.n_columns * (
            _MAX_DIGITS if self._head.is_text else 4
        ):
            raise FormatError(f"row {self.count} is too long")
        return block

    def finish(self, block: bytes) -> None:
        """Raise FormatError if the file ends too early."""
        if block:
            raise FormatError(f"the file ends inside row {self.count}")
        if self._head.n_rows is not None and self.count != self._head.n_rows:
            raise FormatError(
                f"the first line declares {self._head.n_rows} rows, but the file has {self.count}"
            )

    def result(self) -> WordVectors:
        """Return the words and vectors, each word once."""
        self._matrix.resize((self.count, self._head.n_columns), refcheck=False)
        check_finite(self._matrix, "the matrix")
        first_row = dict(zip(reversed(self._words), range(self.count - 1, -1, -1), strict=True))
        if len(first_row) == self.count:
            return WordVectors(self._words, self._matrix)
        rows = sorted(first_row.values())
        return WordVectors([self._words[i] for i in rows], self._matrix[rows])

    def _grow(self) -> None:
        n_rows = self.count + self.count // 2 + 1
        self._matrix.resize((n_rows, self._head.n_columns), refcheck=False)

    def _decode(self, block: bytes, ends: NDArray[np.int64]) -> None:
        offsets = iter(ends.tolist())
        try:
            for begin in offsets:
                self._words.append(block[begin : next(offsets)].decode("utf-8", self._errors))
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
    """Write a text file without loss of precision; without ``header``, in GloVe's format."""
    encoded = _encode(words, matrix)
    row_format = " ".join(["%.9g"] * matrix.shape[1])
    with replacing(path) as file, files.packed(file, path) as output_file:
        if header:
            output_file.write(b"%d %d\n" % matrix.shape)
        for begin in range(0, len(encoded), _BLOCK_ROWS):
            rows = matrix[begin : begin + _BLOCK_ROWS].tolist()
            pairs = zip(encoded[begin : begin + _BLOCK_ROWS], rows, strict=True)
            output_file.writelines(
                b"%b %b\n" % (word, (row_format % tuple(row)).encode()) for word, row in pairs
            )


def write_binary(
    path: str | os.PathLike[str], words: Sequence[str], matrix: NDArray[np.float32]
) -> None:
    """Write the binary format of word2vec (``-binary 1``)."""
    encoded = _encode(words, matrix)
    with replacing(path) as file, files.packed(file, path) as output_file:
        output_file.write(b"%d %d\n" % matrix.shape)
        for begin in range(0, len(encoded), _BLOCK_ROWS):
            rows = np.ascontiguousarray(matrix[begin : begin + _BLOCK_ROWS], "<f4")
            pairs = zip(encoded[begin : begin + _BLOCK_ROWS], rows, strict=True)
            output_file.writelines(b"%b %b\n" % (word, row.tobytes()) for word, row in pairs)


def _encode(words: Sequence[str], matrix: NDArray[np.float32]) -> list[bytes]:
    """Validate the words and return them in UTF-8."""
    if matrix.ndim != 2 or matrix.shape[1] < 1 or len(words) != len(matrix):
        raise InputError(f"{len(words)} words do not match a matrix of shape {matrix.shape}")
    encoded: list[bytes] = []
    for word in words:
        if not word or " " in word or "\n" in word:
            raise InputError(
                f"word {len(encoded)} is {word!r}: must be non-empty, without spaces and line "
                "breaks"
            )
        try:
            encoded.append(word.encode())
        except UnicodeEncodeError as error:
            raise InputError(f"word {len(encoded)} cannot be stored: {error}") from None
    return encoded
