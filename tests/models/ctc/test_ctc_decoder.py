"""CTCDecoder without a language model: texts, times, units, lexicons, hot words, batches."""

from __future__ import annotations

import gzip
import json
from typing import Any

import numpy as np
import pytest
from corpus_files import find_corpus, needs_corpus
from decoder_oracles import LETTERS, confuse, draw_emissions, enumerate_texts, fused, say

import trellis
from trellis import CTCDecoder
from trellis.inference import ctc

DATA = find_corpus("ctc")
ALPHABET = ["", " ", *"abcdefghijklmnopqrstuvwxyz'"]
EXACT: dict[str, Any] = {  # nothing is cut
    "beam_width": 100_000,
    "token_min_logp": -np.inf,
    "beam_prune_logp": -np.inf,
}


def test_public_name() -> None:
    assert trellis.CTCDecoder is CTCDecoder


# ---- every text has the probability of all its paths


def test_every_text_is_found() -> None:
    rng = np.random.default_rng(1)
    for _ in range(10):
        x = draw_emissions(rng, (int(rng.integers(1, 7)), 4))
        expected = fused(enumerate_texts(x), lambda words: 0.0)
        beams = CTCDecoder(LETTERS, **EXACT).decode_beams(x, k=100_000)
        assert {beam.text for beam in beams} == {" ".join(words) for words, _, _ in expected}
        assert len(beams) == len(expected)
        exact = {" ".join(words): p for words, p, _ in expected}
        for beam in beams:
            assert beam.acoustic == pytest.approx(exact[beam.text], rel=1e-6, abs=1e-6)
            assert beam.score == pytest.approx(beam.acoustic + beam.lm, abs=1e-9)
            assert beam.lm == 0.0
        scores = [beam.score for beam in beams]
        assert scores == sorted(scores, reverse=True)


def test_hot_words_add_to_the_score() -> None:
    """Each hot word adds its weight once."""
    rng = np.random.default_rng(2)
    for _ in range(8):
        x = draw_emissions(rng, (5, 4))
        expected = fused(
            enumerate_texts(x), lambda words: 1.5 * sum(word in ("ab", "b") for word in words)
        )
        decoder = CTCDecoder(LETTERS, hotwords=["ab", "b"], hotword_weight=1.5, **EXACT)
        beams = decoder.decode_beams(x, k=100_000)
        scores = {beam.text: beam.score for beam in beams}
        assert beams[0].text == " ".join(expected[0][0])
        for words, _, score in expected:
            assert scores[" ".join(words)] == pytest.approx(score, rel=1e-6, abs=1e-6)


def test_only_words_of_the_lexicon_are_returned() -> None:
    rng = np.random.default_rng(3)
    lexicon = ["a", "ba", "bab"]
    for _ in range(8):
        x = draw_emissions(rng, (6, 4))
        expected = {
            " ".join(words): p
            for words, p in enumerate_texts(x).items()
            if set(words) <= {*lexicon}
        }
        beams = CTCDecoder(LETTERS, lexicon=lexicon, **EXACT).decode_beams(x, k=100_000)
        assert {beam.text for beam in beams} == set(expected)
        for beam in beams:
            assert beam.acoustic == pytest.approx(expected[beam.text], rel=1e-6, abs=1e-6)


# ---- words and times


def test_words_have_times() -> None:
    x = say("go on", ALPHABET)
    best = CTCDecoder(ALPHABET).decode_beams(x, k=1)[0]
    assert best.text == "go on"
    assert [(word.text, word.start, word.end) for word in best.words] == [
        ("go", 0, 5),
        ("on", 9, 14),
    ]


def test_repeated_letters_and_spaces() -> None:
    decoder = CTCDecoder(ALPHABET)
    assert decoder.decode(say("bookkeeper", ALPHABET)) == "bookkeeper"
    assert decoder.decode(say("  a  b ", ALPHABET)) == "a b"
    assert decoder.decode(say([""], ALPHABET)) == ""
    assert decoder.decode_beams(say([""], ALPHABET), k=1)[0].words == []


def test_times_are_within_the_frames_and_in_order() -> None:
    rng = np.random.default_rng(4)
    decoder = CTCDecoder(ALPHABET, beam_width=30)
    for _ in range(10):
        x = confuse(say("some words of a text", ALPHABET), rng, 2.0)
        for beam in decoder.decode_beams(x, k=10):
            assert [word.text for word in beam.words] == beam.text.split()
            end = 0
            for word in beam.words:
                assert end <= word.start < word.end <= len(x)
                end = word.end


def test_logits() -> None:
    rng = np.random.default_rng(5)
    decoder = CTCDecoder(ALPHABET, beam_width=20)
    x = confuse(say("a few words", ALPHABET), rng, 1.0)
    logits = x + rng.normal(size=(len(x), 1)) * 10
    assert decoder.decode(logits, logits=True) == decoder.decode(x)
    one, other = decoder.decode_beams(logits, k=3, logits=True), decoder.decode_beams(x, k=3)
    for a, b in zip(one, other, strict=True):
        assert a.text == b.text
        assert a.score == pytest.approx(b.score, abs=1e-6)


# ---- kinds of labels


BPE = ["<pad>", "▁he", "llo", "▁wor", "ld", "▁", "l"]
HASHES = ["[PAD]", "he", "##llo", "wor", "##ld", "##l"]


def spoken(indices: list[int], vocabulary: int, blank: int = 0) -> np.ndarray:
    p = np.full((2 * len(indices), vocabulary), 0.01)
    p[np.arange(len(p)), [n for index in indices for n in (index, blank)]] = 0.9
    return np.log(p / p.sum(axis=1, keepdims=True))


def test_sentencepiece_labels() -> None:
    best = CTCDecoder(BPE).decode_beams(spoken([1, 2, 3, 4], 7), k=1)[0]
    assert best.text == "hello world"
    assert [(word.text, word.start) for word in best.words] == [("hello", 0), ("world", 4)]
    assert CTCDecoder(BPE).decode(spoken([1, 2, 5, 2], 7)) == "hello llo"
    assert CTCDecoder(BPE, units="bpe").decode(spoken([1, 6, 6], 7)) == "hell"


def test_wordpiece_labels() -> None:
    assert CTCDecoder(HASHES).decode(spoken([1, 2, 3, 4], 6)) == "hello world"
    assert CTCDecoder(HASHES).decode(spoken([1, 1, 2, 5], 6)) == "he hellol"


def test_word_labels() -> None:
    labels = ["", "one", "two", "three"]
    decoder = CTCDecoder(labels, units="words")
    best = decoder.decode_beams(spoken([1, 3, 3], 4), k=1)[0]
    assert best.text == "one three three"
    assert [(word.text, word.start) for word in best.words] == [
        ("one", 0),
        ("three", 2),
        ("three", 4),
    ]


def test_a_bar_separates_words_if_there_is_no_space() -> None:
    assert CTCDecoder(["", "|", "a", "b"]).decode(spoken([2, 1, 3], 4)) == "a b"
    assert CTCDecoder(["", "|", "a", " "]).decode(spoken([2, 1, 2], 4)) == "a|a"


@pytest.mark.parametrize("name", ["", "<pad>", "[PAD]", "<blank>"])
@pytest.mark.parametrize("place", [0, 1, 3])
def test_the_blank_is_recognised(name: str, place: int) -> None:
    labels = ["a", "b", " "]
    labels.insert(place, name)
    a = labels.index("a")
    assert CTCDecoder(labels).decode(spoken([a, a], 4, place)) == "aa"


def test_the_blank_can_be_passed() -> None:
    assert CTCDecoder(["x", "a", " "], blank=0).decode(spoken([1, 1], 3)) == "aa"


# ---- batches


def texts(count: int, seed: int = 6) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    said = ["hello there", "a", "nobody's perfect", "the end of all"]
    return [confuse(say(said[n % 4], ALPHABET), rng, 1.5) for n in range(count)]


def test_batches_of_any_kind() -> None:
    rows = texts(9)
    decoder = CTCDecoder(ALPHABET, beam_width=25)
    alone = [decoder.decode(row) for row in rows]
    assert len(set(alone)) > 3
    assert decoder.decode_batch(rows) == alone
    assert decoder.decode_batch(tuple(rows)) == alone
    padded = np.full((9, max(map(len, rows)), len(ALPHABET)), np.nan)
    for n, row in enumerate(rows):
        padded[n, : len(row)] = row
    assert decoder.decode_batch(padded, lengths=[len(row) for row in rows]) == alone
    assert decoder.decode_batch([]) == []
    beams = decoder.decode_beams_batch(rows, k=4)
    assert beams == [decoder.decode_beams(row, k=4) for row in rows]


def test_the_same_for_every_number_of_threads() -> None:
    rows = texts(12)
    first = CTCDecoder(ALPHABET, beam_width=25, n_jobs=1).decode_beams_batch(rows, k=5)
    for n_jobs in (2, 3, None):
        decoder = CTCDecoder(ALPHABET, beam_width=25, n_jobs=n_jobs)
        assert decoder.decode_beams_batch(rows, k=5) == first


def test_single_precision_and_strides() -> None:
    decoder = CTCDecoder(ALPHABET, beam_width=25)
    for row in texts(4):
        expected = decoder.decode(row)
        assert decoder.decode(row.astype(np.float32)) == expected
        assert decoder.decode(np.asfortranarray(row)) == expected
        assert decoder.decode(np.repeat(row, 2, axis=0)[::2]) == expected


# ---- comparison with ctc.beam_search and with recorded results


def test_the_best_labelling_without_spaces() -> None:
    """Without spaces, a text is a sequence of labels, so ctc.beam_search finds the same."""
    rng = np.random.default_rng(7)
    for _ in range(10):
        x = draw_emissions(rng, (20, 6), 3.0)
        expected = ctc.beam_search(x, beam_width=60, k=60)
        options = {"token_min_logp": -np.inf, "beam_prune_logp": -np.inf}
        beams = CTCDecoder(["", *"abcde"], beam_width=60, **options).decode_beams(x, k=60)
        assert [beam.text for beam in beams] == [
            "".join(" abcde"[v] for v in beam.labels) for beam in expected
        ]
        np.testing.assert_allclose(
            [beam.acoustic for beam in beams],
            [beam.log_prob for beam in expected],
            rtol=1e-5,
        )


@needs_corpus("ctc")
class TestRecorded:
    def test_speech(self) -> None:
        entry = json.loads((DATA / "meta.json").read_text(encoding="utf-8"))["libri"]
        raw = gzip.decompress((DATA / entry["file"]).read_bytes())
        x = np.array(json.loads(raw), dtype=np.float64)
        decoder = CTCDecoder([*entry["labels"], ""])
        assert decoder.decode(x, logits=True) == entry["ground_truth"]

    def test_a_word_of_a_lexicon(self) -> None:
        entry = json.loads((DATA / "meta.json").read_text(encoding="utf-8"))["iam.word"]
        text = gzip.decompress((DATA / entry["file"]).read_bytes()).decode()
        x = np.array([line.rstrip(";").split(";") for line in text.split()], dtype=float)
        labels = [*entry["labels"], ""]
        assert CTCDecoder(labels).decode(x, logits=True) == "aircrapt"
        decoder = CTCDecoder(labels, lexicon=entry["lexicon"])
        assert decoder.decode(x, logits=True) == entry["ground_truth"] == "aircraft"
