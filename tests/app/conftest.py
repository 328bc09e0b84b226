"""Fixtures: run a command in this process in an empty folder, with small files and a model."""

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
    """Return ``run("train", "a.conll", stdin=b"")``, which runs a command in ``tmp_path``."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: Any, stdin: bytes = b"") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8"))
        capsys.readouterr()
        code = run_command([str(argument) for argument in arguments])
        return Ran(code, *capsys.readouterr())

    return call


@pytest.fixture(scope="session")
def model() -> CRF:
    """A CRF for the slots of calendar requests."""
    return CRF(l2=0.1, scoring="span_f1", random_state=0).fit(*samples.load("train", "calendar"))


@pytest.fixture(scope="session")
def prepared(model: CRF, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of `folder`, written once per session."""
    folder = tmp_path_factory.mktemp("prepared")
    model.save(folder / "model.trellis")
    for split in ("train", "test"):
        conll.write(folder / f"{split}.conll", *samples.load(split, "calendar"))
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def folder(tmp_path: Path, prepared: dict[str, bytes]) -> Path:
    """A folder with ``model.trellis``, ``train.conll`` and ``test.conll``."""
    for name, data in prepared.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


@pytest.fixture
def refused(run: Callable[..., Ran], folder: Path) -> Callable[..., str]:
    """``refused("tag", …, names=["a.conll", "line 3"])`` expects exit code 1 and one line."""

    def call(*arguments: Any, names: list[str], stdin: bytes = b"") -> str:
        files_before = tree(folder)
        ran = run(*arguments, stdin=stdin)
        assert ran.code == 1, ran
        assert ran.err.startswith("trellis: ")
        assert ran.err.endswith("\n")
        assert ran.err.count("\n") == 1, ran.err
        for name in names:
            assert name in ran.err
        assert ran.out == ""
        assert tree(folder) == files_before
        return ran.err

    return call


@pytest.fixture
def misused(run: Callable[..., Ran], folder: Path) -> Callable[..., str]:
    """``misused("tag", …)`` expects exit code 2 and the usage on standard error."""

    def call(*arguments: Any) -> str:
        files_before = tree(folder)
        ran = run(*arguments)
        assert ran.code == 2, ran
        assert "Usage:" in ran.err
        assert ran.out == ""
        assert tree(folder) == files_before
        return ran.err

    return call
