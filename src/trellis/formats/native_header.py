"""The header of a ``.trellis`` file: what the tensors are, and what the model says of itself.

    {"__metadata__": {"trellis": ENVELOPE}, NAME: {"dtype", "shape", "data_offsets"}, …} and spaces

ENVELOPE is a string that holds JSON: checksum, format, kind, library, meta. Errors of this module
say what is wrong; `native.read` adds in which file.
"""

import json
import math
import re
from collections.abc import Mapping
from reprlib import repr as short  # what strangers wrote may be long
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

import trellis
from trellis.errors import FormatError, InputError

__all__ = [
    "DIGITS",
    "ZEROS",
    "Header",
    "Place",
    "build",
    "check_envelope",
    "lay_out",
    "parse",
    "parse_any",
]

Array: TypeAlias = NDArray[Any]

_VERSION = 1
_LENGTH = 8  # bytes of the header's length
_PREFIX = b'{"__metadata__":{"trellis":"{\\"checksum\\":\\"'  # gives the checksum a fixed place
DIGITS = slice(_LENGTH + len(_PREFIX), _LENGTH + len(_PREFIX) + 64)
"""Where the checksum stands in the file."""
ZEROS = b"0" * 64
"""What stands there while the checksum is taken."""
_MOST_BYTES = 8 * 2**20  # parsed JSON takes many times its size
_MOST_AXES = 32  # as in NumPy 1
_DEEPEST = 32

_DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U64": np.dtype("<u8"),
    "U32": np.dtype("<u4"),
    "U16": np.dtype("<u2"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


class Place(NamedTuple):
    """Where a tensor lies among the bytes that follow the header."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int


class Header(NamedTuple):
    """A header whose tensors fit the file; of the envelope, only the checksum's form is checked."""

    envelope: dict[str, Any]
    places: dict[str, Place]
    end: int
    """Where the tensors begin in the file."""


def lay_out(tensors: Mapping[str, Array]) -> dict[str, Array]:
    """The largest items first, so that all are aligned without padding; then by name."""
    for name, array in tensors.items():
        if not isinstance(name, str) or name == "__metadata__":
            raise InputError(f"tensor name {name!r} must be a str other than '__metadata__'")
        if not isinstance(array, np.ndarray):
            raise InputError(f"tensor {name!r} is of type {type(array).__name__}: must be an array")
        if array.dtype.newbyteorder("<") not in _NAMES:
            known = ", ".join(dtype.name for dtype in _NAMES)
            raise InputError(f"tensor {name!r} has dtype {array.dtype}: must be one of {known}")
        if array.ndim > _MOST_AXES:
            raise InputError(f"tensor {name!r} has {array.ndim} axes: at most {_MOST_AXES}")
    return dict(sorted(tensors.items(), key=lambda item: (-item[1].itemsize, item[0])))


def build(kind: str, meta: dict[str, Any], arrays: dict[str, Array]) -> bytes:
    """All bytes before the first tensor, with zeros for the checksum."""
    if not isinstance(kind, str) or not isinstance(meta, dict):
        raise InputError(f"kind must be a str and meta a dict, not {short(kind)} and {short(meta)}")
    envelope = {
        "checksum": ZEROS.decode(),
        "format": _VERSION,
        "kind": kind,
        "library": trellis.__version__,
        "meta": meta,
    }
    try:
        _check_json(kind, "kind")
        _check_json(meta, "meta", depth=1)  # as deep as in the envelope
        _check_json(list(arrays), "names of tensors")
    except ValueError as error:
        raise InputError(str(error)) from None
    entries: dict[str, Any] = {"__metadata__": {"trellis": _dump(envelope, sort_keys=True)}}
    begin = 0
    for name, array in arrays.items():
        dtype = _NAMES[array.dtype.newbyteorder("<")]
        end = begin + array.nbytes
        entries[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": [begin, end]}
        begin = end
    text = _dump(entries).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > _MOST_BYTES:
        raise InputError(
            f"meta and the names of the tensors take {len(text)} bytes: at most {_MOST_BYTES}; "
            "long lists belong in tensors"
        )
    return len(text).to_bytes(_LENGTH, "little") + text


def _dump(value: Any, sort_keys: bool = False) -> str:
    return json.dumps(value, sort_keys=sort_keys, ensure_ascii=False, separators=(",", ":"))


def _check_json(value: Any, where: str, depth: int = 0) -> None:
    """Raise ValueError, which names the place, for what JSON does not hold or give back."""
    if depth > _DEEPEST:
        raise ValueError(f"{where} is nested more than {_DEEPEST} deep")
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ValueError(f"{where} has the key {short(key)}: keys must be str")
            _check_json(key, f"a key of {where}")
            _check_json(item, f"{where}[{key[:40]!r}]", depth + 1)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            _check_json(item, f"{where}[{i}]", depth + 1)
    elif isinstance(value, str):
        if re.search("[\ud800-\udfff]", value):
            raise ValueError(f"{where} has half of a surrogate pair: {short(value)}")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{where} is {value}: must be finite")
    elif isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise ValueError(f"{where} does not fit in 64 bits")
    elif value is not None:
        kind = type(value).__name__
        raise ValueError(f"{where} is of type {kind}: must be str, number, bool, None, list, dict")


def parse(data: memoryview) -> Header:
    """The header of a whole file, after the checks that need no checksum."""
    text = _text(data)
    entries = _load(text, "header")
    envelope = _envelope(text, entries.pop("__metadata__", None))
    end = _LENGTH + len(text)
    return Header(envelope, _places(entries, end, len(data) - end), end)


def parse_any(data: memoryview) -> tuple[dict[str, Place], int]:
    """Where the tensors of any safetensors file are, and where they begin; no checksum."""
    text = _text(data, ".safetensors")
    entries = _load(text, "header")
    entries.pop("__metadata__", None)
    end = _LENGTH + len(text)
    return _places(entries, end, len(data) - end), end


def _text(data: memoryview, kind: str = ".trellis") -> bytes:
    if len(data) < _LENGTH:
        raise FormatError(f"{len(data)} bytes are too few for a {kind} file")
    length = int.from_bytes(data[:_LENGTH], "little")
    if length > len(data) - _LENGTH:
        raise FormatError(
            f"a header of {length} bytes is announced, {len(data) - _LENGTH} follow: "
            f"not a {kind} file, or cut short"
        )
    if length > _MOST_BYTES:
        raise FormatError(f"the header has {length} bytes: at most {_MOST_BYTES} are read")
    return bytes(data[_LENGTH : _LENGTH + length])


def _load(text: bytes, what: str) -> dict[str, Any]:
    try:
        value = json.loads(text.decode(), object_pairs_hook=_unique)
        _check_json(value, what)
    except RecursionError:
        raise FormatError(f"{what} is nested more than {_DEEPEST} deep") from None
    except ValueError as error:
        raise FormatError(f"{what} is not proper JSON: {error}") from None
    if not isinstance(value, dict):
        raise FormatError(f"{what} is not a JSON object but {short(value)}")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for key, value in pairs:
        if key in members:
            raise ValueError(f"key {short(key)} appears twice")
        members[key] = value
    return members


def _envelope(text: bytes, metadata: Any) -> dict[str, Any]:
    """Our part of the metadata, with a checksum that stands where it must."""
    if not isinstance(metadata, dict) or not isinstance(metadata.get("trellis"), str):
        raise FormatError("not written by trellis: a safetensors file without a 'trellis' entry")
    if len(metadata) > 1:
        raise FormatError(f"metadata has other entries than 'trellis': {short(list(metadata))}")
    envelope = _load(metadata["trellis"].encode(), "metadata")
    checksum = envelope.get("checksum")
    if not isinstance(checksum, str) or not re.fullmatch("[0-9a-f]{64}", checksum):
        raise FormatError(f"checksum {short(checksum)} is not 64 hexadecimal digits")
    if not text.startswith(_PREFIX + checksum.encode()):
        raise FormatError("checksum is not at its place, the beginning of the header")
    return envelope


def check_envelope(envelope: dict[str, Any], kind: str | None) -> None:
    """Raise unless this library can read the version, and the kind is the one that is asked for."""
    version, library = envelope.get("format"), envelope.get("library")
    if type(version) is not int or version < 1 or not isinstance(library, str):
        raise FormatError(f"format {short(version)} by library {short(library)} is no version")
    if version > _VERSION:
        raise FormatError(
            f"format version {version} needs trellis {short(library)} or later: "
            f"this is trellis {trellis.__version__}, which reads version {_VERSION}"
        )
    if not isinstance(envelope.get("kind"), str) or not isinstance(envelope.get("meta"), dict):
        raise FormatError("metadata must have a kind, which is a string, and meta, an object")
    if kind is not None and envelope["kind"] != kind:
        raise FormatError(f"holds a model of kind {short(envelope['kind'])}, not {kind!r}")


def _places(entries: dict[str, Any], start: int, size: int) -> dict[str, Place]:
    """Where the tensors lie: aligned, one after the other, from the first byte to the last."""
    places = {name: _place(f"tensor {short(name)}", entry) for name, entry in entries.items()}
    at = 0
    for name, place in sorted(places.items(), key=lambda item: (item[1].begin, item[1].end)):
        if place.begin != at:
            raise FormatError(
                f"tensor {short(name)} begins at byte {place.begin} where {at} is next: "
                "gaps and overlaps are not allowed"
            )
        if (start + at) % place.dtype.itemsize:
            raise FormatError(f"tensor {short(name)} begins at byte {start + at}: not aligned")
        at = place.end
    if at != size:
        raise FormatError(f"tensors take {at} bytes, {size} follow the header")
    return places


def _place(tensor: str, entry: Any) -> Place:
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise FormatError(f"{tensor} must have dtype, shape and data_offsets, not {short(entry)}")
    name, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(name, str) or name not in _DTYPES:
        raise FormatError(f"{tensor} has dtype {short(name)}: must be one of {', '.join(_DTYPES)}")
    if not _are_sizes(shape) or len(shape) > _MOST_AXES:
        raise FormatError(f"{tensor} has shape {short(shape)}: must be at most {_MOST_AXES} sizes")
    if not _are_sizes(offsets) or len(offsets) != 2:
        raise FormatError(f"{tensor} has data_offsets {short(offsets)}: must be begin and end")
    dtype, (begin, end) = _DTYPES[name], offsets
    if math.prod(n for n in shape if n) * dtype.itemsize >= 2**63:  # [0, 2**63] breaks NumPy too
        raise FormatError(f"{tensor} has shape {short(shape)}: too large")
    need = math.prod(shape) * dtype.itemsize
    if need != end - begin:
        raise FormatError(
            f"{tensor} of shape {short(shape)} and dtype {name} takes {need} bytes, "
            f"data_offsets {offsets} hold {end - begin}"
        )
    return Place(dtype, tuple(shape), begin, end)


def _are_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(n) is int and n >= 0 for n in value)
