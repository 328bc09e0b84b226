"""The bytes of a file, mapped, and a place in them that never leaves them."""

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

_CHUNK = 1 << 20


def map_file(path: str | os.PathLike[str]) -> mmap.mmap:
    """All bytes of the file, which are read from the disk only when they are looked at."""
    if not stat.S_ISREG(Path(path).stat().st_mode):  # opening a pipe would wait for its other end
        raise FormatError("not a regular file")
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            raise FormatError("the file is empty")  # and cannot be mapped
        return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)


def check_finite(array: NDArray[Any], what: str) -> None:
    """FormatError where an array holds NaN or infinities; looks at a part at a time.

    >>> check_finite(np.array([[0.0, np.nan]]), "the input matrix")
    Traceback (most recent call last):
        ...
    trellis.errors.FormatError: the input matrix is nan at [0, 1]
    """
    flat = array.reshape(-1)
    for begin in range(0, flat.size, _CHUNK):
        good = np.isfinite(flat[begin : begin + _CHUNK])
        if not good.all():
            at = np.unravel_index(begin + int(np.argmin(good)), array.shape)
            value = array[at]
            raise FormatError(f"{what} is {value} at {[int(i) for i in at]}")


class Cursor:
    r"""Takes numbers, strings and arrays off a file's bytes, one after the other.

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
        """Bytes that have not been taken."""
        return len(self.data) - self.at

    def numbers(self, layout: str, what: str) -> tuple[Any, ...]:
        """As `struct.unpack` gives them."""
        self.at, begin = self._end(struct.calcsize(layout), what), self.at
        return struct.unpack_from(layout, self.data, begin)

    def string(self, what: str) -> bytes:
        """The bytes before the next zero, which is taken too."""
        end = self.data.find(b"\0", self.at)
        if end < 0:
            raise FormatError(f"the file ends inside {what}")
        self.at, begin = end + 1, self.at
        return self.data[begin:end]

    def array(self, dtype: DTypeLike, shape: Sequence[int], what: str) -> NDArray[Any]:
        """A read-only view, which need not be aligned; nothing is allocated on a declared size."""
        kind = np.dtype(dtype).newbyteorder("<")
        if min(shape) < 0:
            raise FormatError(f"{what} has {min(shape)} rows or columns")
        if max(shape) > len(self.data):  # of an array without rows, too
            raise FormatError(f"the file ends inside {what}")
        self.at, begin = self._end(prod(shape) * kind.itemsize, what), self.at
        view: NDArray[Any] = np.ndarray(shape, kind, buffer=self.data, offset=begin)
        view.flags.writeable = False
        return view

    def finish(self) -> None:
        """Nothing may be left."""
        if self.left:
            raise FormatError(f"{self.left} bytes follow the end")

    def _end(self, size: int, what: str) -> int:
        if size > self.left:
            raise FormatError(f"the file ends inside {what}")
        return self.at + size
