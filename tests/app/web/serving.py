"""A server in a thread of this process, and a client that speaks to it over a real socket."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from trellis import CRF
from trellis.app.cli.serve import Options
from trellis.data import conll, samples

pytest.importorskip("uvicorn", reason="the extra [web] is not installed")

from trellis.app.web.building import Site, build_site

TOKEN = "a-token-of-the-tests-only"


class Answer(NamedTuple):
    """An HTTP reply."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def value(self) -> Any:
        return json.loads(self.body)


class Client:
    """Sends requests to a site. Each request has a connection of its own."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.port: int = site.listener.getsockname()[1]

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers or {})
            reply = connection.getresponse()
            names = {name.lower(): value for name, value in reply.getheaders()}
            return Answer(reply.status, names, reply.read())

    def get(self, path: str) -> Answer:
        return self.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})

    def post(self, path: str, **values: Any) -> Answer:
        return self.post_bytes(path, json.dumps(values).encode())

    def post_bytes(self, path: str, body: bytes, kind: str = "application/json") -> Answer:
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": kind}
        return self.request("POST", path, body, headers)

    def ask(self, path: str, **values: Any) -> Any:
        """Return the value of an answer that must be a success."""
        answer = self.post(path, **values)
        assert answer.status == 200, answer
        return answer.value

    def raw(self, data: bytes, timeout: float = 10) -> bytes:
        """Send bytes on a new connection; return all that the server sends until it closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as connection:
            connection.sendall(data)
            received = b""
            with contextlib.suppress(ConnectionError, TimeoutError):
                while chunk := connection.recv(1 << 16):
                    received += chunk
            return received


@contextlib.contextmanager
def serve(*models: Path, **options: Any) -> Iterator[Client]:
    """Run a site in a thread."""
    site = build_site(Options(list(models), no_browser=True, **options), TOKEN)
    with site:
        thread = threading.Thread(target=site.serve)
        thread.start()
        try:
            yield Client(site)
        finally:
            site.server.should_exit = True
            thread.join(30)
            assert not thread.is_alive()


def write_demo(folder: Path, count: int = 150) -> Path:
    """Write a small model, its training data and labelled data; return the path of the model."""
    # The samples are in the order of their subjects: every n-th sentence is about all of them.
    train, dev = samples.generate("train"), samples.generate("held_out")
    X, y = (part[:: len(part) // count] for part in train)
    conll.write(folder / "train.conll", X, y)
    conll.write(folder / "dev.conll", *(part[:: len(part) // 60][:60] for part in dev))
    CRF(l2=0.5, max_iter=25, constraints="BIO").fit(X, y).save(folder / "model.trellis")
    return folder / "model.trellis"
