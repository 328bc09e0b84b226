"""Read the training and development data; name the file in errors about a sequence."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from trellis.app.model_files import refuse_model
from trellis.app.terminal import print_status
from trellis.app.training.options import Options
from trellis.app.training.partial import find_known, replace_labels
from trellis.app.unseen_labels import warn_of_unseen_labels
from trellis.data import corpus, files
from trellis.data.weights import read_weighted
from trellis.errors import FormatError, InfeasibleError, InputError

__all__ = [
    "TrainingData",
    "name_file_in_errors",
    "read_dev",
    "read_files",
    "warn_of_little_data",
]


class TrainingData(NamedTuple):
    """The concatenated sequences of several files."""

    X: list[Any]
    y: list[list[Any]]
    """Labels; None is an unknown label, and a frozenset has alternatives."""
    sizes: list[int]
    """Number of sequences in each file."""
    weights: list[float]
    """The weight of each sequence; empty without ``--weight``."""
    layout: corpus.Layout | None = None
    """The columns of the first file."""

    @property
    def labels(self) -> set[str]:
        """The distinct labels."""
        return find_known(self.y)

    def __str__(self) -> str:
        n_tokens = sum(map(len, self.X))
        return f"{len(self.X):,} sequences, {n_tokens:,} tokens, {len(self.labels)} labels"


def read_files(paths: list[Path], options: Options) -> TrainingData:
    """Read files with labels. All tokens must have the same number of columns."""
    data = TrainingData([], [], [], [])
    first_width = layout = None
    reading = options.data.format, options.data.layout
    for path in paths:
        refuse_model(path)
        with files.open_once(path) as file:
            layout = layout or corpus.layout_of(file, *reading)
            if options.labels.weight is None:
                X, y = corpus.read(file, *reading)
            else:
                X, y, weights = read_weighted(file, options.labels.weight, *reading)
                data.weights.extend(weights)
        width = corpus.width_of(X)
        first_width = first_width or width
        if width != first_width:
            raise FormatError(
                f"{path}: its tokens have {width} columns, in {paths[0]} they have {first_width}"
            )
        data.X.extend(X)
        data.y.extend(replace_labels(y, options.labels, path))
        data.sizes.append(len(X))
    if not data.labels:
        raise InputError(f"{paths[0]}: no label is known at any position")
    return data._replace(layout=layout)


def warn_of_little_data(data: TrainingData, options: Options) -> None:
    """Print a warning if there is nothing to learn, or if an option or the layout may be wrong."""
    path, problem = options.files[0], ""
    unknown = options.labels.unknown
    if unknown is not None and not any(None in labels for labels in data.y):
        message = f"trellis: warning: {path}: no label is {unknown!r}, the value of --unknown"
        print_status(message, quiet=options.quiet)
    has_rows = data.layout is not None and data.layout.format == "conll"
    if len(data.labels) == 1:
        problem = f"all labels are {next(iter(data.labels))!r}, so the model can predict only it"
    elif len(data.X) == 1 and has_rows:
        problem = (
            f"all {len(data.X[0]):,} rows form one sequence: put an empty line after each sequence"
        )
    is_detected = options.data.format is None and corpus.format_by_name(path) is None
    if problem and has_rows and is_detected:
        problem += "; the file is read as rows with the label in the last column, see --format"
    if problem:
        print_status(f"trellis: warning: {path}: {problem}", quiet=options.quiet)


def read_dev(options: Options, train: TrainingData) -> tuple[list[Any], list[list[str]]] | None:
    """Read the development set; warn of labels that are not in the training data."""
    if options.dev is None:
        return None
    X, y, *_ = read_files([options.dev], options)
    width, trained_width = corpus.width_of(X), corpus.width_of(train.X)
    if width != trained_width:
        raise FormatError(
            f"{options.dev}: its tokens have {width} columns, in {options.files[0]} they have "
            f"{trained_width}: choose the columns with --columns"
        )
    for n, labels_of_sequence in enumerate(y):
        for t, label in enumerate(labels_of_sequence):
            if label is None or isinstance(label, frozenset):
                raise InputError(
                    f"{options.dev}, sequence {n + 1}, token {t + 1}: the label is unknown: "
                    "--dev needs all labels"
                )
    warn_of_unseen_labels(options.dev, y, train.labels, options.data, quiet=options.quiet)
    return X, y


@contextmanager
def name_file_in_errors(paths: list[Path], sizes: list[int]) -> Iterator[None]:
    """Add the file to errors about a sequence, and give the index of the sequence in that file."""
    try:
        yield
    except (InputError, InfeasibleError) as error:
        if error.sequence is None:
            raise
        # The index in the error counts the sequences of all files, from 0.
        index = error.sequence
        for path, size in zip(paths, sizes, strict=True):
            if index < size:
                message = f"{path}: {error.renumbered(index)} (counted from 0)"
                raise type(error)(message) from None
            index -= size
        raise
