"""Functions of the commands at their exact limits: the last value on each side of a rule."""

from __future__ import annotations

import math
from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from trellis.app import terminal, uncertainty
from trellis.app.checking.characters import find_traits
from trellis.app.checking.findings import Corpus, Finding, find_all
from trellis.app.checking.schemes import choose_scheme
from trellis.app.checking.spelling import find_misspellings
from trellis.app.checking.survey import Survey
from trellis.app.cli import compare
from trellis.app.report import report
from trellis.app.training import tuning
from trellis.data import corpus
from trellis.data.corpus import Sequence
from trellis.errors import InputError


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.0 s"),
        (9.94, "9.9 s"),
        (10.0, "10 s"),
        (59.4, "59 s"),
        (60.0, "1 min 0 s"),
        (119.9, "1 min 59 s"),
        (3599.0, "59 min 59 s"),
        (3600.0, "1 h 0 min"),
        (7384.0, "2 h 3 min"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert terminal.format_duration(seconds) == text


def test_iterations_that_are_left() -> None:
    estimate = terminal.estimate_iterations_left
    halves = [1 + 0.5**n for n in range(30)]
    gain = (halves[5] - halves[10]) / halves[10]
    factor = gain / ((halves[0] - halves[5]) / halves[5])  # of five iterations
    left = estimate(halves[:11], None, period=5, delta=1e-10)
    assert left is not None
    assert gain * factor ** (left / 5) <= 1e-10 < gain * factor ** ((left - 1) / 5)
    assert estimate(halves[:10], None, period=5) is None  # two periods have eleven losses
    assert estimate(halves[:10], 12, period=5) == 2
    assert estimate(halves[:11], 12, period=5, delta=1e-10) == 1
    assert estimate(halves[:11], 5, period=5, delta=1e-10) == 0
    assert estimate([1.0] * 11, None, period=5) is None  # there is no gain
    assert estimate([float(n) for n in range(11, 0, -1)], 40, period=5) == 29  # the gain grows
    assert estimate([3.0, 1.0, 0.0], None, period=1, delta=1e-3) == math.ceil(
        math.log(1 / 1e-3) / math.log(2 / 1)
    )
    assert estimate(halves, None, period=5, delta=10.0) == 0


def test_json_has_no_infinities(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.show_json({"a": [math.inf, (math.nan, 1.5)], "b": {"c": -math.inf}, "d": "é", "n": 2})
    line = '{"a": [null, [null, 1.5]], "b": {"c": null}, "d": "é", "n": 2}\n'
    assert capsys.readouterr().out == line


def survey(*lines: str, name: str = "a") -> Survey:
    result = Survey(name, "conll", 99)
    for sequence in corpus.iterate_numbered(list(lines), result.report, "conll"):
        result.add(sequence)
    return result


def findings(*surveys: Survey, **limits: Any) -> dict[str, Finding]:
    return {finding.check: finding for finding in find_all(Corpus(surveys, "plain", **limits))}


def test_lengths_and_rare_labels_of_a_corpus() -> None:
    text = survey(*["w X"] * 5, "", *["w Y"] * 6, "")
    problems = findings(text, max_tokens=5, min_count=6)
    assert (problems["length"].total, problems["length"].is_problem) == (1, False)
    assert [example.text for example in problems["length"].examples] == ["6 tokens"]
    assert problems["length"].message == "a: sequences with more than 5 tokens"
    assert [example.text for example in problems["rare"].examples] == ["'X' occurs 5 times"]
    assert problems["rare"].total == 1
    assert "length" not in findings(text, max_tokens=6, min_count=1)
    assert "rare" not in findings(text, max_tokens=6, min_count=5)
    assert Corpus([text]).max_tokens == 250
    assert Corpus([text]).min_count == 5


@pytest.mark.parametrize(("length", "is_problem"), [(4, False), (5, True)])
def test_short_sequences_in_two_files_are_only_a_note(length: int, is_problem: bool) -> None:
    lines = [*(f"w{n} X" for n in range(length)), ""]
    other = ["z X", ""]
    problems = findings(survey(*lines, *other, name="a"), survey("q X", "", *lines, name="b"))
    overlap = problems["overlap"]
    assert (overlap.total, overlap.is_problem) == (1, is_problem)
    assert overlap.message == (
        "b: 50.0 % of the sequences are also in an earlier file; "
        f"{int(is_problem)} of them have 5 tokens or more"
    )
    assert [example.text for example in overlap.examples] == ["also in a:1"]
    assert overlap.examples[0].line == 3


@pytest.mark.parametrize(
    ("frequent", "rare", "is_found"), [(10, 1, True), (9, 1, False), (30, 3, True), (29, 3, False)]
)
def test_a_misspelling_is_ten_times_as_rare(frequent: int, rare: int, is_found: bool) -> None:
    problems = [*find_misspellings({"location": frequent, "locatoin": rare}, "plain")]
    assert [entry.label for entry in problems] == (["locatoin"] if is_found else [])


@pytest.mark.parametrize(
    ("right", "wrong", "is_found"),
    [
        ("abcde", "abcdf", True),  # one letter of five
        ("abcd", "abce", False),
        ("abc", "acb", True),  # two letters that are swapped, of three
        ("ab", "ba", False),
        ("abcdef", "abcde", True),
        ("abcdefg", "abcde", False),
        ("abcde", "axyde", False),  # two letters that are not swapped
        ("abcdebc", "abcdbec", True),
        ("PROPN", "PRON", False),
        ("a-bcdef", "x-bcdef", False),  # the letter is not part of the long word
        ("bcdef-a", "bcdef-x", False),
        ("bcdef-a", "bcdeg-a", True),
    ],
)
def test_what_one_letter_is(right: str, wrong: str, is_found: bool) -> None:
    problems = [*find_misspellings({right: 100, wrong: 1}, "plain")]
    assert [entry.label for entry in problems] == ([wrong] if is_found else [])


@pytest.mark.parametrize(
    ("text", "is_invisible"),
    [
        ("\u0645\u200c\u0627", False),  # between two letters of a script that uses it
        ("\u200c\u0645", True),  # first
        ("\u0645\u200c", True),  # last
        ("a\u200c\u0645", True),
        ("\u0645\u200ca", True),
        ("\u024f\u200c\u0645", True),  # the last Latin letter
        ("\u0250\u200c\u0645", False),
        ("\u0645\u200c\u024f", True),
        ("\u0645\u200c\u0250", False),
        ("\u0645\u200b\u0627", True),  # a zero width space is no joiner
    ],
)
def test_joiners(text: str, is_invisible: bool) -> None:
    assert ("invisible" in find_traits(text)) == is_invisible


@pytest.mark.parametrize(
    ("text", "trait"), [("a" + chr(0xDC80), True), ("a" + chr(0xDCFF), True), ("aé", False)]
)
def test_bytes_that_are_not_utf8(text: str, trait: bool) -> None:
    assert ("damaged" in find_traits(text)) == trait


def test_one_wrong_tag_in_five_is_the_limit_of_a_scheme() -> None:
    pairs: Counter[Any] = Counter()
    assert choose_scheme({"O": 9, "B-X": 4, "x": 1}, pairs) == "BIO"
    assert choose_scheme({"O": 9, "B-X": 5, "x": 2}, pairs) == "plain"
    assert choose_scheme({"O": 9}, pairs) == "plain"


class Fixed:
    """A model with two labellings of known probability for each sequence."""

    def __init__(self, **pairs: tuple[float, ...]) -> None:
        self.pairs = pairs

    def predict_kbest(self, X: Any, k: int) -> list[Any]:
        assert k == 2
        return [[SimpleNamespace(probability=p) for p in self.pairs[x[0]]] for x in X]


def sequence(*tokens: str) -> Any:
    return SimpleNamespace(tokens=list(tokens))


def chosen(names: str, count: int, **pairs: tuple[float, ...]) -> list[str]:
    batches: list[list[Sequence]] = [[sequence(name) for name in names] + [sequence()], []]
    return [
        entry.sequence.tokens[0]
        for entry in uncertainty.select(Fixed(**pairs), batches, count, "margin")
    ]


def test_the_least_certain_sequences() -> None:
    pairs = {"a": (0.9, 0.1), "b": (0.5, 0.5), "c": (0.7, 0.3), "d": (1.0,), "e": (0.5, 0.5)}
    assert chosen("abcde", 9, **pairs) == ["b", "e", "c", "a", "d"]
    for count in (1, 2, 3, 4):  # of equal scores, the earlier sequence
        assert chosen("abcde", count, **pairs) == ["b", "e", "c", "a"][:count]
    assert chosen("ebebaa", 2, **pairs) == ["e", "b"]  # equal tokens count once
    assert chosen("abab", 1, **pairs) == ["b"]
    scores = uncertainty.measure(Fixed(**pairs), [["a"], ["d"]], "margin")
    np.testing.assert_allclose(scores, [0.2, 0.0], atol=1e-12)


def test_strengths_of_penalties() -> None:
    assert tuning.select_l2(0.1, 4) == [0.9, 0.3, 0.1, 0.03333]
    assert tuning.select_l2(0.1, 1) == [0.1]
    assert tuning.select_l2(tuning.WEAKEST, 3)[-1] == tuning.WEAKEST
    below = tuning.WEAKEST / 2
    assert tuning.select_l2(below, 3)[-1] == below
    assert len(tuning.split_folds(tuning.FOLDS, 0)) == tuning.FOLDS
    with pytest.raises(InputError, match=f"--tune needs at least {tuning.FOLDS} sequences"):
        tuning.split_folds(tuning.FOLDS - 1, 0)


@pytest.mark.parametrize(
    ("p", "text"), [(1.0, "1.0000"), (0.0001, "0.0001"), (0.00009, "< 0.0001"), (0.0, "< 0.0001")]
)
def test_p_values(p: float, text: str) -> None:
    assert compare._format_p(p) == text


def test_agreement_of_two_models() -> None:
    counts = compare._count_agreement(
        [["X", "X", "X", "X", "X"]], [["X", "X", "a", "a", "a"]], [["X", "a", "X", "a", "b"]]
    )
    assert counts == {
        "both": 1, "only_a": 1, "only_b": 1, "neither": 2, "neither_but_equal": 1
    }  # fmt: skip


def test_the_largest_weight_of_a_feature_card() -> None:
    assert ">1.00<" in report._render_feature_card("X", [("a", 1.0), ("b", 0.5)])
    assert ">0.999<" in report._render_feature_card("X", [("a", 0.999)])
    card = report._render_feature_card("X", [("zero", 0.0), ("b", -0.25)])
    assert "zero" not in card
    assert "−0.250" in card or "-0.250" in card
    assert report._make_details(0, "body") == ""
    assert "1 rarer labels" in report._make_details(1, "body")
