r"""Corpora by path: which format a file has, and its sequences.

========  ==========================================  ==============================
format    contents                                    extensions
========  ==========================================  ==============================
conll     columns, see `trellis.data.conll`           .conll .bio .iob .iob2 .tsv
conllu    Universal Dependencies                      .conllu
jsonl     one object per line                         .jsonl .ndjson
markup    ``[Nobu](restaurant)``, one sequence a line .md .markup
text      raw text, one sequence per line             .txt, without labels
tokens    the same, tokens separated by white space   none: name the format
========  ==========================================  ==============================

A second extension ``.gz`` or ``.xz`` is ignored. The format of any other file with labels is found
by its first lines: if the first line starts with ``{`` it is jsonl, if one of them contains ``](``
it is markup, else conll.

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

_MAX_LINES = 20  # read to detect a format: enough for a comment and a few sentences without spans


class Columns(NamedTuple):
    """Which columns of a row are the token and the label."""

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
    """The raw text, if the tokens were cut from one."""
    entry: dict[str, Any] | None = None
    """The JSON object, if the sequence comes from one."""


def format_by_name(path: str | os.PathLike[str]) -> str | None:
    """The format by the extension of a file, or None.

    >>> format_by_name("train.conll.gz"), format_by_name("notes.txt")
    ('conll', None)
    """
    bare = Path(path)
    if bare.suffix.lower() in (".gz", ".xz"):
        bare = bare.with_suffix("")
    extension = bare.suffix.lower()
    return next((name for name, f in _FORMATS.items() if extension in f.extensions), None)


def format_of(path: str | os.PathLike[str], labelled: bool = True) -> str:
    """The format by the extension of a file, or else, if it has labels, by its first lines.

    >>> format_of("train.conll.gz"), format_of("notes.txt", labelled=False)
    ('conll', 'text')
    """
    known = format_by_name(path)
    if known or not labelled:
        return known or "text"
    if (
        not Path(path).is_file() and Path(path).exists()
    ):  # the lines of a pipe can be read only once
        raise InputError(f"{os.fspath(path)}: not a regular file, so the format must be named")
    rows = (line for line in files.lines(path) if line.strip() and not line.startswith("# "))
    first = [*islice(rows, _MAX_LINES)]
    if first and first[0].lstrip().startswith("{"):
        return "jsonl"
    return "markup" if any("](" in line for line in first) else "conll"


def read(
    path: str | os.PathLike[str], format: str | None = None, columns: Columns | None = None
) -> tuple[list[list[Token]], list[list[str]]]:
    """``(X, y)`` of a file with labels, which must not be empty.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "my.md"
    >>> size = path.write_text("call [Ann](person)")
    >>> read(path)
    ([['call', 'Ann']], [['O', 'B-person']])
    """
    format = _one_of(format or format_of(path), LABELLED)
    reader = _FORMATS[format].read
    assert reader is not None  # as for all of LABELLED
    X, y = reader(path, _validate_columns(columns, format))
    if not X:
        raise FormatError(f"{os.fspath(path)}: the file contains no sequence")
    return X, y


def iterate(
    source: Source, format: str, width: int, columns: Columns | None = None
) -> Iterator[Sequence]:
    """Yield sequences to label, with tokens of ``width`` columns, in constant memory.

    A file of columns may have more columns, such as a label: they stay in the rows.

    >>> next(iterate(["Ann NNP B-PER", "sings VBZ O"], "conll", width=2)).tokens
    [('Ann', 'NNP'), ('sings', 'VBZ')]
    >>> next(iterate(["Call Ann!"], "text", width=1)).tokens
    ['Call', 'Ann', '!']
    """
    _one_of(format, FORMATS)
    columns = _validate_columns(columns, format)
    if width > 1 and not _FORMATS[format].several_columns:
        name = files.name_of(source)
        raise InputError(f"{name}: the model needs tokens of {width} columns, {format} has one")
    return _FORMATS[format].iterate(source, width, columns)


def width_of(X: list[list[Token]]) -> int:
    """The number of columns of the tokens of a corpus.

    >>> width_of([[], ["Ann"]]), width_of([[("Ann", "NNP")]])
    (1, 2)
    """
    return next((_width(x[0]) for x in X if x), 1)


def _width(token: Token) -> int:
    return 1 if isinstance(token, str) else len(token)


def write(
    target: Target,
    X: list[list[Token]],
    y: list[list[str]],
    format: str,
    scheme: str = "BIO",
) -> None:
    """Write a file with labels; ``scheme`` is the scheme of the tags, which markup needs."""
    writers = {name: f.write for name, f in _FORMATS.items() if f.write is not None}
    writers[_one_of(format, tuple(writers))](target, X, y, scheme)


def line_with(
    path: str | os.PathLike[str],
    label: str,
    format: str | None = None,
    columns: Columns | None = None,
) -> int | None:
    r"""The number of the first line with a label, for error messages about unknown labels.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "dev.conll"
    >>> size = path.write_text("B-X O\n\nb B-X\n")
    >>> line_with(path, "B-X")
    3
    """
    name = format or format_of(path)
    labels_of = _FORMATS[name].labels_of
    assert labels_of is not None  # as for all of LABELLED
    tabbed = name == "conll" and any("\t" in line for line in files.lines(path))
    for number, line in enumerate(files.lines(path), 1):
        if tabbed and line.startswith("# ") and "\t" not in line:  # a comment
            continue
        if label in labels_of(line, columns or Columns()):
            return number
    return None


def _one_of(format: str, known: tuple[str, ...]) -> str:
    if format not in known:
        raise InputError(f"format must be one of {', '.join(known)} here, not {format!r}")
    return format


def _validate_columns(columns: Columns | None, format: str) -> Columns:
    """Raise if columns are chosen in a format that has none."""
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
    return conll.read(path, columns=columns.token, label_column=_label_index(columns))


def _label_index(columns: Columns) -> int:
    try:
        return -1 if columns.label is None else int(columns.label)
    except ValueError:
        raise InputError(f"the label column must be a number, not {columns.label!r}") from None


def _read_conllu(path: Source, columns: Columns) -> Any:
    return conllu.read(path, column=columns.label or "upos")


def _iterate_conll(source: Source, width: int, columns: Columns) -> Iterator[Sequence]:
    token = columns.token
    if token is not None and len(token) != width:
        raise InputError(f"the model needs {width} columns, but {len(token)} are chosen")
    for tokens, rows in conll.iterate_rows(source, columns=token or range(width)):
        yield Sequence(tokens, rows, rows[0].count("\t") + 1)


def _iterate_conllu(source: Source, width: int, columns: Columns) -> Iterator[Sequence]:
    for words in conllu.iterate(source):
        forms = [word.form for word in words]
        yield Sequence([*forms], forms, 1)


def _iterate_jsonl(source: Source, width: int, columns: Columns) -> Iterator[Sequence]:
    for number, (tokens, entry) in enumerate(jsonl.iterate_objects(source), 1):
        wrong = next((t for t in tokens if _width(t) != width), None)
        if wrong is not None:
            where = f"{files.name_of(source)}, sequence {number}"
            raise FormatError(f"{where}: the model needs tokens of {width} columns, not {wrong!r}")
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


def _conll_labels(line: str, columns: Columns) -> list[str]:
    cells = line.split("\t") if "\t" in line else line.split()
    return [cells[_label_index(columns)]] if cells else []


def _conllu_labels(line: str, columns: Columns) -> list[str]:
    cells = [] if line.startswith("#") else line.split("\t")
    return [cells[conllu.COLUMNS[columns.label or "upos"]]] if len(cells) > 1 else []


class _Format(NamedTuple):
    """One format of corpora."""

    iterate: Callable[[Source, int, Columns], Iterator[Sequence]]
    """``iterate(source, width, columns)``: the sequences to label."""
    extensions: tuple[str, ...] = ()
    read: Callable[[Source, Columns], tuple[Any, Any]] | None = None
    """``read(path, columns) -> (X, y)``; None for formats without labels."""
    labels_of: Callable[[str, Columns], list[str]] | None = None
    """``labels_of(line, columns)``: the labels in one line of a file with labels."""
    write: Callable[[Target, Any, Any, str], None] | None = None
    """``write(target, X, y, scheme)``."""
    several_columns: bool = False
    """True if tokens may have more than one column."""


_FORMATS = {
    "conll": _Format(
        _iterate_conll,
        extensions=(".conll", ".bio", ".iob", ".iob2", ".tsv"),
        read=_read_conll,
        labels_of=_conll_labels,
        write=lambda target, X, y, _: conll.write(target, X, y),
        several_columns=True,
    ),
    "conllu": _Format(
        _iterate_conllu, extensions=(".conllu",), read=_read_conllu, labels_of=_conllu_labels
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
