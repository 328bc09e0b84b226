"""`trellis tag`: order over many batches, files that appear whole, pipes and memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import COMMAND, Ran, tree

from trellis import CRF
from trellis.app.cli import tag
from trellis.data import conll, jsonl, samples

Run = Callable[..., Ran]
X, _ = samples.load("test", "calendar")


# ---- many, in order


def test_order_is_kept_over_many_batches(run: Run, folder: Path, model: CRF) -> None:
    rng = np.random.default_rng(0)
    some = [X[n] for n in rng.integers(len(X), size=12_000)]
    assert sum(map(len, some)) > 100_000
    expected = model.predict(some)
    conll.write(folder / "many.conll", some, None)
    ran = run("tag", "model.trellis", "many.conll", "--jobs", 2)
    assert conll.read(ran.out.splitlines()) == (some, expected)
    (folder / "many.txt").write_text("\n".join(map(" ".join, some)))
    ran = run(
        "tag", "model.trellis", "many.txt", "--format", "tokens", "--output", "jsonl", "-j", 1
    )
    assert jsonl.read(ran.out.splitlines()) == (some, expected)


def test_a_batch_ends_anywhere(
    run: Run, folder: Path, model: CRF, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run("tag", "model.trellis", "test.conll", "--marginals", "--kbest", "2").out
    for size in (1, 2, 13, 100):
        monkeypatch.setattr(tag, "_BATCH", size)
        assert run("tag", "model.trellis", "test.conll", "--marginals", "--kbest", "2").out == whole
    assert (
        run("tag", "model.trellis", "test.conll", "--marginals", "--kbest", "2", "-u").out == whole
    )


def test_several_files_one_after_the_other(run: Run, folder: Path) -> None:
    one = run("tag", "model.trellis", "test.conll").out
    two = run("tag", "model.trellis", "train.conll").out
    assert run("tag", "model.trellis", "test.conll", "train.conll").out == one + two
    mixed = run(
        "tag", "model.trellis", "test.conll", "-", "--format", "conll", stdin=b"lunch O\n\n"
    )
    assert mixed.out.startswith(one)
    assert mixed.out.count("\n\n") == one.count("\n\n") + 1


# ---- files


def test_output_to_a_file(run: Run, folder: Path) -> None:
    expected = run("tag", "model.trellis", "test.conll").out
    for option in ("-o", "--to"):
        (folder / "out.conll").write_text("earlier")
        assert run("tag", "model.trellis", "test.conll", option, "out.conll") == (0, "", "")
        assert (folder / "out.conll").read_text() == expected
    assert run("tag", "model.trellis", "test.conll", "-o", "test.conll").code == 0
    assert (folder / "test.conll").read_text() == expected
    assert sorted(tree(folder)) == ["model.trellis", "out.conll", "test.conll", "train.conll"]


def test_a_file_appears_whole_or_not_at_all(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "out.conll").write_text("earlier")
    before = tree(folder)
    monkeypatch.setattr(tag, "_BATCH", 10)
    seen = []

    def failing(*arguments: Any) -> Any:
        seen.append((folder / "out.conll").read_text())
        if len(seen) == 5:
            raise KeyboardInterrupt
        return label_batch(*arguments)

    label_batch = tag._label_batch
    monkeypatch.setattr(tag, "_label_batch", failing)
    assert run("tag", "model.trellis", "test.conll", "-o", "out.conll").code == 130
    assert seen == ["earlier"] * 5
    assert tree(folder) == before


# ---- as a shell sees it


def test_a_broken_pipe_ends_in_silence(folder: Path) -> None:
    """`trellis tag … | head -1`."""
    (folder / "long.txt").write_text("lunch with Ann at noon\n" * 20_000)
    with subprocess.Popen(
        [*COMMAND, "tag", "model.trellis", "long.txt"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline().startswith(b"lunch with ")
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(60) in (141, -signal.SIGPIPE)  # a shell says 141 of both


def test_answers_come_at_once_when_asked_for(folder: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "tag", "model.trellis", "-u"],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        for word in (b"lunch", b"", b"dinner"):
            running.stdin.write(word + b"\n")
            running.stdin.flush()
            line = running.stdout.readline()
            assert word in line
            assert b"\x1b" not in line
        running.stdin.close()
        assert running.wait(60) == 0


MEASURE = """
import os, sys, threading
from trellis.app.cli.main import run_command
code = run_command(sys.argv[1:])
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(peak.split()[1], file=sys.stderr)
sys.exit(code)
"""


def peak_kilobytes(folder: Path, *arguments: Any) -> int:
    found = subprocess.run(
        [sys.executable, "-c", MEASURE, *map(str, arguments)],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=True,
    )
    return int(found.stderr)


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="this system has no /proc")
@pytest.mark.parametrize(
    "options", [[], ["--output", "jsonl", "--marginals"]], ids=["plain", "all"]
)
def test_memory_does_not_grow_with_the_file(folder: Path, options: list[str]) -> None:
    """Ten times the file takes hardly more memory."""
    block = (folder / "train.conll").read_text()
    small = 6_000_000 if not options else 600_000
    sizes = {"small": small, "large": 10 * small}
    peaks = {}
    for name, size in sizes.items():
        with open(folder / f"{name}.conll", "w") as file:
            for _ in range(size // len(block)):
                file.write(block)
        peaks[name] = peak_kilobytes(folder, "tag", "model.trellis", f"{name}.conll", *options)
    assert peaks["large"] - peaks["small"] < 80_000, peaks
