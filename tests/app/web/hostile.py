"""Requests of attackers: bytes for a socket, each with a name. No answer may contain data."""

from __future__ import annotations

import json
from collections.abc import Iterator

from serving import TOKEN

BODY = json.dumps({"sequences": ["play jazz"]}).encode()
JSON = "application/json"


def build(
    port: int,
    method: str = "POST",
    path: str = "/v1/tag",
    *,
    body: bytes = BODY,
    host: str | None = None,
    origin: str | None = None,
    authorization: str | None = f"Bearer {TOKEN}",
    kind: str | None = JSON,
    more: str = "",
) -> bytes:
    """Return a request that is right, except for the arguments."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host or f'127.0.0.1:{port}'}"]
    lines += [f"Origin: {origin}"] * (origin is not None)
    lines += [f"Authorization: {authorization}"] * (authorization is not None)
    lines += [f"Content-Type: {kind}"] * (kind is not None)
    lines += [f"Content-Length: {len(body)}", "Connection: close"]
    return ("\r\n".join(lines) + "\r\n" + more + "\r\n").encode("latin-1") + body


def all_requests(port: int) -> Iterator[tuple[str, bytes]]:
    """Yield 200 and more requests with their names."""
    for group in (_names, _secrets, _methods, _paths, _kinds, _bodies, _values, _protocol):
        for number, request in enumerate(group(port)):
            yield f"{group.__name__}[{number}]", request


def _names(port: int) -> Iterator[bytes]:
    """Wrong Host, as in DNS rebinding, and wrong Origin, as of another page in the browser."""
    hosts = (
        *(
            "evil.example",
            f"evil.example:{port}",
            "127.0.0.1.evil.example",
            f"127.0.0.1:{port + 1}",
        ),
        *("localhost.evil.example", "0.0.0.0", f"0.0.0.0:{port}", "[::1]", "127.1", "2130706433"),
        *(
            f"127.0.0.1:{port}@evil.example",
            f"127.0.0.1:{port}, evil.example",
            f"127.0.0.1:{port}.",
        ),
        *("localhost:", "", "127.0.0.1:0", f"127.0.0.1:0{port}", "*", "localhost#", "%6cocalhost"),
    )
    yield from (build(port, host=host or " ") for host in hosts)
    host = f"127.0.0.1:{port}"
    origins = (
        *("http://evil.example", "https://evil.example", "null", "file://", f"http://{host}.evil"),
        *(
            f"ftp://{host}",
            host,
            f"http://evil@{host}",
            f"http://{host}/",
            f"http://{host}, http://evil",
        ),
        *(
            "http://127.0.0.1:1",
            "http://localhost",
            "https://127.0.0.1",
            "chrome-extension://abc",
            "http://",
            "*",
            f"http://{host}:{host}",
        ),
    )
    yield from (build(port, origin=origin) for origin in origins)
    yield build(port, more=f"Host: evil.example\r\nX-Forwarded-Host: 127.0.0.1:{port}\r\n")
    yield build(port, host="evil.example", more=f"X-Forwarded-Host: 127.0.0.1:{port}\r\n")


def _secrets(port: int) -> Iterator[bytes]:
    """Wrong tokens and cookies."""
    tokens = (
        *(None, "", "Bearer", "Bearer ", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", TOKEN),
        *(f"bearer {TOKEN}", f"Basic {TOKEN}", f"Bearer  {TOKEN}", f"Bearer {TOKEN.upper()}"),
        *("Bearer null", "Bearer undefined", "Bearer é", f"Bearer {'a' * 10_000}", "Bearer \\0"),
    )
    yield from (build(port, authorization=token) for token in tokens)
    cookies = (
        *(f"trellis_{port}=", f"trellis_{port}={TOKEN}", f"trellis={TOKEN}", "a=b; " * 500),
        *(f"trellis_{port}", f"trellis_{port}=null; trellis_{port}=", f"; =; trellis_{port}=%00"),
    )
    for cookie in cookies:
        yield build(port, authorization=None, more=f"Cookie: {cookie}\r\n")
    for path in ("/", "/page/state", "/openapi.json", "/docs", "/static/main.js", "/v1/tag"):
        yield build(port, "GET", path, authorization=None)
    for query in ("token=", "token=wrong", f"token={TOKEN}x", f"token[]={TOKEN}", f"TOKEN={TOKEN}"):
        yield build(port, "GET", f"/?{query}", authorization=None)
        yield build(port, "POST", f"/v1/tag?{query}", authorization=None)
    yield build(port, "POST", f"/v1/tag?token={TOKEN}", authorization=None)


def _methods(port: int) -> Iterator[bytes]:
    """Methods that a path does not take."""
    for method in ("GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "PROPFIND", "BREW"):
        yield build(port, method)
        yield build(port, method, "/page/state")
    for method in ("POST", "PUT", "HEAD", "DELETE"):
        yield build(port, method, "/openapi.json")
    yield build(port, "CONNECT", "127.0.0.1:22")


def _paths(port: int) -> Iterator[bytes]:
    """Paths that try to reach the file system, or an endpoint by another name."""
    paths = (
        *("/../../etc/passwd", "/static/../../../etc/passwd", "/static/..%2f..%2fetc%2fpasswd"),
        *("/static/%2e%2e/%2e%2e/etc/passwd", "/static/....//....//etc/passwd", "//etc/passwd"),
        *("/static/..\\..\\windows\\win.ini", "/static/%00main.js", "/static/main.js%00.png"),
        *(
            "/static/",
            "/static",
            "/static/.",
            "/static/%252e%252e/x",
            "/static/C:%5Cx",
            "/etc/passwd",
        ),
        *("/static//main.js", "/./static/main.js", "/static/main.js/", "/static/main.js;x=1"),
        *(
            "/page/audio/0",
            "/page/audio/-1",
            "/page/audio/../0",
            "/page/audio/%2e%2e",
            "/page/audio/",
        ),
        *("/docs/../openapi.json", "/docs/", "/OPENAPI.JSON", "/.git/config", "/index.html", "/*"),
    )
    yield from (build(port, "GET", path, body=b"", kind=None) for path in paths)
    yield build(port, "POST", "/V1/tag")
    yield build(port, "POST", "/v1/tag/")
    yield build(port, "GET", "http://evil.example/v1/tag")


def _kinds(port: int) -> Iterator[bytes]:
    """Types that a form of another site can send without asking, and others."""
    kinds = (
        *(None, "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"),
        *("text/plain; application/json", "application/jsonp", "application/json-patch+json"),
        *("text/json", "*/*", "application/xml", "application/octet-stream", "json", "text/html"),
    )
    yield from (build(port, kind=kind) for kind in kinds)
    yield build(port, path="/page/state", kind="application/x-ndjson", body=b"{}")


def _bodies(port: int) -> Iterator[bytes]:
    """Bodies that are no JSON, too large, or nested too deeply."""
    bodies = (
        *(b"", b" ", b"{", BODY[:-1], BODY + b"}", b"\xff\xfe{\x00}\x00", b"\xef\xbb\xbf" + BODY),
        *(b"\x00" * 100, b"[" * 100_000, b'{"sequences":' * 5_000, b"[" * 33 + b"]" * 33),
        *(
            b'{"sequences": ["\xff\xfe"]}',
            b'{"sequences": ["\xc0\xaf"]}',
            b'{"sequences": ["\xed\xa0\x80"]}',
        ),
        *(b'{"sequences": ["\\ud800"]}', b'{"sequences": [NaN]}', b'{"model": Infinity}', b"-"),
        *(
            b'{"sequences": ["a"], "model": 1e999}',
            b"1" * 5_000,
            b"[" * 33 + b'"' + b'\\"' * 500_000,
            b'{"model": ' + b"9" * 5_000 + b"}",
        ),
        *(b'{"a": 1,}', b"{'a': 1}", b"// x", b'"' + b"a" * 1_100_000 + b'"', b" " * 1_100_000),
        *(b"null", b"true", b"[]", b'"text"', b"0", b'{"sequences": ["a\nb"]}', BODY * 2),
    )
    yield from (build(port, body=body) for body in bodies)


def _values(port: int) -> Iterator[bytes]:
    """JSON of the wrong types and sizes."""
    sequences = (
        *(None, 1, "a", {}, [], [1], [None], [[1]], [[None]], [[[1]]], [[{}, 1]], [{"a": 1}]),
        *([["a" * 1_001]], ["a" * 100_001], [["a"] * 10_001], [["a"] * 6_000] * 2, [[["a"]]]),
        *([[{"w": "a"}]], [[{"w": 1e400}]], [["a", 1]], ["a"] * 10_001, [[True]]),
    )
    for value in sequences:
        yield build(port, body=json.dumps({"sequences": value}).encode())
    members = (
        *({"model": -1}, {"model": 7}, {"model": "0"}, {"model": 0.5}, {"model": True}, {"k": 1}),
        *({"path": "/etc/passwd"}, {"__proto__": {}}, {"": 1}, {"<script>": 1}, {"model": None}),
    )
    for member in members:
        body = json.dumps({"sequences": ["a"], **member}).encode()
        yield build(port, body=body)
    for k in (0, -1, 101, "5", 1e9, None):
        yield build(port, path="/v1/kbest", body=json.dumps({"sequences": ["a"], "k": k}).encode())
    for name in ("../../etc/passwd", "main.js", "embed", "", 1):
        yield build(port, path="/page/bundle", body=json.dumps({"entry": name}).encode())
    saved = (
        *({"tokens": ["a"], "labels": ["O"], "file": "/etc/cron.d/x"}, {"tokens": ["a"]}),
        *({"tokens": ["a"], "labels": ["O"], "format": "../x"}, {"tokens": "a", "labels": ["O"]}),
        *({"tokens": ["a\nb"], "labels": ["O"]}, {"tokens": ["a"], "labels": ["O\tX"]}),
        *({"tokens": ["a"], "labels": []}, {"tokens": [], "labels": ["O"]}),
    )
    for value in saved:
        yield build(port, path="/page/save", body=json.dumps(value).encode())


def _protocol(port: int) -> Iterator[bytes]:
    """Bytes that are no HTTP, or that two programs in a row would read differently."""
    headers = f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: {JSON}\r\n"
    head = f"POST /v1/tag HTTP/1.1\r\n{headers}".encode()
    length = b"Content-Length: %d\r\n" % len(BODY)
    chunk = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
    yield b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 100  # TLS
    yield b"\0" * 1_000
    yield b"GET\r\n\r\n"
    yield b"GET / HTTP/9.9\r\n\r\n"
    yield b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    yield b"GET " + b"/a" * 50_000 + b" HTTP/1.1\r\n\r\n"
    yield head + b"X: " + b"a" * 200_000 + b"\r\n\r\n"
    yield head + b"".join(b"X%d: a\r\n" % n for n in range(20_000)) + b"\r\n"
    yield head + b"Content-Length: -1\r\n\r\n" + BODY
    yield head + b"Content-Length: 1e3\r\n\r\n" + BODY
    yield head + b"Content-Length: 99999999999999999999\r\n\r\n" + BODY
    yield head + length + b"Content-Length: 1\r\n\r\n" + BODY
    yield head + length + b"Transfer-Encoding: chunked\r\n\r\n" + chunk
    yield head + b"Transfer-Encoding: xchunked\r\n\r\n" + chunk
    yield head + b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n"
    yield head + b"Transfer-Encoding: chunked\r\n\r\n-1\r\nabc\r\n0\r\n\r\n"
    yield head + b" folded: yes\r\n" + length + b"\r\n" + BODY
    yield head + b"X\0: a\r\n" + length + b"\r\n" + BODY
    yield head + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
