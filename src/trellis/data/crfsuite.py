r"""CRFsuite's text data: one line per position with its label and attributes, separated by tabs.

    LOC     w=Rome  cap     length:4
    O       w=\:

A blank line ends a sequence. An attribute may have a value after a colon. ``\:`` is a literal
colon, ``\\`` a backslash. A line ``@weight:2`` sets the weight of its sequence.

>>> X, y, weights = read(["LOC\tw=Rome\tlength:4", "O\tw=\\:", "", "@weight:2", "O\tw=hush"])
>>> X
[[{'w=Rome': 1.0, 'length': 4.0}, {'w=:': 1.0}], [{'w=hush': 1.0}]]
>>> y, weights
([['LOC', 'O'], ['O']], [1.0, 2.0])
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from trellis import _core
from trellis.data import files
from trellis.data.files import Source, Target
from trellis.errors import InputError

__all__ = ["Data", "read", "write"]

_FIELD = re.compile(r"((?:[^:\\]|\\.|\\$)*)(?::(.*))?")
_ESCAPED = re.compile(r"\\([:\\])")

Item = dict[str, float]


class Data(NamedTuple):
    """Sequences of items, their labels, and the weights of the sequences."""

    X: list[list[Item]]
    y: list[list[str]]
    weights: list[float]


def read(source: Source, *, encoding: str = "utf-8") -> Data:
    """Read all sequences of a path, an open file or lines; X and y are valid for `trellis.CRF`.

    If an attribute occurs twice in a line, its values are added.
    """
    data, name = Data([], [], []), files.name_of(source)
    items: list[Item] = []
    labels: list[str] = []
    weight = 1.0
    for line_number, line in enumerate(files.lines(source, encoding), start=1):
        if not line:
            _add_sequence(data, items, labels, weight)
            items, labels, weight = [], [], 1.0
            continue
        first, *fields = line.split("\t")
        label, value = _split_field(first)
        if label.startswith("@"):
            if label != "@weight":
                raise files.line_error(
                    name, line_number, f"{files.quote(label)} is unknown, expected @weight"
                )
            weight = _parse_number(value, name, line_number)
            if weight < 0:
                raise files.line_error(
                    name, line_number, f"@weight is {weight:g}: must be at least 0"
                )
            continue
        item: Item = {}
        for field in fields:
            if field:
                attribute, value = _split_field(field)
                strength = _parse_number(value, name, line_number) if value else 1.0
                item[attribute] = item.get(attribute, 0.0) + strength
        items.append(item)
        labels.append(label)
    _add_sequence(data, items, labels, weight)
    return data


def _add_sequence(data: Data, items: list[Item], labels: list[str], weight: float) -> None:
    if items:
        data.X.append(items)
        data.y.append(labels)
        data.weights.append(weight)


def _split_field(text: str) -> tuple[str, str | None]:
    """Return a name and the text after its colon, or None if there is no colon."""
    if "\\" not in text:
        name, colon, value = text.partition(":")
        return name, value if colon else None
    match = _FIELD.fullmatch(text)
    assert match is not None  # the pattern matches any text
    return _ESCAPED.sub(r"\1", match[1]), match[2]


def _parse_number(text: str | None, name: str, number: int) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise files.line_error(name, number, f"{files.quote(text or '')} is not a finite number")
    return value


def write(
    target: Target,
    X: Iterable[Iterable[Any]],
    y: Iterable[Iterable[str]],
    weights: Iterable[float] | None = None,
) -> None:
    r"""Write sequences whose items are dicts of attributes, or lists of names.

    >>> import io
    >>> file = io.StringIO()
    >>> write(file, [[{"w": "Rome", "length": 4}, ["a:b"]]], [["LOC", "O"]])
    >>> file.getvalue()
    'LOC\tw\\:Rome\tlength:4.0\nO\ta\\:b\n\n'
    """
    files.write(target, _format_lines(X, y, weights))


def _format_lines(X: Any, y: Any, weights: Any) -> Iterator[str]:
    for i, (x, labels) in enumerate(zip(X, y, strict=True)):
        try:
            items = _core.ItemSequence(x).items()
        except (TypeError, ValueError) as error:
            raise InputError(f"sequence {{sequence}}: {error}", sequence=i) from None
        labels = list(labels)
        if len(items) != len(labels):
            raise InputError(
                f"sequence {{sequence}} has {len(items)} positions and {len(labels)} labels",
                sequence=i,
            )
        if not items:
            continue
        weight = 1.0 if weights is None else float(weights[i])
        if weight != 1.0:
            yield f"@weight:{weight!r}\n"
        for item, label in zip(items, labels, strict=True):
            yield "\t".join([_escape_name(label, i), *_format_attributes(item, i)]) + "\n"
        yield "\n"


def _format_attributes(item: Mapping[str, float], i: int) -> Iterator[str]:
    for name, value in item.items():
        yield _escape_name(name, i) if value == 1.0 else f"{_escape_name(name, i)}:{value!r}"


def _escape_name(name: str, i: int) -> str:
    if not isinstance(name, str) or not name or set("\t\n\r") & set(name):
        raise InputError(
            f"sequence {{sequence}}: {name!r} cannot be a label or an attribute in CRFsuite's "
            "text data: must be a non-empty str without tabs and line breaks",
            sequence=i,
        )
    return name.replace("\\", "\\\\").replace(":", "\\:")
