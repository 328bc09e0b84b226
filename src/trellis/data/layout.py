"""`Layout`: the format and the columns of the file that a model was trained on."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from trellis.data import detection, files
from trellis.data.corpus_formats import (
    FORMATS,
    Columns,
    format_by_name,
    parse_label_index,
    split_row,
)
from trellis.errors import InputError

__all__ = ["Layout", "layout_of"]

_MAX_COLUMNS = 2**16
_DOCSTART = "-DOCSTART-"


class Layout(NamedTuple):
    """The format and the columns of the file that a model was trained on.

    >>> layout = Layout("conll", (0, 2), 1, 3)
    >>> layout.token_columns(2, width=3), layout.token_columns(2, width=2)
    ((0, 2), (0, 1))
    """

    format: str
    token: tuple[int, ...] | None = None
    """In conll: the indices of the columns of a token, from 0."""
    label: int | str | None = None
    """In conll: the index of the label column, from 0. In conllu: its name."""
    width: int | None = None
    """In conll: the number of columns of a row, with the label."""

    def token_columns(self, count: int, width: int) -> tuple[int, ...]:
        """Return the columns of the first ``count`` values of a token in rows of ``width`` columns.

        Rows of ``count`` columns have only tokens. Rows with one column less than the training data
        have no label.
        """
        token = tuple(range(count)) if self.token is None else self.token[:count]
        if width == count:
            return tuple(range(count))
        if self.width is not None and width == self.width - 1 and isinstance(self.label, int):
            return tuple(column - (column > self.label) for column in token)
        return token

    def to_json(self) -> dict[str, Any]:
        """Return the layout as JSON values for `from_json`."""
        token = None if self.token is None else list(self.token)
        values = self._replace(token=None)._asdict() | {"token": token}
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_json(cls, data: Any) -> Layout:
        """Return the layout that `to_json` wrote; raise InputError if `data` is invalid."""
        layout = cls(**data)
        token = layout.token
        if layout.format not in FORMATS:
            raise InputError(f"corpus: the format is {layout.format!r:.60}")
        if not isinstance(layout.label, int | str | None):
            raise InputError(f"corpus: label is {layout.label!r:.60}, not a column")
        numbers = [layout.width, *(token if isinstance(token, list) else [token])]
        if not all(n is None or (type(n) is int and 0 <= n <= _MAX_COLUMNS) for n in numbers):
            raise InputError("corpus: the columns must be a list of numbers")
        return layout._replace(token=None if token is None else tuple(token))


def layout_of(
    path: str | os.PathLike[str] | files.OpenFile, format: str | None, columns: Columns
) -> Layout:
    r"""Return the layout of a file with labels, read with these columns, from its first row.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.conll"
    >>> size = path.write_text("Ann NNP B-PER\n")
    >>> layout_of(path, None, Columns())
    Layout(format='conll', token=(0, 1), label=2, width=3)
    """
    with files.open_once(path) as file:
        file.encoding = columns.encoding
        lines = detection.first_lines(file)
        format = format or format_by_name(files.name_of(path)) or detection.detect_labelled(lines)
    if format == "conllu":
        return Layout(format, label=columns.label or "upos")
    if format != "conll":
        return Layout(format)
    width = next(
        (len(cells) for cells in map(split_row, lines) if cells[:1] not in (["#"], [_DOCSTART])), 0
    )
    label = parse_label_index(columns)
    if not -width <= label < width:  # the reader raises the error
        return Layout(format)
    token = [n for n in range(width) if n != label % width]
    if columns.token is not None:
        token = [n % width for n in columns.token]
    return Layout(format, tuple(token), label % width, width)
