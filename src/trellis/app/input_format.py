"""The format of data to label: by the name of the file, by its first lines, and by the model.

Raw text must not be read as rows of columns. A model that needs the word alone can label it; for
any other model, the error says which columns are missing.
"""

import re
import sys
from pathlib import Path
from typing import Any

from trellis.app.model_files import describe_columns
from trellis.app.terminal import print_status
from trellis.data import detection, files
from trellis.data.corpus import Columns, format_by_name
from trellis.errors import FormatError, InputError

__all__ = ["choose_format"]

_SPAN = re.compile(r"\[[^][()]{1,80}\]\([^][()/:\s]{1,40}\)")  # not a link, which has / or :
_WORDS_ONLY = {
    "text": "raw text",
    "tokens": "text",
    "markup": "marked text",
    "conllu": "a conllu file",
}


def choose_format(
    file: files.OpenFile, format: str | None, model: Any, columns: int, chosen_columns: Columns
) -> str:
    """Return the format of a file to label; ``format`` if it is set.

    ``columns`` is the number of columns per token that the model needs.
    """
    is_set = format is not None
    format = format or format_by_name(file.name)
    is_dialogue = file.name == "<stdin>" and sys.stdin.isatty()
    if format is None and not is_dialogue:
        lines = detection.first_lines(file, at_once=not Path(file.name).is_file())
        _refuse_tables(file.name, lines)
        format = detection.detect_unlabelled(lines)
        if format == "text" and columns > 1 and _are_rows(lines, model, columns, chosen_columns):
            format = "conll"
        if format == "text":
            _warn_of_markup(file.name, lines)
    format = format or ("text" if columns == 1 else "conll")
    if format in _WORDS_ONLY and columns > 1:
        hint = "" if is_set else "; if these are rows of columns, add --format conll"
        requirement = describe_columns(model, columns)
        raise InputError(
            f"{file.name}: {_WORDS_ONLY[format]} has one column, but {requirement}{hint}"
        )
    return format


def _warn_of_markup(name: str, lines: list[str]) -> None:
    """Print a warning if raw text has spans with labels, which may be the answers of a test set."""
    span = next(filter(None, map(_SPAN.search, lines)), None)
    if span is not None:
        print_status(
            f"trellis: warning: {name}: the file is read as raw text, and the brackets of "
            f"{span.group()} as words: add --format markup to label its text without the mark-up"
        )


def _refuse_tables(name: str, lines: list[str]) -> None:
    """Raise FormatError if the file is named .csv, or if its lines are a JSON array.

    For the name .json, also refuse indented JSON and CSV.
    """
    extension = name.lower().rpartition(".")[2]
    if extension == "csv":
        raise FormatError(f"{name}: CSV is not read: write one token per line, or raw text as .txt")
    if extension == "json" or (lines and lines[0].strip().startswith(("[{", '[["'))):
        detection.refuse_other_formats(name, lines)


def _are_rows(lines: list[str], model: Any, columns: int, chosen: Columns) -> bool:
    """Return whether the first line is a row of columns separated by spaces, and not a text.

    A row has as many columns as the rows in training, or one less if it has no label. Its columns
    after the word have values that occurred in training.
    """
    if chosen.token is not None or not lines:
        return True
    cells = lines[0].split()
    if cells[0] == "-DOCSTART-":
        return True
    layout = model.corpus_layout_
    widths = {columns, columns + 1}
    token = tuple(range(columns))
    if layout is not None and layout.width is not None:
        widths |= {layout.width - 1, layout.width}
        token = layout.token_columns(columns, len(cells))
    if len(cells) not in widths or max(token) >= len(cells):
        return False
    features = model.describe().linear.features_
    known = [set(features.values_of_column(n)) for n in range(1, columns)]
    return all(not values or cells[n] in values for n, values in zip(token[1:], known, strict=True))
