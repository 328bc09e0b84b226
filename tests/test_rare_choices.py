"""Choices that few calls make, each compared with what the documentation says."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import trellis
from trellis.app import terminal
from trellis.app.cli import compare, evaluate
from trellis.app.cli.main import run_command
from trellis.app.input_format import choose_format
from trellis.data import files, tags
from trellis.data.corpus import Columns
from trellis.embeddings.phrases import Phrases
from trellis.errors import InputError

SENTENCES = [["abc", "abd", "xyz"], ["abc", "xyz"], ["abd", "abe"]] * 5


@pytest.mark.parametrize("model", [trellis.CRF, trellis.MEMM])
def test_a_scheme_is_validated_before_the_data(model: Any) -> None:
    with pytest.raises(InputError, match="NOSUCH"):
        model(constraints="NOSUCH").fit("text", [])
    with pytest.raises(InputError, match="X must be a list of sequences"):
        model(constraints="BIO").fit("text", [])


def test_a_scheme_is_validated_before_any_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command(["check", "--scheme", "NOSUCH", "nosuch.conll"]) == 1
    assert "NOSUCH" in capsys.readouterr().err
    assert run_command(["check", "--scheme", "BIO", "nosuch.conll"]) == 1
    assert "nosuch.conll" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "is_terminal", "expected"),
    [
        ("<stdin>", True, "text"),  # a dialogue: no line is read in advance
        ("<stdin>", False, "jsonl"),
        ("input", True, "jsonl"),  # a terminal does not matter for a file
        ("input", False, "jsonl"),
    ],
)
def test_the_format_of_a_dialogue(
    monkeypatch: pytest.MonkeyPatch, name: str, is_terminal: bool, expected: str
) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: is_terminal))
    file = files.OpenFile(io.BytesIO(b'{"text": "a b"}\n'), name)
    model = trellis.CRF(max_iter=1).fit([["a"]], [["A"]])
    assert choose_format(file, None, model, 1, Columns()) == expected


def test_n_grams_of_a_dictionary_are_saved(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "min_count": 1,
        "epochs": 1,
        "n_jobs": 1,
        "minn": 2,
        "maxn": 2,
        "sample": 0,
    }
    model = trellis.FastText(4, ngrams="dictionary", bucket=20, random_state=0, **options)
    model.fit(SENTENCES)
    ngrams = list(model.ngrams_)
    # The counts change, and with them the order that the n-grams of a new model would have.
    model.partial_fit([["xyz", "xyz", "abe"]] * 20)
    path = tmp_path / "m.trellis"
    model.save(path)
    loaded = trellis.FastText.load(path)
    assert loaded.ngrams_ == model.ngrams_ == ngrams != []
    expected = model.vectors_.unseen("abq")
    assert expected.any()
    np.testing.assert_array_equal(loaded.vectors_.unseen("abq"), expected)


def test_scores_of_phrases_by_their_definitions() -> None:
    sentences = [["new", "york", "is", "big"], ["new", "york"], ["a", "new", "car"]]
    counts, total = {"new": 3, "york": 2, "car": 1}, 9
    npmi = Phrases(min_count=1, threshold=-1.0, scoring="npmi").fit(sentences)
    for (first, last), count in ((("new", "york"), 2), (("new", "car"), 1)):
        p = count / total
        expected = np.log(p / (counts[first] / total * counts[last] / total)) / -np.log(p)
        phrase = npmi.phrases_[first, last]
        assert phrase.score == pytest.approx(expected)
        assert phrase.occurrences == count
    plain = Phrases(min_count=1, threshold=-1.0, scoring="default").fit(sentences)
    assert plain.phrases_["new", "york"].score == pytest.approx((2 - 1) * total / (3 * 2))
    assert ("new", "car") in plain.phrases_
    fewer = Phrases(min_count=2, threshold=-1.0, scoring="default").fit(sentences)
    assert [*fewer.phrases_] == [("new", "york")]
    assert fewer.phrases_["new", "york"].score == 0.0
    limit = plain.phrases_["new", "york"].score
    for threshold, is_phrase in ((limit, True), (np.nextafter(limit, 2.0), False)):
        model = Phrases(min_count=1, threshold=threshold, scoring="default").fit(sentences)
        assert (("new", "york") in model.phrases_) == is_phrase


def test_first_weights_of_the_memm_head() -> None:
    torch = pytest.importorskip("torch")
    from trellis.nn.tagger.heads import MEMM

    torch.manual_seed(0)
    head = MEMM(40)
    for weights in (head.transitions, head.start_transitions):
        size = weights.detach().abs().max().item()
        assert 0.07 < size <= 0.1
        assert weights.detach().min() < -0.07


def test_shapes_of_padded_batches() -> None:
    """Steps are rounded up; a batch is padded only if it is full, labelled and small."""
    pytest.importorskip("torch")
    from trellis.nn.tagger import data

    def shape(length: int, rows: int, n_rows: Any, **corpus: Any) -> Any:
        facts = {"tags": [0], "allowed": None} | corpus
        epoch: Any = SimpleNamespace(corpus=SimpleNamespace(**facts))
        return data.Epoch._choose_shape(epoch, np.full(rows, length), n_rows)

    multiple = data._STEP_MULTIPLE
    for length, steps in ((1, multiple), (multiple, multiple), (multiple + 1, 2 * multiple)):
        padded = shape(length, 2, 2)
        assert (padded.n_rows, padded.n_steps) == (2, steps)
    assert shape(1, 2, 3) is None
    assert shape(1, 2, None) is None
    assert shape(1, 2, 2, tags=None) is None
    assert shape(1, 2, 2, allowed=[1]) is None
    maximum = data._MAX_PADDED_TOKENS // multiple
    assert shape(1, maximum, maximum) is not None
    assert shape(1, maximum + 1, maximum + 1) is None


def test_marks_of_compared_and_evaluated_sentences() -> None:
    example = {"tokens": ["a", "b"], "true": ["B-X", "O"], "a": ["B-X", "O"], "b": ["O", "B-Y"]}
    assert compare._mark(example, "true", "BIO") == "[a](X) b"
    assert compare._mark(example, "b", "BIO") == "a [b](Y)"
    words = {"tokens": ["a", "b"], "true": ["N", "V"], "a": ["N", "V"], "b": ["N", "N"]}
    assert compare._mark(words, "b", "plain") == "a [b](N)"  # only where the models differ
    spans = [tags.Span("X", 0, 1), tags.Span("Y", 1, 2)]
    line = evaluate._mark_spans(["a", "b"], spans, {spans[0]})
    assert line.plain == "[a](X) [b](Y)"
    styles = {line.plain[span.start : span.end]: str(span.style) for span in line.spans[:2]}
    assert styles == {"[": "green", "](X)": "green"}
    assert {str(span.style) for span in line.spans[2:]} == {"red"}


def test_widths_of_lines_in_points() -> None:
    pytest.importorskip("matplotlib")
    from trellis.plots import png
    from trellis.plots.shapes import Circle, Line, Rect

    scale = 72.0 / png._UNITS_PER_INCH
    shapes = (
        Line(((0.0, 0.0), (1.0, 1.0)), stroke="ink", stroke_width=3.0),
        Circle(0.0, 0.0, 2.0, stroke="ink", stroke_width=3.0),
        Rect(0.0, 0.0, 2.0, 1.0, stroke="ink", stroke_width=3.0),
    )
    for shape in shapes:
        assert png._make_artist(shape, ["sans-serif"]).get_linewidth() == pytest.approx(3.0 * scale)


def test_progress_is_drawn_on_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    consoles: list[Any] = []

    def make(**options: Any) -> Any:
        consoles.append(options)
        return Console(file=io.StringIO(), force_terminal=True)

    monkeypatch.setattr(terminal, "make_console", make)
    with terminal.show_progress("title") as update:
        update(0.5, "half")
    assert consoles == [{"stderr": True}]
