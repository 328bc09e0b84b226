"""Atomic writes of text: errors, temporary files, pipes and devices."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from write_faults import Fault

from trellis.data import atomic, conll
from trellis.data.atomic import clear_leftovers, replacing, writing

X, Y = [["play", "Rome"]] * 20_000, [["O", "B-place"]] * 20_000  # several writes


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.conll"
    path.write_bytes(b"old O\n")
    return path


def catch_error(path: Path) -> OSError | None:
    try:
        conll.write(path, X, Y)
    except OSError as error:
        return error
    return None


@pytest.mark.parametrize("name", ["corpus.conll", "corpus.conll.gz", "corpus.conll.xz"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_an_error_of_any_call_leaves_the_old_or_the_complete_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: int
) -> None:
    path = tmp_path / name
    calls = []
    for number in range(1, 100):
        path.write_bytes(b"old O\n")
        with Fault(monkeypatch, number, code) as fault:
            error = catch_error(path)
        if error is None:
            assert not fault.raised
            break
        assert (error.errno, error.filename) == (code, str(path))
        calls.append(fault.raised)
        assert os.listdir(tmp_path) == [name]
        if fault.is_replaced:
            assert conll.read(path) == (X, Y)
        else:
            assert path.read_bytes() == b"old O\n"
    assert conll.read(path) == (X, Y)
    assert calls[0] == "chmod"
    assert calls[-3:] == ["fsync", "replace", "fsync"]
    assert set(calls[1:-3]) == {"write"}
    assert len(calls) > 6 or name != "corpus.conll"


def test_an_error_in_the_data_leaves_the_old_file(path: Path) -> None:
    def read() -> Iterator[list[str]]:
        yield from X
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), writing(path) as file:
        file.writelines(" ".join(tokens).encode() for tokens in read())
    assert path.read_bytes() == b"old O\n"
    assert os.listdir(path.parent) == [path.name]


def test_errors_of_other_files_keep_their_name(path: Path) -> None:
    missing = path.with_name("missing")
    with pytest.raises(FileNotFoundError) as info, replacing(path) as file:
        file.write(missing.read_bytes())
    assert info.value.filename == str(missing)


# ---- leftovers


WRITER = """
import sys
from trellis.data.atomic import replacing
with replacing(sys.argv[1]) as file:
    file.write(b"new O\\n" * 100_000)
    print("writing", flush=True)
    sys.stdin.readline()
"""


def start_writer(path: Path) -> subprocess.Popen[bytes]:
    """Start a process that writes, and return it when its temporary file exists."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=path.parent,
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"writing\n"
    return writer


def list_leftovers(path: Path) -> list[str]:
    return sorted(set(os.listdir(path.parent)) - {path.name})


def test_the_next_write_removes_the_file_of_a_killed_writer(path: Path) -> None:
    for _ in range(2):
        with start_writer(path) as writer:
            writer.kill()
    assert len(list_leftovers(path)) == 1  # the second writer has removed the file of the first
    assert path.read_bytes() == b"old O\n"
    conll.write(path, X, Y)
    assert list_leftovers(path) == []
    assert conll.read(path) == (X, Y)


def test_the_file_of_a_writer_that_is_alive_stays(path: Path) -> None:
    with start_writer(path) as writer:
        (left,) = list_leftovers(path)
        conll.write(path, X, Y)
        clear_leftovers(path)
        assert list_leftovers(path) == [left]
        writer.communicate(b"\n", timeout=300)
    assert writer.returncode == 0
    assert path.read_bytes() == b"new O\n" * 100_000
    assert list_leftovers(path) == []


def test_files_and_pipes_with_similar_names_stay(path: Path) -> None:
    digits = "0123456789abcdef"
    names = [
        f".{path.name}.{digits[1:]}.trellis.tmp",
        f".{path.name}.{digits.upper()}.trellis.tmp",
        f".{path.name}.{digits}.tmp",
        f".other{path.name}.{digits}.trellis.tmp",
    ]
    for name in names:
        (path.parent / name).touch()
    os.mkfifo(path.parent / f".{path.name}.{digits}.trellis.tmp")
    (path.parent / f".{path.name}.{digits[::-1]}.trellis.tmp").symlink_to(path)
    before = list_leftovers(path)
    conll.write(path, X, Y)
    assert list_leftovers(path) == before


def test_two_writers_that_start_together(path: Path) -> None:
    """No writer loses its file to another one that looks for leftovers."""
    errors: list[BaseException] = []

    def rewrite(text: bytes) -> None:
        try:
            for _ in range(100):
                with replacing(path) as file:
                    file.write(text)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=rewrite, args=(text,)) for text in (b"a O\n", b"b O\n")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert path.read_bytes() in (b"a O\n", b"b O\n")
    assert list_leftovers(path) == []


def test_a_file_that_is_removed_before_it_is_locked(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fcntl = pytest.importorskip("fcntl")
    flock, removed = fcntl.flock, []

    def remove_first(descriptor: int, operation: int) -> None:
        if not removed:
            removed.extend(list_leftovers(path))
            (path.parent / removed[0]).unlink()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    with replacing(path) as file:
        file.write(b"new")
        assert list_leftovers(path) != removed
    assert path.read_bytes() == b"new"
    assert len(removed) == 1


def test_a_file_system_without_locks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are written, and no file is removed: its writer may be alive."""
    fcntl = pytest.importorskip("fcntl")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    left = path.parent / f".{path.name}.0123456789abcdef.trellis.tmp"
    left.touch()
    monkeypatch.setattr(fcntl, "flock", fail)
    conll.write(path, X, Y)
    assert conll.read(path) == (X, Y)
    assert list_leftovers(path) == [left.name]


# ---- files that are not regular


def test_a_pipe_is_written_directly(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    conll.write(pipe, [["play"]], [["O"]])
    reader.join(60)
    assert received == [b"play\tO\n\n"]
    assert os.listdir(tmp_path) == ["pipe"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize("size", [1, 20_000])
def test_a_full_device(size: int) -> None:
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        conll.write("/dev/full", X[:size], Y[:size])


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match=tmp_path.name):
        conll.write(tmp_path, X, Y)


def test_without_file_locks_as_on_windows(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic, "fcntl", None)
    with replacing(path) as file:
        file.write(b"old")
    leftover = path.with_name(atomic._make_prefix(path) + 16 * "0" + atomic._SUFFIX)
    leftover.touch()
    with replacing(path) as file:
        assert not leftover.exists()
        file.write(b"new")
    assert file.closed
    assert path.read_bytes() == b"new"
    assert [*path.parent.iterdir()] == [path]
