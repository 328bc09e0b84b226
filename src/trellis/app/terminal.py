"""Output to the terminal: tables and lines, progress bars, signals and checks of output files.

rich is imported inside the functions, because importing it takes 0.1 s, and a command in a pipe
usually prints plain text.
"""

import contextlib
import json
import math
import os
import shlex
import shutil
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
    "find_program",
    "format_duration",
    "make_console",
    "print_status",
    "show",
    "show_json",
    "show_progress",
    "show_rows",
]

COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "red", "bright_cyan", "bright_magenta")
_PIPED_WIDTH = 160  # characters; with rich's 80, the tables of eval and inspect would be folded


class InterruptedWorkError(Exception):
    """A signal interrupted the training. The message contains the command that continues it."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number


def make_console(stderr: bool = False) -> "Console":
    """Return a console. It prints colours on a terminal, and wide plain lines otherwise.

    Strings are printed as they are, also in the cells of tables: file names and labels may contain
    text that rich interprets, such as ``[plot]`` (a style) or ``:cat:`` (an emoji).
    """
    from rich.console import Console

    file = sys.stderr if stderr else sys.stdout
    width = None if file.isatty() else _PIPED_WIDTH
    return Console(file=file, width=width, highlight=False, markup=False, emoji=False)


def show(*items: Any) -> None:
    """Print tables, texts and strings on standard output, without trailing spaces."""
    from rich.text import Text

    console = make_console()
    # rich pads table cells with spaces up to the end of the line. So the output is captured, and
    # the spaces are removed.
    with console.capture() as captured_output:
        for item in items:
            console.print(item, soft_wrap=isinstance(item, str | Text))
    for line in captured_output.get().splitlines():
        print(line.rstrip())


def show_rows(rows: Sequence[Sequence[Any]], right: Sequence[int] = ()) -> None:
    """Print rows as aligned columns, without rich; the columns ``right`` are aligned to the right.

    >>> show_rows([["label", "count"], ["B-PER", 1200]], right=[1])
    label  count
    B-PER  1,200
    """
    cells = [[f"{v:,}" if isinstance(v, int) else str(v) for v in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        aligned = (
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join(aligned).rstrip())


def show_json(value: Any) -> None:
    """Print one line of JSON. Infinities and NaN are printed as null, because JSON has none."""
    print(json.dumps(_replace_infinities(value), ensure_ascii=False, allow_nan=False))


def _replace_infinities(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _replace_infinities(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_infinities(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_status(text: str, *, quiet: bool = False) -> None:
    """Print a message on standard error, because standard output is for results."""
    if not quiet:
        # The work goes on if the message cannot be written, for example to a log on a full disk.
        with contextlib.suppress(OSError):
            make_console(stderr=True).print(text, soft_wrap=True)


def format_duration(seconds: float) -> str:
    """Return a duration as text, in at most two units.

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
    """Estimate the iterations left until ``period`` iterations reduce the loss by less than delta.

    Reductions are relative to the loss. The estimate assumes that the reduction per period
    continues to shrink by the same factor. The result is None if ``max_iter`` is None and the
    losses do not allow an estimate.

    >>> losses = [1 + 0.5**n for n in range(30)]
    >>> estimate_iterations_left(losses, max_iter=None, period=5, delta=1e-10)
    10
    """
    limit = None if max_iter is None else max(0, max_iter - len(losses))
    if len(losses) <= 2 * period:
        return limit
    last, middle_loss, first = losses[-1], losses[-1 - period], losses[-1 - 2 * period]
    # The relative gains of the last two periods. If gains form a geometric series, the ratio of
    # these two is its factor. L-BFGS stops when the gain is below delta.
    gain, earlier_gain = (
        (middle_loss - last) / abs(last or 1.0),
        (first - middle_loss) / abs(middle_loss or 1.0),
    )
    if not 0 < gain < earlier_gain:
        return limit
    iterations_left = math.ceil(period * math.log(gain / delta) / math.log(earlier_gain / gain))
    iterations_left = max(0, iterations_left)
    return iterations_left if limit is None else min(iterations_left, limit)


@contextmanager
def show_progress(title: str, quiet: bool = False) -> Iterator[Callable[[float | None, str], None]]:
    """Yield ``update(fraction, text)``, which draws a progress bar if standard error is a terminal.

    A fraction of None means that the amount of work is unknown.
    """
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[text]}", markup=False),
    )
    console = make_console(stderr=True)
    is_hidden = quiet or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=is_hidden) as progress:
        task = progress.add_task(title, total=None, text="")

        def update(fraction: float | None, text: str) -> None:
            total = None if fraction is None else 1.0
            progress.update(task, total=total, completed=fraction or 0.0, text=text)

        yield update


@contextmanager
def catch_interrupts(halt: Callable[[], None]) -> Iterator[list[int]]:
    """Call ``halt`` at the first Ctrl-C or SIGTERM; raise KeyboardInterrupt at the second.

    Yields a list, to which the number of the first signal is appended.
    """
    signals: list[int] = []

    def handle(number: int, _frame: Any) -> None:
        if signals:
            raise KeyboardInterrupt
        signals.append(number)
        halt()
        print_status("\nStopping after this iteration. Press Ctrl-C again to stop at once.")

    handlers = {n: signal.signal(n, handle) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield signals
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def check_writable(path: Path, *inputs: Path) -> None:
    """Raise InputError if the output file cannot be written, or if it is one of the inputs."""
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: cannot be written: it is a folder or not a regular file")
    for source in inputs:
        if path.exists() and source.exists() and path.samefile(source):
            raise InputError(f"{path}: cannot be written: it is also an input file")
    folder = path.parent
    if not folder.is_dir():
        raise InputError(f"{path}: cannot be written: the folder {folder} does not exist")
    try:
        # os.access is not suitable: it checks the real user id, not the effective one.
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None


def build_command_line(*options: str) -> str:
    """Return the command line of this process with additional options."""
    arguments = sys.argv[1:]
    added = [option for option in options if option not in arguments]
    return shlex.join([*find_program(), *arguments, *added])


def find_program() -> list[str]:
    """Return the words with which the user can start this program again."""
    name = os.path.basename(sys.argv[0])
    if name.endswith(".py"):
        return ["python", "-m", "trellis"]
    return [name] if shutil.which(name) else [sys.argv[0]]
