"""CRF++'s model as text, as ``crf_learn -t`` writes it.

    version: 100            labels      templates         id name         weights,
    cost-factor: 1          one         one               one             one
    maxid: 58324            a line      a line            a line          a line
    xsize: 2

The five parts are separated by blank lines. An attribute that begins with U has one weight for each
label, from its id on; one with B has one for each pair, the label before first.
"""

import mmap
import os
import stat
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.errors import FormatError

__all__ = ["Model", "mapped", "read"]

_MOST_LABELS = 1 << 14
_BLOCK = 1 << 20  # bytes that are read as numbers at once


class Model(NamedTuple):
    """What a file holds; the weights are those of the attributes, in the order of the names."""

    labels: list[str]
    templates: str
    names: list[str]
    """Of attributes of a position: as many weights as there are labels."""
    edge_names: list[str]
    """Of attributes of a transition: as many as there are pairs."""
    begin: NDArray[np.int64]
    edge_begin: NDArray[np.int64]
    """The first weight of each attribute."""
    weights: NDArray[np.float64]


def mapped(path: str | os.PathLike[str]) -> Any:
    """All bytes of a text file, read when they are looked at; its last line must be whole."""
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise FormatError("not a regular file")
        if status.st_size == 0:
            raise FormatError("the file is empty")
        data = mmap.mmap(file.fileno(), status.st_size, access=mmap.ACCESS_READ)
    if data[-1:] != b"\n":
        raise FormatError("its last line has no end: the file was cut short")
    return data


def read(path: str | os.PathLike[str], encoding: str = "utf-8") -> Model:
    """The model in a file; FormatError, which names the file, if it holds none."""
    try:
        with mapped(path) as data:
            return _model(data, encoding)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: not {encoding}: {error}") from None


def _model(data: Any, encoding: str) -> Model:
    at, lines = 0, []
    for part in ("header", "labels", "templates", "features"):
        end = data.find(b"\n\n", at)
        if end < 0:
            raise FormatError(f"there is no blank line behind its {part}")
        lines.append((at, end))
        at = end + 2
    header = _header(data[slice(*lines[0])].decode(encoding))
    labels = data[slice(*lines[1])].decode(encoding).split("\n")
    if len(set(labels)) != len(labels) or "" in labels or len(labels) > _MOST_LABELS:
        raise FormatError(f"its {len(labels)} labels are not distinct names")
    weights = _weights(data, at, int(header["maxid"]))
    weights *= header["cost-factor"]
    names, begins = _features(_lines(data, *lines[3]), encoding, len(labels), len(weights))
    text = data[slice(*lines[2])].decode(encoding)
    return Model(labels, text, names[0], names[1], begins[0], begins[1], weights)


def _header(text: str) -> dict[str, float]:
    found = {}
    for line in text.split("\n"):
        key, colon, value = line.partition(": ")
        if not colon:
            raise FormatError(f"not a CRF++ model: {line!r:.80} is no line of its header")
        found[key] = value
    numbers = {}
    for key in ("version", "cost-factor", "maxid", "xsize"):
        try:
            numbers[key] = float(found[key])
        except (KeyError, ValueError):
            raise FormatError(f"its header has no number as {key}") from None
    if numbers["version"] != 100:
        raise FormatError(f"version {found['version']} is not known, only 100")
    if not np.isfinite(numbers["cost-factor"]):
        raise FormatError(f"its cost-factor is {found['cost-factor']}")
    if not 0 <= numbers["maxid"] < 2**31 or numbers["maxid"] % 1:
        raise FormatError(f"its maxid is {found['maxid']}")
    return numbers


def _weights(data: Any, begin: int, count: int) -> NDArray[np.float64]:
    """A block of lines at a time: their text is twice as large as the numbers."""
    if count > len(data):
        raise FormatError(f"its maxid is {count}, but it has {len(data)} bytes")
    weights, filled = np.empty(count), 0
    while begin < len(data):
        end = data.find(b"\n", min(begin + _BLOCK, len(data) - 1)) + 1
        end = end or len(data)
        found = _numbers(data[begin:end])
        if filled + len(found) > count:
            raise FormatError(f"its maxid is {count}, but it has more weights")
        weights[filled : filled + len(found)] = found
        filled, begin = filled + len(found), end
    if filled != count:
        raise FormatError(f"its maxid is {count}, but it has {filled} weights")
    bad = np.flatnonzero(~np.isfinite(weights))
    if len(bad):
        raise FormatError(f"weight {bad[0]} is {weights[bad[0]]}")
    return weights


def _numbers(text: bytes) -> NDArray[np.float64]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        try:
            return np.fromstring(text, np.float64, sep="\n") if text.strip() else np.zeros(0)
        except (DeprecationWarning, ValueError):
            raise FormatError("a line of its weights is not a number") from None


def _lines(data: Any, begin: int, end: int) -> Iterator[bytes]:
    """One line after the other: all at once they would take more room than the file."""
    while begin < end:
        stop = data.find(b"\n", begin, end)
        stop = end if stop < 0 else stop
        yield data[begin:stop]
        begin = stop + 1


def _features(
    lines: Iterator[bytes], encoding: str, labels: int, weights: int
) -> tuple[tuple[list[str], list[str]], list[NDArray[np.int64]]]:
    names: tuple[list[str], list[str]] = ([], [])
    begins: tuple[list[int], list[int]] = ([], [])
    for line in lines:
        number, _, name = line.decode(encoding).partition(" ")
        if not (number.isdecimal() and number.isascii() and len(number) < 16) or name[:1] not in (
            "U",
            "B",
        ):
            raise FormatError(f"{line[:80]!r} is not the number and the name of a feature")
        edge = name[0] == "B"
        names[edge].append(name)
        begins[edge].append(int(number))
    own = [np.array(b, np.int64) for b in begins]
    sizes = np.repeat([labels, labels * labels], [len(own[0]), len(own[1])])
    both = np.concatenate(own)
    order = np.argsort(both, kind="stable")
    ends = np.cumsum(sizes[order])
    due = ends - sizes[order]
    if not np.array_equal(both[order], due) or int(sizes.sum()) != weights:
        raise FormatError("the numbers of its features do not fit each other, or the weights")
    for known in names:
        if len(set(known)) != len(known):
            raise FormatError("two features have the same name")
    return names, own
