"""Word boundaries of the core: Unicode's test, cases of our own, and a reference of the rules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import word_break_reference as reference
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples

from trellis import _core

UNICODE = Path("/usr/share/unicode")  # of the Debian package unicode-data
GENERATOR = reference.HEADER.with_name("make_word_class_data.py")
# One of each class, and neighbours that a rule treats differently.
ALPHABET = (
    "a\u05d01\u00aa_'\"’ .:,;\r\n\x0b\u200b\u00ad\u00b7\u00bd\u0301\u200d\u30ab\u30fc\u0e01\u0e33"
    "\u17d2\u1780\u066c\u6771\u3072\ud800\U0001f1e6\U0001f469\u00a9\u24c2\U0001f3fd\U0010ffff"
)


def installed_file(name: str) -> str:
    """Return a file of the Debian package; skip the test without it or with another version."""
    file = UNICODE / name
    if not file.exists():
        pytest.skip(f"{file} does not exist: apt-get install unicode-data")
    content = file.read_text(encoding="utf-8")
    if _core.unicode_version not in content[:100]:
        pytest.skip(f"{file} has another version than {_core.unicode_version}")
    return content


def ends_of(pieces: list[str]) -> list[int]:
    return [sum(map(len, pieces[: i + 1])) for i in range(len(pieces))]


def test_all_lines_of_the_test_of_unicode() -> None:
    lines = installed_file("auxiliary/WordBreakTest.txt").splitlines()
    cases = [line.partition("#")[0].strip() for line in lines]
    cases = [case.strip("÷").strip() for case in cases if case]
    assert len(cases) > 1800
    wrong = []
    for case in cases:
        pieces = [
            "".join(chr(int(number, 16)) for number in piece.replace("×", " ").split())
            for piece in case.split("÷")
        ]
        if not (
            _core.word_boundaries("".join(pieces))
            == reference.boundaries("".join(pieces))
            == ends_of(pieces)
        ):
            wrong.append(case)
    assert not wrong


@pytest.mark.slow
def test_the_table_is_what_the_script_writes(tmp_path: Path) -> None:
    installed_file("auxiliary/WordBreakProperty.txt")
    copy = tmp_path / GENERATOR.name
    copy.write_bytes(GENERATOR.read_bytes())
    subprocess.run([sys.executable, copy, UNICODE], check=True)
    assert (tmp_path / reference.HEADER.name).read_text() == reference.HEADER.read_text()


# Segments are separated by ÷. The names are those of the rules of UAX #29.
CASES = {
    "WB1": ["", "a", "\u0301", "\u200d"],
    "WB3": ["\r\n", "a÷\r\n÷b", "\n÷\r", "\r÷\r\n÷\n"],
    "WB3a": ["\n÷\u0301", "\r÷\u00ad÷a", "\x0b÷\u200d", "\u2028÷\u0308÷\u2029", "\x85÷\x85"],
    "WB3c": [
        "\N{WOMAN}\u200d\N{GIRL}",
        "\N{WOMAN}\U0001f3fd\u200d\N{MICROSCOPE}",
        "\N{HEAVY BLACK HEART}\ufe0f\u200d\N{FIRE}",
        "\N{WOMAN}÷\N{GIRL}",
        "a\u200d\N{WOMAN}",
        "\N{WOMAN}\u200d÷a",
        "\N{WOMAN}\u200d\u0301÷\N{WOMAN}",
        "\u200d\u24c2",
    ],
    "WB3d": ["a÷  ÷b", "a÷ ÷\xa0÷b", " \u2002\u3000", " \u0308÷ ", "\t÷\t"],
    "WB4": ["e\u0301t\u00e9", "a\u00adb", "!\u0301\u0301÷!", "a\u0301\u200d\u0301b", "\u0301÷a"],
    "WB5": ["héllo", "Ελλάδα", "привет", "שלום", "한국어", "a\u05d0"],
    "WB6": [
        "can't",
        "can’t",
        "a:b",
        "a.b",
        "a·b",
        "a÷.÷.÷b",
        "a÷:",
        "'÷a",
        "a÷,÷b",
        "a\u0301'\u0301b",
    ],
    "WB7a": ["\u05d0'", "\u05d0'÷1", "\u05d0÷’", "a÷'", "\u05d0\u05b8'÷ "],
    "WB7b": ['\u05d0"\u05d1', '\u05d0÷"', '"÷\u05d0', '\u05d0÷"÷a', '\u05d0÷"÷"÷\u05d1'],
    "WB8": ["12", "१२", "a1", "1a", "\u05d01\u05d0"],
    "WB11": ["3.14", "3,141,592.5", "3'5", "3;5", "3÷:÷5", "3÷.÷a", "3÷.÷.÷5", "٣٬١٤"],
    "WB13": ["カタカナ", "ラーメン", "カ÷a", "ひ÷ら", "ｶﾞｷ", "漢÷字", "か\u3099÷カ\u3099"],
    "WB13a": ["a_1_カ_", "__", "_÷!", "漢÷_", "a\u203fb", "_÷'÷_"],
    "WB15": [
        "\U0001f1f3\U0001f1f1",
        "\U0001f1f3\U0001f1f1÷\U0001f1e7",
        "a÷\U0001f1f3\U0001f1f1÷\U0001f1e7\U0001f1ea÷b",
        "\U0001f1f3\u0301\U0001f1f1÷\U0001f1e7",
        "\U0001f1f3÷\n÷\U0001f1f1\U0001f1e7",
    ],
    "WB999": ["!÷?", "$÷9", "1÷%", "漢÷a", "ก÷ข", "\ud800÷\udc00", "\x00÷\x00"],
}


@pytest.mark.parametrize("rule", CASES)
def test_rules(rule: str) -> None:
    for case in CASES[rule]:
        pieces = [piece for piece in case.split("÷") if piece]
        assert _core.word_boundaries("".join(pieces)) == ends_of(pieces), ascii(case)
        assert reference.boundaries("".join(pieces)) == ends_of(pieces), ascii(case)


@settings(max_examples=examples(2000), deadline=None)
@given(st.text(ALPHABET, max_size=10) | st.text(ALPHABET[:20], max_size=10) | st.text())
def test_random_text_is_split_as_by_the_reference(raw: str) -> None:
    assert _core.word_boundaries(raw) == reference.boundaries(raw)
    assert _core.tokens(raw) == reference.tokens(raw)


def test_the_classes_at_the_ends_of_all_ranges() -> None:
    firsts, lasts, _ = reference.table()
    points = {point + step for point in (*firsts, *lasts) for step in (-1, 0, 1)}
    assert len(points) > 3000
    for point in points & {*range(0x110000)}:
        # Beside a letter, a digit, a joiner and a space, most classes show.
        raw = f"a{chr(point)}1\u200d{chr(point)} {chr(point)}a!\u200d{chr(point)}"
        assert _core.word_boundaries(raw) == reference.boundaries(raw), hex(point)
        assert _core.tokens(raw) == reference.tokens(raw), hex(point)
