"""Memory-mapped files, and a cursor that never reads beyond their end."""

import mmap
import os
import stat
import struct
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from trellis.errors import FormatError

__all__ = ["Cursor", "check_finite", "map_file"]

_CHUNK = 1 << 20  # numbers checked at a time, so that the temporary array stays small


def map_file(path: str | os.PathLike[str]) -> mmap.mmap:
    """Map a file into memory. Its bytes are read from the disk when they are used."""
    if not stat.S_ISREG(Path(path).stat().st_mode):  # opening a pipe would block
        raise FormatError("not a regular file")
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            raise FormatError("the file is empty")  # mmap refuses empty files
        return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)


def check_finite(array: NDArray[Any], what: str) -> None:
    """Raise FormatError if an array contains NaN or infinity.

    >>> check_finite(np.array([[0.0, np.nan]]), "the input matrix")
    Traceback (most recent call last):
        ...
    trellis.errors.FormatError: the input matrix is nan at [0, 1]
    """
    flat = array.reshape(-1)
    for begin in range(0, flat.size, _CHUNK):
        is_finite = np.isfinite(flat[begin : begin + _CHUNK])
        if not is_finite.all():
            index = np.unravel_index(begin + int(np.argmin(is_finite)), array.shape)
            raise FormatError(f"{what} is {array[index]} at {[int(i) for i in index]}")


class Cursor:
    r"""Reads numbers, strings and arrays from bytes, one after the other.

    >>> cursor = Cursor(b"\x02\x00\x00\x00hi\x00\x00\x00\x80\x3f")
    >>> cursor.numbers("<i", "the count"), cursor.string("a word")
    ((2,), b'hi')
    >>> cursor.array(np.float32, (1,), "the weights")
    array([1.], dtype=float32)
    >>> cursor.numbers("<i", "the rest")
    Traceback (most recent call last):
        ...
    trellis.errors.FormatError: the file ends inside the rest
    """

    def __init__(self, data: mmap.mmap | bytes) -> None:
        self.data = data
        self.at = 0

    @property
    def left(self) -> int:
        """Number of bytes that have not been read."""
        return len(self.data) - self.at

    def numbers(self, layout: str, what: str) -> tuple[Any, ...]:
        """Read numbers in a layout of `struct`; ``what`` names them in errors."""
        self.at, begin = self._find_end(struct.calcsize(layout), what), self.at
        return struct.unpack_from(layout, self.data, begin)

    def string(self, what: str) -> bytes:
        """Read the bytes up to the next zero byte, and skip that byte."""
        end = self.data.find(b"\0", self.at)
        if end < 0:
            raise FormatError(f"the file ends inside {what}")
        self.at, begin = end + 1, self.at
        return self.data[begin:end]

    def array(self, dtype: DTypeLike, shape: Sequence[int], what: str) -> NDArray[Any]:
        """Read an array: a read-only view, possibly not aligned.

        No memory is allocated, so a wrong size in the file is harmless.
        """
        little_endian = np.dtype(dtype).newbyteorder("<")
        if min(shape) < 0:
            raise FormatError(f"{what} has {min(shape)} rows or columns")
        if max(shape) > len(self.data):  # this also refuses a shape such as (10**18, 0)
            raise FormatError(f"the file ends inside {what}")
        self.at, begin = self._find_end(prod(shape) * little_endian.itemsize, what), self.at
        view: NDArray[Any] = np.ndarray(shape, little_endian, buffer=self.data, offset=begin)
        view.flags.writeable = False
        return view

    def finish(self) -> None:
        """Raise FormatError if there are unread bytes."""
        if self.left:
            raise FormatError(f"{self.left} unexpected bytes follow the data")

    def _find_end(self, size: int, what: str) -> int:
        """Return the position after ``size`` more bytes; raise FormatError if they are missing."""
        if size > self.left:
            raise FormatError(f"the file ends inside {what}")
        return self.at + size
