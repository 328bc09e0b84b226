"""``trellis tag``: label files or standard input, batch by batch in constant memory."""

import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, BinaryIO

from trellis.app.cli.declarations import Argument, Option
from trellis.app.cli.options import Format, Jobs, ModelFile, TokenColumns, parse_columns
from trellis.app.model_files import count_token_columns, open_sequence_model
from trellis.app.tag_output import Labelled, choose_output, make_writer
from trellis.app.terminal import check_writable
from trellis.data import corpus, files
from trellis.data.corpus import Columns, Sequence
from trellis.errors import InputError
from trellis.formats.atomic import replacing

__all__ = ["Options", "run"]

_BATCH = 1 << 15  # tokens: enough work for all threads; the scores take only a few MB


@dataclass
class Options:
    """Options of ``trellis tag``."""

    model: ModelFile
    files: Annotated[
        list[Path] | None,
        Argument(help="Files to label; default: standard input.", metavar="FILE"),
    ] = None
    format: Format = None
    columns: TokenColumns = None
    output: Annotated[
        str | None,
        Option(
            help="Output format: conll, jsonl or inline; default: inline on a terminal, "
            "otherwise the format of the input."
        ),
    ] = None
    target: Annotated[
        Path | None,
        Option("-o", "--to", help="File to write instead of standard output."),
    ] = None
    marginals: Annotated[bool, Option("--marginals", help="Add the probability of each label.")] = (
        False
    )
    kbest: Annotated[
        int,
        Option(help="Print the K best labellings of each sequence.", metavar="K", min=0),
    ] = 0
    unbuffered: Annotated[
        bool, Option("--unbuffered", "-u", help="Print each sequence as soon as it is labelled.")
    ] = False
    jobs: Jobs = None
    layout: Columns = field(init=False)

    def __post_init__(self) -> None:
        self.layout = parse_columns(self.columns)


def run(options: Options) -> None:
    """Label files of any size, or standard input, in constant memory.

    **Examples**

    `echo "wake me at seven" | trellis tag model.trellis`

    `trellis tag model.trellis test.conll --marginals > tagged.conll`

    `trellis tag model.trellis notes.txt --output jsonl --kbest 3`
    """
    if options.target is not None:
        check_writable(options.target)
    model = open_sequence_model(options.model, options.jobs)
    columns = count_token_columns(model, options.model)
    inputs = options.files or [Path("-")]
    sources = [_open_source(path, options.format, columns) for path in inputs]
    on_terminal = options.target is None and sys.stdout.isatty()
    write = make_writer(
        [str(label) for label in model.classes_],
        choose_output(options.output, sources[0][1], on_terminal),
    )
    # In interactive use, each line is answered immediately.
    at_once = options.unbuffered or (not options.files and sys.stdin.isatty())
    with _open_target(options.target) as file:
        is_first = True
        for source, format in sources:
            sequences = corpus.iterate(source, format, columns, options.layout)
            labelled = _label(model, sequences, options, 1 if at_once else _BATCH)
            for number, result in enumerate(labelled, 1):
                try:
                    text = write(result)
                except InputError as error:
                    place = f"{files.name_of(source)}, sequence {number}"
                    raise InputError(f"{place}: {error}") from None
                # U+FEFF at the start of a file would be read as a byte order mark.
                file.write((files.keep_mark(text) if is_first else text).encode())
                is_first = False
                if at_once:
                    file.flush()


def _open_source(path: Path, format: str | None, columns: int) -> tuple[Any, str]:
    """Return the source (a path or standard input) and its format; raise if it is missing."""
    if str(path) == "-":
        return sys.stdin.buffer, format or ("text" if columns == 1 else "conll")
    with open(path, "rb"):
        pass
    return path, format or corpus.format_of(path, labelled=False)


@contextmanager
def _open_target(target: Path | None) -> Iterator[BinaryIO]:
    if target is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    else:
        with replacing(target) as file:
            yield file


def _label(
    model: Any, sequences: Iterable[Sequence], options: Options, size: int
) -> Iterator[Labelled]:
    """Yield the labelled sequences, in order."""
    batches = _split_batches(sequences, size)
    for batch in batches if size == 1 else _read_ahead(batches):
        yield from _label_batch(model, batch, options.marginals, options.kbest)


def _split_batches(sequences: Iterable[Sequence], size: int) -> Iterator[list[Sequence]]:
    """Yield lists of sequences with about ``size`` tokens. Each sequence counts one more."""
    batch: list[Sequence] = []
    tokens = 0
    for sequence in sequences:
        batch.append(sequence)
        tokens += len(sequence.tokens) + 1
        if tokens >= size:
            yield batch
            batch, tokens = [], 0
    if batch:
        yield batch


def _read_ahead(batches: Iterator[list[Sequence]]) -> Iterator[list[Sequence]]:
    """Yield the batches; a second thread reads the next batch while this one is labelled."""
    with ThreadPoolExecutor(1) as reader:
        upcoming = reader.submit(next, batches, None)
        while (batch := upcoming.result()) is not None:
            upcoming = reader.submit(next, batches, None)
            yield batch


def _label_batch(
    model: Any, batch: list[Sequence], marginals: bool, kbest: int
) -> Iterator[Labelled]:
    X = [sequence.tokens for sequence in batch]
    if kbest:
        paths = model.predict_kbest(X, kbest)
        labels = [paths_of_sequence[0].labels for paths_of_sequence in paths]
    else:
        paths, labels = [None] * len(X), model.predict(X)
    probabilities = model.predict_marginals(X) if marginals else [None] * len(X)
    return map(Labelled, batch, labels, probabilities, paths)
