"""Mutants of the C++ core: one changed token or one removed statement each.

A copy of the tree is configured once, with one instruction set. For each mutant, the test programs
of its folder are rebuilt and run. If they pass, the Python module is rebuilt and the Python tests
of the folder run on it.
"""

import os
import random
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

BUILD_LIMIT_S, TEST_LIMIT_S = 900, 300
PYTHON_TESTS = {
    "base": ["inference/chain", "features", "embeddings"],
    "chain": ["inference/chain", "models/chain"],
    "ctc": ["inference/ctc", "models/ctc"],
    "embedding": ["embeddings", "compat/test_fasttext_replacement.py"],
    "features": ["features", "models/chain/test_crf.py"],
    "formats": ["formats", "models/test_files.py"],
    "graph": ["inference/graph", "models/graph"],
    "loglinear": ["models/chain", "optim", "compat/test_pycrfsuite_trainer.py"],
    "nn": ["nn/test_native_parts.py", "nn/lstm", "nn/words", "nn/tagger"],
    "optim": ["optim"],
    "text": ["data/test_tokens.py", "data/test_word_breaks.py"],
}
_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|#[^\n]*', re.DOTALL
)
_CHANGES = [
    (re.compile(r"(?<= )<(?= )"), "<="),
    (re.compile(r"(?<= )<=(?= )"), "<"),
    (re.compile(r"(?<= )>(?= )"), ">="),
    (re.compile(r"(?<= )>=(?= )"), ">"),
    (re.compile(r"(?<= )==(?= )"), "!="),
    (re.compile(r"(?<= )!=(?= )"), "=="),
    (re.compile(r"(?<= )\+(?= )"), "-"),
    (re.compile(r"(?<= )-(?= )"), "+"),
    (re.compile(r"(?<= )\+=(?= )"), "-="),
    (re.compile(r"(?<= )&&(?= )"), "||"),
    (re.compile(r"(?<= )\|\|(?= )"), "&&"),
    (re.compile(r"(?<![\w.])0(?![\w.])"), "1"),
    (re.compile(r"(?<![\w.])1(?![\w.])"), "2"),
    (re.compile(r"(?<![\w.])[2-9](?![\w.])"), "1"),
    # a call or an assignment on a line of its own
    (re.compile(r"(?<=\n)( {4,})[\w.\->\[\]]+(\([^;{}\n]*\)| = [^;{}\n]*);(?=[ \n])"), r"\1;"),
    (re.compile(r"\bcontinue;|\bbreak;"), ";"),
]


class CppMutant(NamedTuple):
    """Characters ``begin`` to ``end`` of a header are replaced by ``new``."""

    path: str
    begin: int
    end: int
    new: str


def find_mutants(source: str, path: str) -> Iterator[CppMutant]:
    """Yield every mutant of a header.

    >>> [m.new for m in find_mutants("a < b && c; // 1 < 2", "a.hpp")]
    ['<=', '||']
    """
    # Comments, strings and directives become spaces, so that offsets stay.
    code = _CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), source)
    for pattern, new in _CHANGES:
        for match in pattern.finditer(code):
            line = code[code.rfind("\n", 0, match.start()) + 1 : match.end()]
            if "template" in line or "static_assert" in line:
                continue
            yield CppMutant(path, match.start(), match.end(), match.expand(new))


def sample(core: Path, count: int, seed: int, only: list[str]) -> list[CppMutant]:
    """Return random mutants of the headers."""
    mutants: list[CppMutant] = []
    for path in sorted(core.rglob("*.hpp")):
        name = path.relative_to(core).as_posix()
        if any(text in name for text in only) and "/" in name:
            mutants += find_mutants(path.read_text(encoding="utf-8"), name)
    return random.Random(seed).sample(mutants, min(count, len(mutants)))


def run(
    root: Path, folder: Path, count: int, seed: int, only: list[str]
) -> Iterator[tuple[str, int, str, str, str]]:
    """Yield (path, line, status, detail, diff) of each mutant."""
    tree, build = folder / "tree", folder / "build"
    shutil.rmtree(tree, ignore_errors=True)
    for name in ("cpp", "src"):
        shutil.copytree(root / name, tree / name)
    shutil.copy2(root / "CMakeLists.txt", tree)
    _configure(tree, build)
    baseline = _call(["cmake", "--build", str(build)], BUILD_LIMIT_S * 4)
    if baseline:
        sys.exit(f"the build without a mutant fails:\n{baseline[-2000:]}")
    for mutant in sample(root / "cpp/core", count, seed, only):
        header = tree / "cpp/core" / mutant.path
        text = header.read_text(encoding="utf-8")
        header.write_text(text[: mutant.begin] + mutant.new + text[mutant.end :], encoding="utf-8")
        status, detail = _try(root, build, mutant.path.partition("/")[0])
        header.write_text(text, encoding="utf-8")
        begin, end = text.rfind("\n", 0, mutant.begin) + 1, text.find("\n", mutant.end)
        new = text[begin : mutant.begin] + mutant.new + text[mutant.end : end]
        line = text.count("\n", 0, mutant.begin) + 1
        print(f"{mutant.path}:{line} {status} {detail}", flush=True)
        yield f"cpp/core/{mutant.path}", line, status, detail, f"-{text[begin:end]}\n+{new}"


def _configure(tree: Path, build: Path) -> None:
    scripts = Path(sysconfig.get_path("scripts"))
    os.environ["PATH"] = f"{scripts}{os.pathsep}{os.environ['PATH']}"
    nanobind = subprocess.check_output([sys.executable, "-m", "nanobind", "--cmake_dir"], text=True)
    options = [
        "-DTRELLIS_TESTS=ON",
        "-DTRELLIS_ISAS=generic",
        "-DSKBUILD=ON",
        f"-Dnanobind_DIR={nanobind.strip()}",
        f"-DPython_EXECUTABLE={sys.executable}",
    ]
    subprocess.run(
        ["cmake", "-S", str(tree), "-B", str(build), "-G", "Ninja", *options],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def _try(root: Path, build: Path, folder: str) -> tuple[str, str]:
    programs = [path.stem for path in (root / "cpp/tests" / folder).glob("test_*.cpp")]
    programs = ["test_simd_generic" if name == "test_simd" else name for name in programs]
    for program in programs:
        error = _call(["cmake", "--build", str(build), "--target", program], BUILD_LIMIT_S)
        if error:
            return "killed", "the compiler"
        if _call([str(build / "cpp/tests" / program)], TEST_LIMIT_S):
            return "killed", program
    if _call(["cmake", "--build", str(build), "--target", "_core"], BUILD_LIMIT_S):
        return "killed", "the compiler"
    return _run_python(root, build, folder)


def _run_python(root: Path, build: Path, folder: str) -> tuple[str, str]:
    package = build / "package/trellis"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(root / "src/trellis", package)
    for library in build.glob("_core*.so"):
        shutil.copy2(library, package)
    tests = [f"tests/{path}" for path in PYTHON_TESTS[folder]]
    options = ["-q", "-x", "-p", "no:cacheprovider", "-m", "not slow and not interpreter"]
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    command = [sys.executable, "-m", "pytest", *options, *tests]
    output = _call(command, TEST_LIMIT_S * 2, cwd=root, env=environment)
    if output is None:
        return "survived", " ".join(tests)
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    return "killed", failed[1] if failed else "a crash or a timeout"


def _call(command: list[str], limit: float, **options: object) -> str | None:
    """Run a command; return its output if it fails or runs out of time, else None."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, **options)
    except subprocess.TimeoutExpired:
        return "timeout"
    return None if done.returncode == 0 else f"{done.stdout}{done.stderr}" or "failed"
