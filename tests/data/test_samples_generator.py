"""Patterns and lists of values: what they stand for, and errors in them."""

from __future__ import annotations

from itertools import product

import pytest

from trellis.data.samples.generator import Draw, parse, parse_lists
from trellis.errors import FormatError

LISTS = parse_lists(
    [
        "# a comment",
        "name*: Ann | Bob | Cy | Dee | Eve | Flo | Gus | Hal",
        "",
        "who: {name} | my <aunt|uncle>",
        "  nobody",
    ]
)


def requests(pattern: str, reserved: bool = True) -> set[str]:
    """All requests of a pattern, in lower case and without punctuation."""
    draw = Draw(LISTS, seed="test", reserved=reserved)
    return {draw.request(parse(pattern)).lower().rstrip(".?") for _ in range(500)}


def test_alternatives_are_combined() -> None:
    expected = {
        f"{a} me{b}" for a, b in product(("call", "ring"), ("", " now", " at one", " at two"))
    }
    assert requests("<Call|Ring> me<| now| at <one|two>>.") == expected


def test_lists_contain_lists_and_alternatives() -> None:
    names = {"ann", "bob", "cy", "dee", "eve", "flo", "gus", "hal"}
    assert requests("{who}") == names | {"my aunt", "my uncle", "nobody"}


def test_every_fourth_name_is_reserved() -> None:
    assert requests("{name}", reserved=False) == {"ann", "bob", "cy", "eve", "flo", "gus"}
    assert {"dee", "hal"}.isdisjoint(requests("{who}", reserved=False))


def test_a_request_has_no_value_twice() -> None:
    for request in requests("{name} {name} {name}", reserved=False):
        assert len(set(request.split())) == 3
    # Six values for seven places: one is used twice.
    assert requests("{name} {name} {name} {name} {name} {name} {name}", reserved=False)


def test_capitals_full_stops_and_articles() -> None:
    draw = Draw(LISTS, seed="test", reserved=True)
    drawn = {
        draw.request(parse("[a <egg|pear>](food) or a [<apple|fig>](food).")) for _ in range(200)
    }
    assert drawn == {
        text
        for first, second in product(("n egg", " pear"), ("n [apple]", " [fig]"))
        for text in (
            f"[A{first}](food) or a{second}(food).",
            f"[a{first}](food) or a{second}(food)",
        )
    }


def test_the_seed_decides() -> None:
    def draw(seed: str) -> list[str]:
        source = Draw(LISTS, seed=seed, reserved=True)
        return [source.request(parse("{who} and {who}")) for _ in range(5)]

    assert draw("a") == draw("a") != draw("b")


@pytest.mark.parametrize("pattern", ["a <b", "a b>", "a <b <c>", "<a>> b"])
def test_brackets_that_do_not_match(pattern: str) -> None:
    with pytest.raises(FormatError, match="'<' and '>' do not match"):
        parse(pattern)


@pytest.mark.parametrize("lines", [["  Ann | Bob"], ["name: Ann", "Bob"], ["two words: Ann"]])
def test_lines_that_are_not_lists(lines: list[str]) -> None:
    with pytest.raises(FormatError, match="expected 'name: value"):
        parse_lists(lines)
