"""A short run of the fuzz driver, and what the driver reports for targets that break a promise."""

from __future__ import annotations

import faulthandler
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "formats")]

from fuzz_targets import Target, no_seed, same  # noqa: E402
from supervisor import Supervisor  # noqa: E402
from worker import Runner  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),  # Python 3.12 and later
    pytest.mark.skipif(sys.platform != "linux", reason="the watchdog reads /proc"),
]


def test_a_short_run_has_no_finding(tmp_path: Path) -> None:
    command = [sys.executable, str(HERE / "run.py"), "--seed", "1", "--cases", "20000"]
    command += ["--minutes", "5", "--findings", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-4000:]
    assert "0 findings: passed" in result.stdout


def crash(path: Path, rng: Any) -> None:
    faulthandler.disable()  # pytest's handler would print a traceback, as if the test had crashed
    os.abort()


def hang(path: Path, rng: Any) -> None:
    while True:
        pass


def swell(path: Path, rng: Any) -> None:
    bytearray(1 << 30)


def fail(path: Path, rng: Any) -> None:
    raise KeyError("a raw exception")


@pytest.mark.parametrize(
    ("use", "kind"),
    [(crash, "crash"), (hang, "hang"), (swell, "memory"), (fail, "exception")],
)
def test_findings_are_reported(use: Any, kind: str, tmp_path: Path) -> None:
    runner = Runner([Target("broken", no_seed, same, use, cases=1)], [[b"seed"]], 1, tmp_path)
    supervisor = Supervisor(runner, workers=1)
    # The worker uses every seed once before it counts cases, and a crash there is found as well.
    end = time.monotonic() + 60
    while not supervisor.findings() and time.monotonic() < end:
        supervisor.run_once()
    supervisor.stop()
    entry = json.loads(next(tmp_path.glob("*.json")).read_text())
    assert entry["kind"] == kind
    assert entry["target"] == "broken"
    assert next(tmp_path.glob("*.input")).read_bytes() == b"seed"
