"""JSON lines: one object a line, a sequence each.

``{"tokens": ["Ann", "sings"], "tags": ["B-PER", "O"]}``
    Tokens and their labels. A token of several columns is a list of strings.
``{"text": "Ann sings", "spans": [{"start": 0, "end": 3, "label": "PER"}]}``
    A raw text and spans of its characters (end exclusive), also as ``[0, 3, "PER"]``. The text is
    cut into tokens by `trellis.data.text.tokenize`, and the spans become tags.

Other keys mean nothing. An object that has ``tokens`` is of the first kind. Blank lines are
skipped.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from trellis.data import files, spans, tags, text
from trellis.data.files import Source, Target, Token
from trellis.errors import FormatError, InputError

__all__ = ["iterate", "iterate_objects", "read", "write"]

_Found = TypeVar("_Found")


def read(
    source: Source, *, scheme: str = "BIO", encoding: str = "utf-8", errors: str = "strict"
) -> tuple[list[list[Token]], list[list[str]]]:
    """``(X, y)`` of a whole file; `scheme` is that of the tags that spans become.

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
    """``(tokens, tags)`` of one object after the other, in constant memory; else as `read`.

    >>> next(iterate(['{"text": "Ann", "spans": [[0, 3, "PER"]]}'], scheme="BILOU"))
    (['Ann'], ['U-PER'])
    """
    tags.from_spans([], 0, scheme)  # an unknown scheme is an error before the first line
    return _objects(source, partial(_sequence, scheme=scheme), encoding, errors)


def iterate_objects(
    source: Source, *, encoding: str = "utf-8", errors: str = "strict"
) -> Iterator[tuple[list[Token], dict[str, Any]]]:
    """Tokens and all that is said with them; tags and spans need not be there.

    >>> for tokens, found in iterate_objects(['{"tokens": ["Ann"], "id": 7}', '{"text": "Rome!"}']):
    ...     print(tokens, found)
    ['Ann'] {'tokens': ['Ann'], 'id': 7}
    ['Rome', '!'] {'text': 'Rome!'}
    """
    return _objects(source, lambda found: (_tokens(found), found), encoding, errors)


def write(
    target: Target,
    X: Sequence[Sequence[Token]],
    y: Sequence[Sequence[str]],
) -> None:
    """An object with ``tokens`` and ``tags`` a line.

    `target` is a path (packed if it ends in ``.gz`` or ``.xz``) or an open file.

    >>> import sys
    >>> write(sys.stdout, [["Ann", "sings"]], [["B-PER", "O"]])
    {"tokens": ["Ann", "sings"], "tags": ["B-PER", "O"]}
    """
    files.write(target, (_written(*pair) for pair in files.pairs(X, y)))


def _written(number: int, tokens: Sequence[Token], labels: Sequence[str] | None) -> str:
    if labels is None:
        raise InputError("y is None: an object needs its tags")
    if what := _mistake(tokens, labels):
        raise InputError(f"sequence {number}, {what}")
    return json.dumps({"tokens": list(tokens), "tags": list(labels)}, ensure_ascii=False) + "\n"


def _mistake(tokens: Sequence[Any], labels: Sequence[Any]) -> str | None:
    """The first position whose token or label is not of strings, if any."""
    for position, (token, label) in enumerate(zip(tokens, labels, strict=True)):
        if not (_is_token(token) and isinstance(label, str)):
            return f"position {position}: {token!r} labelled {label!r}: both must be strings"
    return None


def _is_token(value: object) -> bool:
    if isinstance(value, list | tuple):
        return len(value) > 0 and all(isinstance(column, str) for column in value)
    return isinstance(value, str)


def _objects(
    source: Source, take: Callable[[dict[str, Any]], _Found], encoding: str, errors: str
) -> Iterator[_Found]:
    name = files.name_of(source)
    for number, line in enumerate(files.lines(source, encoding, errors), 1):
        if not line or line.isspace():
            continue
        try:
            found = take(_parsed(line))
            if "\\u" in line:
                json.dumps(found, ensure_ascii=False).encode()  # half a surrogate pair is no text
        except UnicodeEncodeError as error:
            raise files.wrong(name, number, f"an escape is no character: {error.reason}") from error
        except (FormatError, InputError) as error:
            raise files.wrong(name, number, str(error)) from error
        yield found


def _parsed(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not JSON: {error}: {files.shown(line)}") from error
    if not isinstance(found, dict):
        raise FormatError(f"not a JSON object: {files.shown(line)}")
    return found


def _tokens(found: dict[str, Any]) -> list[Token]:
    if "tokens" in found:
        tokens = _list_of(found, "tokens")
        for position, token in enumerate(tokens):
            if not _is_token(token):
                raise FormatError(f"position {position}: {token!r} is not made of strings")
        return [t if isinstance(t, str) else tuple(t) for t in tokens]
    if not isinstance(raw := found.get("text"), str):
        raise FormatError('neither "tokens" nor a string "text"')
    return [*text.tokenize(raw)]


def _sequence(found: dict[str, Any], scheme: str) -> tuple[list[Token], list[str]]:
    if "tokens" in found:
        tokens, labels = _list_of(found, "tokens"), _list_of(found, "tags")
        if len(tokens) != len(labels):
            raise FormatError(f"{len(tokens)} tokens but {len(labels)} tags")
        if what := _mistake(tokens, labels):
            raise FormatError(what)
        return [t if isinstance(t, str) else tuple(t) for t in tokens], labels
    if not isinstance(raw := found.get("text"), str):
        raise FormatError('neither "tokens" with "tags" nor a string "text" with "spans"')
    return _cut(raw, _list_of(found, "spans"), scheme)


def _list_of(found: dict[str, Any], key: str) -> list[Any]:
    if not isinstance(value := found.get(key), list):
        raise FormatError(f'"{key}" is {"missing" if value is None else "not a list"}')
    return value


def _cut(raw: str, given: list[Any], scheme: str) -> tuple[list[Token], list[str]]:
    """Tokens of a raw text, and the tags that its spans make."""
    places = text.offsets(raw)
    found = spans.covered(raw, places, [spans.checked(span, raw) for span in given], given)
    tokens: list[Token] = [raw[start:end] for start, end in places]
    return tokens, tags.from_spans(found, len(places), scheme)
