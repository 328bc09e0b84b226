"""When each word of a known text was said."""

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
    found = CTCDecoder(ALPHABET).align(say("go on", ALPHABET, 0.9), "go on")
    assert [(own.text, own.start, own.end) for own in found.words] == [("go", 0, 5), ("on", 9, 14)]
    letters = [(own.text, own.start, own.end) for own in found.units]
    assert letters == [("g", 0, 2), ("o", 3, 5), (" ", 6, 8), ("o", 9, 11), ("n", 12, 14)]
    assert all(own.confidence == pytest.approx(0.9) for own in found.units)
    assert 0.5 < found.words[0].confidence <= 1.0


def test_it_is_the_best_path() -> None:
    rng = np.random.default_rng(31)
    decoder = CTCDecoder(ALPHABET)
    for text in ("a", "better", "hall of fame", "it's"):
        x = confuse(say(text, ALPHABET), rng, 2.0)
        want = ctc.align(x, [ALPHABET.index(letter) for letter in text])
        found = decoder.align(x, text)
        assert found.score == pytest.approx(want.score, rel=1e-9)
        assert [own.start for own in found.units] == want.starts.tolist()
        assert [own.end for own in found.units] == want.ends.tolist()
        np.testing.assert_allclose([own.confidence for own in found.units], want.confidence)
        assert " ".join(own.text for own in found.words) == text


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
    found = CTCDecoder(pieces).align(x, "hello world")
    assert [own.text for own in found.words] == ["hello", "world"]
    assert len(found.units) == 4
    found = CTCDecoder(["", "one", "two"], units="words").align(x[:, :3], "two one two")
    assert [own.text for own in found.words] == ["two", "one", "two"]


def test_no_text() -> None:
    found = CTCDecoder(ALPHABET).align(say("a", ALPHABET), "")
    assert found.words == []
    assert found.units == []


def test_a_text_that_is_too_long() -> None:
    with pytest.raises(InfeasibleError):
        CTCDecoder(ALPHABET).align(say("a", ALPHABET), "abcdefgh")


@pytest.mark.parametrize(
    ("text", "message"),
    [("no é here", "'é'"), ("UP", "'U'"), (7, "text"), (None, "text"), (["a"], "text")],
)
def test_texts_refused(text: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        CTCDecoder(ALPHABET).align(say("abcdefghijkl", ALPHABET), text)
