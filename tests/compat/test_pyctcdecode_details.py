"""The replacement of pyctcdecode: warnings, limits on both sides, caches and folders."""

from __future__ import annotations

import logging
import math
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trellis.compat.pyctcdecode import (
    Alphabet,
    BeamSearchDecoderCTC,
    LanguageModel,
    build_ctcdecoder,
)
from trellis.compat.pyctcdecode.alphabet import verify_alphabet_coverage
from trellis.compat.pyctcdecode.language_model import (
    AbstractLanguageModel,
    HotwordScorer,
    MultiLanguageModel,
    PrefixIndex,
    load_unigram_set_from_arpa,
)
from trellis.errors import FormatError, InputError

ARPA = """\\data\\
ngram 1=6
ngram 2=4
ngram 3=1

\\1-grams:
-1.5\t<unk>\t0
-99\t<s>\t-0.25
-0.75\t</s>
-0.5\tdog\t-0.125
-1.0\tdogs
-0.8\tsat\t-0.5

\\2-grams:
-0.4\t<s> dog\t-0.5
-1.5\t<s> dogs\t-0.25
-0.125\tdog sat\t-0.125
-0.5\tsat </s>

\\3-grams:
-0.25\tdog sat </s>

\\end\\
"""


@pytest.fixture(name="lm")
def _lm(tmp_path: Path) -> str:
    path = tmp_path / "tiny.arpa"
    path.write_text(ARPA)
    return str(path)


# ---- alphabets


@pytest.mark.parametrize(
    ("labels", "expected", "warnings"),
    [
        ([" ", "a", ""], [" ", "a", ""], []),
        (["a", ""], ["a", ""], ["no label separates words"]),
        ([" ", "ab", ""], [" ", "ab", ""], ["some labels have several letters"]),
        ([" ", "[UNK]", ""], [" ", "⁇", ""], []),
        (["ab"], ["ab", ""], ["some labels have several letters", "no label separates words"]),
        (["|", "<PAD>", "_"], [" ", "", "_"], []),
        (["|", "_"], [" ", ""], []),
        (["▁a", "<unk>"], ["▁a", "▁⁇▁", ""], []),
        (["▁a", "b", ""], ["▁a", "b", ""], ["have no ▁⁇▁ for unknown tokens"]),
        (["a", "##b", "▁⁇▁", "▁"], ["▁a", "b", "▁⁇▁", "▁", ""], []),
        (["", "##b", "<s>"], ["", "b", "<s>"], ["have no ▁⁇▁ for unknown tokens"]),
    ],
)
def test_labels_and_warnings(
    labels: list[str],
    expected: list[str],
    warnings: list[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    original_labels = labels[:]
    assert Alphabet.build_alphabet(labels).labels == expected
    assert labels == original_labels
    assert len(caplog.messages) == len(warnings)
    for message, part in zip(caplog.messages, warnings, strict=True):
        assert part in message


def test_labels_of_an_alphabet_are_a_copy() -> None:
    alphabet = Alphabet(["", "a"], False)
    alphabet.labels.append("b")
    assert alphabet.labels == ["", "a"]
    assert Alphabet.build_alphabet(("a", " ", "")).labels == ["a", " ", ""]
    with pytest.raises(InputError, match=r"label 1 is '\\ud800': must be a str without unpaired"):
        Alphabet.build_alphabet(["a", "\ud800"])
    with pytest.raises(InputError, match="labels must be a list of str, not dict"):
        Alphabet.build_alphabet({"a": 1})  # type: ignore[arg-type]


def test_spaces_in_subwords() -> None:
    with pytest.raises(InputError, match="contains a space"):
        Alphabet.build_alphabet(["▁a b"])
    assert Alphabet.build_alphabet(["a b", "c", " ", ""]).labels == ["a b", "c", " ", ""]


@pytest.mark.parametrize(
    ("unigrams", "warns"),
    [(["abcd", "e"], False), (["abcdE"], False), (["abcDE"], True), (["xyz"], True), ([], False)],
)
def test_a_fifth_of_the_letters_may_be_unknown(
    unigrams: list[str], warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    verify_alphabet_coverage(Alphabet([*"abcde", ""], False), unigrams)
    assert len(caplog.messages) == warns


def test_unigrams_of_a_decoder_are_verified(lm: str, caplog: pytest.LogCaptureFixture) -> None:
    build_ctcdecoder([" ", *"dogsat", ""], lm, ["dog", "sat"])
    assert caplog.messages == []
    build_ctcdecoder([" ", *"DOGSAT", ""], lm, ["dog", "sat"])
    assert caplog.messages == ["many letters of the unigrams are not labels"]
    caplog.clear()
    build_ctcdecoder([" ", *"dogsatunk</>", ""], lm)  # the words of the file are the unigrams
    assert caplog.messages == []


# ---- the decoder


LABELS = [" ", *"dogsat", ""]


def make_frames(text: str, p: float = 0.9) -> np.ndarray:
    """Return probabilities (time, labels) of one spelling."""
    x = np.full((len(text), len(LABELS)), (1 - p) / (len(LABELS) - 1))
    x[range(len(text)), [LABELS.index(letter) for letter in text]] = p
    return x


def test_the_cache_has_eight_decoders() -> None:
    decoder = build_ctcdecoder(LABELS)
    cached = []
    for width in range(1, 9):
        assert decoder.decode(make_frames("dog"), beam_width=width) == "dog"
        assert len(decoder._decoders) == width
        cached.append(next(reversed(decoder._decoders)))
    decoder.decode(make_frames("dog"), beam_width=3)
    assert [*decoder._decoders] == cached
    decoder.decode(make_frames("dog"), beam_width=9)
    assert [*decoder._decoders][:-1] == cached[1:]
    assert decoder.__getstate__()["_decoders"] == {}
    assert decoder.__getstate__()["_cached_lm"] is None


def test_hot_words_and_weights_have_their_decoders(lm: str) -> None:
    decoder = build_ctcdecoder(LABELS, lm)
    x = make_frames("dog", 0.6)
    plain = decoder.decode_beams(x)[0][4]
    hot = decoder.decode_beams(x, hotwords=["dog"])[0][4]
    assert hot == pytest.approx(plain + 10.0)
    assert decoder.decode_beams(x, hotwords=["dog"], hotword_weight=2.5)[0][4] == pytest.approx(
        plain + 2.5
    )
    decoder.reset_params(beta=2.0)
    assert decoder.decode_beams(x)[0][4] == pytest.approx(plain + 0.5)
    decoder.reset_params(unk_score_offset=-3.0)
    language_model = decoder._language_model
    assert isinstance(language_model, LanguageModel)
    assert language_model.serializable_attrs == {
        "alpha": 0.5,
        "beta": 2.0,
        "unk_score_offset": -3.0,
        "score_boundary": True,
    }


def test_models_of_all_decoders_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BeamSearchDecoderCTC, "model_container", {})
    decoder = build_ctcdecoder(LABELS)
    assert len(BeamSearchDecoderCTC.model_container) == 1
    BeamSearchDecoderCTC.clear_class_models()
    assert BeamSearchDecoderCTC.model_container == {}
    with pytest.raises(InputError, match="removed by cleanup or clear_class_models"):
        decoder.decode(make_frames("dog"))
    decoder.cleanup()  # it is removed already


def test_probabilities_are_clipped() -> None:
    decoder = build_ctcdecoder(LABELS)
    certain = np.zeros((3, len(LABELS)))
    certain[range(3), [1, 2, 3]] = 1.0
    for x in (certain, certain.astype(int), certain.astype(np.float32), certain.tolist()):
        np.testing.assert_array_equal(
            np.exp(decoder._to_log_probs(x)), np.exp(np.log(np.clip(certain, 1e-15, 1)))
        )
    above_one = certain.copy()
    above_one[0, 1], above_one[1, 2] = 1 + 1e-10, 1 - 1e-10  # the mean of the sums is 1
    assert decoder._to_log_probs(above_one).max() == 0.0
    logits = np.array([[0.0, -100.0, *[-np.inf] * 6], [3.0, 3.0, *[-500.0] * 6]])
    expected = np.full((2, 8), math.log(1e-15))
    expected[0, 0], expected[1, :2] = 0.0, math.log(0.5)
    np.testing.assert_allclose(decoder._to_log_probs(logits), expected, rtol=1e-12)
    np.testing.assert_array_equal(
        np.exp(decoder._to_log_probs(np.zeros((0, 8)))).round(9), [[0] * 7 + [1]]
    )


@pytest.mark.parametrize(
    ("x", "match"),
    [
        (np.zeros((2, 8), complex), "logits are complex128: must be numbers"),
        (np.zeros((2, 8), bool), "logits are bool: must be numbers"),
        (np.zeros((1, 2, 8)), r"logits have shape \(1, 2, 8\): must be \(time, 8\)"),
        (np.where(np.eye(2, 8) > 0, np.inf, 0.0), "a frame whose maximum is not finite"),
        (np.where(np.eye(2, 8) > 0, np.nan, 0.0), "contain NaN"),
    ],
)
def test_invalid_logits(x: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        build_ctcdecoder(LABELS).decode(x)


def test_history_is_pruned(lm: str) -> None:
    decoder = build_ctcdecoder(LABELS, lm)
    x = (make_frames("dogs sat dogs") + make_frames("doga sat dogs")) / 2
    many = decoder.decode_beams(x, beam_prune_logp=-60.0)
    few = decoder.decode_beams(x, beam_prune_logp=-60.0, prune_history=True)
    assert len(few) != len(many)  # the beam differs from the first word on
    batch = decoder.decode_beams_batch(None, [x, x[:4]], beam_prune_logp=-60.0, prune_history=True)
    assert len(batch[0]) == len(few)
    assert [len(b) for b in decoder.decode_beams_batch(None, [x], beam_prune_logp=-60.0)] == [
        len(many)
    ]
    assert len(decoder.decode_beams(x, 1, beam_prune_logp=-60.0)) == 1


# ---- language models


class Length(AbstractLanguageModel):
    """Scores: the length of the word, and 100 for the end of the text."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, str, bool]] = []

    @property
    def order(self) -> int:
        return 7

    def get_start_state(self) -> Any:
        return "start"

    def score_partial_token(self, partial_token: str) -> float:
        return 0.0

    def score(self, prev_state: Any, word: str, is_last_word: bool = False) -> tuple[float, Any]:
        self.calls.append((prev_state, word, is_last_word))
        return len(word) + 100.0 * is_last_word, f"{prev_state} {word}"


def test_states_of_other_classes_are_objects() -> None:
    model = Length()
    decoder = BeamSearchDecoderCTC(Alphabet.build_alphabet(LABELS), model)
    x = make_frames("dog sat", 0.999)
    text, state, _, acoustic, score = decoder.decode_beams(x)[0]
    assert (text, state) == ("dog sat", "start dog sat")
    assert score - acoustic == pytest.approx(106.0)
    assert ("start", "dog", False) in model.calls
    assert ("start dog", "sat", True) in model.calls
    again = decoder.decode_beams(make_frames("dog", 0.999), lm_start_state="begin")[0]
    assert again[1] == "begin dog"
    for method in (model.save_to_dir, Length.load_from_dir):
        with pytest.raises(NotImplementedError, match="Length has no"):
            method("folder")
    model.reset_params(alpha=1.0)


def test_mean_of_models(lm: str) -> None:
    first = LanguageModel(lm, ["dog"], alpha=1.0, beta=0.5, unk_score_offset=-6.0)
    second = LanguageModel(lm, ["sat"], alpha=0.25, beta=0.0, unk_score_offset=-12.0)
    both = MultiLanguageModel([first, second])
    assert both.order == 3
    states = both.get_start_state()
    assert len(states) == 2
    for last in (False, True):
        scores = [m.score(s, "dog", last)[0] for m, s in zip((first, second), states, strict=True)]
        assert scores[0] != scores[1]
        assert both.score(states, "dog", last)[0] == pytest.approx(sum(scores) / 2)
    assert both.score_partial_token("do") == -6.0
    assert both.score_partial_token("x" * 6) == -9.0
    assert both.score_partial_token("x" * 7) == pytest.approx(-9.0 * 7 / 6)
    assert MultiLanguageModel([first, second, second]).score_partial_token("do") == -8.0
    with pytest.raises(InputError, match="language_models has 1 models: must have at least 2"):
        MultiLanguageModel([first])


def test_known_words(lm: str, caplog: pytest.LogCaptureFixture) -> None:
    LanguageModel(lm)
    assert caplog.messages == ["without unigrams, every partial word is scored as an unknown word"]
    caplog.clear()
    LanguageModel(lm, ["dog", *map(str, range(9))])  # a tenth
    LanguageModel(lm, [])
    assert caplog.messages == []
    LanguageModel(lm, ["dog", *map(str, range(10))])
    assert caplog.messages == ["less than a tenth of the unigrams are words of the language model"]
    without, start = LanguageModel(lm, alpha=1.0, beta=0.0), None
    start = without.get_start_state()
    assert without.score(start, "dog")[0] == pytest.approx(-0.4 * math.log(10))
    assert without.score(start, "cat")[0] == pytest.approx((-0.25 - 1.5 - 10) * math.log(10))
    assert without.score_partial_token("do") == -10.0
    only_sat = LanguageModel(lm, ["sat"], alpha=1.0, beta=0.0)
    assert only_sat.score(start, "dog")[0] == pytest.approx(-10.4 * math.log(10))


def test_boundaries_are_scored_or_not(lm: str) -> None:
    scored = LanguageModel(lm, ["dog"], alpha=1.0, beta=0.0)
    _, state = scored.score(scored.get_start_state(), "dog")
    unscored = LanguageModel(lm, ["dog"], alpha=1.0, beta=0.0, score_boundary=False)
    step = scored.score(state, "dog")[0]
    # log p(</s> | dog) backs off to the unigram
    end = scored._score_step(scored.score(state, "dog")[1], "</s>")[0] * math.log(10)
    assert end == pytest.approx((-0.125 - 0.75) * math.log(10))
    assert scored.score(state, "dog", is_last_word=True)[0] == pytest.approx(step + end)
    assert unscored.score(state, "dog", is_last_word=True)[0] == pytest.approx(step)
    assert unscored.score(unscored.get_start_state(), "dog")[0] == pytest.approx(
        -0.5 * math.log(10)
    )


def test_parameters_of_a_model(lm: str) -> None:
    model = LanguageModel(lm, ["dog"])
    model.reset_params(alpha=2.0, beta=None, score_boundary=False, other=1)
    assert (model.alpha, model.beta, model.score_boundary) == (2.0, 1.5, False)
    with pytest.raises(InputError, match=r"score_boundary must be a bool, not 1\.0"):
        model.reset_params(score_boundary=1.0)


def test_unigrams_of_a_file(tmp_path: Path, lm: str) -> None:
    # dogs and </s> have no back-off weight; the rows after the 1-grams are not words
    assert load_unigram_set_from_arpa(lm) == {"<unk>", "<s>", "dog", "sat"}
    path = tmp_path / "none.arpa"
    path.write_text("-1\tbefore\t0\n\\1-grams:\n-1\tdog\n\\2-grams:\n-1\tdog dog\t0\n")
    with pytest.raises(FormatError, match=r"none\.arpa: no word has a back-off weight"):
        load_unigram_set_from_arpa(str(path))


def test_words_with_a_prefix() -> None:
    index = PrefixIndex(["b", "ab", "a", "abc", "ab", "ac"])
    assert [*index.words("ab")] == ["ab", "abc"]
    assert [*index.words("a")] == ["a", "ab", "abc", "ac"]
    assert [*index.words("")] == ["a", "ab", "abc", "ac", "b"]
    assert [*index.words("c")] == [*index.words("aa")] == []
    assert index.has_node("")
    assert not PrefixIndex([]).has_node("")


def test_hot_words_of_several_lengths() -> None:
    scorer = HotwordScorer.build_scorer(["new", "new york", "newer"], weight=4.0)
    assert scorer.score("in newer new york") == 12.0
    assert scorer.score("news") == scorer.score("renew") == 0.0
    assert scorer.score_partial_token("ne") == pytest.approx(8 / 3)
    assert scorer.score_partial_token("newe") == pytest.approx(16 / 5)
    assert scorer.score_partial_token("z") == 0.0
    assert HotwordScorer.build_scorer(["a"]).score("a") == 10.0
    assert HotwordScorer.build_scorer([]).score_partial_token("") == 0.0
    assert HotwordScorer.build_scorer(["a.c"], 1.0).score("abc a.c") == 1.0


# ---- files


def test_folders_with_hidden_files(tmp_path: Path, lm: str) -> None:
    folder = tmp_path / "decoder"
    folder.mkdir()
    build_ctcdecoder(LABELS).save_to_dir(str(folder))
    (folder / ".hidden").touch()
    (folder / "__pycache__").mkdir()
    contents = BeamSearchDecoderCTC.parse_directory_contents(str(folder))
    assert contents == {"alphabet": str(folder / "alphabet.json"), "language_model": None}
    with_model = tmp_path / "model"
    with_model.mkdir()
    build_ctcdecoder(LABELS, lm, ["dog", "sat", "cat"]).save_to_dir(str(with_model))
    inner = with_model / "language_model"
    (inner / ".hidden").touch()
    (inner / "__more").touch()
    assert BeamSearchDecoderCTC.parse_directory_contents(str(with_model)) == {
        "alphabet": str(with_model / "alphabet.json"),
        "language_model": str(inner),
    }
    assert LanguageModel.parse_directory_contents(str(inner)) == {
        "json_attrs": str(inner / "attrs.json"),
        "unigrams": str(inner / "unigrams.txt"),
        "kenlm": str(inner / "tiny.arpa"),
    }
    assert (inner / "unigrams.txt").read_text() == "dog\nsat\n"
    assert (inner / "tiny.arpa").read_text() == ARPA
    assert (inner / "tiny.arpa").stat().st_mtime == Path(lm).stat().st_mtime
    (inner / "tiny.arpa").rename(inner / "tiny.txt")
    with pytest.raises(FormatError, match=r"tiny\.txt must end in \.arpa, \.bin or \.binary"):
        BeamSearchDecoderCTC.load_from_dir(str(with_model))
    (folder / "alphabet.json").unlink()
    with pytest.raises(FormatError, match=r"must contain the file alphabet\.json"):
        BeamSearchDecoderCTC.load_from_dir(str(folder))


def test_encodings_of_unigrams(tmp_path: Path) -> None:
    path = tmp_path / "a.arpa"
    path.write_text(ARPA.replace("dog", "dög"), encoding="utf-8")
    model = LanguageModel(str(path), ["dög", "sat"])
    for encoding in (None, "utf-16"):
        folder = tmp_path / str(encoding)
        folder.mkdir()
        model.save_to_dir(str(folder), encoding)
        text = (folder / "unigrams.txt").read_text(encoding=encoding or "utf-8")
        assert text == "dög\nsat\n"
        assert LanguageModel.load_from_dir(str(folder), encoding)._unigram_set == {"dög", "sat"}
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "alphabet.json").write_bytes(b"\xff")
    with pytest.raises(FormatError, match=r"alphabet\.json: 'utf-8'"):
        BeamSearchDecoderCTC.load_from_dir(str(broken))


def test_the_folder_of_downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build_ctcdecoder(LABELS).save_to_dir(str(tmp_path))
    calls: list[Any] = []
    hub = types.ModuleType("huggingface_hub")
    hub.snapshot_download = lambda *a, **k: calls.append((a, k)) or str(tmp_path)  # type: ignore
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    BeamSearchDecoderCTC.load_from_hf_hub("me/decoder")
    folder = str(Path.home() / ".cache" / "pyctcdecode")
    assert calls == [(("me/decoder",), {"cache_dir": folder})]


def test_messages_of_warnings_are_logged_by_the_module(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "trellis.compat.pyctcdecode.alphabet"):
        Alphabet.build_alphabet(["a"])
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_folders_with_other_files(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    with pytest.raises(FormatError, match=r"must contain the file alphabet.json; .*'other'"):
        BeamSearchDecoderCTC.parse_directory_contents(str(tmp_path))
    (tmp_path / "alphabet.json").touch()
    with pytest.raises(FormatError, match=r"must contain the folder language_model; .*'other'"):
        BeamSearchDecoderCTC.parse_directory_contents(str(tmp_path))
