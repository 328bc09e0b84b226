r"""Read lines from files and write text to files, with decompression and decoding.

A source is a path, an open file (text or binary), or any iterable of lines. ``gzip``, ``xz``,
``bzip2`` and ``zstd`` are detected by their first bytes, not by the name. A source is opened once
and never repositioned, so it may be a pipe: to detect a format, `OpenFile.replay` reads the first
lines and puts them back. Lines end only at ``\n`` or ``\r\n``, because tokens may contain other
characters that Unicode counts as line breaks.
"""

import bz2
import codecs
import gzip
import lzma
import os
import stat
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain
from typing import IO, Any, NamedTuple, TypeAlias, cast

from trellis.data import compressed
from trellis.data.atomic import writing
from trellis.errors import FormatError, InputError

Token: TypeAlias = str | tuple[str, ...]
Source: TypeAlias = "str | os.PathLike[str] | IO[str] | IO[bytes] | OpenFile | Iterable[str]"
Target: TypeAlias = str | os.PathLike[str] | IO[str] | IO[bytes]
Report: TypeAlias = Callable[[int, str], None]
"""``report(line, problem)`` is called for a wrong line, which is then left out."""

_BLOCK = 1 << 18  # bytes to read at a time: large enough to be fast, small enough for the CPU cache
_BYTE_ORDER_MARK = "\ufeff"
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# The errors that decompressors raise for damaged files.
_BROKEN = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)
_COMPRESSORS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
PACKED_SUFFIXES = tuple(_COMPRESSORS)
"""Suffixes of the names of files that `packed` compresses."""


class Numbered(NamedTuple):
    """A sequence with labels, and the numbers of its lines."""

    tokens: list[Token]
    labels: list[str]
    """A row that cannot be read has an empty token and an empty label."""
    lines: list[int]
    """The line of each token."""
    line: int
    """The first line of the sequence."""


def name_of(source: Source) -> str:
    """Return the name of a source for error messages.

    >>> import io
    >>> name_of("train.conll"), name_of(io.StringIO()), name_of(["a O"])
    ('train.conll', '<StringIO>', '<list>')
    """
    name = source if isinstance(source, str | os.PathLike) else getattr(source, "name", None)
    if isinstance(name, str | os.PathLike):
        return os.fspath(name)
    return f"<{type(source).__name__}>"


def line_error(name: str, number: int, problem: str) -> FormatError:
    """Return the error for a line of a file; lines are numbered from 1."""
    return FormatError(f"{name}, line {number}: {problem}")


def problem_of(error: Exception, name: str, number: int) -> str:
    """Return the message of an error without the file and the line, which `line_error` has added.

    >>> problem_of(line_error("a.conll", 7, "the label is empty"), "a.conll", 7)
    'the label is empty'
    """
    return str(error).removeprefix(f"{name}, line {number}: ")


def quote(text: str, width: int = 80) -> str:
    """Return a text in quotes for error messages; a long text is shortened.

    >>> print(quote("abcdefgh", width=5))
    'abcde…'
    """
    return repr(text if len(text) <= width else text[:width] + "…")


def lines(source: Source, encoding: str = "utf-8", errors: str = "strict") -> Iterator[str]:
    r"""Return an iterator over the lines, without line breaks and without a byte order mark.

    `encoding` and `errors` have the same meaning as in ``open``. They apply only to bytes.

    >>> import io
    >>> list(lines(io.BytesIO(b"\xef\xbb\xbfone\r\n\ntwo")))
    ['one', '', 'two']
    """
    _check_codec(encoding, errors)
    decoded_lines = _read_lines(source, encoding, errors)
    first = next(decoded_lines, None)
    return (
        decoded_lines
        if first is None
        else chain((first.removeprefix(_BYTE_ORDER_MARK),), decoded_lines)
    )


def check_regular(path: str | os.PathLike[str]) -> None:
    """Raise FormatError if a path is a pipe, a device or a folder; opening a pipe might block."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise FormatError(
            f"{os.fspath(path)}: not a regular file (a pipe, a device or a folder): "
            "copy it to a file first"
        )


def blocks(source: "str | os.PathLike[str] | OpenFile") -> Iterator[bytes]:
    """Yield the decompressed bytes of a file, block by block."""
    with open_once(source) as file:
        while chunk := file.read(_BLOCK):
            yield chunk


class OpenFile:
    """A binary file that is opened once. It is decompressed if its first bytes show a known format.

    `open_once` opens it.
    """

    def __init__(self, file: IO[bytes], name: str) -> None:
        self.name = name
        self.encoding: str | None = None
        """The encoding of the text. None: the encoding that the reader passes, by default UTF-8."""
        self._blocks: deque[bytes] = deque()
        # read1 returns the available bytes of a pipe; read would wait for a complete block.
        self._read: Callable[[int], bytes] = getattr(file, "read1", file.read)
        self._record: list[bytes] | None = None
        head = b""
        # A pipe may return fewer bytes than the comparison needs.
        while compressed.is_incomplete(head) and (block := self._read(compressed.HEAD - len(head))):
            head += block
        try:
            packing = compressed.detect(head, name)
        except compressed.DamageError as error:
            raise FormatError(f"{name}: cannot be decompressed: {error}") from None
        self.is_packed = packing is not None
        if packing is not None:
            self._read = compressed.open_streams(_Reader(self._read), packing, head).read
        elif head:
            self._blocks.append(head)

    def read(self, size: int = -1, /, *, place: str = "") -> bytes:
        """Return decompressed bytes, possibly more or fewer than `size`; b"" at the end.

        `place` follows the name of the file in errors.
        """
        if size == 0:
            return b""
        if self._blocks:
            block = self._blocks.popleft()
        else:
            try:
                block = self._read(_BLOCK if size < 0 else size)
            except (compressed.DamageError, *_BROKEN) as error:
                raise FormatError(f"{self.name}{place}: cannot be decompressed: {error}") from error
        if self._record is not None:
            self._record.append(block)
        return block

    @contextmanager
    def replay(self) -> Iterator[None]:
        """Put the bytes that are read inside the ``with`` block back, to be read again after it."""
        self._record = []
        try:
            yield
        finally:
            self._blocks.extendleft(reversed([block for block in self._record if block]))
            self._record = None


@contextmanager
def open_once(source: "str | os.PathLike[str] | IO[bytes] | OpenFile") -> Iterator[OpenFile]:
    """Yield a path or an open binary file as an `OpenFile`; close it if it was a path."""
    if isinstance(source, OpenFile):
        yield source
    elif isinstance(source, str | os.PathLike):
        with open(source, "rb") as file:
            yield OpenFile(file, name_of(source))
    else:
        yield OpenFile(source, name_of(source))


def write(target: Target, pieces: Iterable[str]) -> None:
    r"""Write the text of each sequence as UTF-8; compress by the suffix, see `packed`.

    A file is replaced only when everything is written, see `writing`.

    >>> import io
    >>> file = io.BytesIO()
    >>> write(file, ["één\n", "twee\n"])
    >>> file.getvalue().decode()
    'één\ntwee\n'
    """
    if isinstance(target, str | os.PathLike):
        with writing(target) as file, packed(file, target) as compressed_file:
            return write(compressed_file, pieces)
    if not hasattr(target, "write"):
        raise InputError(f"target must be a path or an open file, not {type(target).__name__}")
    is_text = _takes_text(target)
    for sequence_number, text in enumerate(pieces):
        if sequence_number == 0:
            text = keep_mark(text)
        try:
            cast(IO[Any], target).write(text if is_text else text.encode())
        except UnicodeEncodeError as error:
            raise InputError(
                f"sequence {{sequence}} cannot be written: {error}", sequence=sequence_number
            ) from error
    return None


def keep_mark(first: str) -> str:
    """Return the first text of a file. A U+FEFF at its start is doubled: `lines` removes one."""
    return _BYTE_ORDER_MARK + first if first.startswith(_BYTE_ORDER_MARK) else first


def packed(file: IO[bytes], name: str | os.PathLike[str]) -> AbstractContextManager[IO[bytes]]:
    """Return a file that compresses, if `name` ends in ``.gz``, ``.xz`` or ``.bz2``."""
    compress = _COMPRESSORS.get(os.path.splitext(name)[1].lower())
    return compress(file, "wb") if compress else nullcontext(file)


def pairs(
    X: Sequence[Sequence[Token]],
    y: Sequence[Sequence[str]] | None,
) -> Iterator[tuple[int, Sequence[Token], Sequence[str] | None]]:
    """Yield (index, tokens, labels) of each sequence; raise InputError if the lengths differ.

    >>> list(pairs([["a", "b"]], [["O"]]))
    Traceback (most recent call last):
        ...
    trellis.errors.InputError: sequence 0 has 2 tokens but 1 labels
    """
    for name, values in (("X", X), ("y", () if y is None else y)):
        if any(isinstance(value, str) for value in values):
            raise InputError(
                f"{name} must be a list of lists: for a single sequence, write [{name}]"
            )
    if y is not None and len(X) != len(y):
        raise InputError(f"X has {len(X)} sequences but y has {len(y)}")
    for sequence_number, tokens in enumerate(X):
        labels = None if y is None else y[sequence_number]
        if labels is not None and len(tokens) != len(labels):
            raise InputError(
                f"sequence {{sequence}} has {len(tokens)} tokens but {len(labels)} labels",
                sequence=sequence_number,
            )
        yield sequence_number, tokens, labels


class _Reader:
    """Wraps a function as an object with the method `read`."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self.read = read


def _check_codec(encoding: str, errors: str) -> None:
    try:
        "".encode(encoding)  # codecs.lookup would also accept codecs that are not for text
        codecs.lookup_error(errors)
    except (LookupError, TypeError) as error:
        raise InputError(f"encoding={encoding!r}, errors={errors!r}: {error}") from error


def _takes_text(file: IO[Any]) -> bool:
    """Return whether a file is open for text. isinstance fails for the wrappers of tempfile."""
    try:
        file.write("")
    except TypeError:
        return False
    return True


def _read_lines(source: Source, encoding: str, errors: str) -> Iterator[str]:
    name = name_of(source)
    if isinstance(source, str | os.PathLike):
        if "\n" in name:
            raise InputError(f"{quote(name)} is not a path: to read a text, pass io.StringIO(text)")
        with open_once(source) as file:
            yield from chain.from_iterable(_split_blocks(file, encoding, errors))
    elif hasattr(source, "read") and source.read(0) == b"":
        with open_once(cast(IO[bytes], source)) as file:
            yield from chain.from_iterable(_split_blocks(file, encoding, errors))
    elif isinstance(source, Iterable):
        yield from _check_lines(cast(Iterable[str], source), name)
    else:
        raise InputError(
            f"source must be a path, an open file or lines, not {type(source).__name__}"
        )


def _check_lines(source: Iterable[str], name: str) -> Iterator[str]:
    """Yield the lines of an open text file or of a list, validated and without line breaks."""
    line_number = 0
    try:
        for line_number, line in enumerate(source, 1):
            if not isinstance(line, str):
                raise InputError(f"{name}, line {line_number} is {type(line).__name__}, not str")
            text = line.removesuffix("\n").removesuffix("\r")
            if "\n" in text:
                raise InputError(f"{name}, line {line_number} contains a line break: {quote(text)}")
            yield text
    except (UnicodeDecodeError, *_BROKEN) as error:
        raise FormatError(f"{name}, after line {line_number}: {error}") from error


def _split_blocks(file: OpenFile, encoding: str, errors: str) -> Iterator[list[str]]:
    """Yield the lines of each block of bytes; splitting many lines at once is much faster."""
    encoding = file.encoding or encoding
    _check_codec(encoding, errors)
    decoder = codecs.getincrementaldecoder(encoding)(errors)
    name = file.name
    lines_done = 0
    # The parts of a line that is longer than a block. They are joined only once: joining them after
    # each block would take quadratic time.
    line_parts: list[str] = []
    has_more = True
    while has_more:
        chunk = file.read(_BLOCK, place=f", after line {lines_done}")
        has_more = bool(chunk)
        try:
            text = decoder.decode(chunk, final=not has_more)
        except UnicodeDecodeError as error:
            line_number = lines_done + error.object.count(b"\n", 0, error.start) + 1
            guess = "utf-16" if error.object.startswith(_UTF16_MARKS) else "cp1252"
            raise line_error(
                name,
                line_number,
                f"not {encoding}: {error.reason}; if the file has another encoding, pass it: "
                f"encoding={guess!r}, or --encoding {guess} in commands",
            ) from error
        # Many binary files are valid UTF-8, but most of them contain a zero byte.
        if "\0" in text:
            line_number = lines_done + text.count("\n", 0, text.index("\0")) + 1
            problem = "the line contains a zero byte: not a text file"
            if text.startswith("PK\3\4") and not lines_done:  # a zip archive
                problem += "; export a spreadsheet as tab-separated text"
            raise line_error(name, line_number, problem)
        line_parts.append(text)
        if "\n" in text or not has_more:
            lines = "".join(line_parts).split("\n")
            line_parts = [lines.pop()] if has_more else []
            if not has_more and not lines[-1]:
                lines.pop()  # the file ends with a line break
            lines_done += len(lines)
            yield [line.removesuffix("\r") for line in lines]
