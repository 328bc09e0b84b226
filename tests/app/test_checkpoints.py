"""`trellis train` stopped by signals, and resumed from its checkpoint."""

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
    """``signalled(3, signal.SIGINT, "train", …)`` sends a signal in iteration 3."""
    shown = train.draw_iterations

    def call(iteration: int, number: int, *arguments: Any, times: int = 1) -> Ran:
        def watched(model: Any, show: Any) -> Any:
            draw = shown(model, show)

            def callback(progress: Any) -> None:
                draw(progress)
                if progress.iteration == iteration:
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
    """Return the command that an interrupted run prints for resuming."""
    match = re.search(r"Continue with:\n +(.*)$", err, re.MULTILINE)
    assert match, err
    return shlex.split(match[1])


# ---- signals in a known iteration


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
    assert run("train", "train.conll", "-o", "complete.trellis", *options).code == 0
    before = sorted(tree(corpus))
    for iteration in (3,) if options else (1, 3):
        ran = signalled(
            iteration, signal.SIGINT, "train", "train.conll", "-o", "new.trellis", *options
        )
        assert ran.code == 130
        assert ran.out == ""
        assert "Traceback" not in ran.err
        assert f"stopped at iteration {iteration}, saved in new.trellis.checkpoint" in ran.err
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
        resumed = run(*command[1:])
        assert resumed.code == 0, resumed
        files = tree(corpus)
        assert files.pop("new.trellis") == files["complete.trellis"]
        assert sorted(files) == before
        (corpus / "new.trellis").unlink()


def test_sigterm(run: Run, signalled: Any, corpus: Path) -> None:
    assert run("train", "train.conll", "-o", "complete.trellis").code == 0
    ran = signalled(7, signal.SIGTERM, "train", "train.conll", "-o", "new.trellis")
    assert ran.code == 143
    assert "stopped at iteration 7" in ran.err
    assert run(*resumed_command(ran.err)[1:]).code == 0
    assert tree(corpus)["new.trellis"] == tree(corpus)["complete.trellis"]


def test_quiet_still_prints_how_to_resume(signalled: Any, corpus: Path) -> None:
    ran = signalled(2, signal.SIGINT, "train", "train.conll", "-q")
    assert ran.code == 130
    assert resumed_command(ran.err)[-1] == "--resume"


def test_interrupted_a_second_time_after_resuming(run: Run, signalled: Any, corpus: Path) -> None:
    """--resume is added once, and the printed command can be used again."""
    assert run("train", "train.conll", "-o", "complete.trellis").code == 0
    command = ["train", "train.conll", "-o", "new.trellis"]
    for iteration in (2, 5, 9):
        ran = signalled(iteration, signal.SIGINT, *command)
        assert ran.code == 130
        command = resumed_command(ran.err)[1:]
        assert command.count("--resume") == 1
    assert run(*command).code == 0
    assert tree(corpus)["new.trellis"] == tree(corpus)["complete.trellis"]


def test_file_names_with_spaces_are_quoted_in_the_resume_command(
    run: Run, signalled: Any, corpus: Path
) -> None:
    (corpus / "my data").mkdir()
    os.rename(corpus / "train.conll", corpus / "my data" / "it's.conll")
    ran = signalled(2, signal.SIGINT, "train", "my data/it's.conll", "-o", "my data/$m")
    assert ran.code == 130
    assert resumed_command(ran.err)[2:] == ["my data/it's.conll", "-o", "my data/$m", "--resume"]
    assert run(*resumed_command(ran.err)[1:]).code == 0
    assert (corpus / "my data" / "$m").exists()


def test_a_second_signal_stops_at_once(signalled: Any, corpus: Path) -> None:
    ran = signalled(3, signal.SIGINT, "train", "train.conll", "--checkpoint-every", "2", times=2)
    assert ran.code == 130
    assert "Traceback" not in ran.err
    assert sorted(tree(corpus)) == ["dev.conll", "model.trellis.checkpoint", "train.conll"]
    assert len(native.read(corpus / "model.trellis.checkpoint").tensors["losses"]) == 2


def test_signal_handlers_are_restored(run: Run, signalled: Any, corpus: Path) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    signalled(3, signal.SIGINT, "train", "train.conll")
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    with contextlib.suppress(RuntimeError), terminal.catch_interrupts(lambda: None):
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
    """The result is either the model or a checkpoint from which it can be computed."""
    assert run("train", "train.conll", "-o", "complete.trellis", *options).code == 0
    last = len(trellis.load(corpus / "complete.trellis").losses_)
    arguments = ["train", "train.conll", "-o", "new.trellis", *options, *every]
    ran = signalled(last, signal.SIGINT, *arguments)
    assert "before the first iteration" not in ran.err
    if ran.code:
        assert ran.code == 130
        assert run(*resumed_command(ran.err)[1:]).code == 0
    assert tree(corpus)["new.trellis"] == tree(corpus)["complete.trellis"]


# ---- checkpoints that cannot be used


def test_a_checkpoint_of_other_data_or_settings_is_refused(
    run: Run, signalled: Any, corpus: Path
) -> None:
    (corpus / "other.conll").write_text("play O\nRome B-place\n")
    assert signalled(3, signal.SIGINT, "train", "train.conll").code == 130
    before = tree(corpus)
    for arguments, message in (
        (["train.conll", "--l2", "2"], "l2='auto', but this run has l2=2.0"),
        (["train.conll", "--l1", "2"], "l1=0.0, but this run has l1=2.0"),
        (
            ["train.conll", "--solver", "gradient"],
            "solver='lbfgs', but this run has solver='gradient'",
        ),
        (["train.conll", "-m", "arow"], "solver='lbfgs', but this run has solver='arow'"),
        (["train.conll", "-m", "memm"], "model.trellis.checkpoint"),
        (["train.conll", "--features", "ner"], "different training data or features"),
        (["other.conll"], "different training data or features"),
        (["train.conll", "dev.conll"], "different training data or features"),
    ):
        ran = run("train", *arguments, "--resume", "-q")
        assert ran.code == 1, arguments
        assert ran.err.startswith("trellis: model.trellis.checkpoint")
        assert message in ran.err
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


def test_resume_without_a_checkpoint_starts_anew(run: Run, corpus: Path) -> None:
    ran = run("train", "train.conll", "--resume")
    assert ran.code == 0
    assert "model.trellis.checkpoint does not exist: training starts from the beginning" in ran.err
    expected = tree(corpus)["model.trellis"]
    assert run("train", "train.conll", "-q").code == 0
    assert tree(corpus)["model.trellis"] == expected


def test_a_tuned_run_is_not_tuned_again(run: Run, signalled: Any, corpus: Path) -> None:
    options = ["--tune", "3", "--max-iter", "10"]
    ran = signalled(3, signal.SIGINT, "train", "train.conll", *options)
    resumed = run(*resumed_command(ran.err)[1:])
    assert resumed.code == 0
    assert ran.err.count("  l1=") == 3
    assert resumed.err.count("  l1=") == 0


def test_an_earlier_model_stays_until_the_new_one_is_complete(
    run: Run, signalled: Any, corpus: Path
) -> None:
    (corpus / "model.trellis").write_text("earlier")
    assert signalled(3, signal.SIGINT, "train", "train.conll").code == 130
    assert (corpus / "model.trellis").read_text() == "earlier"


# ---- in a separate process


def wait_for(path: Path, running: subprocess.Popen[bytes], seconds: float = 60) -> None:
    """Wait until a file exists."""
    end = time.monotonic() + seconds
    while not path.exists():
        assert running.poll() is None, "it ended before it had saved"
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus whose training takes about a second, and its model."""
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
        out, err = (part.decode() for part in running.communicate(timeout=300))
    assert running.returncode == 128 + number
    assert out == ""
    assert "Traceback" not in err
    assert checkpoint.exists()
    assert not output.exists()
    command = resumed_command(err)
    assert command[-len(arguments) - 1 :] == [*arguments, "--resume"]
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    resumed = subprocess.run(
        command, cwd=trained, env={**os.environ, "PATH": path}, capture_output=True
    )
    assert resumed.returncode == 0
    assert output.read_bytes() == (trained / "complete.trellis").read_bytes()
    assert not checkpoint.exists()


def test_a_signal_before_training_begins(tmp_path: Path) -> None:
    """A signal while the command waits for data ends it at once and leaves no files."""
    os.mkfifo(tmp_path / "pipe.conll")
    with start("train", "pipe.conll", folder=tmp_path) as running:
        writer = os.open(
            tmp_path / "pipe.conll", os.O_WRONLY
        )  # returns when the command opens the pipe
        time.sleep(0.1)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=300)
        os.close(writer)
    assert running.returncode == 130
    assert err in (b"", b"trellis: interrupted\n")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["pipe.conll"]
