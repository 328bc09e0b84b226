"""A file is replaced as a whole or not at all."""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from trellis.errors import InputError

__all__ = ["replacing"]


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
    temporary = target.with_name(f".{secrets.token_hex(8)}.trellis.tmp")
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
