"""Other libraries' own tests, and programs built on them, with a face of trellis in their place.

    python benchmarks/compat.py                     an environment of its own, built once: minutes
    python benchmarks/compat.py --python PYTHON     one that has trellis already
    python benchmarks/compat.py --only usaddress

Each source package is fetched from the package index; its tests are copied out of it, so that none
of its modules can be imported by accident, and run as they are under `compat_alias`, which puts the
face into ``sys.modules`` first. A test passes, or `CANNOT` has the reason; all else is an error.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
ROOT = HERE.parent


class Suite(NamedTuple):
    """A source package with tests."""

    package: str
    version: str
    faces: tuple[str, ...]
    needs: tuple[str, ...] = ()
    """What else its tests import."""
    options: tuple[str, ...] = ()
    tests: str = "tests"
    """Where they are in the package."""
    driver: str = ""
    """A test file of ours, where the package's own have to be called."""


FASTTEXT = """import fasttext

fasttext.__path__.append("{place}")  # has its folder of tests
from fasttext.tests import gen_tests, gen_unit_tests

TestFastTextUnitPy, TestFastTextPy = gen_unit_tests(), gen_tests("data")
"""

SUITES = (
    Suite("python-crfsuite", "0.9.12", ("pycrfsuite",), options=("--doctest-modules",)),
    Suite("sklearn-crfsuite", "0.5.0", ("pycrfsuite", "sklearn_crfsuite")),
    Suite("pytorch-crf", "0.7.2", ("torchcrf",)),
    Suite("pyctcdecode", "0.5.0", ("pyctcdecode",), tests="pyctcdecode/tests"),
    Suite(
        "fasttext",
        "0.9.3",
        ("fasttext",),
        tests="python/fasttext_module/fasttext/tests",
        driver=FASTTEXT,
    ),
    Suite("usaddress", "0.5.16", ("pycrfsuite",), ("usaddress", "parserator")),
    Suite("probablepeople", "0.5.6", ("pycrfsuite",), ("probablepeople", "parserator")),
)
PROGRAMS = ("usaddress", "probablepeople")

NO_TESTS = {
    "pytorch-crf": "its source package has no tests",
    "pyctcdecode": "its source package, and its wheel, have the data of its tests and no tests",
}
CANNOT = {
    "fasttext": {"test_sup_": "needs a data set that its source package leaves out"},
    "usaddress": {
        "test_labeling": "reads measure_performance/test_data, which its source package leaves out",
    },
    "probablepeople": {
        "test_tagging": "reads tests/test_data_labeled.xml, which its source package leaves out",
    },
}
"""Tests that cannot pass, by package and by how their names begin, and why."""


def main() -> None:
    """Run what was asked for; the exit status is 1 if a test failed that is not in `CANNOT`."""
    options = _arguments()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    python = options.python or environment(folder)
    wrong = 0
    for suite in SUITES:
        if options.only and suite.package not in options.only:
            continue
        wrong += run_suite(suite, python, folder)
        if suite.package in PROGRAMS:
            source = unpacked(suite, python, folder)
            command = [python, HERE / "compat_programs.py", suite.package, source]
            wrong += subprocess.run(command, check=False).returncode != 0
    sys.exit(bool(wrong))


def environment(folder: Path) -> str:
    """A virtual environment with trellis; made when it is not there."""
    python = folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    pip(str(python), "install", "-q", str(ROOT))
    return str(python)


def pip(python: str, *arguments: str) -> None:
    """Run pip, and stop if it fails."""
    command = [python, "-m", "pip", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True)


def unpacked(suite: Suite, python: str, folder: Path) -> Path:
    """The source package, fetched once."""
    name = suite.package
    found = [p for p in folder.glob("*.tar.gz") if _same(p.name, suite)]
    if not found:
        pin = f"{name}=={suite.version}"
        pip(python, "download", "-q", "--no-deps", "--no-binary", name, "-d", str(folder), pin)
        found = [p for p in folder.glob("*.tar.gz") if _same(p.name, suite)]
    target = folder / f"{name}-{suite.version}"
    if not target.exists():
        with tarfile.open(found[0]) as archive:
            archive.extractall(folder / "unpacked", filter="data")
        (folder / "unpacked" / found[0].name.removesuffix(".tar.gz")).rename(target)
    return target


def _same(file: str, suite: Suite) -> bool:
    return file.replace("_", "-").lower() == f"{suite.package}-{suite.version}.tar.gz"


def run_suite(suite: Suite, python: str, folder: Path) -> int:
    """How many tests failed that should not."""
    source = unpacked(suite, python, folder)
    if not any((source / suite.tests).rglob("test*.py")):
        print(f"{suite.package} {suite.version}: {NO_TESTS[suite.package]}", flush=True)
        return 0
    pip(python, "install", "-q", "pytest", *suite.needs)
    place = folder / "run" / suite.package
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(source / suite.tests, place / "tests")
    if suite.driver:
        (place / "test_driver.py").write_text(suite.driver.format(place=place))
    (place / "pytest.ini").write_text("[pytest]\n")  # or the settings of this repository would hold
    report = place / "report.xml"
    plugin = ["-p", "compat_alias", "-p", "no:cacheprovider", f"--junit-xml={report}"]
    # tests that the original is known to fail, or to crash in, must pass as well
    how = ["-q", "--runxfail", "--continue-on-collection-errors", *plugin, *suite.options]
    command = [python, "-m", "pytest", *how, "test_driver.py" if suite.driver else "tests"]
    own = {"PYTHONPATH": str(HERE), "TRELLIS_FACES": ",".join(suite.faces)}
    done = subprocess.run(
        command, cwd=place, env=os.environ | own, capture_output=True, text=True, check=False
    )
    if not report.exists():
        print(done.stdout[-3000:], done.stderr[-3000:])
        return 1
    return _said(suite, report)


def _said(suite: Suite, report: Path) -> int:
    """Print how the tests went."""
    counts: Counter[str] = Counter()
    lines, wrong = [], 0
    for case in ET.parse(report).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        found = next((c for c in case if c.tag in ("failure", "error", "skipped")), None)
        if found is None:
            counts["passed"] += 1
            continue
        reasons = CANNOT.get(suite.package, {})
        reason = next((why for begin, why in reasons.items() if begin in name), None)
        if found.tag == "skipped":
            counts["skipped by the suite itself"] += 1
            lines.append(f"  {name}: {found.get('message')}")
        elif reason:
            counts["cannot pass"] += 1
            lines.append(f"  {name}: {reason}")
        else:
            counts["FAILED"] += 1
            wrong += 1
            lines.append(f"  {name}: FAILED: {found.get('message')}")
    shown = ", ".join(f"{n} {what}" for what, n in counts.items())
    print(f"{suite.package} {suite.version}: {shown}", *lines, sep="\n", flush=True)
    return wrong


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [suite.package for suite in SUITES]
    parser.add_argument("--only", nargs="+", choices=names, help="these packages")
    parser.add_argument("--python", help="an interpreter that can import trellis")
    parser.add_argument("--folder", type=Path, default=ROOT / ".venv" / "compat", help="for files")
    return parser.parse_args()


if __name__ == "__main__":
    main()
