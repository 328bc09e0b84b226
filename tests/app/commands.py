"""Helpers that run the command in a separate process and compare the files that it leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

COMMAND = [sys.executable, "-m", "trellis"]


class Ran(NamedTuple):
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


def process(*arguments: Any, folder: Path, stdin: bytes = b"", timeout: float = 300) -> Ran:
    """Run the command in a separate process and wait for it."""
    completed = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        cwd=folder,
        input=stdin,
        capture_output=True,
        timeout=timeout,
    )
    return Ran(completed.returncode, completed.stdout.decode(), completed.stderr.decode())


def start(*arguments: Any, folder: Path) -> subprocess.Popen[bytes]:
    """Start the command in a separate process."""
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=_heed_signals,
    )


def _heed_signals() -> None:
    """Restore Ctrl-C: a background shell lets its processes, and so the tests, ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def typed(value: Any) -> str | None:
    """Return the id of a parametrized test: the command line, or None for other values."""
    return " ".join(value) if isinstance(value, list | tuple) else None


def tree(folder: Path) -> dict[str, bytes | None]:
    """Return the bytes of every file in a folder by path; None for entries that are not files."""
    return {
        os.fspath(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def rows(count: int) -> list[str]:
    """Return ``count`` lines of a conll file: two rows and a blank line, repeated."""
    return (["play O", "Rome B-place", ""] * (count // 3 + 1))[:count]
