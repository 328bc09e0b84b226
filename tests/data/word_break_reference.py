"""Word boundaries, rule by rule: each position is decided by itself, from the text on both sides.

The rules are those of UAX #29, in its order, and those that cpp/core/text/README.md adds for
tokens. The classes are read from the table of the core.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache
from itertools import pairwise
from pathlib import Path

HEADER = Path(__file__).parents[2] / "cpp/core/text/word_class_data.hpp"
ROW = re.compile(r"\{WordClass::k(\w+), WordClass::k(\w+), (\w+)\}")
RANGE = re.compile(r"\{(0x\w+), (0x\w+), (\d+)\}")

LINE_END = {"CR", "LF", "Newline"}
IGNORED = {"Extend", "Format", "ZWJ", "Stacker"}
LETTER = {"ALetter", "HebrewLetter"}
WORD = LETTER | {"Numeric", "Katakana", "ExtendNumLet"}
QUOTE = {"SingleQuote", "Apostrophe"}
INSIDE_WORD = {"MidLetter", "MidNumLet", "SingleQuote"}
INSIDE_NUMBER = {"MidNum", "MidNumLet", "SingleQuote"}


@cache
def table() -> tuple[list[int], list[int], list[tuple[str, str, bool]]]:
    """Return the first and last code points of the ranges, and their rows."""
    text = HEADER.read_text(encoding="utf-8")
    rows = [(a, b, flag == "true") for a, b, flag in ROW.findall(text)]
    ranges = [(int(a, 16), int(b, 16), rows[int(row)]) for a, b, row in RANGE.findall(text)]
    return [r[0] for r in ranges], [r[1] for r in ranges], [r[2] for r in ranges]


@cache
def row_of(character: str) -> tuple[str, str, bool]:
    firsts, lasts, rows = table()
    i = bisect_right(firsts, ord(character)) - 1
    return rows[i] if i >= 0 and ord(character) <= lasts[i] else ("Other", "Other", False)


def is_boundary(classes: list[str], pictographic: list[bool], i: int) -> bool:
    """Return whether the rules end a segment between positions i - 1 and i."""
    if i == 0 or i == len(classes):
        return True  # WB1, WB2
    last, following = classes[i - 1], classes[i]
    if last == "CR" and following == "LF":
        return False  # WB3
    if last in LINE_END or following in LINE_END:
        return True  # WB3a, WB3b
    if last == "ZWJ" and pictographic[i]:
        return False  # WB3c
    if last == following == "WSegSpace":
        return False  # WB3d
    if following in IGNORED:
        return False  # WB4
    if last == "Stacker" and following == "Stackable":
        return False
    before = [
        name
        for j, name in enumerate(classes[:i])
        if name not in IGNORED or j == 0 or classes[j - 1] in LINE_END
    ]
    after = [name for name in classes[i:] if name not in IGNORED]
    return not joins(["", *before], [*after, ""])


def joins(before: list[str], after: list[str]) -> bool:
    """Return whether a rule from WB5 on joins two parts of a text, without ignored classes."""
    (a, b), (c, d) = before[-2:], after[:2]
    indicators = len(before) - next(
        i for i in range(len(before), 0, -1) if before[i - 1] != "RegionalIndicator"
    )
    pairs = [
        (b in LETTER and c in LETTER),  # WB5
        (b in LETTER and c in INSIDE_WORD and d in LETTER),
        (a in LETTER and b in INSIDE_WORD and c in LETTER),
        (b == "HebrewLetter" and c in QUOTE),  # WB7a
        (b == "HebrewLetter" and c == "DoubleQuote" and d == "HebrewLetter"),  # WB7b
        (a == "HebrewLetter" and b == "DoubleQuote" and c == "HebrewLetter"),  # WB7c
        (b in LETTER | {"Numeric"} and c in LETTER | {"Numeric"}),  # WB8, WB9, WB10
        (a == c == "Numeric" and b in INSIDE_NUMBER),  # WB11
        (b == d == "Numeric" and c in INSIDE_NUMBER),  # WB12
        (b == c == "Katakana"),  # WB13
        (b in WORD and c == "ExtendNumLet"),  # WB13a
        (b == "ExtendNumLet" and c in WORD),  # WB13b
        (b == c == "RegionalIndicator" and indicators % 2 == 1),  # WB15, WB16
        (b in WORD and c == "Apostrophe" and d in WORD),
        (a in WORD and b == "Apostrophe" and c in WORD),
    ]
    return any(pairs)


def boundaries(text: str) -> list[int]:
    """Return the ends of all segments by UAX #29."""
    rows = [row_of(character) for character in text]
    classes, flags = [row[0] for row in rows], [row[2] for row in rows]
    return [i for i in range(1, len(text) + 1) if is_boundary(classes, flags, i)]


def tokens(text: str) -> list[str]:
    """Return the tokens: the segments by the classes for tokens that are not white space."""
    rows = [row_of(character) for character in text]
    classes, flags = [row[1] for row in rows], [row[2] for row in rows]
    ends = [i for i in range(len(text) + 1) if is_boundary(classes, flags, i)]
    return [text[begin:end] for begin, end in pairwise(ends) if classes[begin] != "Newline"]
