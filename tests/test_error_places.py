"""Every reader of lines names the line of an error, counted from 1, and lists their entries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trellis
from trellis.app.report.report import _make_details
from trellis.compat.fasttext import train_unsupervised
from trellis.compat.gensim.models import KeyedVectors
from trellis.data import conll, conllu, corpus, crfsuite, jsonl, markup
from trellis.errors import InputError, TrellisError
from trellis.features import templates, wapiti
from trellis.inference import chain

LETTERS = ["", " ", "a", "b"]
WORDS = ["a", "b", "c", "d"]
ROWS = np.eye(4, dtype=np.float32)


def vectors() -> Any:
    return trellis.Vectors(WORDS, ROWS)


def keyed() -> Any:
    keyed_vectors = KeyedVectors(4)
    keyed_vectors.add_vectors(WORDS, ROWS)
    return keyed_vectors


READERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "conll": ("a O\nb\n", conll.read),
    "conllu": ("1\ta\ta\tX\t_\t_\t0\t_\t_\t_\nwrong\n", conllu.read),
    "crfsuite": ("A\tx\nB\tx:y:z\n", crfsuite.read),
    "jsonl": ('{"tokens": ["a"], "tags": ["O"]}\n{\n', jsonl.read),
    "markup": ("[a](x)\n[b](\n", markup.read),
    "similarity": ("a b 1\na b\n", lambda path: vectors().evaluate_similarity(path)),
    "analogies": (": x\na b c\n", lambda path: vectors().evaluate_analogies(path)),
    "lexicon": ("a\na b c\n", lambda path: trellis.CTCDecoder(LETTERS, lexicon=path)),
    "arpa": ("\\data\\\nngram x\n", lambda path: trellis.CTCDecoder(LETTERS, lm=path)),
}


@pytest.mark.parametrize("name", READERS)
def test_the_second_line_is_wrong(name: str, tmp_path: Path) -> None:
    text, read = READERS[name]
    path = tmp_path / "input.txt"
    path.write_text(text)
    with pytest.raises(TrellisError, match=r"input\.txt, line 2\b"):
        read(path)


def test_a_question_before_the_first_section(tmp_path: Path) -> None:
    path = tmp_path / "input.txt"
    path.write_text("a b c d\n")
    with pytest.raises(TrellisError, match=r"input\.txt, line 1: a section such as"):
        keyed().evaluate_word_analogies(path)


def test_entries_of_a_lexicon() -> None:
    for entries, number in ((["a", 3], 2), ([3], 1), (["a", "b", "a b"], 3)):
        with pytest.raises(TrellisError, match=f"lexicon, (entry|line) {number}"):
            trellis.CTCDecoder(LETTERS, lexicon=entries)


@pytest.mark.parametrize("parse", [templates.parse, wapiti.parse])
def test_the_second_template_is_wrong(parse: Callable[[str], Any]) -> None:
    with pytest.raises(TrellisError, match="line 2"):
        parse("U0:%x[0,0]\nU1:%x[0\n")


def test_lines_of_a_corpus(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"tokens": ["a"], "tags": ["O"]}\n{"tokens": ["b"], "tags": ["X"]}\n')
    assert corpus.line_with(path, "X") == 2
    path = tmp_path / "a.conll"
    path.write_text("a O\n\nb X\n")
    assert corpus.line_with(path, "X") == 3


def test_details_of_rare_labels() -> None:
    assert _make_details(0, "x") == _make_details(-1, "x") == ""
    assert _make_details(1, "x") == "<details><summary>1 rarer labels</summary>x</details>"


def test_a_label_that_no_label_follows() -> None:
    """Without smoothing, its transitions are uniform."""
    model = trellis.HMM(smoothing=0.0, transition_smoothing=0.0).fit([["a", "b"]], [["x", "y"]])
    np.testing.assert_allclose(model.transitions_, [[0, 1], [0.5, 0.5]], atol=1e-12)


def test_weights_of_sequences_are_positive_and_finite() -> None:
    for value in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(InputError, match=r"the weight of sequence 1 is .*must be positive"):
            chain.expected_counts(np.zeros((2, 3, 2)), np.zeros((2, 2)), weights=[1.0, value])


def test_rare_words_and_labels_of_lines(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("__label__x a b a\n__label__y a c\n")
    model = train_unsupervised(str(path), dim=2, minCount=2, epoch=1, bucket=10, thread=1, t=1)
    assert set(model.words) == {"a", "</s>"}
    frequent = train_unsupervised(str(path), dim=2, minCount=1, epoch=1, bucket=10, thread=1, t=1)
    assert set(frequent.words) == {"a", "b", "c", "</s>"}
    with pytest.raises(InputError, match="minCount is 9: no word occurs 9 times"):
        train_unsupervised(str(path), dim=2, minCount=9, epoch=1, bucket=10, thread=1, t=1)
