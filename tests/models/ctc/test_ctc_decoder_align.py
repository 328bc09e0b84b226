"""CTCDecoder.align: the times of the words and labels of a known text."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from decoder_oracles import confuse, draw_emissions, say

from trellis import CTCDecoder
from trellis.errors import InfeasibleError, InputError
from trellis.inference import ctc

ALPHABET = ["", " ", *"abcdefghijklmnopqrstuvwxyz'"]


def test_words_and_letters() -> None:
    aligned = CTCDecoder(ALPHABET).align(say("go on", ALPHABET, 0.9), "go on")
    assert [(unit.text, unit.start, unit.end) for unit in aligned.words] == [
        ("go", 0, 5),
        ("on", 9, 14),
    ]
    letters = [(unit.text, unit.start, unit.end) for unit in aligned.units]
    assert letters == [("g", 0, 2), ("o", 3, 5), (" ", 6, 8), ("o", 9, 11), ("n", 12, 14)]
    assert all(unit.confidence == pytest.approx(0.9) for unit in aligned.units)
    assert 0.5 < aligned.words[0].confidence <= 1.0


def test_the_alignment_is_the_best_path() -> None:
    rng = np.random.default_rng(31)
    decoder = CTCDecoder(ALPHABET)
    for text in ("a", "better", "hall of fame", "it's"):
        x = confuse(say(text, ALPHABET), rng, 2.0)
        expected = ctc.align(x, [ALPHABET.index(letter) for letter in text])
        aligned = decoder.align(x, text)
        assert aligned.score == pytest.approx(expected.score, rel=1e-9)
        assert [unit.start for unit in aligned.units] == expected.starts.tolist()
        assert [unit.end for unit in aligned.units] == expected.ends.tolist()
        np.testing.assert_allclose([unit.confidence for unit in aligned.units], expected.confidence)
        assert " ".join(unit.text for unit in aligned.words) == text


def test_scores_before_the_softmax() -> None:
    x = say("yes", ALPHABET)
    decoder = CTCDecoder(ALPHABET)
    logits = x + np.arange(len(x))[:, None]
    assert decoder.align(logits, "yes", logits=True).score == pytest.approx(
        decoder.align(x, "yes").score
    )


def test_pieces_and_words() -> None:
    pieces = ["<pad>", "▁he", "llo", "▁wor", "ld"]
    x = draw_emissions(np.random.default_rng(32), (12, 5))
    aligned = CTCDecoder(pieces).align(x, "hello world")
    assert [unit.text for unit in aligned.words] == ["hello", "world"]
    assert len(aligned.units) == 4
    aligned = CTCDecoder(["", "one", "two"], units="words").align(x[:, :3], "two one two")
    assert [unit.text for unit in aligned.words] == ["two", "one", "two"]


def test_an_empty_text() -> None:
    aligned = CTCDecoder(ALPHABET).align(say("a", ALPHABET), "")
    assert aligned.words == []
    assert aligned.units == []


def test_a_text_that_is_too_long() -> None:
    with pytest.raises(InfeasibleError):
        CTCDecoder(ALPHABET).align(say("a", ALPHABET), "abcdefgh")


@pytest.mark.parametrize(
    ("text", "message"),
    [("no é here", "'é'"), ("UP", "'U'"), (7, "text"), (None, "text"), (["a"], "text")],
)
def test_invalid_texts(text: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        CTCDecoder(ALPHABET).align(say("abcdefghijkl", ALPHABET), text)


def test_a_word_separator_with_index_0() -> None:
    x = np.log([[0.1, 0.1, 0.7, 0.1], [0.7, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.7]])
    transcript = CTCDecoder([" ", "", "a", "b"]).align(x, "a b")
    assert [unit.text for unit in transcript.units] == ["a", " ", "b"]
    assert [(word.text, word.start, word.end) for word in transcript.words] == [
        ("a", 0, 1),
        ("b", 2, 3),
    ]
