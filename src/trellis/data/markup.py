r"""Inline markup: one sequence per line, with its spans in brackets.

``book a table at [Nobu](restaurant) for [four](party_size)``
    The brackets contain the words of a span, and the parentheses after them its label.

A backslash escapes ``[``, ``]``, ``(``, ``)``, ``\`` and ``#``; outside of labels, parentheses need
no escape. Blank lines are skipped. A line that starts with ``#`` and a space is a comment; a
sequence that starts like that is written with ``\#``.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from trellis.data import files, tags
from trellis.data import spans as characters
from trellis.data.files import Numbered, Report, Source, Target
from trellis.data.text import offsets
from trellis.errors import FormatError, InputError

__all__ = ["iterate", "iterate_numbered", "mark", "read", "write"]

# Possessive quantifiers (++, *+): with backtracking, a long line with an unclosed bracket would
# take exponential time.
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
    r"""Return ``(X, y)`` of a file; `scheme` is the tagging scheme of the labels.

    The text is split into tokens by `trellis.data.text.tokenize`; with ``split=True``, white space
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
    sequences = iterate(source, scheme=scheme, split=split, encoding=encoding, errors=errors)
    for tokens, labels in sequences:
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
    """Yield ``(tokens, tags)`` of each line, in constant memory; arguments as in `read`.

    >>> next(iterate(["[Ann](person) sings"], scheme="BILOU"))
    (['Ann', 'sings'], ['U-person', 'O'])
    """
    tags.from_spans([], 0, scheme)  # raises for an unknown scheme, before a line is read
    return _parse_lines(source, scheme, split, encoding, errors)


def iterate_numbered(
    source: Source,
    report: Report,
    *,
    scheme: str = "BIO",
    encoding: str = "utf-8",
    errors: str = "strict",
) -> Iterator[Numbered]:
    """Yield all sequences with the numbers of their lines; report wrong lines and continue.

    >>> lines = ["[Ann sings", "[Ann](person)"]
    >>> list(iterate_numbered(lines, lambda line, problem: print(line, problem)))
    1 unclosed bracket: '[Ann sings'
    [Numbered(tokens=['Ann'], labels=['B-person'], lines=[2], line=2)]
    """
    name = files.name_of(source)
    for number, line in _iterate_lines(source, encoding, errors):
        try:
            tokens, labels = _parse_line(name, number, line, scheme, split=False)
        except FormatError as error:
            report(number, files.problem_of(error, name, number))
        else:
            yield Numbered([*tokens], labels, [number] * len(tokens), number)


def write(
    target: Target,
    X: Sequence[Sequence[str]],
    y: Sequence[Sequence[str]],
    scheme: str = "BIO",
) -> None:
    """Write one line per sequence, with spaces between tokens, for ``read(..., split=True)``.

    Data that `read` would not return unchanged raise an InputError. In the scheme ``plain``, each
    token whose label is not O is marked separately. `target` is a path (compressed if it ends in
    ``.gz`` or ``.xz``) or an open file.

    >>> import sys
    >>> write(sys.stdout, [["Ann", "Lee", "sings"]], [["B-person", "I-person", "O"]])
    [Ann Lee](person) sings
    >>> write(sys.stdout, [["Ann", "Lee", "sings"]], [["NAME", "NAME", "VERB"]], scheme="plain")
    [Ann](NAME) [Lee](NAME) [sings](VERB)
    >>> write(sys.stdout, [["Ann", "Lee", "sings"]], [["B-person", "I-name", "O"]])
    Traceback (most recent call last):
        ...
    trellis.errors.InputError: sequence 0, position 1: label 'I-name' would be read as 'B-name'
    """
    reader = tags.Reader(scheme)
    files.write(target, (_format_line(*pair, reader, scheme) for pair in files.pairs(X, y)))


def mark(text: str, spans: Sequence[tuple[int, int, str]]) -> str:
    r"""Return the markup of a raw text with spans (start, end, label) of its characters.

    A span covers ``text[start:end]``. Spans may be in any order.

    >>> mark("Ann [sic] sings in New York", [(19, 27, "place"), (0, 3, "person")])
    '[Ann](person) \\[sic\\] sings in [New York](place)'
    """
    if not isinstance(text, str):
        raise InputError(f"text must be str, not {type(text).__name__}")
    if "\n" in text:
        raise InputError(
            f"text contains a line break, which markup cannot store: {files.quote(text)}"
        )
    sorted_spans = sorted(characters.validate_span(span, text) for span in spans)
    for before, after in pairwise(sorted_spans):
        if after[0] < before[1]:
            raise characters.span_error(after, f"overlaps {before}", text)
    pieces: list[str] = []
    position = 0
    for start, end, label in sorted_spans:
        if problem := _find_label_problem(label):
            raise InputError(problem)
        pieces += _escape(text[position:start]), f"[{_escape(text[start:end])}]({_escape(label)})"
        position = end
    line = "".join(pieces) + _escape(text[position:])
    return "\\" + line if line.startswith("# ") else line


def _find_label_problem(label: str) -> str | None:
    """Return the reason why a label cannot be written in markup, or None."""
    if not label:
        return "the label is empty"
    if label != label.strip() or "\n" in label:
        return f"label {label!r} contains a line break, or starts or ends with white space"
    return None


def _escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", text)


def _format_line(
    number: int,
    tokens: Sequence[Any],
    labels: Sequence[str] | None,
    reader: tags.Reader,
    scheme: str,
) -> str:
    if labels is None:
        raise InputError("y is None: markup needs labels")
    if not len(tokens):
        raise InputError("sequence {sequence} is empty: it would be a blank line", sequence=number)
    for position, token in enumerate(tokens):
        if problem := _find_token_problem(token):
            raise InputError(
                f"sequence {{sequence}}, position {position}: {problem}", sequence=number
            )
    try:
        token_spans = _convert_to_spans(labels, reader, scheme)
        ends = [0]
        for token in tokens:
            ends.append(ends[-1] + len(token) + 1)  # 1 for the space after the token
        spans = [(ends[start], ends[end] - 1, label) for label, start, end in token_spans]
        return mark(" ".join(tokens), spans) + "\n"
    except InputError as error:
        raise InputError(f"sequence {{sequence}}, {error}", sequence=number) from None


def _find_token_problem(token: Any) -> str | None:
    if isinstance(token, tuple):
        return f"{token!r} has several columns, but markup has one"
    if not isinstance(token, str):
        return f"{token!r} is {type(token).__name__}, not str"
    if not _TOKEN.fullmatch(token) or "\0" in token:
        return f"{token!r} is empty, or contains white space or a zero byte"
    return None


def _convert_to_spans(
    labels: Sequence[str], reader: tags.Reader, scheme: str
) -> list[tuple[str, int, int]]:
    """Return the spans of tags; raise InputError if `read` would not return the same tags."""
    token_spans = reader(labels)
    result = tags.from_spans(token_spans, len(labels), scheme)
    for position, (label, tag) in enumerate(zip(labels, result, strict=True)):
        if label != tag:
            raise InputError(f"position {position}: label {label!r} would be read as {tag!r}")
    for label, start, _ in token_spans:
        if problem := _find_label_problem(label):
            raise InputError(f"position {start}: {problem}")
    if scheme == "plain":
        return [(label, i, i + 1) for label, start, end in token_spans for i in range(start, end)]
    return token_spans


def _parse_lines(
    source: Source, scheme: str, split: bool, encoding: str, errors: str
) -> Iterator[tuple[list[str], list[str]]]:
    name = files.name_of(source)
    for number, line in _iterate_lines(source, encoding, errors):
        yield _parse_line(name, number, line, scheme, split)


def _iterate_lines(source: Source, encoding: str, errors: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that have a sequence, and their numbers."""
    for number, line in enumerate(files.lines(source, encoding, errors), 1):
        if line and not line.isspace() and not line.startswith("# "):
            yield number, line


def _parse_line(
    name: str, number: int, line: str, scheme: str, split: bool
) -> tuple[list[str], list[str]]:
    try:
        return _parse_sequence(line, scheme, split)
    except (FormatError, InputError) as error:
        raise files.line_error(name, number, str(error)) from error


def _parse_sequence(line: str, scheme: str, split: bool) -> tuple[list[str], list[str]]:
    text, spans, span_texts = _parse_spans(line)
    token_offsets = [match.span() for match in _TOKEN.finditer(text)] if split else offsets(text)
    token_spans = characters.find_token_spans(text, token_offsets, spans, span_texts)
    if scheme == "plain":
        token_spans = _join_touching(token_spans)
    labels = tags.from_spans(token_spans, len(token_offsets), scheme)
    return [text[start:end] for start, end in token_offsets], labels


def _join_touching(spans: list[tags.Span]) -> list[tags.Span]:
    """Join touching spans with the same label, because plain tags cannot distinguish them."""
    joined_spans: list[tags.Span] = []
    for span in spans:
        if joined_spans and (joined_spans[-1].label, joined_spans[-1].end) == (
            span.label,
            span.start,
        ):
            joined_spans[-1] = joined_spans[-1]._replace(end=span.end)
        else:
            joined_spans.append(span)
    return joined_spans


def _parse_spans(line: str) -> tuple[str, list[tuple[int, int, str]], list[str]]:
    """Return the text of a line, the spans of its characters, and the spans as text for errors."""
    text = ""
    spans: list[tuple[int, int, str]] = []
    span_texts: list[str] = []
    # At a syntax error, _PIECE matches the empty string.
    for match in _PIECE.finditer(line):
        if not match.group() and match.end() < len(line):
            raise FormatError(_describe_error(line, match.end()))
        plain_text, span_text, label = (_ESCAPED.sub(r"\1", part or "") for part in match.groups())
        text += plain_text
        if match["label"] is not None:
            span_texts.append(files.quote(match.group()[len(match["plain"]) :]))
            if problem := _find_label_problem(label):
                raise FormatError(f"{problem}: {span_texts[-1]}")
            spans.append((len(text), len(text) + len(span_text), label))
            text += span_text
    return text, spans, span_texts


def _describe_error(line: str, start: int) -> str:
    """Return the message for the syntax error of a line at `start`."""
    bracket_match = _OPENED.match(line, start)
    closed, labelled = bracket_match.groups() if bracket_match else (None, None)
    stop = bracket_match.end() if bracket_match else start
    if closed and not labelled:
        problem = "a (label) must follow the brackets"
    elif stop == len(line):
        problem = "unclosed parenthesis" if labelled else "unclosed bracket"
    elif line[stop] == "\\":
        problem = f"a backslash must precede one of [ ] ( ) \\ #, not {line[stop + 1 :][:1]!r}"
    elif labelled:
        problem = f"a label contains {line[stop]!r}"
    else:
        problem = "nested brackets" if bracket_match else "']' without '['"
    return f"{problem}: {files.quote(line[start:])}"
