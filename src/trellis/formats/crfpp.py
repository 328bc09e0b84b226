"""CRF++'s model as text, as ``crf_learn -t`` writes it.

    version: 100            labels      templates         id name         weights,
    cost-factor: 1          one         one               one             one
    maxid: 58324            a line      a line            a line          a line
    xsize: 2

The five parts are separated by blank lines. An attribute that begins with U has one weight for each
label, from its id on; one with B has one for each pair, the label before first.

Without ``-t``, ``crf_learn`` writes a binary file, which depends on the machine and is not read.
"""

import os
from array import array
from collections.abc import Iterator
from typing import IO

import numpy as np
from numpy.typing import NDArray

from trellis.errors import FormatError
from trellis.formats.text_models import MOST_LABELS, NameList, TextModel, opened, read_weights

__all__ = ["is_binary", "read"]


def is_binary(head: bytes) -> bool:
    """Whether a file that begins so is a model that ``crf_learn`` wrote without ``-t``.

    Such a file begins with its version, 100, and its type, 0, as integers. A safetensors file of
    the same first bytes goes on with ``{``.
    """
    return head[:8] == b"\x64\0\0\0\0\0\0\0" and head[8:9] not in (b"{", b"")


def read(path: str | os.PathLike[str], encoding: str = "utf-8") -> TextModel:
    """The model in a file; FormatError, which names the file, if it holds none."""
    with opened(path, encoding) as file:
        maxid, factor = _header(_part(file, "header", encoding))
        labels = _part(file, "labels", encoding)
        if len(set(labels)) != len(labels) or not labels or len(labels) > MOST_LABELS:
            raise FormatError(f"its {len(labels)} labels are not distinct names")
        templates = "\n".join(_part(file, "templates", encoding))
        names, begin, states = _features(file, encoding)
        order = np.argsort(begin, kind="stable")
        states = states[order]
        ends = np.zeros(len(order) + 1, np.int64)
        np.cumsum(np.where(states, len(labels), len(labels) ** 2), out=ends[1:])
        if not np.array_equal(begin[order], ends[:-1]) or int(ends[-1]) != maxid:
            raise FormatError("the numbers of its features do not fit each other, or its maxid")
        found = names.names("features", order)
        del begin, order, names
        number, weight = read_weights(file, maxid, indexed=False)
        weight *= factor
        if not np.isfinite(weight).all():
            raise FormatError(f"its cost-factor of {factor} makes weights infinite")
        return TextModel(labels, templates, found, ends, states, number, weight)


def _lines(file: IO[bytes], part: str) -> Iterator[bytes]:
    """Up to a blank line."""
    for line in file:
        if line == b"\n":
            return
        yield line[:-1]
    raise FormatError(f"there is no blank line behind its {part}")


def _part(file: IO[bytes], part: str, encoding: str) -> list[str]:
    return [line.decode(encoding) for line in _lines(file, part)]


def _header(lines: list[str]) -> tuple[int, float]:
    """How many weights there are, and what they are to be multiplied with."""
    found = {}
    for line in lines:
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
    return int(numbers["maxid"]), numbers["cost-factor"]


def _features(
    file: IO[bytes], encoding: str
) -> tuple[NameList, NDArray[np.int64], NDArray[np.bool_]]:
    """Names, the first weight of each, and whether it has one for each label."""
    names, begin, states = NameList(encoding), array("q"), bytearray()
    for line in _lines(file, "features"):
        digits, _, name = line.partition(b" ")
        if not digits.isdigit() or len(digits) > 15 or name[:1] not in (b"U", b"B"):
            raise FormatError(f"{line[:80]!r} is not the number and the name of a feature")
        names.add(name)
        begin.append(int(digits))
        states.append(name[:1] == b"U")
    return names, np.array(begin, np.int64), np.array(states, np.bool_)
