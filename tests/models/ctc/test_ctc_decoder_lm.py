"""CTCDecoder with a language model: the score of each text, and the results of pyctcdecode."""

from __future__ import annotations

import gzip
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpus_files import find_corpus, needs_corpus
from decoder_oracles import (
    ARPA,
    LETTERS,
    Words,
    draw_emissions,
    enumerate_texts,
    fused,
    say,
)

from trellis import CTCDecoder
from trellis.formats import arpa

EXACT: dict[str, Any] = {
    "beam_width": 100_000,
    "token_min_logp": -np.inf,
    "beam_prune_logp": -np.inf,
}
KNOWN = {"a", "b", "ab"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lm") / "small.arpa"
    path.write_text(ARPA)
    return path


def bonus(lm: arpa.NGramModel, alpha: float, beta: float, unknown: float) -> Any:
    """α ln p(words) + β for each word, with a penalty for each unknown word."""

    def score(words: Words) -> float:
        log10 = lm.score(list(words)) + unknown * sum(word not in KNOWN for word in words)
        return alpha * math.log(10) * log10 + beta * len(words)

    return score


@pytest.mark.parametrize(
    ("alpha", "beta", "unknown"), [(0.5, 1.5, -10.0), (1.0, 0.0, -1.0), (0.3, 2.0, 0.0)]
)
def test_every_text_has_its_fused_score(
    model: Path, alpha: float, beta: float, unknown: float
) -> None:
    lm = arpa.read(model)
    options = {"alpha": alpha, "beta": beta, "unk_score_offset": unknown}
    decoder = CTCDecoder(LETTERS, lm=lm, **options, **EXACT)
    rng = np.random.default_rng(11)
    for _ in range(6):
        x = draw_emissions(rng, (int(rng.integers(2, 7)), 4))
        expected = [
            row for row in fused(enumerate_texts(x), bonus(lm, *options.values())) if row[0]
        ]
        beams = {beam.text: beam for beam in decoder.decode_beams(x, k=100_000)}
        for words, p, score in expected:  # what no word at all costs, is a convention
            beam = beams[" ".join(words)]
            assert beam.acoustic == pytest.approx(p, abs=1e-5)
            assert beam.score == pytest.approx(score, abs=1e-4)
            assert beam.lm == pytest.approx(score - p, abs=1e-4)
        best = max(
            (beam for beam in beams.values() if beam.text),
            key=lambda beam: beam.score,
        )
        assert best.text == " ".join(expected[0][0])


def test_every_type_of_language_model(model: Path, tmp_path: Path) -> None:
    packed = tmp_path / "small.arpa.gz"
    packed.write_bytes(gzip.compress(model.read_bytes()))
    rng = np.random.default_rng(12)
    rows = [draw_emissions(rng, (12, 4)) for _ in range(10)]
    expected = CTCDecoder(LETTERS, lm=model).decode_beams_batch(rows)
    for lm in (str(model), packed, arpa.read(model)):
        assert CTCDecoder(LETTERS, lm=lm).decode_beams_batch(rows) == expected
    assert CTCDecoder(LETTERS).decode_beams_batch(rows) != expected


def test_a_model_of_kenlm(model: Path) -> None:
    kenlm = pytest.importorskip("kenlm")
    rng = np.random.default_rng(13)
    rows = [draw_emissions(rng, (12, 4)) for _ in range(10)]
    expected = CTCDecoder(LETTERS, lm=model).decode_batch(rows)
    beams = CTCDecoder(LETTERS, lm=kenlm.Model(str(model)), lexicon=None).decode_batch(rows)
    # A KenLM model cannot list its words, so an impossible beginning of a word has no penalty.
    same = np.mean([a == b for a, b in zip(expected, beams, strict=True)])
    assert same >= 0.8


def test_the_weight_of_the_model_changes_the_text(model: Path) -> None:
    labels = ["", " ", *"abc"]
    x = np.log(np.full((3, 5), 0.001))  # too little to be tried
    x[0, 2] = x[1, 1] = math.log(0.996)
    x[2, 3], x[2, 4] = math.log(0.45), math.log(0.52)  # "a c" is a little more probable than "a b"
    assert CTCDecoder(labels).decode(x) == "a c"
    assert CTCDecoder(labels, lm=model, alpha=0.0).decode(x) == "a c"
    assert CTCDecoder(labels, lm=model, alpha=0.5).decode(x) == "a b"
    preferred = CTCDecoder(labels, lm=model, alpha=0.5, hotwords=["c"], hotword_weight=20)
    assert preferred.decode(x) == "a c"


def test_beta_makes_more_words(model: Path) -> None:
    x = np.log([[0.01, 0.97, 0.01, 0.01], [0.49, 0.01, 0.01, 0.49], [0.01, 0.01, 0.97, 0.01]])
    few = CTCDecoder(LETTERS, lm=model, beta=-5.0).decode(x)
    many = CTCDecoder(LETTERS, lm=model, beta=5.0).decode(x)
    assert (few, many) == ("ab", "a b")


def test_units_that_are_words(model: Path) -> None:
    decoder = CTCDecoder(["", "a", "b", "ab"], lm=model, units="words")
    x = np.log([[0.02, 0.94, 0.02, 0.02], [0.94, 0.02, 0.02, 0.02], [0.02, 0.02, 0.46, 0.50]])
    assert CTCDecoder(["", "a", "b", "ab"], units="words").decode(x) == "a ab"
    assert decoder.decode(x) == "a b"


def test_lexicon_and_model(model: Path) -> None:
    """The decoder returns only words of the lexicon. The model knows some of them."""
    rng = np.random.default_rng(14)
    for _ in range(5):
        x = draw_emissions(rng, (6, 4))
        lm = arpa.read(model)
        decoder = CTCDecoder(LETTERS, lm=lm, lexicon=["a", "b", "ba"], **EXACT)
        beams = decoder.decode_beams(x, k=100_000)
        assert {word for beam in beams for word in beam.text.split()} <= {
            "a",
            "b",
            "ba",
        }
        exact = {" ".join(words): p for words, p in enumerate_texts(x).items()}
        for beam in beams:
            assert beam.acoustic == pytest.approx(exact[beam.text], abs=1e-5)


# ---- inputs and results of the tests of pyctcdecode


SOUNDS = [" ", "b", "g", "n", "s", "u", "y", ""]
BUGS, BUNNY = ["b", "u", "g", "s", "", ""], ["b", "u", "n", "", "n", "y"]


def mixed(*parts: tuple[float, list[str]]) -> np.ndarray:
    """Return the weighted mean of the probabilities of several spellings of equal length."""
    p = np.zeros((len(parts[0][1]), len(SOUNDS)))
    for weight, spelling in parts:
        for t, letter in enumerate(spelling):
            p[t, SOUNDS.index(letter)] += weight
    return p


DOUBTFUL = np.vstack([mixed((0.49, BUGS), (0.51, BUNNY)), mixed((1, [" "])), mixed((1, BUNNY))])
LOG_DOUBTFUL = np.log(np.clip(DOUBTFUL, 1e-15, 1.0))

BUGS_BUNNY = find_corpus("models/lm/bugs_bunny_kenlm.arpa")
needs_data = needs_corpus("models/lm/bugs_bunny_kenlm.arpa")


def test_results_of_pyctcdecode_without_a_model() -> None:
    """The beam has 16 texts. The first is "bunny bunny", the last is "bugs bunny"."""
    beams = CTCDecoder(SOUNDS).decode_beams(LOG_DOUBTFUL, k=100)
    assert len(beams) == 16
    assert beams[0].text == "bunny bunny"
    assert beams[-1].text == "bugs bunny"
    assert CTCDecoder(SOUNDS, hotwords=["bugs"]).decode(LOG_DOUBTFUL) == "bugs bunny"


@needs_data
def test_results_of_pyctcdecode_with_a_model() -> None:
    beams = CTCDecoder(SOUNDS, lm=BUGS_BUNNY).decode_beams(LOG_DOUBTFUL, k=100)
    assert [beam.text for beam in beams] == ["bugs bunny"]
    assert beams[0].acoustic == pytest.approx(-2.853399551509947)
    assert beams[0].score == pytest.approx(0.14660044849005294)
    assert [(beam.text, beam.start, beam.end) for beam in beams[0].words] == [
        ("bugs", 0, 4),
        ("bunny", 7, 13),
    ]


@needs_data
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"alpha": 0.0}, "bunny bunny"),
        ({"alpha": 1.0}, "bugs bunny"),
        ({"token_min_logp": 0.0}, "bunny bunny"),
        ({"hotwords": ["bunny"], "hotword_weight": 20}, "bunny bunny"),
        ({"hotwords": ["bugs", "bunny"], "hotword_weight": 20}, "bugs bunny"),
        ({"hotwords": ["bugs bunny"], "hotword_weight": 20}, "bugs bunny"),
    ],
)
def test_results_of_pyctcdecode_with_options(options: dict[str, Any], text: str) -> None:
    assert CTCDecoder(SOUNDS, lm=BUGS_BUNNY, **options).decode(LOG_DOUBTFUL) == text


ENGLISH = ["", " ", *"abcdefghijklmnopqrstuvwxyz'"]


def utterances(lm: arpa.NGramModel, count: int) -> list[np.ndarray]:
    """Return emissions of random words; some frames have a second likely letter."""
    rng = np.random.default_rng(15)
    words = [word for word in lm.words() if set(word) <= set(ENGLISH[2:])][:4000]
    rows = []
    for _ in range(count):
        x = say(" ".join(rng.choice(words, rng.integers(3, 7))), ENGLISH, 0.98)
        for t in np.flatnonzero(rng.random(len(x)) < 0.15)[:-3]:
            x[t, rng.integers(len(ENGLISH))] = np.log(rng.uniform(0.2, 4.0))
        rows.append(x - np.logaddexp.reduce(x, axis=1, keepdims=True))
    return rows


@needs_corpus("models/lm/wiki3g.arpa.gz")
@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_agreement_with_pyctcdecode(tmp_path: Path) -> None:
    peer = pytest.importorskip("pyctcdecode")
    pytest.importorskip("kenlm")
    packed = find_corpus("models/lm/wiki3g.arpa.gz")
    path = tmp_path / "wiki3g.arpa"
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    lm = arpa.read(path)
    rows = utterances(lm, 30)
    for model in (None, lm):
        theirs = peer.build_ctcdecoder(
            ENGLISH,
            None if model is None else str(path),
            None if model is None else lm.words(),
        )
        expected = [theirs.decode(row, beam_width=50) for row in rows]
        beams = CTCDecoder(ENGLISH, lm=model, beam_width=50).decode_batch(rows)
        assert sum(a == b for a, b in zip(expected, beams, strict=True)) >= 29
