"""Progress of a training on the screen: in a notebook, on a terminal, or as lines.

The parameter ``verbose`` of the models turns it on.
"""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Protocol, TypeAlias

__all__ = ["Draw", "describe_iteration", "show_progress"]

Draw: TypeAlias = Callable[[float | None, str], None]
"""``draw(fraction, text)``; a fraction of None means that the amount of work is unknown."""

_NOTEBOOK_INTERVAL = 0.2  # seconds between two updates: a notebook stores and sends each of them
_LINE_INTERVAL = 2.0  # seconds between two lines of a log


class _Display(Protocol):
    """A place that shows progress."""

    interval: float
    """The smallest number of seconds between two updates."""

    def update(self, fraction: float | None, text: str) -> None:
        """Show the state of the work."""

    def close(self) -> None:
        """End the display; the last state stays visible."""


@contextmanager
def show_progress(title: str, verbose: object) -> Iterator[Draw]:
    """Yield ``draw(fraction, text)``, which shows progress if ``verbose`` is true.

    A notebook gets a bar below the cell, a terminal a bar on standard error. Anywhere else, lines
    are printed on standard error, at most one every two seconds.

    >>> with show_progress("training", verbose=False) as draw:
    ...     draw(0.5, "iteration 3")
    """
    if not verbose:
        yield lambda fraction, text: None
        return
    display = _choose_display(title)
    last: tuple[float | None, str] | None = None
    last_shown = last
    start, next_update = time.monotonic(), 0.0

    def draw(fraction: float | None, text: str) -> None:
        nonlocal last, last_shown, next_update
        last = fraction, text
        if time.monotonic() >= next_update:
            display.update(fraction, text)
            last_shown, next_update = last, time.monotonic() + display.interval

    is_complete = False
    try:
        yield draw
        is_complete = True
    finally:
        if last is not None:
            fraction, text = last
            seconds = f"  {time.monotonic() - start:.1f} s"
            if is_complete:
                display.update(1.0, text + seconds)
            elif last != last_shown:
                display.update(fraction, text)
        display.close()


def describe_iteration(
    number: int, loss: float, dev_scores: list[tuple[int, float]] | None = None
) -> str:
    """Return the text of one iteration, with the last score of the development set.

    >>> describe_iteration(12, 1234.5678, [(5, 0.8), (10, 0.91)])
    'iteration 12  loss 1,234.6  dev 91.00'
    """
    text = f"iteration {number}  loss {loss:,.1f}"
    return f"{text}  dev {100 * dev_scores[-1][1]:.2f}" if dev_scores else text


def _choose_display(title: str) -> _Display:
    ipython = sys.modules.get("IPython")  # a notebook has already imported it
    shell = ipython.get_ipython() if ipython is not None else None
    # A terminal with IPython has a shell without a kernel.
    if getattr(shell, "kernel", None) is not None:
        return _Notebook(title)
    return _Terminal(title) if sys.stderr.isatty() else _Lines(title)


class _Notebook:
    """A bar of HTML below the cell. It needs no ipywidgets."""

    interval = _NOTEBOOK_INTERVAL

    def __init__(self, title: str) -> None:
        self.title = title
        self.handle: Any = None

    def update(self, fraction: float | None, text: str) -> None:
        display = import_module("IPython.display").display  # every notebook has it
        value = "" if fraction is None else f' value="{fraction:.4f}"'
        line = f"{self.title}: {text}"
        data = {
            "text/plain": line,
            "text/html": f"<progress{value}></progress> <code>{html.escape(line)}</code>",
        }
        if self.handle is None:
            self.handle = display(data, raw=True, display_id=True)
        else:
            self.handle.update(data, raw=True)

    def close(self) -> None:
        """Do nothing: the notebook keeps the last state."""


class _Terminal:
    """A bar of rich on standard error."""

    interval = 0.0  # rich limits the number of updates

    def __init__(self, title: str) -> None:
        # Imported here, because importing rich takes 0.1 s.
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[text]}", markup=False),
        )
        self.progress = Progress(*columns, console=Console(file=sys.stderr, highlight=False))
        self.task = self.progress.add_task(title, total=None, text="")
        self.progress.start()

    def update(self, fraction: float | None, text: str) -> None:
        total = None if fraction is None else 1.0
        self.progress.update(self.task, total=total, completed=fraction or 0.0, text=text)

    def close(self) -> None:
        self.progress.stop()


class _Lines:
    """Lines on standard error."""

    interval = _LINE_INTERVAL

    def __init__(self, title: str) -> None:
        self.title = title

    def update(self, fraction: float | None, text: str) -> None:
        print(f"{self.title}: {text}", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Do nothing: each line is complete."""
