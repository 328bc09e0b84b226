"""The bounds of the server: connections, headers, JSON, streams, batches, and its names."""

import asyncio
import contextlib
import http.client
import json
import socket
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hostile import build
from serving import TOKEN, Client, serve

from trellis import CRF
from trellis.app.cli.serve import Options
from trellis.app.web.building import build_site
from trellis.app.web.http import server
from trellis.app.web.http.errors import RequestError
from trellis.app.web.http.messages import parse_json
from trellis.app.web.http.workers import Workers
from trellis.app.web.served import ChainModel

LINE = json.dumps({"sequences": ["play jazz"]}).encode() + b"\n"


def wait_until(condition: Any) -> None:
    end = time.monotonic() + 20
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


@pytest.mark.parametrize("end", [b"", b'"', b"\\"])
def test_strings_without_an_end_are_read_once(end: bytes) -> None:
    """A quadratic search for strings would take hours."""
    body = b"[" * 33 + b'"' + b'\\"' * 500_000 + end
    with pytest.raises(RequestError, match="nested"):
        parse_json(body)
    with pytest.raises(RequestError, match="not JSON"):
        parse_json(b'["' + b"[" * 40 + b'\\"' * 1_000 + end)


def test_headers_that_arrive_at_once(client: Client) -> None:
    """Headers above the limit are refused, also if the parser gets all of them in one piece."""
    for size, data in ((30_000, True), (server.MAX_HEAD, False)):
        request = build(client.port, more=f"X: {'a' * size}\r\n")
        with contextlib.suppress(ConnectionError):
            assert (b"labels" in client.raw(request)) == data


def test_connections_that_send_nothing(model_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 5)
    with serve(model_path) as client, contextlib.ExitStack() as opened:
        connections = client.site.server.server_state.connections
        for _ in range(5):
            opened.enter_context(socket.create_connection(("127.0.0.1", client.port), timeout=20))
        wait_until(lambda: len(connections) == 5)
        head, _, body = client.raw(b"").partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert json.loads(body) == {"error": "too many connections are open"}
        opened.close()
        wait_until(lambda: not connections)
        assert client.post("/v1/tag", sequences=["a"]).status == 200


@pytest.mark.parametrize("token", ["a+b/c=d&e#f%20g?h;ij", TOKEN])
def test_the_url_works_with_any_token(token: str, model_path: Path) -> None:
    with build_site(Options([model_path], no_browser=True), token) as site:
        thread = threading.Thread(target=site.serve)
        thread.start()
        url = urlsplit(site.url)
        assert Client(site).request("GET", f"{url.path}?{url.query}").status == 303
        site.server.should_exit = True
        thread.join(30)


def test_other_servers_of_this_machine(model_path: Path) -> None:
    """A page of http://localhost is at port 80. Only a proxy has names without our port."""
    with serve(model_path, allow_host="tagger.example") as client:
        port = client.port
        wrong = [
            build(port, origin="http://localhost"),
            build(port, origin="https://127.0.0.1"),
            build(port, host="localhost"),
            build(port, origin="http://other.example"),
        ]
        right = [
            build(port, origin=f"http://localhost:{port}", host=f"localhost:{port}"),
            build(port, origin="https://tagger.example", host="tagger.example"),
            build(port, host=f"tagger.example:{port}"),
        ]
        assert [client.raw(request).split()[1] for request in wrong] == [b"403"] * 4
        assert [client.raw(request).split()[1] for request in right] == [b"200"] * 3


def open_stream(client: Client) -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=20)
    connection.putrequest("POST", "/v1/tag")
    connection.putheader("Authorization", f"Bearer {TOKEN}")
    connection.putheader("Content-Type", "application/x-ndjson")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()
    return connection


def send_line(connection: http.client.HTTPConnection) -> None:
    connection.send(b"%x\r\n%s\r\n" % (len(LINE), LINE))


def test_a_stream_answers_each_line_at_once(client: Client) -> None:
    """The client sends the next line only after the answer to the last one."""
    with contextlib.closing(open_stream(client)) as connection:
        send_line(connection)
        reply = connection.getresponse()
        for _ in range(3):
            assert b"labels" in reply.readline()
            send_line(connection)
        connection.send(b"0\r\n\r\n")
        assert len(reply.read().splitlines()) == 1


def test_a_client_that_leaves_a_stream(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    """It is no error of the server."""
    connections = client.site.server.server_state.connections
    with contextlib.closing(open_stream(client)) as connection:
        send_line(connection)
        reply = connection.getresponse()
        assert b"labels" in reply.readline()
        reply.close()
    wait_until(lambda: not connections and not client.site.server.server_state.tasks)
    assert not caplog.records


def test_requests_keep_the_model_that_they_were_checked_for(
    model_path: Path, tmp_path: Path
) -> None:
    """Training replaces a model while requests wait: they are not one batch with later ones."""
    path = tmp_path / "other.trellis"
    CRF().fit([["a", "b"]] * 2, [["X", "Y"]] * 2).save(path)
    with serve(model_path, path, workers=1) as client:
        interface = client.site.server.app.posts["/v1/marginals"].call.__self__
        old, new = interface.models
        assert isinstance(new, ChainModel)
        blocked, release = threading.Event(), threading.Event()
        answers: dict[str, Any] = {}

        def ask(name: str) -> None:
            answers[name] = client.ask("/v1/marginals", sequences=["a"])

        def hold() -> None:
            blocked.set()
            release.wait(20)

        interface.workers._pool.submit(hold)
        blocked.wait(20)
        threads = [threading.Thread(target=ask, args=(name,)) for name in ("old", "new")]
        threads[0].start()
        wait_until(lambda: len(interface.workers._waiting) == 1)
        interface.models[0] = new
        threads[1].start()
        wait_until(lambda: len(interface.workers._waiting) == 2)
        release.set()
        for thread in threads:
            thread.join()
    for name, chain in (("old", old), ("new", new)):
        assert answers[name]["labels"] == chain.labels
        assert len(answers[name]["marginals"][0][0]) == len(chain.labels)


def test_much_work_uses_all_threads() -> None:
    """Work that gathers while one thread computes is begun by another."""
    release = threading.Event()

    def compute(sequences: list[Any]) -> list[Any]:
        if sequences == [["first"]]:
            release.wait(20)
        return sequences

    async def run() -> None:
        workers = Workers(2)
        first = asyncio.create_task(workers.compute("a", compute, [["first"]]))
        await asyncio.sleep(0)
        while workers._waiting:
            await asyncio.sleep(0.001)
        short, long = [["token"]], [["token"] * 3_000]
        rest = [asyncio.create_task(workers.compute("a", compute, short))]
        await asyncio.sleep(0.05)  # one thread is enough for this
        rest += [asyncio.create_task(workers.compute("a", compute, long)) for _ in range(2)]
        async with asyncio.timeout(10):
            assert await asyncio.gather(*rest) == [short, long, long]
        release.set()
        assert await first == [["first"]]
        workers.close()

    asyncio.run(run())


def test_answers_that_nobody_waits_for_are_not_computed() -> None:
    release = threading.Event()
    computed: list[Any] = []

    def compute(sequences: list[Any]) -> list[Any]:
        release.wait(20)
        computed.extend(sequences)
        return sequences

    async def run() -> None:
        workers = Workers(1)
        first = asyncio.create_task(workers.compute("a", compute, ["first"]))
        await asyncio.sleep(0)
        while workers._waiting:
            await asyncio.sleep(0.001)
        late = asyncio.create_task(workers.compute("a", compute, ["late"]))
        last = asyncio.create_task(workers.compute("a", compute, ["last"]))
        await asyncio.sleep(0)
        late.cancel()
        await asyncio.sleep(0)
        release.set()
        assert await asyncio.gather(first, last) == [["first"], ["last"]]
        workers.close()

    asyncio.run(run())
    assert computed == ["first", "last"]
