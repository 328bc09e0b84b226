"""Fuzz every format and interface; exit with 1 if a promise is broken.

    python tests/fuzz/run.py --minutes 30 --seed 1
    python tests/fuzz/run.py --format crfsuite --cases 10000
    python tests/fuzz/run.py --replay build/fuzz-findings/crfsuite-1-77.json

README.md in this folder describes the promises.
"""

from __future__ import annotations

import os
import sys

# These must be set before NumPy and PyTorch are imported. One malloc arena: each further one would
# reserve 64 MiB of address space, which the memory limit of a case counts.
SETTINGS = {"OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1", "OPENBLAS_NUM_THREADS": "1"}
if __name__ == "__main__" and any(os.environ.get(k) != v for k, v in SETTINGS.items()):
    os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | SETTINGS)

import argparse  # noqa: E402
import json  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "formats")]

import call_targets  # noqa: E402
import drivers  # noqa: E402
import model_targets  # noqa: E402
import text_targets  # noqa: E402
import word_targets  # noqa: E402
from fuzz_targets import Target  # noqa: E402
from supervisor import Supervisor  # noqa: E402
from worker import Finding, Runner  # noqa: E402

DRIVER_SHARE = 0.1  # of the time, for the drivers of cpp/tests/fuzz


def all_targets() -> list[Target]:
    """Return the table of targets."""
    modules = (model_targets, text_targets, word_targets, call_targets)
    return [target for module in modules for target in module.targets()]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fuzz every format and interface.")
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--cases", type=int, help="stop after about this number of cases")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--format", action="append", help="only targets whose name contains this")
    parser.add_argument("--replay", type=Path, help="run the case of a finding (.json) again")
    parser.add_argument("--drivers", type=Path, help="folder of the programs of cpp/tests/fuzz")
    parser.add_argument("--findings", type=Path, default=Path("build/fuzz-findings"))
    return parser.parse_args()


def replay(path: Path, targets: list[Target], findings: Path) -> int:
    """Run one case in this process, without a watchdog, so that a debugger can follow it."""
    entry = json.loads(path.read_text(encoding="utf-8"))
    index = [target.name for target in targets].index(entry["target"])
    seeds: list[list[bytes]] = [[] for _ in targets]
    seeds[index] = targets[index].seeds()
    runner = Runner(targets, seeds, entry["seed"], findings)
    runner.work.mkdir(exist_ok=True)
    try:
        runner.run(index, entry["case"], path.with_suffix(".input").read_bytes())
    except Finding as finding:
        print(finding)
        return 1
    print("the case keeps all promises")
    return 0


def report(targets: list[Target], supervisor: Supervisor, seconds: float) -> int:
    """Print the cases of each target, and return the number of all cases."""
    total = 0
    counts = zip(targets, supervisor.counts(), supervisor.valid_counts(), strict=True)
    print(f"  {'target':28} {'cases':>9} {'valid':>9}")
    for target, count, valid in counts:
        print(f"  {target.name:28} {count:>9,} {valid:>9,}")
        total += count
    print(f"{total:,} cases in {seconds:.0f} s, {total / seconds:.0f} per second")
    return total


def main() -> int:
    options = parse_arguments()
    targets = all_targets()
    options.findings.mkdir(parents=True, exist_ok=True)
    if options.replay:
        return replay(options.replay, targets, options.findings)
    if options.format:
        targets = [t for t in targets if any(part in t.name for part in options.format)]
    seconds = 60 * options.minutes
    findings = total = 0
    if options.drivers:
        share = DRIVER_SHARE * seconds
        findings, total = drivers.run(options.drivers, share, options.seed, options.findings)
        seconds -= share
    runner = Runner(targets, [t.seeds() for t in targets], options.seed, options.findings)
    supervisor = Supervisor(runner, options.workers)
    began = time.monotonic()
    supervisor.run(seconds, options.cases)
    total += report(targets, supervisor, time.monotonic() - began)
    findings += supervisor.findings()
    print(f"fuzz: {total:,} cases, {findings} findings: {'FAILED' if findings else 'passed'}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
