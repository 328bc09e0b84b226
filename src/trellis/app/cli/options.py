"""Arguments and options that several commands have."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from trellis.app.cli.declarations import Argument, Option, UsageError
from trellis.data.corpus import Columns

__all__ = [
    "DataOptions",
    "Decode",
    "Encoding",
    "EngineOptions",
    "Jobs",
    "Json",
    "LabelledFile",
    "MinProbability",
    "ModelFile",
    "Quiet",
    "UnknownLabel",
    "parse_columns",
    "read_default",
]

ModelFile = Annotated[
    Path, Argument(help="Model file written by `trellis train`.", metavar="MODEL")
]
LabelledFile = Annotated[Path, Argument(help="Data file with labels.", metavar="FILE")]
Jobs = Annotated[int | None, Option("--jobs", "-j", help="Number of threads; default: all cores.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print errors only.")]
Json = Annotated[bool, Option("--json", help="Print JSON instead of text and tables.")]
Format = Annotated[
    str | None,
    Option(
        help="Data format: conll, conllu, jsonl or markup; without labels also text or tokens; "
        "default: detected from the file name or the first lines.",
    ),
]
TokenColumns = Annotated[
    str | None,
    Option(
        help="Columns of a conll file that form a token, counted from 0, for example 0,1.",
        metavar="LIST",
    ),
]
LabelColumn = Annotated[
    str | None,
    Option(
        "--label",
        help="Label column: a number in a conll file (default -1), a name in a conllu file "
        "(default upos).",
    ),
]
Decode = Annotated[
    str,
    Option(
        help="What the labels maximise: viterbi, the probability of the labelling; marginal, the "
        "expected number of correct labels; mbr, the expected F1 of spans."
    ),
]
MinProbability = Annotated[
    float | None,
    Option(
        help="Label all spans with at least the probability P, and no others: a larger number "
        "gives higher precision, a smaller one higher recall.",
        metavar="P",
        min=0.0,
        max=1.0,
    ),
]
Encoding = Annotated[
    str, Option(help="Encoding of the text in data files, for example cp1252 or utf-16.")
]


UnknownLabel = Annotated[
    str | None,
    Option("--unknown", help="Label that means: not known, for example _.", metavar="LABEL"),
]


@dataclass
class DataOptions:
    """Format, columns and encoding of a file with labels."""

    format: Format = None
    columns: TokenColumns = None
    label: LabelColumn = None
    encoding: Encoding = "utf-8"

    layout: Columns = field(init=False)
    """The columns of the tokens and of the label."""

    def __post_init__(self) -> None:
        self.layout = parse_columns(self.columns, self.label, self.encoding)


@dataclass
class EngineOptions:
    """Options of work on shards, by processes or by a cluster."""

    engine: Annotated[
        str | None,
        Option(
            help="Scheduler of a Dask cluster that does the work on shards of the files.",
            metavar="dask://HOST:PORT",
        ),
    ] = None
    workers: Annotated[
        int | None,
        Option(
            help="Number of processes that do the work on shards of the files, which then need not "
            "fit in memory.",
            metavar="N",
            min=1,
        ),
    ] = None
    shard: Annotated[
        str | None,
        Option(help="Size of a shard with --engine or --workers; default: 16MB.", metavar="SIZE"),
    ] = None

    @property
    def is_set(self) -> bool:
        """Whether the files are read in shards."""
        return self.engine is not None or self.workers is not None

    @property
    def shard_size(self) -> str:
        """The size of a shard."""
        return self.shard or "16MB"

    def __post_init__(self) -> None:
        if self.engine is not None and self.workers is not None:
            raise UsageError("--engine and --workers cannot be used together")
        if self.engine is not None and not self.engine.startswith(("dask://", "tcp://", "tls://")):
            raise UsageError(f"--engine is {self.engine!r}: must be dask://HOST:PORT")
        if self.shard is not None and not self.is_set:
            raise UsageError("--shard needs --engine or --workers")

    @contextmanager
    def open(self) -> Iterator[Any]:
        """Yield the engine."""
        from trellis.engines import Dask, Local  # here, because Dask is optional and slow to import

        if self.engine is None:
            engine: Any = Local(self.workers, processes=True)
        else:
            engine = Dask(self.engine.replace("dask://", "tcp://", 1))
        try:
            yield engine
        finally:
            engine.close()


def parse_columns(columns: str | None, label: str | None, encoding: str) -> Columns:
    """Return the columns that ``--columns`` and ``--label`` select."""
    try:
        "".encode(encoding)
    except LookupError:
        raise UsageError(f"--encoding is {encoding!r}: must be a name such as cp1252") from None
    if columns is None:
        return Columns(None, label, encoding)
    try:
        return Columns(tuple(int(number) for number in columns.split(",")), label, encoding)
    except ValueError:
        raise UsageError(f"--columns is {columns!r}: must be numbers such as 0,1") from None


def read_default(function: Any, parameter: str) -> Any:
    """Return the default value of a parameter, so that help texts do not repeat the number.

    >>> read_default(round, "ndigits") is None
    True
    """
    return inspect.signature(function).parameters[parameter].default
