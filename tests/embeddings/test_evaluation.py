"""Evaluation scores, compared with gensim and with scores computed by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from vector_files import MODELS, WORDSIM, needs_data, read_by_gensim, some_rows

from trellis import Vectors
from trellis.errors import FormatError

PLANE = Vectors(
    ["man", "woman", "king", "queen", "Rome", "rome"],
    [[1, 0, 0.1], [0, 1, 0.1], [1, 0, 1], [0, 1, 1], [3, 3, 0], [1, 1, -5]],
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "questions.txt"


@needs_data
@pytest.mark.parametrize("name", ["wiki3mb.skipgram25.bin", "gensim-euclidean.bin"])
def test_same_scores_as_gensim(name: str) -> None:
    source = MODELS / "word2vec" / name
    v, peer = Vectors.load(source), read_by_gensim(source)
    for file in ("wordsim353", "simlex999", "men", "rw"):
        ours = v.evaluate_similarity(WORDSIM / f"{file}.tsv")
        pearson, spearman, unknown = peer.evaluate_word_pairs(WORDSIM / f"{file}.tsv")
        assert ours.spearman == pytest.approx(spearman.statistic, abs=1e-6)
        assert ours.pearson == pytest.approx(pearson.statistic, abs=1e-6)
        assert 100 * ours.skipped / (ours.pairs + ours.skipped) == pytest.approx(unknown)
    for restrict in (1000, 300_000):
        scores = v.evaluate_analogies(WORDSIM / "questions-words.txt", restrict=restrict)
        accuracy, sections = peer.evaluate_word_analogies(
            WORDSIM / "questions-words.txt", restrict_vocab=restrict
        )
        assert scores.accuracy == pytest.approx(accuracy)
        for section in sections[:-1]:
            score = scores.sections[section["section"]]
            assert score.right == len(section["correct"])
            assert score.asked == len(section["correct"]) + len(section["incorrect"])


def test_similarity_by_hand(path: Path) -> None:
    path.write_text("# comment\nMan\tKing\t9\nwoman king 2.5\n\nman queen 1\nman none 5\n")
    scores = PLANE.evaluate_similarity(path)
    cosines = [PLANE.similarity(*pair.split()) for pair in ("man king", "woman king", "man queen")]
    assert (scores.pairs, scores.skipped) == (3, 1)
    assert scores.spearman == pytest.approx(scipy.stats.spearmanr([9, 2.5, 1], cosines).statistic)
    assert scores.pearson == pytest.approx(scipy.stats.pearsonr([9, 2.5, 1], cosines).statistic)
    assert PLANE.evaluate_similarity(path, ignore_case=False).skipped == 2
    assert PLANE.evaluate_similarity(path, restrict=3).skipped == 2
    assert np.isnan(PLANE.evaluate_similarity(path, restrict=2).spearman)


def test_unseen_words_are_optional(path: Path) -> None:
    path.write_text("man king 9\nman none 5\nnone nothing 1\n")
    v = Vectors(PLANE.words, PLANE.matrix, unseen=lambda word: some_rows(1, 3, len(word))[0])
    assert v.evaluate_similarity(path).skipped == 2
    assert v.evaluate_similarity(path, with_unseen=True).pairs == 3
    assert PLANE.evaluate_similarity(path, with_unseen=True).pairs == 1


def test_analogies_by_hand(path: Path) -> None:
    path.write_text(": family\nman king woman queen\nMan King Woman Queen\n: none\nman a b c\n")
    scores = PLANE.evaluate_analogies(path)
    assert (scores.accuracy, scores.right, scores.asked, scores.skipped) == (1.0, 2, 2, 1)
    assert scores.sections == {"family": (2, 2), "none": (0, 0)}
    scores = PLANE.evaluate_analogies(path, ignore_case=False)
    assert (scores.right, scores.asked, scores.skipped) == (1, 1, 2)
    assert np.isnan(PLANE.evaluate_analogies(path, restrict=2).accuracy)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("man king 9\nman king\n", "line 2: expected two words and a score, found 'man king'"),
        ("man king x\n", "line 1: expected two words and a score"),
        ("man king nan\n", "line 1: the score is nan"),
    ],
)
def test_invalid_similarity_files(text: str, match: str, path: Path) -> None:
    path.write_text(text)
    with pytest.raises(FormatError, match=match):
        PLANE.evaluate_similarity(path)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (": a\nman king woman\n", "line 2: expected four words in a section"),
        ("man king woman queen\n", "line 1: expected four words in a section"),
        ("", "no section"),
    ],
)
def test_invalid_analogy_files(text: str, match: str, path: Path) -> None:
    path.write_text(text)
    with pytest.raises(FormatError, match=match):
        PLANE.evaluate_analogies(path)


def test_file_without_pairs(tmp_path: Path) -> None:
    path = tmp_path / "empty.tsv"
    path.write_text("")
    with pytest.raises(FormatError, match=r"empty.tsv: the file has no pairs"):
        Vectors(["a"], [[1.0]]).evaluate_similarity(path)
