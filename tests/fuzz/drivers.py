"""Run the fuzz drivers of the C++ parsers (cpp/tests/fuzz) and add up their cases."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

SEEDS = Path(__file__).parents[2] / "cpp" / "tests" / "fuzz" / "seeds"
_CASES = re.compile(r"stat::number_of_executed_units:\s*(\d+)")
EXTRA_SECONDS = 60  # for the start and the end of a driver


def run(folder: Path, seconds: float, seed: int, findings: Path) -> tuple[int, int]:
    """Run every driver for its share of the time. Return the numbers of findings and cases."""
    names = sorted(path.name for path in SEEDS.iterdir())
    share = max(1, int(seconds / len(names)))
    failures = total = 0
    for name in names:
        cases, message = run_driver(folder / f"fuzz_{name}", name, share, seed, findings)
        total += cases
        print(f"  driver {name:21} {cases:>9,}")
        if message:
            failures += 1
            print(f"driver {name} failed:\n{message}")
    return failures, total


def run_driver(
    program: Path, name: str, seconds: int, seed: int, findings: Path
) -> tuple[int, str | None]:
    """Return the number of cases, and the end of the output if the driver failed."""
    command = [
        str(program), f"-seed={seed}", f"-max_total_time={seconds}", "-timeout=5",
        "-print_final_stats=1", f"-artifact_prefix={findings}/{name}-",
        # libFuzzer adds cases to the first folder; the second one has the seeds.
        str(_new_folder(findings / f"corpus-{name}")), str(SEEDS / name),
    ]  # fmt: skip
    try:
        result = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds + EXTRA_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return 0, "the driver does not end"
    match = _CASES.search(result.stderr)
    failed = result.returncode != 0 or match is None
    return int(match[1]) if match else 0, result.stderr[-3000:] if failed else None


def _new_folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path
