"""Regular expressions without backtracking: equal to `re`, and linear in the text."""

from __future__ import annotations

import copy
import pickle
import random
import re
from pathlib import Path

import pytest
from scale import examples

import trellis
from trellis.errors import FormatError, InputError
from trellis.features.linear_regex import LinearRegex
from trellis.features.spec import Field, Part, Spec, Template

ITEMS = ["a", "b", ".", "[ab]", "[^a]", r"\d", r"\w", r"\s", "^", "$", r"\b", r"\A", r"\Z", "é"]
REPEATS = ["*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}", "{0,2}?", "{2,}"]
FLAGS = ["", "(?s)", "(?i)", "(?m)", "(?a)"]


def random_pattern(rng: random.Random, depth: int) -> str:
    kind = rng.random()
    if depth == 0 or kind < 0.35:
        return rng.choice([*ITEMS, "(?i:a)"])
    inner = random_pattern(rng, depth - 1)
    if kind < 0.6:
        return inner + random_pattern(rng, depth - 1)
    if kind < 0.75:
        return f"({inner}|{random_pattern(rng, depth - 1)})"
    return f"(?:{inner}){rng.choice(REPEATS)}"


def test_equal_to_re() -> None:
    rng, compared = random.Random(0), 0
    for _ in range(examples(20_000, quick=1500)):
        pattern = rng.choice(FLAGS) + random_pattern(rng, 3)
        try:
            linear = LinearRegex(pattern)
        except InputError:  # it repeats an expression that can be empty
            continue
        for _ in range(5):
            text = "".join(rng.choice("abA1 _é\n") for _ in range(rng.randrange(9)))
            match = re.search(pattern, text)
            assert linear.search(text) == (match and match.span()), (pattern, text)
            compared += 1
    assert compared > 2000


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "a*a*a*a*a*a*a*a*a*a*c", "(.*?,){12}x"])
def test_patterns_that_take_re_exponential_time(pattern: str) -> None:
    field = Field(kind="test", pattern=pattern)
    assert field.match("a" * 1000 + "b") == "false"
    assert field.match("a" * 60 + "b") == "false"


@pytest.mark.parametrize(
    "pattern", [r"(a)\1", "(?=a)b", "(?<!a)b", "(?:a*)*", "a{1001}", "((a{9}){9}){99}"]
)
def test_a_file_with_a_pattern_that_is_not_linear(pattern: str, tmp_path: Path) -> None:
    field = Field(kind="test", pattern=pattern)
    assert field.match("ab") in ("true", "false")  # in the code of the user, `re` matches it
    spec = Spec((field,), (Template("t", (Part(0, 0),), ("t=", "")),))
    model = trellis.CRF(spec, max_iter=2).fit([["aa", "b"]], [["P", "Q"]])
    model.save(tmp_path / "model.trellis")
    with pytest.raises(FormatError, match=r"model\.trellis: pattern .*"):
        trellis.load(tmp_path / "model.trellis")


def test_a_used_field_can_be_copied() -> None:
    field = Field(kind="match", pattern="(a|b)+c?")
    assert field.match("x" + "ab" * 50) == "ab" * 50
    for copied in (pickle.loads(pickle.dumps(field)), copy.deepcopy(field)):
        assert copied == field
        assert copied.match("x" + "ab" * 50) == "ab" * 50


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(" * 5000 + "a" + ")" * 5000, "nested too deeply"),
        ("[", "not a regular expression"),
        ("a{99999999999999999999}", "not a regular expression"),
    ],
)
def test_invalid_patterns_have_short_messages(pattern: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as linear:
        LinearRegex(pattern)
    with pytest.raises(InputError, match="not a regular expression") as field:
        Field(kind="test", pattern=pattern).match("a")
    assert max(len(str(linear.value)), len(str(field.value))) < 200


@pytest.mark.parametrize("repeat", ["*", "+", "{2}", "{0,2}", "{1,3}", "{2,}"])
def test_repeated_expressions_that_can_be_empty(repeat: str) -> None:
    with pytest.raises(InputError, match="repeats an expression that can be empty"):
        LinearRegex(f"(?:a?){repeat}")
    assert LinearRegex("(?:a?)?").search("a")
