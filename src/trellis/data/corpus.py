r"""Corpora of any format: detect the format of a file, and read its sequences.

========  ==========================================  ==============================
format    contents                                    extensions
========  ==========================================  ==============================
conll     columns, see `trellis.data.conll`           .conll .bio .iob .iob2 .tsv
conllu    Universal Dependencies                      .conllu
jsonl     one object per line                         .jsonl .ndjson
markup    ``[Nobu](restaurant)``, see `markup`        .md .markup
text      raw text, one sequence per line             .txt, if it has no labels
tokens    tokens separated by white space             none: pass the format
========  ==========================================  ==============================

A second extension ``.gz``, ``.xz``, ``.bz2`` or ``.zst`` is ignored. The format of any other
file is detected from its first lines, see `trellis.data.detection`.

The formats are in `corpus_formats.py`, the columns that a model remembers in `layout.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from trellis.data import detection, files
from trellis.data.corpus_formats import (
    BY_NAME,
    FORMATS,
    LABELLED,
    WRITABLE,
    Columns,
    Sequence,
    count_columns,
    format_by_name,
    iterate_rows,
)
from trellis.data.files import Numbered, Report, Source, Target, Token
from trellis.data.layout import Layout, layout_of
from trellis.errors import FormatError, InputError

__all__ = [
    "FORMATS",
    "LABELLED",
    "WRITABLE",
    "Columns",
    "Layout",
    "Sequence",
    "format_by_name",
    "format_of",
    "iterate",
    "iterate_numbered",
    "layout_of",
    "line_with",
    "read",
    "validate_columns",
    "width_of",
    "write",
]

_READ_AS_ROWS = (
    "the file is read as rows of a token and its label, because no line has mark-up such as "
    "[Rome](place)"
)


def format_of(path: str | os.PathLike[str] | files.OpenFile, labelled: bool = True) -> str:
    """Detect the format by the extension of a file, or if it is unknown, by the first lines.

    A file with an unknown extension and without labels has the format "text". The lines of an
    `OpenFile` can be read again after the call, also if it is a pipe.

    >>> format_of("train.conll.gz"), format_of("notes.txt", labelled=False)
    ('conll', 'text')
    """
    format = format_by_name(files.name_of(path))
    if format or not labelled:
        return format or "text"
    if not isinstance(path, files.OpenFile):
        # The lines of a pipe can be read only once, so they cannot be used for detection.
        if not Path(path).is_file() and Path(path).exists():
            raise InputError(f"{os.fspath(path)}: not a regular file: its format must be specified")
        with files.open_once(path) as file:
            return format_of(file)
    return detection.detect_labelled(detection.first_lines(path))


def read(
    path: str | os.PathLike[str] | files.OpenFile,
    format: str | None = None,
    columns: Columns | None = None,
) -> tuple[list[list[Token]], list[list[str]]]:
    """Return ``(X, y)`` of a file with labels; raise FormatError if it has no sequence.

    The file is opened and read once, so it may be a pipe.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "my.md"
    >>> size = path.write_text("call [Ann](person)")
    >>> read(path)
    ([['call', 'Ann']], [['O', 'B-person']])
    """
    if format is not None:
        _validate_format(format, LABELLED)
    name = files.name_of(path)
    with files.open_once(path) as file:
        file.encoding = columns.encoding if columns is not None else None
        is_guess = format is None and format_by_name(name) is None
        format = _validate_format(format or format_of(file), LABELLED)
        lines = detection.first_lines(file)
        if format in ("conll", "jsonl"):
            detection.refuse_other_formats(name, lines)
        reader = BY_NAME[format].read
        assert reader is not None  # all formats of LABELLED have a `read` function
        try:
            X, y = reader(file, validate_columns(columns, format))
        except FormatError as error:
            is_text = not any("\t" in line or "\0" in line for line in lines)
            # An error with a cause is not about rows, but about bytes that cannot be decoded.
            if is_guess and format == "conll" and is_text and error.__cause__ is None:
                raise FormatError(f"{error}; {_READ_AS_ROWS}") from None
            raise
    if not X:
        raise FormatError(f"{name}: the file contains no sequence")
    return X, y


def iterate(
    source: Source,
    format: str,
    width: int,
    columns: Columns | None = None,
    trained: Layout | None = None,
) -> Iterator[Sequence]:
    """Yield sequences to label, with tokens of ``width`` columns, in constant memory.

    A conll file may have more columns, such as a label. `Sequence.rows` contains them. The columns
    of a token are those of the training data, if their layout is known.

    >>> next(iterate(["Ann NNP B-PER", "sings VBZ O"], "conll", width=2)).tokens
    [('Ann', 'NNP'), ('sings', 'VBZ')]
    >>> next(iterate(["Call Ann!"], "text", width=1)).tokens
    ['Call', 'Ann', '!']
    """
    _validate_format(format, FORMATS)
    columns = validate_columns(columns, format)
    if width > 1 and not BY_NAME[format].several_columns:
        name = files.name_of(source)
        raise InputError(
            f"{name}: the model needs tokens with {width} columns, but {format} has one"
        )
    if format == "conll" and columns.token is None and trained is not None:
        return iterate_rows(source, lambda row: trained.token_columns(width, row))
    return BY_NAME[format].iterate(source, width, columns)


def iterate_numbered(
    source: Source,
    report: Report,
    format: str,
    columns: Columns | None = None,
) -> Iterator[Numbered]:
    """Yield the sequences with labels and the numbers of their lines, in constant memory.

    A wrong line is passed to ``report(line, problem)``, and the next lines are read. Bytes that
    cannot be decoded become lone surrogates (``errors="surrogateescape"``).

    >>> rows = ["Ann B-PER", "", "sings"]
    >>> [x.lines for x in iterate_numbered(rows, lambda *wrong: print(*wrong), "conll")]
    3 the row has 1 columns, but line 1 has 2: 'sings'; the label may be missing
    [[1], [3]]
    """
    reader = BY_NAME[_validate_format(format, LABELLED)].iterate_numbered
    assert reader is not None  # all formats of LABELLED have this function
    columns = validate_columns(columns, format)
    codec = {"encoding": columns.encoding, "errors": "surrogateescape"}
    return reader(source, report, columns, codec)


def width_of(X: list[list[Token]]) -> int:
    """Return the number of columns of the tokens of a corpus.

    >>> width_of([[], ["Ann"]]), width_of([[("Ann", "NNP")]])
    (1, 2)
    """
    return next((count_columns(x[0]) for x in X if x), 1)


def write(
    target: Target,
    X: list[list[Token]],
    y: list[list[str]],
    format: str,
    scheme: str = "BIO",
) -> None:
    """Write a file with labels. ``scheme`` is the tagging scheme of y, which only markup uses."""
    writer = BY_NAME[_validate_format(format, WRITABLE)].write
    assert writer is not None  # all formats of WRITABLE have this function
    writer(target, X, y, scheme)


def line_with(
    path: str | os.PathLike[str],
    label: str,
    format: str | None = None,
    columns: Columns | None = None,
) -> int | None:
    r"""Return the number of the first line that contains a label, or None; for error messages.

    The result is None too if the path is a pipe.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "dev.conll"
    >>> size = path.write_text("B-X O\n\nb B-X\n")
    >>> line_with(path, "B-X")
    3
    """
    if not Path(path).is_file():  # a pipe cannot be read a second time
        return None
    name = format or format_of(path)
    labels_of = BY_NAME[name].labels_of
    assert labels_of is not None  # all formats of LABELLED have this function
    encoding = columns.encoding if columns is not None else "utf-8"
    has_tabs = name == "conll" and any("\t" in line for line in files.lines(path, encoding))
    for line_number, line in enumerate(files.lines(path, encoding), 1):
        if has_tabs and line.startswith("# ") and "\t" not in line:  # a comment
            continue
        if label in labels_of(line, columns or Columns()):
            return line_number
    return None


def _validate_format(format: str, allowed: tuple[str, ...]) -> str:
    if format not in allowed:
        raise InputError(f"format must be one of {', '.join(allowed)} here, not {format!r}")
    return format


def validate_columns(columns: Columns | None, format: str) -> Columns:
    """Return the columns; raise InputError if the format does not allow choosing them."""
    columns = columns or Columns()
    if columns.token is not None and format != "conll":
        raise InputError(f"columns can be chosen only in conll files, not in {format}")
    if columns.label is not None and format not in ("conll", "conllu"):
        raise InputError(
            f"the label column can be chosen only in conll and conllu files, not in {format}"
        )
    return columns
