"""The header of a ``.trellis`` file: the list of tensors, and the metadata of the model.

    {"__metadata__": {"trellis": ENVELOPE}, NAME: {"dtype", "shape", "data_offsets"}, …} + spaces

ENVELOPE is a string that contains JSON: checksum, format, kind, library, meta. The errors of this
module do not name the file; `native.read` adds its name.
"""

import json
import math
import re
from collections.abc import Mapping
from reprlib import repr as short  # shortens long values from an invalid file
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
_LENGTH = 8  # bytes of the number that is the length of the header
_PREFIX = b'{"__metadata__":{"trellis":"{\\"checksum\\":\\"'  # fixes the offset of the checksum
DIGITS = slice(_LENGTH + len(_PREFIX), _LENGTH + len(_PREFIX) + 64)
"""Position of the checksum in the file."""
ZEROS = b"0" * 64
"""The digits in place of the checksum while it is computed."""
MAX_HEADER_BYTES = 8 << 20  # parsed JSON takes much more memory than its text
_MAX_AXES = 32  # the limit of NumPy 1
MAX_DEPTH = 32  # deeper JSON could exhaust the stack of Python

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
    """Position of a tensor in the bytes after the header."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int


class Header(NamedTuple):
    """A header whose tensors match the size of the file.

    The envelope is not validated yet, except for the form of the checksum.
    """

    envelope: dict[str, Any]
    places: dict[str, Place]
    end: int
    """Offset of the first tensor in the file."""


def lay_out(tensors: Mapping[str, Array]) -> dict[str, Array]:
    """Validate the tensors and return them in the order of the file.

    Tensors with larger items come first, so that all are aligned without padding.
    """
    for name, array in tensors.items():
        if not isinstance(name, str) or name == "__metadata__":
            raise InputError(f"tensor name {name!r} must be a str other than '__metadata__'")
        if not isinstance(array, np.ndarray):
            raise InputError(f"tensor {name!r} is of type {type(array).__name__}: must be an array")
        if array.dtype.newbyteorder("<") not in _NAMES:
            known_types = ", ".join(dtype.name for dtype in _NAMES)
            raise InputError(
                f"tensor {name!r} has dtype {array.dtype}: must be one of {known_types}"
            )
        if array.ndim > _MAX_AXES:
            raise InputError(f"tensor {name!r} has {array.ndim} axes: at most {_MAX_AXES}")
    return dict(sorted(tensors.items(), key=lambda item: (-item[1].itemsize, item[0])))


def build(kind: str, meta: dict[str, Any], arrays: dict[str, Array]) -> bytes:
    """Return all bytes before the first tensor, with zeros as the checksum."""
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
        _check_json(meta, "meta", depth=1)  # meta is one level deep in the envelope
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
    if len(text) > MAX_HEADER_BYTES:
        raise InputError(
            f"meta and the names of the tensors take {len(text)} bytes: at most "
            f"{MAX_HEADER_BYTES} are allowed; store long lists as tensors"
        )
    return len(text).to_bytes(_LENGTH, "little") + text


def _dump(value: Any, sort_keys: bool = False) -> str:
    """Return compact JSON."""
    return json.dumps(value, sort_keys=sort_keys, ensure_ascii=False, separators=(",", ":"))


def _check_json(value: Any, where: str, depth: int = 0) -> None:
    """Raise ValueError for a value that JSON cannot store exactly; ``where`` names the value."""
    if depth > MAX_DEPTH:
        raise ValueError(f"{where} is nested more than {MAX_DEPTH} deep")
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
            raise ValueError(f"{where} contains an unpaired surrogate: {short(value)}")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{where} is {value}: must be finite")
    elif isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise ValueError(f"{where} does not fit in 64 bits")
    elif value is not None:
        type_name = type(value).__name__
        raise ValueError(
            f"{where} is of type {type_name}: must be str, number, bool, None, list, dict"
        )


_OTHER_FORMATS = {
    b"\x80": "a pickle, which is never loaded because it can run code",
    b"PK\3\4": "a zip archive, such as a file of torch.save or numpy.savez",
    b"\x93NUMPY": "an array of NumPy",
}
"""First bytes of other files that users may pass. They are compared only if the first 8 bytes, read
as a header length, exceed `MAX_HEADER_BYTES`: a valid length may begin with the same bytes."""


def parse(data: memoryview) -> Header:
    """Parse the header of a file and do every check that does not need the checksum."""
    text = _read_header_text(data)
    entries = _load(text, "header")
    envelope = _parse_envelope(text, entries.pop("__metadata__", None))
    end = _LENGTH + len(text)
    return Header(envelope, _parse_places(entries, end, len(data) - end), end)


def parse_any(data: memoryview) -> tuple[dict[str, Place], int]:
    """Return the positions of the tensors of any safetensors file, and the offset of the first."""
    text = _read_header_text(data, ".safetensors")
    entries = _load(text, "header")
    entries.pop("__metadata__", None)
    end = _LENGTH + len(text)
    return _parse_places(entries, end, len(data) - end), end


def _read_header_text(data: memoryview, kind: str = ".trellis") -> bytes:
    """Return the JSON text of the header."""
    if len(data) < _LENGTH:
        raise FormatError(f"{len(data)} bytes are too few for a {kind} file")
    length = int.from_bytes(data[:_LENGTH], "little")
    if 0 not in data[:_LENGTH]:  # the length of any header has bytes of 0, text has none
        content = "text" if min(data[:_LENGTH]) >= ord("\t") else "another format"
        raise FormatError(f"the content is {content}, not a {kind} file")
    if length > MAX_HEADER_BYTES:
        start = bytes(data[:_LENGTH])
        for first_bytes, content in _OTHER_FORMATS.items():
            if start.startswith(first_bytes):
                raise FormatError(f"the file is {content}, not a {kind} file")
    if length > len(data) - _LENGTH:
        raise FormatError(
            f"the length of the header is {length}, but only {len(data) - _LENGTH} bytes follow: "
            f"not a {kind} file, or cut off"
        )
    if length > MAX_HEADER_BYTES:
        raise FormatError(f"the header has {length} bytes: at most {MAX_HEADER_BYTES} are read")
    return bytes(data[_LENGTH : _LENGTH + length])


def _load(text: bytes, what: str) -> dict[str, Any]:
    """Parse a JSON object. Error messages call it ``what``."""
    try:
        value = json.loads(text.decode(), object_pairs_hook=_make_unique_dict)
        _check_json(value, what)
    except RecursionError:
        raise FormatError(f"{what} is nested more than {MAX_DEPTH} deep") from None
    except ValueError as error:
        raise FormatError(f"{what} is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise FormatError(f"{what} is not a JSON object but {short(value)}")
    return value


def _make_unique_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a dict; raise ValueError for a repeated key, which parsers read in different ways."""
    members: dict[str, Any] = {}
    for key, value in pairs:
        if key in members:
            raise ValueError(f"key {short(key)} appears twice")
        members[key] = value
    return members


def _parse_envelope(text: bytes, metadata: Any) -> dict[str, Any]:
    """Return the envelope; its checksum must be at the fixed offset."""
    if not isinstance(metadata, dict) or not isinstance(metadata.get("trellis"), str):
        raise FormatError("not written by trellis: a safetensors file without a 'trellis' entry")
    if len(metadata) > 1:
        raise FormatError(f"metadata has other entries than 'trellis': {short(list(metadata))}")
    envelope = _load(metadata["trellis"].encode(), "metadata")
    checksum = envelope.get("checksum")
    if not isinstance(checksum, str) or not re.fullmatch("[0-9a-f]{64}", checksum):
        raise FormatError(f"checksum {short(checksum)} is not 64 hexadecimal digits")
    if not text.startswith(_PREFIX + checksum.encode()):
        raise FormatError("the checksum is not at the beginning of the header")
    return envelope


def check_envelope(envelope: dict[str, Any], kind: str | None) -> None:
    """Raise FormatError if the version is too new, or if the kind is not ``kind``."""
    version, library = envelope.get("format"), envelope.get("library")
    if type(version) is not int or version < 1 or not isinstance(library, str):
        raise FormatError(
            f"format {short(version)} or library {short(library)} is not a valid version"
        )
    if version > _VERSION:
        raise FormatError(
            f"format version {version} needs trellis {short(library)} or later: "
            f"this is trellis {trellis.__version__}, which reads version {_VERSION}"
        )
    if not isinstance(envelope.get("kind"), str) or not isinstance(envelope.get("meta"), dict):
        raise FormatError("metadata must have a kind (a string) and meta (an object)")
    if kind is not None and envelope["kind"] != kind:
        raise FormatError(f"contains a model of kind {short(envelope['kind'])}, not {kind!r}")


def _parse_places(entries: dict[str, Any], start: int, size: int) -> dict[str, Place]:
    """Return the positions of the tensors; they must be aligned, without gaps or overlaps."""
    positions = {
        name: _parse_place(f"tensor {short(name)}", entry) for name, entry in entries.items()
    }
    offset = 0
    for name, position in sorted(positions.items(), key=lambda item: (item[1].begin, item[1].end)):
        if position.begin != offset:
            raise FormatError(
                f"tensor {short(name)} begins at byte {position.begin}, not at {offset}: "
                "gaps and overlaps are not allowed"
            )
        if (start + offset) % position.dtype.itemsize:
            raise FormatError(f"tensor {short(name)} begins at byte {start + offset}: not aligned")
        offset = position.end
    if offset != size:
        raise FormatError(f"the tensors take {offset} bytes, but {size} bytes follow the header")
    return positions


def _parse_place(tensor: str, entry: Any) -> Place:
    """Return the position of one tensor. Error messages call it ``tensor``."""
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise FormatError(f"{tensor} must have dtype, shape and data_offsets, not {short(entry)}")
    name, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(name, str) or name not in _DTYPES:
        raise FormatError(f"{tensor} has dtype {short(name)}: must be one of {', '.join(_DTYPES)}")
    if not _are_sizes(shape) or len(shape) > _MAX_AXES:
        raise FormatError(
            f"{tensor} has shape {short(shape)}: must be a list of at most {_MAX_AXES} integers "
            "of at least 0"
        )
    if not _are_sizes(offsets) or len(offsets) != 2:
        raise FormatError(f"{tensor} has data_offsets {short(offsets)}: must be begin and end")
    dtype, (begin, end) = _DTYPES[name], offsets
    # Sizes of 0 are skipped: NumPy cannot create an array of shape [0, 2**63] either.
    if math.prod(length for length in shape if length) * dtype.itemsize >= 2**63:
        raise FormatError(f"{tensor} has shape {short(shape)}: too large")
    size = math.prod(shape) * dtype.itemsize
    if size != end - begin:
        raise FormatError(
            f"{tensor} of shape {short(shape)} and dtype {name} takes {size} bytes, "
            f"but data_offsets {offsets} are {end - begin} bytes"
        )
    return Place(dtype, tuple(shape), begin, end)


def _are_sizes(value: Any) -> bool:
    """Return whether a value is a list of integers of at least 0."""
    return isinstance(value, list) and all(type(size) is int and size >= 0 for size in value)
