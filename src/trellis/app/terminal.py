"""Output to the terminal: tables and lines, progress bars, signals and checks of output files.

rich is imported inside the functions: it takes 0.1 s, and most commands in a pipe print plain text.
"""

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
from typing import TYPE_CHECKING, Any

from trellis.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "COLOURS",
    "InterruptedWorkError",
    "build_command_line",
    "catch_interrupts",
    "check_writable",
    "estimate_iterations_left",
    "format_duration",
    "make_console",
    "say",
    "show",
    "show_json",
    "show_progress",
]

COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "red", "bright_cyan", "bright_magenta")
_PIPED_WIDTH = 160  # columns; rich's 80 would fold the tables of eval and inspect


class InterruptedWorkError(Exception):
    """A signal ended the work; the message says how to continue it."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number


def make_console(stderr: bool = False) -> "Console":
    """Return a console: in colour on a terminal, wide plain lines otherwise."""
    from rich.console import Console

    file = sys.stderr if stderr else sys.stdout
    width = None if file.isatty() else _PIPED_WIDTH
    return Console(file=file, width=width, highlight=False)


def show(*items: Any) -> None:
    """Print tables, texts and strings on standard output, without trailing spaces.

    Square brackets in a string are printed as they are; a rich ``Text`` has colours.
    """
    from rich.text import Text

    screen = make_console()
    # Captured first: rich pads the cells of a table with spaces up to the end of the line.
    with screen.capture() as captured:
        for item in items:
            screen.print(item, soft_wrap=isinstance(item, str | Text), markup=False)
    for line in captured.get().splitlines():
        print(line.rstrip())


def show_json(value: Any) -> None:
    """Print one line of JSON; infinities and NaN become null, because JSON has none."""
    print(json.dumps(_replace_infinities(value), ensure_ascii=False, allow_nan=False))


def _replace_infinities(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _replace_infinities(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_infinities(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def say(text: str, *, quiet: bool = False) -> None:
    """Print a message on standard error, so that standard output has results only."""
    if not quiet:
        make_console(stderr=True).print(text, markup=False, soft_wrap=True)


def format_duration(seconds: float) -> str:
    """Return a time in the largest units that matter.

    >>> format_duration(0.31), format_duration(75), format_duration(7300)
    ('0.3 s', '1 min 15 s', '2 h 1 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, seconds = divmod(int(seconds), 60)
    return f"{minutes} min {seconds} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def estimate_iterations_left(
    losses: Sequence[float], max_iter: int | None, period: int = 10, delta: float = 1e-5
) -> int | None:
    """Estimate the iterations until the loss falls by less than ``delta`` in ``period`` of them.

    Assumes that the gain per period keeps shrinking by the same factor. None if there is no limit
    and the losses do not allow an estimate.

    >>> losses = [1 + 0.5**n for n in range(30)]
    >>> estimate_iterations_left(losses, max_iter=None, period=5, delta=1e-10)
    10
    """
    limit = None if max_iter is None else max(0, max_iter - len(losses))
    if len(losses) <= 2 * period:
        return limit
    last, middle, first = losses[-1], losses[-1 - period], losses[-1 - 2 * period]
    # A geometric series: the gains of two periods give its factor, delta is where L-BFGS stops.
    gain, earlier_gain = (middle - last) / abs(last or 1.0), (first - middle) / abs(middle or 1.0)
    if not 0 < gain < earlier_gain:
        return limit
    left = math.ceil(period * math.log(gain / delta) / math.log(earlier_gain / gain))
    left = max(0, left)
    return left if limit is None else min(left, limit)


@contextmanager
def show_progress(title: str, quiet: bool = False) -> Iterator[Callable[[float | None, str], None]]:
    """Give ``update(fraction, text)``, which draws a progress bar; on a terminal only.

    A fraction of None means that the end is not known.
    """
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[text]}", markup=False),
    )
    screen = make_console(stderr=True)
    hidden = quiet or not screen.is_terminal
    with Progress(*columns, console=screen, transient=True, disable=hidden) as progress:
        task = progress.add_task(title, total=None, text="")

        def update(fraction: float | None, text: str) -> None:
            total = None if fraction is None else 1.0
            progress.update(task, total=total, completed=fraction or 0.0, text=text)

        yield update


@contextmanager
def catch_interrupts(halt: Callable[[], None]) -> Iterator[list[int]]:
    """Call ``halt`` at the first Ctrl-C or SIGTERM; a second one raises KeyboardInterrupt.

    The list that this yields receives the number of the first signal.
    """
    received: list[int] = []

    def handle(number: int, _frame: Any) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)
        halt()
        say("\nStopping after this iteration. Press Ctrl-C again to stop at once.")

    handlers = {n: signal.signal(n, handle) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def check_writable(path: Path, *inputs: Path) -> None:
    """Raise before an hour of training if the output file cannot be written, or is an input."""
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: cannot be written: it is a folder or not a regular file")
    for source in inputs:
        if path.exists() and source.exists() and path.samefile(source):
            raise InputError(f"{path}: cannot be written: it is also an input file")
    folder = path.parent
    if not folder.is_dir():
        raise InputError(f"{path}: cannot be written: there is no folder {folder}")
    try:
        # Not os.access, which checks the real user id and not the effective one.
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None


def build_command_line(*options: str) -> str:
    """Return the command that the user typed, with more options."""
    name = os.path.basename(sys.argv[0])
    program = ["python", "-m", "trellis"] if name.endswith(".py") else [name]
    arguments = sys.argv[1:]
    return shlex.join([*program, *arguments, *(o for o in options if o not in arguments)])
