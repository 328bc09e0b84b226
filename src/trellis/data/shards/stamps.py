"""Stamps of files: a file that changes after its shards were cut is an error."""

import os
from typing import TypeAlias

from trellis.errors import FormatError

__all__ = ["Stamp", "check_unchanged", "stamp_of"]

Stamp: TypeAlias = tuple[int, int]
"""The size of a file, and the time of its last change in nanoseconds."""


def stamp_of(path: str) -> Stamp:
    """Return the stamp of a file."""
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


def check_unchanged(path: str, stamp: Stamp) -> None:
    """Raise FormatError if a file has another stamp now."""
    if stamp_of(path) != stamp:
        raise FormatError(
            f"{path}: the file has changed since the corpus was opened: build the Corpus again"
        )
