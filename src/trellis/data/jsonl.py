"""JSON lines: one object per line, one sequence per object.

``{"tokens": ["Ann", "sings"], "tags": ["B-PER", "O"]}``
    Tokens and their labels. A token with several columns is a list of strings.
``{"text": "Ann sings", "spans": [{"start": 0, "end": 3, "label": "PER"}]}``
    A raw text and spans of its characters (end exclusive). ``[0, 3, "PER"]`` is a span too. The
    text is split into tokens by `trellis.data.text.tokenize`, and the spans become tags.

Other keys are ignored. An object with ``tokens`` has the first form. Blank lines are skipped.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from trellis.data import files, spans, tags, text
from trellis.data.files import Numbered, Report, Source, Target, Token
from trellis.errors import FormatError, InputError

__all__ = ["iterate", "iterate_numbered", "iterate_objects", "read", "write"]

_Item = TypeVar("_Item")


def read(
    source: Source, *, scheme: str = "BIO", encoding: str = "utf-8", errors: str = "strict"
) -> tuple[list[list[Token]], list[list[str]]]:
    """Return ``(X, y)`` of a file; `scheme` is the tagging scheme of the labels of spans.

    `source` is a path (also of a ``gzip`` or ``xz`` file), an open file, or lines.

    >>> lines = [
    ...     '{"tokens": ["Ann", "sings"], "tags": ["B-PER", "O"]}',
    ...     '{"text": "In New York!", "spans": [[3, 11, "LOC"]]}',
    ... ]
    >>> X, y = read(lines)
    >>> X
    [['Ann', 'sings'], ['In', 'New', 'York', '!']]
    >>> y
    [['B-PER', 'O'], ['O', 'B-LOC', 'I-LOC', 'O']]
    >>> read(['{"text": "Newark", "spans": [[0, 3, "LOC"]]}'])
    Traceback (most recent call last):
        ...
    trellis.errors.FormatError: <list>, line 1: span [0, 3, 'LOC'] cuts through 'Newark' in 'Newark'
    """
    X, y = [], []
    for tokens, labels in iterate(source, scheme=scheme, encoding=encoding, errors=errors):
        X.append(tokens)
        y.append(labels)
    return X, y


def iterate(
    source: Source, *, scheme: str = "BIO", encoding: str = "utf-8", errors: str = "strict"
) -> Iterator[tuple[list[Token], list[str]]]:
    """Yield ``(tokens, tags)`` of each object, in constant memory; arguments as in `read`.

    >>> next(iterate(['{"text": "Ann", "spans": [[0, 3, "PER"]]}'], scheme="BILOU"))
    (['Ann'], ['U-PER'])
    """
    tags.from_spans([], 0, scheme)  # raises for an unknown scheme, before a line is read
    return _parse_objects(source, partial(_parse_sequence, scheme=scheme), encoding, errors)


def iterate_numbered(
    source: Source,
    report: Report,
    *,
    scheme: str = "BIO",
    encoding: str = "utf-8",
    errors: str = "strict",
) -> Iterator[Numbered]:
    """Yield all sequences with the numbers of their lines; report wrong lines and continue.

    >>> lines = ['{"tokens": ["Ann"]}', '{"tokens": ["Ann"], "tags": ["B-PER"]}']
    >>> list(iterate_numbered(lines, lambda line, problem: print(line, problem)))
    1 "tags" is missing in the object: it has "tokens"
    [Numbered(tokens=['Ann'], labels=['B-PER'], lines=[2], line=2)]
    """
    name = files.name_of(source)
    convert = partial(_parse_sequence, scheme=scheme)
    for number, line in _iterate_lines(source, encoding, errors):
        try:
            tokens, labels = _parse_object(name, number, line, convert)
        except FormatError as error:
            report(number, files.problem_of(error, name, number))
        else:
            yield Numbered(tokens, labels, [number] * len(tokens), number)


def iterate_objects(
    source: Source, *, encoding: str = "utf-8", errors: str = "strict"
) -> Iterator[tuple[list[Token], dict[str, Any]]]:
    """Yield the tokens of each object, and the object; tags and spans are not required.

    >>> for tokens, entry in iterate_objects(['{"tokens": ["Ann"], "id": 7}', '{"text": "Rome!"}']):
    ...     print(tokens, entry)
    ['Ann'] {'tokens': ['Ann'], 'id': 7}
    ['Rome', '!'] {'text': 'Rome!'}
    """
    return _parse_objects(source, lambda entry: (_parse_tokens(entry), entry), encoding, errors)


def write(
    target: Target,
    X: Sequence[Sequence[Token]],
    y: Sequence[Sequence[str]],
) -> None:
    """Write one object with ``tokens`` and ``tags`` per line.

    `target` is a path (compressed if it ends in ``.gz`` or ``.xz``) or an open file.

    >>> import sys
    >>> write(sys.stdout, [["Ann", "sings"]], [["B-PER", "O"]])
    {"tokens": ["Ann", "sings"], "tags": ["B-PER", "O"]}
    """
    files.write(target, (_format_line(*pair) for pair in files.pairs(X, y)))


def _format_line(number: int, tokens: Sequence[Token], labels: Sequence[str] | None) -> str:
    if labels is None:
        raise InputError("y is None: an object needs tags")
    if problem := _find_problem(tokens, labels):
        raise InputError(f"sequence {{sequence}}, {problem}", sequence=number)
    return json.dumps({"tokens": list(tokens), "tags": list(labels)}, ensure_ascii=False) + "\n"


def _find_problem(tokens: Sequence[Any], labels: Sequence[Any]) -> str | None:
    """Describe the first position whose token or label is not a string, or return None."""
    for position, (token, label) in enumerate(zip(tokens, labels, strict=True)):
        if not (_is_token(token) and isinstance(label, str)):
            return f"position {position}: token {token!r} and label {label!r} must be strings"
    return None


def _is_token(value: object) -> bool:
    if isinstance(value, list | tuple):
        return len(value) > 0 and all(isinstance(column, str) for column in value)
    return isinstance(value, str)


def _parse_objects(
    source: Source, convert: Callable[[dict[str, Any]], _Item], encoding: str, errors: str
) -> Iterator[_Item]:
    name = files.name_of(source)
    for number, line in _iterate_lines(source, encoding, errors):
        yield _parse_object(name, number, line, convert)


def _iterate_lines(source: Source, encoding: str, errors: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, and their numbers."""
    lines = enumerate(files.lines(source, encoding, errors), 1)
    return ((number, line) for number, line in lines if line and not line.isspace())


def _parse_object(
    name: str, number: int, line: str, convert: Callable[[dict[str, Any]], _Item]
) -> _Item:
    try:
        item = convert(_parse(line))
        if "\\u" in line:
            json.dumps(item, ensure_ascii=False).encode()  # raises for an unpaired surrogate
    except UnicodeEncodeError as error:
        raise files.line_error(
            name, number, f"a \\u escape is not a character: {error.reason}"
        ) from error
    except (FormatError, InputError) as error:
        raise files.line_error(name, number, str(error)) from error
    return item


def _parse(line: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:  # RecursionError: deeply nested lists
        raise FormatError(f"not JSON: {error}: {files.quote(line)}") from error
    if not isinstance(entry, dict):
        raise FormatError(f"the line is not a JSON object: {files.quote(line)}")
    return entry


def _parse_tokens(entry: dict[str, Any]) -> list[Token]:
    if "tokens" in entry:
        tokens = _get_list(entry, "tokens")
        for position, token in enumerate(tokens):
            if not _is_token(token):
                raise FormatError(
                    f"position {position}: {token!r} is not a string or a list of strings"
                )
        return [t if isinstance(t, str) else tuple(t) for t in tokens]
    if not isinstance(raw_text := entry.get("text"), str):
        raise FormatError('the object has neither "tokens" nor a string "text"')
    return [*text.tokenize(raw_text)]


def _parse_sequence(entry: dict[str, Any], scheme: str) -> tuple[list[Token], list[str]]:
    if "tokens" in entry:
        tokens, labels = _get_list(entry, "tokens"), _get_list(entry, "tags")
        if len(tokens) != len(labels):
            raise FormatError(f"{len(tokens)} tokens but {len(labels)} tags")
        if problem := _find_problem(tokens, labels):
            raise FormatError(problem)
        return [t if isinstance(t, str) else tuple(t) for t in tokens], labels
    if not isinstance(raw_text := entry.get("text"), str):
        raise FormatError(
            'the object has neither "tokens" with "tags" nor a string "text" with "spans"'
            f"{_name_keys(entry)}"
        )
    return _split_text(raw_text, _get_list(entry, "spans"), scheme)


def _name_keys(entry: dict[str, Any]) -> str:
    """Return the end of a message: the keys that the object has."""
    keys = ", ".join(f'"{key}"' for key in entry)
    return f": it has {keys:.80}" if keys else ""


def _get_list(entry: dict[str, Any], key: str) -> list[Any]:
    if not isinstance(value := entry.get(key), list):
        missing = f"missing in the object{_name_keys(entry)}"
        problem = missing if value is None else f"not a list: {value!r:.60}"
        raise FormatError(f'"{key}" is {problem}')
    return value


def _split_text(source_text: str, values: list[Any], scheme: str) -> tuple[list[Token], list[str]]:
    """Return the tokens of a raw text, and the tags for its spans of characters."""
    offsets = text.offsets(source_text)
    token_spans = spans.find_token_spans(
        source_text, offsets, [spans.validate_span(span, source_text) for span in values], values
    )
    tokens: list[Token] = [source_text[start:end] for start, end in offsets]
    return tokens, tags.from_spans(token_spans, len(offsets), scheme)
