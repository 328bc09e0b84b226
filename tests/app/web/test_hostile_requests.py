"""Requests of attackers get no data, and the server survives them with the memory it had."""

import json
import socket
import time
from pathlib import Path

import pytest
from hostile import BODY, TOKEN, all_requests, build
from serving import Client, serve

from trellis import CRF
from trellis.plots.interactive import as_script_data


def read_memory() -> int:
    """Return the bytes of memory that this process has in RAM."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def answers_with_data(reply: bytes) -> bool:
    """Return whether a reply is a success, or has something else than an error."""
    if not reply:
        return False  # the connection was closed
    head, _, body = reply.partition(b"\r\n\r\n")
    status = int(head.split()[1])
    if head.startswith(b"HTTP/1.1") and status >= 400:
        kind = b"application/json" in head
        return kind and bool(body) and set(json.loads(body)) != {"error"}
    return True


@pytest.fixture(scope="module")
def short_client(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Client:
    """A server that waits one second for the rest of a request."""
    folder = tmp_path_factory.mktemp("corrections")
    with serve(model_path, timeout=1.0, save=folder) as client:
        yield client
    assert list(folder.iterdir()) == []  # nothing was written


def test_a_right_request_has_data(short_client: Client) -> None:
    """The check itself must find data."""
    assert answers_with_data(short_client.raw(build(short_client.port)))


def test_hostile_requests(short_client: Client) -> None:
    requests = list(all_requests(short_client.port))
    assert len(requests) >= 200
    memory = 0
    for _ in range(3):
        wrong = [
            name for name, data in requests if answers_with_data(short_client.raw(data, timeout=20))
        ]
        assert not wrong
        memory = memory or read_memory()  # after the first round, which fills caches
    assert short_client.post("/v1/tag", sequences=["play jazz"]).status == 200
    assert read_memory() - memory < 8 << 20


def test_slow_requests_are_closed(short_client: Client) -> None:
    """Slow-loris: headers, or a body, that never end."""
    connections = []
    for start in (build(short_client.port)[:60], build(short_client.port)[: -len(BODY) + 2]):
        for _ in range(20):
            connection = socket.create_connection(("127.0.0.1", short_client.port), timeout=30)
            connection.sendall(start)
            connections.append(connection)
    assert short_client.post("/v1/tag", sequences=["play jazz"]).status == 200
    for connection in connections:
        try:
            while connection.recv(4096):
                pass  # an error, then the end
        except ConnectionResetError:
            pass
        connection.close()
    end = time.monotonic() + 10
    while short_client.site.server.server_state.connections and time.monotonic() < end:
        time.sleep(0.05)
    assert not short_client.site.server.server_state.connections


def test_clients_that_do_not_read(short_client: Client) -> None:
    """An answer that nobody reads does not keep the others from theirs."""
    words = " ".join(["word"] * 200)
    body = json.dumps({"sequences": [words] * 4}).encode()
    idle = []
    for _ in range(10):
        connection = socket.create_connection(("127.0.0.1", short_client.port))
        connection.sendall(build(short_client.port, path="/v1/marginals", body=body))
        idle.append(connection)
    assert short_client.post("/v1/tag", sequences=["play jazz"]).status == 200
    for connection in idle:
        connection.close()


def test_scripts_in_labels_and_features(tmp_path: Path) -> None:
    """Text of a model stays text: replies are JSON that no browser reads as a page."""
    script = "<script>alert(1)</script>"
    CRF().fit([[script, "a"]] * 2, [[script, "</script>"]] * 2).save(tmp_path / "m.trellis")
    with serve(tmp_path / "m.trellis") as client:
        for path, values in (
            ("/page/state", {}),
            ("/page/scores", {"text": script}),
            ("/v1/tag", {"sequences": [[script]]}),
            ("/v1/tag", {script: script}),
        ):
            answer = client.post(path, **values)
            assert answer.headers["content-type"] == "application/json"
            assert answer.headers["x-content-type-options"] == "nosniff"
        payload = client.ask("/page/scores", text=script)
        assert "<" not in as_script_data(payload)
        assert json.loads(as_script_data(payload)) == payload
        assert script.encode() not in client.get("/").body + client.get("/docs").body


def test_a_token_is_not_logged(short_client: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="trellis.serve"):
        short_client.request("GET", f"/?token={TOKEN}")
        short_client.raw(build(short_client.port, "GET", "/a%0a%0dforged%20line"))
    assert [record.name for record in caplog.records] == ["trellis.serve.access"] * 2
    assert TOKEN not in caplog.text
    assert "\\n\\rforged line 404" in caplog.text
    assert all("\n" not in record.getMessage() for record in caplog.records)
