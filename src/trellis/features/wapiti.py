r"""Wapiti's pattern files: ``u:pre=%m[0,0,"^..?"]`` names the attribute ``u:pre=Yo`` of ``York``.

A pattern starts with ``u`` (an attribute of a position), ``b`` (an attribute of the transition into
it) or ``*`` (both). A command reads one column, ``row`` positions further on. With ``@``, the
position is absolute: ``@1`` is the first, ``@-1`` the last.

    %x[row,column]           the value
    %t[row,column,"regex"]   "true" if the expression is found in the value, else "false"
    %m[row,column,"regex"]   the first match, empty if there is none

The same command in upper case converts A-Z of the result to lower case. The expressions have
Wapiti's syntax: ``.``, the classes of `CLASSES` (in upper case: all other characters), ``*`` (as
few as possible), ``?`` (one if possible), ``^`` at the start and ``$`` at the end. Wapiti counts
bytes, trellis counts code points: results differ where ``.`` matches a letter that is not ASCII.

>>> spec = parse('*:%X[0,0]\nu:caps=%t[@1,0,"^\\u*$"]')
>>> [(t.literals, t.edge) for t in spec.templates]
[(('*:', ''), False), (('*:', ''), True), (('u:caps=', ''), False)]
>>> spec.fields[1].match("IBM"), spec.fields[1].match("Big")
('true', 'false')
"""

import re
from os import PathLike

from trellis.errors import FormatError
from trellis.features.spec import Draft, Field, Spec
from trellis.features.templates import numbered_lines

__all__ = ["CLASSES", "OUTSIDE", "parse", "regex"]

CLASSES = {
    "a": "A-Za-z",
    "d": "0-9",
    "l": "a-z",
    "p": "!-/:-@\\[-`{-~",
    "s": " \\t\\n\\v\\f\\r",
    "u": "A-Z",
    "w": "A-Za-z0-9",
}
"""The characters of each class, in the syntax of `re` for sets."""

OUTSIDE = (("_x-1", "_x-2", "_x-3", "_x-4", "_x-#"), ("_x+1", "_x+2", "_x+3", "_x+4", "_x+#"))
"""The values before and after a sequence; the last one is used for all larger distances."""

_COMMAND = re.compile(
    r"""%(?P<letter>[xtmXTM])
        \[(?P<at>@?)\s*(?P<row>[+-]?[0-9]{1,9}),\s*(?P<column>[0-9]{1,9})
        (?:,"(?P<regex>(?:[^"\\]|\\.)*)")?\]""",
    re.VERBOSE,
)
_EDGES = {"u": [False], "b": [True], "*": [False, True]}
_ITEM = re.compile(r"(\\.|[^\\*?])([*?]?)", re.DOTALL)
_REPEATS = {"": "", "*": "*?", "?": "?"}
_KINDS = {
    "x": "value",
    "X": "ascii_lower",
    "m": "match",
    "M": "ascii_lower_match",
    "t": "test",
    "T": "test",
}


def parse(source: str | PathLike[str]) -> Spec:
    r"""Parse a pattern file into a spec; ``source`` is its text as a str, or a path.

    >>> parse("u:ok\nu:%t[0,0]")
    Traceback (most recent call last):
    trellis.errors.FormatError: pattern, line 2: %t takes a regular expression: '%t[0,0]'
    """
    draft = Draft()
    for location, line in numbered_lines(source, "pattern"):
        text = line.partition("#")[0].rstrip()
        if not text:
            continue
        pattern_type = text[0].lower()
        if pattern_type not in _EDGES:
            raise FormatError(f"{location}: a pattern must start with u, b or *, got {text!r}")
        text = pattern_type + text[1:]
        parts, literals = _parse_commands(location, text)
        for edge in _EDGES[pattern_type]:
            draft.add(text, parts, literals, edge)
    return draft.spec(outside=OUTSIDE)


def _parse_commands(location: str, text: str) -> tuple[list[tuple[int, Field, str]], list[str]]:
    """Return the parts of a pattern, and the literals around them."""
    commands = [*_COMMAND.finditer(text)]
    starts, ends = [c.start() for c in commands], [c.end() for c in commands]
    spans = zip([0, *ends], [*starts, len(text)], strict=True)
    literals = [text[start:end] for start, end in spans]
    for literal in literals:
        if "%" in literal:
            invalid_text = literal[literal.index("%") :]
            raise FormatError(
                f"{location}: expected %x, %t or %m with [row,column…] at {invalid_text!r}"
            )
    return [_parse_part(location, command) for command in commands], literals


def _parse_part(location: str, command: re.Match[str]) -> tuple[int, Field, str]:
    letter, row, column = command["letter"], int(command["row"]), int(command["column"])
    if (command["regex"] is None) != (letter in "xX"):
        article = "no" if letter in "xX" else "a"
        raise FormatError(
            f"{location}: %{letter} takes {article} regular expression: {command[0]!r}"
        )
    try:
        pattern = "" if command["regex"] is None else regex(command["regex"])
    except FormatError as error:
        raise FormatError(f"{location}: {error}") from None
    field = Field(column, _KINDS[letter], pattern=pattern)
    if not command["at"]:
        return row, field, "here"
    # 1 is the first position, -1 the last; 0 is the position before the first.
    return (row + 1, field, "last") if row < 0 else (row - 1, field, "first")


def regex(pattern: str) -> str:
    r"""Convert a regular expression of Wapiti to one of Python's `re`.

    >>> regex(r"^\u\l*$")
    '(?s)\\A[A-Z][a-z]*?\\Z'
    """
    body = pattern.removeprefix("^")
    items = _ITEM.findall(body)
    if "".join(map("".join, items)) != body:
        raise FormatError(f"{pattern!r} is not a regular expression of Wapiti")
    start = "" if body == pattern else r"\A"
    end = r"\Z" if items[-1:] == [("$", "")] else ""
    characters = items[:-1] if end else items
    return (
        "(?s)"
        + start
        + "".join(
            _convert_character(character) + _REPEATS[repeat] for character, repeat in characters
        )
        + end
    )


def _convert_character(text: str) -> str:
    """Return the expression of `re` for ``.``, a class or a character of Wapiti."""
    if text == ".":
        return text
    letter = text.removeprefix("\\")
    if letter != text and letter.lower() in CLASSES:
        return f"[{'^' if letter.isupper() else ''}{CLASSES[letter.lower()]}]"
    return re.escape(letter)
