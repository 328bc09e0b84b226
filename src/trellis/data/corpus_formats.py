"""The formats of corpora: how each is read, labelled and written, in one table.

`trellis.data.corpus` uses the table. A new format is added to `BY_NAME`, at the end of this file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from trellis.data import compressed, conll, conllu, files, jsonl, markup, text
from trellis.data.files import Numbered, Report, Source, Target, Token
from trellis.errors import FormatError, InputError

__all__ = [
    "BY_NAME",
    "FORMATS",
    "LABELLED",
    "WRITABLE",
    "Columns",
    "Sequence",
    "count_columns",
    "format_by_name",
    "iterate_rows",
    "parse_label_index",
    "split_row",
]


class Columns(NamedTuple):
    """The columns of a row that are the token and the label, and the encoding of the file."""

    token: tuple[int, ...] | None = None
    """In conll: the indices of the columns of a token; None for all except the label."""
    label: str | None = None
    """In conll: the index of the label column, None for the last. In conllu: its name, None for
    upos."""
    encoding: str = "utf-8"


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


def count_columns(token: Token) -> int:
    """Return the number of columns of a token; 1 for a ``str``."""
    return 1 if isinstance(token, str) else len(token)


def _read_conll(path: Source, columns: Columns) -> Any:
    return conll.read(path, columns=columns.token, label_column=parse_label_index(columns))


def parse_label_index(columns: Columns) -> int:
    """Return the index of the label column of conll rows; the last one if none is chosen."""
    try:
        return -1 if columns.label is None else int(columns.label)
    except ValueError:
        raise InputError(
            f"--label is {columns.label!r}: must be the number of a column, counted from 0, or "
            "from the end with -1"
        ) from None


def _number_conll(source: Source, report: Report, columns: Columns, codec: Any) -> Any:
    label = parse_label_index(columns)
    return conll.iterate_numbered(
        source, report, columns=columns.token, label_column=label, **codec
    )


def _number_conllu(source: Source, report: Report, columns: Columns, codec: Any) -> Any:
    return conllu.iterate_numbered(source, report, column=columns.label or "upos", **codec)


def _read_conllu(path: Source, columns: Columns) -> Any:
    return conllu.read(path, column=columns.label or "upos")


def _iterate_conll(source: Source, width: int, columns: Columns) -> Iterator[Sequence]:
    token = columns.token
    if token is not None and len(token) != width:
        raise InputError(f"token columns: the model needs {width}, but {len(token)} are chosen")
    return iterate_rows(source, lambda _: token or range(width))


def iterate_rows(source: Source, choose: Callable[[int], Any]) -> Iterator[Sequence]:
    """Yield the sequences of a conll file; ``choose(width)`` returns the columns of a token."""
    for tokens, rows in conll.iterate_rows(source, columns=choose):
        yield Sequence(tokens, rows, rows[0].count("\t") + 1)


def _iterate_conllu(source: Source, width: int, columns: Columns) -> Iterator[Sequence]:
    for words in conllu.iterate(source):
        forms = [word.form for word in words]
        yield Sequence([*forms], forms, 1)


def _iterate_jsonl(source: Source, width: int, columns: Columns) -> Iterator[Sequence]:
    for sequence_number, (tokens, entry) in enumerate(jsonl.iterate_objects(source), 1):
        wrong_token = next((t for t in tokens if count_columns(t) != width), None)
        if wrong_token is not None:
            location = f"{files.name_of(source)}, sequence {sequence_number}"
            raise FormatError(
                f"{location}: the model needs tokens with {width} columns, not {wrong_token!r}"
            )
        raw_text = entry["text"] if "tokens" not in entry else None
        rows = [t if isinstance(t, str) else "\t".join(t) for t in tokens]
        yield Sequence(tokens, rows, width, raw_text, entry)


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


def split_row(line: str) -> list[str]:
    """Return the cells of a row, separated by tabs or, without a tab, by white space."""
    return line.split("\t") if "\t" in line else line.split()


def _find_conll_labels(line: str, columns: Columns) -> list[str]:
    cells = split_row(line)
    return [cells[parse_label_index(columns)]] if cells else []


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
    iterate_numbered: Callable[[Source, Report, Columns, Any], Iterator[Numbered]] | None = None
    """``iterate_numbered(source, report, columns, codec)`` yields sequences with their lines.
    ``codec`` has the arguments encoding and errors."""
    labels_of: Callable[[str, Columns], list[str]] | None = None
    """``labels_of(line, columns)`` returns the labels in one line of a file."""
    write: Callable[[Target, Any, Any, str], None] | None = None
    """``write(target, X, y, scheme)`` writes a file."""
    several_columns: bool = False
    """True if tokens may have more than one column."""


BY_NAME = {
    "conll": _Format(
        _iterate_conll,
        extensions=(".conll", ".bio", ".iob", ".iob2", ".tsv"),
        read=_read_conll,
        iterate_numbered=_number_conll,
        labels_of=_find_conll_labels,
        write=lambda target, X, y, _: conll.write(target, X, y),
        several_columns=True,
    ),
    "conllu": _Format(
        _iterate_conllu,
        extensions=(".conllu",),
        read=_read_conllu,
        iterate_numbered=_number_conllu,
        labels_of=_find_conllu_labels,
    ),
    "jsonl": _Format(
        _iterate_jsonl,
        extensions=(".jsonl", ".ndjson"),
        read=lambda path, _: jsonl.read(path),
        iterate_numbered=lambda source, report, _, codec: jsonl.iterate_numbered(
            source, report, **codec
        ),
        labels_of=lambda line, _: [tag for _, tags in jsonl.iterate([line]) for tag in tags],
        write=lambda target, X, y, _: jsonl.write(target, X, y),
        several_columns=True,
    ),
    "markup": _Format(
        _iterate_markup,
        extensions=(".md", ".markup"),
        read=lambda path, _: markup.read(path),
        iterate_numbered=lambda source, report, _, codec: markup.iterate_numbered(
            source, report, **codec
        ),
        labels_of=lambda line, _: [tag for _, tags in markup.iterate([line]) for tag in tags],
        write=markup.write,
    ),
    "text": _Format(_iterate_text),
    "tokens": _Format(_iterate_tokens),
}
FORMATS = tuple(BY_NAME)
LABELLED = tuple(name for name, f in BY_NAME.items() if f.read is not None)
WRITABLE = tuple(name for name, f in BY_NAME.items() if f.write is not None)


def format_by_name(path: str | os.PathLike[str]) -> str | None:
    """Return the format that the extension of a file means, or None.

    >>> format_by_name("train.conll.gz"), format_by_name("notes.txt")
    ('conll', None)
    """
    uncompressed = Path(path)
    if uncompressed.suffix.lower() in compressed.SUFFIXES:
        uncompressed = uncompressed.with_suffix("")
    extension = uncompressed.suffix.lower()
    return next(
        (name for name, format_entry in BY_NAME.items() if extension in format_entry.extensions),
        None,
    )
