"""HTTP requests and replies, and JSON with limits on size, depth and time."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from trellis.app.web.http.errors import RequestError

__all__ = ["MAX_DEPTH", "Limits", "Reply", "Request", "as_json", "parse_json"]

MAX_DEPTH = 32  # of arrays and objects in each other; deeper JSON could exhaust the stack of Python
_DISCARDED = 4  # a refused body of at most this many times the limit is read, so that the client
# gets the answer: closing a connection with unread data can destroy what was sent on it
# Possessive, and with an optional end: each byte is read once, also in a string without an end.
_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_BRACKETS = re.compile(rb"[][{}]")
_OPENING = (b"[", b"{")

Receive = Callable[[], Awaitable[dict[str, Any]]]


class Limits(NamedTuple):
    """The bounds of a request."""

    max_body: int = 1 << 20
    """Bytes of a body, or of a line of a stream."""
    max_tokens: int = 10_000
    """Tokens of all sequences of a request."""
    timeout: float = 30.0
    """Seconds for reading a request, for computing its answer, and for each write."""


@dataclass
class Request:
    """A request. The body is read by `body` or `lines`."""

    method: str
    path: str
    query: bytes
    headers: dict[bytes, bytes]
    receive: Receive
    limits: Limits
    values: dict[str, Any] = field(default_factory=dict)
    """The members of the body, validated by the declaration of the endpoint."""

    async def body(self) -> bytes:
        """Return the body; raise RequestError if it is too large."""
        limit, size, body = self.limits.max_body, 0, bytearray()
        async for chunk in self._chunks():
            size += len(chunk)
            if size > _DISCARDED * limit:
                break
            if size <= limit:
                body += chunk
            else:
                body.clear()
        if size > limit:
            raise RequestError(413, f"the body has more than {limit:,} bytes: see --max-body")
        return bytes(body)

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield the lines of a stream as they arrive; each is limited, the stream is not."""
        limit = self.limits.max_body
        rest = b""
        chunks = self._chunks()
        while True:
            try:
                async with asyncio.timeout(self.limits.timeout):
                    chunk = await anext(chunks, None)
            except TimeoutError:
                raise RequestError(408, "the next line did not arrive in time") from None
            if chunk is None:
                break
            *complete, rest = (rest + chunk).split(b"\n")
            for line in complete:
                yield _check_line(line, limit)
            _check_line(rest, limit)
        if rest:
            yield rest

    async def _chunks(self) -> AsyncIterator[bytes]:
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ConnectionAbortedError
            if chunk := message.get("body"):
                yield chunk
            if not message.get("more_body"):
                return


def _check_line(line: bytes, limit: int) -> bytes:
    if len(line) > limit:
        raise RequestError(413, f"a line has more than {limit:,} bytes: see --max-body")
    return line


@dataclass
class Reply:
    """A reply: a body, or chunks of a stream."""

    body: bytes | AsyncGenerator[bytes, None]
    type: bytes = b"application/json"
    status: int = 200
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)


def as_json(value: Any) -> bytes:
    """Return a value as one line of JSON. Infinities and NaN are an error: JSON has none."""
    return _ENCODER.encode(value).encode()


def parse_json(body: bytes) -> Any:
    """Return the value of a JSON text; raise RequestError if it is wrong or too deep.

    >>> parse_json(b'{"a": [1]}')
    {'a': [1]}
    """
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH and _depth(body) > MAX_DEPTH:
        raise RequestError(400, f"the JSON is nested more than {MAX_DEPTH} deep")
    try:
        value = _DECODER.decode(body.decode("utf-8"))
        if b"\\u" in body:
            json.dumps(value, ensure_ascii=False).encode()  # raises for an unpaired surrogate
    except UnicodeDecodeError as error:
        raise RequestError(400, f"the JSON is not UTF-8: {error.reason}") from None
    except UnicodeEncodeError:
        raise RequestError(400, "the JSON has an unpaired surrogate, which is no text") from None
    except (ValueError, RecursionError) as error:
        raise RequestError(400, f"not JSON: {str(error)[:200]}") from None
    return value


def _depth(body: bytes) -> int:
    """Return how deep the arrays and objects of a JSON text are nested."""
    depth = deepest = 0
    for bracket in _BRACKETS.findall(_STRINGS.sub(b"", body)):
        depth += 1 if bracket in _OPENING else -1
        deepest = max(deepest, depth)
    return deepest


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


# json.dumps and json.loads build such an object in each call, which takes longer than its use.
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
