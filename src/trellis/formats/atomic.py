"""A file is replaced as a whole or not at all."""

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
    """A new file that takes the place of ``path`` once it is on the disk, or leaves no trace.

    It keeps the permissions of the file that it replaces; a link stays a link.

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
    mode = _permissions(target)
    temporary = target.with_name(f"{_prefix(target)}{secrets.token_hex(8)}{_SUFFIX}")
    file = open(temporary, "xb")  # noqa: SIM115 (before `try`: only what is ours is removed)
    try:
        with file:
            if mode is not None:
                os.chmod(temporary, mode)  # before there is anything to read in it
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if os.name == "posix":  # elsewhere a folder cannot be opened
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def clear_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove what processes that were killed while they wrote ``path`` have left beside it."""
    target = Path(os.path.realpath(path))
    for file in target.parent.glob(f"{glob.escape(_prefix(target))}{'[0-9a-f]' * 16}{_SUFFIX}"):
        file.unlink(missing_ok=True)


def _prefix(target: Path) -> str:
    """What the names of its temporary files begin with: short enough for any file system."""
    name = os.fsencode(target.name)
    return f".{target.name if len(name) <= 200 else hashlib.sha256(name).hexdigest()}."


def _permissions(target: Path) -> int | None:
    """Those of the file to replace; None if there is none, and the umask decides."""
    target.parent.stat()  # a missing folder: the error names it rather than the temporary file
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        raise InputError(f"{target} exists and is not a regular file")
    return stat.S_IMODE(mode)
