"""``trellis serve`` as a process: the URL, errors of the command line, and a stop under load."""

import contextlib
import http.client
import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from commands import process
from serving import TOKEN

from trellis.app.cli import serve as command
from trellis.app.cli.main import run_command
from trellis.data import conll


class Served:
    """A process of ``trellis serve``."""

    def __init__(self, *arguments: Any, folder: Path, **environment: str) -> None:
        self.log = folder / "log"  # a pipe that nobody reads would stop the server when it is full
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "trellis", "serve", *map(str, arguments)],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **environment},
            )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().decode().strip()
        self.port = int(self.url.rpartition(":")[2].partition("/")[0])

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Return the exit code and what the process wrote to standard error."""
        self.process.send_signal(number)
        self.process.communicate(timeout=60)
        return self.process.returncode, self.log.read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_url_and_stop(number: int, model_path: Path, tmp_path: Path) -> None:
    served = Served(model_path, "--no-browser", folder=tmp_path)
    assert served.url.startswith("http://127.0.0.1:")
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
    connection.request("GET", "/" + served.url.rpartition("/")[2])
    assert connection.getresponse().status == 303
    connection.close()
    assert served.stop(number) == (0, "")


def test_a_stop_at_the_start(model_path: Path, tmp_path: Path) -> None:
    """The signal comes as soon as the URL is printed, when the server may not be ready."""
    served = Served(model_path, "--no-browser", folder=tmp_path)
    assert served.stop()[0] in (0, -signal.SIGTERM)


def test_a_stop_loses_no_answer(model_path: Path, tmp_path: Path) -> None:
    """Clients send without a pause; SIGTERM comes while requests are on their way."""
    served = Served(model_path, "--api", folder=tmp_path, TRELLIS_TOKEN=TOKEN)
    body = json.dumps({"sequences": ["play jazz"]})
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    answered, lost = [0] * 8, []
    first = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
    first.request("POST", "/v1/tag", body, headers)
    expected = first.getresponse().read()
    assert b"labels" in expected
    first.close()

    def ask(number: int) -> None:
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
            try:
                connection.connect()
            except OSError:
                return  # the server accepts no more connections
            is_open = True
            while is_open:
                try:
                    connection.request("POST", "/v1/tag", body, headers)
                    reply = connection.getresponse()
                    answered[number] += reply.read() == expected
                    is_open = not reply.will_close
                except (OSError, http.client.HTTPException) as error:
                    lost.append(error)
                    return

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + 30
    while min(answered) < 5 and time.monotonic() < end:
        time.sleep(0.01)
    code, log = served.stop()
    for thread in threads:
        thread.join()
    assert code == 0
    assert not lost
    assert min(answered) >= 5
    # Each answer has a line in the log.
    assert log.count("POST /v1/tag 200") == sum(answered) + 1
    assert TOKEN not in log


@pytest.mark.parametrize("work", ["train", "browse"])
def test_a_stop_ends_other_work(work: str, model_path: Path, tmp_path: Path) -> None:
    """A thread in native code must not live until Python ends: that would be a crash."""
    X, y = conll.read(model_path.parent / "train.conll")
    for name in ("train", "data"):
        conll.write(tmp_path / f"{name}.conll", X * 40, y * 40)
    files = ["--data", "data.conll", "--train", "train.conll", "--no-browser"]
    served = Served(model_path, *files, folder=tmp_path, TRELLIS_TOKEN=TOKEN)

    def ask(path: str) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        with contextlib.closing(connection):
            connection.request("POST", path, "{}", headers)
            return json.loads(connection.getresponse().read())

    ask(f"/page/{work}")
    end = time.monotonic() + 30
    while work == "train" and not ask("/page/training")["iteration"] and time.monotonic() < end:
        time.sleep(0.01)
    assert served.stop() == (0, "")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["missing.trellis"], "missing.trellis"),
        (["data.conll"], "data.conll"),
        (["model.trellis", "--save", "missing"], "--save must be a folder"),
        (["model.trellis", "speech.wav"], "must follow the emissions"),
        (["model.trellis", "--host", "192.0.2.1"], "choose another --port"),
        (["model.trellis", "--data", "missing.conll"], "missing.conll"),
    ],
)
def test_errors_are_one_line(
    arguments: list[str],
    problem: str,
    model_path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.trellis").write_bytes(model_path.read_bytes())
    (tmp_path / "data.conll").write_text("a O\n")
    (tmp_path / "speech.wav").write_bytes(b"")
    assert run_command(["serve", *arguments, "--no-browser"]) == 1
    error = capsys.readouterr().err
    assert problem in error
    assert len(error.splitlines()) == 1


def test_wrong_use(model_path: Path, tmp_path: Path) -> None:
    assert process("serve", folder=tmp_path).code == 2
    ran = process("serve", model_path, "--api", "--save", ".", folder=tmp_path)
    assert ran.code == 2
    assert "--api has no page" in ran.err
    ran = process("serve", "--help", folder=tmp_path)
    assert "trellis serve model.trellis" in ran.out
    for name in ("--max-tokens", "--max-body", "--timeout", "--workers", "--allow-host"):
        assert name in ran.out


def test_without_the_extra(
    model_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert run_command(["serve", str(model_path)]) == 1
    assert "pip install 'trellis[web]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "token",
    ["short", "a token with spaces in it", "ünïcödé-token-long", "a-token-with\ta-tab-in-it"],
)
def test_bad_tokens(token: str, monkeypatch: pytest.MonkeyPatch, model_path: Path) -> None:
    monkeypatch.setenv(command.TOKEN_VARIABLE, token)
    assert run_command(["serve", str(model_path), "--no-browser"]) == 1
