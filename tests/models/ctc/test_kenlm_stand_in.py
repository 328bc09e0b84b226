"""Language models of the package kenlm, without the package: a stand-in scores by an ARPA file.

A decoder with the stand-in and one with the ARPA file must find the same texts and scores.
"""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trellis import CTCDecoder
from trellis.compat.pyctcdecode import LanguageModel
from trellis.errors import InputError
from trellis.formats import arpa
from trellis.models.ctc.language_model import is_kenlm, open_kenlm, read_language

ARPA = """\\data\\
ngram 1=6
ngram 2=4

\\1-grams:
-2\t<unk>
-99\t<s>\t-0.3
-1\t</s>
-0.7\ta\t-0.2
-0.9\tab\t-0.4
-1.1\tb\t-0.1

\\2-grams:
-0.2\t<s> ab
-0.4\tab a
-0.3\ta </s>
-1.5\tb a

\\end\\
"""
LABELS = ["", " ", "a", "b"]


class State:
    """kenlm.State: equal states are equal keys of a dict."""

    def __init__(self) -> None:
        self.value: Any = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


class Model:
    """kenlm.Model, by an `NGramModel`."""

    def __init__(self, path: str) -> None:
        self.path = path.encode()
        self.model = arpa.read(path)
        self.order = self.model.order

    def __contains__(self, word: str) -> bool:
        return word in self.model

    def BeginSentenceWrite(self, state: State) -> None:  # noqa: N802
        state.value = self.model.start(True)

    def NullContextWrite(self, state: State) -> None:  # noqa: N802
        state.value = self.model.start(False)

    def BaseScore(self, state: State, word: str, after: State) -> float:  # noqa: N802
        score, after.value = self.model.step(state.value, word)
        return score


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The ARPA file; the module kenlm is the stand-in."""
    module = types.ModuleType("kenlm")
    module.Model, module.State = Model, State  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "kenlm", module)
    path = tmp_path / "lm.arpa"
    path.write_text(ARPA)
    return path


def emissions(seed: int) -> np.ndarray:
    x = np.random.default_rng(seed).normal(size=(9, 4)) * 2
    return x - np.logaddexp.reduce(x, axis=1, keepdims=True)


@pytest.mark.parametrize("boundary", [True, False])
def test_same_texts_as_with_the_file(path: Path, boundary: bool) -> None:
    words = ["a", "ab", "b"]
    options: dict[str, Any] = {"boundary": boundary, "lexicon": words, "alpha": 1.5, "beta": 0.5}
    ours = CTCDecoder(LABELS, lm=path, **options)
    theirs = CTCDecoder(LABELS, lm=Model(str(path)), **options)
    for seed in range(20):
        x = emissions(seed)
        expected, beams = ours.decode_beams(x, k=3), theirs.decode_beams(x, k=3)
        assert [beam.text for beam in beams] == [beam.text for beam in expected]
        for name in ("score", "acoustic", "lm"):
            values = [getattr(beam, name) for beam in beams]
            assert values == pytest.approx([getattr(beam, name) for beam in expected]), name


def test_a_transcript_in_two_parts(path: Path) -> None:
    options: dict[str, Any] = {"lexicon": ["a", "ab", "b"], "alpha": 1.5}
    decoder = CTCDecoder(LABELS, lm=Model(str(path)), **options)
    ours = CTCDecoder(LABELS, lm=path, **options)
    first, second = emissions(1), emissions(2)
    before, expected_before = decoder.decode_beams(first)[0], ours.decode_beams(first)[0]
    assert isinstance(before.state, State)
    after = decoder.decode_beams(second, start=before.state)[0]
    expected = ours.decode_beams(second, start=expected_before.state)[0]
    assert (after.text, after.score) == (expected.text, pytest.approx(expected.score))
    assert decoder.decode_beams(second)[0].score != pytest.approx(after.score)
    with pytest.raises(InputError, match=r"start is 3: must be a kenlm\.State"):
        decoder.decode(second, start=3)


def test_kinds_of_models(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binary = tmp_path / "lm.bin"
    binary.write_bytes(b"mmap lm http://kheafield.com/code format version 5\n\x00" + b"\0" * 99)
    assert is_kenlm(binary)
    assert not is_kenlm(path)
    assert not is_kenlm(tmp_path)  # a folder
    opened: list[Any] = []
    module = sys.modules["kenlm"]
    monkeypatch.setattr(module, "Model", lambda name: opened.append(name) or Model(str(path)))
    language = read_language(binary)
    assert opened == [str(binary)]
    assert language.model is None
    assert language.foreign is not None
    for wrong in (3, [path], object()):
        with pytest.raises(InputError, match="lm must be a path, an NGramModel or a kenlm"):
            read_language(wrong)
    monkeypatch.setitem(sys.modules, "kenlm", None)
    with pytest.raises(InputError, match=r"lm\.bin is a KenLM binary: install the package kenlm"):
        open_kenlm(binary)


@pytest.mark.parametrize("boundary", [True, False])
def test_scores_in_the_interface_of_pyctcdecode(path: Path, boundary: bool) -> None:
    words = ["a", "ab", "b"]
    ours = LanguageModel(str(path), words, score_boundary=boundary)
    theirs = LanguageModel(Model(str(path)), words, score_boundary=boundary)
    assert theirs.order == ours.order == 2
    state, expected_state = theirs.get_start_state(), ours.get_start_state()
    for word, is_last in (("ab", False), ("a", False), ("nosuch", False), ("a", True)):
        score, state = theirs.score(state, word, is_last)
        expected, expected_state = ours.score(expected_state, word, is_last)
        assert score == pytest.approx(expected)


def test_a_model_without_a_path_cannot_be_saved(path: Path, tmp_path: Path) -> None:
    model = Model(str(path))
    LanguageModel(model, ["a"]).save_to_dir(str(tmp_path))
    assert {"attrs.json", "unigrams.txt", "lm.arpa"} <= {p.name for p in tmp_path.iterdir()}
    model.path = None  # type: ignore[assignment]
    with pytest.raises(InputError, match="not loaded from a file"):
        LanguageModel(model, ["a"]).save_to_dir(str(tmp_path))
