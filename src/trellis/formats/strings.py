"""Store many strings in two arrays, as model files store vocabularies."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.errors import FormatError, InputError

__all__ = ["Names", "pack_strings", "unpack_strings"]


class Names(NamedTuple):
    """Strings inside a larger array: string i is ``data[begin[i] : begin[i] + size[i]]``."""

    data: NDArray[np.uint8]
    """All bytes; there may be other bytes between the strings."""
    begin: NDArray[np.int64]
    """``(strings,)``"""
    size: NDArray[np.int64]
    """``(strings,)``: lengths in bytes."""

    def string(self, i: int) -> bytes:
        """Return the bytes of string i."""
        begin = int(self.begin[i])
        return self.data[begin : begin + int(self.size[i])].tobytes()

    def decoded(self, what: str, encoding: str = "utf-8") -> list[str]:
        """Return all strings. Error messages call string i ``what`` i."""
        strings = []
        for i in range(len(self.begin)):
            encoded = self.string(i)
            try:
                strings.append(encoded.decode(encoding))
            except UnicodeDecodeError as error:
                raise FormatError(f"{what} {i} is not {encoding}: {error}") from None
            if b"\0" in encoded:
                raise FormatError(f"{what} {i} contains a zero byte")
        return strings


def pack_strings(strings: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the UTF-8 bytes of all strings, and their offsets ``(n + 1,)``.

    String i is ``data[offsets[i] : offsets[i + 1]]``.

    >>> pack_strings(["né", "", "a"])
    (array([110, 195, 169,  97], dtype=uint8), array([0, 3, 3, 4]))
    """
    encoded: list[bytes] = []
    try:
        encoded.extend(map(str.encode, strings))
    except (TypeError, UnicodeEncodeError) as error:
        raise InputError(f"string {len(encoded)} cannot be stored: {error}") from None
    offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), out=offsets[1:])
    return np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets


def unpack_strings(data: NDArray[Any], offsets: NDArray[Any], what: str) -> list[str]:
    """Return the strings that `pack_strings` packed; errors start with ``what``.

    >>> unpack_strings(*pack_strings(["né", "", "a"]), "model.trellis: labels")
    ['né', '', 'a']
    """
    if data.dtype != np.uint8 or offsets.dtype != np.int64 or data.ndim != 1 or offsets.ndim != 1:
        raise FormatError(f"{what}: strings must be 1-D uint8 data and 1-D int64 offsets")
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != len(data):
        ends = offsets[[0, -1]].tolist() if len(offsets) else "empty"
        raise FormatError(f"{what}: offsets must start at 0 and end at {len(data)}, not {ends}")
    reversed_strings = np.flatnonzero(offsets[1:] < offsets[:-1])
    if len(reversed_strings):
        raise FormatError(f"{what}: string {reversed_strings[0]} ends before it begins")
    encoded = data.tobytes()
    strings: list[str] = []
    try:
        strings.extend(encoded[begin:end].decode() for begin, end in pairwise(offsets.tolist()))
    except UnicodeDecodeError as error:
        raise FormatError(f"{what}: string {len(strings)} is not UTF-8: {error}") from None
    return strings
