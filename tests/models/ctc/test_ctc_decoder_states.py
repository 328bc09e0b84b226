"""CTCDecoder with start states, with a vocabulary, and without sentence boundaries."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from decoder_oracles import ARPA, LETTERS, draw_emissions, enumerate_texts, say

from trellis import CTCDecoder
from trellis.errors import InputError
from trellis.formats import arpa

EXACT: dict[str, Any] = {
    "beam_width": 100_000,
    "token_min_logp": -np.inf,
    "beam_prune_logp": -np.inf,
}


@pytest.fixture(scope="module", name="lm")
def _lm(tmp_path_factory: pytest.TempPathFactory) -> arpa.NGramModel:
    path = tmp_path_factory.mktemp("lm") / "small.arpa"
    path.write_text(ARPA)
    return arpa.read(path)


@pytest.mark.parametrize("boundary", [True, False])
@pytest.mark.parametrize(
    ("vocabulary", "known"),
    [(None, {"a", "b", "ab"}), (["ab", "bb"], {"ab"}), ([], {"a", "b", "ab"})],
)
@pytest.mark.parametrize("before", ["", "a", "a b"])
def test_every_text_has_its_score(
    lm: arpa.NGramModel,
    boundary: bool,
    vocabulary: list[str] | None,
    known: set[str],
    before: str,
) -> None:
    decoder = CTCDecoder(LETTERS, lm=lm, vocabulary=vocabulary, boundary=boundary, **EXACT)
    start = None
    if before:
        start = CTCDecoder(LETTERS, lm=lm, boundary=boundary).decode_beams(say(before, LETTERS))[0]
        assert start.text == before
    x = draw_emissions(np.random.default_rng(3), (5, 4))
    state = start and start.state
    beams = {beam.text: beam for beam in decoder.decode_beams(x, k=100_000, start=state)}
    past = before.split()
    for words, p in enumerate_texts(x).items():
        if not words:
            continue  # what no word at all costs, is a convention
        scores = lm.full_scores([*past, *words], bos=boundary, eos=boundary)[len(past) :]
        log10 = sum(beam.log10 for beam in scores) - 10.0 * sum(word not in known for word in words)
        beam = beams[" ".join(words)]
        assert beam.acoustic == pytest.approx(p, abs=1e-5)
        assert beam.lm == pytest.approx(0.5 * math.log(10) * log10 + 1.5 * len(words), abs=1e-4)
    best = max(
        (beam for beam in beams.values() if beam.text),
        key=lambda beam: beam.score,
    )
    assert decoder.decode(x, start=state) in ("", best.text)


def test_states_are_those_of_the_model(lm: arpa.NGramModel) -> None:
    state = lm.start()
    total = 0.0
    for word in ("a", "b", "zz"):
        log10, state = lm.step(state, word)
        total += log10
    assert total == pytest.approx(lm.score("a b zz", eos=False))
    beams = CTCDecoder(LETTERS, lm=lm).decode_beams(say("a b", LETTERS))[0]
    assert beams.state == lm.step(lm.step(lm.start(), "a")[1], "b")[1]
    assert CTCDecoder(LETTERS).decode_beams(say("a b", LETTERS))[0].state is None


def test_prune_history_merges_hypotheses() -> None:
    decoder = CTCDecoder(LETTERS)
    x = np.log([[0.02, 0.5, 0.46, 0.02], [0.02, 0.02, 0.02, 0.94], [0.02, 0.94, 0.02, 0.02]] * 2)
    every = decoder.decode_beams(x, k=1000)
    few = decoder.decode_beams(x, k=1000, prune_history=True)
    assert few[0].text == every[0].text
    assert len(few) < len(every)
    assert [
        beam.text for beam in decoder.decode_beams_batch([x], k=1000, prune_history=True)[0]
    ] == [beam.text for beam in few]


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda d, x: d.decode(x, start="a"), "start is 'a'"),
        (lambda d, x: d.decode(x, start=-1), "start is -1"),
        (lambda d, x: d.decode_beams(x, start=10**6), "does not belong to this language model"),
        (lambda d, x: CTCDecoder(LETTERS, vocabulary="abc"), "vocabulary must be a list"),
        (lambda d, x: CTCDecoder(LETTERS, vocabulary=[1]), "vocabulary contains 1"),
    ],
)
def test_invalid_arguments(lm: arpa.NGramModel, call: Any, what: str) -> None:
    with pytest.raises(InputError, match=what):
        call(CTCDecoder(LETTERS, lm=lm), say("a", LETTERS))


@pytest.mark.parametrize(("state", "word"), [("x", "a"), (10**6, "a"), (0, 1), (0, "\ud800")])
def test_invalid_states_and_words(lm: arpa.NGramModel, state: Any, word: Any) -> None:
    with pytest.raises(InputError):
        lm.step(state, word)
