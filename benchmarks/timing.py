"""Measure median times of alternating calls, print tables, and describe the machine.

All benchmarks of this folder use this module. It does not depend on any of them.
"""

from __future__ import annotations

import datetime
import gc
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class WrongResultError(Exception):
    """Two implementations give different results, so their times cannot be compared."""


class Case(NamedTuple):
    """A call to time."""

    name: str
    call: Callable[[], Any]
    max_repeats: int | None = None  # fewer repeats for slow peers


class Timing(NamedTuple):
    """Seconds over the repeats of one case."""

    median: float
    minimum: float
    repeats: int


class Times(dict[str, Timing]):
    """Timings by case, and the number of cores that other programs used during the measurement."""

    others: float | None = None

    def disturbed(self) -> str | None:
        """Return the reason why these times should not be quoted, or None.

        Even a median is wrong if other programs run during all repeats.
        """
        if self.others is not None and self.others > 0.2:
            return f"other programs used {self.others:.1f} cores"
        wide = [name for name, t in self.items() if t.repeats > 1 and t.median > 1.5 * t.minimum]
        if not wide:
            return None
        return f"for {', '.join(wide)} (the median is more than 1.5 times the minimum)"


def time_alternating(cases: Iterable[Case], repeats: int, pause: float = 0.0) -> Times:
    """Time all cases in turn, in `repeats` rounds, so that noise affects all of them.

    An untimed call comes before each timed one, so that caches and memory pages are warm and the
    second core is awake. Threads of some peers spin for a while after a call; a `pause` of some
    seconds before both calls lets them stop.

    >>> times = time_alternating([Case("ours", f), Case("peer", g, max_repeats=3)], repeats=9)
    >>> times["peer"].median / times["ours"].median
    """
    cases = list(cases)
    seconds: dict[str, list[float]] = {case.name: [] for case in cases}
    with _Quiet() as quiet:
        for turn in range(repeats):
            for case in cases:
                if case.max_repeats is None or turn < case.max_repeats:
                    time.sleep(pause)
                    if case.max_repeats is None:  # slow cases need no warm-up call
                        case.call()
                    seconds[case.name].append(_seconds(case.call))
    return _summary(seconds, quiet.others)


Training = Callable[[Callable[[], None]], Any]
"""``training(tick) -> result``: calls `tick` after each of its iterations."""


def time_iterations(trainings: Mapping[str, Training], turn: int) -> tuple[Times, dict[str, Any]]:
    """Return the seconds per iteration of trainings that take turns, and their results.

    Each training has a thread, and runs `turn` iterations while the others wait. The time up to the
    end of its first iteration does not count, because it includes the preparation.
    """
    turns = _Turns(trainings, turn)

    def run(name: str) -> Any:
        turns.wait(name)
        try:
            return trainings[name](lambda: turns.tick(name))
        finally:
            turns.pass_on()

    with _Quiet() as quiet, ThreadPoolExecutor(len(trainings)) as pool:
        running = {name: pool.submit(run, name) for name in trainings}
        turns.pass_on()
        results = {name: future.result() for name, future in running.items()}
    return _summary({n: s[1:] for n, s in turns.seconds.items()}, quiet.others), results


class _Turns:
    """A token that threads pass on in turn. Only the thread that has the token may run."""

    def __init__(self, names: Iterable[str], turn: int) -> None:
        self.seconds: dict[str, list[float]] = {name: [] for name in names}
        self._gates = {name: threading.Semaphore(0) for name in self.seconds}
        self._queue = deque(self.seconds)
        self._turn = turn
        self._started = 0.0  # start of the current iteration, in seconds

    def wait(self, name: str) -> None:
        self._gates[name].acquire()
        self._started = time.perf_counter()

    def tick(self, name: str) -> None:
        self.seconds[name].append(time.perf_counter() - self._started)
        if len(self.seconds[name]) % self._turn == 0:
            self._queue.append(name)
            self.pass_on()
            self.wait(name)
        self._started = time.perf_counter()

    def pass_on(self) -> None:
        if self._queue:
            self._gates[self._queue.popleft()].release()


class _Quiet:
    """A context without garbage collection. It measures how many cores other programs use."""

    others: float | None = None

    def __enter__(self) -> _Quiet:
        gc.collect()
        gc.disable()
        self._before, self._begin = _others_cpu(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        gc.enable()
        elapsed = time.perf_counter() - self._begin
        # Linux counts in ticks of 10 ms, which is too coarse for shorter times
        if self._before is not None and elapsed > 0.5:
            self.others = max(0.0, (_others_cpu() - self._before) / elapsed)


def _summary(seconds: Mapping[str, list[float]], others: float | None) -> Times:
    """Return the median and the minimum of each case."""
    times = Times(
        (name, Timing(statistics.median(values), min(values), len(values)))
        for name, values in seconds.items()
    )
    times.others = others
    return times


def _others_cpu() -> float | None:
    """Return the CPU seconds since boot of all other programs; None if not Linux.

    They include time that the host of a virtual machine gave to other machines.
    """
    try:
        ticks = [int(n) for n in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    except OSError:
        return None
    process = os.times()
    idle = ticks[3] + ticks[4]
    return (sum(ticks) - idle) / os.sysconf("SC_CLK_TCK") - process.user - process.system


def _seconds(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def check_close(what: str, ours: Any, peer: Any, tolerance: float = 1e-8) -> None:
    """Raise unless |ours − peer| ≤ tolerance · max(1, |peer|) everywhere."""
    ours, peer = np.asarray(ours, np.float64), np.asarray(peer, np.float64)
    if ours.shape != peer.shape:
        raise WrongResultError(f"{what}: shape {ours.shape} against the peer's {peer.shape}")
    error = np.abs(ours - peer) / np.maximum(1.0, np.abs(peer))
    worst = float(error.max(initial=0.0))
    if not worst <= tolerance:  # not `>`: NaN must fail
        raise WrongResultError(
            f"{what}: differs from the peer by {worst:.3g}, allowed {tolerance:.0e}"
        )


@dataclass
class Table:
    """Rows with named columns, printed as aligned text or Markdown, and saved as JSON."""

    title: str
    columns: Sequence[str]
    rows: list[Sequence[Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    raw: dict[str, Times] = field(default_factory=dict)  # times of each row, for JSON

    def add(self, *cells: Any) -> None:
        """Append one row with a cell for every column."""
        if len(cells) != len(self.columns):
            raise ValueError(
                f"{self.title}: a row has {len(cells)} cells, expected {len(self.columns)}"
            )
        self.rows.append(cells)

    def keep(self, row: str, times: Times) -> None:
        """Store the timings of a row for JSON, and add a note if they are disturbed."""
        self.raw[row] = times
        if reason := times.disturbed():
            self.notes.append(f"disturbed: {row}, {reason}")

    def text(self, markdown: bool = False) -> str:
        """Return title, rows and notes as one string."""
        lines = format_rows(self.columns, self.rows, markdown)
        heading = f"### {self.title}" if markdown else self.title
        notes = [f"- {note}" if markdown else f"  {note}" for note in self.notes]
        return "\n".join(["", heading, "", *lines, *([""] if notes else []), *notes])

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        raw = {
            row: {"others": times.others} | {case: t._asdict() for case, t in times.items()}
            for row, times in self.raw.items()
        }
        return {
            "title": self.title,
            "columns": list(self.columns),
            "rows": [list(row) for row in self.rows],
            "notes": self.notes,
            "seconds": raw,
        }


def format_rows(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], markdown: bool = False
) -> list[str]:
    """Return the lines of a table: a header, a rule and one line per row, with aligned columns."""
    cells = [[str(name) for name in columns]]
    cells += [[_cell(value) for value in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    lines = [_line(row, widths, markdown) for row in cells]
    lines.insert(1, _line(["-" * width for width in widths], widths, markdown))
    return lines


def _cell(value: Any) -> str:
    """Return the text of a cell: floats have three digits, and None is a dash."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _line(cells: Sequence[str], widths: Sequence[int], markdown: bool) -> str:
    padded = [
        text.ljust(width) if i == 0 else text.rjust(width)
        for i, (text, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "| " + " | ".join(padded) + " |" if markdown else "  ".join(padded)


def milliseconds(timing: Timing | None) -> float | None:
    """Return the median in ms, or None if the case did not run."""
    return None if timing is None else 1e3 * timing.median


def ratio(slow: Timing | None, fast: Timing | None, at: str = "median") -> float | None:
    """Return how many times faster `fast` is, or None if one of them did not run."""
    return None if slow is None or fast is None else getattr(slow, at) / getattr(fast, at)


def describe_machine(packages: Iterable[str]) -> dict[str, str]:
    """Return date, commit, processor, cores, load and the versions of packages."""
    described = {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _commit(),
        "cpu": _cpu_model(),
        "cores": str(os.cpu_count()),
        "load": " ".join(f"{value:.2f}" for value in os.getloadavg()),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }
    for package in packages:
        try:
            described[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            described[package] = "not installed"
    return described


def _commit() -> str:
    """Return the commit of the repository, marked with + if files differ from it."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty=+"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


def _cpu_model() -> str:
    """Return the name of the processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine()


def save_json(path: Path, machine: dict[str, str], tables: Sequence[Table]) -> None:
    """Write the command, the machine and all tables as one JSON document, for page.py."""
    command = " ".join([f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])
    command = command.partition(" --json")[0]
    tables_json = [table.as_dict() for table in tables]
    document = {"command": command, "machine": machine, "tables": tables_json}
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
