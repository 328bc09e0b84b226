"""Writes word_class_data.hpp: the word-break class of every code point.

    python cpp/core/text/make_word_class_data.py [FOLDER]

FOLDER has the Unicode Character Database as the Debian package ``unicode-data`` installs it. The
script prints nothing; run it again after an update of Unicode, and commit the result.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

FOLDER = Path("/usr/share/unicode")
TARGET = Path(__file__).with_name("word_class_data.hpp")
END = 0x110000  # one past the last code point
WIDTH = 104  # of a line of ranges

# str.isspace() is true for these too, although White_Space is not a property of them.
SEPARATORS = range(0x1C, 0x20)
ZERO_WIDTH_SPACE = 0x200B  # separates words in Khmer, Lao, Myanmar and Thai text
APOSTROPHES = (0x27, 0x2019)
# Full stops, commas, colons and semicolons of all scripts, and their compatibility forms. UAX #29
# keeps them inside words and numbers; here each is a token.
STOPS = (
    *map(ord, ".,:;"),
    *(0x37E, 0x589, 0x60C, 0x7F8, 0x2024),
    *(0xFE10, 0xFE13, 0xFE14, 0xFE50, 0xFE52, 0xFE54, 0xFE55, 0xFF0C, 0xFF0E, 0xFF1A, 0xFF1B),
)

HEADER = """\
// The word-break classes of Unicode {version}. Written by make_word_class_data.py; do not edit.
//
// Derived from data files of the Unicode Character Database, (c) Unicode, Inc., which may be used,
// changed and distributed under the Unicode licence: https://www.unicode.org/license.txt
#pragma once

#include "text/word_class.hpp"

// clang-format off
namespace trellis {{

inline constexpr char kUnicodeVersion[] = "{version}";

inline constexpr WordClassRow kWordClassRows[] = {{
{rows}
}};

// First and last code point, and the index of their row. All others are of class kOther.
inline constexpr WordClassRange kWordClassRanges[] = {{
{ranges}
}};

}}  // namespace trellis
"""


class Row(NamedTuple):
    """The classes of a code point: by UAX #29, for tokens, and the property that emoji have."""

    standard: str
    token: str
    pictographic: bool


class Properties:
    """The properties of all code points, each as a dict by code point."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.word_break = self.read("auxiliary/WordBreakProperty.txt")
        self.grapheme_break = self.read("auxiliary/GraphemeBreakProperty.txt")
        self.category = self.read("extracted/DerivedGeneralCategory.txt")
        self.line_break = self.read("LineBreak.txt")
        self.script = self.read("Scripts.txt")
        self.syllabic = self.read("IndicSyllabicCategory.txt")
        self.white = self.having("PropList.txt", "White_Space")
        self.white |= {*SEPARATORS, ZERO_WIDTH_SPACE}
        self.pictographic = self.having("emoji/emoji-data.txt", "Extended_Pictographic")
        head = (folder / "auxiliary/WordBreakProperty.txt").read_text(encoding="utf-8")
        self.version = re.search(r"-(\d+\.\d+\.\d+)\.txt", head)[1]

    def entries(self, name: str) -> Iterator[tuple[int, str]]:
        """Yield each code point of a file with its value."""
        for line in (self.folder / name).read_text(encoding="utf-8").splitlines():
            fields = [field.strip() for field in line.partition("#")[0].split(";")]
            if len(fields) > 1:
                first, _, last = fields[0].partition("..")
                for point in range(int(first, 16), int(last or first, 16) + 1):
                    yield point, fields[1]

    def read(self, name: str) -> dict[int, str]:
        """Return the values of a file by code point."""
        return defaultdict(lambda: "Other", self.entries(name))

    def rows(self) -> list[Row]:
        """Return the rows of all code points."""
        rows = [Row("Other", "Other", False)] * END
        letters = {point for point, value in self.category.items() if value[0] in "LN"}
        for point in letters.union(self.word_break, self.white, self.pictographic):
            rows[point] = self.row(point)
        return rows

    def having(self, name: str, value: str) -> set[int]:
        """Return the code points of a file that have a value."""
        return {point for point, entry in self.entries(name) if entry == value}

    def row(self, point: int) -> Row:
        """Return the row of a code point."""
        standard = self.word_break[point].replace("_", "")
        return Row(standard, self.token_class(point, standard), point in self.pictographic)

    def token_class(self, point: int, standard: str) -> str:
        """Return the class for tokens; README.md lists the differences to UAX #29."""
        if point in self.white:
            return "Newline"
        if point in APOSTROPHES:
            return "Apostrophe"
        if point in STOPS:
            return "Other"
        if self.syllabic[point] == "Invisible_Stacker":
            return "Stacker"
        if standard == "Other":
            if self.grapheme_break[point] == "SpacingMark":
                return "Extend"
            if self.line_break[point] == "SA" and self.category[point].startswith("L"):
                return "Stackable"
            if self.category[point] in ("No", "Nl") and self.script[point] != "Han":
                return "Numeric"
        return standard


def ranges(rows: list[Row]) -> Iterator[tuple[int, int, Row]]:
    """Yield (first, last, row) of the code points that are not Other."""
    first = 0
    for row, group in groupby(rows):
        last = first + len(list(group)) - 1
        if row != Row("Other", "Other", False):
            yield first, last, row
        first = last + 1


def lines_of(entries: list[str]) -> str:
    """Join the entries in lines of about equal length."""
    lines = [" "]
    for entry in entries:
        if len(lines[-1] + entry) >= WIDTH:
            lines.append(" ")
        lines[-1] += f" {entry}"
    return "\n".join(lines)


def header(properties: Properties) -> str:
    """Return the text of word_class_data.hpp."""
    spans = [*ranges(properties.rows())]
    rows = sorted({row for _, _, row in spans})
    flags = {False: "false", True: "true"}
    return HEADER.format(
        version=properties.version,
        rows="\n".join(
            f"  {{WordClass::k{row.standard}, WordClass::k{row.token}, {flags[row.pictographic]}}},"
            for row in rows
        ),
        ranges=lines_of(
            [f"{{{first:#x}, {last:#x}, {rows.index(row)}}}," for first, last, row in spans]
        ),
    )


if __name__ == "__main__":
    properties = Properties(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
    TARGET.write_text(header(properties), encoding="utf-8")
