"""Shared parts of the readers of CRF++ and Wapiti text models: names and numbered weights.

Files are read by lines or blocks into arrays. Lists of Python objects would take several times the
memory of the file.
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

__all__ = ["MAX_LABELS", "NameList", "TextModel", "open_text", "read_weights"]

MAX_LABELS = 1 << 14  # the number of label pairs must fit into int32, and their table into memory
_BLOCK = 1 << 20  # bytes that the native reader parses at a time


class TextModel(NamedTuple):
    """The nonzero weights of a model.

    The weights of name i have the numbers ``begin[i]`` to ``begin[i + 1] - 1``.
    """

    labels: list[str]
    templates: str
    names: Names
    """The names in UTF-8, in the order of their weights."""
    begin: NDArray[np.int64]
    """``(names + 1,)``"""
    states: NDArray[np.bool_]
    """``(names,)``: True if a name has weights of labels; weights of label pairs follow them."""
    number: NDArray[np.int64]
    """``(weights,)``, ascending."""
    weight: NDArray[np.float64]

    def cells(self) -> dict[tuple[str, int], float]:
        """Return the weights by (name, cell), for tests and for inspecting small models.

        A cell is the index of a label, or the number of labels plus the index of a pair.
        """
        cells = {}
        for number, weight in zip(self.number.tolist(), self.weight.tolist(), strict=True):
            i = int(np.searchsorted(self.begin, number, side="right")) - 1
            cell = number - int(self.begin[i]) + (0 if self.states[i] else len(self.labels))
            cells[self.names.string(i).decode(), cell] = weight
        return cells


@contextmanager
def open_text(path: str | os.PathLike[str], encoding: str) -> Iterator[IO[bytes]]:
    """Open a text file whose last line must be complete; errors name the file."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would block
            raise FormatError("not a regular file")
        with open(path, "rb") as file:
            if file.seek(0, os.SEEK_END) == 0:
                raise FormatError("the file is empty")
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                raise FormatError("the last line has no line break: the file was cut off")
            file.seek(0)
            yield file
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None
    except (UnicodeError, LookupError) as error:
        raise FormatError(f"{path}: not {encoding}: {error}") from None


class NameList:
    """Collects the names of a file."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._data, self._ends = bytearray(), array("q", [0])

    def add(self, name: bytes) -> None:
        """Add a name, which must be valid in the encoding."""
        text = name.decode(self._encoding)
        self._data += name if self._encoding == "utf-8" else text.encode()
        self._ends.append(len(self._data))

    def names(self, what: str, order: NDArray[np.int64] | None = None) -> Names:
        """Return all names, in ``order`` if it is not None; raise FormatError if two are equal."""
        data = np.frombuffer(self._data, np.uint8) if self._data else np.zeros(0, np.uint8)
        ends = np.frombuffer(self._ends, np.int64)
        begin, size = ends[:-1], np.diff(ends)
        if order is not None:
            begin, size = begin[order], size[order]
        names = Names(data, begin, size)
        repeated = _core.repeated(*names)
        if repeated >= 0:
            name = names.string(repeated).decode()
            raise FormatError(f"two {what} have the same name {name!r:.80}")
        return names


def read_weights(
    file: IO[bytes], n_lines: int, indexed: bool
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Read the remaining lines of a file; return the numbers and values of the nonzero weights.

    There must be exactly ``n_lines`` lines. Each is a weight, or ``number=weight`` if ``indexed``.
    """
    # The header may be wrong: never allocate more lines than the file can contain.
    # The shortest lines are "0\n" and "0=0\n".
    bytes_left = os.fstat(file.fileno()).st_size - file.tell()
    capacity = min(n_lines, bytes_left // (4 if indexed else 2) + 1)
    numbers, weights = np.empty(capacity, np.int64), np.empty(capacity)
    reader = _core.WeightReader(indexed, numbers, weights)
    while block := file.read(_BLOCK):
        block += file.readline() if block[-1:] != b"\n" else b""
        fault, line = reader.feed(block)
        if fault == "order":
            raise FormatError(f"the numbers of the weights do not ascend: {line[:60]!r}")
        if fault == "text" and indexed:
            raise FormatError(f"{line[:60]!r} is not the number of a weight and its value")
        if fault == "text":
            raise FormatError(f"{line[:60]!r} is not a finite number, expected a weight")
        if fault or reader.lines > n_lines:
            raise FormatError(
                f"the number of weights in the header is {n_lines}, but the file has more"
            )
    if reader.lines != n_lines:
        raise FormatError(
            f"the number of weights in the header is {n_lines}, but the file has {reader.lines}"
        )
    numbers.resize(reader.kept, refcheck=False)
    weights.resize(reader.kept, refcheck=False)
    return numbers, weights
