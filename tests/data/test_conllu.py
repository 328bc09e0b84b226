"""CoNLL-U: words only, in order, with ten columns each."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from corpus_files import find_corpus, missing_corpus

from trellis.data import conllu
from trellis.data.conllu import Word
from trellis.errors import FormatError, InputError


def row(number: int | str, form: str = "w", feats: str = "_", upos: str = "NOUN") -> str:
    return "\t".join([str(number), form, form.lower(), upos, "NN", feats, "0", "root", "_", "_"])


SENTENCES = [
    "\ufeff# newdoc id = 1",
    "# text = Don't # stop",
    row("1-2", "Don't"),
    row(1, "Do", "Mood=Imp|VerbForm=Fin", "AUX"),
    row(2, "n't", "_", "PART"),
    row("2.1", "empty"),
    row(3, "#"),
    row(4, "10 000\xa0km") + "\r\n",
    "",
    " ",
    "# only a comment",
    "",
    row("0.1"),
    row(1, "stop", "_", "VERB"),
]


def test_words_and_their_labels() -> None:
    forms, labels = conllu.read(SENTENCES)
    assert forms == [["Do", "n't", "#", "10 000\xa0km"], ["stop"]]
    assert labels == [["AUX", "PART", "NOUN", "NOUN"], ["VERB"]]


@pytest.mark.parametrize(
    ("column", "label"),
    [
        ("form", "Do"),
        ("lemma", "do"),
        ("upos", "AUX"),
        ("xpos", "NN"),
        ("feats", "Mood=Imp|VerbForm=Fin"),
    ],
)
def test_any_column_may_be_the_label(column: str, label: str) -> None:
    assert conllu.read(SENTENCES, column=column)[1][0][0] == label


def test_iterate_gives_words() -> None:
    first, second = conllu.iterate(SENTENCES)
    assert first[0] == Word("Do", "do", "AUX", "NN", {"Mood": "Imp", "VerbForm": "Fin"})
    assert first[1].feats == {}
    assert [word.form for word in second] == ["stop"]


def test_empty_input() -> None:
    for lines in ([], [""], ["# newdoc", ""]):
        assert conllu.read(lines) == ([], [])
        assert list(conllu.iterate(lines)) == []


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["1\tw"], r"line 1: the row has 2 columns, expected 10 separated by tabs: '1\\tw'"),
        ([row(1) + "\tx"], r"line 1: the row has 11 columns, expected 10"),
        ([row(1).replace("\t", " ")], r"line 1: the row has 1 columns, expected 10"),
        ([row("1-2").replace("\t_", "")], r"line 1: the row has 7 columns, expected 10"),
        (["", row(1), row(3)], r"line 3: column 1 \(ID\) is '3', expected 2"),
        ([row(1), row(1)], r"line 2: column 1 \(ID\) is '1', expected 2"),
        ([row(2)], r"line 1: column 1 \(ID\) is '2', expected 1"),
        ([row("01")], r"column 1 \(ID\) is '01'"),
        ([row("¹")], r"column 1 \(ID\) is '¹'"),
        ([row("1-")], r"column 1 \(ID\) is '1-'"),
        ([row("1-2x")], r"column 1 \(ID\) is '1-2x'"),
        ([row("1", "")], r"line 1: column 2 \(FORM\) is empty"),
        ([row("1", upos="")], r"line 1: column 4 \(UPOS\) is empty"),
    ],
)
def test_a_bad_row_is_named_with_line_and_column(
    lines: list[str], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "bad.conllu"
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(FormatError, match=message) as caught:
        conllu.read(path)
    assert str(caught.value).startswith(f"{path}, line ")
    with pytest.raises(FormatError, match=message):
        list(conllu.iterate(path))


@pytest.mark.parametrize("feats", ["Number", "Number=", "=Sing", "A=1||B=2", "A=1|A=2"])
def test_bad_features(feats: str) -> None:
    lines = ["", row(1), row(2, "w", feats)]
    with pytest.raises(FormatError, match=r"line 3: column 6 \(FEATS\) .*" + re.escape(feats)):
        list(conllu.iterate(lines))
    assert conllu.read(lines, column="feats")[1] == [["_", feats]]


def test_unknown_column() -> None:
    for column in ("head", "UPOS", None):
        with pytest.raises(InputError, match=f"column must be one of form.*not {column!r}"):
            conllu.read(SENTENCES, column=column)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("part", "sentences", "words"),
    [
        ("dev", 1_575, 28_119),
        ("test", 1_464, 28_397),
        pytest.param("train", 10_224, 177_410, marks=pytest.mark.slow),
    ],
)
def test_counts_of_a_real_treebank(part: str, sentences: int, words: int) -> None:
    file = f"pos/ud-en-gum.{part}.conllu.gz"
    path = find_corpus(file)
    if not path.exists():
        pytest.skip(missing_corpus(file))
    forms, labels = conllu.read(path)
    assert (len(forms), sum(map(len, forms))) == (sentences, words)
    assert len({label for sentence in labels for label in sentence}) == 17
    with gzip.open(path, "rt", encoding="utf-8") as file:
        expected = re.findall(r"^\d+\t([^\t]+)\t[^\t]+\t([^\t]+)", file.read(), re.MULTILINE)
    assert [form for sentence in forms for form in sentence] == [form for form, _ in expected]
    assert [label for sentence in labels for label in sentence] == [label for _, label in expected]
    for words_of, sentence in zip(conllu.iterate(path), forms, strict=True):
        assert [word.form for word in words_of] == sentence
