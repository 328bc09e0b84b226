"""Running the command: in a process of its own where that matters, and what it left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

COMMAND = [sys.executable, "-m", "trellis"]


class Ran(NamedTuple):
    """What a command said, and how it ended."""

    code: int
    out: str
    err: str


def process(*arguments: Any, folder: Path, stdin: bytes = b"", timeout: float = 60) -> Ran:
    """Run the command as a shell would."""
    found = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        cwd=folder,
        input=stdin,
        capture_output=True,
        timeout=timeout,
    )
    return Ran(found.returncode, found.stdout.decode(), found.stderr.decode())


def start(*arguments: Any, folder: Path) -> subprocess.Popen[bytes]:
    """Run the command beside the test."""
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=_heed_signals,
    )


def _heed_signals() -> None:
    """Where the tests run in the background, Ctrl-C is ignored by them and all that they start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def typed(value: Any) -> str | None:
    """The name of a test's case: a command as one types it; None for other values."""
    return " ".join(value) if isinstance(value, list | tuple) else None


def tree(folder: Path) -> dict[str, bytes | None]:
    """Every file under a folder with its bytes, and all that is no file."""
    return {
        os.fspath(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def rows(count: int) -> list[str]:
    """Lines of a file of columns: two rows and a blank one, again and again."""
    return (["play O", "Rome B-place", ""] * (count // 3 + 1))[:count]
