"""pyctcdecode's calls: what they give is what pyctcdecode gives, where it is installed."""

from __future__ import annotations

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


def said(*spellings: tuple[float, str]) -> np.ndarray:
    """Probabilities of spellings of one length, weighted; _ is the blank."""
    p = np.zeros((len(spellings[0][1]), len(LABELS)))
    for weight, spelling in spellings:
        for t, letter in enumerate(spelling):
            p[t, LABELS.index(letter.replace("_", ""))] += weight
    return p


DOUBTFUL = said((0.52, "dogs sat"), (0.48, "doga sat"))
DOUBTFUL[3] = 0.0
DOUBTFUL[3, LABELS.index("s")], DOUBTFUL[3, LABELS.index("")] = 0.55, 0.45
LOGITS = np.log(np.clip(DOUBTFUL, 1e-15, 1.0))


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


# ---- what it gives


def test_a_language_model_changes_the_text(lm: str) -> None:
    plain, helped = build_ctcdecoder(LABELS), build_ctcdecoder(LABELS, lm)
    assert plain.decode(LOGITS) == "dogs sat"
    assert helped.decode(LOGITS) == "dog sat"
    text, state, frames, acoustic, score = helped.decode_beams(LOGITS)[0]
    assert (text, frames) == ("dog sat", [("dog", (0, 3)), ("sat", (5, 8))])
    assert acoustic == pytest.approx(np.log(0.45))
    lm_log10 = arpa.read(lm).score("dog sat")
    assert score - acoustic == pytest.approx(0.5 * np.log(10) * lm_log10 + 2 * 1.5)
    assert state is not None
    assert plain.decode_beams(LOGITS)[0][1] is None


def test_probabilities_logarithms_and_logits_are_one() -> None:
    decoder = build_ctcdecoder(LABELS)
    x = np.random.default_rng(0).normal(size=(9, len(LABELS)))
    p = np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)
    best = decoder.decode_beams(x)
    for same in (np.log(p), p, x + 3.0, x.tolist()):
        found = decoder.decode_beams(same)
        assert [own[0] for own in found] == [own[0] for own in best]
        np.testing.assert_allclose([own[4] for own in found], [own[4] for own in best], atol=1e-9)


def test_batches_are_the_same_with_and_without_a_pool(lm: str) -> None:
    decoder = build_ctcdecoder(LABELS, lm)
    rows = [LOGITS, LOGITS[:3], LOGITS[:5]]
    want = [decoder.decode(row) for row in rows]
    assert want == ["dog sat", "dog", "dog"]
    for pool in (None, object()):
        assert decoder.decode_batch(pool, rows) == want
        beams = decoder.decode_beams_batch(pool, rows)
        assert [row[0][0] for row in beams] == want
        assert beams[0][0] == tuple(np.array(decoder.decode_beams(LOGITS)[0], object)[[0, 2, 3, 4]])


def test_states_go_on_where_a_text_ended(lm: str) -> None:
    decoder = build_ctcdecoder(LABELS, lm)
    whole = decoder.decode_beams(LOGITS)[0]
    _, state, _, acoustic, score = decoder.decode_beams(said((1.0, "dog")))[0]
    after = decoder.decode_beams(said((1.0, "sat")), lm_start_state=state)[0]
    end = 0.5 * np.log(10) * arpa.read(lm).full_scores("dog")[-1].log10
    assert score - acoustic - end + after[4] - after[3] == pytest.approx(whole[4] - whole[3])
    alone = decoder.decode_beams(said((1.0, "sat")))[0]
    assert alone[4] < after[4]
    assert decoder.decode(said((1.0, "sat")), lm_start_state=state) == "sat"


def test_hot_words_and_cuts(lm: str) -> None:
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
    beams = {own[0]: own[4] - own[3] for own in decoder.decode_beams(LOGITS)}
    log10 = arpa.read(lm).score("dog sat", bos=False, eos=False)
    assert beams["dog sat"] == pytest.approx(0.5 * np.log(10) * log10)
    with pytest.raises(InputError, match="alpha must be a float"):
        decoder.reset_params(alpha=1)  # type: ignore[arg-type]
    build_ctcdecoder(LABELS).reset_params(alpha=1.0)  # nothing to reset


def test_models_are_kept_in_the_class(lm: str) -> None:
    decoder = build_ctcdecoder(LABELS, lm)
    count = len(BeamSearchDecoderCTC.model_container)
    again = pickle.loads(pickle.dumps(decoder))
    assert again.decode(LOGITS) == decoder.decode(LOGITS)
    decoder.cleanup()
    assert len(BeamSearchDecoderCTC.model_container) == count - 1
    with pytest.raises(InputError, match="cleaned up"):
        decoder.decode(LOGITS)


def test_no_frames(lm: str) -> None:
    for decoder in (build_ctcdecoder(LABELS), build_ctcdecoder(LABELS, lm)):
        assert decoder.decode(np.zeros((0, len(LABELS)))) == ""
        assert decoder.decode_beams(np.zeros((0, len(LABELS))))[0][2:4] == ([], 0.0)


# ---- language models


class Foreign(AbstractLanguageModel):
    """A model of the caller's own: the face must ask it, and nothing else."""

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
def test_any_language_model_will_do(lm: str, unigrams: list[str] | None, boundary: bool) -> None:
    inner = LanguageModel(lm, unigrams, alpha=0.7, beta=0.3, score_boundary=boundary)
    alphabet = Alphabet.build_alphabet(LABELS)
    fast = BeamSearchDecoderCTC(alphabet, inner).decode_beams(LOGITS, beam_prune_logp=-60.0)
    for other in (Foreign(inner), MultiLanguageModel([inner, inner])):
        slow = BeamSearchDecoderCTC(alphabet, other).decode_beams(LOGITS, beam_prune_logp=-60.0)
        assert [own[0] for own in slow] == [own[0] for own in fast]
        np.testing.assert_allclose([own[4] for own in slow], [own[4] for own in fast], atol=1e-9)
        assert [own[2] for own in slow] == [own[2] for own in fast]


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


def test_hot_words_by_themselves() -> None:
    scorer = HotwordScorer.build_scorer(["tyrion lannister", "hodor,", "ho"], weight=2.0)
    assert scorer.score("hodor, said tyrion hodor") == 4.0
    assert "lann" in scorer
    assert "dor" not in scorer
    assert scorer.score_partial_token("ho") == 2.0
    assert scorer.score_partial_token("hod") == 1.0
    assert HotwordScorer.build_scorer().score("any") == 0.0


# ---- files


@pytest.mark.parametrize("with_lm", [True, False])
def test_folders(tmp_path: Path, lm: str, with_lm: bool) -> None:
    decoder = build_ctcdecoder(LABELS, lm if with_lm else None, alpha=0.9)
    folder = tmp_path / "decoder"
    folder.mkdir()
    decoder.save_to_dir(str(folder))
    again = BeamSearchDecoderCTC.load_from_dir(str(folder))
    want, found = decoder.decode_beams(LOGITS), again.decode_beams(LOGITS)
    assert [own[2:] for own in found] == [own[2:] for own in want]


def test_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build_ctcdecoder(LABELS).save_to_dir(str(tmp_path))
    asked: list[Any] = []
    hub = types.ModuleType("huggingface_hub")
    hub.snapshot_download = lambda *a, **k: asked.append((a, k)) or str(tmp_path)  # type: ignore
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    found = BeamSearchDecoderCTC.load_from_hf_hub("me/decoder", cache_dir="here", revision="x")
    assert found.decode(LOGITS) == "dogs sat"
    assert asked == [(("me/decoder",), {"cache_dir": "here", "revision": "x"})]
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match="huggingface_hub"):
        BeamSearchDecoderCTC.load_from_hf_hub("me/decoder")


@pytest.mark.parametrize(
    ("file", "text", "what"),
    [
        ("alphabet.json", "{", "must be JSON"),
        ("alphabet.json", '{"labels": []}', "keys"),
        ("alphabet.json", '{"labels": [1], "is_bpe": false}', "label 0"),
        ("alphabet.json", '{"labels": ["", ""], "is_bpe": 1}', "is_bpe"),
        ("language_model/attrs.json", "[", "attrs.json"),
        ("language_model/attrs.json", '{"alpha": 1}', "keys"),
        ("language_model/attrs.json", None, "expected"),
        ("language_model/tiny.arpa", "nothing", "tiny.arpa"),
        ("language_model/more.txt", "", "expected"),
        ("more.txt", "", None),
    ],
)
def test_folders_that_are_wrong(
    tmp_path: Path, lm: str, file: str, text: str | None, what: str | None
) -> None:
    folder = tmp_path / "decoder"
    folder.mkdir()
    build_ctcdecoder(LABELS, lm).save_to_dir(str(folder))
    if text is None:
        (folder / file).unlink()
    else:
        (folder / file).write_text(text)
    if what is None:
        BeamSearchDecoderCTC.load_from_dir(str(folder))
        return
    with pytest.raises(FormatError, match=what):
        BeamSearchDecoderCTC.load_from_dir(str(folder))


# ---- alphabets


@pytest.mark.parametrize(
    ("labels", "bpe", "want"),
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
def test_alphabets(labels: list[str], bpe: bool, want: list[str]) -> None:
    found = Alphabet.build_alphabet(labels)
    assert (found.labels, found.is_bpe) == (want, bpe)
    again = Alphabet.loads(found.dumps())
    assert (again.labels, again.is_bpe) == (want, bpe)


def test_pieces_of_words() -> None:
    decoder = build_ctcdecoder(["<unk>", "▁dog", "s", "▁sat"])
    p = np.full((4, 5), 0.01)
    p[range(4), [1, 2, 4, 3]] = 0.96
    assert decoder.decode_beams(p)[0][2] == [("dogs", (0, 2)), ("sat", (3, 4))]


# ---- mistakes


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda d: d.decode(LOGITS[0]), "shape"),
        (lambda d: d.decode(LOGITS[:, 1:]), r"must be \(time, 8\)"),
        (lambda d: d.decode_batch(None, [LOGITS, LOGITS[:, 1:]]), "sequence 1"),
        (lambda d: d.decode(np.full((2, 8), np.nan)), "NaN"),
        (lambda d: d.decode(np.full((2, 8), -np.inf)), "nothing finite"),
        (lambda d: d.decode(np.full((2, 8), "a")), "numbers"),
        (lambda d: d.decode(LOGITS, beam_width=0), "beam_width"),
        (lambda d: d.decode(LOGITS, beam_width=[1]), "beam_width"),
        (lambda d: d.decode(LOGITS, beam_prune_logp=1.0), "beam_prune_logp"),
        (lambda d: d.decode(LOGITS, token_min_logp="a"), "token_min_logp"),
        (lambda d: d.decode(LOGITS, hotwords="dog"), "hotwords"),
        (lambda d: d.decode(LOGITS, hotwords=[1]), "hot word"),
        (lambda d: d.decode(LOGITS, lm_start_state=object()), "start"),
        (lambda d: d.decode(LOGITS, lm_start_state=12345), "no state"),
        (lambda d: BeamSearchDecoderCTC(LABELS), "Alphabet"),
        (lambda d: BeamSearchDecoderCTC(Alphabet(["a"], False)), "blank"),
        (lambda d: BeamSearchDecoderCTC(d._alphabet, "lm").decode(LOGITS), "LanguageModel"),
        (lambda d: build_ctcdecoder("abc"), "list"),
        (lambda d: build_ctcdecoder(["a", "a"]), "twice"),
        (lambda d: build_ctcdecoder(["▁a", " "]), "space"),
        (lambda d: build_ctcdecoder([1]), "label 0"),
        (lambda d: MultiLanguageModel([]), "two or more"),
        (lambda d: LanguageModel(d._language_model._kenlm_model, "words"), "vocabulary"),
    ],
)
def test_mistakes(lm: str, call: Any, what: str) -> None:
    with pytest.raises(InputError, match=what):
        call(build_ctcdecoder(LABELS, lm))


# ---- beside the original


def same_beams(found: Any, want: Any) -> None:
    assert len(found) == len(want)
    for a, b in zip(sorted(found), sorted(want), strict=True):
        assert a[0] == b[0]
        assert a[2] == [(word, (int(s), int(e))) for word, (s, e) in b[2]]
        assert a[3] == pytest.approx(b[3], abs=1e-6)
        assert a[4] == pytest.approx(b[4], abs=1e-6)


@pytest.mark.filterwarnings("default")
def test_pieces_of_words_as_pyctcdecode() -> None:
    theirs = pytest.importorskip("pyctcdecode")
    if theirs is ours:
        pytest.skip("a face has taken its place")
    rng = np.random.default_rng(0)
    labels = ["▁dog", "▁do", "gs", "▁dogs", "s", "▁"]
    every = {"beam_prune_logp": -60.0, "token_min_logp": -60.0, "beam_width": 100_000}
    for _ in range(5):
        x = 3 * rng.normal(size=(4, len(labels) + 1))
        found = build_ctcdecoder(labels).decode_beams(x, **every)
        want = theirs.build_ctcdecoder(labels).decode_beams(x, **every)
        assert len(found) == len(want)
        scores = {own[0]: own[4] for own in want}
        for own in found:
            assert own[4] == pytest.approx(scores[own[0]], abs=1e-6)


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
def test_as_pyctcdecode(lm: str, call: dict[str, Any], model: dict[str, Any] | None) -> None:
    theirs, kenlm = pytest.importorskip("pyctcdecode"), pytest.importorskip("kenlm")
    if theirs is ours:
        pytest.skip("a face has taken its place")
    own = kenlm.Model(lm)
    want = theirs.BeamSearchDecoderCTC(
        theirs.Alphabet.build_alphabet(LABELS),
        None if model is None else theirs.LanguageModel(own, **model),
    )
    for given in (lm, own):  # a file that trellis reads, and a model that kenlm has read
        found = BeamSearchDecoderCTC(
            Alphabet.build_alphabet(LABELS),
            None if model is None else LanguageModel(given, **model),
        )
        for x in (LOGITS, DOUBTFUL):
            same_beams(found.decode_beams(x, **call), want.decode_beams(x, **call))
            assert found.decode(x, **call) == want.decode(x, **call)


@pytest.mark.filterwarnings("default")
def test_folders_of_pyctcdecode(lm: str, tmp_path: Path) -> None:
    theirs, kenlm = pytest.importorskip("pyctcdecode"), pytest.importorskip("kenlm")
    if theirs is ours:
        pytest.skip("a face has taken its place")
    assert kenlm.Model(lm).order == 2
    folders = [tmp_path / "ours", tmp_path / "theirs"]
    for library, other, folder in zip((ours, theirs), (theirs, ours), folders, strict=True):
        folder.mkdir()
        library.build_ctcdecoder(LABELS, lm, WORDS, alpha=0.8).save_to_dir(str(folder))
        found = other.BeamSearchDecoderCTC.load_from_dir(str(folder)).decode_beams(LOGITS)
        want = library.BeamSearchDecoderCTC.load_from_dir(str(folder)).decode_beams(LOGITS)
        pair = (want, found) if library is ours else (found, want)
        same_beams(*pair)
