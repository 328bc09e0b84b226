"""Training from the command line that is stopped by signals, or killed, and goes on."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import Ran, start, tree, typed
from training import trained_on, write

import trellis
from trellis.app import terminal
from trellis.app.cli import train
from trellis.formats import native

Run = Callable[..., Ran]
NEVER = 10**9


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder with ``train.conll`` and ``dev.conll``."""
    write(tmp_path)
    return tmp_path


@pytest.fixture
def signalled(run: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """``signalled(3, signal.SIGINT, "train", …)`` sends a signal to itself in an iteration."""
    shown = train.draw_iterations

    def call(at: int, number: int, *arguments: Any, times: int = 1) -> Ran:
        def watched(model: Any, show: Any) -> Any:
            each = shown(model, show)

            def callback(progress: Any) -> None:
                each(progress)
                if progress.iteration == at:
                    for _ in range(times):
                        os.kill(os.getpid(), number)

            return callback

        monkeypatch.setattr(train, "draw_iterations", watched)
        monkeypatch.setattr(sys, "argv", ["trellis", *map(str, arguments)])
        try:
            return run(*arguments)
        finally:
            monkeypatch.setattr(train, "draw_iterations", shown)

    return call


def resumed_command(err: str) -> list[str]:
    """The command that a stopped run tells to go on with."""
    found = re.search(r"Continue with:\n +(.*)$", err, re.MULTILINE)
    assert found, err
    return shlex.split(found[1])


# ---- signals, at an iteration that is known


KINDS = [
    [],
    ["--l1", "0.4"],
    ["--solver", "gradient", "--max-iter", "12"],
    ["-m", "sgd", "--max-iter", "6"],
    ["-m", "perceptron"],
    ["-m", "passive-aggressive"],
    ["-m", "arow"],
    ["-m", "memm"],
    ["--dev", "dev.conll", "--dev-every", "1", "--patience", "3"],
    ["--tune", "2", "--max-iter", "10"],
]


@pytest.mark.parametrize("options", KINDS, ids=typed)
def test_interrupted_and_resumed(
    run: Run, signalled: Any, corpus: Path, options: list[str]
) -> None:
    assert run("train", "train.conll", "-o", "whole.trellis", *options).code == 0
    before = sorted(tree(corpus))
    for at in (3,) if options else (1, 3):
        ran = signalled(at, signal.SIGINT, "train", "train.conll", "-o", "new.trellis", *options)
        assert ran.code == 130
        assert ran.out == ""
        assert "Traceback" not in ran.err
        assert f"stopped at iteration {at}, saved in new.trellis.checkpoint" in ran.err
        assert sorted(tree(corpus)) == sorted([*before, "new.trellis.checkpoint"])
        command = resumed_command(ran.err)
        assert command == [
            "trellis",
            "train",
            "train.conll",
            "-o",
            "new.trellis",
            *options,
            "--resume",
        ]
        again = run(*command[1:])
        assert again.code == 0, again
        files = tree(corpus)
        assert files.pop("new.trellis") == files["whole.trellis"]
        assert sorted(files) == before
        (corpus / "new.trellis").unlink()


def test_sigterm(run: Run, signalled: Any, corpus: Path) -> None:
    assert run("train", "train.conll", "-o", "whole.trellis").code == 0
    ran = signalled(7, signal.SIGTERM, "train", "train.conll", "-o", "new.trellis")
    assert ran.code == 143
    assert "stopped at iteration 7" in ran.err
    assert run(*resumed_command(ran.err)[1:]).code == 0
    assert tree(corpus)["new.trellis"] == tree(corpus)["whole.trellis"]


def test_quiet_still_says_how_to_go_on(signalled: Any, corpus: Path) -> None:
    ran = signalled(2, signal.SIGINT, "train", "train.conll", "-q")
    assert ran.code == 130
    assert resumed_command(ran.err)[-1] == "--resume"


def test_stopped_again_while_it_goes_on(run: Run, signalled: Any, corpus: Path) -> None:
    """--resume is there once, and the command can be repeated as it is."""
    assert run("train", "train.conll", "-o", "whole.trellis").code == 0
    command = ["train", "train.conll", "-o", "new.trellis"]
    for at in (2, 5, 9):
        ran = signalled(at, signal.SIGINT, *command)
        assert ran.code == 130
        command = resumed_command(ran.err)[1:]
        assert command.count("--resume") == 1
    assert run(*command).code == 0
    assert tree(corpus)["new.trellis"] == tree(corpus)["whole.trellis"]


def test_names_that_a_shell_would_cut(run: Run, signalled: Any, corpus: Path) -> None:
    (corpus / "my data").mkdir()
    os.rename(corpus / "train.conll", corpus / "my data" / "it's.conll")
    ran = signalled(2, signal.SIGINT, "train", "my data/it's.conll", "-o", "my data/$m")
    assert ran.code == 130
    assert resumed_command(ran.err)[2:] == ["my data/it's.conll", "-o", "my data/$m", "--resume"]
    assert run(*resumed_command(ran.err)[1:]).code == 0
    assert (corpus / "my data" / "$m").exists()


def test_twice_is_at_once(signalled: Any, corpus: Path) -> None:
    ran = signalled(3, signal.SIGINT, "train", "train.conll", "--checkpoint-every", "2", times=2)
    assert ran.code == 130
    assert "Traceback" not in ran.err
    assert sorted(tree(corpus)) == ["dev.conll", "model.trellis.checkpoint", "train.conll"]
    assert len(native.read(corpus / "model.trellis.checkpoint").tensors["losses"]) == 2


def test_handlers_are_put_back(run: Run, signalled: Any, corpus: Path) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    signalled(3, signal.SIGINT, "train", "train.conll")
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    with contextlib.suppress(RuntimeError), terminal.interrupts(lambda: None):
        raise RuntimeError
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


@pytest.mark.parametrize(
    "options",
    [
        ["--max-iter", "4"],
        ["--solver", "gradient", "--max-iter", "4"],
        ["-m", "arow", "--max-iter", "4"],
        ["--dev", "dev.conll", "--dev-every", "1", "--patience", "1"],
    ],
    ids=typed,
)
@pytest.mark.parametrize("every", [[], ["--checkpoint-every", NEVER]])
def test_a_signal_in_the_last_iteration(
    run: Run, signalled: Any, corpus: Path, options: list[str], every: list[Any]
) -> None:
    """The work is done: a model, or a state that the last step is made from, but not nothing."""
    assert run("train", "train.conll", "-o", "whole.trellis", *options).code == 0
    last = len(trellis.load(corpus / "whole.trellis").losses_)
    arguments = ["train", "train.conll", "-o", "new.trellis", *options, *every]
    ran = signalled(last, signal.SIGINT, *arguments)
    assert "before the first iteration" not in ran.err
    if ran.code:
        assert ran.code == 130
        assert run(*resumed_command(ran.err)[1:]).code == 0
    assert tree(corpus)["new.trellis"] == tree(corpus)["whole.trellis"]


# ---- checkpoints that cannot be used


def test_what_cannot_go_on(run: Run, signalled: Any, corpus: Path) -> None:
    (corpus / "other.conll").write_text("play O\nRome B-place\n")
    assert signalled(3, signal.SIGINT, "train", "train.conll").code == 130
    before = tree(corpus)
    for arguments, what in (
        (["train.conll", "--l2", "2"], "l2=1.0, but this run has 2.0"),
        (["train.conll", "--l1", "2"], "l1=0.0, but this run has 2.0"),
        (["train.conll", "--solver", "gradient"], "solver='lbfgs', but this run has 'gradient'"),
        (["train.conll", "-m", "arow"], "solver='lbfgs', but this run has 'arow'"),
        (["train.conll", "-m", "memm"], "model.trellis.checkpoint"),
        (["train.conll", "--features", "ner"], "other training data or features"),
        (["other.conll"], "other training data or features"),
        (["train.conll", "dev.conll"], "other training data or features"),
    ):
        ran = run("train", *arguments, "--resume", "-q")
        assert ran.code == 1, arguments
        assert ran.err.startswith("trellis: model.trellis.checkpoint")
        assert what in ran.err
        assert ran.err.count("\n") == 1
        assert tree(corpus) == before
    data = before["model.trellis.checkpoint"]
    assert data is not None
    for damaged in (data[:-1], data[:100], b"", bytes([data[0] ^ 1]) + data[1:], b"play O\n" * 100):
        (corpus / "model.trellis.checkpoint").write_bytes(damaged)
        for options in ([], ["--tune", "2"]):
            ran = run("train", "train.conll", "--resume", "-q", *options)
            assert ran.code == 1
            assert ran.err.startswith("trellis: model.trellis.checkpoint: ")
            assert ran.err.count("\n") == 1
        assert not (corpus / "model.trellis").exists()


def test_nothing_to_go_on_from(run: Run, corpus: Path) -> None:
    ran = run("train", "train.conll", "--resume")
    assert ran.code == 0
    assert "model.trellis.checkpoint does not exist: training starts anew" in ran.err
    whole = tree(corpus)["model.trellis"]
    assert run("train", "train.conll", "-q").code == 0
    assert tree(corpus)["model.trellis"] == whole


def test_a_tuned_run_is_not_tuned_again(run: Run, signalled: Any, corpus: Path) -> None:
    options = ["--tune", "3", "--max-iter", "10"]
    ran = signalled(3, signal.SIGINT, "train", "train.conll", *options)
    again = run(*resumed_command(ran.err)[1:])
    assert again.code == 0
    assert ran.err.count("  l1=") == 3
    assert again.err.count("  l1=") == 0


def test_an_earlier_model_stays_until_the_new_one_is_there(
    run: Run, signalled: Any, corpus: Path
) -> None:
    (corpus / "model.trellis").write_text("earlier")
    assert signalled(3, signal.SIGINT, "train", "train.conll").code == 130
    assert (corpus / "model.trellis").read_text() == "earlier"


# ---- in a process of its own


def wait_for(path: Path, running: subprocess.Popen[bytes], seconds: float = 60) -> None:
    """Until a file is there."""
    end = time.monotonic() + seconds
    while not path.exists():
        assert running.poll() is None, "it ended before it had saved"
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus that is trained on for a second, and the model of it."""
    return trained_on(1, tmp_path_factory.mktemp("trained"), "--max-iter", "40")


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_signals_to_a_process(trained: Path, number: signal.Signals) -> None:
    output = trained / f"{number.name}.trellis"
    checkpoint = trained / f"{number.name}.trellis.checkpoint"
    arguments = ["train", "train.conll", "-o", output.name, "--max-iter", "40"]
    with start(*arguments, folder=trained) as running:
        wait_for(checkpoint, running)
        running.send_signal(number)
        out, err = (part.decode() for part in running.communicate(timeout=60))
    assert running.returncode == 128 + number
    assert out == ""
    assert "Traceback" not in err
    assert checkpoint.exists()
    assert not output.exists()
    command = resumed_command(err)
    assert command[-len(arguments) - 1 :] == [*arguments, "--resume"]
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    again = subprocess.run(
        command, cwd=trained, env={**os.environ, "PATH": path}, capture_output=True
    )
    assert again.returncode == 0
    assert output.read_bytes() == (trained / "whole.trellis").read_bytes()
    assert not checkpoint.exists()


def test_a_signal_before_training_begins(tmp_path: Path) -> None:
    """While it waits for data: it ends at once, without a trace."""
    os.mkfifo(tmp_path / "pipe.conll")
    with start("train", "pipe.conll", folder=tmp_path) as running:
        writer = os.open(tmp_path / "pipe.conll", os.O_WRONLY)  # returns once it is read
        time.sleep(0.1)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)
        os.close(writer)
    assert running.returncode == 130
    assert err in (b"", b"trellis: interrupted\n")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["pipe.conll"]
