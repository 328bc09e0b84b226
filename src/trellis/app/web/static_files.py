"""The files of the page, read when the server starts. Requests only look up their names."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from trellis.app.web.http.messages import Reply
from trellis.plots import interactive

__all__ = ["FOLDERS", "read_static_files"]

FOLDERS = (Path(__file__).parent / "static", Path(interactive.__file__).parent)
"""The page; the lattice, which reports and notebooks have too."""
_TYPES = {
    ".css": b"text/css; charset=utf-8",
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".png": b"image/png",
    ".svg": b"image/svg+xml",
}


def read_static_files() -> dict[str, Callable[[], Reply]]:
    """Return the replies of the static files by path; index.html is the page itself."""
    replies: dict[str, Callable[[], Reply]] = {}
    for folder in FOLDERS:
        for file in sorted(folder.glob("*.*")):
            if file.suffix in _TYPES:
                path = "/" if file.name == "index.html" else f"/static/{file.name}"
                replies[path] = partial(Reply, file.read_bytes(), _TYPES[file.suffix])
    return replies
