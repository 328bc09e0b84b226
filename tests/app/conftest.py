"""The command in this process, in an empty folder; small files and a model to give to it."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import Ran, tree

from trellis import CRF
from trellis.app.cli.main import run_command
from trellis.data import conll, samples


@pytest.fixture
def run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ran]:
    """``run("train", "a.conll", stdin=b"")`` in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: Any, stdin: bytes = b"") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8"))
        capsys.readouterr()
        code = run_command([str(argument) for argument in arguments])
        return Ran(code, *capsys.readouterr())

    return call


@pytest.fixture(scope="session")
def model() -> CRF:
    """Knows the slots of requests about a calendar."""
    return CRF(l2=0.1, scoring="span_f1", random_state=0).fit(*samples.load("train", "calendar"))


@pytest.fixture(scope="session")
def prepared(model: CRF, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What `folder` holds: written once, for it is asked for often."""
    folder = tmp_path_factory.mktemp("prepared")
    model.save(folder / "model.trellis")
    for split in ("train", "test"):
        conll.write(folder / f"{split}.conll", *samples.load(split, "calendar"))
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def folder(tmp_path: Path, prepared: dict[str, bytes]) -> Path:
    """Holds ``model.trellis``, ``train.conll`` and ``test.conll``."""
    for name, data in prepared.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


@pytest.fixture
def refused(run: Callable[..., Ran], folder: Path) -> Callable[..., str]:
    """``refused("tag", …, names=["a.conll", "line 3"])`` is the one line that the command says."""

    def call(*arguments: Any, names: list[str], stdin: bytes = b"") -> str:
        before = tree(folder)
        ran = run(*arguments, stdin=stdin)
        assert ran.code == 1, ran
        assert ran.err.startswith("trellis: ")
        assert ran.err.endswith("\n")
        assert ran.err.count("\n") == 1, ran.err
        for name in names:
            assert name in ran.err
        assert ran.out == ""
        assert tree(folder) == before
        return ran.err

    return call


@pytest.fixture
def misused(run: Callable[..., Ran], folder: Path) -> Callable[..., str]:
    """The same for a command that is not understood: code 2, and how to use it."""

    def call(*arguments: Any) -> str:
        before = tree(folder)
        ran = run(*arguments)
        assert ran.code == 2, ran
        assert "Usage:" in ran.err
        assert ran.out == ""
        assert tree(folder) == before
        return ran.err

    return call
