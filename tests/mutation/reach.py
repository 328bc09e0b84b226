"""Pytest plugin that records which test executes which line of trellis, and how long it takes.

`run.py` chooses the tests of a mutant from the record. Processes that a test starts are recorded
too: they read TRELLIS_TEST, the name of the running test, as the context of their coverage.
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

FOLDER = Path(os.environ["TRELLIS_REACH"])
"""The folder of the record, which `run.py` creates together with coverage.ini."""


class Recorder:
    """Coverage of this process, with one context per test."""

    def __init__(self) -> None:
        self.coverage = coverage.Coverage(
            data_suffix=True, config_file=str(FOLDER / "coverage.ini")
        )
        self.coverage.start()
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        os.environ["TRELLIS_TEST"] = item.nodeid
        self.coverage.switch_context(item.nodeid)
        started = time.perf_counter()
        result = yield
        self.seconds[item.nodeid] = time.perf_counter() - started
        self.coverage.switch_context("")
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # A test that fails without a mutant must not be chosen: it would kill every mutant.
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        self.coverage.save()
        path = FOLDER / f"seconds.{os.getpid()}.json"
        passed = {test: s for test, s in self.seconds.items() if test not in self.failed}
        path.write_text(json.dumps(passed), encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    """Start the recorder."""
    config.pluginmanager.register(Recorder(), "reach-recorder")
