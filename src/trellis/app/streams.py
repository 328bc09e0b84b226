"""Standard streams that the parent process has closed, and output that cannot be written."""

import difflib
import errno
import os
import sys

__all__ = ["discard_output", "explain", "reopen_closed"]

# (descriptor, flags, mode): /dev/null is opened with these flags in place of a closed stream. For
# standard input and output, the flags have the wrong direction, so that reading and writing fail,
# as they do with a closed stream. Messages on standard error are discarded.
_STREAMS = {
    "stdin": (0, os.O_WRONLY, "r"),
    "stdout": (1, os.O_RDONLY, "w"),
    "stderr": (2, os.O_WRONLY, "w"),
}
_NAMES = {"stdin": "standard input", "stdout": "standard output"}
_closed: list[str] = []
# A file name is suggested if difflib's ratio is at least this. In a name of eight letters, two
# neighbours may be swapped, or one letter may be missing.
_SIMILAR = 0.85


def reopen_closed() -> None:
    """Reserve the file descriptors of closed standard streams.

    Otherwise, the next file that is opened gets such a descriptor, and error messages could be
    written into a model. For a closed stream, Python sets ``sys.stdout`` etc. to None.
    """
    for name, (number, flags, mode) in _STREAMS.items():
        if getattr(sys, name) is not None:
            continue
        descriptor = os.open(os.devnull, flags)
        if descriptor != number:  # an imported module may have opened a file with this number
            os.dup2(descriptor, number)
            os.close(descriptor)
        stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
        if name in _NAMES:
            _closed.append(_NAMES[name])


def explain(error: OSError) -> str:
    """Return the message of an error of the operating system.

    >>> explain(FileNotFoundError(2, "No such file or directory", "a.conll"))
    'a.conll: No such file or directory'
    """
    if error.errno == errno.EBADF and error.filename is None and _closed:
        return f"{' and '.join(_closed)} {'is' if len(_closed) == 1 else 'are'} closed"
    file = f"{error.filename}: " if error.filename else ""
    return f"{file}{error.strerror or error}{_suggest_file(error)}"


def _suggest_file(error: OSError) -> str:
    """Return a hint if a file does not exist, but the folder has one with a similar name."""
    if error.errno != errno.ENOENT or not isinstance(error.filename, str):
        return ""
    folder, name = os.path.split(error.filename)
    try:
        names = os.listdir(folder or ".")
    except OSError:
        return f": the folder {folder} does not exist" if not os.path.isdir(folder) else ""
    similar = difflib.get_close_matches(name, names, n=1, cutoff=_SIMILAR)
    return f"; did you mean {os.path.join(folder, similar[0])}?" if similar else ""


def discard_output() -> None:
    """Discard buffered output that cannot be written; otherwise Python reports it again at exit."""
    descriptor = os.open(os.devnull, os.O_WRONLY)
    os.dup2(descriptor, 1)
    os.close(descriptor)
