r"""Column files: one row per token, a blank line after each sequence, the label in the last column.

Columns
    If the first row contains a tab, tabs separate the columns of every row, and values may contain
    spaces. Otherwise runs of spaces separate them, or tabs in a row that contains tabs. No other
    character separates columns: a no-break space is part of a token. All rows must have the same
    number of columns. White space at the end of a line is ignored.
Comments
    ``# newdoc``: a line that starts with ``# `` and contains no tab, in a file whose rows are
    tab-separated. In any other file every line is a row, because tokens may start with ``#``.
    Pass ``separator="\t"`` for a tab-separated file whose rows contain no tab: a single column, or
    only comments.
Documents
    A row whose first value is ``-DOCSTART-`` ends the sequence before it and is skipped; with
    ``docstart=True`` it is a separate sequence.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import index, itemgetter
from statistics import mode
from typing import Any, TypedDict, Unpack, overload

from trellis.data import files
from trellis.data.files import Numbered, Report, Source, Target, Token
from trellis.errors import FormatError, InputError

__all__ = ["Token", "iterate", "iterate_numbered", "iterate_rows", "read", "write"]

_BLANKS = " \t\r"
_DOCSTART = "-DOCSTART-"
_MAX_CACHED_ROWS = (
    1 << 16
)  # size of the cache of parsed rows: most rows of a corpus occur many times
_MAX_WIDTH_LINES = 200  # lines from which `iterate_numbered` determines the number of columns


class _Options(TypedDict, total=False):
    """Arguments of `read` and `iterate`, without `label_column`."""

    columns: Sequence[int] | None
    separator: str | None
    docstart: bool
    encoding: str
    errors: str


@overload
def read(
    source: Source, *, label_column: int = -1, **options: Unpack[_Options]
) -> tuple[list[list[Token]], list[list[str]]]: ...


@overload
def read(
    source: Source, *, label_column: None, **options: Unpack[_Options]
) -> tuple[list[list[Token]], None]: ...


def read(
    source: Source,
    *,
    label_column: int | None = -1,
    columns: Sequence[int] | None = None,
    separator: str | None = None,
    docstart: bool = False,
    encoding: str = "utf-8",
    errors: str = "strict",
) -> tuple[list[list[Token]], list[list[str]] | None]:
    """Return ``(X, y)`` of a file; ``y`` is None if `label_column` is None.

    A token consists of the `columns` (by default all except the label): a ``str`` for one column,
    otherwise a tuple. Columns count from 0, or from the end if negative. `source` is a path (also
    of a ``gzip`` or ``xz`` file), an open file, or lines.

    >>> lines = ["Ann NNP B-PER", "sings VBZ O", "", "Hush UH O"]
    >>> X, y = read(lines)
    >>> X
    [[('Ann', 'NNP'), ('sings', 'VBZ')], [('Hush', 'UH')]]
    >>> y
    [['B-PER', 'O'], ['O']]
    >>> read(lines, columns=[0], label_column=1)
    ([['Ann', 'sings'], ['Hush']], [['NNP', 'VBZ'], ['UH']])
    >>> read(["Ann", "sings"], label_column=None)
    ([['Ann', 'sings']], None)
    >>> read(["Ann NNP B-PER", "sings O"])  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
        ...
    trellis.errors.FormatError: <list>, line 2: the row has 2 columns, but line 1 has 3: 'sings O';
    the label may be missing
    """
    rows = _Rows(files.name_of(source), label_column, columns, separator)
    X, y = [], []
    lines = files.lines(source, encoding, errors)
    for tokens, labels, _ in _parse_sequences(lines, rows, docstart):
        X.append(tokens)
        y.append(labels)
    return X, None if label_column is None else y


@overload
def iterate(
    source: Source, *, label_column: int = -1, **options: Unpack[_Options]
) -> Iterator[tuple[list[Token], list[str]]]: ...


@overload
def iterate(
    source: Source, *, label_column: None, **options: Unpack[_Options]
) -> Iterator[tuple[list[Token], None]]: ...


def iterate(
    source: Source,
    *,
    label_column: int | None = -1,
    columns: Sequence[int] | None = None,
    separator: str | None = None,
    docstart: bool = False,
    encoding: str = "utf-8",
    errors: str = "strict",
) -> Iterator[tuple[list[Token], Any]]:
    """Yield ``(tokens, labels)`` of each sequence, in constant memory; arguments as in `read`.

    >>> for tokens, labels in iterate(["Ann B-PER", "sings O", "", "Hush O"]):
    ...     print(tokens, labels)
    ['Ann', 'sings'] ['B-PER', 'O']
    ['Hush'] ['O']
    """
    rows = _Rows(files.name_of(source), label_column, columns, separator)
    sequences = _parse_sequences(files.lines(source, encoding, errors), rows, docstart)
    has_labels = label_column is not None
    return ((tokens, labels if has_labels else None) for tokens, labels, _ in sequences)


def iterate_rows(
    source: Source,
    *,
    columns: Sequence[int] | Callable[[int], Sequence[int]],
    separator: str | None = None,
    encoding: str = "utf-8",
    errors: str = "strict",
) -> Iterator[tuple[list[Token], list[str]]]:
    r"""Yield the tokens of each sequence, and their complete rows, separated by tabs.

    ``columns`` may be a function of the number of columns of the rows.
    ``-DOCSTART-`` rows are separate sequences, so that no row is lost.

    >>> next(iterate_rows(["Ann NNP B-PER", "sings  VBZ O"], columns=[0]))
    (['Ann', 'sings'], ['Ann\tNNP\tB-PER', 'sings\tVBZ\tO'])
    """
    choose = columns if callable(columns) else lambda _: columns
    rows = _CompleteRows(files.name_of(source), choose, separator)
    sequences = _parse_sequences(files.lines(source, encoding, errors), rows, docstart=True)
    return ((tokens, complete_rows) for tokens, complete_rows, _ in sequences)


def iterate_numbered(
    source: Source,
    report: Report,
    *,
    label_column: int = -1,
    columns: Sequence[int] | None = None,
    encoding: str = "utf-8",
    errors: str = "strict",
) -> Iterator[Numbered]:
    """Yield all sequences with the numbers of their lines; report wrong rows and continue.

    The number of columns is the most frequent one of the first rows. A wrong row has an empty token
    and an empty label.

    >>> rows = ["Ann NNP B-PER", "sings O", "well RB O"]
    >>> for sequence in iterate_numbered(rows, lambda line, problem: print(line, problem)):
    ...     print(sequence.labels)
    2 the row has 2 columns, but line 1 has 3: 'sings O'; the label may be missing
    ['B-PER', '', 'O']
    """
    rows = _CommonRows(files.name_of(source), label_column, columns, None)
    lines = files.lines(source, encoding, errors)
    for tokens, labels, numbers in _parse_sequences(lines, rows, False, report):
        yield Numbered(tokens, labels, numbers, numbers[0])


def write(
    target: Target,
    X: Sequence[Sequence[Token]],
    y: Sequence[Sequence[str]] | None = None,
) -> None:
    r"""Write tab-separated rows with the label last; without `y`, only tokens.

    `target` is a path (compressed if it ends in ``.gz`` or ``.xz``) or an open file. Data that
    `read` (with ``docstart=True``) would not return unchanged raise an InputError.

    >>> import io
    >>> file = io.StringIO()
    >>> write(file, [["New York", "sleeps"]], [["B-LOC", "O"]])
    >>> file.getvalue()
    'New York\tB-LOC\nsleeps\tO\n\n'
    """
    files.write(target, _format_rows(X, y))


class _Rows:
    """Splits rows into token and label; the first row determines the number of columns."""

    def __init__(
        self, name: str, label: int | None, columns: Sequence[int] | None, separator: str | None
    ) -> None:
        self.name = name
        self.label = None if label is None else _validate_column("label_column", label)
        self.columns = _validate_columns(columns)
        if separator is not None and (not isinstance(separator, str) or not separator.strip("\n")):
            raise InputError(
                f"separator must be None or a string without line breaks, not {separator!r}"
            )
        self.separator = separator
        self.width = 0
        self.first = 0  # number of the first row

    def look_ahead(self, lines: Iterator[str]) -> Iterator[str]:
        """Determine the separator from the first line that is not a comment; return all lines."""
        if self.separator is not None:
            return lines
        lines_read = []
        for line in lines:
            lines_read.append(line)
            text = line.rstrip(_BLANKS)
            if text and ("\t" in text or not text.startswith("# ")):
                self.separator = "\t" if "\t" in text else None
                break
        return chain(lines_read, lines)

    def is_comment(self, text: str) -> bool:
        # Only tab-separated files have comments: elsewhere "# 5" may be a token and its label.
        return self.separator == "\t" and text.startswith("# ") and "\t" not in text

    def values(self, text: str) -> list[str]:
        if self.separator is not None:
            return text.split(self.separator)
        if "\t" in text:
            return text.split("\t")
        return [value for value in text.split(" ") if value]

    def pick(self, values: list[str], number: int, text: str) -> tuple[Token, str]:
        """Return the token and the label of a row; the label is "" if there is none."""
        if not self.width:
            self._read_first(values, number)
        if len(values) != self.width:
            problem = f"the row has {len(values)} columns, but line {self.first} has {self.width}"
            hint = self._explain_width(len(values), text)
            raise files.line_error(self.name, number, f"{problem}: {files.quote(text)}{hint}")
        token: Token = self.token(values)
        if self.label is None:
            return token, ""
        if not values[self.label]:
            problem = f"the label is empty (label_column={self.label})"
            raise files.line_error(self.name, number, f"{problem}: {files.quote(text)}")
        return token, values[self.label]

    def _explain_width(self, width: int, text: str) -> str:
        """Return a hint why a row has another number of columns than the first one."""
        if self.separator is not None and len(text.split()) == self.width:
            name = "a tab" if self.separator == "\t" else repr(self.separator)
            return f"; {name} must separate the columns, as in line {self.first}"
        if self.separator is None and width > self.width and self.label is not None:
            return "; if tokens contain spaces, separate the columns by tabs in all lines"
        if width == self.width - 1 and self.label is not None:
            return "; the label may be missing"
        return ""

    def _read_first(self, values: list[str], number: int) -> None:
        """Determine from the first row the columns of the token and of the label."""
        self.width, self.first = len(values), number
        label = (
            self._find_column("label_column", self.label, number)
            if self.label is not None
            else None
        )
        if self.columns is None:
            token = [i for i in range(self.width) if i != label]
        else:
            token = [self._find_column("columns", i, number) for i in self.columns]
        if label in token:
            raise self._make_error(number, f"column {label} is used as token and as label")
        if not token:
            raise self._make_error(number, "the label leaves no column for the token")
        self.token = itemgetter(*token)  # one column gives a str, several give a tuple

    def _find_column(self, option: str, column: int, number: int) -> int:
        if not -self.width <= column < self.width:
            raise self._make_error(number, f"{option}: column {column} does not exist")
        return column % self.width

    def _make_error(self, number: int, problem: str) -> FormatError:
        columns = f"the row has {self.width} columns, counted from 0"
        return files.line_error(self.name, number, f"{problem}; {columns}")


class _CompleteRows(_Rows):
    """Like `_Rows`, but `pick` returns the complete row instead of the label."""

    def __init__(
        self, name: str, choose: Callable[[int], Sequence[int]], separator: str | None
    ) -> None:
        super().__init__(name, None, None, separator)
        self.choose = choose

    def _read_first(self, values: list[str], number: int) -> None:
        self.columns = _validate_columns(self.choose(len(values)))
        min_columns = 1 + max(self.columns or [0])
        if len(values) < min_columns:
            raise files.line_error(
                self.name,
                number,
                f"the row has {len(values)} columns, but {min_columns} are needed",
            )
        super()._read_first(values, number)

    def pick(self, values: list[str], number: int, text: str) -> tuple[Token, str]:
        return super().pick(values, number, text)[0], "\t".join(values)


class _CommonRows(_Rows):
    """Like `_Rows`, but the most frequent width of the first rows is the number of columns."""

    def look_ahead(self, lines: Iterator[str]) -> Iterator[str]:
        first = list(islice(super().look_ahead(lines), _MAX_WIDTH_LINES))
        widths = {}
        for number, line in enumerate(first, 1):
            text = line.rstrip(_BLANKS)
            if text and not self.is_comment(text):
                widths[number] = len(self.values(text))
        if widths:
            # With equal counts, `mode` returns the width that comes first.
            width = mode(widths.values())
            number = next(number for number, other in widths.items() if other == width)
            self._read_first([""] * width, number)
        return chain(first, lines)


def _validate_column(option: str, value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InputError(f"{option} must be the index of a column, not {value!r}")
    return index(value)


def _validate_columns(columns: Sequence[int] | None) -> list[int] | None:
    if columns is None:
        return None
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise InputError(f"columns must be a list of column indices, not {columns!r}")
    indices = [_validate_column(f"columns[{i}]", column) for i, column in enumerate(columns)]
    if not indices:
        raise InputError("columns is empty: a token needs at least one column")
    return indices


def _parse_sequences(
    lines: Iterator[str], rows: _Rows, docstart: bool, report: Report | None = None
) -> Iterator[tuple[list[Token], list[str], list[int]]]:
    """Yield the tokens, labels and line numbers of each sequence.

    A wrong row raises an error. With ``report``, it is reported, and its token and label are empty.
    """
    cache: dict[str, tuple[Token, str]] = {}  # line -> token and label
    tokens: list[Token] = []
    labels: list[str] = []
    numbers: list[int] = []
    for number, line in enumerate(rows.look_ahead(lines), 1):
        row = cache.get(line)  # most lines are in the cache and need no parsing
        if row is None:
            text = line.rstrip(_BLANKS)
            if rows.is_comment(text):
                continue
            values = rows.values(text)
            is_docstart = values[:1] == [_DOCSTART]
            if tokens and (is_docstart or not text):
                yield tokens, labels, numbers
                tokens, labels, numbers = [], [], []
            if not text or (is_docstart and not docstart):
                continue
            try:
                row = rows.pick(values, number, text)
            except FormatError as error:
                if report is None:
                    raise
                report(number, files.problem_of(error, rows.name, number))
                row = "", ""
            else:
                if is_docstart:
                    yield [row[0]], [row[1]], [number]
                    continue
                if len(cache) == _MAX_CACHED_ROWS:
                    cache.clear()
                cache[line] = row
        tokens.append(row[0])
        labels.append(row[1])
        numbers.append(number)
    if tokens:
        yield tokens, labels, numbers


def _format_rows(
    X: Sequence[Sequence[Token]],
    y: Sequence[Sequence[str]] | None,
) -> Iterator[str]:
    width = 0
    for sequence_number, tokens, labels in files.pairs(X, y):
        if not len(tokens):
            raise InputError(
                "sequence {sequence} is empty: a column file cannot contain it",
                sequence=sequence_number,
            )
        rows = []
        for position, token in enumerate(tokens):
            values = list(token) if isinstance(token, tuple | list) else [token]
            if labels is not None:
                values.append(labels[position])
            width = width or len(values)
            problem = _find_problem(values, width)
            if problem is None and values[0] == _DOCSTART and len(tokens) > 1:
                problem = f"{_DOCSTART!r} is always a separate sequence"
            if problem is not None:
                raise InputError(
                    f"sequence {{sequence}}, position {position}: {problem}",
                    sequence=sequence_number,
                )
            rows.append("\t".join(values))
        yield "\n".join(rows) + "\n\n"


def _find_problem(values: list[Any], width: int) -> str | None:
    """Return the reason why `read` would not return these values unchanged, or None."""
    if len(values) != width:
        return f"the row has {len(values)} columns, but earlier rows have {width}"
    for value in values:
        if not isinstance(value, str):
            return f"{value!r} is {type(value).__name__}, not str"
        if not {"\t", "\r", "\n", "\0"}.isdisjoint(value):
            return f"{value!r} contains a tab, a line break or a zero byte"
    last = values[-1]
    if not last or last.endswith(" "):
        return f"{last!r} is empty or ends with white space, but is the last column"
    if width == 1 and " " in last:
        return f"{last!r} contains a space, but is the only column"
    return None
