"""Write errors of the commands: the message names the file, and earlier files are unchanged."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import Ran, tree, typed
from write_faults import Fault

from trellis.formats import native

Run = Callable[..., Ran]
TRAIN = ["train", "train.conll", "-o", "out.trellis", "-q", "--max-iter", "3"]
COMMANDS = [
    ["tag", "model.trellis", "test.conll", "-o", "out.conll"],
    ["tag", "model.trellis", "train.conll", "-o", "out.jsonl", "--marginals"],
    ["convert", "train.conll", "out.jsonl.gz", "-q"],
    ["convert", "model.trellis", "out.crfsuite", "-q"],
    ["convert", "model.trellis", "out.trellis", "-q"],
    ["embed", "train.conll", "-o", "out.vec", "-q", "--seed", "1", "--jobs", "1", "--dim", "8"],
    ["embed", "train.conll", "-o", "out.bin", "-q", "--seed", "1", "--jobs", "1", "--dim", "8"],
    ["report", "model.trellis", "test.conll", "-o", "out.html", "-q"],
    TRAIN,
]


def find_output(arguments: list[str]) -> str:
    return next(word for word in arguments if word.startswith("out."))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("arguments", COMMANDS, ids=typed)
def test_an_error_of_any_call(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int
) -> None:
    output = find_output(arguments)
    checkpoint = f"{output}.checkpoint"
    (folder / output).write_bytes(b"old")
    before = tree(folder)
    raised = set()
    for number in range(1, 500):
        with Fault(monkeypatch, number, code) as fault:
            ran = run(*arguments)
        if not fault.raised:
            break
        raised.add(fault.raised)
        names = (output, checkpoint) if arguments is TRAIN else (output,)
        assert ran.code == 1
        assert ran.err in [f"trellis: {name}: {os.strerror(code)}\n" for name in names]
        after = tree(folder)
        if after.pop(checkpoint, None) is not None:
            native.read(folder / checkpoint, "checkpoint")  # raises if it is incomplete
            (folder / checkpoint).unlink()
        if fault.is_replaced and output in ran.err and checkpoint not in ran.err:
            assert after.pop(output) != b"old"
            after[output] = b"old"
            (folder / output).write_bytes(b"old")
        assert after == before
    assert ran.code == 0
    assert raised == {"chmod", "write", "fsync", "replace"}


LIMITED = """
import atexit, resource, sys
from trellis.app.cli.main import main
unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
atexit.register(resource.setrlimit, resource.RLIMIT_FSIZE, unlimited)  # coverage writes at exit
limit = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, unlimited[1]))
main()
"""


@pytest.mark.parametrize("limit", [0, 1, 1000])
@pytest.mark.parametrize("arguments", COMMANDS, ids=typed)
def test_a_limit_of_the_file_size(folder: Path, arguments: list[str], limit: int) -> None:
    """The operating system itself refuses to write; Python ignores its signal."""
    output = find_output(arguments)
    (folder / output).write_bytes(b"old")
    before = tree(folder)
    completed = subprocess.run(
        [sys.executable, "-c", LIMITED, str(limit), *arguments],
        cwd=folder,
        capture_output=True,
        timeout=300,
    )
    names = (output, f"{output}.checkpoint") if arguments is TRAIN else (output,)
    assert completed.returncode == 1
    assert completed.stderr.decode() in [
        f"trellis: {name}: {os.strerror(errno.EFBIG)}\n" for name in names
    ]
    assert tree(folder) == before
