"""Decompression of ``gzip``, ``xz``, ``bzip2`` and ``zstd``, with an error for every damaged file.

A file is a series of compressed streams. The modules of the standard library differ in what they
do with bytes after the first stream: `lzma` and `bz2` ignore them if they are damaged, so a file
would end early without an error. Here, each stream must be complete, and after it comes the end of
the file, another stream, or padding with zero bytes where the format allows it.
"""

import bz2
import lzma
import os
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from trellis.errors import InputError

__all__ = ["HEAD", "SUFFIXES", "DamageError", "Reads", "detect", "is_incomplete", "open_streams"]

HEAD = 32  # bytes that `detect` needs at most
_PACKED = 1 << 16  # compressed bytes read at a time
# zstandard decompresses all its input at once. A block of 128 kB can be stored in 4 bytes, so 4096
# compressed bytes of a forged file become at most 128 MB.
_PACKED_ZSTD = 1 << 12
MAX_WINDOW = 1 << 30  # bytes that an xz header may demand; `xz -9` needs 65 MB
# A text may start with "BZh9". So the magic number that follows it is compared too: that of the
# first block or, in an empty file, that of the end of the stream.
_BZIP2 = (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90")
_ZSTD = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPED = b"\x2a\x4d\x18"  # the last bytes of the magic number of a skippable frame


class DamageError(Exception):
    """A compressed file is damaged or incomplete."""


class Reads(Protocol):
    """An object with the method `read`, which returns b"" only at the end."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes, possibly more or fewer than ``size``."""


class _Packing(NamedTuple):
    """A compressed format."""

    name: str
    suffixes: tuple[str, ...]
    starts: tuple[bytes, ...]
    """A stream starts with one of these."""
    new: Callable[[], Any]
    """Return the decompressor of one stream."""
    padding: int = 0
    """The number of zero bytes between streams is a multiple of this; 0 means none."""
    piece: int = _PACKED


def open_streams(file: Reads, packing: _Packing, head: bytes) -> Reads:
    """Return the decompressed contents of a file, whose first bytes have been read into `head`."""
    return _Streams(file, packing, head)


def detect(head: bytes, name: str) -> _Packing | None:
    """Return the format of a file by its first `HEAD` bytes, or None if it is not compressed.

    Raises DamageError if the first bytes of a compressed file are missing, changed or incomplete.

    >>> detect(b"New York", "corpus.txt.gz") is None
    True
    """
    suffix = os.path.splitext(name)[1].lower()
    for packing in _PACKINGS:
        if head.startswith(packing.starts):
            return packing
    for packing in _PACKINGS:
        is_named = suffix in packing.suffixes
        # A short text may equal the first bytes of a zstd or bzip2 file, such as "(" or "BZh", but
        # not those of the other formats.
        is_binary = packing.name in ("gzip", "xz") and head not in (b"", b"\xfd")
        if (is_named or is_binary) and _is_prefix(head, packing):
            raise DamageError("the file ends too early")
        # A text with the name of a compressed file is read as text.
        if is_named and any(byte < 32 and byte not in b"\t\n\v\f\r" for byte in head):
            raise DamageError(f"the file does not start as a {packing.name} file")
    return None


def is_incomplete(head: bytes) -> bool:
    r"""Return whether more bytes are needed to know if a file is compressed.

    >>> is_incomplete(b""), is_incomplete(b"BZh9"), is_incomplete(b"BZ\n")
    (True, True, False)
    """
    return any(_is_prefix(head, packing) for packing in _PACKINGS)


def _is_prefix(head: bytes, packing: _Packing) -> bool:
    return any(start.startswith(head) and start != head for start in packing.starts)


class _Streams:
    """Decompresses the streams of a file one after the other."""

    def __init__(self, file: Reads, packing: _Packing, head: bytes) -> None:
        self._file, self._packing, self._unread = file, packing, head
        self._stream = packing.new()

    def read(self, size: int, /) -> bytes:
        """Return decompressed bytes, about `size` or fewer; b"" at the end of the file."""
        while not self._stream.eof or self._open_next():
            compressed_bytes = b""
            if self._stream.needs_input:
                compressed_bytes, self._unread = (
                    self._unread or self._file.read(self._packing.piece),
                    b"",
                )
                if not compressed_bytes:
                    raise DamageError("the file ends too early")
            try:
                block: bytes = self._stream.decompress(compressed_bytes, size)
            except MemoryError:
                raise
            except Exception as error:  # each module has its own: zlib.error, LZMAError, OSError
                raise DamageError(str(error)) from error
            if self._stream.eof:
                self._unread = self._stream.unused_data
            if block:
                return block
        return b""

    def _open_next(self) -> bool:
        """Skip the padding and start the next stream; return False at the end of the file."""
        padding = 0
        while True:
            block = self._unread or self._file.read(self._packing.piece)
            self._unread = block.lstrip(b"\0") if self._packing.padding else block
            padding += len(block) - len(self._unread)
            if self._unread or not block:
                break
        if padding and padding % self._packing.padding:
            raise DamageError(f"{padding} zero bytes follow the compressed data")
        while 0 < len(self._unread) < HEAD and (block := self._file.read(HEAD)):
            self._unread += block
        if not self._unread:
            return False
        if not self._unread.startswith(self._packing.starts):
            raise DamageError("other bytes follow the compressed data")
        self._stream = self._packing.new()
        return True


class _Gzip:
    """The decompressor of zlib with the attributes that those of lzma and bz2 have."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    def decompress(self, data: bytes, size: int) -> bytes:
        decompressed_bytes = self._zlib.decompress(data or self._zlib.unconsumed_tail, size)
        # If the result is full, zlib may hold back more output, even without unconsumed input.
        self.needs_input = not self._zlib.unconsumed_tail and len(decompressed_bytes) < size
        return decompressed_bytes


class _Zstandard:
    """The decompressor of the package zstandard with the attributes of the others."""

    needs_input = True

    def __init__(self, new: Callable[[], Any]) -> None:
        self._frame = new()

    @property
    def eof(self) -> bool:
        return bool(self._frame.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._frame.unused_data)

    def decompress(self, data: bytes, size: int) -> bytes:
        """Return all decompressed bytes, also if there are more than `size`."""
        return bytes(self._frame.decompress(data))


def _new_zstd() -> Any:
    """Return a decompressor. Python 3.14 has a module for it; older versions need a package."""
    try:
        from compression import zstd
    except ImportError:
        try:
            import zstandard
        except ImportError:
            raise InputError("zstd files need a package: pip install zstandard") from None
        return _Zstandard(zstandard.ZstdDecompressor().decompressobj)
    return zstd.ZstdDecompressor()


_PACKINGS = (
    _Packing("gzip", (".gz",), (b"\x1f\x8b",), _Gzip, padding=1),
    _Packing(
        "xz",
        (".xz",),
        (b"\xfd7zXZ\x00",),
        lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_WINDOW),
        padding=4,
    ),
    _Packing(
        "bzip2",
        (".bz2",),
        tuple(b"BZh%d" % level + block for level in range(1, 10) for block in _BZIP2),
        bz2.BZ2Decompressor,
    ),
    _Packing(
        "zstd",
        (".zst", ".zstd"),
        (_ZSTD, *(bytes([first]) + _ZSTD_SKIPPED for first in range(0x50, 0x60))),
        _new_zstd,
        piece=_PACKED_ZSTD,
    ),
)
SUFFIXES = tuple(suffix for packing in _PACKINGS for suffix in packing.suffixes)
