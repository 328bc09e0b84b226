"""Shards of text files: ranges of bytes that end where a sequence ends.

A shard is read as its file would be read. The rows of a conll file take their separator and their
number of columns from the first row of the file, so a shard starts with a copy of that row, whose
sequence is dropped. A line of an error counts from the start of the file.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NoReturn, TypeAlias

from trellis.data import conll, corpus, files
from trellis.data.corpus_formats import BY_NAME, Columns, Sequence, parse_label_index
from trellis.data.files import Numbered, OpenFile, Token
from trellis.data.layout import Layout
from trellis.data.shards.borders import BLANK_LINE, LINE, cut_file
from trellis.data.shards.stamps import Stamp, check_unchanged, stamp_of
from trellis.errors import FormatError, InputError

__all__ = ["Format", "TextShard", "cut_text"]

_BLOCK = 1 << 18  # bytes to read at a time
_DOCSTART = "-DOCSTART-"
Format: TypeAlias = str | Callable[[OpenFile], str] | None
"""The name of a format, or a function that chooses it; None: the format is detected."""


@dataclass(frozen=True)
class TextShard:
    """Bytes [begin, end) of a text file, decompressed."""

    path: str
    begin: int
    end: int
    format: str
    columns: Columns
    labelled: bool
    stamp: Stamp
    header: tuple[str, ...] = ()
    """In conll: the lines of the file up to its first row, which starts every later shard."""

    @property
    def name(self) -> str:
        """The file and the range of bytes, for messages."""
        return f"{self.path}, bytes {self.begin} to {self.end}"

    def identity(self) -> tuple[Any, ...]:
        """Return values that differ if the contents may differ."""
        place = (self.path, self.begin, self.end, self.stamp)
        return ("text", *place, self.format, tuple(self.columns), self.labelled)

    def content(self) -> Iterator[bytes]:
        """Yield the bytes of the shard."""
        with self._open(with_header=False) as file:
            while block := file.read(_BLOCK):
                yield block

    def read(self) -> tuple[list[list[Token]], list[list[str]] | None]:
        """Return (X, y); y is None without labels."""
        try:
            return self._read()
        except FormatError:
            self._raise_with_line(TextShard._iterate_numbered if self.labelled else TextShard._read)
            raise

    def _read(self) -> tuple[list[list[Token]], list[list[str]] | None]:
        skipped = 1 if self.header and self.begin else 0
        with self._open() as file:
            if self.labelled:
                reader = BY_NAME[self.format].read
                assert reader is not None  # `cut_text` validates the format
                X, y = reader(file, self.columns)
                return X[skipped:], y[skipped:]
            if self.format == "conll":
                tokens, _ = conll.read(file, columns=self.columns.token, label_column=None)
                return tokens[skipped:], None
            return [
                sequence.tokens for sequence in BY_NAME[self.format].iterate(file, 1, self.columns)
            ], None

    def sequences(self, width: int, trained: Layout | None = None) -> Iterator[Sequence]:
        """Yield the sequences to label with all columns; arguments as in `corpus.iterate`."""
        try:
            yield from self._iterate(width, trained)
        except FormatError:
            self._raise_with_line(lambda shard: shard._iterate(width, trained))
            raise

    def _iterate(self, width: int, trained: Layout | None) -> Iterator[Sequence]:
        skipped = 0
        if self.header and self.begin:
            skipped = 1 + sum(_first_value(line) == _DOCSTART for line in self.header)
        with self._open() as file:
            sequences = corpus.iterate(file, self.format, width, self.columns, trained)
            yield from islice(sequences, skipped, None)

    def line_of(self, sequence: int) -> int | None:
        """Return the line of the file at which a sequence of the shard starts, from 1."""
        numbered = BY_NAME[self.format].iterate_numbered
        if numbered is None:
            return None
        before = sum(
            block.count(b"\n") for block in replace(self, begin=0, end=self.begin).content()
        )
        n_header = len(self.header) + 1 if self.header and self.begin else 0
        with self._open() as file:
            rows = numbered(file, lambda *_: None, self.columns, self._codec())
            index = sequence + (1 if n_header else 0)
            item = next(islice(rows, index, None), None)
        return None if item is None else item.line - n_header + before

    @contextmanager
    def _open(self, with_header: bool = True) -> Iterator[OpenFile]:
        """Yield the decompressed bytes as an open file with the name of the file."""
        with _errors_name(self.path), open(self.path, "rb") as raw:
            check_unchanged(self.path, self.stamp)
            file = OpenFile(raw, self.path)
            if file.is_packed:
                read = _skip(file.read, self.begin)
            else:
                raw.seek(self.begin)
                read = raw.read
            shard = _Slice(_limit(read, self.end - self.begin), self.path)
            shard.encoding = self.columns.encoding
            if with_header and self.begin:
                # A reader removes a byte order mark from the start. Here, U+FEFF is text.
                lines = (*self.header, "") if self.header else ()
                shard.prepend("".join(f"{line}\n" for line in lines) or "\ufeff")
            yield shard

    def _codec(self) -> dict[str, str]:
        return {"encoding": self.columns.encoding, "errors": "strict"}

    def _raise_with_line(self, read: Callable[[TextShard], Iterable[Any]]) -> None:
        """Read the file from its start, to raise the error whose lines count from there."""
        if self.begin:
            deque(read(replace(self, begin=0)), maxlen=0)

    def _iterate_numbered(self) -> Iterator[Numbered]:
        """Yield the sequences with their lines; raise FormatError for a wrong line."""

        def report(line: int, problem: str) -> NoReturn:
            raise files.line_error(self.path, line, problem)

        if (numbered := BY_NAME[self.format].iterate_numbered) is not None:
            with self._open() as file:
                yield from numbered(file, report, self.columns, self._codec())


def cut_text(
    path: str, size: int, format: Format, columns: Columns, labelled: bool
) -> list[TextShard]:
    """Return the shards of a file, each of about ``size`` bytes."""
    with _errors_name(path), files.open_once(path) as file:
        stamp = stamp_of(path)
        file.encoding = columns.encoding
        if callable(format):
            format = format(file)
        format = format or corpus.format_of(file, labelled)
        columns = corpus.validate_columns(columns, format)
    if labelled and format not in corpus.LABELLED:
        raise InputError(
            f"{path}: a file of the format {format} has no labels: pass labelled=False, "
            f"or one of format={', '.join(corpus.LABELLED)}"
        )
    if "\n".encode(columns.encoding) != b"\n":
        raise InputError(
            f"{path}: a file in {columns.encoding} cannot be cut into shards: convert it to UTF-8"
        )
    by_blank_line = format in ("conll", "conllu")
    ranges = cut_file(path, size, BLANK_LINE if by_blank_line else LINE)
    header = _read_header(path, columns) if format == "conll" and len(ranges) > 1 else ()
    return [
        TextShard(path, begin, end, format, columns, labelled, stamp, header)
        for begin, end in ranges
    ]


class _Slice(OpenFile):
    """An open file with some of the decompressed bytes of another one."""

    def __init__(self, read: Callable[[int], bytes], name: str) -> None:
        self.name, self.encoding, self.is_packed = name, None, False
        self._blocks, self._record, self._read = deque(), None, read

    def prepend(self, text: str) -> None:
        """Let a text come before the bytes, without characters that the encoding lacks."""
        if block := text.encode(self.encoding or "utf-8", "ignore"):
            self._blocks.appendleft(block)


@contextmanager
def _errors_name(path: str) -> Iterator[None]:
    """Convert an error of the operating system to a FormatError that names the file."""
    try:
        yield
    except OSError as error:
        raise FormatError(f"{path}: cannot be read: {error.strerror or error}") from None


def _skip(read: Callable[[int], bytes], count: int) -> Callable[[int], bytes]:
    """Return a function that reads after the first ``count`` bytes.

    A compressed file can only be read from its start.
    """
    rest = b""
    while count > 0 and (block := read(_BLOCK)):
        rest = block[count:]
        count -= len(block)

    def read_rest(size: int) -> bytes:
        nonlocal rest
        block, rest = rest or read(size), b""
        return block

    return read_rest


def _limit(read: Callable[[int], bytes], count: int) -> Callable[[int], bytes]:
    """Return a function that reads at most ``count`` bytes in all."""

    def read_some(size: int) -> bytes:
        nonlocal count
        block = read(min(size, count))[:count] if count else b""
        count -= len(block)
        return block

    return read_some


def _read_header(path: str, columns: Columns) -> tuple[str, ...]:
    """Return the lines of a conll file up to the first row of its first sequence."""
    label = parse_label_index(columns)
    first = next(
        conll.iterate_numbered(
            path,
            lambda *_: None,
            columns=columns.token,
            label_column=label,
            encoding=columns.encoding,
        ),
        None,
    )
    if first is None:
        return ()
    return tuple(islice(files.lines(path, columns.encoding), first.line))


def _first_value(line: str) -> str:
    return (line.split("\t") if "\t" in line else line.split() or [""])[0]
