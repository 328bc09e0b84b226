"""CTC beam search: from the log-probabilities of a network to text, with a language model.

    score(text) = log p(text | frames) + Σ over its words of (α ln p(word | words before) + β)

At the end of the frames, α ln p(end | words) is added. `CTCDecoder` searches for the text with the
best score. docs/ctc.md explains the search, and cpp/core/ctc/word_search.hpp implements it.
"""

import math
import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from trellis import _core
from trellis.checks import as_positive
from trellis.errors import InfeasibleError, InputError
from trellis.estimator import names_arguments
from trellis.formats.arpa import NGramModel
from trellis.inference import ctc
from trellis.inference.ctc.inputs import Array, FrameBatch, prepare
from trellis.models.ctc.labels import read_labels
from trellis.models.ctc.language_model import (
    read_hot_words,
    read_language,
    read_lexicon,
    read_vocabulary,
)
from trellis.models.ctc.stream import Stream, check_width
from trellis.models.ctc.transcripts import (
    Aligned,
    Partial,
    Transcript,
    Unit,
    Word,
    joint_confidence,
    transcript,
)
from trellis.native import resolve_jobs

__all__ = ["Aligned", "CTCDecoder", "Partial", "Stream", "Transcript", "Unit", "Word"]


class CTCDecoder:
    """Decode CTC emissions to text by beam search with a word n-gram model.

    Parameters
    ----------
    labels
        The text of each label of the network: characters, pieces of words (``▁`` or ``##``) or
        words. `trellis.models.ctc.labels` describes how the kind and the blank are recognised.
    lm
        The language model: a path to an ARPA file (compressed or not) or to a KenLM binary (needs
        the ``kenlm`` package), an `NGramModel`, a ``kenlm.Model``, or None.
    alpha, beta
        The weight of the language model, and the bonus of each word.
    beam_width
        The number of texts that are kept after each frame.
    token_min_logp
        Labels with a lower log-probability are not tried, except the most probable one.
    beam_prune_logp
        A text is dropped if its score minus the best score is below this number (at most 0).
    hotwords, hotword_weight
        Words that are expected in the text, and the bonus of each.
    lexicon
        The only words that may be returned: a list, or a file with one word per line, optionally
        followed by a tab and its labels. Words that the labels cannot spell are never returned.
    vocabulary
        The words that the language model knows. With None, they are read from the model. A KenLM
        binary does not list its words, so every beginning of a word is accepted. With an empty
        list, no beginning of a word is known, but complete words are still scored by the model.
    boundary
        Whether a text starts with ``<s>`` and ends with ``</s>``.
    unk_score_offset
        This number is added to log10 p of a word that the language model does not know. It is also
        the score of an incomplete word if no known word begins with it.
    blank, units
        The index of the blank and the kind of labels. Set them if they are not detected correctly.
    n_jobs
        Number of threads for batches; None uses all cores.

    Examples
    --------
    >>> import numpy as np
    >>> decoder = CTCDecoder(["", " ", "a", "b"])
    >>> p = np.full((5, 4), 0.02)
    >>> for t, label in enumerate([2, 0, 2, 1, 3]):
    ...     p[t, label] = 0.94
    >>> decoder.decode(np.log(p))
    'aa b'
    >>> best = decoder.decode_beams(np.log(p), k=1)[0]
    >>> best.words
    [Word(text='aa', start=0, end=3), Word(text='b', start=4, end=5)]

    """

    @names_arguments
    def __init__(
        self,
        labels: Sequence[str],
        *,
        lm: str | os.PathLike[str] | NGramModel | Any | None = None,
        alpha: float = 0.5,
        beta: float = 1.5,
        beam_width: int = 100,
        hotwords: Iterable[str] | None = None,
        hotword_weight: float = 10.0,
        lexicon: str | os.PathLike[str] | Iterable[str] | None = None,
        vocabulary: Iterable[str] | None = None,
        boundary: bool = True,
        token_min_logp: float | None = -5.0,
        beam_prune_logp: float | None = -10.0,
        unk_score_offset: float = -10.0,
        blank: int | None = None,
        units: str = "auto",
        n_jobs: int | None = None,
    ) -> None:
        self._labels = read_labels(labels, blank, units)
        self._jobs = resolve_jobs(n_jobs)
        width = as_positive(beam_width, "beam_width")
        prune_threshold = _check_number(beam_prune_logp, "beam_prune_logp", infinite=True)
        if prune_threshold > 0:
            raise InputError(f"beam_prune_logp is {prune_threshold}: must be at most 0")
        options = (
            _check_number(alpha, "alpha"),
            _check_number(beta, "beta"),
            _check_number(unk_score_offset, "unk_score_offset"),
            _check_number(hotword_weight, "hotword_weight"),
            _check_number(token_min_logp, "token_min_logp", infinite=True),
            prune_threshold,
            width,
            self._labels.blank,
            self._labels.space,
        )
        language = read_language(lm, bool(boundary))
        allowed_words = read_lexicon(lexicon, self._labels)
        vocabulary_words = read_vocabulary(vocabulary)
        if vocabulary_words is None and allowed_words and language.foreign:
            vocabulary_words = (
                allowed_words.words
            )  # a Python model cannot list its words, so the lexicon is used
        pieces = [(text, starts, ends) for text, starts, ends in self._labels.pieces]
        hot_words = read_hot_words(hotwords)
        # Stored, because a copy of this object builds the native decoder again.
        self._parts = (
            pieces,
            options,
            language,
            vocabulary_words,
            hot_words,
            bool(boundary),
            allowed_words,
        )
        self._build()

    def _build(self) -> None:
        """Build the native decoder."""
        pieces, options, language, vocabulary_words, hot_words, has_boundary, lexicon = self._parts
        model = None if language.model is None else language.model.core
        self._core = _core.CtcWords(
            pieces, options, model, language.foreign, vocabulary_words, hot_words, has_boundary
        )
        if lexicon:
            self._core.allow(lexicon.words, lexicon.spellings)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_core"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._build()

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels as they were passed to the constructor."""
        return self._labels.labels

    @property
    def blank(self) -> int:
        """The index of the blank."""
        return self._labels.blank

    @property
    def units(self) -> str:
        """The kind of labels: ``characters``, ``bpe`` or ``words``."""
        return self._labels.units

    def decode(self, log_probs: Array, *, logits: bool = False, start: Any = None) -> str:
        """Return the best text for log-probabilities ``(T, V)``.

        With ``logits``, the input may be any scores. ``start`` is the ``state`` of the `Transcript`
        of the preceding text, or None.
        """
        ((best,),) = self._decode([log_probs], None, logits, 1, timed=False, start=start)
        return " ".join(best[0])

    def decode_batch(
        self,
        batch: Array | Sequence[Array],
        *,
        lengths: Array | Sequence[int] | None = None,
        logits: bool = False,
    ) -> list[str]:
        """Return the best text for each array of a list, or for ``(B, T, V)`` with `lengths`.

        Of several hypotheses with the same language model state and the same unfinished word, only
        the best stays in the beam. This is faster. `decode_beams` keeps all hypotheses.
        """
        hypotheses = self._decode(batch, lengths, logits, 1, timed=False)
        return [" ".join(best[0]) for (best,) in hypotheses]

    def decode_beams(
        self,
        log_probs: Array,
        *,
        k: int = 10,
        logits: bool = False,
        start: Any = None,
        prune_history: bool = False,
    ) -> list[Transcript]:
        """Return the `k` best texts, best first, with the times of their words.

        ``start`` is the ``state`` of the `Transcript` of the preceding text. With
        ``prune_history``, of several hypotheses with the same language model state and the same
        unfinished word, only the best stays in the beam.
        """
        count, merges_histories = as_positive(k, "k"), bool(prune_history)
        (hypotheses,) = self._decode(
            [log_probs], None, logits, count, timed=True, start=start, merge=merges_histories
        )
        return [transcript(*hypothesis) for hypothesis in hypotheses]

    def decode_beams_batch(
        self,
        batch: Array | Sequence[Array],
        *,
        lengths: Array | Sequence[int] | None = None,
        k: int = 10,
        logits: bool = False,
        prune_history: bool = False,
    ) -> list[list[Transcript]]:
        """Return the `k` best texts for each item of a batch, like `decode_beams`."""
        count, merges_histories = as_positive(k, "k"), bool(prune_history)
        batch_hypotheses = self._decode(
            batch, lengths, logits, count, timed=True, merge=merges_histories
        )
        return [
            [transcript(*hypothesis) for hypothesis in hypotheses]
            for hypotheses in batch_hypotheses
        ]

    def stream(self, *, logits: bool = False) -> "Stream":
        """Return a decoder for frames that arrive one chunk at a time."""
        return Stream(self._core, self._labels, logits)

    def align(self, log_probs: Array, text: str, *, logits: bool = False) -> Aligned:
        """Return the times of each word and each label of a known text.

        >>> import numpy as np
        >>> decoder = CTCDecoder(["", " ", "a", "b"])
        >>> x = np.log([[0.1, 0.1, 0.7, 0.1], [0.1, 0.7, 0.1, 0.1], [0.1, 0.1, 0.1, 0.7]])
        >>> [(word.text, word.start, word.end) for word in decoder.align(x, "a b").words]
        [('a', 0, 1), ('b', 2, 3)]
        """
        if not isinstance(text, str):
            raise InputError(f"text must be a str, not {type(text).__name__}")
        words = text.split()
        frames = self._validate_frames(log_probs, "log_probs").scores[0]
        if logits:
            from scipy.special import log_softmax

            frames = log_softmax(frames, axis=1)
        spellings = [self._labels.spell(word) for word in words]
        separator = [self._labels.space] if self._labels.space >= 0 else []
        target = [
            label for i, word in enumerate(spellings) for label in (separator if i else []) + word
        ]
        path = ctc.align(frames, target, blank=self._labels.blank, n_jobs=1)
        assert isinstance(path, ctc.Alignment)
        units = [
            Unit(self._labels.labels[label], int(start), int(end), float(confidence))
            for label, start, end, confidence in zip(target, *path[1:4], strict=True)
        ]
        timed_words, begin = [], 0
        for word, spelling in zip(words, spellings, strict=True):
            word_units = units[begin : begin + len(spelling)]
            confidence = joint_confidence(word_units)
            timed_words.append(Unit(word, word_units[0].start, word_units[-1].end, confidence))
            begin += len(spelling) + len(separator)
        return Aligned(timed_words, units, path.score)

    def _validate_frames(self, log_probs: Any, name: str) -> FrameBatch:
        """Return one array ``(T, V)``, validated, as a batch."""
        frame_batch = prepare(log_probs, self._labels.blank, None)
        if not frame_batch.single:
            raise InputError(f"{name} has shape {np.shape(log_probs)}: must be (T, V)")
        check_width(frame_batch.scores, self._labels, name)
        return frame_batch

    def _decode(
        self,
        batch: Any,
        lengths: Any,
        logits: bool,
        k: int,
        timed: bool,
        start: Any = None,
        merge: bool | None = None,
    ) -> list[list[Any]]:
        """Return up to k hypotheses of the core for each item; with ``timed``, also word times."""
        items = self._split_batch(batch, lengths)
        use_float64 = any(item.dtype == np.float64 for item in items)
        decode = self._core.decode_float64 if use_float64 else self._core.decode_float32
        dtype = np.float64 if use_float64 else np.float32
        arrays = [np.require(item, dtype, ["C", "A"]) for item in items]
        merge = not timed if merge is None else merge
        try:
            hypotheses = decode(arrays, bool(logits), k, merge, timed, self._jobs, start)
        except (ValueError, TypeError) as error:
            if start is None:
                raise
            raise InputError(f"start is {start!r:.80}: {error}") from None
        for i, hypotheses_of_item in enumerate(hypotheses):
            if not hypotheses_of_item:
                raise InfeasibleError(
                    "sequence {sequence}: every text has probability 0", sequence=i
                )
        return hypotheses

    def _split_batch(self, batch: Any, lengths: Any) -> list[Array]:
        """Return an array ``(T, V)`` for each item of a batch."""
        if isinstance(batch, np.ndarray) and batch.ndim == 3:
            frame_batch = prepare(batch, self._labels.blank, lengths)
            check_width(frame_batch.scores, self._labels, "batch")
            return [
                row[:length]
                for row, length in zip(frame_batch.scores, frame_batch.lengths, strict=True)
            ]
        if lengths is not None:
            raise InputError("lengths can only be used with a (B, T, V) array")
        if isinstance(batch, np.ndarray) or not isinstance(batch, Sequence):
            raise InputError("batch must be a list of (T, V) arrays or a (B, T, V) array")
        items = []
        for i, log_probs in enumerate(batch):
            try:
                items.append(self._validate_frames(log_probs, "log_probs").scores[0])
            except InputError as error:
                raise InputError(f"sequence {{sequence}}: {error}", sequence=i) from None
        return items


def _check_number(value: Any, name: str, infinite: bool = False) -> float:
    """Return a finite float. With ``infinite``, it may also be -inf, and None means -inf."""
    if value is None and infinite:
        return -math.inf
    if isinstance(value, bool | str):
        raise InputError(f"{name} must be a number, not {value!r}")
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a number, not {value!r}") from None
    if math.isnan(number) or (math.isinf(number) and not (infinite and number < 0)):
        expected = "a number or -inf" if infinite else "finite"
        raise InputError(f"{name} is {number}: must be {expected}")
    return number
