"""`make mutate`: change the sources at random places, and report which changes no test notices.

Each mutant is one change of a copy of the installed package. The tests that execute the changed
line run on it until one fails. A mutant is

- killed: a test failed, or the tests ran out of time;
- survived: they all passed. A test is missing;
- equivalent: they all passed, and equivalent.json says why the change has no effect;
- not reached: no quick test executes the line. This counts as survived;
- gpu only: no quick test executes the line, because only a GPU does. This does not count;
- broken: pytest could not run; this is an error of the script, not a kill.

The score is the number of killed mutants, divided by that of all mutants that are not equivalent.
The report, build/mutation/report.md, shows the diff of each mutant that was not killed.
"""

import argparse
import contextlib
import difflib
import gc
import importlib
import importlib.util
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import NamedTuple

import cpp_run
from python_mutants import Mutant, find_mutants
from record import QUICK, Record, write_record

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build/mutation"
ALWAYS = [
    "tests/test_signatures.py::test_defaults_are_those_of_the_table",
    "tests/test_constants.py::test_constants_are_those_of_the_table",
]
"""Tests of default values and constants: they run at import, which no record shows."""
EQUIVALENT = Path(__file__).with_name("equivalent.json")
"""Survivors that change nothing, with the reason. They do not count in the score."""
NOT_RUN = ("kernels_", "triton.py", "cuda_graph.py", "gpu/", "_core.pyi")
"""Modules that only a GPU or Triton's interpreter runs."""
GPU_ONLY = {
    "nn/chain_ops.py": "log_partition _compute_value _compute_gradient _viterbi _",
    "nn/ctc_batch.py": "check_status _describe_problem",
    "nn/ctc_ops.py": (
        "_gpu_engine _computes_at_once losses _run_on_gpu posterior _compute_value "
        "_compute_gradient _"
    ),
    "nn/lstm/bidirectional.py": "_choose_engine runs_on_gpu",
    "nn/steps.py": "find_steps",
    "nn/tagger/data.py": "padded _to_device _choose_shape pad_and_join sizes batch",
    "nn/tagger/network.py": "skips_padding fixed_sizes",
    "nn/tagger/optimizer.py": "_add_graph_options set_rate",
    "nn/tagger/training.py": "_use_stream run_epoch",
}
"""Functions with branches for a GPU. If no test reaches a mutant there, it does not count."""
LIMIT_S = 60.0
"""Seconds of tests per mutant, as recorded; the fastest tests are chosen."""
PRELOADED = [
    *("numpy", "scipy.sparse", "scipy.optimize", "scipy.stats", "sklearn.base", "torch", "rich"),
    *("pytest", "hypothesis", "hypothesis.strategies", "hypothesis.extra.numpy"),
]
"""Imported once, before the forks."""


BROKEN = 70
# Only a failed test, a failed import or a crash kills a mutant. Any other end of pytest is an error
# of this script, and must not count as a kill. A negative code is a signal.
_STATUSES = {
    0: "survived",
    1: "killed",
    2: "killed",
    -signal.SIGSEGV: "killed",
    -signal.SIGABRT: "killed",
    -signal.SIGKILL: "timeout",  # the limit of processor time
    -signal.SIGXCPU: "timeout",
}


STATUSES = ("killed", "timeout", "survived", "equivalent", "not reached", "gpu only", "broken")


class Outcome(NamedTuple):
    """What happened to a mutant."""

    path: str
    line: int
    status: str
    """One of STATUSES."""
    detail: str
    """The number of tests, or the test that failed."""
    diff: str


class Selection:
    """Pytest plugin that keeps the chosen tests, in this order, and writes the first failure."""

    def __init__(self, tests: list[str], failure: Path) -> None:
        self.rank = {test: i for i, test in enumerate(tests)}
        self.failure = failure

    def pytest_collection_modifyitems(self, items: list) -> None:
        chosen = [item for item in items if self._rank_of(item) is not None]
        items[:] = sorted(chosen, key=self._rank_of)

    def _rank_of(self, item: object) -> int | None:
        return self.rank.get(item.nodeid, self.rank.get(item.nodeid.partition("::")[0]))

    def pytest_collectreport(self, report: object) -> None:
        if report.failed:
            self.failure.write_text(f"import of {report.nodeid}", encoding="utf-8")

    def pytest_runtest_logreport(self, report: object) -> None:
        if report.failed:
            self.failure.write_text(report.nodeid, encoding="utf-8")


def sample(package: Path, count: int, seed: int, only: list[str]) -> list[Mutant]:
    """Return ``count`` random mutants of the files whose path contains a text of ``only``."""
    mutants: list[Mutant] = []
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        is_chosen = any(text in name for text in only)
        if is_chosen and not any(part in name for part in NOT_RUN):
            mutants += find_mutants(path.read_text(encoding="utf-8"), name)
    return random.Random(seed).sample(mutants, min(count, len(mutants)))


def choose_tests(mutant: Mutant, record: Record) -> list[list[str]]:
    """Return the tests that may notice a mutant, in two stages, the fastest of each stage first.

    The first stage has the tests in the folder of the mutant: they notice most of its mutants, and
    pytest imports few files for them. Both stages together take at most LIMIT_S seconds.
    """
    lines = mutant.scope if mutant.runs_at_import else mutant.lines
    tests = record.reaching(mutant.path, lines)
    if tests and mutant.is_cached:
        tests = record.reaching(mutant.path, None)
    if not tests:
        return []
    folder = f"tests/{mutant.path.rpartition('/')[0]}".rstrip("/")
    near = [test for test in tests if test.partition("::")[0].rpartition("/")[0] == folder]
    always = [*ALWAYS] if mutant.runs_at_import else []
    stages, seconds = [], 0.0
    for stage in (always + near, [test for test in tests if test not in {*near}]):
        chosen = []
        for test in stage:
            seconds += record.seconds.get(test, 1.0)
            if seconds > LIMIT_S and chosen:
                break
            chosen.append(test)
        stages.append(chosen)
    return [stage for stage in stages if stage]


def show_diff(mutant: Mutant, source: bytes) -> str:
    """Return the change as a diff without context."""
    old, new = (text.decode().splitlines() for text in (source, mutant.apply(source)))
    lines = [*difflib.unified_diff(old, new, lineterm="", n=0)]
    return "\n".join(lines[3:])


def try_mutant(mutant: Mutant, package: Path, record: Record) -> Outcome:
    """Run the tests of one mutant in forked processes."""
    source = (package / mutant.path).read_bytes()
    diff = show_diff(mutant, source)
    line = source[: mutant.begin].count(b"\n") + 1
    stages = choose_tests(mutant, record)
    if not stages:
        status = "gpu only" if mutant.function in GPU_ONLY.get(mutant.path, "").split() else ""
        return Outcome(mutant.path, line, status or "not reached", "no test", diff)
    status, detail = "survived", f"{sum(map(len, stages))} tests"
    with tempfile.TemporaryDirectory(prefix="mutant") as name:
        write_package(Path(name) / "trellis", mutant, package, source)
        failure = Path(name) / "failure"
        for tests in stages:
            expected = sum(record.seconds.get(test, 1.0) for test in tests)
            status = _run_forked(Path(name), tests, failure, expected)
            if status != "survived":
                break
        if failure.exists():
            detail = failure.read_text(encoding="utf-8")
    return Outcome(mutant.path, line, status, detail, diff)


def write_package(copy: Path, mutant: Mutant, package: Path, source: bytes) -> None:
    """Write a copy of the package with the mutant."""
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("*.so"))
    for library in package.glob("*.so"):
        (copy / library.name).symlink_to(library)
    (copy / mutant.path).write_bytes(mutant.apply(source))
    for cache in (copy / mutant.path).parent.glob(
        f"__pycache__/{copy.joinpath(mutant.path).stem}.*"
    ):
        cache.unlink()


def _run_forked(folder: Path, tests: list[str], failure: Path, expected: float) -> str:
    """Run tests that take about ``expected`` seconds on the package in a folder.

    Return what happened. An endless loop reaches the limit of processor time. The limit of elapsed
    time is for deadlocks. It is so long that a busy machine does not reach it.
    """
    child = os.fork()
    if child == 0:
        code = BROKEN
        try:
            limit = int(30 + 2 * expected)
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
            code = _run_tests(folder, tests, failure)
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    deadline = time.monotonic() + 60 + 15 * expected
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return _STATUSES.get(os.waitstatus_to_exitcode(status), "broken")
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "timeout"


def _run_tests(folder: Path, tests: list[str], failure: Path) -> int:
    import pytest

    os.setsid()  # a timeout ends this process and those that it starts
    output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.environ["PYTHONPATH"] = str(folder)
    sys.path.insert(0, str(folder))
    files = sorted({test.partition("::")[0] for test in tests})
    # Without rewritten assertions and without hypothesis' plugin, hypothesis can be preloaded.
    plugins = [f"-pno:{name}" for name in ("cacheprovider", "randomly", "hypothesispytest")]
    options = ["-q", "-x", "--assert=plain", *plugins, "-m", QUICK]
    code = pytest.main([*options, *files], plugins=[Selection(tests, failure)])
    return int(code)


def judge(outcome: Outcome, judged: list[dict[str, str]]) -> Outcome:
    """Return the outcome with the status "equivalent" if equivalent.json says so."""
    if outcome.status not in ("survived", "not reached"):
        return outcome
    for mutant in judged:
        if (mutant["path"], mutant["diff"]) == (outcome.path, outcome.diff):
            return outcome._replace(status="equivalent", detail=mutant["reason"])
    return outcome


def write_report(outcomes: list[Outcome], path: Path) -> str:
    """Write the table and the diffs; return the summary."""
    count = {status: sum(outcome.status == status for outcome in outcomes) for status in STATUSES}
    noticed = count["killed"] + count["timeout"]
    counted = len(outcomes) - count["equivalent"] - count["gpu only"]
    summary = f"{noticed} of {counted} noticed ({100 * noticed / max(counted, 1):.1f} %): "
    summary += ", ".join(f"{number} {status}" for status, number in count.items())
    text = [f"# Mutants\n\n{summary}\n\n| place | status | by |\n|---|---|---|"]
    text += [f"| {o.path}:{o.line} | {o.status} | {o.detail} |" for o in outcomes]
    for outcome in outcomes:
        if outcome.status not in ("killed", "timeout"):
            text.append(
                f"\n## {outcome.path}:{outcome.line} {outcome.status} ({outcome.detail})\n\n"
                f"```diff\n{outcome.diff}\n```"
            )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(text) + "\n", encoding="utf-8")
    return summary


def main() -> None:
    """Parse the options, run the mutants, write the report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", type=int, default=150, help="number of Python mutants")
    parser.add_argument("--cpp", type=int, default=20, help="number of C++ mutants")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument(
        "--only",
        nargs="+",
        default=[""],
        metavar="TEXT",
        help="only files whose path contains one of these texts, such as data/ or metrics.py",
    )
    parser.add_argument("--record", action="store_true", help="record again which tests run what")
    parser.add_argument("--add", nargs="+", metavar="TEST", help="add these tests to the record")
    parser.add_argument("--report", type=Path, default=FOLDER / "report.md")
    options = parser.parse_args()
    os.chdir(ROOT)
    os.environ["OMP_NUM_THREADS"] = "1"
    print(f"seed {options.seed}")
    outcomes: list[Outcome] = []
    judged = json.loads(EQUIVALENT.read_text(encoding="utf-8"))
    if options.python:
        package = Path(importlib.util.find_spec("trellis").submodule_search_locations[0])
        reach = FOLDER / "reach"
        if options.record or not any(reach.glob("seconds.*")):
            write_record(reach, package, ROOT)
        elif options.add:
            write_record(reach, package, ROOT, options.add)
        record = Record(reach, package)
        for module in PRELOADED:
            importlib.import_module(module)
        gc.freeze()  # the garbage collector of a child need not visit what is preloaded
        for mutant in sample(package, options.python, options.seed, options.only):
            outcomes.append(judge(try_mutant(mutant, package, record), judged))
            outcome = outcomes[-1]
            print(f"{outcome.path}:{outcome.line} {outcome.status} {outcome.detail}", flush=True)
            write_report(outcomes, options.report)
    if options.cpp:
        outcomes += [
            judge(Outcome(*outcome), judged)
            for outcome in cpp_run.run(
                ROOT, FOLDER / "cpp", options.cpp, options.seed, options.only
            )
        ]
    print(write_report(outcomes, options.report))
    print(options.report)


if __name__ == "__main__":
    main()
