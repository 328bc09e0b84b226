"""The record of `reach.py`: which tests execute which lines, and how long each test takes."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import coverage
import coverage.exceptions

HERE = Path(__file__).parent
QUICK = "not slow and not interpreter"
_INI = """[run]
source = {package}
context = ${{TRELLIS_TEST-}}
data_file = {folder}/coverage
parallel = true
disable_warnings = no-data-collected, module-not-measured, no-sysmon
"""


def write_record(folder: Path, package: Path, root: Path, tests: list[str] | None = None) -> None:
    """Run the quick tests once under coverage (minutes). ``tests`` are added to the record."""
    folder.mkdir(parents=True, exist_ok=True)
    if tests is None:
        for old in [*folder.glob("coverage.*"), *folder.glob("seconds.*")]:
            old.unlink()
    ini = folder / "coverage.ini"
    ini.write_text(_INI.format(package=package, folder=folder), encoding="utf-8")
    environment = {
        **os.environ,
        "TRELLIS_REACH": str(folder),
        "COVERAGE_PROCESS_START": str(ini),
        "PYTHONPATH": os.pathsep.join(map(str, (HERE, HERE / "startup", package.parent))),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal"]
    options = ["-p", "reach", "-p", "no:cacheprovider", "-m", QUICK, *(tests or ["tests"])]
    run = subprocess.run([*command, *options], cwd=root, env=environment)
    if run.returncode not in (0, 1):
        sys.exit("pytest could not run: there is no record")
    if run.returncode == 1:
        print("these tests fail without any mutant, so they are not used")


_AT_IMPORT = "at import"
"""Stands for a test where a line runs outside of tests: while pytest imports the tests."""


class Record:
    """Tests by file and line, and the seconds of each test."""

    def __init__(self, folder: Path, package: Path) -> None:
        self.seconds: dict[str, float] = {}
        for path in folder.glob("seconds.*.json"):
            self.seconds |= json.loads(path.read_text(encoding="utf-8"))
        files = [*folder.glob("coverage.*.*")]
        index = folder / "index.json"
        if not index.exists() or index.stat().st_mtime < max(f.stat().st_mtime for f in files):
            index.write_text(json.dumps(self._read_coverage(files, package)), encoding="utf-8")
        self.tests: dict[str, dict[str, list[str]]] = json.loads(index.read_text(encoding="utf-8"))

    def _read_coverage(self, files: list[Path], package: Path) -> dict[str, dict[int, list[str]]]:
        """Return the tests by file and line. Reading the databases of coverage takes a minute."""
        tests: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        for path in files:
            data = coverage.CoverageData(str(path))
            try:
                data.read()
            except coverage.exceptions.DataError:
                continue  # a test killed the process while it wrote the file
            for file in data.measured_files():
                by_line = tests[Path(file).relative_to(package).as_posix()]
                for line, contexts in data.contexts_by_lineno(file).items():
                    by_line[line].update(set(contexts) & self.seconds.keys())
                    if "" in contexts:
                        by_line[line].add(_AT_IMPORT)
        return {
            file: {line: sorted(names) for line, names in by_line.items()}
            for file, by_line in tests.items()
        }

    def reaching(self, file: str, lines: tuple[int, int] | None) -> list[str]:
        """Return the tests that execute one of these lines of a file, the fastest first.

        If pytest executes them while it imports the tests, return all tests of the file: a result
        that is computed at import, such as a table or a signature, may be used by any of them.
        """
        reaching: set[str] = set()
        for line, tests in self.tests.get(file, {}).items():
            if lines is None or lines[0] <= int(line) <= lines[1]:
                reaching.update(tests)
        if _AT_IMPORT in reaching and lines is not None:
            return self.reaching(file, None)
        reaching.discard(_AT_IMPORT)
        return sorted(reaching, key=lambda test: (self.seconds[test], test))
