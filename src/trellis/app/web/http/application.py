"""The ASGI application: checks a request, finds its endpoint, and sends the reply.

A request passes these steps, in this order: Host and Origin, token, path, method, content type,
size and time of the body, JSON, declaration of the endpoint. A step that fails gives a reply with
``{"error": "<one sentence>"}``. A path is looked up in a table: none reaches the file system.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from trellis.app.web.http.errors import RequestError, explain_error
from trellis.app.web.http.guard import Guard, security_headers
from trellis.app.web.http.messages import Limits, Receive, Reply, Request, as_json, parse_json
from trellis.app.web.http.schema import Record

__all__ = ["STREAM", "Application", "Endpoint"]

STREAM = b"application/x-ndjson"
_JSON = b"application/json"
_AHEAD = 64  # lines of a stream that are computed while earlier answers are sent

_access = logging.getLogger("trellis.serve.access")

Send = Callable[[dict[str, Any]], Awaitable[None]]
_Answers = asyncio.Queue[asyncio.Task[bytes] | bytes | Exception]
Call = Callable[[dict[str, Any]], Awaitable[Any]]
"""Returns the answer, a value for JSON, to the validated members of a body."""


@dataclass(frozen=True)
class Endpoint:
    """A path that answers POST requests."""

    call: Call
    body: Record
    summary: str = ""
    answer: Record | None = None
    """The declaration of the answer, for the documentation."""
    streams: bool = False
    """True if a body of several lines of JSON is allowed, which gets one answer per line."""


class Application:
    """An ASGI application with these endpoints."""

    def __init__(
        self,
        guard: Guard,
        limits: Limits,
        posts: dict[str, Endpoint],
        gets: dict[str, Callable[[], Reply]],
        home: str = "/",
    ) -> None:
        self.guard, self.limits = guard, limits
        self.posts, self.gets = posts, gets
        self.home = home
        """Where a URL with a token leads."""
        self.draining = False
        """True when the server stops: replies then ask the client to close its connection."""

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request; the server calls this."""
        start = time.perf_counter()
        headers: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            headers[name] = headers[name] + b"," + value if name in headers else value
        request = Request(
            scope["method"], scope["path"], scope["query_string"], headers, receive, self.limits
        )
        try:
            reply = await self._answer(request)
            size = await self._send(reply, send)
        except (ConnectionAbortedError, TimeoutError):
            return  # the client is gone, or does not read; uvicorn closes the connection
        if _access.isEnabledFor(logging.INFO):
            client = (scope.get("client") or ("-",))[0]
            milliseconds = 1e3 * (time.perf_counter() - start)
            # ascii() escapes line breaks, with which a path could forge lines of the log.
            path = ascii(request.path[:200])[1:-1]
            _access.info(
                "%s %s %s %d %d %.1fms",
                *(client, request.method, path, reply.status, size, milliseconds),
            )

    async def _answer(self, request: Request) -> Reply:
        """Return the reply to a request; every error becomes a reply."""
        try:
            return await self._dispatch(request)
        except Exception as error:
            return _explain(error)

    async def _dispatch(self, request: Request) -> Reply:
        self.guard.check_names(request)
        if request.method == "GET" and request.path == "/health":
            return Reply(as_json({"status": "stopping" if self.draining else "ok"}))
        if request.method == "GET" and request.path == "/" and request.query:
            reply = self.guard.exchange(request, self.home)
            if reply is not None:
                return reply
        self.guard.check_token(request)
        if request.path in self.posts:
            if request.method != "POST":
                raise RequestError(405, f"{request.path} takes POST requests")
            return await self._post(request, self.posts[request.path])
        if request.path not in self.gets:
            raise RequestError(404, "there is no such path")
        if request.method != "GET":
            raise RequestError(405, f"{request.path} takes GET requests")
        return self.gets[request.path]()

    async def _post(self, request: Request, endpoint: Endpoint) -> Reply:
        kind = request.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind == STREAM and endpoint.streams:
            return Reply(self._stream(request, endpoint), STREAM)
        if kind != _JSON:
            also = f" or {STREAM.decode()}" if endpoint.streams else ""
            raise RequestError(415, f"the Content-Type must be application/json{also}")
        body = None
        try:
            async with asyncio.timeout(self.limits.timeout) as timer:
                body = await request.body()
                timer.reschedule(asyncio.get_running_loop().time() + self.limits.timeout)
                return Reply(as_json(await self._compute(endpoint, body)))
        except TimeoutError:
            if body is None:
                raise RequestError(408, "the body did not arrive in time") from None
            raise self._make_late() from None

    async def _compute(self, endpoint: Endpoint, body: bytes) -> Any:
        return await endpoint.call(endpoint.body.read(parse_json(body), ""))

    def _make_late(self) -> RequestError:
        return RequestError(503, f"no answer within {self.limits.timeout:g} seconds: see --timeout")

    async def _stream(self, request: Request, endpoint: Endpoint) -> AsyncGenerator[bytes, None]:
        """Yield one line for each line of the request, in order; errors become lines, too.

        An answer does not wait for the next line: a client may read it before it sends more.
        """
        answers: _Answers = asyncio.Queue(_AHEAD)
        reader = asyncio.create_task(self._read_stream(request, endpoint, answers))
        try:
            while isinstance(answer := await answers.get(), asyncio.Task):
                yield await answer
            if isinstance(answer, Exception):
                raise answer
            if answer:
                yield answer
        finally:
            reader.cancel()
            while not answers.empty():
                if isinstance(answer := answers.get_nowait(), asyncio.Task):
                    answer.cancel()

    async def _read_stream(self, request: Request, endpoint: Endpoint, answers: _Answers) -> None:
        """Put a task for each line, then what ends the answer: a last line, or an exception."""
        number = 0
        end: bytes | Exception = b""
        try:
            async for line in request.lines():
                number += 1
                if line.strip():
                    task = asyncio.create_task(self._answer_line(endpoint, line, number))
                    await answers.put(task)
        except RequestError as error:
            end = _explain_line(error, number + 1)
        except Exception as error:
            end = error
        await answers.put(end)

    async def _answer_line(self, endpoint: Endpoint, line: bytes, number: int) -> bytes:
        try:
            async with asyncio.timeout(self.limits.timeout):
                return as_json(await self._compute(endpoint, line)) + b"\n"
        except Exception as error:
            return _explain_line(
                self._make_late() if isinstance(error, TimeoutError) else error, number
            )

    async def _send(self, reply: Reply, send: Send) -> int:
        """Send a reply; return the number of bytes of its body."""
        headers = [(b"content-type", reply.type), *security_headers(reply.type), *reply.headers]
        if self.draining or reply.status >= 400:
            # A client that is refused gets no second chance on the same connection.
            headers.append((b"connection", b"close"))
        if isinstance(reply.body, bytes):
            headers.append((b"content-length", b"%d" % len(reply.body)))
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        if isinstance(reply.body, bytes):
            await send({"type": "http.response.body", "body": reply.body})
            return len(reply.body)
        size = 0
        async with aclosing(reply.body) as chunks:
            async for chunk in chunks:
                size += len(chunk)
                async with asyncio.timeout(self.limits.timeout):  # for clients that do not read
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        return size


def _explain(error: Exception) -> Reply:
    """Return the reply that explains an error."""
    if isinstance(error, ConnectionAbortedError):
        raise error
    refusal = explain_error(error)
    return Reply(as_json({"error": str(refusal)}), status=refusal.status)


def _explain_line(error: Exception, number: int) -> bytes:
    """Return the line of a stream that explains an error of a line."""
    reply = _explain(error)
    assert isinstance(reply.body, bytes)
    return as_json({**parse_json(reply.body), "line": number}) + b"\n"
