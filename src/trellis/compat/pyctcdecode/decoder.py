"""pyctcdecode's decoder: a `trellis.CTCDecoder` whose options come with each call."""

import math
import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis.compat.pyctcdecode.alphabet import Alphabet, verify_alphabet_coverage
from trellis.compat.pyctcdecode.constants import (
    DEFAULT_ALPHA,
    DEFAULT_BEAM_WIDTH,
    DEFAULT_BETA,
    DEFAULT_HOTWORD_WEIGHT,
    DEFAULT_MIN_TOKEN_LOGP,
    DEFAULT_PRUNE_BEAMS,
    DEFAULT_PRUNE_LOGP,
    DEFAULT_SCORE_LM_BOUNDARY,
    DEFAULT_UNK_LOGP_OFFSET,
    LOG_BASE_CHANGE_FACTOR,
    MIN_TOKEN_CLIP_P,
)
from trellis.compat.pyctcdecode.language_model import (
    AbstractLanguageModel,
    LanguageModel,
    load_unigram_set_from_arpa,
)
from trellis.errors import FormatError, InputError
from trellis.models.ctc.decoder import CTCDecoder, Transcript
from trellis.models.ctc.language_model import Language, is_kenlm, read_hot_words

__all__ = ["BeamSearchDecoderCTC", "build_ctcdecoder"]

Frames: TypeAlias = tuple[int, int]
WordFrames: TypeAlias = tuple[str, Frames]
OutputBeam: TypeAlias = tuple[str, Any, list[WordFrames], float, float]
"""Text, the language model's state, words with their frames, log p of the frames, score."""
OutputBeamMPSafe: TypeAlias = tuple[str, list[WordFrames], float, float]

_KEPT = 8  # decoders of different options that are kept for the next call


class BeamSearchDecoderCTC:
    """Beam search over texts. Language models are kept in the class, as pyctcdecode does."""

    model_container: ClassVar[dict[bytes, AbstractLanguageModel | None]] = {}

    _ALPHABET_SERIALIZED_FILENAME = "alphabet.json"
    _LANGUAGE_MODEL_SERIALIZED_DIRECTORY = "language_model"

    def __init__(
        self, alphabet: Alphabet, language_model: AbstractLanguageModel | None = None
    ) -> None:
        if not isinstance(alphabet, Alphabet):
            raise InputError(f"alphabet is {type(alphabet).__name__}: must be an Alphabet")
        if "" not in alphabet.labels:
            raise InputError('no label of the alphabet is "", the blank')
        self._alphabet = alphabet
        self._is_bpe = alphabet.is_bpe
        self._idx2vocab = dict(enumerate(alphabet.labels))
        self._model_key = os.urandom(16)
        self._decoders: dict[Any, CTCDecoder] = {}  # by their options
        self._decoders_of: Any = None  # the language model that they have
        BeamSearchDecoderCTC.model_container[self._model_key] = language_model

    # ---- the language model

    def reset_params(
        self,
        alpha: float | None = None,
        beta: float | None = None,
        unk_score_offset: float | None = None,
        lm_score_boundary: bool | None = None,
    ) -> None:
        """Change parameters of the language model; those that are None stay."""
        if self._language_model is not None:
            self._language_model.reset_params(
                alpha=alpha,
                beta=beta,
                unk_score_offset=unk_score_offset,
                score_boundary=lm_score_boundary,
            )

    @classmethod
    def clear_class_models(cls) -> None:
        """Forget the language models of all decoders."""
        cls.model_container = {}

    def cleanup(self) -> None:
        """Forget the language model of this decoder."""
        self._decoders, self._decoders_of = {}, None
        BeamSearchDecoderCTC.model_container.pop(self._model_key, None)

    @property
    def _language_model(self) -> AbstractLanguageModel | None:
        try:
            return BeamSearchDecoderCTC.model_container[self._model_key]
        except KeyError:
            raise InputError("the language model of this decoder was cleaned up") from None

    def __getstate__(self) -> dict[str, Any]:
        # the core cannot be pickled, and is made again
        return {**self.__dict__, "_decoders": {}, "_decoders_of": None}

    # ---- decoding

    def decode(
        self,
        logits: NDArray[Any],
        beam_width: int = DEFAULT_BEAM_WIDTH,
        beam_prune_logp: float = DEFAULT_PRUNE_LOGP,
        token_min_logp: float = DEFAULT_MIN_TOKEN_LOGP,
        hotwords: Iterable[str] | None = None,
        hotword_weight: float = DEFAULT_HOTWORD_WEIGHT,
        lm_start_state: Any = None,
    ) -> str:
        """The best text of (time, vocabulary) probabilities, or logarithms of them, or logits."""
        cuts = (beam_width, beam_prune_logp, token_min_logp)
        decoder = self._decoder(*cuts, hotwords, hotword_weight)
        return decoder.decode(self._log_probs(logits), start=lm_start_state)

    def decode_beams(
        self,
        logits: NDArray[Any],
        beam_width: int = DEFAULT_BEAM_WIDTH,
        beam_prune_logp: float = DEFAULT_PRUNE_LOGP,
        token_min_logp: float = DEFAULT_MIN_TOKEN_LOGP,
        prune_history: bool = DEFAULT_PRUNE_BEAMS,
        hotwords: Iterable[str] | None = None,
        hotword_weight: float = DEFAULT_HOTWORD_WEIGHT,
        lm_start_state: Any = None,
    ) -> list[OutputBeam]:
        """All texts of the last beam, best first."""
        cuts = (beam_width, beam_prune_logp, token_min_logp)
        decoder = self._decoder(*cuts, hotwords, hotword_weight)
        found = decoder.decode_beams(
            self._log_probs(logits),
            k=beam_width,
            start=lm_start_state,
            prune_history=prune_history,
        )
        return [(own.text, own.state, _frames(own), own.acoustic, own.score) for own in found]

    def decode_batch(
        self,
        pool: Any,
        logits_list: Sequence[NDArray[Any]],
        beam_width: int = DEFAULT_BEAM_WIDTH,
        beam_prune_logp: float = DEFAULT_PRUNE_LOGP,
        token_min_logp: float = DEFAULT_MIN_TOKEN_LOGP,
        hotwords: Iterable[str] | None = None,
        hotword_weight: float = DEFAULT_HOTWORD_WEIGHT,
    ) -> list[str]:
        """The best text of each, by threads: the pool of processes is not needed, and not used."""
        cuts = (beam_width, beam_prune_logp, token_min_logp)
        decoder = self._decoder(*cuts, hotwords, hotword_weight)
        return decoder.decode_batch(self._batch(logits_list))

    def decode_beams_batch(
        self,
        pool: Any,
        logits_list: Sequence[NDArray[Any]],
        beam_width: int = DEFAULT_BEAM_WIDTH,
        beam_prune_logp: float = DEFAULT_PRUNE_LOGP,
        token_min_logp: float = DEFAULT_MIN_TOKEN_LOGP,
        prune_history: bool = DEFAULT_PRUNE_BEAMS,
        hotwords: Iterable[str] | None = None,
        hotword_weight: float = DEFAULT_HOTWORD_WEIGHT,
    ) -> list[list[OutputBeamMPSafe]]:
        """All texts of the last beam of each, without states; the pool is not used."""
        cuts = (beam_width, beam_prune_logp, token_min_logp)
        decoder = self._decoder(*cuts, hotwords, hotword_weight)
        batch = self._batch(logits_list)
        rows = decoder.decode_beams_batch(batch, k=beam_width, prune_history=prune_history)
        return [[(own.text, _frames(own), own.acoustic, own.score) for own in row] for row in rows]

    def _decoder(
        self,
        beam_width: int,
        beam_prune_logp: float,
        token_min_logp: float,
        hotwords: Iterable[str] | None,
        hotword_weight: float,
    ) -> CTCDecoder:
        """The decoder of these options, and of the language model as it is now."""
        lm = self._language_model
        if lm is not self._decoders_of:
            self._decoders, self._decoders_of = {}, lm
        model = _options(lm)
        hot = read_hot_words(hotwords)
        weights = [v for name, v in model.items() if name not in ("lm", "vocabulary")]
        options = (beam_width, beam_prune_logp, token_min_logp, hotword_weight, *weights)
        key = (*hot, *map(repr, options))
        if key not in self._decoders:
            made = self._make(options[:3], hot, hotword_weight, model)
            if len(self._decoders) >= _KEPT:
                self._decoders.pop(next(iter(self._decoders)))
            self._decoders[key] = made
        return self._decoders[key]

    def _make(
        self, cuts: Any, hotwords: list[str], hotword_weight: float, model: dict[str, Any]
    ) -> CTCDecoder:
        labels = self._alphabet.labels
        return CTCDecoder(
            labels,
            units="bpe" if self._is_bpe else "characters",
            blank=labels.index(""),
            beam_width=cuts[0],
            beam_prune_logp=cuts[1],
            token_min_logp=cuts[2],
            hotwords=hotwords,
            hotword_weight=hotword_weight,
            **model,
        )

    def _batch(self, logits_list: Any) -> list[NDArray[Any]]:
        found = []
        for i, logits in enumerate(logits_list):
            try:
                found.append(self._log_probs(logits))
            except InputError as error:
                raise InputError(f"sequence {i}: {error}") from None
        return found

    def _log_probs(self, logits: Any) -> NDArray[Any]:
        """Rows that sum to 1 are probabilities; all others become so by a softmax."""
        x = np.asarray(logits)
        if x.ndim != 2 or x.shape[1] != len(self._idx2vocab):
            raise InputError(
                f"logits have shape {x.shape}: must be (time, {len(self._idx2vocab)}), as many "
                "columns as labels"
            )
        if x.dtype.kind not in "fiu":
            raise InputError(f"logits are {x.dtype}: must be numbers")
        if len(x) == 0:  # no frame says as much as one that is a blank for certain
            x = np.array([[float(label == "") for label in self._idx2vocab.values()]])
        looks_like_p = math.isclose(x.sum(axis=1).mean(), 1)  # in its own precision, as they do
        x = x.astype(np.float64)
        if np.isnan(x).any() or not np.isfinite(x.max(axis=1)).all():
            raise InputError("logits hold NaN, or a frame of them nothing finite")
        if looks_like_p:
            found: NDArray[Any] = np.log(np.clip(x, MIN_TOKEN_CLIP_P, 1.0))
            return found
        x -= x.max(axis=1, keepdims=True)
        x -= np.log(np.exp(x).sum(axis=1, keepdims=True))
        return x.clip(math.log(MIN_TOKEN_CLIP_P), 0.0)

    # ---- files

    def save_to_dir(self, filepath: str) -> None:
        """Save the alphabet, and in a folder of its own the language model."""
        folder = Path(filepath)
        (folder / self._ALPHABET_SERIALIZED_FILENAME).write_text(self._alphabet.dumps())
        if self._language_model is not None:
            own = folder / self._LANGUAGE_MODEL_SERIALIZED_DIRECTORY
            own.mkdir(parents=True)
            self._language_model.save_to_dir(str(own))

    @staticmethod
    def parse_directory_contents(filepath: str) -> dict[str, str | None]:
        """Where alphabet and language model are in a folder; hidden files do not count."""
        found = sorted(f for f in os.listdir(filepath) if not f.startswith((".", "__")))
        alphabet = BeamSearchDecoderCTC._ALPHABET_SERIALIZED_FILENAME
        language = BeamSearchDecoderCTC._LANGUAGE_MODEL_SERIALIZED_DIRECTORY
        if alphabet not in found:
            raise FormatError(f"{filepath}: there is no {alphabet}, but {found}")
        if len(found) > 1 and language not in found:
            raise FormatError(f"{filepath}: there is no folder {language}, but {found}")
        return {
            "alphabet": os.path.join(filepath, alphabet),
            "language_model": os.path.join(filepath, language) if len(found) > 1 else None,
        }

    @classmethod
    def load_from_dir(
        cls, filepath: str, unigram_encoding: str | None = None
    ) -> "BeamSearchDecoderCTC":
        """Load a decoder that either library saved."""
        files = cls.parse_directory_contents(filepath)
        path, language = files["alphabet"], files["language_model"]
        assert path is not None
        try:
            alphabet = Alphabet.loads(Path(path).read_text(encoding="utf-8"))
        except (FormatError, UnicodeDecodeError) as error:
            raise FormatError(f"{path}: {error}") from None
        if language is None:
            return cls(alphabet)
        return cls(alphabet, LanguageModel.load_from_dir(language, unigram_encoding))

    @classmethod
    def load_from_hf_hub(
        cls, model_id: str, cache_dir: str | None = None, **kwargs: Any
    ) -> "BeamSearchDecoderCTC":
        """Load a decoder from the Hugging Face hub; needs the package ``huggingface_hub``."""
        try:
            from huggingface_hub import snapshot_download
        except ImportError:
            raise ImportError("load_from_hf_hub needs huggingface_hub: pip install it") from None
        cache = cache_dir or str(Path.home() / ".cache" / "pyctcdecode")
        return cls.load_from_dir(snapshot_download(model_id, cache_dir=cache, **kwargs))


def _frames(own: Transcript) -> list[WordFrames]:
    return [(word.text, (word.start, word.end)) for word in own.words]


def _options(lm: Any) -> dict[str, Any]:
    """A language model as `CTCDecoder` takes it."""
    if lm is None:
        return {}
    if type(lm) is LanguageModel:
        return {
            "lm": lm._kenlm_model,
            "vocabulary": lm._unigram_set,
            "alpha": lm.alpha,
            "beta": lm.beta,
            "unk_score_offset": lm.unk_score_offset,
            "boundary": lm.score_boundary,
        }
    if not isinstance(lm, AbstractLanguageModel):
        raise InputError(f"language_model is {type(lm).__name__}: must be a LanguageModel")
    own = Language(foreign=lambda start: _Session(lm, start))
    return {"lm": own, "alpha": 1.0, "beta": 0.0, "unk_score_offset": 0.0}


class _Session:
    """Any language model for one sequence: its states by number, and how each was reached."""

    def __init__(self, lm: AbstractLanguageModel, start: Any) -> None:
        first = lm.get_start_state() if start is None else start
        self._lm = lm
        self._states = [first]
        self._reached: list[tuple[Any, str, float]] = [(first, "", 0.0)]

    def begin(self) -> int:
        return 0

    def kept(self, state: int) -> Any:
        return self._states[state]

    def score(self, state: int, word: str) -> tuple[float, int, bool]:
        before = self._states[state]
        score, after = self._lm.score(before, word)
        self._states.append(after)
        self._reached.append((before, word, score))
        return score / LOG_BASE_CHANGE_FACTOR, len(self._states) - 1, True

    def end(self, state: int) -> float:
        before, word, score = self._reached[state]
        last, _ = self._lm.score(before, word, is_last_word=True)
        return (last - score) / LOG_BASE_CHANGE_FACTOR

    def beginning(self, word: str) -> float:
        return self._lm.score_partial_token(word)


def build_ctcdecoder(
    labels: list[str],
    kenlm_model_path: str | None = None,
    unigrams: Collection[str] | None = None,
    alpha: float = DEFAULT_ALPHA,
    beta: float = DEFAULT_BETA,
    unk_score_offset: float = DEFAULT_UNK_LOGP_OFFSET,
    lm_score_boundary: bool = DEFAULT_SCORE_LM_BOUNDARY,
) -> BeamSearchDecoderCTC:
    """A decoder of these labels, with a language model if there is a file of one.

    Of an ARPA file that has words without a back-off weight, pass all its words as ``unigrams``:
    pyctcdecode takes only the others by itself, and so does this.
    """
    alphabet = Alphabet.build_alphabet(labels)
    if kenlm_model_path is None:
        return BeamSearchDecoderCTC(alphabet)
    if unigrams is None and not is_kenlm(kenlm_model_path):
        unigrams = load_unigram_set_from_arpa(kenlm_model_path)
    if unigrams is not None:
        verify_alphabet_coverage(alphabet, unigrams)
    weights = (alpha, beta, unk_score_offset, lm_score_boundary)
    return BeamSearchDecoderCTC(alphabet, LanguageModel(kenlm_model_path, unigrams, *weights))
