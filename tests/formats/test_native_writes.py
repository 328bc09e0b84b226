"""Atomic writes of `.trellis` files: readers see the old file or the complete new one."""

from __future__ import annotations

import errno
import os
import re
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trellis.formats import native


@pytest.mark.parametrize("step", ["fsync", "replace", "chmod"])
def test_failure_leaves_the_old_file(
    path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    before = path.read_bytes()

    def fail(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match=rf"Input/output error: .{re.escape(str(path))}"):
        native.write(path, "crf", {}, {"weights": np.zeros(1000)})
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_file_is_on_the_disk_before_it_is_renamed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def fsync(descriptor: int) -> None:
        calls.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")

    def replace(source: Path, target: Path) -> None:
        assert source.stat().st_size == size  # all was flushed
        calls.append("rename")
        source.rename(target)

    size = path.stat().st_size
    contents = native.read(path)
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    native.write(path, contents.kind, contents.meta, contents.tensors)
    assert calls == ["file", "rename", "folder"]


def run(code: str, path: Path) -> subprocess.CompletedProcess[str]:
    start = "import os, resource, sys; import numpy as np; from trellis.formats import native\n"
    return subprocess.run(
        [sys.executable, "-c", start + code, str(path)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=Path(sys.executable).parent,
    )


def test_full_disk_leaves_the_old_file(path: Path) -> None:
    before = path.read_bytes()
    code = """
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    native.write(sys.argv[1], "crf", {}, {"weights": np.zeros(10_000)})
except OSError as error:
    print(error.strerror)
"""
    assert run(code, path).stdout == "File too large\n"
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_crash_leaves_the_old_file(path: Path) -> None:
    before = path.read_bytes()
    code = """
os.fsync = lambda _: os._exit(9)
native.write(sys.argv[1], "crf", {}, {"weights": np.zeros(10_000)})
"""
    assert run(code, path).returncode == 9
    assert path.read_bytes() == before
    (left,) = set(os.listdir(path.parent)) - {path.name}
    assert re.fullmatch(re.escape(f".{path.name}.") + r"[0-9a-f]{16}\.trellis\.tmp", left)
    (path.parent / f".{path.name}.trellis.tmp").touch()  # not a name of a temporary file
    native.write(path, "hmm", {}, {})
    assert native.read(path).kind == "hmm"
    assert set(os.listdir(path.parent)) == {path.name, f".{path.name}.trellis.tmp"}


def test_readers_see_a_complete_file(path: Path) -> None:
    done = threading.Event()

    def rewrite() -> None:
        for i in range(40):
            native.write(path, "crf", {}, {"weights": np.full(2000 + i, float(i))})
        done.set()

    writer = threading.Thread(target=rewrite)
    writer.start()
    while not done.is_set():
        weights = native.read(path).tensors["weights"]
        assert weights.shape == (2, 3) or (weights == len(weights) - 2000).all()
    writer.join()
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_permissions_are_kept(path: Path, mode: int) -> None:
    path.chmod(mode)
    native.write(path, "crf", {}, {})
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_umask_decides_for_new_files(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        native.write(tmp_path / "new.trellis", "crf", {}, {})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new.trellis").stat().st_mode) == mode


def test_links_stay_links(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "latest.trellis"
    link.symlink_to(path.name)
    native.write(link, "hmm", {}, {})
    assert link.is_symlink()
    assert native.read(path).kind == "hmm"
