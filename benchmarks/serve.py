"""`trellis serve --api` under full load, beside a server with FastAPI and sklearn-crfsuite.

    PEER_PYTHON=peers/bin/python python benchmarks/serve.py --seconds 20
    PEER_PYTHON=peers/bin/python python benchmarks/serve.py --seconds 600 --json results/serve.json

Both servers tag the same sentences, with models of the same training data, and log each request to
a file. One client process keeps all its connections busy: each sends its next request when it has
the answer. An answer that differs from the first answer to the same request is an error. After the
measurement the server gets SIGTERM while the client goes on: a request that was sent and not
answered is lost. PEER_PYTHON has fastapi, uvicorn, httptools and sklearn-crfsuite.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from timing import Table, describe_machine, save_json

from trellis import CRF
from trellis.data import conll, samples
from trellis.features import Window

HERE = Path(__file__).parent
TOKEN = "benchmark-of-the-server"
CONNECTIONS = 32
BATCHES = (1, 16)  # sentences in a request
REQUESTS = 200  # different requests, sent in turn


class Result(NamedTuple):
    """What the client saw, and the memory of the server."""

    per_second: float
    p50: float
    p99: float
    cpu: float
    """Milliseconds of processor time that the server used for a request."""
    errors: int
    lost: int
    megabytes: tuple[float, float]
    """After a tenth of the time, and at the end."""


class Load:
    """The state that all connections of the client share."""

    def __init__(self, requests: list[bytes]) -> None:
        self.requests = requests
        self.expected: list[bytes | None] = [None] * len(requests)
        self.latencies: list[float] = []
        self.next = self.errors = self.lost = self.open = 0
        self.stopping = False


class Connection(asyncio.Protocol):
    """Sends a request, checks the answer, and sends the next one."""

    def __init__(self, load: Load) -> None:
        self.load, self.buffer, self.number, self.start = load, b"", -1, 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        self.transport = transport
        self.load.open += 1
        self.send()

    def send(self) -> None:
        """Send the next request."""
        load = self.load
        self.number = load.next % len(load.requests)
        load.next += 1
        self.start = time.perf_counter()
        self.transport.write(load.requests[self.number])

    def data_received(self, data: bytes) -> None:
        """Check an answer when it is complete."""
        self.buffer += data
        head, separator, body = self.buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        fields = head.lower()
        length = int(fields.split(b"content-length:")[1].split(b"\r\n")[0])
        if len(body) < length:
            return
        load = self.load
        load.latencies.append(time.perf_counter() - self.start)
        if load.expected[self.number] is None and b" 200 " in head[:20]:
            load.expected[self.number] = body
        load.errors += body != load.expected[self.number]
        self.buffer, self.number = b"", -1
        if b"\r\nconnection: close" in fields:
            self.transport.close()
        else:
            self.send()

    def connection_lost(self, error: Exception | None) -> None:
        """Count a request without an answer, and an early end."""
        self.load.open -= 1
        self.load.lost += self.number >= 0
        if not self.load.stopping:
            self.load.errors += 1


async def measure(port: int, process: subprocess.Popen, requests: list[bytes], seconds: float):
    """Keep a server busy, then stop it under load; return the result."""
    loop, load = asyncio.get_running_loop(), Load(requests)
    for _ in range(CONNECTIONS):
        await loop.create_connection(lambda: Connection(load), "127.0.0.1", port)
    await asyncio.sleep(min(2.0, seconds / 5))  # warm up
    load.latencies.clear()
    start, cpu = time.perf_counter(), read_cpu(process.pid)
    await asyncio.sleep(seconds / 10)
    memory_before = read_memory(process.pid)
    await asyncio.sleep(seconds * 0.9)
    elapsed, count = time.perf_counter() - start, len(load.latencies)
    cpu = 1e3 * (read_cpu(process.pid) - cpu) / count
    milliseconds = 1e3 * np.quantile(load.latencies, [0.5, 0.99])
    memory_after = read_memory(process.pid)
    load.stopping = True
    process.send_signal(signal.SIGTERM)
    for _ in range(500):
        if not load.open:
            break
        await asyncio.sleep(0.02)
    return Result(
        count / elapsed, *milliseconds, cpu, load.errors, load.lost, (memory_before, memory_after)
    )


def read_memory(pid: int) -> float:
    """Return the MB of memory that a process has in RAM."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1e3
    raise SystemExit(f"process {pid} has ended")


def read_cpu(pid: int) -> float:
    """Return the seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def started(command: list[str], port: int, log: Path, **environment: str) -> Iterator:
    """Start a server and wait until it answers."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, stdout=file, stderr=file, env={**os.environ, **environment}
        )
        try:
            for _ in range(600):
                with contextlib.suppress(OSError):
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                time.sleep(0.1)
            yield process
        finally:
            process.terminate()
            code = process.wait(60)
    if code not in (0, -signal.SIGTERM):
        raise SystemExit(f"{command}: exit code {code}: {log.read_text()[-2000:]}")


def build_requests(port: int, size: int) -> list[bytes]:
    """Return requests with ``size`` sentences each."""
    X = samples.generate("held_out")[0]
    requests = []
    for n in range(REQUESTS):
        sentences = [X[(n * size + i) % len(X)] for i in range(size)]
        body = json.dumps({"sequences": sentences}).encode()
        head = (
            f"POST /v1/tag HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKEN}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        requests.append(head.encode() + body)
    return requests


def train(folder: Path, peer: str) -> None:
    """Write both models, of the training data and with the settings of `trellis demo`."""
    if (folder / "peer.pickle").exists():
        return
    pairs = zip(samples.load("train"), samples.generate("train"), strict=True)
    X, y = (a + b for a, b in pairs)
    conll.write(folder / "train.conll", X, y)
    window = Window(words=0, lower=2, lower_affixes=True, bigrams=None)
    CRF(window, l2=0.1, max_iter=100, constraints="BIO").fit(X, y).save(folder / "ours.trellis")
    files = [str(folder / "train.conll"), str(folder / "peer.pickle")]
    subprocess.run([peer, str(HERE / "serve_peer.py"), *files], check=True)


def main() -> None:
    """Measure both servers with requests of both sizes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
    parser.add_argument("--port", type=int, default=8791)
    parser.add_argument("--models", type=Path, help="folder to keep the models in")
    parser.add_argument("--json", type=Path, metavar="PATH", help="save the table")
    options = parser.parse_args()
    peer = os.environ.get("PEER_PYTHON", sys.executable)
    port = options.port
    machine = describe_machine(["trellis", "numpy", "uvicorn", "httptools"])
    columns = ["server", "sentences in a request", "requests/s", "p50 ms", "p99 ms", "CPU ms"]
    columns += ["errors", "lost at SIGTERM", "MB early", "MB late"]
    table = Table(f"Tagging server, {CONNECTIONS} connections, {options.seconds:g} s", columns)
    with tempfile.TemporaryDirectory() as name:
        folder = options.models or Path(name)
        train(folder, peer)
        servers = {
            "trellis serve": [
                *(sys.executable, "-m", "trellis", "serve", str(folder / "ours.trellis")),
                *("--api", "--port", str(port)),
            ],
            "FastAPI + sklearn-crfsuite": [
                *(peer, "-m", "uvicorn", "--app-dir", str(HERE), "serve_peer:app"),
                *("--port", str(port)),
            ],
        }
        environment = {"TRELLIS_TOKEN": TOKEN, "PEER_MODEL": str(folder / "peer.pickle")}
        for size in BATCHES:
            for server, command in servers.items():
                with started(command, port, folder / "log", **environment) as process:
                    requests = build_requests(port, size)
                    result = asyncio.run(measure(port, process, requests, options.seconds))
                speeds = (round(result.per_second), round(result.p50, 1), round(result.p99, 1))
                speeds += (round(result.cpu, 3),)
                memory = [round(value, 1) for value in result.megabytes]
                table.add(server, size, *speeds, result.errors, result.lost, *memory)
                print(server, size, result, flush=True)
    print(table.text())
    if options.json:
        save_json(options.json, machine, [table])


if __name__ == "__main__":
    main()
