"""The text model of Wapiti.

    #mdl#2#<weights>                      2: a CRF
    #rdr#<patterns>/<columns>/<flag>      followed by the patterns
    #qrk#<labels>                         followed by the labels
    #qrk#<observations>                   followed by the names of the attributes
    <index>=<weight>                      hexadecimal; all other weights are 0

A string is a line ``<length in bytes>:<string>,``. An observation whose name starts with u has one
weight for each label. With b it has one weight for each pair (previous label, label). With * it
has both; the weights of the labels come first. Indices count the weights of all observations in
order.
"""

import os
import re
from collections.abc import Iterator
from typing import IO

import numpy as np

from trellis.errors import FormatError
from trellis.formats.text_models import MAX_LABELS, NameList, TextModel, open_text, read_weights

__all__ = ["read"]

_TYPES = b"ub*"  # first letters of observations


def read(path: str | os.PathLike[str], encoding: str = "utf-8") -> TextModel:
    """Read a model file; raise FormatError, which names the file, if it is invalid."""
    with open_text(path, encoding) as file:
        model_type, n_weights = _read_numbers(
            file, rb"#mdl#([0-9]{1,3})#([0-9]{1,12})", "#mdl#kind#weights"
        )
        if model_type != 2:
            raise FormatError(f"the model has kind {model_type}: only CRFs (kind 2) can be read")
        n_patterns, _, _ = _read_numbers(file, rb"#rdr#([0-9]{1,9})/([0-9]{1,9})/([01])", "#rdr#")
        texts = [_check_type(text) for text in _read_strings(file, n_patterns, "pattern")]
        templates = "\n".join(text.decode(encoding) for text in texts)
        (n_labels,) = _read_numbers(file, rb"#qrk#([0-9]{1,9})", "#qrk#labels")
        labels = [text.decode(encoding) for text in _read_strings(file, n_labels, "label")]
        if not labels or len(set(labels)) != len(labels) or len(labels) > MAX_LABELS:
            raise FormatError(
                f"the model has {len(labels)} labels: must be 1 to {MAX_LABELS} distinct labels"
            )
        name_list, types = NameList(encoding), bytearray()
        (n_observations,) = _read_numbers(file, rb"#qrk#([0-9]{1,12})", "#qrk#observations")
        for text in _read_strings(file, n_observations, "observation"):
            name_list.add(_check_type(text))
            types += text[:1]
        type_codes = np.array(types, np.uint8)
        has_states, has_pairs = type_codes != _TYPES[1], type_codes != _TYPES[0]
        begin = np.zeros(len(type_codes) + 1, np.int64)
        np.cumsum(has_states * len(labels) + has_pairs * len(labels) ** 2, out=begin[1:])
        names = name_list.names("observations")
        numbers, weights = read_weights(file, n_weights, indexed=True)
        if len(numbers) and int(numbers[-1]) >= int(begin[-1]):
            raise FormatError(f"weight {numbers[-1]} belongs to no observation")
        return TextModel(labels, templates, names, begin, has_states, numbers, weights)


def _read_line(file: IO[bytes]) -> bytes:
    """Return the next line without its line break."""
    line = file.readline()
    if not line:
        raise FormatError("the file ends too early")
    return line[:-1]


def _read_numbers(file: IO[bytes], pattern: bytes, what: str) -> list[int]:
    """Return the numbers of a line that must match a pattern."""
    line = _read_line(file)
    match = re.fullmatch(pattern, line)
    if not match:
        raise FormatError(f"expected {what}, found {line[:60]!r}")
    return [int(n) for n in match.groups()]


def _read_strings(file: IO[bytes], count: int, what: str) -> Iterator[bytes]:
    """Yield strings that are stored as ``<length>:<string>,``."""
    for i in range(count):
        line = _read_line(file)
        colon = line.find(b":", 0, 12)
        if not line[: max(colon, 0)].isdigit():
            raise FormatError(f"{what} {i} does not start with its length")
        if len(line) != colon + 2 + int(line[:colon]) or line[-1:] != b",":
            raise FormatError(f"the length of {what} {i} differs from the length in its line")
        yield line[colon + 1 : -1]


def _check_type(text: bytes) -> bytes:
    """Return the text of a pattern or an observation; raise FormatError if its type is unknown."""
    if text[:1] not in (b"u", b"b", b"*"):
        raise FormatError(f"{text[:60]!r} must start with u, b or *")
    return text
