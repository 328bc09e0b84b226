"""Commands that are killed leave the old or the complete new file; training can be resumed."""

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
from commands import Ran, process, start, tree, typed
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


COMMANDS = [
    ["tag", "model.trellis", "big.conll", "-o", "out.conll"],
    ["convert", "big.conll", "out.jsonl", "-q"],
    ["convert", "model.trellis", "out.crfsuite", "-q"],
    ["embed", "train.conll", "-o", "out.vec", "-q", "--seed", "1", "--jobs", "1", "--dim", "300"],
]


@pytest.mark.slow
@pytest.mark.parametrize("arguments", COMMANDS, ids=typed)
def test_output_of_a_killed_command(folder: Path, arguments: list[str]) -> None:
    """SIGKILL at a random time, or as soon as a temporary file exists."""
    (folder / "big.conll").write_bytes((folder / "train.conll").read_bytes() * 20)
    output = folder / next(word for word in arguments if word.startswith("out."))
    began = time.monotonic()
    assert process(*arguments, folder=folder).code == 0
    duration = time.monotonic() - began
    new, names = output.read_bytes(), sorted(tree(folder))
    random = np.random.default_rng(KILLS)
    leftovers = 0
    for number in range(KILLS):
        output.write_bytes(b"old")
        left = set(folder.glob(".*.tmp"))
        with start(*arguments, folder=folder) as running:
            if number % 2:
                while running.poll() is None and set(folder.glob(".*.tmp")) <= left:
                    pass
            else:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    running.wait(random.uniform(0, duration))
            running.kill()
            _, err = running.communicate(timeout=300)
        assert running.returncode in (0, -signal.SIGKILL), err
        assert output.read_bytes() in (b"old", new)
        leftovers += len(set(folder.glob(".*.tmp")) - left)
    assert leftovers > 0  # otherwise, the last lines prove nothing
    assert process(*arguments, folder=folder).code == 0
    assert output.read_bytes() == new
    assert sorted(tree(folder)) == names


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
        _, err = running.communicate(timeout=300)
    return running.returncode, err


def state_of(path: Path) -> tuple[int, int] | None:
    """Return values that change when the file is replaced; None if it does not exist."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns
