"""The text model of CRF++, which ``crf_learn -t`` writes.

    version: 100            labels      templates         id name         weights,
    cost-factor: 1          one         one               one             one
    maxid: 58324            per line    per line          per line        per line
    xsize: 2

The five parts are separated by blank lines. An attribute whose name starts with U has one weight
for each label. An attribute whose name starts with B has one weight for each pair (previous label,
label), sorted by the previous label. ``id`` is the number of its first weight, from 0.

Without ``-t``, ``crf_learn`` writes a binary file. It depends on the machine and cannot be read.
"""

import os
from array import array
from collections.abc import Iterator
from typing import IO

import numpy as np
from numpy.typing import NDArray

from trellis.errors import FormatError
from trellis.formats.text_models import MAX_LABELS, NameList, TextModel, open_text, read_weights

__all__ = ["is_binary", "read"]


def is_binary(head: bytes) -> bool:
    """Return whether a file with these first bytes is a binary model of CRF++.

    It starts with its version (100) and its type (0) as 32-bit integers. A safetensors file can
    start with the same eight bytes, but its ninth is ``{``.
    """
    return head[:8] == b"\x64\0\0\0\0\0\0\0" and head[8:9] not in (b"{", b"")


def read(path: str | os.PathLike[str], encoding: str = "utf-8") -> TextModel:
    """Read a model file; raise FormatError, which names the file, if it is invalid."""
    with open_text(path, encoding) as file:
        maxid, factor = _parse_header(_read_part(file, "header", encoding))
        labels = _read_part(file, "labels", encoding)
        if len(set(labels)) != len(labels) or not labels or len(labels) > MAX_LABELS:
            raise FormatError(
                f"the model has {len(labels)} labels: must be 1 to {MAX_LABELS} distinct labels"
            )
        templates = "\n".join(_read_part(file, "templates", encoding))
        name_list, begin, states = _read_features(file, encoding)
        order = np.argsort(begin, kind="stable")
        states = states[order]
        ends = np.zeros(len(order) + 1, np.int64)
        np.cumsum(np.where(states, len(labels), len(labels) ** 2), out=ends[1:])
        if not np.array_equal(begin[order], ends[:-1]) or int(ends[-1]) != maxid:
            raise FormatError("the ids of the features overlap, have gaps, or contradict maxid")
        names = name_list.names("features", order)
        # These arrays are not needed any more; with them, a large model would be in memory twice.
        del begin, order, name_list
        numbers, weights = read_weights(file, maxid, indexed=False)
        with np.errstate(over="ignore"):
            weights *= factor
        if not np.isfinite(weights).all():
            raise FormatError(f"a weight multiplied by the cost-factor {factor} is infinite")
        return TextModel(labels, templates, names, ends, states, numbers, weights)


def _read_until_blank(file: IO[bytes], part: str) -> Iterator[bytes]:
    """Yield the lines up to a blank line."""
    for line in file:
        if line == b"\n":
            return
        yield line[:-1]
    raise FormatError(f"there is no blank line after the {part}")


def _read_part(file: IO[bytes], part: str, encoding: str) -> list[str]:
    """Return the lines of one part of the file."""
    return [line.decode(encoding) for line in _read_until_blank(file, part)]


def _parse_header(lines: list[str]) -> tuple[int, float]:
    """Return the number of weights, and the factor by which they are multiplied."""
    fields = {}
    for line in lines:
        key, colon, value = line.partition(": ")
        if not colon:
            raise FormatError(f"not a CRF++ model: {line!r:.80} is not a line of a header")
        fields[key] = value
    numbers = {}
    for key in ("version", "cost-factor", "maxid", "xsize"):
        try:
            numbers[key] = float(fields[key])
        except (KeyError, ValueError):
            raise FormatError(f"the header has no number for {key}") from None
    if numbers["version"] != 100:
        raise FormatError(f"version {fields['version']} is unknown: only 100 can be read")
    if not np.isfinite(numbers["cost-factor"]):
        raise FormatError(f"cost-factor is {fields['cost-factor']}: must be finite")
    if not 0 <= numbers["maxid"] < 2**31 or numbers["maxid"] % 1:
        raise FormatError(f"maxid is {fields['maxid']}: must be an integer from 0 to 2^31 - 1")
    return int(numbers["maxid"]), numbers["cost-factor"]


def _read_features(
    file: IO[bytes], encoding: str
) -> tuple[NameList, NDArray[np.int64], NDArray[np.bool_]]:
    """Return the names, the id of each name's first weight, and True where a name begins with U."""
    names, first_ids, is_state = NameList(encoding), array("q"), bytearray()
    for line in _read_until_blank(file, "features"):
        digits, _, name = line.partition(b" ")
        if not digits.isdigit() or len(digits) > 15 or name[:1] not in (b"U", b"B"):
            raise FormatError(f"{line[:80]!r} is not the id and the name of a feature")
        names.add(name)
        first_ids.append(int(digits))
        is_state.append(name[:1] == b"U")
    return names, np.array(first_ids, np.int64), np.array(is_state, np.bool_)
