"""Atomic writes: after a crash, a file has either its old or its complete new contents."""

import glob
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from trellis.errors import InputError

__all__ = ["clear_leftovers", "replacing"]

_SUFFIX = ".trellis.tmp"


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yield a temporary file. It replaces ``path`` at the end of the block; an error removes it.

    The new file keeps the permissions of the old one. A symbolic link stays a link.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "greeting"
    >>> with replacing(path) as file:
    ...     size = file.write(b"hello")
    ...     path.exists()
    False
    >>> path.read_bytes()
    b'hello'
    """
    target = Path(os.path.realpath(path))
    mode = _get_permissions(target)
    temporary = target.with_name(f"{_make_prefix(target)}{secrets.token_hex(8)}{_SUFFIX}")
    file = open(temporary, "xb")  # noqa: SIM115 (outside of `try`: if open fails, there is no file to remove)
    try:
        with file:
            if mode is not None:
                os.chmod(temporary, mode)  # while the file is still empty
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    # Without this, a power failure can undo the rename. Windows cannot open a folder.
    if os.name == "posix":
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def clear_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove the temporary files of processes that were killed while they wrote ``path``."""
    target = Path(os.path.realpath(path))
    for file in target.parent.glob(
        f"{glob.escape(_make_prefix(target))}{'[0-9a-f]' * 16}{_SUFFIX}"
    ):
        file.unlink(missing_ok=True)


def _make_prefix(target: Path) -> str:
    """Return the start of the names of temporary files, short enough for any file system."""
    name = os.fsencode(target.name)
    return f".{target.name if len(name) <= 200 else hashlib.sha256(name).hexdigest()}."


def _get_permissions(target: Path) -> int | None:
    """Return the permissions of an existing file, or None."""
    target.parent.stat()  # if the folder is missing, the error names the folder
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        raise InputError(f"{target} exists and is not a regular file")
    return stat.S_IMODE(mode)
