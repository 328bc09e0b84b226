"""CoNLL-U, the format of Universal Dependencies: ten columns, a blank line after each sentence.

Only words are read. Comments (``#``), surface tokens that span words (id ``3-4``) and empty nodes
(id ``8.1``) are skipped. ``_`` means that a column is not annotated. The package ``conllu`` reads
the complete format, including trees.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from trellis.data import files
from trellis.data.files import Numbered, Report, Source, Token
from trellis.errors import FormatError, InputError

__all__ = ["Word", "iterate", "iterate_numbered", "read"]

_NAMES = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
COLUMNS = {name.lower(): _NAMES.index(name) for name in _NAMES[1:6]}
_NOT_A_WORD = re.compile(r"[0-9]+[-.][0-9]+")


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a sentence. A column that is not annotated has the value ``_``."""

    form: str
    lemma: str
    upos: str
    xpos: str
    feats: dict[str, str]


def read(
    source: Source, *, column: str = "upos", encoding: str = "utf-8", errors: str = "strict"
) -> tuple[list[list[str]], list[list[str]]]:
    r"""Return ``(X, y)``: the forms of each sentence, and the values of `column` as labels.

    `column` is ``form``, ``lemma``, ``upos``, ``xpos`` or ``feats``; `source` is a path (also of a
    ``gzip`` or ``xz`` file), an open file, or lines.

    >>> lines = [
    ...     "# text = Ann sings",
    ...     "1\tAnn\tAnn\tPROPN\tNNP\tNumber=Sing\t2\tnsubj\t_\t_",
    ...     "2\tsings\tsing\tVERB\tVBZ\tNumber=Sing|Person=3\t0\troot\t_\t_",
    ... ]
    >>> read(lines)
    ([['Ann', 'sings']], [['PROPN', 'VERB']])
    >>> read(lines, column="feats")[1]
    [['Number=Sing', 'Number=Sing|Person=3']]
    """
    position = _find_column(column)
    X, y = [], []
    for rows in _parse_sentences(source, encoding, errors):
        X.append([values[1] for _, values in rows])
        y.append([values[position] for _, values in rows])
    return X, y


def iterate(
    source: Source, *, encoding: str = "utf-8", errors: str = "strict"
) -> Iterator[list[Word]]:
    r"""Yield the words of each sentence, in constant memory.

    >>> row = "1\tsings\tsing\tVERB\tVBZ\tNumber=Sing|Person=3\t0\troot\t_\t_"
    >>> word, = next(iterate([row]))
    >>> word.form, word.lemma, word.feats
    ('sings', 'sing', {'Number': 'Sing', 'Person': '3'})
    """
    name = files.name_of(source)
    for rows in _parse_sentences(source, encoding, errors):
        yield [
            Word(form, lemma, upos, xpos, _parse_features(feats, name, line_number))
            for line_number, (_, form, lemma, upos, xpos, feats, *_) in rows
        ]


def iterate_numbered(
    source: Source,
    report: Report,
    *,
    column: str = "upos",
    encoding: str = "utf-8",
    errors: str = "strict",
) -> Iterator[Numbered]:
    r"""Yield all sentences with the numbers of their lines; report wrong rows and continue.

    >>> row = "1\tsings\tsing\tVERB\tVBZ\t_\t0\troot\t_\t_"
    >>> next(iterate_numbered(["# a comment", row], print))
    Numbered(tokens=['sings'], labels=['VERB'], lines=[2], line=2)
    """
    position = _find_column(column)
    for rows in _parse_sentences(source, encoding, errors, report):
        numbers = [number for number, _ in rows]
        tokens: list[Token] = [values[1] for _, values in rows]
        yield Numbered(tokens, [values[position] for _, values in rows], numbers, numbers[0])


def _find_column(name: str) -> int:
    if name not in COLUMNS:
        raise InputError(f"column must be one of {', '.join(COLUMNS)}, not {name!r}")
    return COLUMNS[name]


def _parse_sentences(
    source: Source, encoding: str, errors: str, report: Report | None = None
) -> Iterator[list[tuple[int, list[str]]]]:
    """Yield (line number, ten values) of all words, sentence by sentence.

    A wrong row raises an error. With ``report``, it is reported, and all its values are empty.
    """
    name = files.name_of(source)
    rows: list[tuple[int, list[str]]] = []
    for number, line in enumerate(files.lines(source, encoding, errors), 1):
        if not line or line.isspace():
            if rows:
                yield rows
            rows = []
        elif not line.startswith("#"):
            try:
                values = _parse_row(name, number, line, len(rows) + 1)
            except FormatError as error:
                if report is None:
                    raise
                report(number, files.problem_of(error, name, number))
                values = [""] * len(_NAMES)
            if values is not None:
                rows.append((number, values))
    if rows:
        yield rows


def _parse_row(name: str, number: int, line: str, expected: int) -> list[str] | None:
    """Return the values of a row, or None if it is not a word; its number must be ``expected``."""
    values = line.split("\t")
    if len(values) != len(_NAMES) or "" in values:
        raise _make_error(name, number, line, values)
    # Words must be numbered 1, 2, …; otherwise the file is damaged.
    if values[0] == str(expected):
        return values
    if _NOT_A_WORD.fullmatch(values[0]):
        return None
    problem = f"column 1 (ID) is {files.quote(values[0])}, expected {expected}"
    raise files.line_error(name, number, problem)


def _make_error(name: str, number: int, line: str, values: list[str]) -> FormatError:
    if len(values) != len(_NAMES):
        problem = (
            f"the row has {len(values)} columns, expected {len(_NAMES)} separated by tabs: "
            f"{files.quote(line)}"
        )
    else:
        position = values.index("")
        problem = f"column {position + 1} ({_NAMES[position]}) is empty: {files.quote(line)}"
    return files.line_error(name, number, problem)


def _parse_features(text: str, name: str, number: int) -> dict[str, str]:
    """Parse ``Case=Nom|Number=Sing`` into a dict."""
    features: dict[str, str] = {}
    for pair in text.split("|") if text != "_" else ():
        key, separator, value = pair.partition("=")
        if not (key and separator and value) or key in features:
            problem = f"column 6 (FEATS) is not Name=Value|Name=Value with distinct names: {text!r}"
            raise files.line_error(name, number, problem)
        features[key] = value
    return features
