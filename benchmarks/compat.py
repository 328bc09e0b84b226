"""Run the tests of other libraries, and programs that use them, with the replacements of trellis.

    python benchmarks/compat.py                     in a new environment, built once (minutes)
    python benchmarks/compat.py --python PYTHON     in an environment that has trellis
    python benchmarks/compat.py --only usaddress

Each source package is downloaded from the package index. Its tests are copied to another folder, so
that none of its modules is imported by accident. They run unchanged under `compat_alias`, which
puts the replacement into ``sys.modules`` first. A test must pass, or `CANNOT` must contain the
reason why it cannot.
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
    replaced: tuple[str, ...]
    """Modules that trellis.compat replaces."""
    needs: tuple[str, ...] = ()
    """Other packages that its tests import."""
    options: tuple[str, ...] = ()
    tests: str = "tests"
    """Folder of the tests in the package."""
    driver: str = ""
    """Content of a test file that calls the tests of the package, if pytest does not find them."""


FASTTEXT = """import fasttext

fasttext.__path__.append("{place}")  # the folder of its tests
from fasttext.tests import gen_tests, gen_unit_tests

TestFastTextUnitPy, TestFastTextPy = gen_unit_tests(), gen_tests("data")
"""

# Its tests import "from .. import hmm", so they must be in the package hmmlearn.
HMMLEARN = """from importlib import import_module
from pathlib import Path

import hmmlearn
import numpy as np

np.random.seed(0)
hmmlearn.__path__.append("{place}")  # the folder of its tests
for path in sorted(Path("{place}").glob("tests/test_*.py")):
    try:
        module = import_module(f"hmmlearn.tests.{{path.stem}}")
    except ImportError as error:
        def fail(error=error):
            raise error
        globals()[f"test_import_of_{{path.stem}}"] = fail
        continue
    for name, value in vars(module).items():
        if name.startswith(("Test", "test_")):
            globals()[f"{{name}}_in_{{path.stem}}"] = value
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
    Suite(
        "hmmlearn",
        "0.3.3",
        ("hmmlearn",),
        tests="src/hmmlearn/tests",
        driver=HMMLEARN,
    ),
    Suite("usaddress", "0.5.16", ("pycrfsuite",), ("usaddress", "parserator")),
    Suite("probablepeople", "0.5.6", ("pycrfsuite",), ("probablepeople", "parserator")),
)
PROGRAMS = ("usaddress", "probablepeople")

NO_TESTS = {
    "pytorch-crf": "its source package contains no tests",
    "pyctcdecode": "its source package and its wheel contain data for tests, but no tests",
}
CANNOT = {
    "fasttext": {"test_sup_": "needs a data set that is not in its source package"},
    "hmmlearn": {
        "_in_test_gmm_hmm::": "hmmlearn expects it to fail: it needs an attribute that models lack",
        "test_fit_zero_variance": "hmmlearn expects it to fail: its likelihoods become nan, which "
        "is an error here",
        "test_import_of_test_variational": "variational models (vhmm) are not replaced",
        "test_import_of_test_kl_divergence": "a private module of the variational models",
    },
    "usaddress": {
        "test_labeling": "reads measure_performance/test_data, which is not in its source package",
    },
    "probablepeople": {
        "test_tagging": "reads tests/test_data_labeled.xml, which is not in its source package",
    },
}
"""Reasons why tests cannot pass, by package and start of the test name."""


def main() -> None:
    """Run the selected suites; exit with 1 if a test fails that is not in `CANNOT`."""
    options = _parse_arguments()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    python = options.python or prepare_environment(folder)
    failures = 0
    for suite in SUITES:
        if options.only and suite.package not in options.only:
            continue
        failures += run_suite(suite, python, folder)
        if suite.package in PROGRAMS:
            source = unpack(suite, python, folder)
            command = [python, HERE / "compat_programs.py", suite.package, source]
            failures += subprocess.run(command, check=False).returncode != 0
    sys.exit(bool(failures))


def prepare_environment(folder: Path) -> str:
    """Return the Python of a virtual environment with trellis; create it if necessary."""
    python = folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    pip(str(python), "install", "-q", str(ROOT))
    return str(python)


def pip(python: str, *arguments: str) -> None:
    """Run pip. Raise an error if it fails."""
    command = [python, "-m", "pip", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True)


def unpack(suite: Suite, python: str, folder: Path) -> Path:
    """Return the folder of the source package; download it if necessary."""
    name = suite.package
    archives = [p for p in folder.glob("*.tar.gz") if _is_archive_of(p.name, suite)]
    if not archives:
        pin = f"{name}=={suite.version}"
        pip(python, "download", "-q", "--no-deps", "--no-binary", name, "-d", str(folder), pin)
        archives = [p for p in folder.glob("*.tar.gz") if _is_archive_of(p.name, suite)]
    target = folder / f"{name}-{suite.version}"
    if not target.exists():
        with tarfile.open(archives[0]) as archive:
            archive.extractall(folder / "unpacked", filter="data")
        (folder / "unpacked" / archives[0].name.removesuffix(".tar.gz")).rename(target)
    return target


def _is_archive_of(file: str, suite: Suite) -> bool:
    """Return whether a file name is that of the source package; case and "_" may differ."""
    return file.replace("_", "-").lower() == f"{suite.package}-{suite.version}.tar.gz"


def run_suite(suite: Suite, python: str, folder: Path) -> int:
    """Run the tests of a package; return the number of unexpected failures."""
    source = unpack(suite, python, folder)
    if not any((source / suite.tests).rglob("test*.py")):
        print(f"{suite.package} {suite.version}: {NO_TESTS[suite.package]}", flush=True)
        return 0
    pip(python, "install", "-q", "pytest", *suite.needs)
    place = folder / "run" / suite.package
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(source / suite.tests, place / "tests")
    if suite.driver:
        (place / "test_driver.py").write_text(suite.driver.format(place=place))
    # without this file, pytest would use the settings of this repository
    (place / "pytest.ini").write_text("[pytest]\n")
    report = place / "report.xml"
    plugin = ["-p", "compat_alias", "-p", "no:cacheprovider", f"--junit-xml={report}"]
    # --runxfail: tests that the original library is expected to fail must pass too
    flags = ["-q", "--runxfail", "--continue-on-collection-errors", *plugin, *suite.options]
    command = [python, "-m", "pytest", *flags, "test_driver.py" if suite.driver else "tests"]
    variables = {"PYTHONPATH": str(HERE), "TRELLIS_REPLACED": ",".join(suite.replaced)}
    done = subprocess.run(
        command, cwd=place, env=os.environ | variables, capture_output=True, text=True, check=False
    )
    if not report.exists():
        print(done.stdout[-3000:], done.stderr[-3000:])
        return 1
    return _print_results(suite, report)


def _print_results(suite: Suite, report: Path) -> int:
    """Print the results of the tests; return the number of unexpected failures."""
    counts: Counter[str] = Counter()
    lines, failures = [], 0
    for case in ET.parse(report).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        problem = next((c for c in case if c.tag in ("failure", "error", "skipped")), None)
        if problem is None:
            counts["passed"] += 1
            continue
        reasons = CANNOT.get(suite.package, {})
        reason = next((text for start, text in reasons.items() if start in name), None)
        if problem.tag == "skipped":
            counts["skipped by the suite itself"] += 1
            lines.append(f"  {name}: {problem.get('message')}")
        elif reason:
            counts["cannot pass"] += 1
            lines.append(f"  {name}: {reason}")
        else:
            counts["FAILED"] += 1
            failures += 1
            lines.append(f"  {name}: FAILED: {problem.get('message')}")
    shown = ", ".join(f"{n} {outcome}" for outcome, n in counts.items())
    print(f"{suite.package} {suite.version}: {shown}", *lines, sep="\n", flush=True)
    return failures


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [suite.package for suite in SUITES]
    parser.add_argument("--only", nargs="+", choices=names, help="run only these packages")
    parser.add_argument("--python", help="Python interpreter that can import trellis")
    parser.add_argument(
        "--folder", type=Path, default=ROOT / ".venv" / "compat", help="folder for downloads"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
