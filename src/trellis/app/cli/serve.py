"""``trellis serve``: a page that shows models at work, and a JSON interface."""

import importlib.util
import logging
import os
import sys
import webbrowser
from dataclasses import dataclass, field
from logging.handlers import MemoryHandler
from pathlib import Path
from typing import Annotated

from trellis.app.cli.declarations import Argument, Option, UsageError
from trellis.app.cli.options import DataOptions
from trellis.errors import InputError

__all__ = ["Options", "run"]

TOKEN_VARIABLE = "TRELLIS_TOKEN"
_MIN_TOKEN = 16  # characters
_LOG_LINES = 1_000  # that are kept at most until the server writes them


@dataclass
class Options:
    """Options of ``trellis serve``."""

    models: Annotated[
        list[Path],
        Argument(
            help="Models of sequences, word vectors, or emissions of a CTC network (.npy, .npz); a "
            ".wav file belongs to the emissions before it.",
            metavar="FILE",
        ),
    ]
    data: Annotated[Path | None, Option(help="Labelled data to browse.")] = None
    train: Annotated[
        Path | None, Option(help="Training data: adds a button that trains the model again.")
    ] = None
    save: Annotated[
        Path | None, Option(help="Folder for corrected sentences and trained models.")
    ] = None
    symbols: Annotated[
        Path | None,
        Option(help="Labels of the emissions: one per line, or JSON, as for `trellis ctc`."),
    ] = None
    host: Annotated[
        str, Option(help="Address to listen at; others than 127.0.0.1 are open to the network.")
    ] = "127.0.0.1"
    port: Annotated[int, Option(help="Port; 0 is any free one.", min=0, max=65535)] = 0
    allow_host: Annotated[
        str | None,
        Option(
            help="Further names of this server, for a proxy: example.org,www.example.org.",
            metavar="NAMES",
        ),
    ] = None
    no_browser: Annotated[bool, Option("--no-browser", help="Do not open a browser.")] = False
    api: Annotated[
        bool, Option("--api", help="Serve only the JSON interface, and log each request.")
    ] = False
    max_tokens: Annotated[int, Option(help="Largest number of tokens of a request.", min=1)] = (
        10_000
    )
    max_body: Annotated[
        int, Option(help="Largest size of a request, in bytes.", min=1_000, max=1 << 30)
    ] = 1 << 20
    timeout: Annotated[
        float, Option(help="Seconds for sending and for answering a request.", min=0.1, max=3600)
    ] = 30.0
    workers: Annotated[
        int | None,
        Option(help="Number of threads that compute; default: all cores.", min=1, max=256),
    ] = None
    reading: DataOptions = field(default_factory=DataOptions)

    def __post_init__(self) -> None:
        if not self.models:
            raise UsageError("name a model")
        if self.api and (self.data or self.train or self.save):
            raise UsageError("--api has no page, so it takes no --data, --train and --save")


def run(options: Options) -> None:
    """Open a page that shows why a model chose its labels; or serve models to other programs.

    The page shows the lattice of a sentence while you type, the features behind each decision, the
    errors in a labelled file, and lets you correct labels. It needs the extra `web`: `pip install
    'trellis[web]'`. The server is open to this computer only, and to those who know its URL.

    **Examples**

    `trellis serve model.trellis`

    `trellis serve old.trellis new.trellis --data dev.conll --save corrections`

    `trellis serve emissions.npy speech.wav --symbols labels.txt`

    `TRELLIS_TOKEN=… trellis serve model.trellis --api --port 8000 --workers 4`
    """
    if importlib.util.find_spec("uvicorn") is None:
        raise InputError("trellis serve needs uvicorn: pip install 'trellis[web]'")
    from trellis.app.web.building import build_site

    site = build_site(options, _read_token())
    if options.api:
        _log_requests()
    with site:
        print(site.url, flush=True)
        if not (options.no_browser or options.api):
            webbrowser.open(site.url)
        site.serve()


def _read_token() -> str | None:
    """Return the token of the environment: other users could read one on the command line."""
    token = os.environ.get(TOKEN_VARIABLE)
    if token is not None and (len(token) < _MIN_TOKEN or any(not "!" <= c <= "~" for c in token)):
        raise InputError(f"{TOKEN_VARIABLE} must be at least {_MIN_TOKEN} visible ASCII characters")
    return token


def _log_requests() -> None:
    """Write a line for each request to standard error, many at a time: the server flushes them."""
    stream = logging.StreamHandler(sys.stderr)
    stream.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger = logging.getLogger("trellis.serve")
    logger.addHandler(MemoryHandler(_LOG_LINES, target=stream))
    logger.setLevel(logging.INFO)
