"""Open the model file of a command, and read data with the columns that the model needs."""

from pathlib import Path
from typing import Any

from trellis.app.cli.options import DataOptions
from trellis.data import corpus
from trellis.errors import FormatError, InputError
from trellis.models.files import load

__all__ = ["count_token_columns", "open_sequence_model", "read_labelled"]


def open_sequence_model(path: Path, jobs: int | None = None) -> Any:
    """Return the sequence model of a file; raise InputError if it is another kind of model."""
    try:
        model = load(path)
    except ImportError as error:  # a neural tagger, but PyTorch is not installed
        raise InputError(f"{path}: {error}") from None
    # Only sequence models have this method; regressions, graph models and vectors do not.
    if not hasattr(model, "describe"):
        raise InputError(
            f"{path}: the model is a {type(model).__name__}, expected a sequence model"
        )
    model.n_jobs = jobs
    return model


def count_token_columns(model: Any, path: Path) -> int:
    """Return the number of token columns that the model needs."""
    columns = model.describe().columns
    if columns is None:
        raise InputError(
            f"{path}: this model needs features computed in Python, so it cannot be used with files"
        )
    return int(columns)


def read_labelled(
    model: Any, path: Path, data: Path, reading: DataOptions
) -> tuple[list[Any], list[list[str]]]:
    """Read a file with labels; columns that the model does not need are dropped."""
    columns = count_token_columns(model, path)
    X, y = corpus.read(data, reading.format, reading.layout)
    width = corpus.width_of(X)
    if width < columns:
        raise FormatError(f"{data}: its tokens have {width} columns, but the model needs {columns}")
    if width > columns:
        X = [[token[0] if columns == 1 else token[:columns] for token in x] for x in X]
    return X, y
