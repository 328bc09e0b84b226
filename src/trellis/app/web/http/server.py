"""The application on uvicorn: connections with time limits, a stop that loses no answer."""

import asyncio
import contextlib
import importlib
import importlib.util
import logging
import signal
import socket
import threading
import time
from typing import Any

import uvicorn

from trellis.app.web.http.application import Application
from trellis.errors import InputError

__all__ = ["MAX_CONNECTIONS", "MAX_HEAD", "PageServer", "bind"]

MAX_CONNECTIONS = 512
MAX_HEAD = 64 << 10  # bytes of the request line and the headers
_KEEP_ALIVE = 30  # seconds without a request after which a connection is closed
_MAX_SENDING = 300  # seconds in which a client must have read the rest of an answer
_DRAIN = 1.0  # seconds that clients have, when the server stops, to use their connections once more
_SWEEP = 0.5  # seconds between two searches for connections that are too slow
_TOO_MANY = b'{"error": "too many connections are open"}'
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(_TOO_MANY), _TOO_MANY)
)


def _choose_protocol() -> type[Any]:
    """Return uvicorn's protocol class: httptools is twice as fast as h11, if it is installed."""
    has_httptools = importlib.util.find_spec("httptools") is not None
    name = "httptools_impl.HttpToolsProtocol" if has_httptools else "h11_impl.H11Protocol"
    module, _, kind = name.partition(".")
    protocol: type[Any] = getattr(importlib.import_module(f"uvicorn.protocols.http.{module}"), kind)
    return protocol


class BoundedProtocol(_choose_protocol()):  # type: ignore[misc]
    """A connection that knows how long, and with how many bytes, its next request is incomplete.

    uvicorn limits neither: a client could open connections, send a byte from time to time, and keep
    them all (slow-loris), or send headers without an end.
    """

    since = 0.0
    """When the connection began to wait for a request; 0 while a request is answered."""
    head = 0

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first request."""
        super().connection_made(_JoiningTransport(transport, self.loop))
        self.since = time.monotonic()
        if len(self.connections) > MAX_CONNECTIONS:
            # uvicorn refuses requests above the limit, but keeps connections that send none.
            self.transport.write(_REFUSAL)
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Pass data to the parser; close the connection if the headers are too large."""
        if self._waits():
            if not self.head:
                self.since = time.monotonic()
            # Only as much as headers may have: a parser that gets more at once may accept it.
            part, data = data[: MAX_HEAD - self.head], data[MAX_HEAD - self.head :]
            self.head += len(part)
            super().data_received(part)
            if not self._waits():
                self.since, self.head = 0.0, 0
            elif self.head >= MAX_HEAD:
                self.transport.close()
        if data and not self.transport.is_closing():
            super().data_received(data)

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        super().on_response_complete()
        # A client may have sent its next request already, which is then being answered.
        self.since, self.head = time.monotonic() if self._waits() else 0.0, 0

    def is_late(self, now: float, timeout: float) -> bool:
        """Return whether the client sends, or reads, too slowly."""
        if self.transport.is_closing() and not self.since:
            self.since = now  # an answer was given up, because the client does not read it
        if not self.since:
            return False
        if self.transport.get_write_buffer_size():
            return now - self.since > _MAX_SENDING
        return now - self.since > (timeout if self.head else _KEEP_ALIVE + 1)

    def _waits(self) -> bool:
        return self.cycle is None or self.cycle.response_complete


class _JoiningTransport:
    """A transport that sends what is written in one turn of the event loop as one packet.

    uvicorn writes the headers and the body of a reply one after the other. Under load, the second
    call of the operating system takes a tenth of the time of a request.
    """

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._parts: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send data at the end of this turn of the event loop."""
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        """Send what is left, and close."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._parts:
            data = b"".join(self._parts)
            self._parts.clear()
            self._transport.write(data)


class PageServer(uvicorn.Server):
    """A server whose stop loses no answer.

    On SIGTERM or Ctrl-C it accepts no more connections. Replies then have ``Connection: close``,
    and a connection stays open until its client has sent one more request, or for `_DRAIN` seconds.
    So a request that was sent just before the signal is answered.
    """

    def __init__(self, app: Application, timeout: float) -> None:
        config = uvicorn.Config(
            app,
            http=BoundedProtocol,
            ws="none",
            loop="auto",  # uvloop, if it is installed
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=int(timeout) + 1,
        )
        super().__init__(config)
        self.app, self.timeout = app, timeout

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal. A stop on request is not an error."""
        if threading.current_thread() is threading.main_thread():
            # uvicorn raises the signal again when it is done, which would kill the process. And a
            # signal that comes before uvicorn has its own handler must not be lost.
            signal.signal(signal.SIGTERM, self._stop)
        with contextlib.suppress(KeyboardInterrupt):
            super().run(sockets)

    def _stop(self, number: int, frame: Any) -> None:
        self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        """Close slow connections and write the log; uvicorn calls this every 0.1 s."""
        for handler in logging.getLogger("trellis.serve").handlers:
            handler.flush()
        if counter % int(_SWEEP * 10) == 0:
            now = time.monotonic()
            for connection in list(self.server_state.connections):
                if connection.is_late(now, self.timeout):  # type: ignore[union-attr]
                    connection.transport.abort()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting, let clients finish, then close."""
        for server in self.servers:
            server.close()
        self.app.draining = True
        end = time.monotonic() + _DRAIN
        while self.server_state.connections and time.monotonic() < end and not self.force_exit:
            await asyncio.sleep(0.02)
        await super().shutdown(sockets)


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address; port 0 means any free port.

    It listens before the URL is printed, so that a browser that is faster than the server waits.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(MAX_CONNECTIONS)
    except OSError as error:
        listener.close()
        raise InputError(f"{host}, port {port}: {error.strerror}: choose another --port") from None
    return listener
