"""Time from SIGINT to KeyboardInterrupt, for each long native call of tests/interrupted_calls.py.

    python benchmarks/interrupts.py [RUNS]

The target is 0.3 s. Each run is a process. The table has the median and the longest time
of all runs.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent / "tests"
sys.path.insert(0, str(TESTS))

from interrupted_calls import CALLS  # noqa: E402


def latency(name: str) -> float:
    """Return the seconds from the signal to the exception; infinity if there was none."""
    script = str(TESTS / "interrupted_calls.py")
    run = subprocess.run([sys.executable, script, name], capture_output=True, text=True, check=True)
    result, *seconds = run.stdout.split()
    return float(seconds[0]) if result == "interrupted" else float("inf")


def main(runs: int) -> None:
    """Print the table."""
    print(f"{'call':45} {'median':>8} {'longest':>8}   s, {runs} runs")
    for name in CALLS:
        times = [latency(name) for _ in range(runs)]
        print(f"{name:45} {statistics.median(times):8.3f} {max(times):8.3f}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
