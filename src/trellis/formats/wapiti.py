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
from collections.abc import Iterator
from typing import IO

import numpy as np

from trellis.errors import FormatError
from trellis.formats.text_models import MOST_LABELS, NameList, TextModel, opened, read_weights

__all__ = ["read"]

_KINDS = b"ub*"


def read(path: str | os.PathLike[str], encoding: str = "utf-8") -> TextModel:
    """The model in a file; FormatError, which names the file, if it holds none."""
    with opened(path, encoding) as file:
        kind, count = _numbers(file, rb"#mdl#([0-9]{1,3})#([0-9]{1,12})", "#mdl#kind#weights")
        if kind != 2:
            raise FormatError(f"a model of kind {kind}: only CRFs (2) can be read")
        patterns, _, _ = _numbers(file, rb"#rdr#([0-9]{1,9})/([0-9]{1,9})/([01])", "#rdr#")
        texts = [_checked(text).decode(encoding) for text in _strings(file, patterns, "pattern")]
        (known,) = _numbers(file, rb"#qrk#([0-9]{1,9})", "#qrk#labels")
        labels = [text.decode(encoding) for text in _strings(file, known, "label")]
        if not labels or len(set(labels)) != len(labels) or len(labels) > MOST_LABELS:
            raise FormatError(f"its {len(labels)} labels are not distinct names")
        names, kinds = NameList(encoding), bytearray()
        (known,) = _numbers(file, rb"#qrk#([0-9]{1,12})", "#qrk#observations")
        for text in _strings(file, known, "observation"):
            names.add(_checked(text))
            kinds += text[:1]
        kind_of = np.array(kinds, np.uint8)
        states, pairs = kind_of != _KINDS[1], kind_of != _KINDS[0]
        begin = np.zeros(len(kind_of) + 1, np.int64)
        np.cumsum(states * len(labels) + pairs * len(labels) ** 2, out=begin[1:])
        found = names.names("observations")
        number, weight = read_weights(file, count, indexed=True)
        if len(number) and int(number[-1]) >= int(begin[-1]):
            raise FormatError(f"weight {number[-1]} is of no observation")
        return TextModel(labels, "\n".join(texts), found, begin, states, number, weight)


def _line(file: IO[bytes]) -> bytes:
    line = file.readline()
    if not line:
        raise FormatError("it ends too early")
    return line[:-1]


def _numbers(file: IO[bytes], pattern: bytes, what: str) -> list[int]:
    line = _line(file)
    found = re.fullmatch(pattern, line)
    if not found:
        raise FormatError(f"expected {what}, found {line[:60]!r}")
    return [int(n) for n in found.groups()]


def _strings(file: IO[bytes], count: int, what: str) -> Iterator[bytes]:
    for i in range(count):
        line = _line(file)
        colon = line.find(b":", 0, 12)
        if not line[: max(colon, 0)].isdigit():
            raise FormatError(f"{what} {i} does not begin with its length")
        if len(line) != colon + 2 + int(line[:colon]) or line[-1:] != b",":
            raise FormatError(f"{what} {i} has not the length that it says")
        yield line[colon + 1 : -1]


def _checked(text: bytes) -> bytes:
    """The text of a pattern or an observation."""
    if text[:1] not in (b"u", b"b", b"*"):
        raise FormatError(f"{text[:60]!r} does not begin with u, b or *")
    return text
