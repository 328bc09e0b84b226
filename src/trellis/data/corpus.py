r"""A corpus by its path: which format a file has, and its sequences.

========  ==========================================  ==============================
format    what it is                                  known by
========  ==========================================  ==============================
conll     columns, see `trellis.data.conll`           .conll .bio .iob .iob2 .tsv
conllu    Universal Dependencies                      .conllu
jsonl     an object a line                            .jsonl .ndjson
markup    ``[Nobu](restaurant)``, a sequence a line   .md .markup
text      raw text, a sequence a line                 .txt, only to be labelled
tokens    the same, cut at white space already        only if it is asked for
========  ==========================================  ==============================

A ``.gz`` or ``.xz`` after that does not count. Any other file that has labels is looked into: if
its first line begins with ``{`` it is jsonl, with ``](`` in the first lines markup, else conll.
"""

import os
from collections.abc import Iterator
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

FORMATS = ("conll", "conllu", "jsonl", "markup", "text", "tokens")
LABELLED = FORMATS[:4]
_LOOKED_AT = 20
_BY_NAME = {
    **dict.fromkeys((".conll", ".bio", ".iob", ".iob2", ".tsv"), "conll"),
    ".conllu": "conllu",
    **dict.fromkeys((".jsonl", ".ndjson"), "jsonl"),
    **dict.fromkeys((".md", ".markup"), "markup"),
}


class Columns(NamedTuple):
    """Which parts of a row are the token and the label."""

    columns: tuple[int, ...] | None = None
    """Of conll: those that make a token; None for all but the label."""
    label: str | None = None
    """Of conll the number of the column, -1 if None; of conllu its name, upos if None."""


class Sequence(NamedTuple):
    """What there is to label."""

    tokens: list[Token]
    rows: list[str]
    """The tokens with all columns that there are, separated by tabs."""
    columns: int
    """How many columns that is."""
    text: str | None = None
    """The raw text, if that is what the tokens were cut from."""
    entry: dict[str, Any] | None = None
    """The object that it comes from, if from one."""


def format_by_name(path: str | os.PathLike[str]) -> str | None:
    """The format that the name of a file says, if it says one.

    >>> format_by_name("train.conll.gz"), format_by_name("notes.txt")
    ('conll', None)
    """
    bare = Path(path)
    if bare.suffix.lower() in (".gz", ".xz"):
        bare = bare.with_suffix("")
    return _BY_NAME.get(bare.suffix.lower())


def format_of(path: str | os.PathLike[str], labelled: bool = True) -> str:
    """The format that a file has by its name, or else, if it has labels, by its first lines.

    >>> format_of("train.conll.gz"), format_of("notes.txt", labelled=False)
    ('conll', 'text')
    """
    known = format_by_name(path)
    if known or not labelled:
        return known or "text"
    if not Path(path).is_file() and Path(path).exists():  # what a pipe has given is gone
        raise InputError(f"{os.fspath(path)}: not a regular file: its format must be said")
    rows = (line for line in files.lines(path) if line.strip() and not line.startswith("# "))
    first = [*islice(rows, _LOOKED_AT)]
    if first and first[0].lstrip().startswith("{"):
        return "jsonl"
    return "markup" if any("](" in line for line in first) else "conll"


def read(
    path: str | os.PathLike[str], format: str | None = None, layout: Columns | None = None
) -> tuple[list[list[Token]], list[list[str]]]:
    """``(X, y)`` of a file with labels, which must not be empty.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "my.md"
    >>> size = path.write_text("call [Ann](person)")
    >>> read(path)
    ([['call', 'Ann']], [['O', 'B-person']])
    """
    format = _checked(format or format_of(path), LABELLED)
    columns, label = _checked_layout(layout, format)
    X: Any
    if format == "conll":
        place = -1 if label is None else _number(label)
        X, y = conll.read(path, columns=columns, label_column=place)
    elif format == "conllu":
        X, y = conllu.read(path, column=label or "upos")
    elif format == "jsonl":
        X, y = jsonl.read(path)
    else:
        X, y = markup.read(path)
    if not X:
        raise FormatError(f"{os.fspath(path)}: there is no sequence in it")
    return X, y


def iterate(
    source: Source, format: str, width: int, layout: Columns | None = None
) -> Iterator[Sequence]:
    """Sequences to label, one after the other in constant memory: tokens of ``width`` columns.

    A file of columns may have more, such as a label: they are left in the rows.

    >>> next(iterate(["Ann NNP B-PER", "sings VBZ O"], "conll", width=2)).tokens
    [('Ann', 'NNP'), ('sings', 'VBZ')]
    >>> next(iterate(["Call Ann!"], "text", width=1)).tokens
    ['Call', 'Ann', '!']
    """
    _checked(format, FORMATS)
    columns, _ = _checked_layout(layout, format)
    if width > 1 and format not in ("conll", "jsonl"):
        name = files.name_of(source)
        raise InputError(f"{name}: the model takes tokens of {width} columns, {format} has one")
    if format == "conll":
        return _columns(source, width, columns)
    if format == "text":
        return _raw(source)
    return _tokens(source, format, width)


def width_of(X: list[list[Token]]) -> int:
    """How many columns the tokens of a corpus have.

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
    """A file with labels; ``scheme`` is that of the tags, which mark-up has to know."""
    _checked(format, ("conll", "jsonl", "markup"))
    if format == "markup":
        markup.write(target, X, y, scheme)  # type: ignore[arg-type]  # which says what it cannot take
    else:
        (conll if format == "conll" else jsonl).write(target, X, y)


def line_with(
    path: str | os.PathLike[str],
    label: str,
    format: str | None = None,
    layout: Columns | None = None,
) -> int | None:
    r"""The first line of a file that has a label: where one that is not known comes from.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "dev.conll"
    >>> size = path.write_text("B-X O\n\nb B-X\n")
    >>> line_with(path, "B-X")
    3
    """
    format = format or format_of(path)
    name = (layout or Columns()).label
    place = conllu.COLUMNS[name or "upos"] if format == "conllu" else int(name or -1)
    tabbed = format == "conllu" or any("\t" in line for line in files.lines(path))
    for number, line in enumerate(files.lines(path), 1):
        if format in ("conll", "conllu"):
            if line.startswith("#" if format == "conllu" else "# ") and "\t" not in line and tabbed:
                continue
            cells = line.split("\t") if "\t" in line else line.split()
            found = bool(cells) and label == cells[place]
        else:
            reader = jsonl if format == "jsonl" else markup
            found = any(label in labels for _, labels in reader.iterate([line]))
        if found:
            return number
    return None


def _checked(format: str, known: tuple[str, ...]) -> str:
    if format not in known:
        raise InputError(f"format must be one of {', '.join(known)} here, not {format!r}")
    return format


def _checked_layout(layout: Columns | None, format: str) -> Columns:
    """What was said of columns, where there are columns of which it can be said."""
    columns, label = layout = layout or Columns()
    if columns is not None and format != "conll":
        raise InputError(f"columns can be chosen of conll files alone, not of {format}")
    if label is not None and format not in ("conll", "conllu"):
        raise InputError(
            f"the label can be chosen of conll and conllu files alone, not of {format}"
        )
    return layout


def _number(label: str) -> int:
    try:
        return int(label)
    except ValueError:
        raise InputError(f"the label column must be a number, not {label!r}") from None


def _columns(source: Source, width: int, columns: tuple[int, ...] | None) -> Iterator[Sequence]:
    if columns is not None and len(columns) != width:
        raise InputError(f"the model takes {width} columns, and {len(columns)} are asked for")
    for tokens, rows in conll.iterate_rows(source, columns=columns or range(width)):
        yield Sequence(tokens, rows, rows[0].count("\t") + 1)


def _raw(source: Source) -> Iterator[Sequence]:
    for line in files.lines(source):
        words = text.tokenize(line)
        yield Sequence([*words], words, 1, line)


def _tokens(source: Source, format: str, width: int) -> Iterator[Sequence]:
    found: Iterator[Any]
    if format == "tokens":
        found = ((tokens, None) for tokens in text.iterate(source))
    elif format == "conllu":
        found = (([word.form for word in words], None) for words in conllu.iterate(source))
    elif format == "jsonl":
        found = jsonl.iterate_objects(source)
    else:
        found = ((tokens, None) for tokens, _ in markup.iterate(source))
    for number, (tokens, entry) in enumerate(found, 1):
        wrong = next((t for t in tokens if _width(t) != width), None)
        if wrong is not None:
            where = f"{files.name_of(source)}, sequence {number}"
            raise FormatError(f"{where}: the model takes tokens of {width} columns, not {wrong!r}")
        raw = entry["text"] if entry and "tokens" not in entry else None
        rows = [t if isinstance(t, str) else "\t".join(t) for t in tokens]
        yield Sequence(tokens, rows, width, raw, entry)
