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

A second extension ``.gz`` or ``.xz`` is ignored. The format of any other file with labels is
detected from its first lines. It is jsonl if the first line starts with ``{``, markup if a line
contains ``](``, and conll otherwise.

A new format is added to the table `_FORMATS`, at the end of this file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from trellis.data import conll, conllu, files, jsonl, markup, text
from trellis.data.files import Source, Target, Token
from trellis.errors import FormatError, InputError

__all__ = [
    "FORMATS",
    "LABELLED",
    "Columns",
    "Sequence",
    "format_by_name",
    "format_of",
    "iterate",
    "line_with",
    "read",
    "width_of",
    "write",
]

_MAX_LINES = 20  # lines read to detect a format; the first lines may be comments or have no spans


class Columns(NamedTuple):
    """The columns of a row that are the token and the label."""

    token: tuple[int, ...] | None = None
    """In conll: the indices of the columns of a token; None for all except the label."""
    label: str | None = None
    """In conll: the index of the label column, None for the last. In conllu: its name, None for
    upos."""


class Sequence(NamedTuple):
    """A sequence to label."""

    tokens: list[Token]
    rows: list[str]
    """The tokens with all columns of the file, separated by tabs."""
    columns: int
    """The number of columns of a row."""
    text: str | None = None
    """The raw text, if there is one; the tokens are parts of it."""
    entry: dict[str, Any] | None = None
    """The JSON object of the sequence, in the format jsonl."""


def format_by_name(path: str | os.PathLike[str]) -> str | None:
    """Return the format that the extension of a file means, or None.

    >>> format_by_name("train.conll.gz"), format_by_name("notes.txt")
    ('conll', None)
    """
    uncompressed = Path(path)
    if uncompressed.suffix.lower() in (".gz", ".xz"):
        uncompressed = uncompressed.with_suffix("")
    extension = uncompressed.suffix.lower()
    return next((name for name, f in _FORMATS.items() if extension in f.extensions), None)


def format_of(path: str | os.PathLike[str], labelled: bool = True) -> str:
    """Detect the format by the extension of a file, or if it is unknown, by the first lines.

    A file with an unknown extension and without labels has the format "text".

    >>> format_of("train.conll.gz"), format_of("notes.txt", labelled=False)
    ('conll', 'text')
    """
    format = format_by_name(path)
    if format or not labelled:
        return format or "text"
    # The lines of a pipe can be read only once, so they cannot be used for detection.
    if not Path(path).is_file() and Path(path).exists():
        raise InputError(f"{os.fspath(path)}: not a regular file: its format must be specified")
    rows = (line for line in files.lines(path) if line.strip() and not line.startswith("# "))
    first = [*islice(rows, _MAX_LINES)]
    if first and first[0].lstrip().startswith("{"):
        return "jsonl"
    return "markup" if any("](" in line for line in first) else "conll"


def read(
    path: str | os.PathLike[str], format: str | None = None, columns: Columns | None = None
) -> tuple[list[list[Token]], list[list[str]]]:
    """Return ``(X, y)`` of a file with labels; raise FormatError if it has no sequence.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "my.md"
    >>> size = path.write_text("call [Ann](person)")
    >>> read(path)
    ([['call', 'Ann']], [['O', 'B-person']])
    """
    format = _validate_format(format or format_of(path), LABELLED)
    reader = _FORMATS[format].read
    assert reader is not None  # all formats of LABELLED have one
    X, y = reader(path, _validate_columns(columns, format))
    if not X:
        raise FormatError(f"{os.fspath(path)}: the file contains no sequence")
    return X, y


def iterate(
    source: Source, format: str, width: int, columns: Columns | None = None
) -> Iterator[Sequence]:
    """Yield sequences to label, with tokens of ``width`` columns, in constant memory.

    A conll file may have more columns, such as a label. `Sequence.rows` contains them.

    >>> next(iterate(["Ann NNP B-PER", "sings VBZ O"], "conll", width=2)).tokens
    [('Ann', 'NNP'), ('sings', 'VBZ')]
    >>> next(iterate(["Call Ann!"], "text", width=1)).tokens
    ['Call', 'Ann', '!']
    """
    _validate_format(format, FORMATS)
    columns = _validate_columns(columns, format)
    if width > 1 and not _FORMATS[format].several_columns:
        name = files.name_of(source)
        raise InputError(
            f"{name}: the model needs tokens with {width} columns, but {format} has one"
        )
    return _FORMATS[format].iterate(source, width, columns)


def width_of(X: list[list[Token]]) -> int:
    """Return the number of columns of the tokens of a corpus.

    >>> width_of([[], ["Ann"]]), width_of([[("Ann", "NNP")]])
    (1, 2)
    """
    return next((_count_columns(x[0]) for x in X if x), 1)


def _count_columns(token: Token) -> int:
    return 1 if isinstance(token, str) else len(token)


def write(
    target: Target,
    X: list[list[Token]],
    y: list[list[str]],
    format: str,
    scheme: str = "BIO",
) -> None:
    """Write a file with labels. ``scheme`` is the tagging scheme of y, which only markup uses."""
    writers = {name: f.write for name, f in _FORMATS.items() if f.write is not None}
    writers[_validate_format(format, tuple(writers))](target, X, y, scheme)


def line_with(
    path: str | os.PathLike[str],
    label: str,
    format: str | None = None,
    columns: Columns | None = None,
) -> int | None:
    r"""Return the number of the first line that contains a label, or None; for error messages.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "dev.conll"
    >>> size = path.write_text("B-X O\n\nb B-X\n")
    >>> line_with(path, "B-X")
    3
    """
    name = format or format_of(path)
    labels_of = _FORMATS[name].labels_of
    assert labels_of is not None  # all formats of LABELLED have one
    has_tabs = name == "conll" and any("\t" in line for line in files.lines(path))
    for number, line in enumerate(files.lines(path), 1):
        if has_tabs and line.startswith("# ") and "\t" not in line:  # a comment
            continue
        if label in labels_of(line, columns or Columns()):
            return number
    return None


def _validate_format(format: str, allowed: tuple[str, ...]) -> str:
    if format not in allowed:
        raise InputError(f"format must be one of {', '.join(allowed)} here, not {format!r}")
    return format


def _validate_columns(columns: Columns | None, format: str) -> Columns:
    """Return the columns; raise InputError if they are chosen in a format that has none."""
    columns = columns or Columns()
    if columns.token is not None and format != "conll":
        raise InputError(f"columns can be chosen only in conll files, not in {format}")
    if columns.label is not None and format not in ("conll", "conllu"):
        raise InputError(
            f"the label column can be chosen only in conll and conllu files, not in {format}"
        )
    return columns


# ---- the formats


def _read_conll(path: Source, columns: Columns) -> Any:
    return conll.read(path, columns=columns.token, label_column=_parse_label_index(columns))


def _parse_label_index(columns: Columns) -> int:
    try:
        return -1 if columns.label is None else int(columns.label)
    except ValueError:
        raise InputError(f"the label column must be a number, not {columns.label!r}") from None


def _read_conllu(path: Source, columns: Columns) -> Any:
    return conllu.read(path, column=columns.label or "upos")


def _iterate_conll(source: Source, width: int, columns: Columns) -> Iterator[Sequence]:
    token = columns.token
    if token is not None and len(token) != width:
        raise InputError(f"token columns: the model needs {width}, but {len(token)} are chosen")
    for tokens, rows in conll.iterate_rows(source, columns=token or range(width)):
        yield Sequence(tokens, rows, rows[0].count("\t") + 1)


def _iterate_conllu(source: Source, width: int, columns: Columns) -> Iterator[Sequence]:
    for words in conllu.iterate(source):
        forms = [word.form for word in words]
        yield Sequence([*forms], forms, 1)


def _iterate_jsonl(source: Source, width: int, columns: Columns) -> Iterator[Sequence]:
    for number, (tokens, entry) in enumerate(jsonl.iterate_objects(source), 1):
        wrong = next((t for t in tokens if _count_columns(t) != width), None)
        if wrong is not None:
            where = f"{files.name_of(source)}, sequence {number}"
            raise FormatError(
                f"{where}: the model needs tokens with {width} columns, not {wrong!r}"
            )
        raw = entry["text"] if "tokens" not in entry else None
        rows = [t if isinstance(t, str) else "\t".join(t) for t in tokens]
        yield Sequence(tokens, rows, width, raw, entry)


def _iterate_markup(source: Source, width: int, columns: Columns) -> Iterator[Sequence]:
    for tokens, _ in markup.iterate(source):
        yield Sequence([*tokens], tokens, 1)


def _iterate_text(source: Source, width: int, columns: Columns) -> Iterator[Sequence]:
    for line in files.lines(source):
        words = text.tokenize(line)
        yield Sequence([*words], words, 1, line)


def _iterate_tokens(source: Source, width: int, columns: Columns) -> Iterator[Sequence]:
    for tokens in text.iterate(source):
        yield Sequence([*tokens], tokens, 1)


def _find_conll_labels(line: str, columns: Columns) -> list[str]:
    cells = line.split("\t") if "\t" in line else line.split()
    return [cells[_parse_label_index(columns)]] if cells else []


def _find_conllu_labels(line: str, columns: Columns) -> list[str]:
    cells = [] if line.startswith("#") else line.split("\t")
    return [cells[conllu.COLUMNS[columns.label or "upos"]]] if len(cells) > 1 else []


class _Format(NamedTuple):
    """The functions and extensions of one format."""

    iterate: Callable[[Source, int, Columns], Iterator[Sequence]]
    """``iterate(source, width, columns)`` yields the sequences to label."""
    extensions: tuple[str, ...] = ()
    read: Callable[[Source, Columns], tuple[Any, Any]] | None = None
    """``read(path, columns)`` returns (X, y). None for formats without labels."""
    labels_of: Callable[[str, Columns], list[str]] | None = None
    """``labels_of(line, columns)`` returns the labels in one line of a file."""
    write: Callable[[Target, Any, Any, str], None] | None = None
    """``write(target, X, y, scheme)`` writes a file."""
    several_columns: bool = False
    """True if tokens may have more than one column."""


_FORMATS = {
    "conll": _Format(
        _iterate_conll,
        extensions=(".conll", ".bio", ".iob", ".iob2", ".tsv"),
        read=_read_conll,
        labels_of=_find_conll_labels,
        write=lambda target, X, y, _: conll.write(target, X, y),
        several_columns=True,
    ),
    "conllu": _Format(
        _iterate_conllu, extensions=(".conllu",), read=_read_conllu, labels_of=_find_conllu_labels
    ),
    "jsonl": _Format(
        _iterate_jsonl,
        extensions=(".jsonl", ".ndjson"),
        read=lambda path, _: jsonl.read(path),
        labels_of=lambda line, _: [tag for _, tags in jsonl.iterate([line]) for tag in tags],
        write=lambda target, X, y, _: jsonl.write(target, X, y),
        several_columns=True,
    ),
    "markup": _Format(
        _iterate_markup,
        extensions=(".md", ".markup"),
        read=lambda path, _: markup.read(path),
        labels_of=lambda line, _: [tag for _, tags in markup.iterate([line]) for tag in tags],
        write=markup.write,
    ),
    "text": _Format(_iterate_text),
    "tokens": _Format(_iterate_tokens),
}
FORMATS = tuple(_FORMATS)
LABELLED = tuple(name for name, f in _FORMATS.items() if f.read is not None)
