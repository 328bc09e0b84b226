r"""Read lines from files and write text to files, with decompression and decoding.

A source is a path, an open file (text or binary), or any iterable of lines. ``gzip``, ``xz`` and
``zstd`` are detected by their first bytes, not by the name. Lines end only at ``\n`` or ``\r\n``,
because tokens may contain other characters that Unicode counts as line breaks.
"""

import codecs
import gzip
import lzma
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from typing import IO, Any, Protocol, TypeAlias, cast

from trellis.errors import FormatError, InputError

Token: TypeAlias = str | tuple[str, ...]
Source: TypeAlias = str | os.PathLike[str] | IO[str] | IO[bytes] | Iterable[str]
Target: TypeAlias = str | os.PathLike[str] | IO[str] | IO[bytes]

_BLOCK = 1 << 18  # bytes to read at a time: large enough to be fast, small enough for the CPU cache
_BYTE_ORDER_MARK = "\ufeff"
_GZIP, _XZ, _ZSTD = b"\x1f\x8b", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"
# The errors that decompressors raise for damaged files.
_BROKEN = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)
_COMPRESSORS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open}


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


def wrong(name: str, number: int, problem: str) -> FormatError:
    """Return the error for a line of a file; lines are numbered from 1."""
    return FormatError(f"{name}, line {number}: {problem}")


def shown(text: str, width: int = 80) -> str:
    """Return a text in quotes for error messages; a long text is shortened.

    >>> print(shown("abcdefgh", width=5))
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
    decoded = _read_lines(source, encoding, errors)
    first = next(decoded, None)
    return decoded if first is None else chain((first.removeprefix(_BYTE_ORDER_MARK),), decoded)


def is_packed(path: str | os.PathLike[str]) -> bool:
    """Return whether the first bytes of a file are those of ``gzip``, ``xz`` or ``zstd``."""
    with open(path, "rb") as file:
        return file.read(len(_XZ)).startswith((_GZIP, _XZ, _ZSTD))


def blocks(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """Yield the decompressed bytes of a file, block by block."""
    with open(path, "rb") as file:
        inside = _decompress(file)
        while chunk := _read_block(inside, name_of(path)):
            yield chunk


def write(target: Target, pieces: Iterable[str]) -> None:
    r"""Write the text of each sequence as UTF-8; compress if the path ends in ``.gz`` or ``.xz``.

    >>> import io
    >>> file = io.BytesIO()
    >>> write(file, ["één\n", "twee\n"])
    >>> file.getvalue().decode()
    'één\ntwee\n'
    """
    if isinstance(target, str | os.PathLike):
        with open(target, "wb") as file, packed(file, target) as inside:
            return write(inside, pieces)
    if not hasattr(target, "write"):
        raise InputError(f"target must be a path or an open file, not {type(target).__name__}")
    is_text = _takes_text(target)
    for number, piece in enumerate(pieces):
        if number == 0:
            piece = keep_mark(piece)
        try:
            cast(IO[Any], target).write(piece if is_text else piece.encode())
        except UnicodeEncodeError as error:
            raise InputError(
                f"sequence {{sequence}} cannot be written: {error}", sequence=number
            ) from error
    return None


def keep_mark(first: str) -> str:
    """Return the first text of a file; a U+FEFF at its start is doubled, as `lines` removes one."""
    return _BYTE_ORDER_MARK + first if first.startswith(_BYTE_ORDER_MARK) else first


def packed(file: IO[bytes], name: str | os.PathLike[str]) -> AbstractContextManager[IO[bytes]]:
    """Return a file that compresses what is written to it, if `name` ends in ``.gz`` or ``.xz``."""
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
    if y is not None and len(X) != len(y):
        raise InputError(f"X has {len(X)} sequences but y has {len(y)}")
    for number, tokens in enumerate(X):
        labels = None if y is None else y[number]
        if labels is not None and len(tokens) != len(labels):
            raise InputError(
                f"sequence {{sequence}} has {len(tokens)} tokens but {len(labels)} labels",
                sequence=number,
            )
        yield number, tokens, labels


class _Reads(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _PutBack:
    """A binary file whose first bytes `head` have been read already; `read` returns them again."""

    def __init__(self, head: bytes, file: IO[bytes]) -> None:
        self._head = head
        # read1 returns the available bytes of a pipe; read would wait for a complete block.
        self._read: Callable[[int], bytes] = getattr(file, "read1", file.read)

    def read(self, size: int, /) -> bytes:
        if not self._head:
            return self._read(size)
        head, self._head = self._head[:size], self._head[size:]
        return head


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
            raise InputError(f"{shown(name)} is not a path: to read a text, pass io.StringIO(text)")
        with open(source, "rb") as file:
            yield from chain.from_iterable(_split_blocks(file, name, encoding, errors))
    elif hasattr(source, "read") and source.read(0) == b"":
        yield from chain.from_iterable(
            _split_blocks(cast(IO[bytes], source), name, encoding, errors)
        )
    elif isinstance(source, Iterable):
        yield from _check_lines(cast(Iterable[str], source), name)
    else:
        raise InputError(
            f"source must be a path, an open file or lines, not {type(source).__name__}"
        )


def _check_lines(source: Iterable[str], name: str) -> Iterator[str]:
    """Yield the lines of an open text file or of a list, validated and without line breaks."""
    number = 0
    try:
        for number, line in enumerate(source, 1):
            if not isinstance(line, str):
                raise InputError(f"{name}, line {number} is {type(line).__name__}, not str")
            text = line.removesuffix("\n").removesuffix("\r")
            if "\n" in text:
                raise InputError(f"{name}, line {number} contains a line break: {shown(text)}")
            yield text
    except (UnicodeDecodeError, *_BROKEN) as error:
        raise FormatError(f"{name}, after line {number}: {error}") from error


def _split_blocks(file: IO[bytes], name: str, encoding: str, errors: str) -> Iterator[list[str]]:
    """Yield the lines of each block of bytes; splitting many lines at once is much faster."""
    decoder = codecs.getincrementaldecoder(encoding)(errors)
    source = _decompress(file)
    lines_done = 0
    # The parts of a line that is longer than a block. They are joined only once: joining them after
    # each block would take quadratic time.
    parts: list[str] = []
    more = True
    while more:
        chunk = _read_block(source, f"{name}, after line {lines_done}")
        more = bool(chunk)
        try:
            text = decoder.decode(chunk, final=not more)
        except UnicodeDecodeError as error:
            number = lines_done + error.object.count(b"\n", 0, error.start) + 1
            raise wrong(name, number, f"not {encoding}: {error.reason}") from error
        # Many binary files are valid UTF-8, but most of them contain a zero byte.
        if "\0" in text:
            number = lines_done + text.count("\n", 0, text.index("\0")) + 1
            raise wrong(name, number, "the line contains a zero byte: not a text file")
        parts.append(text)
        if "\n" in text or not more:
            split = "".join(parts).split("\n")
            parts = [split.pop()] if more else []
            if not more and not split[-1]:
                split.pop()  # the file ends with a line break
            lines_done += len(split)
            yield [line.removesuffix("\r") for line in split]


def _decompress(file: IO[bytes]) -> _Reads:
    """Return a file that decompresses if the first bytes are those of a known format."""
    head = file.read(len(_XZ))
    complete: Any = _PutBack(head, file)
    if head.startswith(_GZIP):
        return _PutBack(b"", cast(IO[bytes], gzip.GzipFile(fileobj=complete, mode="rb")))
    if head.startswith(_XZ):
        return _PutBack(b"", lzma.LZMAFile(complete))
    if head.startswith(_ZSTD):
        return _Zstd(complete)
    return cast(_Reads, complete)


class _Zstd:
    """Decompresses zstd. Python 3.14 has a module for it; older versions need a package."""

    def __init__(self, file: _Reads) -> None:
        self._file = file
        self._new: Callable[[], Any]
        self._broken: type[Exception]
        try:
            from compression import zstd
        except ImportError:
            try:
                import zstandard
            except ImportError:
                raise InputError("zstd files need a package: pip install zstandard") from None
            self._new = zstandard.ZstdDecompressor().decompressobj
            self._broken = zstandard.ZstdError
        else:
            self._new, self._broken = zstd.ZstdDecompressor, zstd.ZstdError
        self._frame = self._new()

    def read(self, size: int, /) -> bytes:
        """Return the next decompressed bytes, often more than `size`; b"" at the end."""
        while packed := (self._frame.unused_data if self._frame.eof else b"") or self._file.read(
            size
        ):
            if self._frame.eof:
                self._frame = self._new()
            try:
                if text := bytes(self._frame.decompress(packed)):
                    return text
            except self._broken as error:
                raise EOFError(str(error)) from error
        if not self._frame.eof:
            raise EOFError("the file ends too early")
        return b""


def _read_block(file: _Reads, where: str) -> bytes:
    try:
        return file.read(_BLOCK)
    except _BROKEN as error:
        raise FormatError(f"{where}: cannot be decompressed: {error}") from error
