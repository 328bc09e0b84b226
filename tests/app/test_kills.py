"""Training that is killed many times and resumed gives the same bytes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from commands import Ran, process, start, tree
from training import trained_on

from trellis.formats import native

Run = Callable[..., Ran]
KILLS = int(os.environ.get("TRELLIS_KILLS", "8"))


@pytest.mark.slow
def test_killed_many_times(tmp_path: Path) -> None:
    """SIGKILL at random times, also during start-up and writing, does not change the model."""
    expected = (trained_on(5, tmp_path) / "complete.trellis").read_bytes()
    arguments = ["train", "train.conll", "-o", "new.trellis", "--checkpoint-every", "1"]
    arguments += ["--resume", "-q"]
    output, checkpoint = tmp_path / "new.trellis", tmp_path / "new.trellis.checkpoint"
    began = time.monotonic()
    assert process(*arguments, folder=tmp_path).code == 0
    whole_run = time.monotonic() - began
    random = np.random.default_rng(KILLS)
    kills, ends, iterations = 0, 0, []
    while kills < KILLS:
        if output.exists():  # it finished before the kill: start again
            assert output.read_bytes() == expected
            output.unlink()
            ends += 1
        code, err = killed(arguments, checkpoint, random, whole_run, MOMENTS[kills % len(MOMENTS)])
        assert b"Traceback" not in err
        assert code in (0, -signal.SIGKILL)
        kills += code != 0
        if checkpoint.exists():
            assert code != 0
            iterations.append(len(native.read(checkpoint, "checkpoint").tensors["losses"]))
    assert process(*arguments, folder=tmp_path) == (0, "", "")
    assert output.read_bytes() == expected
    print(f"{kills} kills, {ends} runs ended, states of iterations {iterations}")
    assert sorted(tree(tmp_path)) == ["complete.trellis", "new.trellis", "train.conll"]


MOMENTS = ("any", "in training", "while it writes")


def killed(
    arguments: list[str],
    checkpoint: Path,
    random: np.random.Generator,
    whole_run: float,
    moment: str,
) -> tuple[int, bytes]:
    """Kill it at a random time, some time after it saved a checkpoint, or while it saves one."""
    folder = checkpoint.parent
    before, left = state_of(checkpoint), set(folder.glob(".*.tmp"))
    with start(*arguments, folder=folder) as running:
        if moment == "any":
            delay = random.uniform(0, whole_run)
        else:
            while running.poll() is None and state_of(checkpoint) == before:
                time.sleep(0.001)
            delay = random.uniform(0, whole_run / 8)
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.wait(delay)
        if moment == "while it writes":
            while running.poll() is None and set(folder.glob(".*.tmp")) <= left:
                pass
        running.kill()
        _, err = running.communicate(timeout=60)
    return running.returncode, err


def state_of(path: Path) -> tuple[int, int] | None:
    """Return values that change when the file is replaced; None if it does not exist."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns
