"""ARPA language models: scores of back-off, recorded scores of KenLM, what a file may look like."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from arpa_models import GOOD, Grams, draw, plain_scores, text_of
from corpus_files import find_corpus, needs_corpus
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples

from trellis.errors import InputError
from trellis.formats import arpa

DATA = find_corpus("models/lm")


@pytest.fixture
def good(tmp_path: Path) -> arpa.NGramModel:
    (tmp_path / "good.arpa").write_text(GOOD)
    return arpa.read(tmp_path / "good.arpa")


def test_properties(good: arpa.NGramModel) -> None:
    assert good.order == 3
    assert tuple(good.counts) == (5, 3, 1)
    assert "blue" in good
    assert "green" not in good
    assert "" not in good


def test_scores_by_hand(good: arpa.NGramModel) -> None:
    assert good.score("blue sky") == pytest.approx(-0.25 - 0.0625 + (-0.375 - 0.5))
    assert good.full_scores("blue sky") == [
        (pytest.approx(-0.25), 2, False),
        (pytest.approx(-0.0625), 3, False),
        (pytest.approx(-0.375 - 0.5), 2, False),
    ]
    assert good.score("sky", bos=False, eos=False) == pytest.approx(-1.0)
    assert good.score("sky sky", bos=False, eos=False) == pytest.approx(-1.0 - 0.0625 - 1.0)
    assert good.score("green", eos=False) == pytest.approx(-0.25 - 1.5)
    assert good.full_scores("green", eos=False) == [(pytest.approx(-1.75), 1, True)]
    assert good.score("", bos=True, eos=True) == pytest.approx(-0.25 - 0.75)
    assert good.score("", bos=False, eos=False) == 0.0


def test_words_may_be_a_list(good: arpa.NGramModel) -> None:
    assert good.score(["blue", "sky"]) == good.score("blue  sky ")
    assert good.score(["blue sky"], bos=False, eos=False) == pytest.approx(-1.5), "one unknown word"
    assert good.score(("blue",)) == good.score("blue")


def test_perplexity(good: arpa.NGramModel) -> None:
    assert good.perplexity("blue sky") == pytest.approx(10 ** (-good.score("blue sky") / 3))


@pytest.mark.parametrize("sentence", [7, None, ["a", 1], b"blue", {"blue": 1}])
def test_invalid_sentences(good: arpa.NGramModel, sentence: Any) -> None:
    for call in (good.score, good.full_scores, good.perplexity):
        with pytest.raises(InputError):
            call(sentence)


def test_unpaired_surrogates_are_rejected(good: arpa.NGramModel) -> None:
    with pytest.raises(InputError):
        good.score("\ud800")
    assert "\ud800" not in good


def require_same(lm: arpa.NGramModel, grams: Grams, words: list[str]) -> None:
    for bos in (True, False):
        for eos in (True, False):
            want = plain_scores(grams, words, bos, eos)
            scores = lm.full_scores(words, bos=bos, eos=eos)
            assert [score[1:] for score in scores] == [score[1:] for score in want]
            np.testing.assert_allclose(
                [score[0] for score in scores], [score[0] for score in want], rtol=0, atol=2e-5
            )
            total = sum(score[0] for score in want)
            assert lm.score(words, bos=bos, eos=eos) == pytest.approx(total, abs=1e-4)


@given(seed=st.integers(0, 10_000), order=st.integers(1, 5))
@settings(max_examples=examples(40), deadline=None)
def test_random_models(seed: int, order: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    rng = np.random.default_rng(seed)
    grams = draw(rng, words=int(rng.integers(1, 5)), order=order, keep=float(rng.uniform(0.2, 0.9)))
    path = tmp_path_factory.mktemp("lm") / "random.arpa"
    path.write_text(text_of(grams))
    lm = arpa.read(path)
    for _ in range(20):
        require_same(lm, grams, [f"w{n}" for n in rng.integers(0, 6, rng.integers(0, 9))])


def test_random_models_against_kenlm(tmp_path: Path) -> None:
    kenlm = pytest.importorskip("kenlm")
    rng = np.random.default_rng(1)
    for order in (2, 3, 4, 5):
        grams = draw(rng, words=5, order=order, keep=0.5)
        path = tmp_path / f"{order}.arpa"
        path.write_text(text_of(grams))
        ours, theirs = arpa.read(path), kenlm.Model(str(path))
        for _ in range(100):
            text = " ".join(f"w{n}" for n in rng.integers(0, 7, rng.integers(1, 10)))
            scores, want = ours.full_scores(text), list(theirs.full_scores(text))
            assert [score[1:] for score in scores] == [score[1:] for score in want]
            assert [score[0] for score in scores] == pytest.approx(
                [score[0] for score in want], abs=2e-5
            )
            assert ours.perplexity(text) == pytest.approx(theirs.perplexity(text), rel=1e-4)


# ---- files that are right, however they look


def same_as_good(path: Path) -> bool:
    return arpa.read(path).score("blue sky green") == pytest.approx(
        -0.25 - 0.0625 + (-0.375 - 0.0625 - 1.5) - 0.75
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "text before the header\n\n" + text,
        lambda text: text.replace("\n\n", "\n\n\n"),
        lambda text: text.rstrip("\n"),
        lambda text: text + "\ntext after the end\n",
        lambda text: text.replace("-0.5\tblue", "-5e-1\tblue"),
        lambda text: text.replace("ngram 1=5", "ngram 1 = 5"),
        lambda text: text.replace("-1.5\t<unk>", "-1.5\t<unk>\t0"),
    ],
    ids=[
        "as is",
        "dos",
        "text before",
        "blank lines",
        "no last break",
        "text after",
        "e",
        "spaces",
        "zero",
    ],
)
def test_files_as_other_programs_write_them(tmp_path: Path, change: Any) -> None:
    path = tmp_path / "odd.arpa"
    path.write_bytes(change(GOOD).encode())
    assert same_as_good(path)


def test_compressed_files(tmp_path: Path) -> None:
    for name, pack in (("lm.arpa.gz", gzip.compress), ("lm.xz", lzma.compress)):
        (tmp_path / name).write_bytes(pack(GOOD.encode()))
        assert same_as_good(tmp_path / name)
        assert same_as_good(str(tmp_path / name))  # type: ignore[arg-type]


def test_words_can_be_any_text(tmp_path: Path) -> None:
    words = ["naïve", "日本", "🐦", "a\u00a0b", "\u2028", "-0.5", "\\end", "ngram"]
    grams: Grams = {("<unk>",): (-2.0, 0.0), ("</s>",): (-1.0, 0.0), ("<s>",): (-99.0, 0.0)}
    grams |= {(word,): (-0.25 * (n + 1), 0.0) for n, word in enumerate(words)}
    path = tmp_path / "words.arpa"
    path.write_bytes(text_of(grams).encode())
    lm = arpa.read(path)
    for n, word in enumerate(words):
        assert word in lm
        assert lm.score([word], bos=False, eos=False) == pytest.approx(-0.25 * (n + 1))


# ---- recorded scores


@needs_corpus("models/lm")
@pytest.mark.parametrize("name", ["kenlm-test", "kenlm-test-nounk", "bugs_bunny_kenlm", "wiki3g"])
def test_recorded_scores_of_kenlm(name: str) -> None:
    if name == "wiki3g":
        lm = arpa.read(DATA / "wiki3g.arpa.gz")
        assert tuple(lm.counts) == (52_079, 29_211, 8_658)
        answers = json.loads(gzip.decompress((DATA / "wiki3g.expected.json.gz").read_bytes()))
    else:
        lm = arpa.read(DATA / f"{name}.arpa")
        answers = json.loads((DATA / f"{name}.expected.json").read_text())
    assert len(answers) >= 4
    for answer in answers:
        text = answer["text"]
        assert lm.score(text) == pytest.approx(answer["log10_bos_eos"], abs=1e-3)
        short = lm.score(text, bos=False, eos=False)
        assert short == pytest.approx(answer["log10_no_bos_eos"], abs=1e-3)
        scores = lm.full_scores(text)
        assert [score[1:] for score in scores] == [tuple(score[1:]) for score in answer["full"]]
        want = [score[0] for score in answer["full"]]
        assert [score[0] for score in scores] == pytest.approx(want, abs=5e-5)
