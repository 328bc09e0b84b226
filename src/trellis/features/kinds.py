"""The kinds of fields: functions of the value of one column. A new kind is added here.

The native core computes the kinds with ``native=True`` for ASCII values by itself, and calls
`FieldKind.derive` for all others, once for each distinct value. So a new kind needs no change of
the core; with one (the enum of kinds in cpp/core/loglinear) it becomes faster.

Upper, lower, letter and decimal digit are those of str.isupper, str.islower, str.isalpha and
str.isdecimal of one code point.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import NamedTuple, TypeAlias

__all__ = ["KINDS", "FieldKind", "ascii_lower"]

Derive: TypeAlias = Callable[[str, int], str | None]
"""``derive(value, size) -> text``; None if the field has no value there."""


class FieldKind(NamedTuple):
    """One kind of field."""

    description: str
    derive: Derive | None = None
    """None for kinds that do not depend on the value alone."""
    sized: bool = False
    """True if the field has a ``size``."""
    regular: bool = False
    """True if ``pattern`` is a regular expression; see `Field.match`."""
    named: bool = False
    """True if ``pattern`` is the name of a gazetteer."""
    positional: bool = False
    """True if the field depends on the position and reads no column."""
    native: bool = True
    """True if the core knows the kind by its name."""


def _prefix(value: str, size: int) -> str | None:
    return value[:size] if len(value) >= size else None


def _suffix(value: str, size: int) -> str | None:
    return value[len(value) - size :] if len(value) >= size else None


def _shape(value: str) -> list[str]:
    return [
        "X" if c.isupper() else "x" if c.islower() else "d" if c.isdecimal() else c for c in value
    ]


def _digits(value: str) -> str | None:
    count = sum(map(str.isdecimal, value))
    return None if count == 0 else "all" if count == len(value) else "some"


def _case(value: str) -> str | None:
    upper = [c.isupper() for c in value if c.isupper() or c.islower()]
    if not upper:
        return None
    if all(upper):
        return "upper"
    if not any(upper):
        return "lower"
    return "title" if upper[0] and sum(upper) == 1 else "mixed"


def _alnum(value: str) -> str | None:
    letters, digits = sum(map(str.isalpha, value)), sum(map(str.isdecimal, value))
    if not value:
        return None
    if letters + digits == len(value):
        return "alpha" if not digits else "alnum" if letters else "digit"
    return "other" if letters + digits else "punct"


def ascii_lower(text: str) -> str:
    """A-Z in lower case, all other characters unchanged: ``"NOËL"`` becomes ``"noËl"``."""
    return text.translate(_ASCII_LOWER)


_ASCII_LOWER = {ord(c): ord(c.lower()) for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


KINDS: dict[str, FieldKind] = {
    "value": FieldKind("the value itself", lambda value, _: value),
    "lower": FieldKind("in lower case, as str.lower", lambda value, _: value.lower()),
    "ascii_lower": FieldKind(
        "with only A-Z in lower case, as C programs do it", lambda value, _: ascii_lower(value)
    ),
    "shape": FieldKind(
        "each upper-case letter as X, lower-case letter as x, decimal digit as d; other characters "
        "unchanged",
        lambda value, _: "".join(_shape(value)),
    ),
    "short_shape": FieldKind(
        "the shape, with runs of the same character shortened to one",
        lambda value, _: "".join(c for c, _ in groupby(_shape(value))),
    ),
    "prefix": FieldKind(
        "the first `size` code points; none if there are fewer", _prefix, sized=True
    ),
    "suffix": FieldKind(
        "the last `size` code points; none if there are fewer", _suffix, sized=True
    ),
    "lower_prefix": FieldKind(
        "the prefix of the value in lower case",
        lambda value, size: _prefix(value.lower(), size),
        sized=True,
    ),
    "lower_suffix": FieldKind(
        "the suffix of the value in lower case",
        lambda value, size: _suffix(value.lower(), size),
        sized=True,
    ),
    "digits": FieldKind(
        "'all' or 'some' of the code points are decimal digits; none if there is no digit",
        lambda value, _: _digits(value),
    ),
    "case": FieldKind(
        "the cased letters are all 'upper', all 'lower', 'title' (upper, then all lower) or "
        "'mixed'; none if there is no cased letter",
        lambda value, _: _case(value),
    ),
    "alnum": FieldKind(
        "'alpha': all letters; 'digit': all decimal digits; 'alnum': letters and digits; 'punct': "
        "neither letters nor digits; else 'other'; none for the empty value",
        lambda value, _: _alnum(value),
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
    "first": FieldKind(
        "'' at the first position (the template needs no value), none elsewhere", positional=True
    ),
    "last": FieldKind("'' at the last position, none elsewhere", positional=True),
    "gazetteer": FieldKind(
        "'B' on the first and 'I' on the other tokens of a phrase of the gazetteer named "
        "`pattern`, none elsewhere",
        named=True,
    ),
}
"""All kinds of fields by name."""
