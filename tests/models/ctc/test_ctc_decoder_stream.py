"""Streaming gives the same result as decoding at once, and stable text does not change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from decoder_oracles import ARPA, LETTERS, confuse, draw_emissions, say
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples

from trellis import CTCDecoder
from trellis.errors import InfeasibleError, InputError, TrellisError

ALPHABET = ["", " ", *"abcdefghijklmnopqrstuvwxyz'"]


@pytest.fixture(scope="module")
def decoders(tmp_path_factory: pytest.TempPathFactory) -> list[CTCDecoder]:
    path: Path = tmp_path_factory.mktemp("lm") / "small.arpa"
    path.write_text(ARPA)
    return [
        CTCDecoder(LETTERS, beam_width=20),
        CTCDecoder(LETTERS, beam_width=20, lm=path),
        CTCDecoder(LETTERS, beam_width=20, lm=path, hotwords=["ba"], lexicon=["a", "b", "ba"]),
    ]


def pieces(x: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Split the frames at random positions; chunks may be empty."""
    cuts = np.sort(rng.integers(0, len(x) + 1, rng.integers(0, 8)))
    return np.split(x, cuts)


@given(seed=st.integers(0, 2**32 - 1), frames=st.integers(1, 40), which=st.integers(0, 2))
@settings(max_examples=examples(60), deadline=None)
def test_chunks_give_the_same_result_as_all_frames(
    decoders: list[CTCDecoder], seed: int, frames: int, which: int
) -> None:
    rng = np.random.default_rng(seed)
    x = draw_emissions(rng, (frames, 4), 3.0)
    decoder = decoders[which]
    stream = decoder.stream()
    stable = ""
    for piece in pieces(x, rng):
        partial = stream.feed(piece)
        assert partial.stable.startswith(stable), "what was stable has changed"
        assert partial.text.startswith(partial.stable)
        stable = partial.stable
    beams = stream.finish()
    expected = decoder.decode_beams(x, k=len(beams))
    assert beams == expected
    assert beams[0].text.startswith(stable.strip())


def test_a_text_becomes_stable_while_it_is_said() -> None:
    x = say("this is said with no doubt at all", ALPHABET, 0.999)
    stream = CTCDecoder(ALPHABET).stream()
    seen = [stream.feed(x[t : t + 3]).stable for t in range(0, len(x), 3)]
    assert seen[-1].startswith("this is said with no")
    assert len({text for text in seen if text}) > 5
    assert stream.finish()[0].text == "this is said with no doubt at all"


def test_ambiguous_text_is_not_stable() -> None:
    """While the beam has two different beginnings, no text is stable."""
    p = np.full((3, 4), 0.01)
    p[0, [1, 2]] = 0.49
    p[1:, 0] = 0.97
    stream = CTCDecoder(LETTERS).stream()
    for row in np.log(p):
        assert stream.feed(row[None]).stable == ""


def test_chunks_of_one_frame() -> None:
    rng = np.random.default_rng(21)
    decoder = CTCDecoder(ALPHABET, beam_width=30)
    x = confuse(say("one by one", ALPHABET), rng, 1.5)
    stream = decoder.stream()
    for row in x:
        partial = stream.feed(row[None])
    assert partial.text == stream.finish()[0].text == decoder.decode(x)


def test_streams_are_independent() -> None:
    decoder = CTCDecoder(ALPHABET)
    said = ["left", "right"]
    streams = [decoder.stream() for _ in said]
    rows = [say(text, ALPHABET) for text in said]
    for t in range(0, max(map(len, rows)), 4):
        for stream, x in zip(streams, rows, strict=True):
            stream.feed(x[t : t + 4])
    assert [stream.finish()[0].text for stream in streams] == said


def test_empty_text() -> None:
    stream = CTCDecoder(ALPHABET).stream()
    assert stream.feed(np.zeros((0, len(ALPHABET)))).text == ""
    assert stream.finish()[0].text == ""


def test_a_finished_stream_accepts_no_frames() -> None:
    stream = CTCDecoder(ALPHABET).stream()
    stream.feed(say("ok", ALPHABET))
    stream.finish()
    with pytest.raises(TrellisError):
        stream.feed(say("more", ALPHABET))


@pytest.mark.parametrize(
    "piece",
    [
        np.zeros((3, 4)),
        np.zeros(len(ALPHABET)),
        np.full((2, len(ALPHABET)), np.nan),
        np.zeros((2, len(ALPHABET)), int),
        "text",
        None,
    ],
    ids=["labels", "axes", "nan", "dtype", "text", "none"],
)
def test_invalid_chunks(piece: Any) -> None:
    stream = CTCDecoder(ALPHABET).stream()
    stream.feed(say("a", ALPHABET))
    with pytest.raises(InputError):
        stream.feed(piece)
    stream.feed(say("b", ALPHABET))  # the error does not change the stream
    assert stream.finish()[0].text == "ab"


def test_chunks_of_another_type_or_without_a_text() -> None:
    stream = CTCDecoder(LETTERS).stream()
    stream.feed(np.full((1, 4), -1.0))
    with pytest.raises(InputError, match="has dtype float32: must be float64, like earlier frames"):
        stream.feed(np.full((1, 4), -1.0, np.float32))
    stream.feed(np.full((2, 4), -1.0))
    assert stream.finish()
    stream = CTCDecoder(LETTERS).stream()
    stream.feed(np.full((1, 4), -1.0))
    with pytest.raises(InfeasibleError, match="frame 2: every text has probability 0"):
        stream.feed(np.array([[-1.0] * 4, [-np.inf] * 4]))
