"""Open the model file of a command, and read data with the columns that the model needs."""

from pathlib import Path
from typing import Any

from trellis.app.cli.options import DataOptions
from trellis.data import corpus, files
from trellis.data.corpus import Columns, Layout
from trellis.errors import FormatError, InputError
from trellis.models.chain.labels import count_unseen
from trellis.models.files import is_model, load

__all__ = [
    "count_token_columns",
    "describe_columns",
    "open_sequence_model",
    "read_labelled",
    "refuse_model",
]


def open_sequence_model(path: Path, jobs: int | None = None) -> Any:
    """Return the sequence model of a file; raise InputError if it is another kind of model."""
    try:
        model = load(path)
    except ImportError as error:  # a neural tagger, but PyTorch is not installed
        raise InputError(f"{path}: {error}") from None
    except FormatError as error:
        if is_model(path):
            raise
        raise FormatError(f"{error}; the model comes first, then the data") from None
    # Only sequence models have this method; regressions, graph models and vectors do not.
    if not hasattr(model, "describe"):
        raise InputError(
            f"{path}: the model is a {type(model).__name__}, expected a sequence model"
        )
    model.n_jobs = jobs
    return model


def refuse_model(path: Path) -> None:
    """Raise InputError if a data file is a model; a pipe is not checked."""
    if path.is_file() and is_model(path):
        raise InputError(f"{path}: the file is a model, expected data")


def count_token_columns(model: Any, path: Path) -> int:
    """Return the number of token columns that the model needs."""
    columns = model.describe().columns
    if columns is None:
        raise InputError(
            f"{path}: this model needs features computed in Python, so it cannot be used with files"
        )
    return int(columns)


def describe_columns(model: Any, columns: int) -> str:
    """Return which columns the model needs, with an example of a line."""
    layout = model.corpus_layout_
    names = ""
    if layout is not None and layout.token is not None:
        names = f" (columns {', '.join(map(str, layout.token[:columns]))} of its training data)"
    linear = model.describe().linear
    values = [linear.features_.values_of_column(n)[:1] for n in range(columns)]
    example = "\t".join([value[0] if value else f"column{n}" for n, value in enumerate(values)])
    return (
        f"the model needs {columns} columns for each token{names}: write one token per line, with "
        f"tabs between the columns, and an empty line after each sequence, such as {example!r}"
    )


def read_labelled(
    model: Any, path: Path, data: Path, reading: DataOptions
) -> tuple[list[Any], list[list[str]]]:
    """Read a file with labels, with the columns that the model was trained on.

    Columns that the model does not need are dropped. Raise InputError if the columns are not those
    of the training data.
    """
    model_width = count_token_columns(model, path)
    refuse_model(data)
    with files.open_once(data) as file:
        chosen = _choose_columns(model.corpus_layout_, data, file, reading)
        X, y = corpus.read(file, reading.format, chosen)
    data_width = corpus.width_of(X)
    if data_width < model_width:
        raise FormatError(
            f"{data}: its tokens have {data_width} columns, but the model needs {model_width}"
        )
    if data_width > model_width:
        X = [[token[0] if model_width == 1 else token[:model_width] for token in x] for x in X]
    _check_labels(model, data, y, reading)
    return X, y


def _choose_columns(
    trained: Layout | None, data: Path, file: files.OpenFile, reading: DataOptions
) -> Columns:
    """Return the columns that the options select; by default, the columns of the training data."""
    columns = reading.layout
    if trained is None:
        return columns
    layout = corpus.layout_of(file, reading.format, columns)
    if layout.format != trained.format:
        return columns
    if layout.format == "conllu":
        if columns.label not in (None, trained.label):
            raise InputError(
                f"{data}: --label is {columns.label}, but the model was trained with --label "
                f"{trained.label}, which is used if the option is omitted"
            )
        return columns._replace(label=str(trained.label))
    if layout.format != "conll" or columns.label is not None:
        return columns
    if layout.width is not None and layout.width != trained.width:
        raise InputError(
            f"{data}: its rows have {layout.width} columns, but {trained.width} in the training "
            f"data, where column {trained.label} was the label: choose the column with --label, "
            "which counts from 0, or from the end with -1"
        )
    token = trained.token if columns.token is None else columns.token
    return columns._replace(token=token, label=str(trained.label))


def _check_labels(model: Any, data: Path, y: list[list[str]], reading: DataOptions) -> None:
    """Raise InputError if so many labels are unknown that the label column is probably wrong."""
    trained, label = model.corpus_layout_, reading.layout.label
    if trained is None:
        return
    unseen = count_unseen(y, map(str, model.classes_))
    count = unseen.counts.total()
    # Without --label, it is an error only if the model knows none of the labels. With --label, it
    # must know at least half of them, because a wrong column may contain an O by chance.
    if count == unseen.total > 0 or (label is not None and count > unseen.total / 2):
        column = f", which was trained with --label {trained.label}"
        column = "" if trained.label is None else column
        raise InputError(
            f"{data}: {count:,} of {unseen.total:,} labels are not those of the model{column}: "
            "the label column may be wrong"
        )
