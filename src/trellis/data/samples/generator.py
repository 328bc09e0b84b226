r"""Requests drawn from patterns: the larger corpus, which ``trellis demo`` uses.

A pattern is a request in markup with two additions. ``<a|b>`` stands for a or b; an alternative may
be empty. ``{city}`` stands for a value of the list ``city`` in ``patterns/values.txt``. A value may
contain both additions. A star after the name of a list marks a list of names: every fourth name is
reserved for requests outside of training.

>>> lists = parse_lists(["city*: Oslo | Rome", "  Split | Quito"])
>>> draw = Draw(lists, seed="an example", reserved=True)
>>> draw.request(parse("<fly|go> to [{city}](destination) from [{city}](origin)."))
'Fly to [Split](destination) from [Oslo](origin).'
"""

import re
from collections.abc import Iterable, Mapping
from random import Random
from typing import NamedTuple

from trellis.errors import FormatError

__all__ = ["Draw", "Template", "Values", "parse", "parse_lists"]

_RESERVED_EVERY = 4  # every fourth name of a list with a star does not occur in training
_TRIES = 20  # draws of a value before the same value is used twice in a request

_REFERENCE = re.compile(r"\{(\w+)\}")
_ENTRY = re.compile(r"(\w+)(\*?): (.*)")
_ARTICLE = re.compile(r"\b([Aa]) (?=\[?[aeiouAEIOU])")


class Reference(NamedTuple):
    """A place for a value of a list."""

    name: str


class Choice(NamedTuple):
    """A part of a template that is replaced by one of several templates, drawn at random."""

    options: "tuple[Template, ...]"


Template = tuple[str | Reference | Choice, ...]


class Values(NamedTuple):
    """A list of values."""

    templates: tuple[Template, ...]
    names: bool
    """True if every fourth value is reserved."""


def parse(text: str) -> Template:
    """Return the template of a pattern.

    >>> parse("<Play|Put on> {song}")
    (Choice(options=(('Play',), ('Put on',))), ' ', Reference(name='song'))
    """
    parts: list[str | Reference | Choice] = []
    depth = begin = 0
    for i, character in enumerate(text):
        if character == "<":
            if depth == 0:
                parts += _split_references(text[begin:i])
                begin = i + 1
            depth += 1
        elif character == ">":
            depth -= 1
            if depth == 0:
                parts.append(Choice(tuple(map(parse, _split_alternatives(text[begin:i])))))
                begin = i + 1
            elif depth < 0:
                break
    if depth:
        raise FormatError(f"pattern {text!r}: '<' and '>' do not match")
    return (*parts, *_split_references(text[begin:]))


def parse_lists(lines: Iterable[str]) -> dict[str, Values]:
    """Return the lists of a file: ``name: value | value``, continued on indented lines."""
    lists: dict[str, Values] = {}
    name = ""
    for line in lines:
        if not line or line.startswith("# "):
            continue
        entry = _ENTRY.fullmatch(line)
        if entry:
            name = entry[1]
            lists[name] = Values((), bool(entry[2]))
        elif not name or not line.startswith("  "):
            raise FormatError(f"lists of values: expected 'name: value | value', got {line!r}")
        values = _split_alternatives(entry[3] if entry else line)
        templates = (*lists[name].templates, *(parse(value.strip()) for value in values))
        lists[name] = lists[name]._replace(templates=templates)
    return lists


class Draw:
    """Draws requests from templates; the same seed gives the same requests."""

    def __init__(self, lists: Mapping[str, Values], *, seed: str, reserved: bool) -> None:
        """Prepare to draw; without ``reserved``, reserved names are not used."""
        self._lists, self._reserved = lists, reserved
        self._random = Random(seed)
        self._used: set[tuple[str, str]] = set()

    def request(self, template: Template) -> str:
        """Return a request. About half of them are in lower case, without ``.`` or ``?``."""
        self._used.clear()
        text = _ARTICLE.sub(r"\1n ", self._draw_text(template))
        if self._index(2):
            return text.lower().rstrip(".?")
        first = text.startswith("[")
        return text[:first] + text[first].upper() + text[first + 1 :]

    def _draw_text(self, template: Template) -> str:
        return "".join(map(self._draw_part, template))

    def _draw_part(self, part: str | Reference | Choice) -> str:
        if isinstance(part, str):
            return part
        if isinstance(part, Choice):
            return self._draw_text(part.options[self._index(len(part.options))])
        values, names = self._lists[part.name]
        if names and not self._reserved:
            values = tuple(value for i, value in enumerate(values, 1) if i % _RESERVED_EVERY)
        for _ in range(_TRIES):
            text = self._draw_text(values[self._index(len(values))])
            if (part.name, text) not in self._used:
                break
        self._used.add((part.name, text))
        return text

    def _index(self, n: int) -> int:
        """Return a random integer from 0 to n - 1, the same in every version of Python.

        Only ``random()`` guarantees this; ``randrange()`` does not.
        """
        return int(self._random.random() * n)


def _split_references(text: str) -> list[str | Reference]:
    """Return a text without alternatives as plain pieces and references."""
    pieces = _REFERENCE.split(text)
    parts = [Reference(piece) if i % 2 else piece for i, piece in enumerate(pieces)]
    return [part for part in parts if part != ""]


def _split_alternatives(text: str) -> list[str]:
    """Split at each ``|`` outside of ``<`` and ``>``."""
    pieces, depth = [""], 0
    for character in text:
        depth += (character == "<") - (character == ">")
        if character == "|" and depth == 0:
            pieces.append("")
        else:
            pieces[-1] += character
    return pieces
