"""The replacement of pyctcdecode, compared with pyctcdecode where it is installed."""

from __future__ import annotations

import json
import logging
import pickle
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trellis.compat import pyctcdecode as ours
from trellis.compat.pyctcdecode import (
    Alphabet,
    BeamSearchDecoderCTC,
    LanguageModel,
    build_ctcdecoder,
)
from trellis.compat.pyctcdecode.language_model import (
    AbstractLanguageModel,
    HotwordScorer,
    MultiLanguageModel,
    load_unigram_set_from_arpa,
)
from trellis.errors import FormatError, InputError
from trellis.formats import arpa

LABELS = [" ", *"adgost", ""]
WORDS = ["cat", "dog", "dogs", "sat"]

ARPA = """\\data\\
ngram 1=6
ngram 2=4

\\1-grams:
-1.5\t<unk>\t0
-99\t<s>\t-0.25
-0.75\t</s>
-0.5\tdog\t-0.125
-1.0\tdogs\t-0.0625
-0.8\tsat\t-0.5

\\2-grams:
-0.4\t<s> dog
-1.5\t<s> dogs
-0.125\tdog sat
-0.5\tsat </s>

\\end\\
"""


def spell(*spellings: tuple[float, str]) -> np.ndarray:
    """Return probabilities (time, labels) of weighted spellings; _ is the blank."""
    p = np.zeros((len(spellings[0][1]), len(LABELS)))
    for weight, spelling in spellings:
        for t, letter in enumerate(spelling):
            p[t, LABELS.index(letter.replace("_", ""))] += weight
    return p


AMBIGUOUS = spell((0.52, "dogs sat"), (0.48, "doga sat"))
AMBIGUOUS[3] = 0.0
AMBIGUOUS[3, LABELS.index("s")], AMBIGUOUS[3, LABELS.index("")] = 0.55, 0.45
LOGITS = np.log(np.clip(AMBIGUOUS, 1e-15, 1.0))


def same_texts_and_scores(beams: Any, expected: Any) -> None:
    assert [beam[0] for beam in beams] == [beam[0] for beam in expected]
    scores = [beam[4] for beam in expected]
    np.testing.assert_allclose([beam[4] for beam in beams], scores, atol=1e-9)


@pytest.fixture(name="lm")
def _lm(tmp_path: Path) -> str:
    path = tmp_path / "tiny.arpa"
    path.write_text(ARPA)
    return str(path)


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


# ---- decoding


def test_language_model_changes_the_text(lm: str) -> None:
    plain, with_lm = build_ctcdecoder(LABELS), build_ctcdecoder(LABELS, lm)
    assert plain.decode(LOGITS) == "dogs sat"
    assert with_lm.decode(LOGITS) == "dog sat"
    text, state, frames, acoustic, score = with_lm.decode_beams(LOGITS)[0]
    assert (text, frames) == ("dog sat", [("dog", (0, 3)), ("sat", (5, 8))])
    assert acoustic == pytest.approx(np.log(0.45))
    lm_log10 = arpa.read(lm).score("dog sat")
    assert score - acoustic == pytest.approx(0.5 * np.log(10) * lm_log10 + 2 * 1.5)
    assert state is not None
    assert plain.decode_beams(LOGITS)[0][1] is None


def test_probabilities_log_probabilities_and_logits_agree() -> None:
    decoder = build_ctcdecoder(LABELS)
    x = np.random.default_rng(0).normal(size=(9, len(LABELS)))
    p = np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)
    expected = decoder.decode_beams(x)
    for equivalent in (np.log(p), p, x + 3.0, x.tolist()):
        same_texts_and_scores(decoder.decode_beams(equivalent), expected)


def test_batches_ignore_the_pool(lm: str) -> None:
    decoder = build_ctcdecoder(LABELS, lm)
    rows = [LOGITS, LOGITS[:3], LOGITS[:5]]
    texts = [decoder.decode(row) for row in rows]
    assert texts == ["dog sat", "dog", "dog"]
    for pool in (None, object()):
        assert decoder.decode_batch(pool, rows) == texts
        beams = decoder.decode_beams_batch(pool, rows)
        assert [row[0][0] for row in beams] == texts
        assert beams[0][0] == tuple(np.array(decoder.decode_beams(LOGITS)[0], object)[[0, 2, 3, 4]])


def test_decoding_continues_from_a_state(lm: str) -> None:
    decoder = build_ctcdecoder(LABELS, lm)
    complete = decoder.decode_beams(LOGITS)[0]
    _, state, _, acoustic, score = decoder.decode_beams(spell((1.0, "dog")))[0]
    after = decoder.decode_beams(spell((1.0, "sat")), lm_start_state=state)[0]
    end = 0.5 * np.log(10) * arpa.read(lm).full_scores("dog")[-1].log10
    assert score - acoustic - end + after[4] - after[3] == pytest.approx(complete[4] - complete[3])
    without_state = decoder.decode_beams(spell((1.0, "sat")))[0]
    assert without_state[4] < after[4]
    assert decoder.decode(spell((1.0, "sat")), lm_start_state=state) == "sat"


def test_hot_words_and_pruning(lm: str) -> None:
    decoder = build_ctcdecoder(LABELS, lm)
    assert decoder.decode(LOGITS, hotwords=["dogs"]) == "dogs sat"
    assert decoder.decode(LOGITS, token_min_logp=0.0) == "dogs sat"
    assert len(decoder.decode_beams(LOGITS, beam_width=1)) == 1
    wide = decoder.decode_beams(LOGITS, beam_prune_logp=-100.0)
    assert len(wide) > len(decoder.decode_beams(LOGITS, beam_prune_logp=-1.0))


def test_parameters_can_be_reset(lm: str) -> None:
    decoder = build_ctcdecoder(LABELS, lm)
    decoder.reset_params(alpha=0.0, beta=0.0)
    assert decoder.decode(LOGITS) == "dogs sat"
    decoder.reset_params(alpha=0.5, lm_score_boundary=False)
    beams = {beam[0]: beam[4] - beam[3] for beam in decoder.decode_beams(LOGITS)}
    log10 = arpa.read(lm).score("dog sat", bos=False, eos=False)
    assert beams["dog sat"] == pytest.approx(0.5 * np.log(10) * log10)
    with pytest.raises(InputError, match="alpha must be a float"):
        decoder.reset_params(alpha=1)  # type: ignore[arg-type]
    build_ctcdecoder(LABELS).reset_params(alpha=1.0)  # without a language model, this does nothing


def test_class_stores_the_language_models(lm: str) -> None:
    decoder = build_ctcdecoder(LABELS, lm)
    count = len(BeamSearchDecoderCTC.model_container)
    again = pickle.loads(pickle.dumps(decoder))
    assert again.decode(LOGITS) == decoder.decode(LOGITS)
    decoder.cleanup()
    assert len(BeamSearchDecoderCTC.model_container) == count - 1
    with pytest.raises(InputError, match="removed by cleanup"):
        decoder.decode(LOGITS)


def test_no_frames(lm: str) -> None:
    for decoder in (build_ctcdecoder(LABELS), build_ctcdecoder(LABELS, lm)):
        assert decoder.decode(np.zeros((0, len(LABELS)))) == ""
        assert decoder.decode_beams(np.zeros((0, len(LABELS))))[0][2:4] == ([], 0.0)


# ---- language models


class Foreign(AbstractLanguageModel):
    """A language model of another class: the decoder can only use its methods."""

    def __init__(self, inner: LanguageModel) -> None:
        self.inner = inner

    @property
    def order(self) -> int:
        return self.inner.order

    def get_start_state(self) -> Any:
        return self.inner.get_start_state()

    def score_partial_token(self, partial_token: str) -> float:
        return self.inner.score_partial_token(partial_token)

    def score(self, prev_state: Any, word: str, is_last_word: bool = False) -> tuple[float, Any]:
        return self.inner.score(prev_state, word, is_last_word)


@pytest.mark.parametrize("unigrams", [None, [], WORDS, ["dogs"]])
@pytest.mark.parametrize("boundary", [True, False])
def test_language_models_of_other_classes(
    lm: str, unigrams: list[str] | None, boundary: bool
) -> None:
    inner = LanguageModel(lm, unigrams, alpha=0.7, beta=0.3, score_boundary=boundary)
    alphabet = Alphabet.build_alphabet(LABELS)
    fast = BeamSearchDecoderCTC(alphabet, inner).decode_beams(LOGITS, beam_prune_logp=-60.0)
    for model in (Foreign(inner), MultiLanguageModel([inner, inner])):
        slow = BeamSearchDecoderCTC(alphabet, model).decode_beams(LOGITS, beam_prune_logp=-60.0)
        same_texts_and_scores(slow, fast)
        assert [beam[2] for beam in slow] == [beam[2] for beam in fast]


def test_scores_of_words(lm: str) -> None:
    model = LanguageModel(lm, WORDS, alpha=1.0, beta=0.0)
    assert model.order == 2
    start = model.get_start_state()
    score, state = model.score(start, "dog")
    assert score == pytest.approx(-0.4 * np.log(10))
    assert model.score(state, "sat")[0] == pytest.approx(-0.125 * np.log(10))
    assert model.score(state, "sat", is_last_word=True)[0] == pytest.approx(-0.625 * np.log(10))
    assert model.score(start, "cat")[0] == pytest.approx((-0.25 - 1.5 - 10.0) * np.log(10))
    assert model.score_partial_token("do") == 0.0
    assert model.score_partial_token("x") == -10.0
    assert model.score_partial_token("x" * 12) == -20.0
    assert load_unigram_set_from_arpa(lm) == {"<unk>", "<s>", "dog", "dogs", "sat"}


def test_hotword_scorer() -> None:
    scorer = HotwordScorer.build_scorer(["tyrion lannister", "hodor,", "ho"], weight=2.0)
    assert scorer.score("hodor, said tyrion hodor") == 4.0
    assert "lann" in scorer
    assert "dor" not in scorer
    assert scorer.score_partial_token("ho") == 2.0
    assert scorer.score_partial_token("hod") == 1.0
    assert HotwordScorer.build_scorer().score("any") == 0.0


# ---- files


@pytest.mark.parametrize("with_lm", [True, False])
def test_saved_folders(tmp_path: Path, lm: str, with_lm: bool) -> None:
    decoder = build_ctcdecoder(LABELS, lm if with_lm else None, alpha=0.9)
    folder = tmp_path / "decoder"
    folder.mkdir()
    decoder.save_to_dir(str(folder))
    again = BeamSearchDecoderCTC.load_from_dir(str(folder))
    expected = [beam[2:] for beam in decoder.decode_beams(LOGITS)]
    assert [beam[2:] for beam in again.decode_beams(LOGITS)] == expected


def test_load_from_hf_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build_ctcdecoder(LABELS).save_to_dir(str(tmp_path))
    calls: list[Any] = []
    hub = types.ModuleType("huggingface_hub")
    hub.snapshot_download = lambda *a, **k: calls.append((a, k)) or str(tmp_path)  # type: ignore
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    decoder = BeamSearchDecoderCTC.load_from_hf_hub("me/decoder", cache_dir="here", revision="x")
    assert decoder.decode(LOGITS) == "dogs sat"
    assert calls == [(("me/decoder",), {"cache_dir": "here", "revision": "x"})]
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match="huggingface_hub"):
        BeamSearchDecoderCTC.load_from_hf_hub("me/decoder")


def attrs(**changed: Any) -> str:
    """Return the text of attrs.json with other values."""
    values = {"alpha": 0.5, "beta": 1, "unk_score_offset": -10.0, "score_boundary": True}
    return json.dumps(values | changed)


@pytest.mark.parametrize(
    ("file", "text", "match"),
    [
        ("language_model/attrs.json", attrs(), None),
        ("alphabet.json", "{", "not valid JSON"),
        ("alphabet.json", '{"labels": []}', "keys"),
        ("alphabet.json", '{"labels": [1], "is_bpe": false}', "label 0"),
        ("alphabet.json", '{"labels": ["", ""], "is_bpe": 1}', "is_bpe"),
        ("language_model/attrs.json", "[", "attrs.json"),
        ("language_model/attrs.json", '{"alpha": 1}', "keys"),
        ("language_model/attrs.json", "[" * 100_000, "attrs.json"),
        ("language_model/attrs.json", "[]", "exactly the keys alpha, beta, unk_score_offset, sco"),
        ("language_model/attrs.json", attrs(more=1), "exactly the keys"),
        ("language_model/attrs.json", attrs(alpha="1"), "alpha is '1': must be a number"),
        ("language_model/attrs.json", attrs(beta=None), "beta is None: must be a number"),
        ("language_model/attrs.json", attrs(alpha=True), "alpha is True: must be a number"),
        ("language_model/attrs.json", attrs(score_boundary=1), "is 1: must be true or false"),
        ("language_model/attrs.json", attrs(score_boundary="a"), "is 'a': must be true or false"),
        ("language_model/attrs.json", None, "must contain"),
        ("language_model/tiny.arpa", "nothing", "tiny.arpa"),
        ("language_model/more.txt", "", "must contain"),
        ("more.txt", "", None),
    ],
)
def test_invalid_folders(
    tmp_path: Path, lm: str, file: str, text: str | None, match: str | None
) -> None:
    folder = tmp_path / "decoder"
    folder.mkdir()
    build_ctcdecoder(LABELS, lm).save_to_dir(str(folder))
    if text is None:
        (folder / file).unlink()
    else:
        (folder / file).write_text(text)
    if match is None:
        BeamSearchDecoderCTC.load_from_dir(str(folder))
        return
    with pytest.raises(FormatError, match=match):
        BeamSearchDecoderCTC.load_from_dir(str(folder))


# ---- alphabets


@pytest.mark.parametrize(
    ("labels", "bpe", "expected"),
    [
        ([" ", "a", ""], False, [" ", "a", ""]),
        ([" ", "a"], False, [" ", "a", ""]),
        (["|", "a", "[PAD]", "<unk>"], False, [" ", "a", "", "⁇"]),
        (["|", " ", "_"], False, ["|", " ", ""]),
        (["_", "", "a"], False, ["_", "", "a"]),
        (["<unk>", "▁B", "ugs"], True, ["▁⁇▁", "▁B", "ugs", ""]),
        (["B", "##ugs", "▁", "[PAD]", "<s>"], True, ["▁B", "ugs", "▁", "", "<s>"]),
    ],
)
def test_alphabets(labels: list[str], bpe: bool, expected: list[str]) -> None:
    alphabet = Alphabet.build_alphabet(labels)
    assert (alphabet.labels, alphabet.is_bpe) == (expected, bpe)
    again = Alphabet.loads(alphabet.dumps())
    assert (again.labels, again.is_bpe) == (expected, bpe)


def test_subwords() -> None:
    decoder = build_ctcdecoder(["<unk>", "▁dog", "s", "▁sat"])
    p = np.full((4, 5), 0.01)
    p[range(4), [1, 2, 4, 3]] = 0.96
    assert decoder.decode_beams(p)[0][2] == [("dogs", (0, 2)), ("sat", (3, 4))]


# ---- invalid input


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda d: d.decode(LOGITS[0]), "shape"),
        (lambda d: d.decode(LOGITS[:, 1:]), r"must be \(time, 8\)"),
        (lambda d: d.decode_batch(None, [LOGITS, LOGITS[:, 1:]]), "sequence 1"),
        (lambda d: d.decode(np.full((2, 8), np.nan)), "NaN"),
        (lambda d: d.decode(np.full((2, 8), -np.inf)), "maximum is not finite"),
        (lambda d: d.decode(np.full((2, 8), "a")), "numbers"),
        (lambda d: d.decode(LOGITS, beam_width=0), "beam_width"),
        (lambda d: d.decode(LOGITS, beam_width=[1]), "beam_width"),
        (lambda d: d.decode(LOGITS, beam_prune_logp=1.0), "beam_prune_logp"),
        (lambda d: d.decode(LOGITS, token_min_logp="a"), "token_min_logp"),
        (lambda d: d.decode(LOGITS, hotwords="dog"), "hotwords"),
        (lambda d: d.decode(LOGITS, hotwords=[1]), "hotwords contains 1"),
        (lambda d: d.decode(LOGITS, lm_start_state=object()), "start"),
        (lambda d: d.decode(LOGITS, lm_start_state=12345), "state does not belong"),
        (lambda d: BeamSearchDecoderCTC(LABELS), "Alphabet"),
        (lambda d: BeamSearchDecoderCTC(Alphabet(["a"], False)), "blank"),
        (lambda d: BeamSearchDecoderCTC(d._alphabet, "lm").decode(LOGITS), "LanguageModel"),
        (lambda d: build_ctcdecoder("abc"), "list"),
        (lambda d: build_ctcdecoder(["a", "a"]), "twice"),
        (lambda d: build_ctcdecoder(["▁a", " "]), "space"),
        (lambda d: build_ctcdecoder([1]), "label 0"),
        (lambda d: MultiLanguageModel([]), "at least 2"),
        (lambda d: LanguageModel(d._language_model._kenlm_model, "words"), "vocabulary"),
    ],
)
def test_invalid_input(lm: str, call: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        call(build_ctcdecoder(LABELS, lm))


# ---- compared with pyctcdecode


def same_beams(beams: Any, expected: Any) -> None:
    """Compare beams of the replacement with beams of pyctcdecode."""
    assert len(beams) == len(expected)
    for a, b in zip(sorted(beams), sorted(expected), strict=True):
        assert a[0] == b[0]
        assert a[2] == [(word, (int(s), int(e))) for word, (s, e) in b[2]]
        assert a[3] == pytest.approx(b[3], abs=1e-6)
        assert a[4] == pytest.approx(b[4], abs=1e-6)


@pytest.mark.filterwarnings("default")
def test_subwords_as_in_pyctcdecode() -> None:
    theirs = pytest.importorskip("pyctcdecode")
    if theirs is ours:
        pytest.skip("pyctcdecode is the replacement itself")
    rng = np.random.default_rng(0)
    labels = ["▁dog", "▁do", "gs", "▁dogs", "s", "▁"]
    no_pruning = {"beam_prune_logp": -60.0, "token_min_logp": -60.0, "beam_width": 100_000}
    for _ in range(5):
        x = 3 * rng.normal(size=(4, len(labels) + 1))
        beams = build_ctcdecoder(labels).decode_beams(x, **no_pruning)
        expected = theirs.build_ctcdecoder(labels).decode_beams(x, **no_pruning)
        assert len(beams) == len(expected)
        scores = {beam[0]: beam[4] for beam in expected}
        for beam in beams:
            assert beam[4] == pytest.approx(scores[beam[0]], abs=1e-6)


CALLS: list[dict[str, Any]] = [
    {},
    {"beam_prune_logp": -60.0},
    {"hotwords": ["dogs"]},
    {"hotwords": ["sat dog"], "hotword_weight": 3.0, "beam_prune_logp": -60.0},
    {"token_min_logp": 0.0},
    {"beam_width": 3},
]
MODELS: list[dict[str, Any] | None] = [
    None,
    {},
    {"unigrams": []},
    {"unigrams": ["dogs"]},
    {"unigrams": WORDS, "alpha": 0.9, "beta": 0.2},
    {"unk_score_offset": 0.0},
    {"unigrams": WORDS, "score_boundary": False},
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.filterwarnings("default")
def test_same_results_as_pyctcdecode(
    lm: str, call: dict[str, Any], model: dict[str, Any] | None
) -> None:
    theirs, kenlm = pytest.importorskip("pyctcdecode"), pytest.importorskip("kenlm")
    if theirs is ours:
        pytest.skip("pyctcdecode is the replacement itself")
    kenlm_model = kenlm.Model(lm)
    peer = theirs.BeamSearchDecoderCTC(
        theirs.Alphabet.build_alphabet(LABELS),
        None if model is None else theirs.LanguageModel(kenlm_model, **model),
    )
    for source in (lm, kenlm_model):  # a file that trellis reads, and a model that kenlm has read
        decoder = BeamSearchDecoderCTC(
            Alphabet.build_alphabet(LABELS),
            None if model is None else LanguageModel(source, **model),
        )
        for x in (LOGITS, AMBIGUOUS):
            same_beams(decoder.decode_beams(x, **call), peer.decode_beams(x, **call))
            assert decoder.decode(x, **call) == peer.decode(x, **call)


@pytest.mark.filterwarnings("default")
def test_folders_are_exchanged_with_pyctcdecode(lm: str, tmp_path: Path) -> None:
    theirs, kenlm = pytest.importorskip("pyctcdecode"), pytest.importorskip("kenlm")
    if theirs is ours:
        pytest.skip("pyctcdecode is the replacement itself")
    assert kenlm.Model(lm).order == 2
    folders = [tmp_path / "ours", tmp_path / "theirs"]
    for writer, folder in zip((ours, theirs), folders, strict=True):
        folder.mkdir()
        writer.build_ctcdecoder(LABELS, lm, WORDS, alpha=0.8).save_to_dir(str(folder))
        beams, expected = (
            reader.BeamSearchDecoderCTC.load_from_dir(str(folder)).decode_beams(LOGITS)
            for reader in (ours, theirs)
        )
        same_beams(beams, expected)
