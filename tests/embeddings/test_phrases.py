"""Phrases: scores compared with their formulas, and which words are joined."""

import math
from typing import Any

import pytest

from trellis.embeddings.phrases import Phrases
from trellis.errors import InputError

TEXT = [["new", "york", "is", "new"], ["in", "new", "york"], ["new", "york"], ["is", "in"]]


def test_scores() -> None:
    phrases = Phrases(min_count=1, threshold=0.0, discount=0.5).fit(TEXT)
    words = 11
    assert phrases.phrases_["new", "york"].score == pytest.approx((3 - 0.5) * words / (4 * 3))
    assert phrases.phrases_["new", "york"].occurrences == 3
    npmi = Phrases(min_count=1, threshold=-1.0, scoring="npmi").fit(TEXT)
    p = 3 / words
    expected = math.log(p / (4 / words * 3 / words)) / -math.log(p)
    assert npmi.phrases_["new", "york"].score == pytest.approx(expected)


def test_pairs_are_joined_from_left_to_right() -> None:
    phrases = Phrases(min_count=2, threshold=0.1, discount=0.0, delimiter="+").fit(TEXT)
    assert set(phrases.phrases_) == {("new", "york")}
    joined = phrases.transform([["a", "new", "york", "york"], [], ["new"], ["york", "new"]])
    assert joined == [["a", "new+york", "york"], [], ["new"], ["york", "new"]]
    assert list(phrases.iterate(TEXT[1:2])) == [["in", "new+york"]]
    overlapping = Phrases(min_count=1, threshold=0.1, discount=0.0).fit([["a", "a", "a"]])
    assert overlapping.transform([["a", "a", "a"]]) == [["a_a", "a"]]


def test_connectors() -> None:
    text = [["bank", "of", "england"]] * 5 + [["of", "course"]] * 5
    phrases = Phrases(min_count=5, threshold=0.1, discount=0.0, connectors=["of"]).fit(text)
    assert phrases.transform([["the", "bank", "of", "england"]]) == [["the", "bank_of_england"]]


def test_second_pass_finds_longer_phrases() -> None:
    text = [["new", "york", "city"]] * 9 + [["a", "b"]] * 9
    first = Phrases(min_count=2, threshold=1.0, discount=0.0).fit(text)
    second = Phrases(min_count=2, threshold=1.0, discount=0.0).fit(first.transform(text))
    assert second.transform(first.transform(text[:1])) == [["new_york_city"]]


def test_invalid_input() -> None:
    with pytest.raises(InputError, match="scoring"):
        Phrases(scoring="best")
    with pytest.raises(InputError, match="min_count"):
        Phrases(min_count=0)
    with pytest.raises(InputError, match="sequence 1"):
        Phrases().fit([["a"], "b"])
    with pytest.raises(InputError, match="not fitted"):
        Phrases().transform([["a"]])


@pytest.mark.parametrize("sentences", [None, 3, "a b", [], [[]]])
def test_sentences_without_words(sentences: Any) -> None:
    with pytest.raises(InputError, match=r"sentences is|no words"):
        Phrases().fit(sentences)
