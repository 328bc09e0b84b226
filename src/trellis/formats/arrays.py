"""Read arrays from files of other programs: ``.npy``, ``.npz`` and ``.safetensors``.

Nothing is unpickled. The sizes in a header must match the size of the file before memory is
allocated.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "two.npz"
>>> np.savez(path, a=np.zeros((2, 3)), b=np.ones(4))
>>> {name: array.shape for name, array in read(path).items()}
{'a': (2, 3), 'b': (4,)}
"""

import io
import math
import os
import zipfile
import zlib
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from trellis.errors import FormatError
from trellis.formats.native_header import parse_any

__all__ = ["read"]

Array: TypeAlias = NDArray[Any]

_ZIP, _NPY = b"PK\x03\x04", b"\x93NUMPY"
# All members of an archive together may be this many times as large as the archive, or have 64 MB.
# Deflate makes zeros 1000 times smaller, but measured numbers less than 10 times.
MAX_EXPANSION = 64
MIN_LIMIT = 64 << 20  # bytes
_CHUNK = 1 << 20  # bytes that are decompressed at a time
# All errors that zipfile raises for damaged archives.
_BROKEN = (ValueError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError)


def read(path: str | os.PathLike[str]) -> dict[str, Array]:
    """Return the arrays of a file by name; the array of a ``.npy`` file has the name of the file.

    The format is recognised by the first bytes. Raises FormatError if the file is invalid.
    """
    path = Path(path)
    data = path.read_bytes()
    try:
        if data.startswith(_NPY):
            return {path.stem: _parse_npy(data)}
        if data.startswith(_ZIP):
            return _parse_npz(data)
        if data[8:9] != b"{":
            raise FormatError("not a .npy, .npz or .safetensors file")
        return _parse_safetensors(data)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None


def _parse_npy(data: bytes) -> Array:
    """Parse a ``.npy`` file: magic, version, header, values."""
    file = io.BytesIO(data)
    try:
        version = npy.read_magic(file)
        header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, column_major, dtype = header(file)
    except Exception as error:  # NumPy evaluates the header: a bad one can raise anything
        raise FormatError(f"not a .npy file: {_first_line(error)}") from None
    if dtype.hasobject or dtype.kind not in "fiub":
        raise FormatError(f"has dtype {dtype}: must be numbers")
    start = file.tell()
    size = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or size != len(data) - start:
        raise FormatError(
            f"shape {shape} and dtype {dtype} need {size} bytes, the file has {len(data) - start}"
        )
    values = np.frombuffer(data, dtype, offset=start)
    return values.reshape(shape, order="F" if column_major else "C")


def _parse_npz(data: bytes) -> dict[str, Array]:
    """Parse a ``.npz`` file: a ZIP archive of ``.npy`` files."""
    arrays: dict[str, Array] = {}
    limit = max(MIN_LIMIT, MAX_EXPANSION * len(data))
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for name in archive.namelist():
                try:
                    member = _read_member(archive, name, limit)
                    arrays[name.removesuffix(".npy")] = _parse_npy(member)
                    limit -= len(member)
                except FormatError as error:
                    raise FormatError(f"{name!r} {error}") from None
    except FormatError:
        raise
    except _BROKEN as error:
        raise FormatError(f"not a .npz file, or damaged: {_first_line(error)}") from None
    return arrays


def _read_member(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    """Decompress a member; raise FormatError before it takes more than ``limit`` bytes."""
    info = archive.getinfo(name)
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        # zipfile decompresses bzip2 and LZMA without a limit of memory. NumPy never writes them.
        raise FormatError("has an unsupported compression: only store and deflate can be read")
    if info.file_size > limit:
        raise FormatError(
            f"has {info.file_size} bytes when decompressed: all arrays of a file of this size may "
            f"have {limit}. Save it without compression, with numpy.savez"
        )
    # Without chunks, zipfile would decompress up to 2 GB before it compares the size.
    chunks = []
    with archive.open(info) as file:
        while chunk := file.read(_CHUNK):
            chunks.append(chunk)
    return b"".join(chunks)


def _parse_safetensors(data: bytes) -> dict[str, Array]:
    """Parse a ``.safetensors`` file."""
    positions, offset = parse_any(memoryview(data))
    return {
        name: np.ndarray(
            position.shape, position.dtype, buffer=data, offset=offset + position.begin
        )
        for name, position in positions.items()
    }


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).partition("\n")[0]
