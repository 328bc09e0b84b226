"""Who may ask: the checks of Host, Origin and token, before a body is read.

- Host must be in an allow-list. A page of a stranger whose name was changed to point to 127.0.0.1
  (DNS rebinding) sends its own name.
- Origin, which browsers send with every POST, must be one of the same hosts.
- The token of the URL that ``trellis serve`` prints is exchanged for a cookie that scripts cannot
  read (HttpOnly) and that other sites cannot make a browser send (SameSite=Strict). Programs send
  the token itself: ``Authorization: Bearer <token>``.

Secrets are compared in constant time.
"""

import hmac
import secrets
from urllib.parse import parse_qs

from trellis.app.web.http.errors import RequestError
from trellis.app.web.http.messages import Reply, Request

__all__ = ["Guard", "security_headers"]

_HTTP_PORT = 80
_FOR_ALL = [
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]
_FOR_PAGES = [
    (
        b"content-security-policy",
        b"default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
        b"frame-ancestors 'none'",
    ),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
]


def security_headers(kind: bytes) -> list[tuple[bytes, bytes]]:
    """Return the headers of a reply of a content type: browsers heed most only in pages."""
    return _FOR_ALL if kind.startswith(b"application/") else _FOR_ALL + _FOR_PAGES


class Guard:
    """The secrets of a server and the names by which it may be called.

    ``hosts`` are names of this machine, ``proxy_names`` those of a proxy before the server.
    """

    def __init__(
        self, hosts: list[str], proxy_names: list[str], port: int, token: str | None = None
    ) -> None:
        self.token = token or secrets.token_urlsafe(32)
        self._session = secrets.token_urlsafe(32).encode()
        # Cookies do not distinguish ports: two servers on one machine need two names.
        self._cookie = f"trellis_{port}".encode()
        # Without a port, http://localhost is another server of this machine, at port 80. Only a
        # proxy may have the usual ports.
        names = [f"{host}:{port}" for host in [*hosts, *proxy_names]] + proxy_names
        names += hosts if port == _HTTP_PORT else []
        self._hosts = {name.lower().encode() for name in names}
        self._origins = {
            scheme + host for scheme in (b"http://", b"https://") for host in self._hosts
        }
        self._bearer = b"Bearer " + self.token.encode()

    def check_names(self, request: Request) -> None:
        """Raise RequestError unless Host, and Origin if present, are names of this server."""
        if request.headers.get(b"host", b"").lower() not in self._hosts:
            raise RequestError(403, "the Host is not a name of this server: see --allow-host")
        origin = request.headers.get(b"origin")
        if origin is not None and origin.lower() not in self._origins:
            raise RequestError(403, "the Origin is not this server")

    def check_token(self, request: Request) -> None:
        """Raise RequestError unless the request has the cookie or the token."""
        authorization = request.headers.get(b"authorization")
        if authorization is not None:
            if hmac.compare_digest(authorization, self._bearer):
                return
        elif (cookie := self._find_cookie(request)) and hmac.compare_digest(cookie, self._session):
            return
        raise RequestError(
            401, "no valid token: open the URL that trellis serve printed, or send it as a Bearer"
        )

    def exchange(self, request: Request, target: str) -> Reply | None:
        """Return the reply to a URL with a token, which sets the cookie; None without a token."""
        values = parse_qs(request.query.decode("latin-1")).get("token")
        if not values:
            return None
        if not hmac.compare_digest(values[0].encode(), self.token.encode()):
            raise RequestError(401, "the token is not that of this server, or of an earlier run")
        cookie = self._cookie + b"=" + self._session + b"; Path=/; HttpOnly; SameSite=Strict"
        headers = [(b"location", target.encode()), (b"set-cookie", cookie)]
        return Reply(b"", b"text/plain", 303, headers)

    def _find_cookie(self, request: Request) -> bytes | None:
        for part in request.headers.get(b"cookie", b"").split(b";"):
            name, _, value = part.strip().partition(b"=")
            if name == self._cookie:
                return value
        return None
