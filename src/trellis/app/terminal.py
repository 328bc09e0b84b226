"""What the commands share: where they print, how they count the time left, and how they end."""

import json
import math
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.text import Text

from trellis.errors import InputError

__all__ = [
    "COLOURS",
    "InterruptedWorkError",
    "bar",
    "check_writable",
    "command_line",
    "console",
    "duration",
    "interrupts",
    "iterations_left",
    "say",
    "show",
    "show_json",
]

COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "red", "bright_cyan", "bright_magenta")
_PIPED_WIDTH = 160


class InterruptedWorkError(Exception):
    """A signal ended the work; the message says what is left of it."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + number


def console(stderr: bool = False) -> Console:
    """Where to print: in colour on a terminal, in wide plain lines otherwise."""
    file = sys.stderr if stderr else sys.stdout
    width = None if file.isatty() else _PIPED_WIDTH
    return Console(file=file, width=width, highlight=False)


def show(*things: Any) -> None:
    """Print tables, texts and strings on standard output, without blanks at the ends of lines."""
    screen = console()
    with screen.capture() as captured:
        for thing in things:
            screen.print(thing, soft_wrap=isinstance(thing, str | Text))
    for line in captured.get().splitlines():
        print(line.rstrip())


def show_json(thing: Any) -> None:
    """One line of JSON, which has no infinities: null stands for them."""
    print(json.dumps(_finite(thing), ensure_ascii=False, allow_nan=False))


def _finite(thing: Any) -> Any:
    if isinstance(thing, dict):
        return {key: _finite(value) for key, value in thing.items()}
    if isinstance(thing, list | tuple):
        return [_finite(value) for value in thing]
    return None if isinstance(thing, float) and not math.isfinite(thing) else thing


def say(text: str, *, quiet: bool = False) -> None:
    """A line for people, on standard error so that results can be piped."""
    if not quiet:
        console(stderr=True).print(text, markup=False, soft_wrap=True)


def duration(seconds: float) -> str:
    """A time as people say it.

    >>> duration(0.31), duration(75), duration(7300)
    ('0.3 s', '1 min 15 s', '2 h 1 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def iterations_left(
    losses: Sequence[float], most: int | None, period: int = 10, delta: float = 1e-5
) -> int | None:
    """How many more iterations until the loss falls by less than ``delta`` in ``period`` of them.

    The gain of the last ``period`` iterations is taken to shrink as it did over the ones before.

    >>> losses = [1 + 0.5**n for n in range(30)]
    >>> iterations_left(losses, most=None, period=5, delta=1e-10)
    10
    """
    limit = None if most is None else max(0, most - len(losses))
    if len(losses) <= 2 * period:
        return limit
    now, before, first = losses[-1], losses[-1 - period], losses[-1 - 2 * period]
    gain, earlier = (before - now) / abs(now or 1.0), (first - before) / abs(before or 1.0)
    if not 0 < gain < earlier:
        return limit
    left = math.ceil(period * math.log(gain / delta) / math.log(earlier / gain))
    left = max(0, left)
    return left if limit is None else min(left, limit)


@contextmanager
def bar(title: str, quiet: bool = False) -> Iterator[Callable[[float | None, str], None]]:
    """``show(share, text)`` draws a progress bar while the work runs; nothing unless a terminal."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[text]}"),
    )
    screen = console(stderr=True)
    hidden = quiet or not screen.is_terminal
    with Progress(*columns, console=screen, transient=True, disable=hidden) as progress:
        task = progress.add_task(title, total=None, text="")

        def show(share: float | None, text: str) -> None:
            total = None if share is None else 1.0
            progress.update(task, total=total, completed=share or 0.0, text=text)

        yield show


@contextmanager
def interrupts(halt: Callable[[], None]) -> Iterator[list[int]]:
    """The first Ctrl-C or SIGTERM calls ``halt`` and is put in the list; a second ends at once."""
    seen: list[int] = []

    def handle(number: int, _frame: Any) -> None:
        if seen:
            raise KeyboardInterrupt
        seen.append(number)
        halt()
        say("\nStopping after this iteration; once more to stop at once.")

    before = {n: signal.signal(n, handle) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield seen
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def check_writable(path: Path, *inputs: Path) -> None:
    """Find out now, not after an hour of training, that a file cannot be written.

    It must not be one of the inputs either.
    """
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: cannot be written: it is a folder, or no regular file")
    for other in inputs:
        if path.exists() and other.exists() and path.samefile(other):
            raise InputError(f"{path}: cannot be written: it is read as well")
    folder = path.parent
    if not folder.is_dir():
        raise InputError(f"{path}: cannot be written: there is no folder {folder}")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None


def command_line(*more: str) -> str:
    """The command as it was typed, and what is to be added to it."""
    name = os.path.basename(sys.argv[0])
    start = ["python", "-m", "trellis.app.cli.main"] if name.endswith(".py") else [name]
    return shlex.join([*start, *sys.argv[1:], *(a for a in more if a not in sys.argv[1:])])
