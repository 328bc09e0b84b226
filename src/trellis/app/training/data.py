"""Read the training and development data; name the file in errors about a sequence."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from trellis.app.training.options import Options
from trellis.data import corpus
from trellis.errors import FormatError, InfeasibleError, InputError

__all__ = ["TrainingData", "name_file_in_errors", "read_dev", "read_files"]


class TrainingData(NamedTuple):
    """The concatenated sequences of several files."""

    X: list[Any]
    y: list[list[str]]
    sizes: list[int]
    """Number of sequences in each file."""

    @property
    def labels(self) -> set[str]:
        """The distinct labels."""
        return {label for sequence in self.y for label in sequence}

    def __str__(self) -> str:
        tokens = sum(map(len, self.X))
        return f"{len(self.X):,} sequences, {tokens:,} tokens, {len(self.labels)} labels"


def read_files(paths: list[Path], options: Options) -> TrainingData:
    """Read files with labels. All tokens must have the same number of columns."""
    data = TrainingData([], [], [])
    first_width = None
    for path in paths:
        X, y = corpus.read(path, options.data.format, options.data.layout)
        width = corpus.width_of(X)
        first_width = first_width or width
        if width != first_width:
            raise FormatError(
                f"{path}: its tokens have {width} columns, in {paths[0]} they have {first_width}"
            )
        data.X.extend(X)
        data.y.extend(y)
        data.sizes.append(len(X))
    return data


def read_dev(options: Options, labels: set[str]) -> tuple[list[Any], list[list[str]]] | None:
    """Read the development set. All its labels must occur in ``labels``, the training data."""
    if options.dev is None:
        return None
    X, y, _ = read_files([options.dev], options)
    for n, labels_of_sequence in enumerate(y):
        for t, label in enumerate(labels_of_sequence):
            if label not in labels:
                line = corpus.line_with(
                    options.dev, label, options.data.format, options.data.layout
                )
                place = f"line {line}" if line else f"sequence {n + 1}, token {t + 1}"
                raise InputError(
                    f"{options.dev}, {place}: label {label!r} does not occur in the training data"
                )
    return X, y


@contextmanager
def name_file_in_errors(paths: list[Path], sizes: list[int]) -> Iterator[None]:
    """Add the file to errors about a sequence, and replace the index by the one in that file."""
    try:
        yield
    except (InputError, InfeasibleError) as error:
        if error.sequence is None:
            raise
        # The index in the error counts the sequences of all files, from 0.
        number = error.sequence
        for path, size in zip(paths, sizes, strict=True):
            if number < size:
                message = f"{path}: {error.renumbered(number)} (counted from 0)"
                raise type(error)(message) from None
            number -= size
        raise
