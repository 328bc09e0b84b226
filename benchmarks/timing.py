"""Median timing of alternating calls, tables, and a description of the machine.

Shared by the benchmarks of this folder; nothing here knows what is being measured.
"""

from __future__ import annotations

import datetime
import gc
import importlib.metadata
import json
import os
import platform
import statistics
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
    """Two implementations disagree, so neither time means anything."""


class Case(NamedTuple):
    """One thing to time; `most` caps the repeats of slow peers."""

    name: str
    call: Callable[[], Any]
    most: int | None = None


class Timing(NamedTuple):
    """Seconds over the repeats of one case."""

    median: float
    minimum: float
    repeats: int


class Times(dict[str, Timing]):
    """Timings by case, and how many cores others (processes, hypervisor) took meanwhile."""

    others: float | None = None

    def disturbed(self) -> str | None:
        """Why these times should not be quoted, or None.

        A median does not help against a disturbance that lasts through all repeats.
        """
        if self.others is not None and self.others > 0.2:
            return f"others used {self.others:.1f} cores"
        wide = [name for name, t in self.items() if t.repeats > 1 and t.median > 1.5 * t.minimum]
        return f"median over 1.5 x minimum: {', '.join(wide)}" if wide else None


def time_alternating(cases: Iterable[Case], repeats: int, pause: float = 0.0) -> Times:
    """Time all cases in turn, `repeats` rounds, so that machine noise hits each of them.

    Each timed call follows an untimed one, so that caches, pages and a second core that had gone to
    sleep are as in a run of calls. Before both it sleeps for `pause` seconds, where threads of a
    peer spin for a while after a call.

    >>> times = time_alternating([Case("ours", f), Case("peer", g, most=3)], repeats=9)
    >>> times["peer"].median / times["ours"].median
    """
    cases = list(cases)
    seconds: dict[str, list[float]] = {case.name: [] for case in cases}
    with _Quiet() as quiet:
        for turn in range(repeats):
            for case in cases:
                if case.most is None or turn < case.most:
                    time.sleep(pause)
                    if case.most is None:  # capped cases are too slow for a cold start to show
                        case.call()
                    seconds[case.name].append(_seconds(case.call))
    return _summary(seconds, quiet.others)


Training = Callable[[Callable[[], None]], Any]
"""``training(tick) -> result``: calls `tick` after each of its iterations."""


def time_iterations(trainings: Mapping[str, Training], turn: int) -> tuple[Times, dict[str, Any]]:
    """Seconds an iteration of trainings that take turns of so many iterations, and their results.

    Each has a thread, and only one of them is awake. Its time up to the end of its first iteration
    does not count: it holds what comes before the iterations.
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
    """A baton that goes round; only the thread that holds it touches what is here."""

    def __init__(self, names: Iterable[str], turn: int) -> None:
        self.seconds: dict[str, list[float]] = {name: [] for name in names}
        self._gates = {name: threading.Semaphore(0) for name in self.seconds}
        self._queue = deque(self.seconds)
        self._turn = turn
        self._since = 0.0

    def wait(self, name: str) -> None:
        self._gates[name].acquire()
        self._since = time.perf_counter()

    def tick(self, name: str) -> None:
        self.seconds[name].append(time.perf_counter() - self._since)
        if len(self.seconds[name]) % self._turn == 0:
            self._queue.append(name)
            self.pass_on()
            self.wait(name)
        self._since = time.perf_counter()

    def pass_on(self) -> None:
        if self._queue:
            self._gates[self._queue.popleft()].release()


class _Quiet:
    """A stretch without garbage collection, and how many cores others took meanwhile."""

    others: float | None = None

    def __enter__(self) -> _Quiet:
        gc.collect()
        gc.disable()
        self._before, self._begin = _others_cpu(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        gc.enable()
        elapsed = time.perf_counter() - self._begin
        if self._before is not None and elapsed > 0.5:  # the system counts in ticks of 10 ms
            self.others = max(0.0, (_others_cpu() - self._before) / elapsed)


def _summary(seconds: Mapping[str, list[float]], others: float | None) -> Times:
    times = Times(
        (name, Timing(statistics.median(values), min(values), len(values)))
        for name, values in seconds.items()
    )
    times.others = others
    return times


def _others_cpu() -> float | None:
    """CPU seconds since boot that were not ours, stolen ones included; None where not Linux."""
    try:
        ticks = [int(n) for n in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    except OSError:
        return None
    own = os.times()
    idle = ticks[3] + ticks[4]
    return (sum(ticks) - idle) / os.sysconf("SC_CLK_TCK") - own.user - own.system


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
    if not worst <= tolerance:  # written so that NaN fails
        raise WrongResultError(
            f"{what}: differs from the peer by {worst:.3g}, allowed {tolerance:.0e}"
        )


@dataclass
class Table:
    """Rows under named columns; prints as aligned text or Markdown."""

    title: str
    columns: Sequence[str]
    rows: list[Sequence[Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    raw: dict[str, Times] = field(default_factory=dict)  # for JSON, by row

    def add(self, *cells: Any) -> None:
        """Append one row; it must fill every column."""
        if len(cells) != len(self.columns):
            raise ValueError(f"{len(cells)} cells for {len(self.columns)} columns of {self.title}")
        self.rows.append(cells)

    def keep(self, row: str, times: Times) -> None:
        """Keep a row's timings for JSON, and say so if something disturbed them."""
        self.raw[row] = times
        if reason := times.disturbed():
            self.notes.append(f"DISTURBED, do not quote: {row} ({reason})")

    def text(self, markdown: bool = False) -> str:
        """The table as one string."""
        cells = [[str(name) for name in self.columns]]
        cells += [[_cell(value) for value in row] for row in self.rows]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.columns))]
        lines = [_line(row, widths, markdown) for row in cells]
        rule = [("-" * width) for width in widths]
        lines.insert(1, _line(rule, widths, markdown))
        heading = f"### {self.title}" if markdown else self.title
        notes = [f"- {note}" if markdown else f"  {note}" for note in self.notes]
        return "\n".join(["", heading, "", *lines, *([""] if notes else []), *notes])

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        raw = {
            row: {"others": times.others} | {case: t._asdict() for case, t in times.items()}
            for row, times in self.raw.items()
        }
        return {"title": self.title, "rows": rows, "notes": self.notes, "seconds": raw}


def _cell(value: Any) -> str:
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
    """The median in ms, None where a case did not run."""
    return None if timing is None else 1e3 * timing.median


def ratio(slow: Timing | None, fast: Timing | None, at: str = "median") -> float | None:
    """How many times `fast` is faster than `slow`, None where one of them did not run."""
    return None if slow is None or fast is None else getattr(slow, at) / getattr(fast, at)


def describe_machine(packages: Iterable[str]) -> dict[str, str]:
    """Processor, cores, load, date and the versions of the packages that count."""
    described = {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
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


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine()


def save_json(path: Path, machine: dict[str, str], tables: Sequence[Table]) -> None:
    """Write the description and all tables as one JSON document."""
    document = {"machine": machine, "tables": [table.as_dict() for table in tables]}
    path.write_text(json.dumps(document, indent=1) + "\n")
