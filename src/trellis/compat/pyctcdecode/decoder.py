"""pyctcdecode's decoder: a `trellis.CTCDecoder` whose options are arguments of each call."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias

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
from trellis.data.atomic import replacing
from trellis.errors import FormatError, InputError
from trellis.models.ctc.decoder import CTCDecoder, Transcript
from trellis.models.ctc.language_model import Language, is_kenlm, read_hot_words

__all__ = ["BeamSearchDecoderCTC", "build_ctcdecoder"]

Frames: TypeAlias = tuple[int, int]
WordFrames: TypeAlias = tuple[str, Frames]
OutputBeam: TypeAlias = tuple[str, Any, list[WordFrames], float, float]
"""Text, the language model's state, words with their frames, log p of the frames, score."""
OutputBeamMPSafe: TypeAlias = tuple[str, list[WordFrames], float, float]

_MAX_DECODERS = 8  # decoders with different options in the cache; the oldest one is removed


class _SearchOptions(NamedTuple):
    """The options that every decoding method has."""

    beam_width: int
    beam_prune_logp: float
    token_min_logp: float
    hotwords: Iterable[str] | None
    hotword_weight: float


class BeamSearchDecoderCTC:
    """Beam search over texts. As in pyctcdecode, the class stores the language models."""

    model_container: ClassVar[dict[bytes, AbstractLanguageModel | None]] = {}

    _ALPHABET_SERIALIZED_FILENAME = "alphabet.json"
    _LANGUAGE_MODEL_SERIALIZED_DIRECTORY = "language_model"

    def __init__(
        self, alphabet: Alphabet, language_model: AbstractLanguageModel | None = None
    ) -> None:
        if not isinstance(alphabet, Alphabet):
            raise InputError(f"alphabet is {type(alphabet).__name__}: must be an Alphabet")
        if "" not in alphabet.labels:
            raise InputError('alphabet has no blank: one label must be ""')
        self._alphabet = alphabet
        self._is_bpe = alphabet.is_bpe
        self._idx2vocab = dict(enumerate(alphabet.labels))
        self._model_key = os.urandom(16)  # key of the language model in `model_container`
        self._decoders: dict[Any, CTCDecoder] = {}  # cache; the keys are options
        self._cached_lm: Any = None  # the language model of the cached decoders
        BeamSearchDecoderCTC.model_container[self._model_key] = language_model

    # ---- the language model

    def reset_params(
        self,
        alpha: float | None = None,
        beta: float | None = None,
        unk_score_offset: float | None = None,
        lm_score_boundary: bool | None = None,
    ) -> None:
        """Change parameters of the language model; None leaves a parameter unchanged."""
        if self._language_model is not None:
            self._language_model.reset_params(
                alpha=alpha,
                beta=beta,
                unk_score_offset=unk_score_offset,
                score_boundary=lm_score_boundary,
            )

    @classmethod
    def clear_class_models(cls) -> None:
        """Remove the language models of all decoders."""
        cls.model_container = {}

    def cleanup(self) -> None:
        """Remove the language model of this decoder."""
        self._decoders, self._cached_lm = {}, None
        BeamSearchDecoderCTC.model_container.pop(self._model_key, None)

    @property
    def _language_model(self) -> AbstractLanguageModel | None:
        try:
            return BeamSearchDecoderCTC.model_container[self._model_key]
        except KeyError:
            raise InputError(
                "the language model of this decoder was removed by cleanup or clear_class_models"
            ) from None

    def __getstate__(self) -> dict[str, Any]:
        # Native decoders cannot be pickled; they are created again at the next call.
        return {**self.__dict__, "_decoders": {}, "_cached_lm": None}

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
        """Return the best text for probabilities, log probabilities or logits (time, labels)."""
        limits = (beam_width, beam_prune_logp, token_min_logp)
        decoder = self._get_decoder(_SearchOptions(*limits, hotwords, hotword_weight))
        return decoder.decode(self._to_log_probs(logits), start=lm_start_state)

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
        """Return all texts of the last beam, best first."""
        limits = (beam_width, beam_prune_logp, token_min_logp)
        decoder = self._get_decoder(_SearchOptions(*limits, hotwords, hotword_weight))
        beams = decoder.decode_beams(
            self._to_log_probs(logits),
            k=beam_width,
            start=lm_start_state,
            prune_history=prune_history,
        )
        return [
            (beam.text, beam.state, _word_frames(beam), beam.acoustic, beam.score) for beam in beams
        ]

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
        """Return the best text of each sequence. ``pool`` is ignored: trellis uses threads."""
        limits = (beam_width, beam_prune_logp, token_min_logp)
        decoder = self._get_decoder(_SearchOptions(*limits, hotwords, hotword_weight))
        return decoder.decode_batch(self._to_log_probs_batch(logits_list))

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
        """Return all texts of the last beam of each sequence, without states.

        ``pool`` is ignored: trellis uses threads.
        """
        limits = (beam_width, beam_prune_logp, token_min_logp)
        decoder = self._get_decoder(_SearchOptions(*limits, hotwords, hotword_weight))
        batch = self._to_log_probs_batch(logits_list)
        beam_lists = decoder.decode_beams_batch(batch, k=beam_width, prune_history=prune_history)
        return [
            [(beam.text, _word_frames(beam), beam.acoustic, beam.score) for beam in beams]
            for beams in beam_lists
        ]

    def _get_decoder(self, search: _SearchOptions) -> CTCDecoder:
        """Return the cached decoder for these options and the current language model."""
        lm = self._language_model
        if lm is not self._cached_lm:
            self._decoders, self._cached_lm = {}, lm
        lm_options = _lm_options(lm)
        hotwords = read_hot_words(search.hotwords)
        # reset_params changes the weights of a model in place, so they are part of the key. repr is
        # used because an option of a wrong type may not be hashable; CTCDecoder reports the type.
        weights = [value for name, value in lm_options.items() if name not in ("lm", "vocabulary")]
        key = (*hotwords, repr(search._replace(hotwords=None)), repr(weights))
        if key not in self._decoders:
            if len(self._decoders) >= _MAX_DECODERS:
                self._decoders.pop(next(iter(self._decoders)))
            labels = self._alphabet.labels
            self._decoders[key] = CTCDecoder(
                labels,
                units="bpe" if self._is_bpe else "characters",
                blank=labels.index(""),
                **search._replace(hotwords=hotwords)._asdict(),
                **lm_options,
            )
        return self._decoders[key]

    def _to_log_probs_batch(self, logits_list: Any) -> list[NDArray[Any]]:
        """Return the log probabilities of each sequence. Error messages name the sequence."""
        batch = []
        for i, logits in enumerate(logits_list):
            try:
                batch.append(self._to_log_probs(logits))
            except InputError as error:
                raise InputError(f"sequence {{sequence}}: {error}", sequence=i) from None
        return batch

    def _to_log_probs(self, logits: Any) -> NDArray[Any]:
        """Return log probabilities (time, labels), in float64.

        If the mean sum of the rows is 1, the input contains probabilities. Otherwise it contains
        logits or log probabilities, and a softmax is applied, which does not change the latter.
        """
        x = np.asarray(logits)
        if x.ndim != 2 or x.shape[1] != len(self._idx2vocab):
            raise InputError(
                f"logits have shape {x.shape}: must be (time, {len(self._idx2vocab)}), with one "
                "column for each label"
            )
        if x.dtype.kind not in "fiu":
            raise InputError(f"logits are {x.dtype}: must be numbers")
        if len(x) == 0:  # the result is that of one frame in which the blank has probability 1
            x = np.array([[float(label == "") for label in self._idx2vocab.values()]])
        # As in pyctcdecode, the sum has the precision of the input, so it is computed before the
        # conversion to float64.
        are_probabilities = math.isclose(x.sum(axis=1).mean(), 1)
        x = x.astype(np.float64)
        if np.isnan(x).any() or not np.isfinite(x.max(axis=1)).all():
            raise InputError("logits contain NaN, or a frame whose maximum is not finite")
        if are_probabilities:
            log_p: NDArray[Any] = np.log(np.clip(x, MIN_TOKEN_CLIP_P, 1.0))
            return log_p
        x -= x.max(axis=1, keepdims=True)
        x -= np.log(np.exp(x).sum(axis=1, keepdims=True))
        return x.clip(math.log(MIN_TOKEN_CLIP_P), 0.0)

    # ---- files

    def save_to_dir(self, filepath: str) -> None:
        """Save the alphabet, and the language model in a subfolder."""
        folder = Path(filepath)
        with replacing(folder / self._ALPHABET_SERIALIZED_FILENAME) as file:
            file.write(self._alphabet.dumps().encode())
        if self._language_model is not None:
            subfolder = folder / self._LANGUAGE_MODEL_SERIALIZED_DIRECTORY
            subfolder.mkdir()
            self._language_model.save_to_dir(str(subfolder))

    @staticmethod
    def parse_directory_contents(filepath: str) -> dict[str, str | None]:
        """Return the paths of a saved decoder by role: alphabet, language_model (or None).

        Hidden files are ignored.
        """
        names = sorted(name for name in os.listdir(filepath) if not name.startswith((".", "__")))
        alphabet = BeamSearchDecoderCTC._ALPHABET_SERIALIZED_FILENAME
        language = BeamSearchDecoderCTC._LANGUAGE_MODEL_SERIALIZED_DIRECTORY
        if alphabet not in names:
            raise FormatError(
                f"{filepath}: the folder must contain the file {alphabet}; it contains {names}"
            )
        if len(names) > 1 and language not in names:
            raise FormatError(
                f"{filepath}: the folder must contain the folder {language}; it contains {names}"
            )
        return {
            "alphabet": os.path.join(filepath, alphabet),
            "language_model": os.path.join(filepath, language) if len(names) > 1 else None,
        }

    @classmethod
    def load_from_dir(
        cls, filepath: str, unigram_encoding: str | None = None
    ) -> BeamSearchDecoderCTC:
        """Load a decoder from a folder that trellis or pyctcdecode saved."""
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
    ) -> BeamSearchDecoderCTC:
        """Load a decoder from the Hugging Face hub; needs the package ``huggingface_hub``."""
        try:
            from huggingface_hub import snapshot_download
        except ImportError:
            raise ImportError(
                "load_from_hf_hub needs huggingface_hub: pip install huggingface_hub"
            ) from None
        cache = cache_dir or str(Path.home() / ".cache" / "pyctcdecode")
        return cls.load_from_dir(snapshot_download(model_id, cache_dir=cache, **kwargs))


def _word_frames(transcript: Transcript) -> list[WordFrames]:
    return [(word.text, (word.start, word.end)) for word in transcript.words]


def _lm_options(lm: Any) -> dict[str, Any]:
    """Return the arguments of `CTCDecoder` for a language model."""
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
    language = Language(foreign=lambda start: _Session(lm, start))
    # The scores of other classes contain the weights already. alpha=1 and beta=0 do not change
    # them.
    return {"lm": language, "alpha": 1.0, "beta": 0.0, "unk_score_offset": 0.0}


class _Session:
    """Adapter that lets the core use a language model of any class for one sequence.

    The core uses numbers for states, so this class stores the states in a list.
    """

    def __init__(self, lm: AbstractLanguageModel, start: Any) -> None:
        start_state = lm.get_start_state() if start is None else start
        self._lm = lm
        self._states = [start_state]
        # (previous state, word, score) that led to each state
        self._steps: list[tuple[Any, str, float]] = [(start_state, "", 0.0)]

    def begin(self) -> int:
        return 0

    def kept(self, state: int) -> Any:
        return self._states[state]

    def score(self, state: int, word: str) -> tuple[float, int, bool]:
        previous_state = self._states[state]
        score, next_state = self._lm.score(previous_state, word)
        self._states.append(next_state)
        self._steps.append((previous_state, word, score))
        return score / LOG_BASE_CHANGE_FACTOR, len(self._states) - 1, True

    def end(self, state: int) -> float:
        previous_state, word, score = self._steps[state]
        total, _ = self._lm.score(previous_state, word, is_last_word=True)
        return (total - score) / LOG_BASE_CHANGE_FACTOR

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
    """Return a decoder for these labels, with the language model of a file if a path is passed.

    ``unigrams`` are the known words. By default they are the words of an ARPA file that have a
    back-off weight, as in pyctcdecode. To make all words of the file known, pass them all.
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
