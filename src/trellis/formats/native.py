"""The ``.trellis`` file: header length (8 bytes) · header (JSON) · tensors.

It is a safetensors file, so any safetensors reader can open it. The metadata in its header contain
the format version, the kind of model, the metadata of the model, and a SHA-256 checksum of the
file, computed with the digits of the checksum set to zero. docs/format.md describes every byte.

Tensors are memory-mapped and read-only. Nothing is ever unpickled.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "model.trellis"
>>> write(path, "crf", {"l2": 1.0}, {"weights": np.array([[0.5, -1.0]])})
>>> contents = read(path, kind="crf")
>>> contents.meta, contents.tensors["weights"]
({'l2': 1.0}, array([[ 0.5, -1. ]]))
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from trellis.data.atomic import replacing
from trellis.errors import FormatError
from trellis.formats import native_header
from trellis.formats.mapped import map_file
from trellis.formats.native_header import DIGITS, ZEROS
from trellis.formats.strings import pack_strings, unpack_strings

__all__ = [
    "Contents",
    "Tensors",
    "expect",
    "finite",
    "pack_strings",
    "read",
    "unpack_strings",
    "write",
]

Array: TypeAlias = NDArray[Any]


class Tensors(dict[str, Array]):
    """The arrays of one file by name, and the path of the file for error messages."""

    def __init__(self, path: Path, arrays: Mapping[str, Array]) -> None:
        super().__init__(arrays)
        self.path = path


class Contents(NamedTuple):
    """The contents of a file."""

    kind: str
    meta: dict[str, Any]
    tensors: Tensors
    version: int
    """Version of the format."""


def write(
    path: str | os.PathLike[str], kind: str, meta: dict[str, Any], tensors: Mapping[str, Array]
) -> None:
    """Write a file. After a failure or a crash, an existing file is not changed.

    Equal arguments give equal bytes. ``meta`` may contain only values that JSON stores exactly: str
    keys, lists but no tuples, finite numbers. Store long lists of strings as tensors, with
    `pack_strings`.

    >>> write("model.trellis", "crf", {"l2": float("nan")}, {})
    Traceback (most recent call last):
        ...
    trellis.errors.InputError: meta['l2'] is nan: must be finite
    """
    arrays = native_header.lay_out(tensors)
    header = native_header.build(kind, meta, arrays)
    with replacing(path) as file:
        checksum = _new_checksum(header)
        file.write(header)
        for array in arrays.values():
            little_endian = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
            data = little_endian.reshape(-1).view(np.uint8).data
            checksum.update(data)
            file.write(data)
        file.seek(DIGITS.start)
        file.write(checksum.hexdigest().encode())


def read(path: str | os.PathLike[str], kind: str | None = None) -> Contents:
    """Read a file, verify its checksum, and return its contents with read-only arrays.

    Raises FormatError, which names the file, if it is invalid, and FileNotFoundError if it does not
    exist. The arrays are views of the mapped file: replace the file as `write` does, but do not
    change it in place.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "model.trellis"
    >>> write(path, "crf", {"l2": 1.0}, {})
    >>> size = path.write_bytes(path.read_bytes().replace(b"1.0", b"9.0"))
    >>> read(path)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    trellis.errors.FormatError: ...model.trellis: checksum does not match: ...
    """
    path = Path(path)
    try:
        data = memoryview(map_file(path))
        envelope, positions, offset = native_header.parse(data)
        _check_checksum(data, envelope["checksum"])
        native_header.check_envelope(envelope, kind)
        arrays: dict[str, Array] = {
            name: np.ndarray(
                position.shape, position.dtype, buffer=data, offset=offset + position.begin
            )
            for name, position in positions.items()
        }
        _check_bools(arrays)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None
    return Contents(envelope["kind"], envelope["meta"], Tensors(path, arrays), envelope["format"])


def _new_checksum(data: bytes | memoryview) -> Any:
    import hashlib  # imported only here: it loads OpenSSL, which takes 3 MB

    return hashlib.sha256(data)


def _check_checksum(data: memoryview, checksum: str) -> None:
    digest = _new_checksum(data[: DIGITS.start])
    digest.update(ZEROS)
    digest.update(data[DIGITS.stop :])
    if digest.hexdigest() != checksum:
        raise FormatError("checksum does not match: the file was changed or damaged")


def _check_bools(arrays: dict[str, Array]) -> None:
    """Raise FormatError if a Boolean is not 0 or 1, because NumPy would treat it inconsistently."""
    for name, array in arrays.items():
        if array.dtype == np.bool_ and array.size and array.view(np.uint8).max() > 1:
            raise FormatError(f"tensor {name!r} is BOOL and has bytes other than 0 and 1")


def expect(tensors: Tensors, name: str, dtype: DTypeLike, shape: Sequence[int | None]) -> Array:
    """Return a tensor; raise FormatError unless it has this dtype and shape (None: any size).

    >>> tensors = Tensors(Path("model.trellis"), {"weights": np.zeros((3, 2))})
    >>> expect(tensors, "weights", np.float64, (None, 2)).shape
    (3, 2)
    >>> expect(tensors, "weights", np.float64, (None, 5))
    Traceback (most recent call last):
        ...
    trellis.errors.FormatError: model.trellis: tensor 'weights' has shape (3, 2): must be (any, 5)
    """
    if name not in tensors:
        raise FormatError(f"{tensors.path}: tensor {name!r} is missing")
    array = tensors[name]
    tensor = f"{tensors.path}: tensor {name!r}"
    if array.dtype != np.dtype(dtype):
        raise FormatError(f"{tensor} has dtype {array.dtype}: must be {np.dtype(dtype)}")
    shape_matches = len(shape) == array.ndim and all(
        expected in (None, size) for expected, size in zip(shape, array.shape, strict=True)
    )
    if not shape_matches:
        sizes = ", ".join("any" if size is None else str(size) for size in shape)
        raise FormatError(f"{tensor} has shape {array.shape}: must be ({sizes})")
    return array


def finite(tensors: Tensors, name: str) -> Array:
    """Return a tensor; raise FormatError if it contains NaN or infinity.

    >>> finite(Tensors(Path("model.trellis"), {"weights": np.array([[0.0, np.nan]])}), "weights")
    Traceback (most recent call last):
        ...
    trellis.errors.FormatError: model.trellis: tensor 'weights' is nan at [0, 1]
    """
    array = tensors[name]
    is_finite = np.isfinite(array)
    if not is_finite.all():
        index = [int(i) for i in np.unravel_index(np.argmin(is_finite), array.shape)]
        raise FormatError(f"{tensors.path}: tensor {name!r} is {array[tuple(index)]} at {index}")
    return array
