"""The parent of the workers: it starts them, watches the time of each case, and restarts them."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
import traceback
from collections.abc import Iterable
from pathlib import Path

from worker import Runner, State

HANG_SECONDS = 5.0  # processor time of one case
BLOCKED_SECONDS = 60.0  # a case that waits for something takes no processor time
POLL_SECONDS = 0.1


class Process:
    """A worker, which runs the rounds first, first + step, …"""

    def __init__(self, runner: Runner, first: int, step: int) -> None:
        self.runner, self.first, self.step = runner, first, step
        self.state = State(len(runner.targets))
        self._start()

    def _start(self) -> None:
        self.case, self.since, self.processor = -1, 0.0, 0.0
        rounds_done = self.state.read()[3]
        self.pid = os.fork()
        if self.pid:
            return
        status = 1
        try:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            self.runner.work = self._work_folder(os.getpid())
            first = self.first + rounds_done * self.step
            self.runner.loop(self.state, range(first, 2**62, self.step))
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)

    def _work_folder(self, pid: int) -> Path:
        return self.runner.work.with_name(f"trellis-fuzz-{pid}")

    def check(self) -> None:
        """If the worker has died or hangs, save its case and start another."""
        if os.waitpid(self.pid, os.WNOHANG)[0]:
            self._replace("crash", "the process died")
            return
        case, now, processor = self.state.read()[2], time.monotonic(), processor_seconds(self.pid)
        if case != self.case:
            self.case, self.since, self.processor = case, now, processor
        elif processor - self.processor > HANG_SECONDS:
            self.stop()
            self._replace("hang", f"more than {HANG_SECONDS} s of processor time")
        elif now - self.since > BLOCKED_SECONDS:
            self.stop()
            self._replace("hang", f"waited for {BLOCKED_SECONDS} s")

    def _replace(self, kind: str, message: str) -> None:
        """Continue with the next round: the same case would fail again."""
        shutil.rmtree(self._work_folder(self.pid), ignore_errors=True)
        target, case, _, _ = self.state.read()
        self.runner.save(target, case, kind, message)
        self.state.finish_round()
        self._start()

    def stop(self) -> None:
        """End the worker."""
        with contextlib.suppress(ProcessLookupError, ChildProcessError):  # it may have died
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        shutil.rmtree(self._work_folder(self.pid), ignore_errors=True)


class Supervisor:
    """All workers."""

    def __init__(self, runner: Runner, workers: int) -> None:
        self.runner = runner
        self.before = {*runner.folder.glob("*.json")}
        self.processes = [Process(runner, first, workers) for first in range(workers)]

    def run(self, seconds: float, cases: int | None) -> None:
        """Watch the workers until the time is over or the cases are run; then end them."""
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end and (cases is None or sum(self.counts()) < cases):
                self.run_once()
        finally:
            self.stop()

    def run_once(self) -> None:
        """Wait a little, and check every worker."""
        time.sleep(POLL_SECONDS)
        for process in self.processes:
            process.check()

    def stop(self) -> None:
        """End all workers."""
        for process in self.processes:
            process.stop()

    def counts(self) -> list[int]:
        """Return the number of cases of each target."""
        return _add(process.state.counts() for process in self.processes)

    def valid_counts(self) -> list[int]:
        """Return the number of cases of each target that raised nothing."""
        return _add(process.state.valid_counts() for process in self.processes)

    def findings(self) -> int:
        """Return the number of findings of this run."""
        return len({*self.runner.folder.glob("*.json")} - self.before)


def _add(rows: Iterable[tuple[int, ...]]) -> list[int]:
    return [sum(column) for column in zip(*rows, strict=True)]


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
