"""What the text models of CRF++ and Wapiti have in common: names, and weights by number.

Files are read a line or a block at a time into arrays: lists of Python objects would take several
times the room of the file.
"""

import os
import stat
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.errors import FormatError
from trellis.formats.strings import Names

__all__ = ["MOST_LABELS", "NameList", "TextModel", "opened", "read_weights"]

MOST_LABELS = 1 << 14
_BLOCK = 1 << 20  # bytes that are read as numbers at once


class TextModel(NamedTuple):
    """Weights other than 0; those of name i are numbered ``begin[i] <= number < begin[i + 1]``."""

    labels: list[str]
    templates: str
    names: Names
    """In UTF-8, in the order of their weights."""
    begin: NDArray[np.int64]
    states: NDArray[np.bool_]
    """Whether the first weights of a name are one for each label; all others are for pairs."""
    number: NDArray[np.int64]
    """Of each weight, ascending."""
    weight: NDArray[np.float64]

    def cells(self) -> dict[tuple[str, int], float]:
        """By name and cell, a label or labels + a pair: for small models and those who look."""
        found = {}
        for number, weight in zip(self.number.tolist(), self.weight.tolist(), strict=True):
            i = int(np.searchsorted(self.begin, number, side="right")) - 1
            cell = number - int(self.begin[i]) + (0 if self.states[i] else len(self.labels))
            found[self.names.string(i).decode(), cell] = weight
        return found


@contextmanager
def opened(path: str | os.PathLike[str], encoding: str) -> Iterator[IO[bytes]]:
    """A text file, whose last line must be whole; errors begin with its name."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would wait for its other end
            raise FormatError("not a regular file")
        with open(path, "rb") as file:
            if file.seek(0, os.SEEK_END) == 0:
                raise FormatError("the file is empty")
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                raise FormatError("its last line has no end: the file was cut short")
            file.seek(0)
            yield file
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None
    except (UnicodeError, LookupError) as error:
        raise FormatError(f"{path}: not {encoding}: {error}") from None


class NameList:
    """Names end to end, as they come."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._data, self._ends = bytearray(), array("q", [0])

    def add(self, name: bytes) -> None:
        """One more, which must be in the encoding."""
        text = name.decode(self._encoding)
        self._data += name if self._encoding == "utf-8" else text.encode()
        self._ends.append(len(self._data))

    def names(self, what: str, order: NDArray[np.int64] | None = None) -> Names:
        """All of them, in this order if one is given; no two may be the same."""
        data = np.frombuffer(self._data, np.uint8) if self._data else np.zeros(0, np.uint8)
        ends = np.frombuffer(self._ends, np.int64)
        begin, size = ends[:-1], np.diff(ends)
        if order is not None:
            begin, size = begin[order], size[order]
        found = Names(data, begin, size)
        again = _core.repeated(*found)
        if again >= 0:
            name = found.string(again).decode()
            raise FormatError(f"two {what} have the same name {name!r:.80}")
        return found


def read_weights(
    file: IO[bytes], lines: int, indexed: bool
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The weights in the rest of a file that are not 0, and their numbers.

    So many lines there must be, each with a weight, or with ``number=weight``.
    """
    left = os.fstat(file.fileno()).st_size - file.tell()
    room = min(lines, left // (4 if indexed else 2) + 1)  # a line has as many bytes at least
    number, weight = np.empty(room, np.int64), np.empty(room)
    reader = _core.WeightReader(indexed, number, weight)
    while block := file.read(_BLOCK):
        block += file.readline() if block[-1:] != b"\n" else b""
        fault, line = reader.feed(block)
        if fault == "order":
            raise FormatError(f"the numbers of its weights do not ascend: {line[:60]!r}")
        if fault == "text" and indexed:
            raise FormatError(f"{line[:60]!r} is not the number of a weight and its value")
        if fault == "text":
            raise FormatError(f"{line[:60]!r}, a line of its weights, is not a number")
        if fault or reader.lines > lines:
            raise FormatError(f"its header says {lines} weights, but it has more")
    if reader.lines != lines:
        raise FormatError(f"its header says {lines} weights, but it has {reader.lines}")
    number.resize(reader.kept, refcheck=False)
    weight.resize(reader.kept, refcheck=False)
    return number, weight
