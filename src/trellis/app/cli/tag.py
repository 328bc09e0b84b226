"""``trellis tag``: label files or standard input, batch by batch in constant memory."""

import stat
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, BinaryIO

from trellis.app.cli.declarations import Argument, Option, UsageError
from trellis.app.cli.options import (
    Decode,
    Encoding,
    EngineOptions,
    Format,
    Jobs,
    MinProbability,
    ModelFile,
    TokenColumns,
    parse_columns,
)
from trellis.app.decoding import predict_labels
from trellis.app.input_format import choose_format
from trellis.app.model_files import count_token_columns, open_sequence_model, refuse_model
from trellis.app.tag_output import OUTPUTS, Labelled, choose_output, make_writer
from trellis.app.terminal import check_writable, print_status
from trellis.app.uncertainty import MEASURES, select
from trellis.checks import one_of
from trellis.data import corpus, files
from trellis.data.atomic import replacing
from trellis.data.corpus import Columns, Sequence
from trellis.data.shards.corpus import Corpus
from trellis.errors import InputError
from trellis.models.chain.decoding import DECODERS

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
    encoding: Encoding = "utf-8"
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
    decode: Decode = "viterbi"
    min_probability: MinProbability = None
    uncertain: Annotated[
        int,
        Option(
            help="Print only the N sequences of which the model is least certain, which are the "
            "most useful ones to label next.",
            metavar="N",
            min=0,
        ),
    ] = 0
    by: Annotated[
        str,
        Option(
            help="Measure of --uncertain: entropy (per token), or margin between the two best "
            "labellings."
        ),
    ] = "entropy"
    unbuffered: Annotated[
        bool, Option("--unbuffered", "-u", help="Print each sequence as soon as it is labelled.")
    ] = False
    engine: EngineOptions = field(default_factory=EngineOptions)
    jobs: Jobs = None
    layout: Columns = field(init=False)

    def __post_init__(self) -> None:
        self.layout = parse_columns(self.columns, None, self.encoding)
        if self.uncertain and self.kbest:
            raise UsageError("--uncertain cannot be used with --kbest")
        if self.min_probability is not None and (self.decode != "viterbi" or self.marginals):
            raise UsageError("--min-probability cannot be used with --decode or --marginals")
        if self.kbest and (self.decode != "viterbi" or self.min_probability is not None):
            raise UsageError("--kbest cannot be used with --decode or --min-probability")
        if self.engine.is_set:
            if not self.files or self.target is None:
                raise UsageError("--engine and --workers need files, and a folder: --to FOLDER")
            if self.marginals or self.kbest or self.uncertain or self.output or self.unbuffered:
                raise UsageError("--engine and --workers write labels only, as conll or jsonl")
            if self.decode == "mbr":
                raise UsageError("--decode mbr cannot be used with --engine or --workers")
            if self.min_probability is not None:
                raise UsageError("--min-probability cannot be used with --engine or --workers")
        if self.by != "entropy" and not self.uncertain:
            raise UsageError("--by needs --uncertain N")


def run(options: Options) -> None:
    """Label files of any size, or standard input, in constant memory.

    **Examples**

    `echo "wake me at seven" | trellis tag model.trellis`

    `trellis tag model.trellis test.conll --marginals > tagged.conll`

    `trellis tag model.trellis notes.txt --output jsonl --kbest 3`

    `trellis tag model.trellis parts/*.conll.gz --workers 8 -o tagged/` (one output file for each
    shard; run it again after an interruption)

    `trellis tag model.trellis unlabelled.txt --uncertain 100 -o next.md` (correct the labels in
    this file, and train with it)
    """
    one_of(options.by, MEASURES, "--by")
    one_of(options.decode, DECODERS, "--decode")
    if options.engine.is_set:
        _tag_shards(options)
        return
    if options.target is not None:
        # A data file may be replaced by its labelled text; the model must not be.
        check_writable(options.target, options.model)
    model = open_sequence_model(options.model, options.jobs)
    columns = count_token_columns(model, options.model)
    if options.output is not None:
        one_of(options.output, OUTPUTS, "--output")
    inputs = options.files or [Path("-")]
    for path in inputs:
        _check_source(path)
    on_terminal = options.target is None and sys.stdout.isatty()
    write = None
    # In interactive use, each line is answered immediately.
    at_once = options.unbuffered or (not options.files and sys.stdin.isatty())
    if at_once and options.decode == "mbr":
        raise InputError(
            "--decode mbr chooses the labels of many sequences together: name a file, without -u; "
            "for single sequences, use --min-probability"
        )
    corpora = [(_name(path), *_read_sequences(path, model, columns, options)) for path in inputs]
    if options.uncertain:
        results = _label_uncertain(model, corpora, options)
    else:
        results = _label_all(model, corpora, options, 1 if at_once else _BATCH)
    with _open_target(options.target) as file:
        is_first = True
        for place, result in results:
            if write is None:  # the format is known once the first sequence is read
                format = next(formats[0] for _, formats, _ in corpora if formats)
                output = choose_output(options.output, format, on_terminal)
                write = make_writer([str(label) for label in model.classes_], output)
            try:
                text = write(result)
            except InputError as error:
                raise InputError(f"{place}: {error}") from None
            # U+FEFF at the start of a file would be read as a byte order mark.
            file.write((files.keep_mark(text) if is_first else text).encode())
            is_first = False
            if at_once:
                file.flush()


def _tag_shards(options: Options) -> None:
    """Write one labelled file for each shard to the folder ``--to``."""
    files_to_label = options.files or []
    for path in files_to_label:
        _check_source(path)
    model = open_sequence_model(options.model, options.jobs)
    columns = count_token_columns(model, options.model)

    def choose(file: files.OpenFile) -> str:
        return choose_format(file, options.format, model, columns, options.layout)

    shards = Corpus.text(
        files_to_label,
        options.engine.shard_size,
        format=choose,
        columns=options.layout,
        labelled=False,
    )
    with options.engine.open() as engine:
        paths = model.predict(shards, decode=options.decode, engine=engine, to=options.target)
    print_status(f"{len(paths):,} files in {options.target}")


def _check_source(path: Path) -> None:
    """Raise if a file is missing or unreadable, before anything is written, or if it is a model."""
    # A pipe is not opened here: it can be read only once, and opening it waits for its writer,
    # which may itself wait until an earlier pipe has been read.
    if str(path) != "-" and stat.S_ISREG(path.stat().st_mode):
        with open(path, "rb"):
            pass
        refuse_model(path)


def _name(path: Path) -> str:
    return files.name_of(sys.stdin.buffer) if str(path) == "-" else str(path)


def _read_sequences(
    path: Path, model: Any, columns: int, options: Options
) -> tuple[list[str], Iterator[Sequence]]:
    """Return (formats, sequences) of a file or of standard input.

    ``formats`` is empty until the first sequence is read; then it contains the format of the file.
    """
    formats: list[str] = []

    def read() -> Iterator[Sequence]:
        source = sys.stdin.buffer if str(path) == "-" else path
        with files.open_once(source) as file:
            file.encoding = options.encoding
            format = choose_format(file, options.format, model, columns, options.layout)
            formats.append(format)
            layout = model.corpus_layout_
            yield from corpus.iterate(file, format, columns, options.layout, layout)

    return formats, read()


@contextmanager
def _open_target(target: Path | None) -> Iterator[BinaryIO]:
    if target is None:
        yield sys.stdout.buffer
    else:
        with replacing(target) as file:
            yield file


_Corpora = list[tuple[str, list[str], Iterator[Sequence]]]
"""The name, the format and the sequences of each file; see `_read_sequences`."""


def _label_all(
    model: Any, corpora: _Corpora, options: Options, size: int
) -> Iterator[tuple[str, Labelled]]:
    """Yield the place and the labels of each sequence, in order."""
    for name, _, sequences in corpora:
        batches = _split_batches(sequences, size)
        number = 0
        for batch in batches if size == 1 else _read_ahead(batches):
            for result in _label_batch(model, batch, options):
                number += 1
                yield f"{name}, sequence {number}", result


def _label_uncertain(
    model: Any, corpora: _Corpora, options: Options
) -> Iterator[tuple[str, Labelled]]:
    """Yield the least certain sequences of all files, with their scores."""
    sequences = chain.from_iterable(sequences for *_, sequences in corpora)
    batches = _read_ahead(_split_batches(sequences, _BATCH))
    selected = select(model, batches, options.uncertain, options.by)
    batch = [entry.sequence for entry in selected]
    results = _label_batch(model, batch, options)
    for entry, result in zip(selected, results, strict=True):
        yield "a selected sequence", result._replace(uncertainty=entry.score)


def _split_batches(sequences: Iterable[Sequence], size: int) -> Iterator[list[Sequence]]:
    """Yield lists of sequences with about ``size`` tokens.

    Each sequence counts as one additional token, so that empty sequences fill a batch, too.
    """
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
        next_batch = reader.submit(next, batches, None)
        while (batch := next_batch.result()) is not None:
            next_batch = reader.submit(next, batches, None)
            yield batch


def _label_batch(model: Any, batch: list[Sequence], options: Options) -> Iterator[Labelled]:
    X = [sequence.tokens for sequence in batch]
    if options.kbest:
        paths = model.predict_kbest(X, options.kbest)
        labels = [paths_of_sequence[0].labels for paths_of_sequence in paths]
    else:
        paths = [None] * len(X)
        labels = predict_labels(model, X, options.decode, options.min_probability)
    probabilities = model.predict_marginals(X) if options.marginals else [None] * len(X)
    return map(Labelled, batch, labels, probabilities, paths)
