"""Atomic writes: after a crash, a file has either its old or its complete new contents.

A file is written under a temporary name in the same folder, and renamed when it is complete. The
writer locks its temporary file, so the next writer of the same path can remove the temporary files
of processes that were killed, and only those.
"""

import contextlib
import io
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from trellis.errors import InputError

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed
    fcntl = None  # type: ignore[assignment]

__all__ = ["clear_leftovers", "replacing", "writing"]

_SUFFIX = ".trellis.tmp"
_MIDDLE = re.compile(r"[0-9a-f]{16}")
_BUFFER = 1 << 16  # bytes


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yield a temporary file. It replaces ``path`` at the end of the block; an error removes it.

    The new file keeps the permissions of the old one. A symbolic link stays a link. An OSError of
    the writer names ``path``, not the temporary file.

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
    with _errors_name(path):
        clear_leftovers(target)
        raw_file = _create(target, path)
    temporary = Path(os.fsdecode(raw_file.name))
    file = io.BufferedWriter(raw_file, _BUFFER)
    try:
        with _errors_name(path):
            if mode is not None:
                os.chmod(temporary, mode)  # while the file is still empty
        yield cast(BinaryIO, file)
        with _errors_name(path):
            file.flush()
            os.fsync(raw_file.fileno())
            if fcntl is None:
                file.close()  # Windows cannot rename an open file
            # Elsewhere, the lock is kept until the file has its final name.
            os.replace(temporary, target)
            file.close()
    except BaseException:
        with contextlib.suppress(OSError):
            raw_file.close()  # closing `file` instead would first write its buffer
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    # Without this, a power failure can undo the rename. Windows cannot open a folder.
    if os.name == "posix":
        with _errors_name(path):
            _sync_folder(target.parent)


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yield a file that replaces ``path``, see `replacing`; a pipe or a device is written directly.

    >>> with writing(os.devnull) as file:
    ...     file.write(b"hello")
    5
    """
    try:
        is_regular = stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        is_regular = True
    if is_regular:
        with replacing(path) as file:
            yield file
        return
    device_file = io.BufferedWriter(_Output(path, "w", path), _BUFFER)
    try:
        yield cast(BinaryIO, device_file)
        device_file.close()
    finally:
        device_file.raw.close()


def clear_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove the temporary files of processes that were killed while they wrote ``path``."""
    target = Path(os.path.realpath(path))
    prefix = _make_prefix(target)
    with os.scandir(target.parent) as entries:
        names = [
            entry.name
            for entry in entries
            if entry.name.startswith(prefix)
            and entry.name.endswith(_SUFFIX)
            and _MIDDLE.fullmatch(entry.name[len(prefix) : -len(_SUFFIX)])
        ]
    for name in names:
        # An error is ignored: another process may have removed the file, or another user owns it.
        with contextlib.suppress(OSError):
            _remove_if_abandoned(target.with_name(name))


class _Output(io.FileIO):
    """An unbuffered file whose write errors name the path that the caller knows."""

    def __init__(self, file: Any, mode: str, path: str | os.PathLike[str]) -> None:
        with _errors_name(path):
            super().__init__(file, mode)
        self._path = path

    def write(self, data: Any, /) -> int:
        try:
            return os.write(self.fileno(), data)
        except OSError as error:
            raise _rename(error, self._path) from error


def _create(target: Path, path: str | os.PathLike[str]) -> _Output:
    """Create and lock a temporary file beside ``target``."""
    while True:
        name = f"{_make_prefix(target)}{os.urandom(8).hex()}{_SUFFIX}"
        file = _Output(target.with_name(name), "x", path)
        if fcntl is None:
            return file
        # Some network file systems have no locks. `_remove_if_abandoned` removes nothing there.
        with contextlib.suppress(OSError):
            fcntl.flock(file.fileno(), fcntl.LOCK_EX)
        # Another writer may have removed the file before it was locked.
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()


def _remove_if_abandoned(file: Path) -> None:
    """Remove a temporary file unless a process that is still alive has locked it."""
    if fcntl is None:
        file.unlink()  # raises PermissionError if a process has opened the file
        return
    # O_NONBLOCK: opening a pipe with such a name would wait for a writer.
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.unlink()
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _errors_name(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let errors of the operating system name ``path`` instead of the temporary file."""
    try:
        yield
    except OSError as error:
        raise _rename(error, path) from error


def _rename(error: OSError, path: str | os.PathLike[str]) -> OSError:
    """Return the same error with another file name."""
    return OSError(error.errno, error.strerror or str(error), os.fspath(path))


def _make_prefix(target: Path) -> str:
    """Return the start of the names of temporary files, short enough for any file system."""
    name = os.fsencode(target.name)
    if len(name) <= 200:
        return f".{target.name}."
    import hashlib  # imported only here: it loads OpenSSL, which takes 3 MB

    return f".{hashlib.sha256(name).hexdigest()}."


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
