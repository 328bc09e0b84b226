"""Build a server from the options of ``trellis serve``."""

import os
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from trellis.app.cli.ctc.emissions import read_labels
from trellis.app.web.api import build_api
from trellis.app.web.correcting import Corrections
from trellis.app.web.http.application import Application
from trellis.app.web.http.errors import RequestError
from trellis.app.web.http.guard import Guard
from trellis.app.web.http.messages import Limits, Reply
from trellis.app.web.http.server import PageServer, bind
from trellis.app.web.http.workers import Workers
from trellis.app.web.openapi import build_documents
from trellis.app.web.page import Page
from trellis.app.web.retraining import Retraining
from trellis.app.web.served import Emissions, open_model
from trellis.app.web.session import Session
from trellis.app.web.static_files import read_static_files
from trellis.errors import InputError

__all__ = ["Site", "build_site"]


class Site:
    """A server that is ready to run; a context manager that ends its threads."""

    def __init__(self, server: PageServer, listener: Any, url: str, cleanup: ExitStack) -> None:
        self.server, self.listener, self.url = server, listener, url
        """The URL has the token."""
        self._cleanup = cleanup

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: Any) -> None:
        self._cleanup.close()

    def serve(self) -> None:
        """Answer requests until SIGTERM or Ctrl-C."""
        self.server.run([self.listener])


def build_site(options: Any, token: str | None = None) -> Site:
    """Open the models and the data, bind the port, and return the server.

    ``options`` are those of ``trellis serve``.
    """
    limits = Limits(options.max_body, options.max_tokens, options.timeout)
    models = _open_models(options)
    if options.save is not None and not options.save.is_dir():
        raise InputError(f"{options.save}: --save must be a folder that exists")
    session = Session(models, options.data, options.reading)
    _read_data(session, options)
    corrections = Corrections(options.save)
    retraining = Retraining(session, corrections, options.train)
    workers = Workers(options.workers or os.cpu_count() or 1)
    listener = bind(options.host, options.port)
    port = listener.getsockname()[1]
    names = [name.strip() for name in (options.allow_host or "").split(",") if name.strip()]
    shown = f"[{options.host}]" if ":" in options.host else options.host
    guard = Guard([shown, "localhost"], names, port, token)
    posts = build_api(models, workers, limits)
    gets = build_documents(posts)
    if not options.api:
        page = Page(session, corrections, retraining, workers, limits)
        posts = posts | page.endpoints()
        gets = gets | read_static_files()
        gets |= {url: partial(_read_audio, path) for url, path in page.audio.items()}
    application = Application(guard, limits, posts, gets, "/docs" if options.api else "/")
    cleanup = ExitStack()
    for part in (listener, workers, session, retraining):  # closed in reverse
        cleanup.callback(part.close)
    url = f"http://{shown}:{port}/?token={quote(guard.token, safe='')}"
    return Site(PageServer(application, options.timeout), listener, url, cleanup)


def _read_data(session: Session, options: Any) -> None:
    """Read the labelled data, so that an error is shown at once; check that --train exists."""
    if options.data is not None:
        try:
            session.read_data()
        except RequestError as error:
            raise InputError(str(error)) from None
    if options.train is not None:
        with open(options.train, "rb"):
            pass


def _open_models(options: Any) -> list[Any]:
    symbols = None if options.symbols is None else read_labels(options.symbols)
    models: list[Any] = []
    for path in options.models:
        if path.suffix.lower() == ".wav":
            if not models or not isinstance(models[-1], Emissions):
                raise InputError(
                    f"{path}: a .wav file must follow the emissions that it belongs to"
                )
            with open(path, "rb"):
                models[-1].audio = path
            continue
        models.append(open_model(path, symbols))
        beside = path.with_suffix(".wav")
        if isinstance(models[-1], Emissions) and beside.is_file():
            models[-1].audio = beside
    return models


def _read_audio(path: Path) -> Reply:
    return Reply(path.read_bytes(), b"audio/wav")
