"""The kinds of fields: functions of the value of one column. A new kind is added here.

For ASCII values, the native core computes the kinds with ``native=True``. For all other values and
kinds it calls `FieldKind.derive`, once for each distinct value. So a new kind works without a
change of the core; it becomes faster if cpp/core/features/token_fields.hpp computes it too.

The words upper, lower, letter and decimal digit mean that str.isupper, str.islower, str.isalpha or
str.isdecimal is true for a code point.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import NamedTuple, TypeAlias

__all__ = ["KINDS", "FieldKind", "ascii_lower"]

Derive: TypeAlias = Callable[[str, int], str | None]
"""``derive(value, size)`` returns the value of the field as text, or None if it has none."""


class FieldKind(NamedTuple):
    """One kind of field."""

    description: str
    derive: Derive | None = None
    """The function of the value. None if the kind also depends on a pattern or the position."""
    sized: bool = False
    """True if the field has a ``size``."""
    regular: bool = False
    """True if ``pattern`` is a regular expression; see `Field.match`."""
    named: bool = False
    """True if ``pattern`` is the name of a gazetteer or of clusters."""
    positional: bool = False
    """True if the field depends on the position and reads no column."""
    native: bool = True
    """True if the core computes the kind for ASCII values."""


def _take_prefix(value: str, size: int) -> str | None:
    return value[:size] if len(value) >= size else None


def _take_suffix(value: str, size: int) -> str | None:
    return value[len(value) - size :] if len(value) >= size else None


def _list_shape(value: str) -> list[str]:
    return [
        "X" if c.isupper() else "x" if c.islower() else "d" if c.isdecimal() else c for c in value
    ]


def _classify_digits(value: str) -> str | None:
    count = sum(map(str.isdecimal, value))
    return None if count == 0 else "all" if count == len(value) else "some"


def _classify_case(value: str) -> str | None:
    is_upper = [c.isupper() for c in value if c.isupper() or c.islower()]
    if not is_upper:
        return None
    if all(is_upper):
        return "upper"
    if not any(is_upper):
        return "lower"
    return "title" if is_upper[0] and sum(is_upper) == 1 else "mixed"


def _classify_alnum(value: str) -> str | None:
    letters, digits = sum(map(str.isalpha, value)), sum(map(str.isdecimal, value))
    if not value:
        return None
    if letters + digits == len(value):
        return "alpha" if not digits else "alnum" if letters else "digit"
    return "other" if letters + digits else "punct"


def ascii_lower(text: str) -> str:
    """Convert A-Z to lower case, and no other character: ``"NOËL"`` becomes ``"noËl"``."""
    return text.translate(_ASCII_LOWER)


_ASCII_LOWER = {ord(c): ord(c.lower()) for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


KINDS: dict[str, FieldKind] = {
    "value": FieldKind("the value itself", lambda value, _: value),
    "lower": FieldKind("the value in lower case, as str.lower", lambda value, _: value.lower()),
    "ascii_lower": FieldKind(
        "the value with only A-Z in lower case, as in C programs",
        lambda value, _: ascii_lower(value),
    ),
    "shape": FieldKind(
        "each upper-case letter as X, lower-case letter as x, decimal digit as d; other characters "
        "unchanged",
        lambda value, _: "".join(_list_shape(value)),
    ),
    "short_shape": FieldKind(
        "the shape, with runs of the same character shortened to one",
        lambda value, _: "".join(c for c, _ in groupby(_list_shape(value))),
    ),
    "prefix": FieldKind(
        "the first `size` code points; no value if there are fewer", _take_prefix, sized=True
    ),
    "suffix": FieldKind(
        "the last `size` code points; no value if there are fewer", _take_suffix, sized=True
    ),
    "lower_prefix": FieldKind(
        "the prefix of the value in lower case",
        lambda value, size: _take_prefix(value.lower(), size),
        sized=True,
    ),
    "lower_suffix": FieldKind(
        "the suffix of the value in lower case",
        lambda value, size: _take_suffix(value.lower(), size),
        sized=True,
    ),
    "digits": FieldKind(
        "'all' or 'some' of the code points are decimal digits; no value if there is no digit",
        lambda value, _: _classify_digits(value),
    ),
    "case": FieldKind(
        "the cased letters are all 'upper', all 'lower', 'title' (upper, then all lower) or "
        "'mixed'; no value if there is no cased letter",
        lambda value, _: _classify_case(value),
    ),
    "alnum": FieldKind(
        "'alpha': all letters; 'digit': all decimal digits; 'alnum': letters and digits; 'punct': "
        "neither letters nor digits; else 'other'; no value for the empty string",
        lambda value, _: _classify_alnum(value),
    ),
    "length": FieldKind(
        "the number of code points, at most `size`",
        lambda value, size: str(min(len(value), size)),
        sized=True,
    ),
    "test": FieldKind(
        "'true' if the regular expression `pattern` is found in the value, else 'false'",
        regular=True,
        native=False,
    ),
    "match": FieldKind(
        "the first match of the regular expression `pattern`, '' if there is no match",
        regular=True,
        native=False,
    ),
    "ascii_lower_match": FieldKind("the match with A-Z in lower case", regular=True, native=False),
    "first": FieldKind("'' at the first position, no value elsewhere", positional=True),
    "last": FieldKind("'' at the last position, no value elsewhere", positional=True),
    "gazetteer": FieldKind(
        "'B' on the first and 'I' on the other tokens of a phrase of the gazetteer named "
        "`pattern`, no value elsewhere",
        named=True,
    ),
    "cluster": FieldKind(
        "the cluster of the value in the clusters named `pattern`, of the value in lower case if "
        "the value has none; no value for other words",
        named=True,
        native=False,
    ),
    "cluster_prefix": FieldKind(
        "the first `size` characters of that cluster, or all of a shorter one",
        sized=True,
        named=True,
        native=False,
    ),
}
"""All kinds of fields by name."""
