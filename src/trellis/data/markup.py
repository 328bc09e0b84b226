r"""Inline mark-up: one sequence a line, its spans in brackets.

``book a table at [Nobu](restaurant) for [four](party_size)``
    Brackets hold the words of a span, and the parentheses right after them its label.

A backslash before ``[``, ``]``, ``(``, ``)``, ``\`` or ``#`` makes it a plain character; outside
labels, parentheses may stand without it. Blank lines are skipped. A line that starts with ``#`` and
a space is a comment; where it is none, it starts with ``\#``.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from trellis.data import files, tags
from trellis.data import spans as characters
from trellis.data.files import Source, Target
from trellis.data.text import offsets
from trellis.errors import FormatError, InputError

__all__ = ["iterate", "mark", "read", "write"]

_ESCAPE = r"\\[\[\]()\\#]"
_WORDS = rf"(?:[^\[\]\\]++|{_ESCAPE})*+"
_LABEL = rf"(?:[^\[\]()\\]++|{_ESCAPE})*+"
_PIECE = re.compile(rf"(?P<plain>{_WORDS})(?:\[(?P<inside>{_WORDS})\]\((?P<label>{_LABEL})\))?")
_OPENED = re.compile(rf"\[{_WORDS}(?P<closed>\](?P<labelled>\({_LABEL})?)?")
_ESCAPED = re.compile(r"\\(.)")
_SPECIAL = re.compile(r"[\[\]()\\]")
_TOKEN = re.compile(r"\S+")


def read(
    source: Source,
    *,
    scheme: str = "BIO",
    split: bool = False,
    encoding: str = "utf-8",
    errors: str = "strict",
) -> tuple[list[list[str]], list[list[str]]]:
    r"""``(X, y)`` of a whole file; `scheme` is that of the tags that spans become.

    The text is cut into tokens by `trellis.data.text.tokenize`; with ``split=True``, white space
    separates them. `source` is a path (also of a ``gzip`` or ``xz`` file), an open file, or lines.

    >>> X, y = read(["# a comment", "", "at [Chez Ana](restaurant), [8 pm](time)"])
    >>> X
    [['at', 'Chez', 'Ana', ',', '8', 'pm']]
    >>> y
    [['O', 'B-restaurant', 'I-restaurant', 'O', 'B-time', 'I-time']]
    >>> read([r"It's \[sic\]  [Ann](person)"], split=True)
    ([["It's", '[sic]', 'Ann']], [['O', 'O', 'B-person']])
    >>> read(["at [Chez Ana for [four](party_size)"])
    Traceback (most recent call last):
        ...
    trellis.errors.FormatError: <list>, line 1: nested brackets: '[Chez Ana for [four](party_size)'
    """
    X, y = [], []
    found = iterate(source, scheme=scheme, split=split, encoding=encoding, errors=errors)
    for tokens, labels in found:
        X.append(tokens)
        y.append(labels)
    return X, y


def iterate(
    source: Source,
    *,
    scheme: str = "BIO",
    split: bool = False,
    encoding: str = "utf-8",
    errors: str = "strict",
) -> Iterator[tuple[list[str], list[str]]]:
    """``(tokens, tags)`` of one line after the other, in constant memory; else as `read`.

    >>> next(iterate(["[Ann](person) sings"], scheme="BILOU"))
    (['Ann', 'sings'], ['U-person', 'O'])
    """
    tags.from_spans([], 0, scheme)  # an unknown scheme is an error before the first line
    return _sequences(source, scheme, split, encoding, errors)


def write(
    target: Target,
    X: Sequence[Sequence[str]],
    y: Sequence[Sequence[str]],
    scheme: str = "BIO",
) -> None:
    """A line a sequence, its tokens separated by spaces: ``read(..., split=True)`` gives them back.

    What would not come back is refused. In the scheme ``plain``, every token whose label is not O
    is marked on its own. `target` is a path (packed if it ends in ``.gz`` or ``.xz``) or an open
    file.

    >>> import sys
    >>> write(sys.stdout, [["Ann", "Lee", "sings"]], [["B-person", "I-person", "O"]])
    [Ann Lee](person) sings
    >>> write(sys.stdout, [["Ann", "Lee", "sings"]], [["NAME", "NAME", "VERB"]], scheme="plain")
    [Ann](NAME) [Lee](NAME) [sings](VERB)
    >>> write(sys.stdout, [["Ann", "Lee", "sings"]], [["B-person", "I-name", "O"]])
    Traceback (most recent call last):
        ...
    trellis.errors.InputError: sequence 0, position 1: label 'I-name' would come back as 'B-name'
    """
    reader = tags.Reader(scheme)
    files.write(target, (_written(*pair, reader, scheme) for pair in files.pairs(X, y)))


def mark(text: str, spans: Sequence[tuple[int, int, str]]) -> str:
    r"""A raw text with spans (start, end, label) of its characters as mark-up.

    Spans come in any order; ``text[start:end]`` is what one covers.

    >>> mark("Ann [sic] sings in New York", [(19, 27, "place"), (0, 3, "person")])
    '[Ann](person) \\[sic\\] sings in [New York](place)'
    """
    if not isinstance(text, str):
        raise InputError(f"text is {type(text).__name__}, not str")
    if "\n" in text:
        raise InputError(f"a line of mark-up cannot hold a line break: {files.shown(text)}")
    ordered = sorted(characters.checked(span, text) for span in spans)
    for before, after in pairwise(ordered):
        if after[0] < before[1]:
            raise characters.misplaced(after, f"overlaps {before}", text)
    pieces: list[str] = []
    done = 0
    for start, end, label in ordered:
        if what := _fault(label):
            raise InputError(what)
        pieces += _escape(text[done:start]), f"[{_escape(text[start:end])}]({_escape(label)})"
        done = end
    line = "".join(pieces) + _escape(text[done:])
    return "\\" + line if line.startswith("# ") else line


def _fault(label: str) -> str | None:
    """Why a label cannot stand in mark-up, if so."""
    if not label:
        return "empty label"
    if label != label.strip() or "\n" in label:
        return f"label {label!r} holds a line break, or white space at its ends"
    return None


def _escape(plain: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", plain)


def _written(
    number: int,
    tokens: Sequence[Any],
    labels: Sequence[str] | None,
    reader: tags.Reader,
    scheme: str,
) -> str:
    if labels is None:
        raise InputError("y is None: there is nothing to mark")
    if not len(tokens):
        raise InputError(f"sequence {number} is empty: it would be a blank line")
    for position, token in enumerate(tokens):
        if what := _unwritable(token):
            raise InputError(f"sequence {number}, position {position}: {what}")
    try:
        found = _marked(labels, reader, scheme)
        ends = [0]
        for token in tokens:
            ends.append(ends[-1] + len(token) + 1)  # one more for the space after it
        spans = [(ends[start], ends[end] - 1, label) for label, start, end in found]
        return mark(" ".join(tokens), spans) + "\n"
    except InputError as error:
        raise InputError(f"sequence {number}, {error}") from None


def _unwritable(token: Any) -> str | None:
    if isinstance(token, tuple):
        return f"{token!r} has columns, and mark-up holds one: choose it first"
    if not isinstance(token, str):
        return f"{token!r} is {type(token).__name__}, not str"
    if not _TOKEN.fullmatch(token) or "\0" in token:
        return f"{token!r} is empty, or holds white space or a zero byte"
    return None


def _marked(labels: Sequence[str], reader: tags.Reader, scheme: str) -> list[tuple[str, int, int]]:
    """The spans of tags that come back as they are."""
    found = reader(labels)
    again = tags.from_spans(found, len(labels), scheme)
    for position, (label, other) in enumerate(zip(labels, again, strict=True)):
        if label != other:
            raise InputError(f"position {position}: label {label!r} would come back as {other!r}")
    for label, start, _ in found:
        if what := _fault(label):
            raise InputError(f"position {start}: {what}")
    if scheme == "plain":
        return [(label, i, i + 1) for label, start, end in found for i in range(start, end)]
    return found


def _sequences(
    source: Source, scheme: str, split: bool, encoding: str, errors: str
) -> Iterator[tuple[list[str], list[str]]]:
    name = files.name_of(source)
    for number, line in enumerate(files.lines(source, encoding, errors), 1):
        if not line or line.isspace() or line.startswith("# "):
            continue
        try:
            found = _sequence(line, scheme, split)
        except (FormatError, InputError) as error:
            raise files.wrong(name, number, str(error)) from error
        yield found


def _sequence(line: str, scheme: str, split: bool) -> tuple[list[str], list[str]]:
    raw, spans, written = _parsed(line)
    places = [match.span() for match in _TOKEN.finditer(raw)] if split else offsets(raw)
    found = characters.covered(raw, places, spans, written)
    labels = tags.from_spans(_joined(found) if scheme == "plain" else found, len(places), scheme)
    return [raw[start:end] for start, end in places], labels


def _joined(found: list[tags.Span]) -> list[tags.Span]:
    """Spans of one label that touch as one span: plain tags do not tell them apart."""
    joined: list[tags.Span] = []
    for span in found:
        if joined and (joined[-1].label, joined[-1].end) == (span.label, span.start):
            joined[-1] = joined[-1]._replace(end=span.end)
        else:
            joined.append(span)
    return joined


def _parsed(line: str) -> tuple[str, list[tuple[int, int, str]], list[str]]:
    """The text of a line, the spans of its characters, and how errors show each of them."""
    raw = ""
    spans: list[tuple[int, int, str]] = []
    written: list[str] = []
    for piece in _PIECE.finditer(line):
        if not piece.group() and piece.end() < len(line):
            raise FormatError(_mistake(line, piece.end()))
        plain, inside, label = (_ESCAPED.sub(r"\1", part or "") for part in piece.groups())
        raw += plain
        if piece["label"] is not None:
            written.append(files.shown(piece.group()[len(piece["plain"]) :]))
            if what := _fault(label):
                raise FormatError(f"{what}: {written[-1]}")
            spans.append((len(raw), len(raw) + len(inside), label))
            raw += inside
    return raw, spans, written


def _mistake(line: str, at: int) -> str:
    """What is wrong with a line that cannot be read on from here."""
    opened = _OPENED.match(line, at)
    closed, labelled = opened.groups() if opened else (None, None)
    stop = opened.end() if opened else at
    if closed and not labelled:
        what = "brackets without a (label) right after them"
    elif stop == len(line):
        what = "unclosed parenthesis" if labelled else "unclosed bracket"
    elif line[stop] == "\\":
        what = f"a backslash stands before one of [ ] ( ) \\ #, not before {line[stop + 1 :][:1]!r}"
    elif labelled:
        what = f"{line[stop]!r} in a label"
    else:
        what = "nested brackets" if opened else "']' without '['"
    return f"{what}: {files.shown(line[at:])}"
