"""Wapiti's model file, which is text.

    #mdl#2#<weights>                      2: a CRF
    #rdr#<patterns>/<columns>/<flag>      then the patterns
    #qrk#<labels>                         then the labels
    #qrk#<observations>                   then the names of attributes
    <index>=<weight>                      hexadecimal; all others are 0

Strings are ``<bytes>:<string>,`` on a line of their own. An observation that begins with u has one
weight for each label, one with b one for each pair (the label before first), one with * first the
former and then the latter; indices count through all of them.
"""

import os
import re
from array import array
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.errors import FormatError
from trellis.formats.crfpp import mapped

__all__ = ["Model", "read"]

_MOST_LABELS = 1 << 14
_HEX = re.compile(rb"([0-9]{1,18})=([+-]?(?:0x[0-9a-f.]{1,40}p[+-]?[0-9]{1,5}|[0-9.e+-]{1,40}))")


class Model(NamedTuple):
    """What a file holds: names, and for each weight whose it is."""

    labels: list[str]
    patterns: str
    observations: list[str]
    observation: NDArray[np.int64]
    """Of each weight."""
    cell: NDArray[np.int64]
    """Of each weight: a label, or labels + a pair of labels."""
    weights: NDArray[np.float64]


def read(path: str | os.PathLike[str], encoding: str = "utf-8") -> Model:
    """The model in a file; FormatError, which names the file, if it holds none."""
    try:
        with mapped(path) as data:
            return _Reader(data, encoding).model()
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: not {encoding}: {error}") from None


class _Reader:
    def __init__(self, data: Any, encoding: str) -> None:
        self.data, self.encoding, self.at = data, encoding, 0

    def line(self) -> bytes:
        end = self.data.find(b"\n", self.at)
        end = len(self.data) if end < 0 else end
        if self.at >= len(self.data):
            raise FormatError("it ends too early")
        found = bytes(self.data[self.at : end])
        self.at = end + 1
        return found

    def numbers(self, pattern: bytes, what: str) -> list[int]:
        line = self.line()
        found = re.fullmatch(pattern, line)
        if not found:
            raise FormatError(f"expected {what}, found {line[:60]!r}")
        return [int(n) for n in found.groups()]

    def strings(self, count: int, what: str) -> list[str]:
        """The next ones; each is looked at before the room for it is taken."""
        found: list[str] = []
        for i in range(count):
            colon = self.data.find(b":", self.at, self.at + 12)
            digits = bytes(self.data[self.at : max(colon, self.at)])
            if not digits.isdigit():
                raise FormatError(f"{what} {i} does not begin with its length")
            begin, end = colon + 1, colon + 1 + int(digits)
            if self.data[end : end + 2] not in (b",\n", b","):
                raise FormatError(f"{what} {i} has not the length that it says")
            found.append(bytes(self.data[begin:end]).decode(self.encoding))
            self.at = end + 2
        return found

    def model(self) -> Model:
        kind, count = self.numbers(rb"#mdl#([0-9]{1,3})#([0-9]{1,12})", "#mdl#kind#weights")
        if kind != 2:
            raise FormatError(f"a model of kind {kind}: only CRFs (2) can be read")
        patterns, _, _ = self.numbers(rb"#rdr#([0-9]{1,9})/([0-9]{1,9})/([01])", "#rdr#")
        texts = self.strings(patterns, "pattern")
        labels = self.strings(self.numbers(rb"#qrk#([0-9]{1,9})", "#qrk#labels")[0], "label")
        if not labels or len(set(labels)) != len(labels) or len(labels) > _MOST_LABELS:
            raise FormatError(f"its {len(labels)} labels are not distinct names")
        (known,) = self.numbers(rb"#qrk#([0-9]{1,12})", "#qrk#observations")
        observations = self.strings(known, "observation")
        if len(set(observations)) != len(observations):
            raise FormatError("two observations have the same name")
        for text in (*texts, *observations):
            if text[:1] not in ("u", "b", "*") or "\n" in text:
                raise FormatError(f"{text[:60]!r} does not begin with u, b or *")
        indices, weights = self.weights(count)
        own, cell = _places(observations, len(labels), indices)
        return Model(labels, "\n".join(texts), observations, own, cell, weights)

    def weights(self, count: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        indices, weights = array("q"), array("d")
        while self.at < len(self.data):
            line = self.line()
            found = _HEX.fullmatch(line)
            try:
                value = float.fromhex(found[2].decode()) if found else np.nan
            except (ValueError, OverflowError):
                value = np.nan
            if not found or not np.isfinite(value):
                raise FormatError(f"{line[:60]!r} is not the number of a weight and its value")
            indices.append(int(found[1]))
            weights.append(value)
        if len(weights) != count:
            raise FormatError(f"its header says {count} weights, but it has {len(weights)}")
        own = np.frombuffer(indices, np.int64) if indices else np.zeros(0, np.int64)
        if np.any(np.diff(own) <= 0):
            raise FormatError("the numbers of its weights do not ascend")
        return own, np.frombuffer(weights, np.float64) if weights else np.zeros(0)


def _places(
    observations: list[str], labels: int, indices: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The observation and the cell of each index."""
    sizes = {"u": labels, "b": labels * labels, "*": labels + labels * labels}
    begins = np.zeros(len(observations) + 1, np.int64)
    np.cumsum([sizes[text[0]] for text in observations], out=begins[1:])
    if len(indices) and int(indices[-1]) >= int(begins[-1]):
        raise FormatError(f"weight {indices[-1]} is of no observation")
    own = np.searchsorted(begins, indices, side="right") - 1
    cell = indices - begins[own]
    pairs_only = np.array([text[0] == "b" for text in observations], np.bool_)
    if len(observations):
        cell = cell + np.where(pairs_only[own], labels, 0)
    return own, cell
